"""Settings: frozen dataclasses read from TOML, ``key=value`` pairs or a short text.

Each key is a field. An unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import sys
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, Union

from affinerank.support.errors import ConfigError

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class EntrySpec:
    """A row of a table by name, with parameters; written as :meth:`parse` reads it.

    >>> spec = EntrySpec.parse("affine(clip=10/sqrt(n))")
    >>> spec.name, dict(spec.parameters), str(spec)
    ('affine', {'clip': '10/sqrt(n)'}, 'affine(clip=10/sqrt(n))')
    """

    name: str
    parameters: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, text: str) -> EntrySpec:
        """Read ``NAME`` or ``NAME(key=value, ...)``."""
        match = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", text)
        if match is None:
            raise ConfigError(
                f"expected a name, or a name with parameters as in affine(clip=0.1), "
                f"got {text!r:.80}"
            )
        parts = re.split(r",\s*(?=\w+\s*=)", match[2]) if match[2] else []
        return cls(match[1], tuple(pair(part) for part in parts))

    @classmethod
    def of(cls, value: Any, where: str = "") -> EntrySpec:
        """Read a text or a table with a ``name``, as plans hold them."""
        if isinstance(value, EntrySpec):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
            raise ConfigError(f"{where} must be a name or a table with a name")
        rest = {k: v for k, v in value.items() if k != "name"}
        return cls(value["name"], tuple(rest.items()))

    def settings(self, kind: type[T], **more: Any) -> T:
        """Build the settings that the parameters, and ``more``, say."""
        values = {**more, **dict(self.parameters)}
        raw = {k: v for k, v in values.items() if v is not None}
        return from_table(kind, raw, self.name)

    def __str__(self) -> str:
        inner = ", ".join(f"{k}={_short(v)}" for k, v in self.parameters)
        return f"{self.name}({inner})" if inner else self.name


def from_pairs(kind: type[T], pairs: Sequence[str]) -> T:
    """Build a dataclass from texts as in ``epochs=12`` or ``hidden=64,32``."""
    return from_table(kind, dict(pair(text, "--set") for text in pairs), "--set")


def from_table(kind: type[T], raw: Mapping[str, Any], where: str) -> T:
    """Build a dataclass from a parsed TOML table; ``where`` names it in errors.

    Texts are read as what the field's type says. A key that the dataclass has
    ``PASSED`` for joins its ``params``, and one of its ``OURS`` is read as that says.
    """
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{where} must be a table, got {raw!r:.60}")
    known = {f.name: f for f in dataclasses.fields(typing.cast(Any, kind)) if f.init}
    ours, on = getattr(kind, "OURS", {}), getattr(kind, "PASSED", ())
    named = {ours.get(key, key): value for key, value in raw.items()}
    more = [f"{key}={_short(named[key])}" for key in named if key in on]
    raw = {key: value for key, value in named.items() if key not in on}
    if more:
        raw["params"] = (*raw.get("params", ()), *more)
    for key in raw:
        if key not in known:
            near = hint(key, known, also=[*on, *ours])
            raise ConfigError(f"{where}: there is no key {key!r}; {near}")
    for name, entry in known.items():
        required = entry.default is entry.default_factory is dataclasses.MISSING
        if required and name not in raw:
            raise ConfigError(f"{where}: the key {name!r} is missing")
    hints = typing.get_type_hints(kind)
    values = {k: _read(hints[k], raw[k], f"{where}: {k}") for k in raw}
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def hint(name: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    """Suggest the known name that is meant, or list those known, not ``also``.

    >>> hint("estimator", ["clicks", "estimators"])
    "did you mean 'estimators'?"
    """
    names = list(known)
    near = difflib.get_close_matches(name, [*names, *also], n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"


def require_at_least(
    settings: object,
    *,
    least: Mapping[str, int],
    most: Mapping[str, int] | None = None,
    positive: Sequence[str] = (),
) -> None:
    """Reject settings out of their range, or not above 0; ``None`` passes."""
    for name, low in least.items():
        value, high = getattr(settings, name), (most or {}).get(name, 2**31 - 1)
        if value is not None and not low <= value <= high:
            up = "or more" if value < low else f"to {high}"
            raise ConfigError(f"{name} must be {low} {up}, got {value}")
    for name in positive:
        if not 0 < getattr(settings, name) < math.inf:
            raise ConfigError(f"{name} must be above 0, got {getattr(settings, name)}")


def require_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Reject what is none of the choices."""
    *others, last = choices
    if value not in (*others, last):
        right = f"{', '.join(others)} or {last}" if others else last
        raise ConfigError(f"{name} must be {right}, got {value!r}")


def to_toml(value: Any) -> str:
    """Write a dataclass as TOML that :func:`from_table` reads back."""
    plain, tables = [], []
    for entry in dataclasses.fields(value):
        content = getattr(value, entry.name)
        first = content[0] if isinstance(content, tuple) and content else content
        if dataclasses.is_dataclass(first) and not isinstance(first, EntrySpec):
            tables += [f"\n[[{entry.name}]]\n{to_toml(part)}" for part in content]
        elif content is not None:
            plain.append(f"{entry.name} = {_scalar(content)}\n")
    return "".join(plain + tables)


def _scalar(value: Any) -> str:
    if isinstance(value, EntrySpec):
        if all(isinstance(v, str | float | int) for _, v in value.parameters):
            return json.dumps(str(value))
        pairs = (("name", value.name), *value.parameters)
        return "{" + ", ".join(f"{k} = {_scalar(v)}" for k, v in pairs) + "}"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_scalar(part) for part in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def pair(text: str, where: str = "") -> tuple[str, str]:
    """Split ``KEY=VALUE``."""
    key, equals, value = text.partition("=")
    if not (key.strip() and equals):
        raise ConfigError(f"{where or text}: expected KEY=VALUE, got {text!r}")
    return key.strip(), value.strip()


def _short(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(_short(part) for part in value)
    if isinstance(value, bool):
        return str(value).lower()
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value)


def _read(hint_: Any, value: Any, where: str) -> Any:
    """Turn a value into what a field's type says, or say what was expected."""
    origin, arguments = typing.get_origin(hint_), typing.get_args(hint_)
    if origin in (Union, types.UnionType):
        if value is None or (value == "none" and type(None) in arguments):
            return None
        kinds = [a for a in arguments if a is not type(None)]
        return value if type(value) in kinds else _read(kinds[0], value, where)
    if origin is tuple:
        if isinstance(value, str) and arguments[0] is not str:
            value = value.split(",")
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} must be a list, got {value!r:.60}")
        return tuple(
            _read(arguments[0], part, f"{where}[{i}]") for i, part in enumerate(value)
        )
    if hint_ is EntrySpec:
        return EntrySpec.of(value, where)
    if dataclasses.is_dataclass(hint_):
        return from_table(typing.cast(type[Any], hint_), value, where)
    return _read_scalar(hint_, value, where)


def _read_scalar(kind: type, value: Any, where: str) -> Any:
    names = {float: "a number", int: "a whole number", str: "text", bool: "true/false"}
    if isinstance(value, str) and kind is not str:
        value = _from_text(kind, value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind is float and (whole or isinstance(value, float)):
        if abs(value) <= sys.float_info.max:  # finite
            return float(value)
    elif whole if kind is int else isinstance(value, kind):
        return value
    raise ConfigError(f"{where} must be {names[kind]}, got {value!r:.60}")


def _from_text(kind: type, text: str) -> Any:
    """Read a text as a number or true/false; what cannot be read stays a text."""
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if kind is int and number.is_integer() else number
