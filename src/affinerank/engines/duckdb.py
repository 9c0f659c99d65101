"""DuckDB: reads files in this process, within a given memory, spilling to disk."""

from __future__ import annotations

import glob
import math
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import pyarrow as pa

from affinerank.engines.files import Layout, require_distinct
from affinerank.engines.reading import FileEngine
from affinerank.engines.session_scan import scan_query
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import scratch_folder
from affinerank.support.limits import LINE_BYTES
from affinerank.support.progress import Progress, no_progress

# What of the memory a group that is counted, or a session that is checked, needs: it
# takes about 160 bytes, and DuckDB, which spills to disk by itself, groups six times
# what it holds no slower than in parts.
BYTES_PER_GROUP = 27
BESIDE_GROUPS = 400e6  # bytes of DuckDB's memory that hold no groups, about
LESS_FOR_NUMBERS = 0.6  # of that, where no column is text
BESIDE_DUCKDB = 600e6  # bytes of this process that DuckDB does not count, about
MIN_FOR_DUCKDB = 60e6
MEMORY_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")  # as DuckDB prints them
SIZED = 16  # one of so many groups, and of sessions, shows how many there are
ROWS_TO_WEIGH = 100_000  # which show how much disk a row takes
SECONDS_BETWEEN_LOOKS = 0.5
TEXT_FILES = "affinerank_text_"  # begins the names of tables read from text


@ibis.udf.scalar.builtin(name="hash")  # type: ignore[untyped-decorator]
def _hash(value) -> dt.uint64:  # type: ignore[no-untyped-def]
    """DuckDB's own: that of Ibis writes each hash out as text first."""


@ibis.udf.scalar.builtin(name="hash")  # type: ignore[untyped-decorator]
def _hash_of_two(first, second) -> dt.uint64:  # type: ignore[no-untyped-def]
    """DuckDB hashes several columns at once."""


@ibis.udf.scalar.builtin(name="strlen")  # type: ignore[untyped-decorator]
def _bytes(text: str) -> int:  # type: ignore[empty-body]
    """DuckDB knows the bytes of a text, and has to count its characters."""


@ibis.udf.scalar.builtin(name="list_unique")  # type: ignore[untyped-decorator]
def _list_unique(values: dt.Array[dt.int64]) -> int:  # type: ignore[empty-body]
    """DuckDB counts the different values of a list, and does not copy them."""


