"""Where a log lives: the same planted faults and counts by every engine, and losses."""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from affinerank.cli import main
from affinerank.counts.counting import count_log, open_table
from affinerank.counts.counts import ClickCounts
from affinerank.engines.opening import engine_of
from affinerank.logs import rules
from affinerank.logs.faults import Search, validate
from affinerank.logs.options import LogOptions, normalised
from affinerank.logs.report import LogFaultsError
from affinerank.support.errors import AffineRankError, DataError

# Ibis asks DuckDB by a method that DuckDB has renamed.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
]

Rows = list[dict[str, Any]]
Count = Callable[..., Any]
Write = Callable[..., str]
Capture = pytest.CaptureFixture[str]

SQL_TYPES = {
    "string": "text",
    "int64": "bigint",
    "double": "double precision",
    "timestamp[us]": "timestamp",
}


def planted() -> pa.Table:
    """A log with every class of fault and peculiarity, in sessions of their own."""
    rows: Rows = [
        {
            "session_id": f"{'Ss'[s % 2]}{s}",  # upper case first, or last, or mixed
            "query_id": f"q{s % 7}",
            "doc_id": f"d{(s + k) % 9}",
            "rank": float(k),
            "clicked": (s * k) % 3 % 2,
            "ranker": f"r{s % 2}",
            "device": "phone" if s % 3 else "desk",
            "user_id": f"u{s % 11}",
            "price": s + k / 4,
            "moment": f"2026-01-{1 + s % 28:02}T10:{k:02}:00",
        }
        for s in range(120)
        for k in range(1 + s % 2 * (s % 5 == 0), 7)
        if (s, k) != (8, 3)
    ]
    of = {s: [r for r in rows if r["session_id"][1:] == str(s)] for s in range(120)}
    for s, name, value in (
        (20, "session_id", None),
        (21, "query_id", None),
        (22, "doc_id", None),
        (23, "doc_id", "long" * 20_000),
        (24, "rank", None),
        (25, "rank", 0.0),
        (26, "rank", 2.5),
        (27, "rank", 10_001.0),
        (28, "rank", float("nan")),
        (29, "rank", float("inf")),
        (30, "clicked", 3),
        (31, "clicked", None),
        (32, "moment", None),
        (33, "doc_id", of[33][2]["doc_id"]),  # one document at two ranks
        (34, "rank", 2.0),  # two documents at one rank
        (35, "query_id", "another"),
        (36, "ranker", None),
        (37, "device", None),
        (38, "user_id", None),
    ):
        of[s][3][name] = value
    of[39][0]["price"], of[39][0]["clicked"] = -1.0, 1
    of[40][0]["price"], of[40][0]["clicked"] = float("nan"), 1
    of[41][0]["price"], of[41][0]["clicked"] = None, 1  # worth 0
    of[42][5]["rank"] = 41.0  # beyond the ranks that are bits
    of[43][1]["rank"] = of[43][0]["rank"] = 77.0  # and two there
    repeated = {**of[44][2], "clicked": 1}
    return pa.Table.from_pylist([*rows, repeated, dict(of[45][0])])


def as_text(table: pa.Table) -> pa.Table:
    """The same log as text, with values that only text can have."""
    texts = {n: table[n].cast(pa.string()).to_pylist() for n in table.column_names}
    more = ["x", "", " 3 ", "+3", "3.", "1e0", "1_0", "0x3", "3d", "--3", "1e999"]
    for i, text in enumerate(more):
        texts["rank"][400 + 6 * i] = text
    moments = ["never", "2026-02-30", "2025-02-29", "2024-02-29", "2026-13-01"]
    moments += ["2026-01-09", "2026-01-09 23:59:59.5", "2026-01-31T23:00:00+02:00"]
    moments += ["2026-01-31T23:00:00Z", "2026-01-09T25:00:00"]
    for i, text in enumerate(moments):
        texts["moment"][403 + 6 * i] = text
    for i, text in enumerate(["TRUE", "yes", " n ", "maybe"]):
        texts["clicked"][401 + 6 * i] = text
    return pa.table(texts)


