"""Read logs of other systems onto the columns of a click log.

Small readers for data that fit into memory; each returns an Arrow table with
``session_id, query_id, doc_id, rank, clicked`` and notes on what it found.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.clicks.log_files import is_whole
from affinerank.errors import DataError
from affinerank.files import PathLike, existing_file, written_whole
from affinerank.limits import ID_BYTES
from affinerank.plain_text import lines_of

UBI_CLICKS = ("click", "item_click", "product_click", "result_click")


@dataclass(frozen=True, slots=True, eq=False)
class ImportedLog:
    """A log under our names.

    Attributes:
        table: One row per impression.
        notes: What was found, and how many times.
    """

    table: pa.Table
    notes: dict[str, int]

    def save(self, path: PathLike) -> None:
        """Write the log as Parquet."""
        with written_whole(Path(path)) as aside:
            pq.write_table(self.table, aside, compression="zstd")


def read_ubi(
    queries: PathLike, events: PathLike, *, click_actions: Sequence[str] = UBI_CLICKS
) -> ImportedLog:
    """Read OpenSearch User Behavior Insights, exported as JSON Lines.

    Its ``query_id`` is one search event, so our ``session_id``; its ``user_query`` is
    our ``query_id``. What was shown is the ``query_response_hit_ids`` of the queries
    index, in order; what was clicked, the events whose ``action_name`` is one of
    ``click_actions`` and whose object is among those.

    Args:
        queries: Documents of the index ``ubi_queries``, one per line.
        events: Documents of the index ``ubi_events``, one per line.
        click_actions: Names of the events that are clicks.
    """
    kinds = (
        "searches",
        "searches without results",
        "searches seen twice",
        "events that are not clicks",
        "clicks",
        "clicks without an impression",
    )
    notes = dict.fromkeys(kinds, 0)
    shown: dict[str, tuple[str, list[str]]] = {}
    for where, row in _json_lines(queries):
        search = _text(row, "query_id", where)
        # Browsing without words is a search for the empty text.
        text = _id(row.get("user_query"), "user_query", where, empty=True)
        hits = row.get("query_response_hit_ids") or []
        if not isinstance(hits, list):
            raise DataError(f"{where}: query_response_hit_ids must be a list")
        notes["searches"] += 1
        notes["searches without results"] += not hits
        notes["searches seen twice"] += search in shown
        names = [_id(hit, "query_response_hit_ids", where) for hit in hits]
        shown.setdefault(search, (text, names))
    clicked: set[tuple[str, str]] = set()
    for where, row in _json_lines(events):
        if row.get("action_name") not in click_actions:
            notes["events that are not clicks"] += 1
            continue
        notes["clicks"] += 1
        search = _text(row, "query_id", where)
        document = _text(row, "event_attributes.object.object_id", where)
        if search in shown and document in shown[search][1]:
            clicked.add((search, document))
        else:
            notes["clicks without an impression"] += 1
    rows = (
        (search, text, document, rank, (search, document) in clicked)
        for search, (text, hits) in shown.items()
        for rank, document in enumerate(hits, start=1)
    )
    return ImportedLog(_table(rows), notes)


def read_tiangong(*paths: PathLike) -> ImportedLog:
    """Read result pages in the layout of TianGong-ST.

    Tab-separated, one result page per line: session, query, list of documents as shown,
    list of vertical types, list of clicks. A session there holds several queries, so
    each page becomes a session of ours, named by file (its number and name), line and
    session.
    """
    rows: list[tuple[str, str, str, int, bool]] = []
    pages = 0
    for place, path in enumerate(paths, start=1):
        for number, where, line in _lines(path):
            parts = line.rstrip("\n").split("\t")
            if len(parts) < 5:
                raise DataError(
                    f"{where}: expected session, query, documents, vertical types and "
                    f"clicks, separated by tabs, got {len(parts)} parts"
                )
            documents = _numbers(parts[2], where, "documents")
            clicks = _numbers(parts[4], where, "clicks")
            if len(documents) != len(clicks) or not set(clicks) <= {0, 1}:
                raise DataError(
                    f"{where}: expected a click, 0 or 1, for each of "
                    f"{len(documents)} documents, got {parts[4][:60]!r}"
                )
            pages += 1
            stem = os.fsencode(Path(path).stem).decode(errors="replace")
            session = _id(f"{place}:{stem}:{number}:{parts[0]}", "session", where)
            query = _id(parts[1], "query", where, empty=True)
            page = enumerate(zip(documents, clicks, strict=True), start=1)
            rows += [
                (session, query, str(document), rank, bool(click))
                for rank, (document, click) in page
            ]
    return ImportedLog(_table(rows), {"result pages": pages})


def _table(rows: Iterable[tuple[str, str, str, int, bool]]) -> pa.Table:
    ids = {name: pa.string() for name in ("session_id", "query_id", "doc_id")}
    schema = pa.schema({**ids, "rank": pa.int32(), "clicked": pa.bool_()})
    columns = list(zip(*rows, strict=True)) or [() for _ in schema]
    return pa.table(columns, schema=schema)


def _lines(path: PathLike) -> Iterator[tuple[int, str, str]]:
    """Yield number, place and text of each line that is not blank."""
    source = existing_file(path)
    for number, line in enumerate(lines_of(source), start=1):
        if line.strip():
            yield number, f"{source}, line {number}", line


def _json_lines(path: PathLike) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield place and content of each line; ``_source`` is unpacked."""
    for _, where, line in _lines(path):
        row = _parsed(line)
        row = row.get("_source", row) if isinstance(row, dict) else row
        if not isinstance(row, dict):
            raise DataError(f"{where}: expected one JSON object per line")
        yield where, row


def _parsed(text: str) -> Any:
    """Read JSON; ``None`` if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _text(row: dict[str, Any], name: str, where: str) -> str:
    """Return the text at ``name``; dots lead into objects."""
    value: Any = row
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return _id(value, name, where)


def _id(value: Any, name: str, where: str, *, empty: bool = False) -> str:
    """Return an id as text: what is neither text nor a whole number is none."""
    text = str(value) if type(value) in (str, int) else "\ud800"  # is no text
    if not is_whole(text) or len(text) not in range(not empty, ID_BYTES + 1):
        right = f"a text of 1 to {ID_BYTES} characters"
        raise DataError(f"{where}: expected {name}, {right}, got {value!r:.60}")
    return text


def _numbers(text: str, where: str, what: str) -> list[int]:
    """Read ``[1, 2, 3]``."""
    numbers = _parsed(text)
    if not isinstance(numbers, list) or {*map(type, numbers)} - {int}:
        raise DataError(f"{where}: expected {what} as in [1, 2], got {text[:60]!r}")
    return numbers
