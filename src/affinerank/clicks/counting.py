"""From a click log to counts: one Ibis expression, run by the engine that has the log.

DuckDB reads files in this process, within a given memory, spilling to disk; Spark runs
locally or on a cluster; any other Ibis connection counts a table where it lies. The
result is streamed into a Parquet file and never held in memory.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.clicks.counts import (
    EXTRA_KEYS,
    HELD_OUT,
    KEPT,
    KEYS,
    NUMBERS,
    checked_share,
    split_by_query,
)
from affinerank.clicks.log import (
    LogFaultsError,
    LogOptions,
    LogReport,
    engine_errors,
    normalised,
    validate,
    without_bad_sessions,
)
from affinerank.errors import ConfigError, DataError
from affinerank.files import written_whole
from affinerank.progress import Progress, quiet

ROWS_AT_ONCE = 250_000


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted, and what was wrong with it.

    Attributes:
        report: Findings about the log as it was read; ``None`` if it was not checked.
        summary: Rows, sessions, queries, documents, ranks, impressions, clicks,
            dropped, seconds.
    """

    report: LogReport | None
    summary: dict[str, Any]

    def findings(self) -> list[dict[str, Any]]:
        """What the report holds, as plain data."""
        return (
            [asdict(finding) for finding in self.report.findings] if self.report else []
        )


@contextmanager
def open_table(
    source: str,
    *,
    engine: str = "duckdb",
    memory: str = "4GB",
    master: str | None = None,
    table: str | None = None,
) -> Iterator[ir.Table]:
    """Open a log: a file, files by a pattern, or a table of a connection.

    Args:
        source: A path or pattern of Parquet, CSV or JSON Lines files; or with ``table``
            the URL of an Ibis connection, as in ``duckdb:///clicks.duckdb``.
        engine: Reads files: ``duckdb`` here, ``spark`` locally or at ``master``.
        memory: How much memory DuckDB may take before it spills to disk.
        master: Spark's master URL; ``local[*]`` where none is given.
        table: Table to count, of the connection ``source``.
    """
    with (
        tempfile.TemporaryDirectory(prefix="affinerank-") as spill,
        engine_errors(source),
    ):
        if table is not None:
            connection = ibis.connect(source)
            log = _table_of(connection, source, table)
        elif engine == "spark":
            connection = _spark(master)
            log = _read(connection, source)
        elif engine == "duckdb":
            connection = _duckdb(memory, spill)
            log = _read(connection, source)
        else:
            raise ConfigError(f"engine must be duckdb or spark, got {engine!r}")
        try:
            yield log
        finally:
            connection.disconnect()


def count_log(
    table: ir.Table,
    target: str | os.PathLike[str],
    *,
    options: LogOptions | None = None,
    bad_rows: str = "error",
    check: bool = True,
    holdout: float | None = None,
    holdout_by: str = "query",
    progress: Progress = quiet,
) -> Counted:
    """Count a log into a Parquet file that :meth:`ClickCounts.load` reads.

    Args:
        table: The log, as :func:`open_table` gives it.
        target: The file to write; it appears whole or not at all.
        options: How the log is to be read.
        bad_rows: ``"error"`` refuses a log with faults; ``"drop"`` leaves out the
            sessions that have some, whole, and says how many.
        check: Look for faults first. Unchecked, a faulty log is counted as it is, and
            a repeated impression counts twice.
        holdout: Share to set aside as the split ``"holdout"``.
        holdout_by: Whether to set aside queries, by a hash of their ids, or the last
            sessions.
        progress: Told of each step.
    """
    started = time.perf_counter()
    log = normalised(table, options or LogOptions())
    report, repeats, dropped = None, False, {"sessions": 0, "rows": 0}
    if check:
        progress("checking the log", 0, 1)
        report, repeats = validate(log)
        if report.faults:
            if bad_rows == "error":
                raise LogFaultsError(report)
            log, dropped = _dropped(log, report)
        progress("checking the log", 1, 1)
    progress("counting", 0, 1)
    by_query = None
    if holdout is not None and holdout_by == "time":
        log = _split_by_time(log, holdout)
    elif holdout is not None:
        by_query = checked_share(holdout)
    with engine_errors("the log"):
        expression = counts_expression(log, repeats=repeats)
        write_counts(expression, target, holdout=by_query)
    progress("counting", 1, 1)
    summary = summarise(target)
    return Counted(
        report,
        {
            "rows": report.rows if report else summary["impressions"],
            **summary,
            "dropped": dropped,
            "seconds": time.perf_counter() - started,
        },
    )


def counts_expression(log: ir.Table, *, repeats: bool = False) -> ir.Table:
    """Impressions and clicks per key, with the sessions of the query beside them."""
    extra = [name for name in EXTRA_KEYS if name in log.columns]
    keys = [*KEYS, *extra]
    if repeats:
        log = log.group_by(["session_id", *keys]).agg(clicked=log.clicked.max())
    counts = log.group_by(keys).agg(impressions=log.count(), clicks=log.clicked.sum())
    by = ["query_id", *extra]
    sessions = log.group_by(by).agg(sessions=log.session_id.nunique())
    return counts.join(sessions, by).select(*keys, *NUMBERS)