def typed(table: pa.Table) -> pa.Table:
    """The same log with moments as moments."""
    moments = table["moment"].cast(pa.timestamp("us"))
    return table.set_column(table.column_names.index("moment"), "moment", moments)


BY_USER = LogOptions(segment="device", value="price", user_buckets=10)
BY_TIME = LogOptions(
    columns={"timestamp": "moment"},
    where="ranker <> 'r9'",
    since="2026-01-03",
    until="2026-01-27",
)
FIRST = LogOptions(max_sessions_per_user=5)  # of each user, by the names of sessions
WAYS: list[Any] = [
    (typed, BY_USER, {}),
    (typed, BY_TIME, {"holdout": 0.4, "holdout_by": "time"}),
    (typed, FIRST, {"context": "last-click"}),
    (as_text, BY_TIME, {"holdout": 0.4}),
]


def found_in(open_log: Callable[[], Any], target: Path, **settings: Any) -> Any:
    """Return the faults and notes of a log, and its counts without them."""
    with open_log() as log, pytest.raises(LogFaultsError) as caught:
        count_log(log, target, **settings)
    with open_log() as log:
        counted = count_log(log, target, bad_rows="drop", **settings)
    told = [(f.what, f.number) for f in caught.value.report.findings]
    assert counted.report is not None
    notes = sorted((f.what, f.number) for f in counted.report.findings)
    summary = {n: v for n, v in counted.summary.items() if n != "seconds"}
    return sorted(told), notes, summary, ClickCounts.load(target)