class DuckDB(FileEngine):
    """DuckDB in this process."""

    in_process = True
    reads_folders_as_columns = True
    groups_integers_faster = True
    finds_bits_faster = True

    @property
    def is_confined(self) -> bool:
        """Whether it may use no files but those in its temporary folder."""
        return self._setting("enable_external_access") is False

    def _setting(self, name: str) -> Any:
        """Return a setting of DuckDB."""
        query = f"SELECT current_setting('{name}')"
        [(value,)] = self.connection.raw_sql(query).fetchall()
        return value

    # Opening a log.

    def open_arrow(self, rows: Any) -> ir.Table:
        """Open what speaks Arrow as a table."""
        name = _new_name()
        self.connection.con.register(name, rows)
        return self.connection.table(name)

    def open_delta(self, source: str) -> ir.Table:
        """Read a Delta table as it is now; its folder holds deleted rows, too."""
        try:
            from deltalake import DeltaTable
            from deltalake.exceptions import DeltaError
        except ImportError:
            raise ConfigError(
                f"{source}: a Delta table needs deltalake: "
                "pip install 'affinerank[delta]'"
            ) from None
        try:
            return self.open_arrow(DeltaTable(source).to_pyarrow_dataset())
        except DeltaError as error:
            reason = str(error).split("\n", maxsplit=1)[0][:200]
            raise DataError(
                f"{source}: cannot be read as a Delta table: {reason}"
            ) from None

    def read_parquet(self, *files: Path) -> ir.Table:
        """Read Parquet files that were written here; their folders are no columns."""
        paths = [glob.escape(str(file)) for file in files]
        return self.connection.read_parquet(paths, hive_partitioning=False)

    def read_files(self, layout: Layout, paths: list[str], *, hive: bool) -> ir.Table:
        """Read files of one layout; nothing about them is left for DuckDB to guess."""
        escaped = [glob.escape(path) for path in paths]
        if layout.format == "parquet":
            if not hive:
                return self.connection.read_parquet(escaped, hive_partitioning=False)
            folders = re.findall(r"([^/]+)=[^/]*/", Path(paths[0]).resolve().as_posix())
            require_distinct([*layout.columns, *folders], paths[0])
            return self.connection.read_parquet(
                escaped, hive_partitioning=True, hive_types_autocast=False
            )
        options: dict[str, Any] = {
            "compression": layout.compression or "uncompressed",
            "hive_partitioning": False,
        }
        if layout.format == "json":
            options["format"] = "newline_delimited"
            options["maximum_object_size"] = LINE_BYTES
            names = self._json_names(escaped, options)
            return self.connection.read_json(
                escaped,
                table_name=_new_name(TEXT_FILES),
                columns=dict.fromkeys(names, "VARCHAR"),
                records="true",
                **options,
            )
        return self.connection.read_csv(
            escaped,
            table_name=_new_name(TEXT_FILES),
            columns=dict.fromkeys(layout.columns, "VARCHAR"),
            delim=layout.separator,
            quote='"',
            escape='"',
            header=True,
            # What is strict has been checked; strict, DuckDB takes no mixed line ends.
            strict_mode=False,
            allow_quoted_nulls=False,
            max_line_size=LINE_BYTES,
            parallel=not layout.broken,
            **options,
        )

    def _json_names(self, paths: list[str], options: Mapping[str, Any]) -> list[str]:
        """Return the names that the objects have, of all lines of all files."""
        stated = ", ".join(f"{name} = ${name}" for name in options)
        query = (
            "SELECT json_keys(json), min(filename) "  # noqa: S608
            f"FROM read_json_objects($paths, filename = true, {stated}) GROUP BY 1"
        )
        found = self.connection.con.execute(query, {"paths": paths, **options})
        names: dict[str, None] = {}
        for keys, path in found.fetchall():
            require_distinct(keys, path)
            names.update(dict.fromkeys(keys))
        require_distinct(names, paths[0])
        return sorted(names) or ["nothing"]

    # Columns.

    def hashed(self, column: ir.Value) -> ir.Value:
        """Hash a column to whole numbers from 0 on."""
        return _hash(column) >> 1

    def hashed_pair(self, first: ir.Value, second: ir.Value) -> ir.Value:
        """Hash two columns together to whole numbers from 0 on."""
        return _hash_of_two(first, second) >> 1

    def read_as(self, kind: str, text: ir.Value) -> ir.Value:
        """Read text as ``float64`` or ``timestamp``, null where it is none."""
        return text.try_cast(kind)

    def length_bound(self, text: Any) -> Any:
        """Return the bytes of a text, which are as many as its characters, or more."""
        return _bytes(text)

    def count_different(self, column: Any) -> Any:
        """Count the different values of each group, of groups that fit in memory."""
        return _list_unique(column.collect())

    # Rows.

    def scan_sessions(self, rows: ir.Table, keys: Sequence[str]) -> ir.Table | None:
        """Return a query that looks at every session in one pass."""
        query = scan_query(_sql(rows), keys, noted="note" in rows.columns)
        return self.connection.sql(query)

    # Logs that are larger than memory.

    def in_parts(self, table: ir.Table, column: str, rows: int) -> list[ir.Table]:
        """Split what is far too much for the memory, by a hash of ``column``.

        DuckDB spills to disk, but gives up if groups are many times what fits.
        """
        n_parts = self._parts_for(table, rows / 4)
        if n_parts <= 1:
            return [table]
        part = self.hashed(table[column]) % n_parts
        return [table.filter(part == i) for i in range(n_parts)]

    def write_partitions(
        self, log: ir.Table, rows: int, folder: Path, progress: Progress = no_progress
    ) -> list[ir.Table]:
        """Write a log whose groups far exceed the memory to disk, in parts.

        That is one pass. A query is in one part, by its hash. A log that fits, judged
        by rough numbers of its groups and sessions, is its only part.
        """
        # So many rows cannot have too many groups.
        if self._parts_for(log, rows) <= 1:
            return [log]
        with self.with_progress(progress, "sizing up the log", rows):
            groups = self._rough_number_of_groups(log)
        n_parts = self._parts_for(log, groups)
        if n_parts <= 1:
            return [log]
        self._require_disk(log, rows, folder)
        split = f"SELECT *, hash(query_id) % {n_parts} AS part FROM ({_sql(log)})"  # noqa: S608
        with self.with_progress(progress, "writing the log in parts", rows):
            # Rows of every part are held until they are as many as a row group has.
            options = "PARTITION_BY (part), ROW_GROUP_SIZE 16384"
            self.copy_to(split, folder / "parts", options)
        return [
            self.read_parquet(*sorted(part.iterdir()))
            for part in sorted((folder / "parts").iterdir())
        ]

    def _parts_for(self, table: ir.Table, groups: float) -> int:
        """In how many parts DuckDB groups so many well."""
        number, unit = self._setting("memory_limit").split()
        memory: float = float(number) * 1024 ** MEMORY_UNITS.index(unit)
        text = any(table[name].type().is_string() for name in table.columns)
        bytes_per_group = BYTES_PER_GROUP * (1.0 if text else LESS_FOR_NUMBERS)
        memory_for_groups = max(memory - BESIDE_GROUPS, memory / 3)
        return math.ceil(groups * bytes_per_group / memory_for_groups)

    def _rough_number_of_groups(self, log: ir.Table) -> int:
        """Estimate the groups of a log or its sessions, whichever are more."""
        # Of the hashes one in SIZED is counted: that takes longer than hashing.
        few = [
            f"approx_count_distinct({name}) FILTER (WHERE {name} % {SIZED} = 0)"
            for name in ("g", "s")
        ]
        hashes = "hash(query_id, doc_id, rank) AS g, hash(session_id) AS s"
        query = f"""SELECT {SIZED} * greatest({", ".join(few)})
            FROM (SELECT {hashes} FROM ({_sql(log)}))"""  # noqa: S608
        [(number,)] = self.connection.raw_sql(query).fetchall()
        return int(number)

    def _require_disk(self, log: ir.Table, rows: int, folder: Path) -> None:
        """Reject a log that would not fit on the disk, judged by its first rows."""
        weighed = folder / "weighed.parquet"
        first_rows = f"SELECT * FROM ({_sql(log)}) LIMIT {ROWS_TO_WEIGH}"  # noqa: S608
        self.copy_to(first_rows, weighed)
        needed = 1.2 * weighed.stat().st_size * max(rows / ROWS_TO_WEIGH, 1)
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise DataError(
                f"the log: to count it within --memory takes {needed / 1e9:.1f} GB of "
                f"disk in {folder.parent}, which has {free / 1e9:.1f} GB; give more "
                "memory, or another folder (TMPDIR)"
            )

    def materialised(self, parts: Sequence[ir.Table]) -> ir.Table:
        """Compute parts one after another, into one temporary table."""
        name = _new_name()
        table = self.connection.create_table(name, parts[0], temp=True)
        for part in parts[1:]:
            self.connection.insert(name, part)
        return table

    def drop(self, table: ir.Table) -> None:
        """Free the memory of a table that :meth:`materialised` computed."""
        self.connection.raw_sql(f"DROP TABLE {table.get_name()}")

    def parsed_once(self, log: ir.Table, folder: Path) -> ir.Table:
        """Return a log of text files as one of a Parquet file, written into ``folder``.

        Counting reads a log several times, and parsing text takes longest. A log that
        is no text, or cannot be written, stays as it is; if it is to blame, reading it
        says so.
        """
        query = _sql(log)
        if TEXT_FILES not in query:
            return log
        import duckdb

        file = folder / "parsed.parquet"
        try:
            self.copy_to(query, file)
        except duckdb.InterruptException:
            raise  # a user stopped it
        except duckdb.Error:
            file.unlink(missing_ok=True)
            return log
        return self.read_parquet(file)

    # Results.

    @contextmanager
    def work_folder(self) -> Iterator[Path]:
        """Yield a temporary folder that the engine may write to."""
        if self.is_confined:
            # It is removed with the temporary folder of DuckDB that it is in.
            yield Path(tempfile.mkdtemp(dir=self._setting("temp_directory")))
        else:
            with scratch_folder() as folder:
                yield folder

    def write(
        self,
        table: ir.Table,
        path: Path,
        metadata: Mapping[bytes, bytes] | None = None,
        edited: Callable[[pa.Table], pa.Table] | None = None,
    ) -> None:
        """Write the result of a query as Parquet; DuckDB does it, if it may."""
        if edited is not None:
            super().write(table, path, metadata, edited)
            return
        notes = [
            f"KV_METADATA {{{_quoted(key.decode())}: {_quoted(value.decode())}}}"
            for key, value in (metadata or {}).items()
        ]
        try:
            self.copy_to(_sql(table), path, ", ".join(notes))
        except Exception as error:
            if path.name in str(error):
                raise OSError(str(error).rsplit(": ", maxsplit=1)[-1]) from error
            raise  # about the log

    def copy_to(self, query: str, path: Path, options: str = "") -> None:
        """Write the result of a query in SQL as Parquet."""
        more = f", {options}" if options else ""
        target = _quoted(str(path))
        self.connection.raw_sql(f"COPY ({query}) TO {target} (FORMAT parquet{more})")

    @contextmanager
    def with_progress(
        self,
        progress: Progress,
        stage: str,
        rows: int,
        rows_before: int = 0,
        rows_in_all: int | None = None,
    ) -> Iterator[None]:
        """Report how far queries on ``rows`` rows are.

        Where the rows are a part, ``rows_before`` of ``rows_in_all`` came before.
        """
        total = rows if rows_in_all is None else rows_in_all
        over = Event()

        def look() -> None:
            furthest = 0.0
            while not over.wait(SECONDS_BETWEEN_LOOKS):
                furthest = max(furthest, self.connection.con.query_progress())
                progress(stage, rows_before + int(rows * furthest / 100), total)

        with super().with_progress(progress, stage, rows, rows_before, rows_in_all):
            watcher = Thread(target=look, daemon=True)
            watcher.start()
            try:
                yield
            finally:
                over.set()
                watcher.join()


