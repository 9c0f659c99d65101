"""Read text, JSON and TOML that anyone may have written, within limits.

Size and depth are looked at before a parser, which may recurse, sees the text.
"""

from __future__ import annotations

import io
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.support import limits
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import PathLike, existing_file, one_line

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_FIRST_BYTES = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}
_STRING = r'"(?:[^"\\]+|\\.)*+"?'
_JSON_STRINGS = re.compile(_STRING, re.DOTALL)
_TOML_STRINGS = re.compile(
    r'"""(?:[^"\\]+|\\.|"(?!""))*+(?:""")?'
    r"|'''(?:[^']+|'(?!''))*+(?:''')?"
    rf"|{_STRING}|'[^'\n]*+'?|\#[^\n]*+",
    re.DOTALL,
)
_DEPTH = np.zeros(256, dtype=np.int8)
_DEPTH[[*b"[{"]], _DEPTH[[*b"]}"]] = 1, -1
SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_text(path: PathLike, most: int) -> str:
    """Read text in UTF-8 of at most so many bytes."""
    source = existing_file(path)
    try:
        with source.open("rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise ValueError(f"expected at most {most:,} bytes")
        text = data.decode().replace("\r\n", "\n")
        if text.startswith("\ufeff") or "\0" in text:
            raise ValueError("holds a byte order mark or NUL; save it without")
    except (OSError, ValueError) as error:
        raise DataError(f"{source}: not text: {one_line(error)}") from None
    return text


@contextmanager
def text_stream(path: Path, *, by_content: bool = False) -> Iterator[Any]:
    """Open a text that may be compressed, by its name or by its first bytes."""
    import pyarrow as pa

    kind = COMPRESSIONS.get(path.suffix.lower())
    try:
        with path.open("rb") as file:
            if by_content:
                kind = _FIRST_BYTES.get(file.peek(2)[:2])
            with pa.input_stream(file, compression=kind) as stream:
                yield stream
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{path}: could not be read to its end ({one_line(error)[:200]}); is the "
            "file complete?"
        ) from None


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, which may be compressed, to its very end."""
    with text_stream(path) as stream:
        read = io.BufferedReader(stream, 2**20).readline
        most = limits.LINE_BYTES
        for number, line in enumerate(iter(partial(read, most + 1), b""), start=1):
            if len(line) > most:
                raise DataError(f"{path}, line {number}: over {most} bytes")
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise DataError(f"{path}, line {number}: expected UTF-8 text") from None


def parse_json(text: str, **how: Any) -> Any:
    """Parse JSON; reject what it leaves open: repeated keys, lone surrogates."""
    found = json.loads(text, object_pairs_hook=_object, **how)
    if "\\u" in text:
        json.dumps(found, ensure_ascii=False).encode()
    return found


def read_json(path: PathLike) -> Any:
    """Read JSON of finite numbers, as :func:`parse_json`."""
    text = read_text(path, limits.TEXT_BYTES)
    try:
        _require_shallow(_JSON_STRINGS.sub("", text))
        how = dict.fromkeys(("parse_int", "parse_float", "parse_constant"), _number)
        return parse_json(text, **how)
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {one_line(error)}") from None


def read_toml(path: PathLike) -> dict[str, Any]:
    """Read TOML of finite numbers."""
    try:
        text = read_text(path, limits.PLAN_BYTES)
        plain = _TOML_STRINGS.sub("", text)
        _require_shallow(plain)
        if re.search(rf"[\dA-Fa-f_]{{{limits.TEXT_DIGITS + 1}}}", plain):
            raise ValueError(f"a number has more than {limits.TEXT_DIGITS} digits")
        parts = 1 + max(key.count(".") for key in re.split(r"[\n,=]", plain))
        if parts > limits.KEY_PARTS:
            raise ValueError(f"a key has more than {limits.KEY_PARTS} parts")
        return tomllib.loads(text, parse_float=_number)
    except DataError as error:
        raise ConfigError(str(error)) from None
    except ValueError as error:
        raise ConfigError(f"{path}: not TOML: {one_line(error)}") from None


def _require_shallow(plain: str) -> None:
    """Reject deep nesting in text without its strings."""
    data = np.frombuffer(plain.encode(), dtype=np.uint8)
    if np.cumsum(_DEPTH[data], dtype=np.int32).max(initial=0) > limits.TEXT_DEPTH:
        raise ValueError(f"nested more than {limits.TEXT_DEPTH} deep")


def _number(text: str) -> float:
    if len(text) > limits.TEXT_DIGITS:
        raise ValueError(f"a number has more than {limits.TEXT_DIGITS} digits")
    value = int(text) if text.lstrip("-").isdigit() else float(text)
    if not math.isfinite(value):
        raise ValueError(f"expected finite numbers, got {text}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {name!r:.60} stands twice in one object")
    return found
