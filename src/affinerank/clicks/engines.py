"""Engines that read logs where they are.

DuckDB reads files in this process, within a given memory, spilling to disk; Spark runs
locally or on a cluster; any other Ibis connection has tables of its own.
"""

from __future__ import annotations

import glob
import math
import re
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ibis
import ibis.expr.types as ir

from affinerank.errors import AffineRankError, ConfigError, DataError
from affinerank.files import one_line

ENGINES = frozenset({"duckdb", "_duckdb", "ibis", "pyspark", "py4j", "sqlglot"})
BYTES_PER_GROUP = 40  # a third of what a group takes: DuckDB can spill the rest
ENDINGS = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")
CSV_SETTINGS: dict[str, dict[str, Any]] = {
    "duckdb": {"skip": 0, "all_varchar": True, "allow_quoted_nulls": False},
    "pyspark": {"multiLine": True},
}


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
        engine: What reads files: ``duckdb`` here, ``spark`` locally or at ``master``.
        memory: How much memory DuckDB may take before it spills to disk.
        master: Spark's master URL; ``local[*]`` by default.
        table: Table to count, of the connection ``source``.
    """
    if engine not in ("duckdb", "spark"):
        raise ConfigError(f"engine must be duckdb or spark, got {engine!r}")
    name = source if table is None else without_password(source)
    with ExitStack() as stack:
        stack.enter_context(engine_errors(name))
        spill = stack.enter_context(tempfile.TemporaryDirectory(prefix="affinerank-"))
        if table is not None:
            connection = _connected(source, memory, spill)
            stack.callback(connection.disconnect)
            known = connection.list_tables()
            if table not in known:
                there = f"there are {', '.join(known[:12]) or 'none'}"
                raise DataError(f"{name}: there is no table {table!r}; {there}")
            yield connection.table(table)
        elif engine == "spark":
            yield _read(stack.enter_context(_spark(master)), source)
        else:
            connection = _duckdb(memory, spill)
            stack.callback(connection.disconnect)
            yield _read(connection, source)


@contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Turn errors of an engine into a :class:`DataError` of one line."""
    try:
        yield
    except AffineRankError:
        raise
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ENGINES:
            raise
        text = str(error)
        for rest in ("\nPossible", "JVM stacktrace", "\n\tat "):
            text = text.split(rest, maxsplit=1)[0]
        reason = f"the engine could not read it: {' '.join(text.split())[:300]}"
        if "OutOfMemory" in type(error).__name__:
            reason = "the memory it may take is too little; give more (--memory)"
        raise DataError(f"{what}: {reason}") from None


def is_duckdb(table: ir.Table) -> bool:
    """Whether DuckDB runs the queries on ``table``."""
    return bool(table.get_backend().name == "duckdb")


def in_parts(table: ir.Table, column: str, rows: int) -> list[ir.Table]:
    """Split what is far too much for DuckDB's memory, by a hash of ``column``.

    Grouped by that column and others, the parts together give what the whole would.
    DuckDB spills to disk, but gives up if groups are many times what fits. Each part
    is one more pass over the log. Other engines need no parts.
    """
    if not is_duckdb(table):
        return [table]
    query = "SELECT current_setting('memory_limit')"
    [(text,)] = table.get_backend().raw_sql(query).fetchall()
    number, unit = text.split()
    memory = float(number) * 1024 ** ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit)
    n = math.ceil(rows * BYTES_PER_GROUP / memory)
    if n <= 1:
        return [table]
    return [table.filter(table[column].hash().abs() % n == i) for i in range(n)]


def gathered(parts: Sequence[ir.Table]) -> ir.Table:
    """Compute parts one after another, into one temporary table of DuckDB."""
    if not is_duckdb(parts[0]):
        return parts[0]  # other engines have no parts
    backend, name = parts[0].get_backend(), f"affinerank_{uuid.uuid4().hex}"
    whole = backend.create_table(name, schema=parts[0].schema(), temp=True)
    for part in parts:
        backend.insert(name, part)
    return whole


def totals(table: ir.Table, **sums: ir.Scalar) -> dict[str, int]:
    """Aggregate to whole numbers, in one pass; a sum over no rows is 0."""
    [row] = table.agg(**sums).to_pyarrow().to_pylist()
    return {name: int(value or 0) for name, value in row.items()}


def without_password(url: str) -> str:
    """Hide the password in a URL that is going to be printed.

    >>> without_password("postgres://me:secret@host/db")
    'postgres://me:***@host/db'
    """
    try:
        password = urlsplit(url).password
    except ValueError:
        password = None
    return url.replace(f":{password}@", ":***@") if password else url


def _duckdb(memory: str, spill: str, *path: Path, **settings: Any) -> Any:
    """Connect to DuckDB, to be kept within ``memory``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*[KMGT]i?B\s*", memory, re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise ConfigError(f"--memory takes an amount as in 4GB, got {memory!r}")
    connection = ibis.duckdb.connect(
        *path,
        memory_limit=memory.strip(),
        temp_directory=spill,
        preserve_insertion_order=False,
        **settings,
    )
    connection.raw_sql("SET TimeZone = 'UTC'")
    return connection


def _connected(url: str, memory: str, spill: str) -> Any:
    """Connect by URL; a DuckDB file is only read, and within ``memory``."""
    if not re.match(r"\w+://", url):
        raise ConfigError(
            f"expected a connection as in duckdb:///clicks.duckdb, got {url!r}"
        )
    if url.startswith("duckdb://"):
        place = url.removeprefix("duckdb://")  # from the root, or from here
        for path in (Path(place), Path(place.removeprefix("/"))):
            if path.is_file():
                return _duckdb(memory, spill, path, read_only=True)
        raise DataError(f"{url}: there is no such file")
    try:
        return ibis.connect(url)
    except (ImportError, ValueError) as error:
        shown = without_password(url)
        reason = one_line(error).replace(url, shown)
        raise ConfigError(f"{shown}: cannot be connected to: {reason[:200]}") from None


@contextmanager
def _spark(master: str | None) -> Iterator[Any]:
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
        yield ibis.pyspark.connect(session)
    finally:
        if running is None:
            session.stop()


def _read(connection: Any, source: str) -> ir.Table:
    """Read files by their ending; what is text in them stays text."""
    path = Path(source)
    pattern = any(character in source for character in "*?[") and not path.exists()
    if not pattern and not path.exists():
        raise DataError(f"{source}: there is no such file")
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    if not path.is_dir() and not name.endswith(ENDINGS):
        raise DataError(
            f"{source}: expected a file that ends in .parquet, .csv, .tsv or .jsonl "
            "(.gz too), or a folder of Parquet files"
        )
    exact, spark = source, connection.name == "pyspark"
    if not spark:
        inside = "/**/*.parquet" if path.is_dir() else ""
        exact = (source if pattern else glob.escape(source)) + inside
    if path.is_dir() or name.endswith(".parquet"):
        return connection.read_parquet(exact)
    if name.endswith((".csv", ".tsv")):
        separator = "\t" if name.endswith(".tsv") else ","
        settings = CSV_SETTINGS[connection.name]
        return connection.read_csv(
            exact, header=True, sep=separator, quote='"', escape='"', **settings
        )
    if spark:
        return connection.read_json(exact, primitivesAsString=True)
    # Ids that look like dates or UUIDs must not become such.
    columns = connection.read_json(exact).columns
    return connection.read_json(exact, columns=dict.fromkeys(columns, "VARCHAR"))
