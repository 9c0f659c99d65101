"""Spark: counts on this machine, or on the cluster of a master."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from affinerank.engines.files import Layout, require_distinct
from affinerank.engines.reading import FileEngine
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import one_line

SECONDS_WITHOUT_WORKER = 120  # that a job may wait for a worker


@ibis.udf.agg.builtin(name="bit_or")  # type: ignore[untyped-decorator]
def _bit_or(bits: int) -> int:  # type: ignore[empty-body]
    """Spark has this aggregate, and Ibis does not know."""


class Spark(FileEngine):
    """A session of Spark."""

    def read_files(self, layout: Layout, paths: list[str], *, hive: bool) -> ir.Table:
        """Read files of one layout; Spark would take null for what it cannot read."""
        del hive  # refused before
        from pyspark.sql import SparkSession

        for path in paths:
            if Path(path).name.startswith(("_", ".")):
                raise DataError(f"{path}: Spark reads no file whose name begins so")
        escaped = [re.sub(r"([][{}*?\\])", r"\\\1", path) for path in paths]
        options: dict[str, Any] = {"mode": "FAILFAST", "recursiveFileLookup": True}
        if layout.format == "csv":
            options |= {"sep": layout.separator, "quote": '"', "escape": '"'}
            options |= {"header": True, "multiLine": True}
        elif layout.format == "json":
            options["primitivesAsString"] = True
        frame = SparkSession.active().read.load(escaped, layout.format, **options)
        require_distinct(frame.columns, paths[0])
        name = f"affinerank_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)
        return self.connection.table(name)

    def bit_or(self, bits: Any) -> Any:
        """Aggregate integers to the bits that any of them has."""
        return _bit_or(bits)

    def batches(self, table: ir.Table, rows: int) -> Iterator[pa.RecordBatch]:
        """Fetch the result of a query, so many rows at once."""
        # Ibis would fetch all at once.
        kind = pa.struct(table.schema().to_pyarrow())
        query = self.connection.compile(table)
        fetched = self.connection.raw_sql(query).toLocalIterator()
        while some := [tuple(row) for row in islice(fetched, rows)]:
            yield pa.RecordBatch.from_struct_array(pa.array(some, kind))


@contextmanager
def connect_spark(master: str | None, spill: str) -> Iterator[Spark]:
    """Connect to Spark; a session that was there before is left running."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError(
            "the engine spark needs pyspark: pip install 'affinerank[spark]'"
        ) from None
    running = SparkSession.getActiveSession()
    settings: dict[str, Any] = {
        "spark.app.name": "affinerank",
        "spark.master": master or "local[*]",
        "spark.local.dir": spill,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
    }
    try:
        session = running or SparkSession.builder.config(map=settings).getOrCreate()
    except PySparkException as error:
        raise ConfigError(
            f"Spark did not start at {master or 'local[*]'}; it needs Java 17 or newer "
            f"(JAVA_HOME) and a master that answers: {one_line(error)[:200]}"
        ) from None
    try:
        with _cancelled_without_workers(session.sparkContext):
            yield Spark(ibis.pyspark.connect(session))
    finally:
        if running is None:
            session.stop()


@contextmanager
def _cancelled_without_workers(context: Any) -> Iterator[None]:
    """Cancel jobs that have waited long for a worker: Spark would wait for ever."""
    done = Event()
    lost = Event()

    def watch() -> None:
        waited = 0
        while not done.wait(1):
            jobs = context.statusTracker().getActiveJobsIds()
            members = context._jsc.sc().getExecutorMemoryStatus().size()
            only_driver = members == 1
            waited = waited + 1 if jobs and only_driver else 0
            if waited >= SECONDS_WITHOUT_WORKER:
                lost.set()
                context.cancelAllJobs()
                return

    watcher = Thread(target=watch, daemon=True)
    if not context.master.startswith("local"):
        watcher.start()
    try:
        yield
    except Exception:
        if not lost.is_set():
            raise
        raise DataError(
            f"{context.master}: no worker has answered for {SECONDS_WITHOUT_WORKER} "
            "seconds; start one, or count with --engine duckdb"
        ) from None
    finally:
        done.set()
