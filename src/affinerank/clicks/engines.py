"""Where logs lie, and the engines that read them there.

DuckDB reads files in this process, within a given memory, spilling to disk; Spark runs
locally or on a cluster; any other Ibis connection has tables of its own.
"""

from __future__ import annotations

import glob
import math
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ibis
import ibis.expr.types as ir

from affinerank.errors import AffineRankError, ConfigError, DataError

ENGINES = frozenset({"duckdb", "_duckdb", "ibis", "pyspark", "py4j", "sqlglot"})
BYTES_PER_GROUP = 40  # a third of what a group takes: DuckDB can spill the rest
ENDINGS = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".json")


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
    if engine not in ("duckdb", "spark"):
        raise ConfigError(f"engine must be duckdb or spark, got {engine!r}")
    name = source if table is None else without_password(source)
    with ExitStack() as stack:
        stack.enter_context(engine_errors(name))
        spill = stack.enter_context(tempfile.TemporaryDirectory(prefix="affinerank-"))
        if table is not None:
            connection = _connected(source, memory, spill)
            stack.callback(connection.disconnect)
            yield _table_of(connection, name, table)
        elif engine == "spark":
            yield _read(stack.enter_context(_spark(master)), source)
        else:
            connection = ibis.duckdb.connect(**_within(memory, spill))
            stack.callback(connection.disconnect)
            connection.raw_sql("SET TimeZone = 'UTC'")
            yield _read(connection, source)


@contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Turn an engine's complaint into a sentence of ours."""
    try:
        yield
    except AffineRankError:
        raise
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ENGINES:
            raise
        raise DataError(f"{what}: {_reason(error)}") from None


def is_duckdb(table: ir.Table) -> bool:
    """Whether DuckDB runs what is asked of ``table``."""
    return bool(table.get_backend().name == "duckdb")


def in_parts(table: ir.Table, column: str, rows: int) -> list[ir.Table]:
    """Split what is far too much for DuckDB's memory, by a hash of ``column``.

    Grouped by that column and others, the parts together give what the whole would.
    DuckDB spills to disk, but gives up if groups are many times what fits. Each part
    is one more pass over the log. Other engines take care of themselves.
    """
    if not is_duckdb(table):
        return [table]
    n = math.ceil(rows * BYTES_PER_GROUP / _memory(table))
    if n <= 1:
        return [table]
    return [table.filter(table[column].hash().abs() % n == i) for i in range(n)]


def _memory(table: ir.Table) -> float:
    """Bytes that DuckDB may take."""
    query = "SELECT current_setting('memory_limit')"
    [(text,)] = table.get_backend().raw_sql(query).fetchall()
    number, unit = text.split()
    return float(number) * 1024.0 ** ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit)


def quoted(path: Path) -> str:
    """Write a path as a text of SQL."""
    return "'" + str(path).replace("'", "''") + "'"


def without_password(url: str) -> str:
    """Leave a password out of a URL that is going to be printed.

    >>> without_password("postgres://me:secret@host/db")
    'postgres://me:***@host/db'
    """
    try:
        password = urlsplit(url).password
    except ValueError:
        password = None
    return url.replace(f":{password}@", ":***@") if password else url


def _reason(error: Exception) -> str:
    """Shorten what an engine says to its first sentence or so."""
    if "OutOfMemory" in type(error).__name__:
        return "the memory it may take is too little; give more (--memory)"
    text = str(error).split("\nPossible", maxsplit=1)[0]
    text = text.split("JVM stacktrace", maxsplit=1)[0].split("\n\tat ", maxsplit=1)[0]
    return f"the engine could not read it: {' '.join(text.split())[:300]}"


def _within(memory: str, spill: str) -> dict[str, Any]:
    """Return the settings that keep DuckDB within ``memory``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*[KMGT]i?B\s*", memory, re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise ConfigError(
            f"--memory takes an amount as in 4GB or 500MB, got {memory!r}"
        )
    return {
        "memory_limit": memory.strip(),
        "temp_directory": spill,
        "preserve_insertion_order": False,
    }


def _connected(url: str, memory: str, spill: str) -> Any:
    """Connect by URL; a DuckDB file is only read, and within ``memory``."""
    if not re.match(r"\w+://", url):
        raise ConfigError(
            f"expected a connection as in duckdb:///clicks.duckdb, got {url!r}"
        )
    if url.startswith("duckdb://"):
        path = _database(url.removeprefix("duckdb://"))
        settings = {**_within(memory, spill), "read_only": True}
        connection = ibis.duckdb.connect(path, **settings)
        connection.raw_sql("SET TimeZone = 'UTC'")
        return connection
    try:
        return ibis.connect(url)
    except (ImportError, ValueError) as error:
        reason = " ".join(str(error).split()).replace(url, without_password(url))
        raise ConfigError(
            f"{without_password(url)}: cannot be connected to: {reason[:200]}"
        ) from None


def _database(place: str) -> Path:
    """Find the file of ``duckdb:///clicks.duckdb``: from the root, or from here."""
    for path in (Path(place), Path(place.removeprefix("/"))):
        if path.is_file():
            return path
    raise DataError(f"duckdb://{place}: there is no such file")


def _table_of(connection: Any, url: str, table: str) -> ir.Table:
    known = connection.list_tables()
    if table not in known:
        there = f"there are {', '.join(known[:12])}" if known else "there are none"
        raise DataError(f"{url}: there is no table {table!r}; {there}")
    return connection.table(table)


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
    builder = SparkSession.builder.appName("affinerank")
    settings = {
        "spark.master": master or "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = running or builder.getOrCreate()
    except PySparkException as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"Spark did not start at {master or 'local[*]'}; it needs Java 17 or newer "
            f"(JAVA_HOME) and a master that answers: {reason}"
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
    if connection.name == "pyspark":
        return _read_by_spark(connection, source, name)
    exact = source if pattern else glob.escape(source)
    if path.is_dir():
        exact += "/**/*.parquet"
    return _read_by_duckdb(connection, exact, name if not path.is_dir() else ".parquet")


def _read_by_duckdb(connection: Any, source: str, name: str) -> ir.Table:
    if name.endswith(".parquet"):
        return connection.read_parquet(source)
    if name.endswith((".csv", ".tsv")):
        return connection.read_csv(
            source,
            header=True,
            delim="\t" if name.endswith(".tsv") else ",",
            quote='"',
            escape='"',
            skip=0,
            all_varchar=True,
            allow_quoted_nulls=False,
        )
    # Ids that look like dates or UUIDs must not become such.
    columns = connection.read_json(source).columns
    return connection.read_json(source, columns=dict.fromkeys(columns, "VARCHAR"))


def _read_by_spark(connection: Any, source: str, name: str) -> ir.Table:
    if name.endswith((".csv", ".tsv")):
        return connection.read_csv(
            source,
            header=True,
            sep="\t" if name.endswith(".tsv") else ",",
            quote='"',
            escape='"',
            multiLine=True,
        )
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return connection.read_json(source, primitivesAsString=True)
    return connection.read_parquet(source)
