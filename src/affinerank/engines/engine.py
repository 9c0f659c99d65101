"""Engines that read logs where they are.

DuckDB reads files in this process, within a given memory, spilling to disk; Spark runs
locally or on a cluster; any other Ibis connection has tables of its own.
"""

from __future__ import annotations

import glob
import math
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import pyarrow as pa
from ibis.common.exceptions import IbisTypeError

from affinerank.engines.files import Layout, layouts, require_distinct
from affinerank.support.arrow import table_of
from affinerank.support.errors import AffineRankError, ConfigError, DataError, warn
from affinerank.support.files import one_line, scratch_folder
from affinerank.support.limits import LINE_BYTES, LOG_LAYOUTS
from affinerank.support.progress import Progress, no_progress
from affinerank.support.settings import require_choice

ENGINES = frozenset(
    ("duckdb", "_duckdb", "ibis", "pyspark", "py4j", "psycopg", "sqlglot")
)
# Rows may arrive while Postgres counts; a query ends with the process that asked (14).
# What was never analysed would be joined row by row.
AS_OF_NOW = """
    BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;
    SET LOCAL enable_nestloop = off;
    SELECT set_config(name, '5s', false)
    FROM (VALUES ('client_connection_check_interval')) AS settings (name)
    WHERE current_setting(name, true) IS NOT NULL
"""
SECONDS_WITHOUT_WORKER = 120  # that a job on Spark may wait for one
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
# What of DuckDB's memory a group that is counted, or a session that is checked, needs:
# it takes about 160 bytes, and DuckDB, which spills to disk by itself, groups six times
# what it holds no slower than in parts.
BYTES_PER_GROUP = 27
BESIDE_GROUPS = 400e6  # bytes of DuckDB's memory that hold no groups, about
LESS_FOR_NUMBERS = 0.6  # of that, where no column is text
BESIDE_DUCKDB = 600e6  # bytes of this process that DuckDB does not count, about
MIN_FOR_DUCKDB = 60e6
SIZED = 16  # one of so many groups, and of sessions, shows how many there are
ROWS_TO_WEIGH = 100_000  # which show how much disk a row takes
SECONDS_BETWEEN_LOOKS = 0.5
TEXT_FILES = "affinerank_text_"  # begins the names of what DuckDB reads from text


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
    name = source if table is None else without_password(source)
    with ExitStack() as stack:
        stack.enter_context(engine_errors(name))
        spill = str(stack.enter_context(scratch_folder()))
        if table is not None:
            connection = _connected(source, memory, spill)
            stack.callback(connection.disconnect)
            if connection.name == "postgres":
                connection.raw_sql(AS_OF_NOW)
            known = connection.list_tables()
            if table not in known:
                there = f"there are {', '.join(known[:12]) or 'none'}"
                raise DataError(f"{name}: there is no table {table!r}; {there}")
            yield connection.table(table)
        elif engine == "spark":
            yield _read(stack.enter_context(_spark(master, spill)), source, hive)
        else:
            connection = connect_duckdb(memory, spill)
            stack.callback(connection.disconnect)
            yield _read(connection, source, hive)


@contextmanager
def open_frame(frame: Any, *, memory: str = "4GB") -> Iterator[ir.Table]:
    """Open a log that is a frame: pandas, polars, pyarrow, DuckDB; it speaks Arrow."""
    log = table_of(frame)
    with ExitStack() as stack:
        stack.enter_context(engine_errors("the frame"))
        require_distinct(log.column_names, "the frame")
        spill = str(stack.enter_context(scratch_folder()))
        connection = connect_duckdb(memory, spill)
        stack.callback(connection.disconnect)
        name = f"affinerank_{uuid.uuid4().hex}"
        connection.con.register(name, log)
        yield connection.table(name)


@contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Turn errors of an engine into a :class:`DataError` of one line."""
    try:
        yield
    except AffineRankError:
        raise
    except Exception as raised:
        error: BaseException = raised
        if type(error).__module__.split(".")[0] not in ENGINES:
            raise
        if type(error).__name__ == "InvalidCursorName" and error.__context__:
            error = error.__context__  # closing what the true error has closed
        # DuckDB counts the line that it could not read twice.
        line = re.search(r"(?<=Malformed JSON)(.* in line )(\d+)", text := str(error))
        if line is not None:
            text = text.replace(line[0], f"{line[1]}{int(line[2]) - 1}")
        for rest in ("\nPossible", "JVM stacktrace", "\n\tat "):
            text = text.split(rest, maxsplit=1)[0]
        reason = f"the engine could not read it: {' '.join(text.split())[:300]}"
        if "No space left" in text or "max_temp_directory_size" in text:
            reason = "the disk is full: the output's, or the one for spilling (TMPDIR)"
        elif (
            "temporary file size exceeds" in text or "DiskFull" in type(error).__name__
        ):
            reason = "the server's disk is full, or what it lets a query take of it"
        elif "disabled by configuration" in text or "disabled through conf" in text:
            reason = "a database may not read other files or load extensions"
        elif type(error).__name__ in ("OperationalError", "AdminShutdown"):
            reason = f"the connection failed: {' '.join(text.split())[:300]}"
        elif "OutOfMemory" in type(error).__name__:
            reason = "the memory it may take is too little; give more (--memory)"
        raise DataError(f"{what}: {reason}") from None


def is_duckdb(table: ir.Table) -> bool:
    """Whether DuckDB runs the queries on ``table``."""
    return bool(table.get_backend().name == "duckdb")


def is_confined(table: ir.Table) -> bool:
    """Whether the engine is a DuckDB that may only use its temporary folder."""
    return is_duckdb(table) and _setting(table, "enable_external_access") is False


@contextmanager
def work_folder(table: ir.Table) -> Iterator[Path]:
    """Yield a temporary folder that the engine of ``table`` may write to."""
    if is_confined(table):
        # It is removed with the temporary folder of DuckDB that it is in.
        yield Path(tempfile.mkdtemp(dir=_setting(table, "temp_directory")))
    else:
        with scratch_folder() as folder:
            yield folder


def parsed_once(log: ir.Table, folder: Path) -> ir.Table:
    """Return a log of text files as one of a Parquet file, written into ``folder``.

    Counting reads a log several times, and parsing text takes longest. A log that is no
    text, or cannot be written, stays as it is; if it is to blame, reading it says so.
    """
    if not is_duckdb(log) or TEXT_FILES not in ibis.to_sql(log, dialect="duckdb"):
        return log
    import duckdb

    file = folder / "parsed.parquet"
    try:
        copy_to(ibis.to_sql(log, dialect="duckdb"), file, log)
    except duckdb.InterruptException:
        raise  # a user stopped it
    except duckdb.Error:
        file.unlink(missing_ok=True)
        return log
    return log.get_backend().read_parquet(glob.escape(str(file)))


def _setting(table: ir.Table, name: str) -> Any:
    """Return a setting of DuckDB."""
    query = f"SELECT current_setting('{name}')"
    [(value,)] = table.get_backend().raw_sql(query).fetchall()
    return value


@ibis.udf.scalar.builtin(name="hash")  # type: ignore[untyped-decorator]
def _duckdb_hash(value) -> dt.uint64:  # type: ignore[no-untyped-def]
    """DuckDB's own: that of Ibis writes each hash out as text first."""


@ibis.udf.scalar.builtin(name="hash")  # type: ignore[untyped-decorator]
def _duckdb_hash_of_two(first, second) -> dt.uint64:  # type: ignore[no-untyped-def]
    """DuckDB hashes several columns at once."""


def hashed(column: ir.Value, *more: ir.Value) -> ir.Value:
    """Hash a column, on DuckDB also two, to whole numbers from 0 on."""
    if column.get_backend().name == "duckdb":
        return (_duckdb_hash_of_two if more else _duckdb_hash)(column, *more) >> 1
    return column.hash() & (2**31 - 1)  # Spark's has 32 bits, and the least has no abs


def in_parts(table: ir.Table, column: str, rows: int) -> list[ir.Table]:
    """Split what is far too much for DuckDB's memory, by a hash of ``column``.

    Grouped by that column and others, the parts together give what the whole would.
    DuckDB spills to disk, but gives up if groups are many times what fits. Each part
    is one more pass over the log. Other engines need no parts.
    """
    n = _parts_for(table, rows / 4)
    if n <= 1:
        return [table]
    return [table.filter(hashed(table[column]) % n == i) for i in range(n)]


