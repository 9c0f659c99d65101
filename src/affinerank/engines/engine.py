"""What an engine does with a log, whichever database runs the queries.

:class:`Engine` says which operations there are, and does each as any Ibis connection
can. :mod:`~affinerank.engines.duckdb`, :mod:`~affinerank.engines.spark` and
:mod:`~affinerank.engines.databases` override what their engine does better, or cannot
do this way. :mod:`~affinerank.engines.opening` finds the engine of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.support.errors import DataError
from affinerank.support.files import scratch_folder
from affinerank.support.progress import Progress, no_progress

ROWS_AT_ONCE = 250_000  # rows of a result in memory
# Texts that all engines read alike; days that no month has are left out.
TEXTS = {
    "float64": r"^\s*[-+]?([0-9]{1,200}\.?[0-9]{0,200}|\.[0-9]{1,200})"
    r"([eE][-+]?[0-9]{1,2})?\s*$",
    "timestamp": r"^\s*([0-9]{4}-((0?[1-9]|1[0-2])-(0?[1-9]|1[0-9]|2[0-8])|"
    r"(0?[13-9]|1[0-2])-(29|30)|(0?[13578]|1[02])-31)"  # and of leap years:
    r"|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-0?2-29)"
    r"([ T]([01]?[0-9]|2[0-3]):[0-5]?[0-9](:[0-5]?[0-9](\.[0-9]{1,9})?)?"
    r"(Z|[-+](0[0-9]|1[0-4])(:?[0-5][0-9])?)?)?\s*$",
}


class Engine:
    """Runs queries on a log, where the log is.

    Attributes:
        connection: The Ibis connection.
        in_process: Whether it runs in this process, so that it reads and writes files
            of this machine itself, within a given memory.
        groups_integers_faster: Whether texts are worth hashing before they are grouped.
        finds_bits_faster: Whether it finds the highest bit of an integer faster than
            it sorts rows.
    """

    in_process: ClassVar[bool] = False
    groups_integers_faster: ClassVar[bool] = False
    finds_bits_faster: ClassVar[bool] = False

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @property
    def is_confined(self) -> bool:
        """Whether it may use no files but those in its temporary folder."""
        return False

    # Opening a log.

    def open_table(self, name: str, place: str) -> ir.Table:
        """Open a table of the connection; ``place`` names the connection in errors."""
        known = self.connection.list_tables()
        if name not in known:
            there = f"there are {', '.join(known[:12]) or 'none'}"
            raise DataError(f"{place}: there is no table {name!r}; {there}")
        return self.connection.table(name)

    def read_parquet(self, *files: Path) -> ir.Table:
        """Read Parquet files that were written here as one table."""
        return union_all([self.connection.read_parquet(str(file)) for file in files])

    # Columns.

    def hashed(self, column: ir.Value) -> ir.Value:
        """Hash a column to whole numbers from 0 on."""
        # Spark's hashes have 32 bits, and the least of them has no absolute value.
        return column.hash() & (2**31 - 1)

    def hashed_pair(self, first: ir.Value, second: ir.Value) -> ir.Value:
        """Hash two columns together to whole numbers from 0 on."""
        # As text: some engines stop where a product of hashes has too many bits.
        numbers = [self.hashed(column).cast("string") for column in (first, second)]
        return self.hashed(numbers[0] + ibis.literal(" ") + numbers[1])

    def read_as(self, kind: str, text: ir.Value) -> ir.Value:
        """Read text as ``float64`` or ``timestamp``, null where it is none."""
        # Postgres stops at what is none, and Spark takes 3d for a number.
        plain = ibis.ifelse(text.re_search(TEXTS[kind]), text, ibis.null())
        if kind == "timestamp":  # Postgres reads a time zone only if asked to
            plain = plain.cast("timestamp('UTC')")
        return plain.cast(kind)

    def in_byte_order(self, column: ir.Value) -> ir.Value:
        """Return what orders texts by their bytes, as all engines then do alike."""
        return column

    def length_bound(self, text: Any) -> Any:
        """Return the characters of a text, or more if those take long to count."""
        return text.length()

    def bit_or(self, bits: Any) -> Any:
        """Aggregate integers to the bits that any of them has."""
        return bits.bit_or()

    def count_different(self, column: Any) -> Any:
        """Count the different values of each group, of groups that fit in memory."""
        return column.nunique()

    # Rows.

    def filter_by_sql(self, table: ir.Table, condition: str) -> ir.Table:
        """Keep the rows that meet a condition in the engine's own SQL."""
        query = f"SELECT * FROM log {where_clause(condition)}"  # noqa: S608
        return table.alias("log").sql(query)

    def batches(self, table: ir.Table, rows: int) -> Iterator[pa.RecordBatch]:
        """Fetch the result of a query, so many rows at once."""
        yield from table.to_pyarrow_batches(chunk_size=rows)

    def scan_sessions(self, rows: ir.Table, keys: Sequence[str]) -> ir.Table | None:
        """Return a query that looks at every session in one pass, where there is one.

        :func:`affinerank.engines.session_scan.scan_query` says what it returns.
        """
        del rows, keys
        return None

    # Logs that are larger than memory.

    def in_parts(self, table: ir.Table, column: str, rows: int) -> list[ir.Table]:
        """Split what is far too much for the memory, by a hash of ``column``.

        Grouped by that column and others, the parts together give what the whole would.
        Each part is one more pass over the log. Most engines need no parts.
        """
        del column, rows
        return [table]

    def write_partitions(
        self, log: ir.Table, rows: int, folder: Path, progress: Progress = no_progress
    ) -> list[ir.Table]:
        """Write a log whose groups far exceed the memory to disk, in parts.

        That is one pass. A query is in one part, by its hash. A log that fits is its
        only part.
        """
        del rows, folder, progress
        return [log]

    def materialised(self, parts: Sequence[ir.Table]) -> ir.Table:
        """Compute parts one after another, into one temporary table.

        Engines that need no parts compute the only one when it is asked for.
        """
        return union_all(parts)

    def drop(self, table: ir.Table) -> None:
        """Free the memory of a table that :meth:`materialised` computed."""

    def parsed_once(self, log: ir.Table, folder: Path) -> ir.Table:
        """Return a log of text files as one of a Parquet file, written into ``folder``.

        Counting reads a log several times, and parsing text takes longest. A log that
        is no text, or cannot be written, stays as it is; if it is to blame, reading it
        says so.
        """
        del folder
        return log

    # Results.

    @contextmanager
    def work_folder(self) -> Iterator[Path]:
        """Yield a temporary folder that the engine may write to."""
        with scratch_folder() as folder:
            yield folder

    def write(
        self,
        table: ir.Table,
        path: Path,
        metadata: Mapping[bytes, bytes] | None = None,
        edited: Callable[[pa.Table], pa.Table] | None = None,
    ) -> None:
        """Write the result of a query as Parquet.

        Args:
            table: The query.
            path: The file; a result without rows may leave none.
            metadata: Notes for the file's footer.
            edited: What is done to the rows in this process, some at a time; ``None``:
                they are written as they are.
        """
        writer = None
        for batch in self.batches(table, ROWS_AT_ONCE):
            rows = pa.Table.from_batches([batch])
            if edited is not None:
                rows = edited(rows)
            rows = rows.replace_schema_metadata(metadata)
            writer = writer or pq.ParquetWriter(path, rows.schema)
            writer.write_table(rows)
        if writer is not None:
            writer.close()

    @contextmanager
    def with_progress(
        self,
        progress: Progress,
        stage: str,
        rows: int,
        rows_before: int = 0,
        rows_in_all: int | None = None,
    ) -> Iterator[None]:
        """Report that queries on ``rows`` rows begin and, if they did not fail, end.

        Where the rows are a part, ``rows_before`` of ``rows_in_all`` came before.
        """
        total = rows if rows_in_all is None else rows_in_all
        progress(stage, rows_before, total)
        yield
        progress(stage, rows_before + rows, total)


def union_all(parts: Sequence[ir.Table]) -> ir.Table:
    """Put the parts of a table together again."""
    return parts[0] if len(parts) == 1 else ibis.union(*parts)


def integer_totals(table: ir.Table, **sums: ir.Scalar) -> dict[str, int]:
    """Aggregate to whole numbers, in one pass; a sum over no rows is 0."""
    [row] = table.agg(**sums).to_pyarrow().to_pylist()
    return {name: int(value or 0) for name, value in row.items()}


def where_clause(condition: str) -> str:
    """Return a condition of the user as a clause of SQL."""
    # The line break ends a comment that the condition may end with.
    return f"WHERE ({condition}\n)"
