"""A small log, ways to write and count it, and one Spark session for all tests."""

import gc
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from affinerank.counts.counting import Counted, count_log, open_table
from affinerank.counts.counts import ClickCounts
from affinerank.logs.options import LogOptions

Rows = list[dict[str, Any]]


def session(name: Any, query: Any, *documents: Any, clicked: Any = ()) -> Rows:
    """One list, from rank 1 on."""
    return [
        {
            "session_id": name,
            "query_id": query,
            "doc_id": document,
            "rank": rank,
            "clicked": int(document in clicked),
        }
        for rank, document in enumerate(documents, start=1)
    ]


@pytest.fixture
def good() -> Rows:
    """Three sessions of two queries."""
    return [
        *session("s1", "q1", "a", "b", "c", clicked={"a"}),
        *session("s2", "q1", "a", "c", clicked={"a", "c"}),
        *session("s3", "q2", "a", "b"),
    ]


@pytest.fixture
def long_list() -> Callable[..., Rows]:
    """Make lists of many documents, of the query's 151."""

    def made(name: Any, length: int, first: int = 0) -> Rows:
        documents = [f"d{(first + k) % 151}" for k in range(length)]
        clicked = {documents[k] for k in range(first % 7, length, 29)}
        return session(name, "q", *documents, clicked=clicked)

    return made


FAULTS_OF_LISTS = (
    "an impression is repeated",
    "two documents at one rank",
    "one document at two ranks",
    "a list has gaps",
    "a session has more than one query",
    "clicked is neither 0 nor 1",
)


@pytest.fixture(params=FAULTS_OF_LISTS)
def fault_of_list(request: pytest.FixtureRequest) -> str:
    """What can be wrong with a list, by its first words."""
    return str(request.param)


@pytest.fixture
def faults_of_lists() -> tuple[str, ...]:
    """All that can be wrong with a list, by the first words of each."""
    return FAULTS_OF_LISTS


@pytest.fixture
def plant_in_list() -> Callable[[Rows, str, int], Rows]:
    """Plant a fault of a list at a rank of a clean one."""

    def planted(rows: Rows, fault: str, rank: int) -> Rows:
        row = rows[rank - 1]
        elsewhere = rows[rank - 8]["doc_id"]
        changed: dict[str, Rows] = {
            "an impression is repeated": [row, {**row, "clicked": 1}],
            "two documents at one rank": [row, {**row, "doc_id": "new"}],
            "one document at two ranks": [{**row, "doc_id": elsewhere}],
            "a list has gaps": [],
            "a session has more than one query": [{**row, "query_id": "other"}],
            "clicked is neither 0 nor 1": [{**row, "clicked": None}],
        }
        return [*rows[: rank - 1], *changed[fault], *rows[rank:]]

    return planted


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Write rows as a Parquet file; return its name."""

    def written(rows: Rows | pa.Table, name: str = "log.parquet") -> str:
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, tmp_path / name)
        return str(tmp_path / name)

    return written


@pytest.fixture
def count(tmp_path: Path, write: Callable[..., str]) -> Callable[..., Any]:
    """Count rows, or a file by name; return the counts and what was found."""

    def counted(
        rows: Any,
        options: LogOptions | None = None,
        *,
        engine: str = "duckdb",
        table: str | None = None,
        **settings: Any,
    ) -> tuple[ClickCounts, Counted]:
        source = rows if isinstance(rows, str) else write(rows)
        target = tmp_path / "counted.parquet"
        with open_table(source, engine=engine, table=table) as log:
            found = count_log(log, target, options=options, **settings)
        counts = ClickCounts.load(target)
        target.unlink()
        return counts, found

    return counted


@pytest.fixture
def spark(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let Spark's own library leave sockets open and call what pandas gives up."""
    request.getfixturevalue("running_spark")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
        gc.collect()


@pytest.fixture(scope="session")
def running_spark() -> Iterator[None]:
    """One Spark session, which counting finds running and leaves so."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, and there is none")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("tests").master("local[2]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # short queries
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    running = builder.getOrCreate()
    yield
    running.stop()
