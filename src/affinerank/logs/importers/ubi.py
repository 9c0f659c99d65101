"""Read OpenSearch User Behavior Insights (UBI) as a click log.

Two sources say what users saw. The index of queries has the results of a search, in
order. The index of events has impressions, each with a position. Results are preferred:
their order is certain, while applications count positions from 0 or from 1, and report
only what the user scrolled to. Impressions give the lists of searches whose results
were not logged, and add documents below the results that were.

Lines are read one by one into Parquet, and an engine in this process joins them
within a given memory, by the queries of :mod:`affinerank.logs.importers.ubi_joins`.
"""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.engines.errors import engine_errors
from affinerank.engines.opening import local_engine
from affinerank.logs.importers.json_lines import (
    json_objects,
    read_id,
    read_moment,
    value_at,
)
from affinerank.logs.importers.ubi_joins import FINDINGS, LOG, STEPS
from affinerank.support.errors import DataError
from affinerank.support.files import PathLike, atomic_write, scratch_folder
from affinerank.support.limits import MAX_RANK

UBI_CLICKS = ("click", "item_click", "product_click", "result_click")
UBI_IMPRESSION = "impression"
QUERIES_INDEX, EVENTS_INDEX = "ubi_queries", "ubi_events"
DOCUMENT = "event_attributes.object.object_id"
POSITION = "event_attributes.position.ordinal"

TEXT = pa.string()
MOMENT = pa.timestamp("us", "UTC")
# ``search`` is UBI's query_id. ``line`` numbers the lines of both files together, so
# that it names a search as well as an event.
SEARCH_COLUMNS = pa.schema(
    {
        "line": pa.int64(),
        "search": TEXT,
        "text": TEXT,
        "results": pa.list_(TEXT),
        "timestamp": MOMENT,
        "user_id": TEXT,
    }
)
IMPRESSION_COLUMNS = pa.schema(
    {
        "line": pa.int64(),
        "search": TEXT,
        "text": TEXT,
        "doc_id": TEXT,
        "position": pa.int32(),
        "application": TEXT,
        "timestamp": MOMENT,
        "user_id": TEXT,
    }
)
CLICK_COLUMNS = pa.schema(
    {
        "line": pa.int64(),
        "search": TEXT,
        "text": TEXT,
        "doc_id": TEXT,
        "timestamp": MOMENT,
    }
)

ROWS_AT_ONCE = 10_000