def write_partitions(
    log: ir.Table, rows: int, folder: Path, progress: Progress = no_progress
) -> list[ir.Table]:
    """Write a log whose groups far exceed DuckDB's memory to disk, in parts.

    That is one pass. A query is in one part, by its hash. A log that fits, judged by
    rough numbers of its groups and sessions, is its only part.
    """
    if _parts_for(log, rows) <= 1:
        return [log]
    sql, backend = ibis.to_sql(log, dialect="duckdb"), log.get_backend()
    # Of the hashes one in SIZED is counted: that takes longer than hashing.
    few = [
        f"approx_count_distinct({name}) FILTER (WHERE {name} % {SIZED} = 0)"
        for name in ("g", "s")
    ]
    hashes = "hash(query_id, doc_id, rank) AS g, hash(session_id) AS s"
    rough = f"""SELECT {SIZED} * greatest({", ".join(few)})
        FROM (SELECT {hashes} FROM ({sql}))"""  # noqa: S608
    with with_progress(log, progress, "sizing up the log", rows):
        [(number,)] = backend.raw_sql(rough).fetchall()
    n = _parts_for(log, number)
    if n <= 1:
        return [log]
    weighed = folder / "weighed.parquet"
    copy_to(f"SELECT * FROM ({sql}) LIMIT {ROWS_TO_WEIGH}", weighed, log)  # noqa: S608
    needed = 1.2 * weighed.stat().st_size * max(rows / ROWS_TO_WEIGH, 1)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"the log: to count it within --memory takes {needed / 1e9:.1f} GB of disk "
            f"in {folder.parent}, which has {free / 1e9:.1f} GB; give more memory, or "
            "another folder (TMPDIR)"
        )
    split = f"SELECT *, hash(query_id) % {n} AS part FROM ({sql})"  # noqa: S608
    with with_progress(log, progress, "writing the log in parts", rows):
        # Rows of every part are held until they are as many as a row group has.
        how = "PARTITION_BY (part), ROW_GROUP_SIZE 16384"
        copy_to(split, folder / "parts", log, how)
    return [
        backend.read_parquet(f"{glob.escape(str(part))}/*", hive_partitioning=False)
        for part in sorted((folder / "parts").iterdir())
    ]


def copy_to(query: str, path: Path, log: ir.Table, how: str = "") -> None:
    """Let DuckDB write the result of a query as Parquet."""
    target, more = str(path).replace("'", "''"), f", {how}" if how else ""
    log.get_backend().raw_sql(f"COPY ({query}) TO '{target}' (FORMAT parquet{more})")


@contextmanager
def with_progress(
    table: ir.Table,
    progress: Progress,
    stage: str,
    rows: int,
    done: int = 0,
    of: int | None = None,
) -> Iterator[None]:
    """Report how far DuckDB's queries on a table are, by its rows.

    Where the table is a part, ``done`` rows ``of`` all were behind before.
    """
    over, total = Event(), rows if of is None else of

    def look() -> None:
        furthest = 0.0
        while not over.wait(SECONDS_BETWEEN_LOOKS):
            furthest = max(furthest, table.get_backend().con.query_progress())
            progress(stage, done + int(rows * furthest / 100), total)

    progress(stage, done, total)
    watcher = Thread(target=look, daemon=True)
    if is_duckdb(table):
        watcher.start()
    try:
        yield
    finally:
        over.set()
        if watcher.is_alive():
            watcher.join()
    progress(stage, done + rows, total)


def _parts_for(table: ir.Table, groups: float) -> int:
    """In how many parts DuckDB groups so many well."""
    if not is_duckdb(table):
        return 1
    number, unit = _setting(table, "memory_limit").split()
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    memory: float = float(number) * 1024 ** units.index(unit)
    text = any(table[name].type().is_string() for name in table.columns)
    each = BYTES_PER_GROUP * (1.0 if text else LESS_FOR_NUMBERS)
    return math.ceil(groups * each / max(memory - BESIDE_GROUPS, memory / 3))


def union_all(parts: Sequence[ir.Table]) -> ir.Table:
    """Put the parts of a table together again."""
    return parts[0] if len(parts) == 1 else ibis.union(*parts)


def materialised(parts: Sequence[ir.Table]) -> ir.Table:
    """Compute parts one after another, into one temporary table of DuckDB."""
    if not is_duckdb(parts[0]):
        return parts[0]  # other engines have no parts
    backend, name = parts[0].get_backend(), f"affinerank_{uuid.uuid4().hex}"
    union_all = backend.create_table(name, parts[0], temp=True)
    for part in parts[1:]:
        backend.insert(name, part)
    return union_all


