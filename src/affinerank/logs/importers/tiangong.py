"""Read logs of other systems onto the columns of a click log.

Each gives ``session_id, query_id, doc_id, rank, clicked`` and notes on what it found.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.logs.importers.json_lines import numbered_lines, read_id, read_numbers
from affinerank.logs.importers.ubi import UBI_CLICKS, import_ubi
from affinerank.support.errors import DataError
from affinerank.support.files import PathLike, atomic_write

__all__ = ["UBI_CLICKS", "ImportedLog", "import_ubi", "read_tiangong"]

TYPES = {"rank": pa.int32(), "clicked": pa.bool_()}
PAGES = ("session_id", "query_id", "doc_id", "rank", "clicked")


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
        with atomic_write(Path(path)) as aside:
            pq.write_table(self.table, aside, compression="zstd")


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
        for number, where, line in numbered_lines(path):
            parts = line.rstrip("\n").split("\t")
            if len(parts) < 5:
                raise DataError(
                    f"{where}: expected session, query, documents, vertical types and "
                    f"clicks, separated by tabs, got {len(parts)} parts"
                )
            documents = read_numbers(parts[2], where, "documents")
            clicks = read_numbers(parts[4], where, "clicks")
            if len(documents) != len(clicks) or not set(clicks) <= {0, 1}:
                raise DataError(
                    f"{where}: expected a click, 0 or 1, for each of "
                    f"{len(documents)} documents, got {parts[4][:60]!r}"
                )
            pages += 1
            stem = os.fsencode(Path(path).stem).decode(errors="replace")
            session = read_id(f"{place}:{stem}:{number}:{parts[0]}", "session", where)
            query = read_id(parts[1], "query", where, empty=True)
            page = enumerate(zip(documents, clicks, strict=True), start=1)
            rows += [
                (session, query, str(document), rank, bool(click))
                for rank, (document, click) in page
            ]
    return ImportedLog(_table(rows, PAGES), {"result pages": pages})


def _table(rows: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> pa.Table:
    """Put rows into columns: text, unless ``TYPES`` says otherwise."""
    schema = pa.schema([(name, TYPES.get(name, pa.string())) for name in columns])
    return pa.table(list(zip(*rows, strict=True)) or [()] * len(columns), schema=schema)