def connect_duckdb(memory: str, spill: str, *path: Path, **settings: Any) -> DuckDB:
    """Start DuckDB, so that the process keeps within ``memory``, about.

    Args:
        memory: As in ``4GB``; beyond it, DuckDB spills to disk.
        spill: The folder that it spills to.
        path: A file of DuckDB; none: nothing is kept.
        settings: More settings of DuckDB.
    """
    connection = ibis.duckdb.connect(
        *path,
        memory_limit=f"{_memory_of_duckdb(memory):.0f}B",
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
    return DuckDB(connection)


def connect_duckdb_file(url: str, memory: str, spill: str) -> DuckDB:
    """Open a file of DuckDB by its URL, only to read it, and confined."""
    place = url.partition("://")[2]
    # The path is from the root, or from here.
    for path in (Path(place), Path(place.removeprefix("/"))):
        if path.is_file():
            engine = connect_duckdb(memory, spill, path, read_only=True)
            _confine(engine, spill)
            return engine
    raise DataError(f"{url}: there is no such file")


def _memory_of_duckdb(memory: str) -> float:
    """Return the bytes that DuckDB may take, where the process may take ``memory``."""
    match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d+)?)\s*([KMGT])(i?)B\s*", memory, re.I)
    if match is None or float(match[1]) == 0:
        raise ConfigError(f"--memory takes an amount as in 4GB, got {memory!r}")
    base = 1024 if match[3] else 1000
    of_process: float = float(match[1]) * base ** (1 + "KMGT".index(match[2].upper()))
    # 1 GB must stay below 1.3.
    of_duckdb = of_process - min(BESIDE_DUCKDB, 0.58 * of_process)
    return max(of_duckdb, min(0.6 * of_process, MIN_FOR_DUCKDB))


def _confine(engine: DuckDB, folder: str) -> None:
    """Let DuckDB use no files but those in a folder, and lock that.

    A view of a stranger's database could read any file of this machine.
    """
    connection = engine.connection
    connection.raw_sql(f"SET allowed_directories = [{_quoted(folder)}]")
    connection.raw_sql("SET enable_external_access = false")
    connection.raw_sql("SET lock_configuration = true")


def _sql(table: ir.Table) -> str:
    return str(ibis.to_sql(table, dialect="duckdb"))


def _quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _new_name(prefix: str = "affinerank_") -> str:
    """Return the name of a table that no other has."""
    return f"{prefix}{uuid.uuid4().hex}"