def filter_by_sql(table: ir.Table, condition: str) -> ir.Table:
    """Keep the rows that meet a condition in the engine's own SQL."""
    # The line break ends a comment that the condition may end with.
    where = f"WHERE ({condition}\n)"
    if table.get_backend().name != "postgres":
        return table.alias("log").sql(f"SELECT * FROM log {where}")  # noqa: S608
    # Ibis would make a view to learn the columns: they are known, and views are writes.
    query = f"SELECT * FROM ({ibis.to_sql(table)}) AS log {where}"  # noqa: S608
    kept = table.get_backend().sql(query, schema=table.schema())
    kept.limit(0).to_pyarrow()  # a condition that is none is an error here
    return kept


def read_as(kind: str, text: ir.Value) -> ir.Value:
    """Read text as ``float64`` or ``timestamp``, null where it is none."""
    if text.get_backend().name == "duckdb":
        return text.try_cast(kind)
    # Postgres stops at what is none, and Spark takes 3d for a number.
    plain = ibis.ifelse(text.re_search(TEXTS[kind]), text, ibis.null())
    if kind == "timestamp":  # Postgres reads a time zone only if asked to
        plain = plain.cast("timestamp('UTC')")
    return plain.cast(kind)


@ibis.udf.scalar.builtin(name="convert_to")  # type: ignore[untyped-decorator]
def _encoded(text: str, encoding: str) -> bytes:  # type: ignore[empty-body]
    """Return text as bytes, on Postgres."""


def in_byte_order(column: ir.Value) -> ir.Value:
    """Return what orders as DuckDB and Spark do; Postgres would go by its language."""
    if column.type().is_string() and column.get_backend().name == "postgres":
        return _encoded(column, "UTF8")
    return column


