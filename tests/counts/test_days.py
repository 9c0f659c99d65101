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
from threading import Timer
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from affinerank.cli import main
from affinerank.counts.counting import count_log, open_table
from affinerank.counts.counts import ClickCounts
from affinerank.counts.days import day_of, days_in
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import this_process

pytestmark = pytest.mark.slow

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


def contents(folder: Path) -> dict[str, bytes]:
    """What files there are below a folder, links followed, and what they hold."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Return the one sentence that ``count`` refuses with."""
    capsys.readouterr()
    assert main(["count", *map(str, words), "--context", "none"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if line.startswith("affinerank: ")]) == 1
    assert not any("Traceback" in line for line in lines)
    return lines[-1]


@pytest.fixture
def new_log(tmp_path: Path) -> str:
    """A log outside of the folder of counts."""
    log = tmp_path / "new.parquet"
    pq.write_table(log_of(np.arange(50, 60)), log)
    return str(log)


@pytest.mark.parametrize(
    "words",
    [
        ["LOG", "--day", DAYS[0], "--replace"],
        ["LOG", "--day", DAYS[2], "--keep-days", "1"],
        ["LOG", "--day", DAYS[1]],
        ["--remove", DAYS[0]],
    ],
)
@pytest.mark.parametrize("kind", ["a log", "features", "no Parquet"])
def test_what_holds_no_counts_is_not_replaced_or_removed(
    words: list[str],
    kind: str,
    new_log: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "logs" / f"{DAYS[0]}.parquet"
    file.parent.mkdir()
    if kind == "a log":
        pq.write_table(log_of(np.arange(10)), file)
    elif kind == "features":
        pq.write_table(pa.table({"query_id": [1], "doc_id": [1], "price": [2.5]}), file)
    else:
        file.write_text("a note")
    before = contents(tmp_path)
    said = refused(
        capsys, *[new_log if w == "LOG" else w for w in words], "--into", file.parent
    )
    assert str(file) in said
    assert "holds no counts" in said
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "log",
    [
        f"logs/{DAYS[0]}.parquet",
        "logs/*.parquet",
        "logs",
        "link.parquet",
        "logs/linked/away.parquet",
        ".",
    ],
)
@pytest.mark.parametrize("more", [["--replace"], ["--keep-days", "1"], []])
def test_a_log_is_not_counted_into_the_folder_that_it_is_in(
    log: str,
    more: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    linked = tmp_path / "logs" / "linked"
    linked.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    pq.write_table(log_of(np.arange(10)), f"logs/{DAYS[0]}.parquet")
    pq.write_table(log_of(np.arange(10)), "elsewhere/log.parquet")
    Path("link.parquet").symlink_to(tmp_path / "logs" / f"{DAYS[0]}.parquet")
    (linked / "away.parquet").symlink_to(tmp_path / "elsewhere/log.parquet")
    before = contents(tmp_path)
    said = refused(capsys, log, "--into", "logs", "--day", DAYS[0], *more)
    assert "is in logs" in said or "has the folder of counts logs inside" in said
    assert contents(tmp_path) == before


def test_a_pattern_beside_the_folder_of_counts_is_a_log(tmp_path: Path) -> None:
    """And so is the folder's own name, where it is that of a table."""
    logs = tmp_path / "logs"
    logs.mkdir()
    pq.write_table(log_of(np.arange(10)), logs / "a.parquet")
    into = ["--into", str(logs / "counts"), "--context", "none"]
    for day in DAYS[:2]:
        words = [f"{logs}/*.parquet", *into, "--day", day]
        assert main(["count", *words, "--where", f"session_id != {day[-1]}"]) == 0
    assert ClickCounts.load(logs / "counts").n_sessions == 18


def test_a_damaged_day_is_named_where_it_is_read(
    add: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i, day in enumerate(DAYS[:2]):
        assert add(day, np.arange(10 * i, 10 * i + 10)) == 0
    counts = tmp_path / "counts"
    file = counts / f"{DAYS[0]}.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    assert ClickCounts.load(counts, since=DAYS[1]).n_sessions == 10
    with pytest.raises(DataError, match=f"{DAYS[0]}.parquet"):
        ClickCounts.load(counts)
    capsys.readouterr()
    assert add(DAYS[2], np.arange(10)) == 2
    assert str(file) in capsys.readouterr().err


def test_days_are_not_counted_back_from_one_to_come(
    add: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add(DAYS[0], np.arange(10)) == 0
    before = contents(tmp_path / "counts")
    capsys.readouterr()
    assert add("2099-01-01", np.arange(20), "--keep-days", "3") == 2
    assert "2099-01-01.parquet: is a day to come" in capsys.readouterr().err
    assert contents(tmp_path / "counts") == before
    # Nor from one that is there already.
    assert add("2099-01-01", np.arange(20)) == 0
    assert add(DAYS[1], np.arange(30), "--keep-days", "3") == 2
    assert "2099-01-01.parquet: is a day to come" in capsys.readouterr().err
    assert contents(tmp_path / "counts").keys() == {
        f"{DAYS[0]}.parquet",
        "2099-01-01.parquet",
    }
    folder = str(tmp_path / "counts")
    assert main(["count", "--into", folder, "--remove", "2099-01-01"]) == 0
    assert contents(tmp_path / "counts") == before


def test_more_days_than_there_ever_were_may_be_kept(add: Callable[..., int]) -> None:
    assert add(DAYS[0], np.arange(10), "--keep-days", "2000000") == 0


@pytest.mark.parametrize(
    ("options", "column"),
    [
        (["--segment", "device"], "segment"),
        (["--list-id", "session_name"], "query_id (text)"),
        (["--value", "price"], "value"),
        (["--column", "doc_id=doc_name"], "doc_id (text)"),
        (["--holdout", "0.5"], "split"),
    ],
)
def test_a_day_with_other_keys_is_refused(
    options: list[str],
    column: str,
    add: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert add(DAYS[0], np.arange(10)) == 0
    assert add(DAYS[1], np.arange(10, 20)) == 0
    table = log_of(np.arange(20, 30))
    for own in ("session", "doc"):
        names = [f"{own} {number}" for number in table[f"{own}_id"].to_pylist()]
        table = table.append_column(f"{own}_name", pa.array(names))
    table = table.append_column("device", pa.array(["phone"] * 30))
    table = table.append_column("price", pa.array([1.5] * 30))
    pq.write_table(table, tmp_path / "log.parquet")
    before = contents(tmp_path)
    words = [tmp_path / "log.parquet", "--into", tmp_path / "counts"]
    said = refused(capsys, *words, "--day", DAYS[1], "--replace", *options)
    assert f"{DAYS[1]}.parquet: counts by" in said
    assert column in said
    assert contents(tmp_path) == before
    # The only day may change its keys.
    assert main(["count", "--into", str(words[2]), "--remove", DAYS[0]]) == 0
    words += ["--day", DAYS[1], "--replace", *options]
    assert main(["count", *map(str, words), "--context", "none"]) == 0


def test_a_day_counted_by_the_last_click_may_join_others(
    add: Callable[..., int], tmp_path: Path
) -> None:
    assert add(DAYS[0], np.arange(10)) == 0
    assert add(DAYS[1], np.arange(10, 20), "--context", "last-click") == 0
    assert ClickCounts.load(tmp_path / "counts").n_sessions == 20


@pytest.mark.parametrize("there", [True, False])
def test_a_link_among_the_days_is_not_written_through(
    there: bool, new_log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "precious.parquet"
    if there:
        counted(log_of(np.arange(10)), target)
    link = tmp_path / "counts" / f"{DAYS[0]}.parquet"
    link.parent.mkdir()
    link.symlink_to(target)
    before = contents(tmp_path)
    words = [new_log, "--into", link.parent, "--day", DAYS[0]]
    for more in ([], ["--replace"]):
        assert f"{link}: is a link" in refused(capsys, *words, *more)
    assert contents(tmp_path) == before
    assert link.is_symlink()


def count_meanwhile(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> list[int]:
    """Let another count run to its end when the next one has counted its log.

    Return a list that gets its exit status.
    """
    status: list[int] = []

    def counted_first(*given: Any, **named: Any) -> Any:
        result = count_log(*given, **named)
        if not status:
            status.append(-1)
            status[0] = main(words)
        return result

    monkeypatch.setattr("affinerank.counts.counting.count_log", counted_first)
    return status


@pytest.mark.parametrize("again", [[], ["--replace"]])
def test_a_day_that_another_process_counts_meanwhile_is_not_lost(
    again: list[str],
    new_log: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(log_of(np.arange(20)), other)
    counts = tmp_path / "counts"
    into = ["--into", str(counts), "--day", DAYS[0], "--context", "none"]
    status = count_meanwhile(monkeypatch, ["count", str(other), *into])
    assert main(["count", new_log, *into, *again]) == (0 if again else 2)
    assert status == [0]
    if not again:
        assert "counted already" in capsys.readouterr().err
    assert ClickCounts.load(counts).n_sessions == (10 if again else 20)
    assert contents(counts).keys() == {f"{DAYS[0]}.parquet"}


@pytest.mark.parametrize(
    ("other_options", "reason"),
    [([], f"was counted as {DAYS[1]} already"), (["--holdout", ".5"], "counts by")],
)
def test_days_that_two_processes_count_at_once_are_compared(
    other_options: list[str],
    reason: str,
    new_log: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = tmp_path / "counts"
    words = ["count", new_log, "--into", str(counts), "--context", "none"]
    other = [*words, "--day", DAYS[1], *other_options]
    status = count_meanwhile(monkeypatch, other)
    assert main([*words, "--day", DAYS[0]]) == 2
    assert reason in capsys.readouterr().err
    assert status == [0]
    assert contents(counts).keys() == {f"{DAYS[1]}.parquet"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks no folders")
def test_a_folder_that_is_being_changed_is_waited_for_then_refused(
    new_log: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import fcntl

    counts = tmp_path / "counts"
    counts.mkdir()
    words = [new_log, "--into", counts, "--day", DAYS[0]]
    folder = os.open(counts, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        monkeypatch.setattr("affinerank.support.files.SECONDS_FOR_LOCK", 0.2)
        assert f"{counts}: another process" in refused(capsys, *words)
        assert contents(counts) == {}
        assert f"{counts}: another process" in refused(
            capsys, "--into", counts, "--remove", DAYS[0]
        )
        monkeypatch.setattr("affinerank.support.files.SECONDS_FOR_LOCK", 60)
        Timer(1, fcntl.flock, [folder, fcntl.LOCK_UN]).start()
        assert main(["count", *map(str, words)]) == 0
    finally:
        os.close(folder)
    assert contents(counts).keys() == {f"{DAYS[0]}.parquet"}


def test_two_processes_that_count_one_day_leave_one_of_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "affinerank", "count", "--context", "none"]
    processes = []
    for i, sessions in enumerate((np.arange(2000), np.arange(3000))):
        pq.write_table(log_of(sessions), tmp_path / f"{i}.parquet")
        words = [f"{i}.parquet", "--into", "counts", "--day", DAYS[0]]
        processes.append(
            subprocess.Popen(
                [*command, *words], cwd=tmp_path, stderr=-1, stdout=-1, text=True
            )
        )
    errors = [process.communicate(timeout=120)[1] for process in processes]
    statuses = [process.returncode for process in processes]
    assert sorted(statuses) == [0, 2], errors
    assert "counted already" in errors[statuses.index(2)]
    kept = ClickCounts.load(tmp_path / "counts")
    assert kept.n_sessions == (2000, 3000)[statuses.index(0)]


def test_a_refused_log_leaves_no_empty_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "bad.parquet"
    table = log_of(np.arange(3))
    ranks = table.column_names.index("rank")
    pq.write_table(table.set_column(ranks, "rank", pa.array([0] * 9)), log)
    counts = tmp_path / "counts"
    words = ["count", str(log), "--into", str(counts), "--day", DAYS[0]]
    assert main(words) == 2
    assert not counts.exists()
    counts.mkdir()
    assert main(words) == 2
    assert list(counts.iterdir()) == []
    assert "faults" in capsys.readouterr().err


def test_what_a_killed_count_left_of_a_day_goes_with_the_next(
    new_log: str, tmp_path: Path
) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead = this_process().replace(str(os.getpid()), str(process.pid))
    counts = tmp_path / "counts"
    counts.mkdir()
    file = f"{DAYS[0]}.parquet"
    (counts / f"..{file}.{dead}-0.part.{dead}-1.part").write_text("half")
    (counts / f".{file}.{dead}-0.part").write_text("half")
    assert main(["count", new_log, "--into", str(counts), "--day", DAYS[0]]) == 0
    assert contents(counts).keys() == {file}


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


def test_a_day_whose_log_declares_its_swaps_joins_days_that_do_not(
    add: Callable[..., int], tmp_path: Path
) -> None:
    assert add(DAYS[0], np.arange(10)) == 0
    table = log_of(np.arange(20, 30))
    drawn = pa.array(["swap"] * 15 + [None] * 15)
    pq.write_table(table.append_column("policy", drawn), tmp_path / "declared.parquet")
    words = [tmp_path / "declared.parquet", "--into", tmp_path / "counts"]
    assert main(["count", *map(str, words), "--day", DAYS[1], "--context", "none"]) == 0
    counts = ClickCounts.load(tmp_path / "counts")
    assert np.sum(counts.column("randomised").to_numpy()) == 15
