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

from affinerank.clicks.counting import Counted, count_log, open_table
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.log import LogOptions

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