def batches(table: ir.Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Fetch the result of a query, so many rows at once."""
    if (backend := table.get_backend()).name != "pyspark":
        yield from table.to_pyarrow_batches(chunk_size=rows)
        return
    # Ibis would fetch all at once.
    kind = pa.struct(table.schema().to_pyarrow())
    fetched = backend.raw_sql(backend.compile(table)).toLocalIterator()
    while some := [tuple(row) for row in islice(fetched, rows)]:
        yield pa.RecordBatch.from_struct_array(pa.array(some, kind))


def integer_totals(table: ir.Table, **sums: ir.Scalar) -> dict[str, int]:
    """Aggregate to whole numbers, in one pass; a sum over no rows is 0."""
    [row] = table.agg(**sums).to_pyarrow().to_pylist()
    return {name: int(value or 0) for name, value in row.items()}


def without_password(url: str) -> str:
    """Hide the password in a URL that is going to be printed.

    >>> without_password("postgres://me:secret@host/db")
    'postgres://me:***@host/db'
    """
    with suppress(ValueError):
        if password := urlsplit(url).password:
            return url.replace(f":{password}@", ":***@")
    return url


def connect_duckdb(memory: str, spill: str, *path: Path, **settings: Any) -> Any:
    """Connect to DuckDB, so that the process keeps within ``memory``, about."""
    match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d+)?)\s*([KMGT])(i?)B\s*", memory, re.I)
    if match is None or float(match[1]) == 0:
        raise ConfigError(f"--memory takes an amount as in 4GB, got {memory!r}")
    unit = (1024 if match[3] else 1000) ** (1 + "KMGT".index(match[2].upper()))
    given = float(match[1]) * unit
    own = given - min(BESIDE_DUCKDB, 0.58 * given)  # 1 GB must stay below 1.3
    connection = ibis.duckdb.connect(
        *path,
        memory_limit=f"{max(own, min(0.6 * given, MIN_FOR_DUCKDB)):.0f}B",
        temp_directory=spill,
        preserve_insertion_order=False,
        autoinstall_known_extensions=False,  # nothing is fetched
        **settings,
    )
    connection.raw_sql("SET TimeZone = 'UTC'")
    # Progress is asked for, and not written on stdout.
    connection.raw_sql("SET enable_progress_bar = true")
    connection.raw_sql("SET enable_progress_bar_print = false")
    connection.raw_sql("SET progress_bar_time = 0")
    # Statistics of a damaged file are wrong, and keys would be cut to fit them.
    connection.raw_sql("SET disabled_optimizers = 'statistics_propagation'")
    return connection


def _connected(url: str, memory: str, spill: str) -> Any:
    """Connect by URL; a DuckDB file is only read, and within ``memory``."""
    scheme, _, place = url.partition("://")
    if not re.fullmatch(r"\w+", scheme) or scheme.lower() == "file":
        raise ConfigError(f"expected a URL as in duckdb:///clicks.duckdb, got {url!r}")
    if scheme.lower() == "duckdb":
        # The path is from the root, or from here.
        for path in (Path(place), Path(place.removeprefix("/"))):
            if path.is_file():
                connection = connect_duckdb(memory, spill, path, read_only=True)
                _confine(connection, spill)
                return connection
        raise DataError(f"{url}: there is no such file")
    # SQLite would make a file that is not there.
    database = place.partition("?")[0]
    if scheme.lower() == "sqlite" and not Path(database).is_file():
        raise DataError(f"{url}: there is no such file")
    try:
        return ibis.connect(url)
    except ImportError:
        kind = urlsplit(url).scheme.replace("postgresql", "postgres")
        extra = "affinerank" if kind == "postgres" else "ibis-framework"
        raise ConfigError(
            f"{without_password(url)}: what reads it is not installed: "
            f"pip install '{extra}[{kind}]'"
        ) from None
    except ValueError as error:
        shown = without_password(url)
        reason = one_line(error).replace(url, shown)
        raise ConfigError(f"{shown}: cannot be connected to: {reason[:200]}") from None


def _confine(connection: Any, folder: str) -> None:
    """Let DuckDB use no files but those in a folder, and lock that.

    A view of a stranger's database could read any file of this machine.
    """
    name = folder.replace("'", "''")
    connection.raw_sql(f"SET allowed_directories = ['{name}']")
    connection.raw_sql("SET enable_external_access = false")
    connection.raw_sql("SET lock_configuration = true")


@contextmanager
def _spark(master: str | None, spill: str) -> Iterator[Any]:
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
        with _given_up(session.sparkContext):
            yield ibis.pyspark.connect(session)
    finally:
        if running is None:
            session.stop()


@contextmanager
def _given_up(context: Any) -> Iterator[None]:
    """Give up once jobs have waited long for a worker: Spark would wait for ever."""
    done, lost = Event(), Event()

    def watch() -> None:
        waited = 0
        while not done.wait(1):
            jobs = context.statusTracker().getActiveJobsIds()
            alone = context._jsc.sc().getExecutorMemoryStatus().size() == 1  # driver
            waited = waited + 1 if jobs and alone else 0
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


def _read(connection: Any, source: str, hive: bool) -> ir.Table:
    """Read files by their ending; what is text in them stays text."""
    if (Path(source) / "_delta_log").is_dir():
        return _delta(connection, source)
    found = layouts(source)
    if len(found) > LOG_LAYOUTS:
        many = f"{len(found)} sets of columns, more than {LOG_LAYOUTS}"
        raise DataError(f"{source}: {many}; count it in parts")
    spark = connection.name == "pyspark"
    if hive and (spark or any(layout.format != "parquet" for layout in found)):
        raise ConfigError("--hive is for Parquet files, read by the engine duckdb")
    read = _by_spark if spark else partial(_by_duckdb, hive=hive)
    return _united([read(connection, layout, paths) for layout, paths in found.items()])


def _delta(connection: Any, source: str) -> ir.Table:
    """Read a Delta table as it is now; its folder holds rows that were deleted, too."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise ConfigError(
            f"{source}: a Delta table needs deltalake: pip install 'affinerank[delta]'"
        ) from None
    if connection.name == "pyspark":
        raise ConfigError(f"{source}: a Delta table is read by the engine duckdb")
    name = f"affinerank_{uuid.uuid4().hex}"
    try:
        connection.con.register(name, DeltaTable(source).to_pyarrow_dataset())
    except DeltaError as error:
        reason = str(error).split("\n", maxsplit=1)[0][:200]
        raise DataError(
            f"{source}: cannot be read as a Delta table: {reason}"
        ) from None
    return connection.table(name)


