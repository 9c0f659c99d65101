"""Counts of a log by another way, and what must hold in every output."""

import gzip
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Key = tuple[str, str, int, str]
Counts = dict[Key, tuple[int, int, int]]
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
IDS = ("session_id", "query_id", "doc_id")


class UnknownError(Exception):
    """The log means several things, or nothing that this reader knows."""


class FaultError(Exception):
    """The log has a fault, so that no counts of it are right."""


def expected_counts(path: Path, page_size: int | None = None) -> Counts:
    """Count a log row by row; ranks are within pages where these have a size."""
    clicks: dict[tuple[Any, ...], int] = {}
    at_rank: dict[tuple[Any, ...], str] = {}
    at_doc: dict[tuple[Any, ...], int] = {}
    for row in _rows(path):
        session, query, doc = (_id(row[name]) for name in IDS)
        rank, clicked = _rank(row["rank"]), _click(row["clicked"])
        if page_size is not None:
            if rank > page_size:
                raise FaultError(f"rank {rank} of a page")
            rank = _rank((_rank(row.get("page")) - 1) * page_size + rank)
        if at_rank.setdefault((session, rank), doc) != doc:
            raise FaultError("two documents at one rank")
        if at_doc.setdefault((session, doc), rank) != rank:
            raise FaultError("one document at two ranks")
        ranker = "" if row.get("ranker") is None else _text(row["ranker"])
        key = (session, query, doc, rank, ranker)
        clicks[key] = max(clicked, clicks.get(key, 0))
    shown: dict[Key, list[int]] = defaultdict(list)
    issued: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (session, query, doc, rank, ranker), clicked in clicks.items():
        shown[query, doc, rank, ranker].append(clicked)
        issued[query, ranker].add(session)
    return {
        key: (len(each), sum(each), len(issued[key[0], key[3]]))
        for key, each in shown.items()
    }


def found_counts(path: Path) -> Counts:
    """Read counts that the package wrote; the last click above is added up."""
    found: Counts = {}
    for r in pq.read_table(path).to_pylist():
        if r["impressions"] == 0 < r.get("exposure", 0):
            continue  # what a policy could have shown
        if not 0 <= r.get("context", 0) < r["rank"]:
            raise FaultError(f"a click above at rank {r['context']}")
        key = (str(r["query_id"]), str(r["doc_id"]), r["rank"], r.get("ranker", ""))
        shown, clicks, _ = found.get(key, (0, 0, 0))
        found[key] = (shown + r["impressions"], clicks + r["clicks"], r["sessions"])
    return found


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_dir():
        yield from chain.from_iterable(map(_rows, sorted(path.rglob("*.parquet"))))
    elif path.suffix == ".parquet":
        yield from _table_rows(path.read_bytes())
    else:
        yield from _text_rows(path.name, _plain(path.name, path.read_bytes()))


def _plain(name: str, data: bytes) -> bytes:
    try:
        if name.endswith(".gz"):
            return gzip.decompress(data)
        if name.endswith(".zst"):
            return bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read())
    except (OSError, EOFError, pa.ArrowException) as error:
        raise FaultError(f"damaged compression: {error}") from None
    return data


def _table_rows(data: bytes) -> Iterator[dict[str, Any]]:
    try:
        table = pq.read_table(pa.BufferReader(data))
        names = table.column_names
        if any(names.count(name) > 1 for name in (*IDS, "rank", "clicked", "ranker")):
            raise FaultError("two columns of one name")
        yield from table.to_pylist()
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise UnknownError(str(error)) from None


def _text_rows(name: str, data: bytes) -> Iterator[dict[str, Any]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FaultError("not UTF-8") from None
    if ".jsonl" in name:
        yield from _json_rows(text)
        return
    head, *rows = _fields(text, "\t" if ".tsv" in name else ",")
    wanted = (*IDS, "rank", "clicked", "ranker")
    if any(head.count(column) > 1 for column in wanted):
        raise FaultError("two columns of one name")
    for row in rows:
        if len(row) != len(head):
            raise FaultError(f"{len(row)} fields in a row, {len(head)} in the head")
        yield dict(zip(map(str, head), row, strict=True))


def _json_rows(text: str) -> Iterator[dict[str, Any]]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise UnknownError("a key comes twice")
        return dict(pairs)

    for line in re.split(r"[\r\n]+", text):
        if line.strip():
            try:
                row = json.loads(
                    line, parse_int=str, parse_float=float, object_pairs_hook=unique
                )
            except (ValueError, RecursionError):
                raise FaultError(f"not JSON: {line[:60]!r}") from None
            if not isinstance(row, dict):
                raise FaultError("a line is not an object")
            yield defaultdict(lambda: None, row)


def _fields(text: str, separator: str) -> list[list[str | None]]:
    """Read fields between quotes or separators; an empty one without quotes is null."""
    rows: list[list[str | None]] = []
    field = rf'"(?:[^"]|"")*"|[^{separator}\r\n]*'
    at, row = 0, list[str | None]()
    while at < len(text) or row:
        match = re.compile(field).match(text, at)
        found = match[0] if match else ""
        at += len(found)
        quoted = found.startswith('"')
        if quoted and (len(found) == 1 or not found.endswith('"')):
            raise FaultError("a quote is not closed")
        row.append(found[1:-1].replace('""', '"') if quoted else found or None)
        if at < len(text) and text[at] == separator:
            at += 1
            continue
        if at < len(text) and text[at] not in "\r\n":
            raise FaultError("text after a quote")
        at += 2 if text.startswith("\r\n", at) else 1
        if row != [None]:  # a blank line
            rows.append(row)
        row = []
    return rows


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise UnknownError(f"an id that is {type(value).__name__}")


def _id(value: Any) -> str:
    if value is None:
        raise FaultError("an id is null")
    return _text(value)


def _rank(value: Any) -> int:
    if isinstance(value, str) and not NUMBER.fullmatch(value):
        raise FaultError(f"rank {value[:40]!r}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise FaultError(f"rank {value!r:.40}") from None
    if not (1 <= number <= 10_000 and number == int(number)):
        raise FaultError(f"rank {value!r:.40}")
    return int(number)


def _click(value: Any) -> int:
    text = str(value).strip(" \t\r\n\v\f").lower()
    if text not in ("0", "1", "0.0", "1.0", "true", "false"):
        if isinstance(value, str) or value not in (0, 1):
            raise FaultError(f"clicked {value!r:.40}")
        return int(value)
    return int(text in ("1", "1.0", "true"))


def fault_of_output(path: Path) -> str:
    """Say what is wrong with a file that the package wrote; empty if nothing is."""
    if path.suffix == ".json":
        return fault_of_json(path.name, path.read_text())
    for name, column in _floats(path) if path.suffix == ".parquet" else ():
        if not all(map(math.isfinite, column.drop_null().to_pylist())):
            return f"{path.name}: {name} is not finite"
    return ""


def _floats(path: Path) -> Iterator[tuple[str, Any]]:
    table = pq.read_table(path)
    for name in table.column_names:
        if pa.types.is_floating(table[name].type):
            yield name, table[name]


def fault_of_json(name: str, text: str) -> str:
    """Say why a text is not one JSON value of finite numbers; empty if it is."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError as error:
        return f"{name}: {error}: {text[:60]!r}"
    return ""