def import_ubi(
    queries: PathLike,
    events: PathLike,
    target: PathLike,
    *,
    click_actions: Sequence[str] = UBI_CLICKS,
    memory: str = "4GB",
) -> dict[str, int]:
    """Bring OpenSearch User Behavior Insights (1.3) onto a click log, Parquet.

    Its ``query_id`` is one search, so our ``session_id``; its ``user_query`` is our
    ``query_id``, its ``client_id`` our ``user_id``. What was shown are the
    ``query_response_hit_ids`` of the queries index, in order. Where they are missing,
    events whose ``action_name`` is ``impression`` say what was shown, at the rank that
    ``event_attributes.position.ordinal`` gives. They also add documents below the
    results. What was clicked are documents shown that have an event whose
    ``action_name`` is one of ``click_actions``.

    Lines are read one by one and joined on disk: neither index is held in memory.

    Args:
        queries: Documents of the index ``ubi_queries``, one per line; or a bulk file,
            in which a line before each document names its index.
        events: Documents of the index ``ubi_events``, likewise; it may be the same
            bulk file.
        target: The log to write; it appears whole or not at all.
        click_actions: Names of the events that are clicks.
        memory: How much memory joining may take before it spills to disk.

    Returns:
        What was found, and how many times.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        stack.enter_context(engine_errors("the import"))

        # Read both files into three tables on disk.
        n_lines = _write_searches(queries, folder)
        event_counts = _write_events(events, folder, click_actions, n_lines)

        # Join them, step by step.
        engine = stack.enter_context(local_engine(memory, str(folder)))
        connection = engine.connection
        for name in ("searches", "impressions", "clicks"):
            file = glob.escape(str(folder / f"{name}.parquet"))
            connection.read_parquet(file, table_name=name)
        for step in STEPS:
            connection.raw_sql(step)
        findings = dict.fromkeys(FINDINGS, 0) | event_counts
        for name, query in FINDINGS.items():
            if query is not None:
                [(findings[name],)] = connection.raw_sql(query).fetchall()

        # Moments and users are columns of the log if any session has one.
        optional = [
            name
            for name in ("timestamp", "user_id")
            if connection.raw_sql(f"SELECT count({name}) FROM sessions").fetchone()[0]  # noqa: S608
        ]
        log = LOG.format(more="".join(f", {name}" for name in optional))
        unfinished = stack.enter_context(atomic_write(Path(target)))
        engine.copy_to(log, unfinished, "COMPRESSION zstd")
    return findings


def _write_searches(path: PathLike, folder: Path) -> int:
    """Write the searches of the queries index as Parquet; return their number."""
    number = 0
    with _RowWriter(folder / "searches.parquet", SEARCH_COLUMNS) as searches:
        for place, document in json_objects(path, QUERIES_INDEX):
            results = document.get("query_response_hit_ids") or []
            if not isinstance(results, list):
                raise DataError(f"{place}: query_response_hit_ids must be a list")
            searches.add(
                number,
                _search(document, place),
                # Browsing without words is a search for the empty text.
                read_id(document.get("user_query"), "user_query", place, empty=True),
                [
                    read_id(result, "query_response_hit_ids", place)
                    for result in results
                ],
                read_moment(document.get("timestamp"), place),
                _user(document, place),
            )
            number += 1
    return number


def _write_events(
    path: PathLike, folder: Path, click_actions: Sequence[str], first_line: int
) -> Counter[str]:
    """Write impressions and clicks of the events index as Parquet, and count events."""
    counts: Counter[str] = Counter()
    with (
        _RowWriter(folder / "impressions.parquet", IMPRESSION_COLUMNS) as impressions,
        _RowWriter(folder / "clicks.parquet", CLICK_COLUMNS) as clicks,
    ):
        documents = json_objects(path, EVENTS_INDEX)
        for line, (place, event) in enumerate(documents, start=first_line):
            action = event.get("action_name")
            if action in click_actions:
                clicks.add(line, *_click(event, place))
            elif action == UBI_IMPRESSION:
                counts["impression events"] += 1
                impression = _impression(event, place)
                if impression is None:
                    name = "impression events without search, document or position"
                    counts[name] += 1
                else:
                    impressions.add(line, *impression)
            else:
                counts["other events"] += 1
    return counts


def _click(event: dict[str, Any], place: str) -> tuple[Any, ...]:
    """Return search, text, document and moment of a click."""
    moment: datetime | None = None
    with suppress(DataError):  # it only decides between lists, and may be left out
        moment = read_moment(event.get("timestamp"), place)
    return (
        _search(event, place),
        _event_text(event, place),
        read_id(value_at(event, DOCUMENT), DOCUMENT, place),
        moment,
    )


def _impression(event: dict[str, Any], place: str) -> tuple[Any, ...] | None:
    """Return the columns of an impression, or ``None`` if it says too little."""
    needed = (
        event.get("query_id"),
        value_at(event, DOCUMENT),
        value_at(event, POSITION),
    )
    if any(value is None or value == "" for value in needed):
        return None
    application = event.get("application")
    return (
        _search(event, place),
        _event_text(event, place),
        read_id(value_at(event, DOCUMENT), DOCUMENT, place),
        _position(event, place),
        "" if application is None else read_id(application, "application", place),
        read_moment(event.get("timestamp"), place),
        _user(event, place),
    )


def _position(event: dict[str, Any], place: str) -> int:
    """Return the position of an impression, as its application counts."""
    position = value_at(event, POSITION)
    if isinstance(position, float) and position.is_integer():
        position = int(position)
    if type(position) is not int or not 0 <= position <= MAX_RANK:
        right = f"a whole number from 0 to {MAX_RANK}"
        raise DataError(f"{place}: expected {POSITION}, {right}, got {position!r:.60}")
    return position


def _search(document: dict[str, Any], place: str) -> str:
    return read_id(document.get("query_id"), "query_id", place)


def _event_text(event: dict[str, Any], place: str) -> str | None:
    """Return the text that the user searched for, if the event repeats it."""
    text = event.get("user_query")
    return None if text is None else read_id(text, "user_query", place, empty=True)


def _user(document: dict[str, Any], place: str) -> str | None:
    user = document.get("client_id")
    return None if user in (None, "") else read_id(user, "client_id", place)


class _RowWriter:
    """Writes rows as Parquet, some thousands at a time."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema)
        self._rows: list[tuple[Any, ...]] = []

    def __enter__(self) -> _RowWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()

    def add(self, *row: Any) -> None:
        """Add a row: a value for each column."""
        self._rows.append(row)
        if len(self._rows) == ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            columns = list(zip(*self._rows, strict=True))
            self._writer.write_table(pa.table(columns, schema=self._schema))
            self._rows = []