def _by_duckdb(
    connection: Any, layout: Layout, paths: list[str], hive: bool
) -> ir.Table:
    """Read files of one layout; nothing about them is left for DuckDB to guess."""
    exact = [glob.escape(path) for path in paths]
    if layout.format == "parquet":
        if hive:
            folders = re.findall(r"([^/]+)=[^/]*/", Path(paths[0]).resolve().as_posix())
            require_distinct([*layout.columns, *folders], paths[0])
        text = {"hive_types_autocast": False} if hive else {}
        return connection.read_parquet(exact, hive_partitioning=hive, **text)
    kind = layout.compression or "uncompressed"
    stated: dict[str, Any] = {"compression": kind, "hive_partitioning": False}
    if layout.format == "json":
        stated |= {"format": "newline_delimited", "maximum_object_size": LINE_BYTES}
        columns = dict.fromkeys(_json_names(connection.con, exact, stated), "VARCHAR")
        stated |= {"table_name": f"{TEXT_FILES}{uuid.uuid4().hex}", "records": "true"}
        return connection.read_json(exact, columns=columns, **stated)
    # What is strict has been checked; strict, DuckDB takes no mixed line ends.
    stated |= {"delim": layout.separator, "quote": '"', "escape": '"', "header": True}
    stated |= {"strict_mode": False, "allow_quoted_nulls": False}
    stated |= {"max_line_size": LINE_BYTES, "parallel": not layout.broken}
    columns = dict.fromkeys(layout.columns, "VARCHAR")
    stated["table_name"] = f"{TEXT_FILES}{uuid.uuid4().hex}"
    return connection.read_csv(exact, columns=columns, **stated)


def _json_names(connection: Any, paths: list[str], stated: dict[str, Any]) -> list[str]:
    """Return the names that the objects have, of all lines of all files."""
    options = ", ".join(f"{name} = ${name}" for name in stated)
    query = (
        "SELECT json_keys(json), min(filename) "  # noqa: S608
        f"FROM read_json_objects($paths, filename = true, {options}) GROUP BY 1"
    )
    names: dict[str, None] = {}
    for keys, path in connection.execute(query, {"paths": paths, **stated}).fetchall():
        require_distinct(keys, path)
        names.update(dict.fromkeys(keys))
    require_distinct(names, paths[0])
    return sorted(names) or ["nothing"]


def _by_spark(connection: Any, layout: Layout, paths: list[str]) -> ir.Table:
    """Read files of one layout; Spark would take null for what it cannot read."""
    from pyspark.sql import SparkSession

    for path in paths:
        if Path(path).name.startswith(("_", ".")):
            raise DataError(f"{path}: Spark reads no file whose name begins so")
    exact = [re.sub(r"([][{}*?\\])", r"\\\1", path) for path in paths]
    stated: dict[str, Any] = {"mode": "FAILFAST", "recursiveFileLookup": True}
    if layout.format == "csv":
        stated |= {"sep": layout.separator, "quote": '"', "escape": '"'}
        stated |= {"header": True, "multiLine": True}
    elif layout.format == "json":
        stated["primitivesAsString"] = True
    frame = SparkSession.active().read.load(exact, layout.format, **stated)
    require_distinct(frame.columns, paths[0])
    name = f"affinerank_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(name)
    return connection.table(name)


def _united(tables: list[ir.Table]) -> ir.Table:
    """Put tables together by the names of their columns; what one has not is null."""
    found: dict[str, list[dt.DataType]] = {}
    for table in tables:
        for name, kind in table.schema().items():
            found.setdefault(name, []).append(kind)
    require_distinct(found, "the files of the log")
    types = {name: _common_type(name, kinds) for name, kinds in found.items()}

    def of_all(table: ir.Table) -> ir.Table:
        there = {n: table[n] for n in table.columns}
        return table.select(
            **{n: there.get(n, ibis.null()).cast(kind) for n, kind in types.items()}
        )

    return tables[0] if len(tables) == 1 else ibis.union(*map(of_all, tables))


def _common_type(name: str, kinds: list[dt.DataType]) -> dt.DataType:
    """Return a type that holds all of the types a column has; else text."""
    try:
        return dt.highest_precedence(kinds)
    except IbisTypeError:
        several = " and ".join(sorted({str(kind) for kind in kinds}))
        note = f"{name} holds {several} in different files; it is kept as text"
        warn(note)
        return dt.string