@cache
def in_a_file(way: int) -> Any:
    """Return what DuckDB finds in a Parquet file."""
    form, options, settings = WAYS[way]
    with tempfile.TemporaryDirectory() as folder:
        log, target = f"{folder}/log.parquet", Path(folder, "counts.parquet")
        pq.write_table(form(planted()), log)
        return found_in(lambda: open_table(log), target, options=options, **settings)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The URL of a Postgres server of our own, which sorts by a language's rules."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not binaries:
        pytest.skip("Postgres is not installed (Debian's package postgresql)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        own: dict[str, Any] = {}
        if os.getuid() == 0:  # it does not run as root
            own = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(folder, "nobody", "nogroup")
        data, port = f"{folder}/data", free_port()
        made = [str(binaries[-1] / "initdb"), "-D", data, "-U", "me", "-A", "trust"]
        made += ["-E", "UTF8", "--locale-provider=icu", "--icu-locale=en-US"]
        kwargs = {**own, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([*made, "--locale=C.UTF-8", "-N"], check=True, **kwargs)
        command = [str(binaries[-1] / "postgres"), "-D", data, "-p", str(port)]
        command += ["-k", "", "-h", "127.0.0.1", "-F"]
        with subprocess.Popen(command, **kwargs) as server:
            url = f"postgres://me@127.0.0.1:{port}/postgres"
            try:
                eventually(lambda: asked(url, "SELECT 1") == [(1,)])
                yield url
            finally:
                server.send_signal(signal.SIGINT)  # ends sessions, then itself


def asked(url: str, query: str) -> list[Any] | None:
    """Return what a query of its own connection gives; nothing if it fails."""
    import psycopg

    try:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(query)
            return list(cursor.fetchall()) if cursor.description else []
    except psycopg.OperationalError:
        return None


def filled(url: str, name: str, table: pa.Table) -> None:
    """Make a table of Postgres."""
    import psycopg

    kinds = [f'"{f.name}" {SQL_TYPES[str(f.type)]}' for f in table.schema]
    asked(url, f"CREATE TABLE {name} ({', '.join(kinds)})")
    with (
        psycopg.connect(url, autocommit=True) as connection,
        connection.cursor().copy(f"COPY {name} FROM STDIN") as copy,
    ):
        for row in table.to_pylist():
            copy.write_row(tuple(row.values()))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def eventually(holds: Callable[[], Any], seconds: float = 300) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it did not come to be in time"
        time.sleep(0.05)


def plain_log(sessions: int = 2_000) -> pa.Table:
    """A log without faults, of many rows and few groups."""
    rows = range(sessions * 5)
    return pa.table(
        {
            "session_id": [i // 5 for i in rows],
            "query_id": [i // 5 % 4 for i in rows],
            "doc_id": [i % 5 for i in rows],
            "rank": [i % 5 + 1 for i in rows],
            "clicked": [i * i % 7 % 2 for i in rows],
        }
    )


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *(("postgres", way) for way in range(len(WAYS))),
        *(("table", 0), ("delta", 1), ("spark", 3)),
    ],
)
def test_all_find_the_same_faults_and_counts(
    kind: str, way: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    form, options, settings = WAYS[way]
    given: dict[str, Any] = {}
    log, place = form(planted()), str(tmp_path / "log.parquet")
    if kind == "postgres":
        place, given = request.getfixturevalue("postgres"), {"table": f"planted_{way}"}
        filled(place, given["table"], log)
    elif kind == "table":
        with duckdb.connect(str(tmp_path / "log.duckdb")) as connection:
            connection.from_arrow(log).create("planted")
        place, given = f"duckdb:///{tmp_path}/log.duckdb", {"table": "planted"}
    elif kind == "delta":
        place = delta_table(tmp_path, log)
    else:
        request.getfixturevalue("spark")
        pq.write_table(log, place)
        given = {"engine": "spark"}
    told, notes, summary, counts = found_in(
        lambda: open_table(place, **given),
        tmp_path / "counts.parquet",
        options=options,
        **settings,
    )
    expected = in_a_file(way)
    assert (told, notes, summary) == expected[:3]
    assert counts.equals(expected[3])
    assert summary["dropped"]["sessions"] >= 6
    assert len(told) == {0: 15, 1: 14, 2: 9, 3: 14}[way]


@pytest.mark.parametrize("kind", ["postgres", "spark"])
def test_all_find_the_same_faults_in_long_lists(
    kind: str,
    tmp_path: Path,
    long_list: Callable[..., Rows],
    plant_in_list: Callable[..., Rows],
    faults_of_lists: tuple[str, ...],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clean lists of 120 are not searched rank by rank; all faults are found."""
    searched: list[Any] = []
    search = Search.of.__func__  # type: ignore[attr-defined]

    def search_and_note(cls: Any, parts: Any, grouped: Any, kinds: Any) -> Any:
        searched.append(grouped)
        return search(cls, parts, grouped, kinds)

    monkeypatch.setattr(Search, "of", classmethod(search_and_note))
    clean = [row for i in range(4) for row in long_list(f"s{i}", 120, first=i // 2)]
    planted = list(clean)
    for fault in faults_of_lists:
        for rank in (1, 40, 41, 63, 64, 119, 120, 121, 130):
            shown = long_list(f"{fault[:14]}{rank}", 140)
            planted += plant_in_list(shown, fault, rank)
    for name, rows in (("clean", clean), ("faulty", planted)):
        log, place = pa.Table.from_pylist(rows), str(tmp_path / f"{name}.parquet")
        pq.write_table(log, place)
        with open_table(place) as table:
            expected = validate(normalised(table, LogOptions()))
        given: dict[str, Any] = {"engine": "spark"}
        if kind == "postgres":
            place, given = request.getfixturevalue("postgres"), {"table": name}
            filled(place, name, log)
        else:
            request.getfixturevalue("spark")
        searched.clear()
        with open_table(place, **given) as table:
            report = validate(normalised(table, LogOptions()))
        told = sorted((found.what, found.number) for found in report.findings)
        assert told == sorted((f.what, f.number) for f in expected.findings)
        assert expected.plain == (name == "clean")
        assert report.sessions == expected.sessions
        assert (rules.by_rank in searched) == (name == "faulty")
        assert len(told) == (0 if name == "clean" else 7)


def delta_table(folder: Path, log: pa.Table) -> str:
    """Write a Delta table whose folder keeps files of rows that are no more."""
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    place = str(folder / "delta")
    deltalake.write_deltalake(place, log.slice(0, 90))
    deltalake.write_deltalake(place, log.slice(0, 50), mode="append")
    deltalake.write_deltalake(place, log, mode="overwrite")
    assert len(list(Path(place).glob("*.parquet"))) >= 3
    return place


def test_files_of_delta_and_iceberg_tables_are_not_taken_for_a_log(
    tmp_path: Path,
) -> None:
    place = delta_table(tmp_path, typed(planted()))
    iceberg = tmp_path / "iceberg" / "metadata"
    iceberg.mkdir(parents=True)
    pq.write_table(typed(planted()), iceberg.parent / "data.parquet")
    (iceberg / "v1.metadata.json").write_text("{}")
    for source in (f"{place}/*", str(tmp_path), str(iceberg.parent)):
        with pytest.raises(DataError, match="of a Delta or Iceberg table"):
            opened(source)
    with pytest.raises(AffineRankError, match="Delta table is read by the engine duck"):
        opened(place, engine="spark")
    for log in Path(place, "_delta_log").glob("*.json"):
        log.write_text("damaged")
    with pytest.raises(DataError, match="cannot be read as a Delta table") as caught:
        opened(place)
    assert "\n" not in str(caught.value)


def opened(source: str, **settings: Any) -> None:
    with open_table(source, **settings):
        pass


def counted(source: str, target: Path, **settings: Any) -> ClickCounts:
    with open_table(source, **settings) as log:
        count_log(log, target)
    return ClickCounts.load(target)


def test_only_counts_come_back_from_postgres(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    filled(postgres, "plain", plain_log())
    fetched: Rows = []

    def counting(fetch: Any) -> Any:
        def fetching(*given: Any) -> Any:
            rows = fetch(*given)
            fetched.extend(rows)
            return rows

        return fetching

    for kind in (psycopg.Cursor, psycopg.ServerCursor):
        for name in ("fetchall", "fetchmany"):
            monkeypatch.setattr(kind, name, counting(getattr(kind, name)))
    counts = counted(postgres, tmp_path / "counts.parquet", table="plain")
    groups = 4 * 5  # queries and documents, each at one rank
    assert len(counts.table) == groups
    assert counts.impressions.sum() == 10_000
    # The counts, those by last click above, and a few words about tables and totals.
    assert groups < len(fetched) < groups * (1 + 5) + 60


def test_rows_that_arrive_while_counting_wait_for_the_next_time(
    postgres: str, tmp_path: Path
) -> None:
    filled(postgres, "living", plain_log(100))
    with open_table(postgres, table="living") as log:
        before = log.count().to_pyarrow().as_py()
        asked(postgres, "INSERT INTO living SELECT * FROM living")
        counted_then = count_log(log, tmp_path / "counts.parquet")
        assert counted_then.summary["rows"] == before == 500
        with pytest.raises(Exception, match="read-only transaction"):
            log.get_backend().raw_sql("DELETE FROM living")
    assert asked(postgres, "SELECT count(*) FROM living") == [(1_000,)]


def refused(arguments: list[str], folder: Path, capsys: Capture) -> str:
    """Count from the command line; it says one sentence and leaves nothing behind."""
    code = main(["count", *arguments, "-o", str(folder / "counts.parquet")])
    said = capsys.readouterr().err.strip().splitlines()
    assert code == 2, said
    assert not list(folder.iterdir())
    assert "Traceback" not in str(said)
    return said[-1]


SLOWLY = ["--where", "pg_sleep(0.01) IS NOT NULL"]
OTHERS = (
    "SELECT {} FROM pg_stat_activity WHERE state = 'active' "
    "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


def test_a_connection_that_drops_is_one_sentence(
    postgres: str, tmp_path: Path, capsys: Capture
) -> None:
    filled(postgres, "dropped", plain_log())
    ending = Thread(
        target=lambda: eventually(
            lambda: asked(postgres, OTHERS.format("pg_terminate_backend(pid)"))
        )
    )
    ending.start()
    said = refused(
        ["--from", postgres, "--table", "dropped", *SLOWLY], tmp_path, capsys
    )
    ending.join()
    assert "the connection failed: terminating connection" in said


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_server_that_is_not_there_or_lacks_disk_is_one_sentence(
    postgres: str, tmp_path: Path, capsys: Capture
) -> None:
    nobody = f"postgres://me:secret@127.0.0.1:{free_port()}/db"
    said = refused(["--from", nobody, "--table", "t"], tmp_path, capsys)
    assert "me:***@" in said
    assert "the connection failed" in said
    assert "secret" not in said
    filled(postgres, "wide", plain_log())
    for setting in ("temp_file_limit = '64kB'", "work_mem = '64kB'"):
        asked(postgres, f"ALTER DATABASE postgres SET {setting}")
    asked(postgres, "CREATE ROLE small LOGIN")
    asked(postgres, "GRANT SELECT ON wide TO small")
    small = postgres.replace("me@", "small@")
    try:
        said = refused(["--from", small, "--table", "wide"], tmp_path, capsys)
    finally:
        asked(postgres, "ALTER DATABASE postgres RESET ALL")
    assert "the server's disk is full, or what it lets a query take of it" in said
    for arguments, message in (
        (["--table", "none"], "there is no table 'none'; there are"),
        (["--table", "wide", "--where", "colour = 1"], "--where: .*colour"),
        (["--table", "wide", "--where", "doc_id = 'a'"], "--where: .*'a'|\"a\""),
    ):
        said = refused(["--from", postgres, *arguments], tmp_path, capsys)
        assert re.search(message, said), said


def test_a_query_ends_with_the_process_that_asked(
    postgres: str, tmp_path: Path
) -> None:
    filled(postgres, "orphan", plain_log())
    command = [sys.executable, "-m", "affinerank", "count", "--from", postgres]
    command += ["--table", "orphan", *SLOWLY, "-o", str(tmp_path / "counts.parquet")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as asking:
        eventually(lambda: asked(postgres, OTHERS.format("pid")))
        asking.kill()
    eventually(lambda: asked(postgres, OTHERS.format("pid")) == [], seconds=40)
    assert not (tmp_path / "counts.parquet").exists()


SPARK_SETTINGS = """
spark.driver.host 127.0.0.1
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1
spark.executor.memory 512m
spark.sql.shuffle.partitions 2
spark.sql.files.minPartitionNum 4
"""


class Cluster:
    """A master of Spark and two workers, on loopback, each a group of processes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        import pyspark

        self.folder, self.stack = folder, stack
        self.spark = Path(pyspark.__file__).parent / "bin" / "spark-class"
        (folder / "spark-defaults.conf").write_text(SPARK_SETTINGS)
        own = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(folder)}
        self.environment = {**os.environ, **own}
        self.url = f"spark://127.0.0.1:{(port := free_port())}"
        self.start("master.Master", "--port", str(port))
        memory = ("--cores", "1", "--memory", "600m")
        self.workers = {
            name: self.start("worker.Worker", *memory, self.url, name=name)
            for name in ("one", "two")
        }
        log = folder / "master.log"
        eventually(lambda: log.read_text().count("Registering worker") == 2)

    def start(self, kind: str, *arguments: str, name: str = "master") -> int:
        """Start a process in a group of its own; return its number."""
        command = [str(self.spark), f"org.apache.spark.deploy.{kind}", "--webui-port"]
        command += ["0", "--host", "127.0.0.1", *arguments]
        local = {"SPARK_LOCAL_DIRS": str(self.folder / name)}
        if name != "master":
            local["SPARK_WORKER_DIR"] = str(self.folder / name / "work")
        with (self.folder / f"{name}.log").open("wb") as log:
            started = subprocess.Popen(
                command,
                env={**self.environment, **local},
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

        def end() -> None:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()

        self.stack.callback(end)
        return started.pid

    def lose_a_worker(self) -> None:
        """Kill a worker that has written what later tasks need."""

        def busy() -> str | None:
            for name in self.workers:
                if next((self.folder / name).rglob("shuffle_*.data"), None):
                    return name
            return None

        eventually(busy)
        os.killpg(self.workers.pop(str(busy())), signal.SIGKILL)


IMPATIENT = """
import sys
from affinerank.cli import main
from affinerank.engines import spark
spark.SECONDS_WITHOUT_WORKER = 5
sys.exit(main(sys.argv[1:]))
"""


def test_a_cluster_counts_the_same_though_a_worker_dies_and_says_so_without_one(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, and there is none")
    log = typed(planted())
    for i, start in enumerate(range(0, len(log), 100)):
        (tmp_path / "log").mkdir(exist_ok=True)
        pq.write_table(log.slice(start, 100), tmp_path / "log" / f"{i}.parquet")
    (tmp_path / "out").mkdir()
    (tmp_path / "scratch").mkdir()
    target = tmp_path / "out" / "counts.parquet"
    arguments = ["count", str(tmp_path / "log"), "--engine", "spark", "--json"]
    arguments += ["--segment", "device", "--value", "price", "--user-buckets", "10"]
    arguments += ["--bad-rows", "drop", "--context", "none", "-o", str(target)]
    (tmp_path / "cluster").mkdir()
    with ExitStack() as stack:
        cluster = Cluster(tmp_path / "cluster", stack)

        def counted_while_a_worker_dies() -> tuple[int, str, str]:
            with subprocess.Popen(
                [sys.executable, "-c", IMPATIENT, *arguments, "--master", cluster.url],
                env={**cluster.environment, "TMPDIR": str(tmp_path / "scratch")},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as counting:
                cluster.lose_a_worker()
                out, said = counting.communicate(timeout=400)
            return counting.returncode, out, said

        code, out, said = counted_while_a_worker_dies()
        assert code == 0, said
        _, notes, summary, counts = in_a_file(0)
        about = json.loads(out)
        found = [(each["what"], each["number"]) for each in about["findings"]]
        assert sorted(found) == notes
        assert {name: about[name] for name in summary} == summary
        assert ClickCounts.load(target).equals(counts)
        target.unlink()
        code, _, said = counted_while_a_worker_dies()
    assert code == 2
    wanted = f"{cluster.url}: no worker has answered for 5 seconds; start one, or count"
    assert wanted in said.splitlines()[-1]
    assert not list(target.parent.iterdir())
    left = [path.name for path in (tmp_path / "scratch").iterdir()]
    assert not [name for name in left if not name.startswith("hsperfdata")]


@pytest.mark.filterwarnings("ignore:The .future.infer_string. option")  # of Ibis
def test_a_table_of_sqlite_is_counted(tmp_path: Path) -> None:
    # Ibis knows no hash of many engines: only large logs may need one.
    rows = [(s, 0, 10 * k, k, int(k == s % 3)) for s in range(40) for k in (1, 2, 3)]
    names = "session_id, query_id, doc_id, rank, clicked"
    with closing(sqlite3.connect(tmp_path / "log.sqlite")) as database:
        database.execute(f"CREATE TABLE log ({names})".replace(",", " INTEGER,"))
        database.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
        database.commit()
    url = f"sqlite://{tmp_path / 'log.sqlite'}"
    with open_table(url, table="log") as table:
        found = count_log(table, tmp_path / "counts.parquet")
    assert found.summary["impressions"] == 120
    assert found.summary["clicks"] == sum(row[-1] for row in rows)


def test_spark_hashes_pairs_and_reads_what_was_written(
    tmp_path: Path, spark: None
) -> None:
    pq.write_table(plain_log(10), tmp_path / "log.parquet")
    with open_table(str(tmp_path / "log.parquet"), engine="spark") as log:
        engine = engine_of(log)
        pair = engine.hashed_pair(log.doc_id, log["rank"])
        swapped = engine.hashed_pair(log["rank"], log.doc_id)
        hashes = log.select(pair=pair, swapped=swapped).distinct()
        columns = hashes.to_pyarrow().to_pydict()
        assert len(set(columns["pair"])) == len(set(columns["swapped"])) == 5
        assert set(columns["pair"]).isdisjoint(columns["swapped"])
        assert min(columns["pair"]) >= 0
        engine.write(log, tmp_path / "copy.parquet", {b"from": b"spark"})
        copy = engine.read_parquet(tmp_path / "copy.parquet")
        assert copy.count().to_pyarrow().as_py() == 50
    metadata = pq.read_metadata(tmp_path / "copy.parquet").metadata
    assert metadata[b"from"] == b"spark"