def write_counts(
    expression: ir.Table,
    target: str | os.PathLike[str],
    *,
    holdout: float | None = None,
) -> None:
    """Stream the result of :func:`counts_expression` into a Parquet file."""
    with written_whole(Path(target)) as aside:
        writer = None
        for batch in expression.to_pyarrow_batches(chunk_size=ROWS_AT_ONCE):
            table = _typed(pa.Table.from_batches([batch]))
            if holdout is not None:
                table = table.append_column("split", split_by_query(table, holdout))
            writer = writer or pq.ParquetWriter(aside, table.schema, compression="zstd")
            writer.write_table(table)
        if writer is None:
            raise DataError("there is nothing to count: no row is left of the log")
        writer.close()


def summarise(counts: str | os.PathLike[str]) -> dict[str, Any]:
    """Sizes of a file of counts, without loading it."""
    with open_table(str(counts)) as table:
        by = [name for name in ("query_id", *EXTRA_KEYS) if name in table.columns]
        per_query = table.group_by(by).agg(sessions=table.sessions.max())
        documents = table.select("query_id", "doc_id").distinct()
        totals = table.agg(
            queries=table.query_id.nunique(),
            ranks=table["rank"].max(),
            impressions=table.impressions.sum(),
            clicks=table.clicks.sum(),
            groups=table.count(),
        )
        found = {
            **per_query.agg(sessions=per_query.sessions.sum())
            .to_pyarrow()
            .to_pylist()[0],
            **documents.agg(documents=documents.count()).to_pyarrow().to_pylist()[0],
            **totals.to_pyarrow().to_pylist()[0],
        }
    return {name: int(value) for name, value in found.items()}


def _dropped(log: ir.Table, report: LogReport) -> tuple[ir.Table, dict[str, int]]:
    with engine_errors("the log"):
        kept, sessions = without_bad_sessions(log)
        rows = int(kept.count().to_pyarrow().as_py())
    return kept, {"sessions": sessions, "rows": report.rows - rows}


def _split_by_time(log: ir.Table, share: float) -> ir.Table:
    """Set the last sessions aside: those that began in the last ``share`` of rows."""
    checked_share(share)
    if "timestamp" not in log.columns:
        raise DataError(
            "holding out by time needs a timestamp; name its column with "
            "--column timestamp=NAME"
        )
    moment = log.timestamp
    if moment.type().is_string():
        moment = moment.try_cast("timestamp")
    if not moment.type().is_numeric():
        moment = moment.cast("timestamp").epoch_seconds()
    begun = log.mutate(_moment=moment).mutate(
        _begun=lambda t: t._moment.min().over(group_by="session_id")
    )
    with engine_errors("the log"):
        cut = begun._begun.quantile(1 - share).to_pyarrow().as_py()
    if cut is None:
        raise DataError("holding out by time needs timestamps, and all are null")
    late = begun._begun.coalesce(cut) >= cut
    return begun.mutate(split=ibis.ifelse(late, HELD_OUT, KEPT)).drop(
        "_moment", "_begun"
    )


def _typed(table: pa.Table) -> pa.Table:
    """Give every engine's result the same types."""
    columns = {}
    for name in table.column_names:
        column = table[name]
        whole = name in NUMBERS or name == "rank" or pa.types.is_integer(column.type)
        columns[name] = column.cast(pa.int64() if whole else pa.string())
    return pa.table(columns)


def _duckdb(memory: str, spill: str) -> Any:
    try:
        connection = ibis.duckdb.connect(
            memory_limit=memory, temp_directory=spill, preserve_insertion_order=False
        )
    except Exception as error:
        if "memory" not in str(error).lower():
            raise
        raise ConfigError(
            f"--memory takes an amount as in 4GB or 500MB, got {memory!r}"
        ) from None
    return connection


def _spark(master: str | None) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError(
            "the engine spark needs pyspark: pip install 'affinerank[spark]'"
        ) from None
    builder = SparkSession.builder.appName("affinerank")
    settings = {
        "spark.master": master or "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return ibis.pyspark.connect(builder.getOrCreate())


def _table_of(connection: Any, url: str, table: str) -> ir.Table:
    known = connection.list_tables()
    if table not in known:
        raise DataError(
            f"{url}: there is no table {table!r}; there are {', '.join(known[:12])}"
        )
    return connection.table(table)


def _read(connection: Any, source: str) -> ir.Table:
    """Read files by their ending; text columns of CSV stay text."""
    path = Path(source)
    if not any(character in source for character in "*?[") and not path.exists():
        raise DataError(f"{source}: there is no such file")
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    spark = connection.name == "pyspark"
    if path.is_dir() or name.endswith(".parquet"):
        pattern = source if spark or not path.is_dir() else str(path / "*.parquet")
        return connection.read_parquet(pattern)
    if name.endswith((".csv", ".tsv")):
        separator = "\t" if name.endswith(".tsv") else ","
        if spark:
            return connection.read_csv(source, header=True, sep=separator)
        return connection.read_csv(
            source, header=True, delim=separator, all_varchar=True
        )
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return connection.read_json(source)
    raise DataError(
        f"{source}: expected a file that ends in .parquet, .csv, .tsv or .jsonl "
        "(.gz too), or a folder of Parquet files"
    )
