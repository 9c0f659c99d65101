"""A folder of counts that grows day by day."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from affinerank.cli import main
from affinerank.clicks.counting import count_log, open_table
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.days import day_of, days_in
from affinerank.errors import ConfigError, DataError

DAYS = ("2026-01-30", "2026-01-31", "2026-02-01")


def log_of(sessions: np.ndarray, seed: int = 0) -> pa.Table:
    """Three ranks per session of one of five queries, clicks at random."""
    rng = np.random.default_rng([seed, *sessions.tolist()])
    n = len(sessions)
    return pa.table(
        {
            "session_id": np.repeat(sessions, 3),
            "query_id": np.repeat(sessions % 5, 3),
            "doc_id": (np.tile([0, 1, 2], n) + np.repeat(sessions, 3)) % 4,
            "rank": np.tile([1, 2, 3], n),
            "clicked": rng.random(3 * n) < 0.4,
        }
    )


def counted(table: pa.Table, path: Path) -> ClickCounts:
    log = path.with_suffix(".log.parquet")
    pq.write_table(table, log)
    with open_table(str(log)) as opened:
        count_log(opened, path, context="none")
    return ClickCounts.load(path)


@pytest.fixture
def add(tmp_path: Path) -> Callable[..., int]:
    def added(day: str, sessions: np.ndarray, *options: str) -> int:
        log = tmp_path / f"log-{day}.parquet"
        pq.write_table(log_of(sessions), log)
        into = ["--into", str(tmp_path / "counts")]
        return main(["count", str(log), *into, "--context", "none", *options])

    return added


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(cuts=st.lists(st.integers(1, 29), max_size=3), order=st.randoms())
def test_days_add_up_to_all_at_once(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], order: object
) -> None:
    folder = tmp_path_factory.mktemp("days")
    (folder / "counts").mkdir()
    whole = log_of(np.arange(30))
    parts = [p for p in np.split(np.arange(30), sorted(set(cuts))) if len(p)]
    order.shuffle(parts)  # type: ignore[attr-defined]
    for i, part in enumerate(parts):
        rows = np.isin(whole["session_id"].to_numpy(), part)
        day = folder / "counts" / f"2026-01-{i + 1:02}.parquet"
        counted(whole.filter(pa.array(rows)), folder / "day.parquet")
        (folder / "day.parquet").rename(day)
    assert ClickCounts.load(folder / "counts").equals(
        counted(whole, folder / "all.parquet")
    )


def test_a_day_is_added_once(
    add: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add(DAYS[0], np.arange(10)) == 0
    assert add(DAYS[1], np.arange(10, 25)) == 0
    counts = tmp_path / "counts"
    assert list(days_in(counts)) == [date(2026, 1, 30), date(2026, 1, 31)]
    assert ClickCounts.load(counts).n_sessions == 25
    assert ClickCounts.load(counts, since=DAYS[1]).n_sessions == 15
    assert ClickCounts.load(counts, until=DAYS[1]).n_sessions == 10
    before = {file: file.read_bytes() for file in counts.iterdir()}
    capsys.readouterr()
    assert add(DAYS[1], np.arange(10, 25)) == 2
    assert "counted already; count it anew with --replace" in capsys.readouterr().err
    assert add(DAYS[2], np.arange(10, 25)) == 2  # the same log by another name
    assert "was counted as 2026-01-31 already" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in counts.iterdir()} == before
    assert add(DAYS[1], np.arange(10, 20), "--replace") == 0
    assert ClickCounts.load(counts).n_sessions == 20


def test_days_are_removed_and_kept(
    add: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i, day in enumerate(DAYS):
        assert add(day, np.arange(10 * i, 10 * i + 8 + i), "--keep-days", "2") == 0
    counts = tmp_path / "counts"
    assert [str(day) for day in days_in(counts)] == list(DAYS[1:])
    assert main(["count", "--into", str(counts), "--remove", DAYS[1]]) == 0
    assert [str(day) for day in days_in(counts)] == [DAYS[2]]
    capsys.readouterr()
    assert main(["count", "--into", str(counts), "--remove", DAYS[1]]) == 2
    assert f"has no counts of {DAYS[1]}" in capsys.readouterr().err


def test_a_day_out_of_order_older_than_those_kept_goes(
    add: Callable[..., int], tmp_path: Path
) -> None:
    assert add(DAYS[2], np.arange(10)) == 0
    assert add(DAYS[0], np.arange(10, 19), "--keep-days", "1") == 0
    assert [str(day) for day in days_in(tmp_path / "counts")] == [DAYS[2]]


def test_the_last_click_above_is_kept_if_all_days_have_it(tmp_path: Path) -> None:
    def day(i: int, **context: list[int]) -> ClickCounts:
        counts = ClickCounts.from_columns(
            query_id=[1, 1],
            doc_id=[1, 2],
            rank=[1, 2],
            impressions=[3, 3],
            clicks=[i, 1],
            **context,
        )
        counts.save(tmp_path / f"2026-01-0{i}.parquet")
        return counts

    day(1, context=[0, 1])
    day(2, context=[0, 1])
    assert "context" in ClickCounts.load(tmp_path).keys
    day(3)
    found = ClickCounts.load(tmp_path)
    assert "context" not in found.keys
    assert found.clicks.tolist() == [6, 3]
    assert found.sessions.tolist() == [9, 9]


def test_a_day_must_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert day_of("logs/2026-01-31/2026-01-31.parquet") == date(2026, 1, 31)
    with pytest.raises(DataError, match=r"log.parquet: the name holds no day.*--day"):
        day_of("log.parquet")
    with pytest.raises(DataError, match=r"--since takes a day, .* got '2026-13-01'"):
        day_of("2026-13-01", "--since")
    into = str(tmp_path / "no" / "counts")
    assert main(["count", "log.parquet", "--into", into, "--day", "2026-01-31"]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_what_is_wrong_with_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no counts of those days"):
        ClickCounts.load(tmp_path)
    file = tmp_path / "mine.parquet"
    ClickCounts.from_columns(
        query_id=[1], doc_id=[1], rank=[1], impressions=[1], clicks=[0]
    ).save(file)
    with pytest.raises(DataError, match="one file per day"):
        ClickCounts.load(tmp_path)
    with pytest.raises(ConfigError, match="this is a file"):
        ClickCounts.load(file, since="2026-01-01")


def test_options_of_days_need_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", "log.parquet", "--keep-days", "3"]) == 2
    assert "need --into" in capsys.readouterr().err


def test_killed_a_day_is_in_or_out(tmp_path: Path) -> None:
    counts, log = tmp_path / "counts", tmp_path / "2026-01-31.parquet"
    counts.mkdir()
    counted(log_of(np.arange(10)), counts / "2026-01-30.parquet")
    for left in counts.glob("*.log.parquet"):
        left.unlink()
    pq.write_table(log_of(np.arange(10, 6000)), log)
    command = [sys.executable, "-m", "affinerank", "count", str(log)]
    command += ["--into", str(counts), "--context", "none", "--json"]
    for i in range(20):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(0.08 * i)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        found = ClickCounts.load(counts)
        assert found.n_sessions in (10, 6000)
        if found.n_sessions == 6000:
            (counts / log.name).unlink()
    subprocess.run(command, check=True, capture_output=True)
    assert sorted(file.name for file in counts.iterdir()) == [
        "2026-01-30.parquet",
        "2026-01-31.parquet",
    ]
    assert ClickCounts.load(counts).n_sessions == 6000
