"""Read logs of other systems onto the columns of a click log.

Each gives ``session_id, query_id, doc_id, rank, clicked`` and notes on what it found.
"""

from __future__ import annotations

import glob
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.clicks.engines import connect_duckdb, copy_to, engine_errors
from affinerank.clicks.log_files import is_whole
from affinerank.errors import DataError
from affinerank.files import PathLike, existing_file, scratch_folder, written_whole
from affinerank.limits import ID_BYTES
from affinerank.plain_text import lines_of

UBI_CLICKS = ("click", "item_click", "product_click", "result_click")
UBI_NOTES = (
    *("searches", "searches without results", "searches seen twice"),
    *("events that are not clicks", "clicks", "clicks without an impression"),
)
TYPES = {"line": pa.int64(), "rank": pa.int32(), "clicked": pa.bool_()}
TYPES |= {"hits": pa.list_(pa.string()), "timestamp": pa.timestamp("us", "UTC")}
SEARCHES = ("line", "session_id", "query_id", "hits", "timestamp", "user_id")
CLICKS = ("session_id", "doc_id")
PAGES = ("session_id", "query_id", "doc_id", "rank", "clicked")
# Of searches seen twice the first counts. UBI_LOG takes what else the log has.
UBI_SHOWN = """
    CREATE TABLE shown AS
    SELECT line, session_id, query_id, timestamp, user_id,
        unnest(hits) AS doc_id, generate_subscripts(hits, 1)::INT AS rank
    FROM searches
    SEMI JOIN (SELECT session_id, min(line) AS line FROM searches GROUP BY session_id)
    USING (session_id, line)
"""
UBI_FOUND = """
    SELECT count(*) - count(DISTINCT session_id),
        (SELECT count(*) FROM clicks ANTI JOIN shown USING (session_id, doc_id)),
        count(timestamp), count(user_id), (SELECT count(*) FROM shown)
    FROM searches
"""
UBI_LOG = """
    SELECT session_id, query_id, doc_id, rank, clicked IS NOT NULL AS clicked{}
    FROM shown
    LEFT JOIN (SELECT DISTINCT session_id, doc_id, true AS clicked FROM clicks)
    USING (session_id, doc_id)
    ORDER BY line, rank
"""
ROWS_AT_ONCE = 10_000


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


def import_ubi(
    queries: PathLike,
    events: PathLike,
    target: PathLike,
    *,
    click_actions: Sequence[str] = UBI_CLICKS,
    memory: str = "4GB",
) -> dict[str, int]:
    """Bring OpenSearch User Behavior Insights (1.3) onto a click log, Parquet.

    Its ``query_id`` is one search event, so our ``session_id``; its ``user_query`` is
    our ``query_id``, its ``client_id`` our ``user_id``. What was shown is the
    ``query_response_hit_ids`` of the queries index, in order; what was clicked, the
    events whose ``action_name`` is one of ``click_actions`` and whose object is among
    those. Lines are read one by one, and DuckDB joins them on disk: neither index is
    held in memory.

    Args:
        queries: Documents of the index ``ubi_queries``, one per line.
        events: Documents of the index ``ubi_events``, one per line.
        target: The log to write; it appears whole or not at all.
        click_actions: Names of the events that are clicks.
        memory: How much memory DuckDB may take before it spills to disk.

    Returns:
        What was found, and how many times.
    """
    counted: Counter[str] = Counter()
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        stack.enter_context(engine_errors("the import"))
        searches, clicks = folder / "searches.parquet", folder / "clicks.parquet"
        _write(_ubi_searches(queries, counted), SEARCHES, searches)
        _write(_ubi_clicks(events, click_actions, counted), CLICKS, clicks)
        connection = connect_duckdb(memory, str(folder))
        stack.callback(connection.disconnect)
        for path in (searches, clicks):
            connection.read_parquet(glob.escape(str(path)), table_name=path.stem)
        connection.raw_sql(UBI_SHOWN)
        [sizes] = connection.raw_sql(UBI_FOUND).fetchall()
        again, unseen, timed, named, shown = sizes
        extra = ["timestamp"] * bool(timed) + ["user_id"] * bool(named)
        log = UBI_LOG.format("".join(f", {name}" for name in extra))
        aside = stack.enter_context(written_whole(Path(target)))
        copy_to(log, aside, connection.table("shown"), "COMPRESSION zstd")
    found = {"searches seen twice": again, "clicks without an impression": unseen}
    return {"impressions": shown, **dict.fromkeys(UBI_NOTES, 0), **counted, **found}


def _ubi_searches(path: PathLike, notes: Counter[str]) -> Iterator[tuple[Any, ...]]:
    """Yield number, search, text, hits, moment and user of each search."""
    for number, (where, row) in enumerate(_json_lines(path)):
        search = _text(row, "query_id", where)
        # Browsing without words is a search for the empty text.
        text = _id(row.get("user_query"), "user_query", where, empty=True)
        hits = row.get("query_response_hit_ids") or []
        if not isinstance(hits, list):
            raise DataError(f"{where}: query_response_hit_ids must be a list")
        names = [_id(hit, "query_response_hit_ids", where) for hit in hits]
        notes["searches"] += 1
        notes["searches without results"] += not hits
        user = row.get("client_id")
        user = _id(user, "client_id", where) if user not in (None, "") else None
        yield number, search, text, names, _moment(row.get("timestamp"), where), user


def _ubi_clicks(
    path: PathLike, actions: Sequence[str], notes: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Yield search and document of each click."""
    for where, row in _json_lines(path):
        if row.get("action_name") not in actions:
            notes["events that are not clicks"] += 1
            continue
        notes["clicks"] += 1
        document = "event_attributes.object.object_id"
        yield _text(row, "query_id", where), _text(row, document, where)


def _moment(value: Any, where: str) -> datetime | None:
    """Read a moment: ISO 8601, or milliseconds since 1970."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
        elif type(value) in (int, float):
            found = datetime.fromtimestamp(value / 1000, UTC)
        elif value is None:
            return None
        else:
            raise ValueError
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        right = "a moment as in 2026-01-31T10:00:00Z, or milliseconds since 1970"
        raise DataError(
            f"{where}: expected timestamp, {right}, got {value!r:.60}"
        ) from None


def _write(rows: Iterable[tuple[Any, ...]], columns: Sequence[str], path: Path) -> None:
    """Write rows as Parquet, some at a time."""
    with pq.ParquetWriter(path, _table([], columns).schema) as writer:
        left = iter(rows)
        while some := list(islice(left, ROWS_AT_ONCE)):
            writer.write_table(_table(some, columns))


def _table(rows: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> pa.Table:
    """Put rows into columns: text, unless ``TYPES`` says otherwise."""
    schema = pa.schema([(name, TYPES.get(name, pa.string())) for name in columns])
    return pa.table(list(zip(*rows, strict=True)) or [()] * len(columns), schema=schema)


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
    return ImportedLog(_table(rows, PAGES), {"result pages": pages})


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
