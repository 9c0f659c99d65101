"""Open a log: files, a table of a database, or a frame; and find a table's engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import ibis.expr.types as ir

from affinerank.engines.databases import (
    Postgres,
    connect_database,
    require_url,
    without_password,
)
from affinerank.engines.duckdb import DuckDB, connect_duckdb, connect_duckdb_file
from affinerank.engines.engine import Engine
from affinerank.engines.errors import engine_errors
from affinerank.engines.files import require_distinct
from affinerank.engines.spark import Spark, connect_spark
from affinerank.support.arrow import table_of
from affinerank.support.files import scratch_folder
from affinerank.support.settings import require_choice

# By Ibis' name of the backend; any other is an engine like most.
ENGINES: dict[str, type[Engine]] = {
    "duckdb": DuckDB,
    "postgres": Postgres,
    "pyspark": Spark,
}


def engine_of(expression: ir.Expr) -> Engine:
    """Return the engine that runs the queries on a table or column."""
    return _engine_of_connection(expression.get_backend())


@contextmanager
def open_table(
    source: str,
    *,
    engine: str = "duckdb",
    memory: str = "4GB",
    master: str | None = None,
    table: str | None = None,
    hive: bool = False,
) -> Iterator[ir.Table]:
    """Open a log: a file, files by a pattern, or a table of a connection.

    Args:
        source: A path or pattern of Parquet, CSV or JSON Lines files; or with ``table``
            the URL of an Ibis connection, as in ``duckdb:///clicks.duckdb``.
        engine: What reads files: ``duckdb`` here, ``spark`` locally or at ``master``.
        memory: How much memory DuckDB may take before it spills to disk.
        master: Spark's master URL; ``local[*]`` by default.
        table: Table to count, of the connection ``source``.
        hive: Whether folders named as in ``day=1`` are columns.
    """
    require_choice("engine", engine, ("duckdb", "spark"))
    place = source if table is None else without_password(source)
    with ExitStack() as stack:
        stack.enter_context(engine_errors(place))
        spill = str(stack.enter_context(scratch_folder()))
        if table is not None:
            database = _connect(source, memory, spill)
            stack.callback(database.connection.disconnect)
            yield database.open_table(table, place)
        elif engine == "spark":
            spark = stack.enter_context(connect_spark(master, spill))
            yield spark.open_files(source, hive=hive)
        else:
            duckdb = connect_duckdb(memory, spill)
            stack.callback(duckdb.connection.disconnect)
            yield duckdb.open_files(source, hive=hive)


@contextmanager
def open_frame(frame: Any, *, memory: str = "4GB") -> Iterator[ir.Table]:
    """Open a log that is a frame: pandas, polars, pyarrow, DuckDB; it speaks Arrow."""
    rows = table_of(frame)
    with engine_errors("the frame"):
        require_distinct(rows.column_names, "the frame")
        with scratch_folder() as spill, local_engine(memory, str(spill)) as engine:
            yield engine.open_arrow(rows)


@contextmanager
def local_engine(memory: str, spill: str) -> Iterator[DuckDB]:
    """Start an engine in this process, which keeps to ``memory`` and spills to disk."""
    engine = connect_duckdb(memory, spill)
    try:
        yield engine
    finally:
        engine.connection.disconnect()


def _connect(url: str, memory: str, spill: str) -> Engine:
    """Connect by URL; a DuckDB file is only read, and within ``memory``."""
    if require_url(url) == "duckdb":
        return connect_duckdb_file(url, memory, spill)
    return _engine_of_connection(connect_database(url))


def _engine_of_connection(connection: Any) -> Engine:
    return ENGINES.get(connection.name, Engine)(connection)
