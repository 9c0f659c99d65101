"""Ways to spoil a file: its bytes, its text, its JSON, its table."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Spoil = Callable[[Random, bytes], bytes]

DEEP, LONG = 100_000, "a" * 70_000
ODD = json.loads(Path(__file__).with_name("odd.json").read_text(encoding="utf-8"))
NUMBERS = [*ODD["numbers"], "9" * 401, "9" * 5000]
TEXTS = [*ODD["texts"], LONG]
LINES = [*ODD["lines"], "[" * DEEP, "a." * DEEP + "a = 1"]
VALUES = [*ODD["values"], *TEXTS, 10**400, ["x"] * 5000, [0.5] * 20_000]
CELLS = [*ODD["cells"], LONG, b"\xff"]
# What json.dumps cannot write is put in the place of a mark afterwards.
RAW = {
    "@deep": "[" * DEEP + "]" * DEEP,
    "@open": '{"a":' * DEEP,
    "@digits": "9" * 5000,
    "@exponent": "1e999999999",
    "@surrogate": '"\\ud83d"',
    "@control": '"\x01"',
}
TOML_VALUES = [*ODD["toml"], "9" * 400, RAW["@deep"], str(["x"] * 3000), f"'{LONG}'"]
KINDS = [
    *(pa.int8(), pa.int32(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64()),
    *(pa.string(), pa.large_string(), pa.binary(), pa.bool_(), pa.timestamp("us")),
    *(pa.decimal128(38, 2), pa.date32(), pa.dictionary(pa.int32(), pa.string())),
    *(pa.list_(pa.int64()), pa.struct({"a": pa.int64()}), pa.null(), pa.float16()),
]


def spoil_bytes(rng: Random, data: bytes) -> bytes:
    """Flip, delete, insert, repeat, copy or cut bytes, up to four times."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        # Sizes are in headers and footers.
        at = rng.randrange(rng.choice((len(data), min(len(data), 64))) + 1)
        at = rng.choice((at, at, len(data) - at))
        size = rng.choice((1, 1, 2, 4, 8, 64, 1000))
        head, block, tail = data[:at], data[at : at + size], data[at + size :]
        other, noise = rng.randrange(len(data) + 1), rng.randbytes(size)
        flipped = bytes(byte ^ 1 << rng.randrange(8) for byte in block[:1]) + block[1:]
        same = bytes([rng.choice((0, 127, 255))]) * len(block)
        put = (flipped, flipped, noise[: len(block)], noise + block, b"", same)
        moved = (block * rng.choice((2, 3, 50)), data[other : other + size])
        data = head if rng.random() < 0.1 else head + rng.choice((*put, *moved)) + tail
    return data


def spoil_text(rng: Random, data: bytes) -> bytes:
    """Replace numbers, words and lines of a text."""
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(rng.choice((1, 1, 2, 5))):
        near = rng.choice((str(rng.randrange(-3, 40)), rng.choice(NUMBERS)))
        number = replaced(rng, text, r"-?\d[\d.e+-]*", near)
        word = replaced(rng, text, r"[^\s,=:\[\]{}\"]+", rng.choice(TEXTS))
        text = rng.choice((number, number, number, word, _lines(rng, text)))
    return text.encode("utf-8", "surrogateescape")


def replaced(rng: Random, text: str, pattern: str, by: str) -> str:
    """Replace one of the places that a pattern finds."""
    found = list(re.finditer(pattern, text))
    one = rng.choice(found) if found else None
    return text[: one.start()] + by + text[one.end() :] if one else text + by


def _lines(rng: Random, text: str) -> str:
    lines = text.split("\n")
    at = rng.randrange(rng.choice((1, len(lines))))
    other = rng.choice(lines)
    line = lines[at]
    end = rng.choice((*TEXTS, ",x", "\tx", " 7:1", "="))
    none: list[str] = []
    by = (none, [line] * 2, [line] * 300, [other], [line, other], [rng.choice(LINES)])
    lines[at : at + 1] = rng.choice((*by, [line + end], [line[: rng.randrange(40)]]))
    return "\n".join(lines)


def spoil_toml(rng: Random, data: bytes) -> bytes:
    """Replace a value of a TOML file by another, add a key, or spoil the text."""
    if rng.random() < 0.4:
        return spoil_text(rng, data)
    value = rng.choice(TOML_VALUES)
    key = rng.choice(("a." * DEEP + "a", "x", '""', "runs", "clicks", "a.b.c"))
    changed = replaced(rng, data.decode(), r" ?= ?[^\n]+", f" = {value}")
    return rng.choice((changed, changed, f"{key} = {value}\n{data.decode()}")).encode()


def spoil_json(rng: Random, data: bytes) -> bytes:
    """Replace, remove or add values anywhere in a JSON file."""
    value = json.loads(data)
    for _ in range(rng.choice((1, 1, 1, 3))):
        value = _other(rng, value)
    text = json.dumps(value)
    for mark, raw in RAW.items():
        text = text.replace(f'"{mark}"', raw)
    if rng.random() < 0.05:
        text = rng.choice(('{"format": 1,' + text[1:], "\ufeff" + text, text + text))
    return text.encode("utf-8", "surrogatepass")


