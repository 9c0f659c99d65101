"""TOML tables and frozen dataclasses: each key is a field, an unknown one an error."""

from __future__ import annotations

import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, Union

from affinerank.errors import ConfigError

T = TypeVar("T")


def from_table(kind: type[T], raw: Mapping[str, Any], where: str) -> T:
    """Build a dataclass from a parsed TOML table; ``where`` names it in errors."""
    known = {f.name: f for f in dataclasses.fields(typing.cast(Any, kind))}
    require_known(raw, known, where)
    for name, entry in known.items():
        required = (
            entry.default is dataclasses.MISSING
            and entry.default_factory is dataclasses.MISSING
        )
        if required and name not in raw:
            raise ConfigError(f"{where}: the key {name!r} is missing")
    hints = typing.get_type_hints(kind)
    values = {k: _read(hints[k], raw[k], f"{where}: {k}") for k in raw}
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def require_known(keys: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse a key that nothing reads, and suggest the nearest that something does."""
    for key in keys:
        if key not in known:
            raise ConfigError(f"{where}: there is no key {key!r}; {hint(key, known)}")


def hint(name: str, known: Iterable[str]) -> str:
    """Say which known name is meant, or list them.

    >>> hint("estimator", ["clicks", "estimators"])
    "did you mean 'estimators'?"
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"


def to_toml(value: Any) -> str:
    """Write a dataclass as TOML that :func:`from_table` reads back."""
    plain, tables = [], []
    for entry in dataclasses.fields(value):
        content = getattr(value, entry.name)
        if content is None:
            continue
        if dataclasses.is_dataclass(content):
            tables.append(f"\n[{entry.name}]\n{to_toml(content)}")
        elif _is_tables(content):
            tables += [f"\n[[{entry.name}]]\n{_flat(part)}" for part in content]
        else:
            plain.append(f"{entry.name} = {_scalar(content)}\n")
    return "".join(plain + tables)


def _is_tables(content: object) -> bool:
    return (
        isinstance(content, tuple)
        and bool(content)
        and all(dataclasses.is_dataclass(part) for part in content)
    )


def _flat(value: Any) -> str:
    lines = []
    for entry in dataclasses.fields(value):
        content = getattr(value, entry.name)
        if content is not None:
            lines.append(f"{entry.name} = {_scalar(content)}\n")
    return "".join(lines)


def _scalar(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        pairs = [
            f"{f.name} = {_scalar(getattr(value, f.name))}"
            for f in dataclasses.fields(value)
        ]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_scalar(part) for part in value) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


def _read(hint_: Any, value: Any, where: str) -> Any:
    """Turn a TOML value into what a field's type says, or say what was expected."""
    origin = typing.get_origin(hint_)
    if origin in (Union, types.UnionType):
        inner = next(a for a in typing.get_args(hint_) if a is not type(None))
        return _read(inner, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise ConfigError(f"{where} must be a list, got {value!r:.60}")
        inner = typing.get_args(hint_)[0]
        return tuple(
            _read(inner, part, f"{where}[{i}]") for i, part in enumerate(value)
        )
    if dataclasses.is_dataclass(hint_):
        if not isinstance(value, dict):
            raise ConfigError(f"{where} must be a table, got {value!r:.60}")
        return from_table(typing.cast(type[Any], hint_), value, where)
    return _read_scalar(hint_, value, where)


def _read_scalar(kind: type, value: Any, where: str) -> Any:
    names = {float: "a number", int: "a whole number", str: "text", bool: "true/false"}
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind is float and (whole or isinstance(value, float)):
        return float(value)
    if (kind is int and whole) or (kind is not int and isinstance(value, kind)):
        return value
    raise ConfigError(f"{where} must be {names[kind]}, got {value!r:.60}")