def _other(rng: Random, value: Any) -> Any:
    """Return another value, or this one with something inside it changed."""
    several = isinstance(value, dict | list)
    inside: dict[Any, Any] = {}
    if several:
        inside = dict(value if isinstance(value, dict) else enumerate(value))
    odd = rng.choice((*VALUES, *RAW))
    if not inside or rng.random() < 0.1:
        number = isinstance(value, int | float)
        return rng.choice((-value, value * 10**6, value + 1, odd) if number else (odd,))
    key = rng.choice(list(inside))
    inside[key] = _other(rng, inside[key])
    if rng.random() < 0.1:
        del inside[key]
    elif rng.random() < 0.1:
        inside[str(odd)[:20]] = odd
    return inside if isinstance(value, dict) else list(inside.values())


def spoil_json_lines(rng: Random, data: bytes) -> bytes:
    """Spoil one line of JSON, or the text."""
    lines = data.splitlines()
    at = rng.randrange(len(lines))
    lines[at] = spoil_json(rng, lines[at])
    return rng.choice((spoil_text(rng, data), *(b"\n".join(lines),) * 2))


def spoil_safetensors(rng: Random, data: bytes) -> bytes:
    """Spoil the header of a file of weights, its size, or a weight."""
    size = int.from_bytes(data[:8], "little")
    header, rest = data[8 : 8 + size], data[8 + size :]
    at = rng.randrange(len(rest) // 4) * 4
    odd = rng.choice((b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\x7f\x7f"))
    spoilt = rest[:at] + odd + rest[at + 4 :]
    as_json, as_text = spoil_json(rng, header), spoil_text(rng, header)
    header, rest = rng.choice(((as_json, rest), (as_text, rest), (header, spoilt)))
    sizes = (0, 1, 2**31, 2**63, 2**64 - 1)
    size = len(header) if rng.random() < 0.8 else rng.choice(sizes)
    return size.to_bytes(8, "little") + header + rest


def spoil_table(rng: Random, data: bytes) -> bytes:
    """Drop, rename, repeat, retype or fill columns of a Parquet file, or its rows."""
    table = pq.read_table(pa.BufferReader(data))
    for _ in range(rng.choice((1, 1, 2))):
        if table.num_columns:
            at = rng.randrange(table.num_columns)
            how = rng.choice((_columns, _rows, _retyped, _filled, _filled))
            table = how(rng, table, at)
    return written(rng, table)


def written(rng: Random, table: pa.Table) -> bytes:
    """Write a table as Parquet, in one of the ways that Parquet has."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=rng.choice((None, 7, 100)),
        compression=rng.choice(("snappy", "zstd", "gzip", "none", "lz4")),
        version=rng.choice(("1.0", "2.4", "2.6")),
        data_page_version=rng.choice(("1.0", "2.0")),
        use_dictionary=rng.random() < 0.5,
        write_statistics=rng.random() < 0.8,
        write_page_checksum=rng.random() < 0.3,
    )
    return bytes(sink.getvalue())


def _columns(rng: Random, table: pa.Table, at: int) -> pa.Table:
    names = list(table.column_names)
    name = names[at]
    names[at] = rng.choice((name.upper(), f" {name}", "", "x", rng.choice(names)))
    renamed = table.rename_columns(names)
    more = table.append_column(rng.choice((name, name.title(), "x")), table[at])
    empty = table.append_column("x", pa.nulls(table.num_rows))
    return rng.choice((table.remove_column(at), renamed, more, empty))


def _rows(rng: Random, table: pa.Table, at: int) -> pa.Table:
    few = table.slice(0, rng.choice((0, 1, 2, 10)))
    more = pa.concat_tables([table, table.slice(at)])
    order = rng.sample(range(table.num_rows), table.num_rows)
    mixed = table.take(pa.array(order, pa.int64()))
    return rng.choice((few, more, mixed))


def _retyped(rng: Random, table: pa.Table, at: int) -> pa.Table:
    kind = rng.choice(KINDS)
    try:
        column = table[at].cast(kind, safe=False)
    except pa.ArrowException:
        column = pa.nulls(table.num_rows, kind)
    return table.set_column(at, table.column_names[at], column)


def _filled(rng: Random, table: pa.Table, at: int) -> pa.Table:
    values, odd, kind = table[at].to_pylist(), rng.choice(CELLS), table[at].type
    for _ in range(rng.choice((1, 1, len(values)))):
        if values:
            values[rng.randrange(len(values))] = odd
    for some, of in ((values, kind), (values, None), (map(str, values), pa.string())):
        try:
            column = pa.array(some, of)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            continue
        return table.set_column(at, table.column_names[at], column)
    return table
