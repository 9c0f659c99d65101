"""Every way a command can end: done, wrong input, a fault, a signal, a full disk."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from benchmarks import ends

from affinerank.cli import main, run
from affinerank.support.files import this_process

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
]


def start(*words: str, folder: Path, **more: object) -> "subprocess.Popen[str]":
    """Start a command in a folder, temporary files in one of their own."""
    (folder / "tmp").mkdir(exist_ok=True)
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-m", "affinerank", *words],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def make_log(path: Path, rows: int) -> None:
    """Write a log with a group for each row, so that counting takes a while."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    at = np.arange(rows)
    ids = {"session_id": at // 10, "query_id": at // 10, "doc_id": at}
    pq.write_table(pa.table({**ids, "rank": at % 10 + 1, "clicked": at % 7 == 0}), path)


def test_a_fault_of_our_own_is_a_sentence_and_a_way_to_report_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("affinerank.data.parquet.write_parquet", broken)
    words = ["data", "convert", "yahoo-like:10", str(tmp_path / "x.parquet")]
    assert main(words) == 70
    captured = capsys.readouterr()
    first, second = captured.err.splitlines()
    assert first == (
        "affinerank: a fault of AffineRank, not of your input: RuntimeError: two lines"
    )
    assert "--debug" in second
    assert not captured.out
    assert not list(tmp_path.iterdir())
    assert main([*words, "--debug"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_an_error_of_the_system_names_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def vanished(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "gone.parquet")

    monkeypatch.setattr("affinerank.pipeline.description.describe", vanished)
    assert main(["data", "describe", "yahoo-like:10"]) == 2
    err = capsys.readouterr().err
    assert err == "affinerank: gone.parquet: No such file or directory\n"


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_a_command_and_leaves_nothing(
    tmp_path: Path, name: str, status: int
) -> None:
    make_log(tmp_path / "log.parquet", 2_000_000)
    process = start(
        "count", "log.parquet", "-o", "c.parquet", "--memory", "100MB", folder=tmp_path
    )
    spill = tmp_path / "tmp"
    for _ in range(400):
        if any(spill.iterdir()) or process.poll() is not None:
            break
        time.sleep(0.05)
    time.sleep(0.5)  # into the counting
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=60)
    assert process.returncode == status, err
    assert err == "affinerank: stopped\n"
    assert not out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.parquet", "tmp"]
    assert not list(spill.iterdir())


@pytest.mark.parametrize("fails", [False, True])
def test_a_command_takes_its_temporary_folders_with_it(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may come while it makes one, or removes one."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    other = tmp_path / "affinerank-elsewhere-1-x"
    other.mkdir()

    def interrupted() -> int:
        (tmp_path / f"affinerank-{this_process()}-x" / "spill").mkdir(parents=True)
        if fails:
            raise KeyboardInterrupt
        return 143

    monkeypatch.setattr("affinerank.cli.main", interrupted)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(KeyboardInterrupt if fails else SystemExit):
        run()
    assert list(tmp_path.iterdir()) == [other]


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("1 qid:1 1:1\n0 qid:1 1:2\n")
    with start("data", "describe", "data.txt", "--json", folder=tmp_path) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.close()
        assert ran.stderr.read() == ""
    assert ran.returncode == 1


def test_a_file_that_may_not_grow_is_one_sentence(tmp_path: Path) -> None:
    make_log(tmp_path / "log.parquet", 200_000)
    process = start(
        "count",
        "log.parquet",
        "-o",
        "c.parquet",
        folder=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert len([x for x in err.splitlines() if x.startswith("affinerank:")]) == 1
    assert "Traceback" not in err
    assert not out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.parquet", "tmp"]
    assert not list((tmp_path / "tmp").iterdir())


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ends.prepared(tmp_path_factory.mktemp("ends") / "ready")


@pytest.mark.parametrize("name", ["count", "train with a checkpoint"])
def test_a_killed_command_leaves_nothing_torn_and_runs_again(
    ready: Path, name: str
) -> None:
    [case] = [case for case in ends.CASES if case.name == name]
    assert ends.killed(case, ready, 1, random.Random(len(name))) == []


def test_a_full_disk_tears_nothing(ready: Path) -> None:
    try:
        with ends.disk(1 << 20):
            pass
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no right to mount a small disk")
    [case] = [case for case in ends.CASES if case.name == "count"]
    assert ends.on_small_disks(case, ready, 1, random.Random(1)) == []


def test_readers_see_the_old_counts_or_the_new_never_half(
    small_log: tuple[str, str, str], tmp_path: Path
) -> None:
    from affinerank.counts.counts import ClickCounts

    counts = ClickCounts.load(small_log[0])
    path = tmp_path / "counts.parquet"
    counts.save(path)
    stop, seen = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            seen.append(ClickCounts.load(path).equals(counts))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for one in readers:
        one.start()
    writers = [threading.Thread(target=counts.save, args=(path,)) for _ in range(20)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    stop.set()
    for one in readers:
        one.join()
    assert len(seen) > 1
    assert all(seen)
    assert [p.name for p in tmp_path.iterdir()] == ["counts.parquet"]


def test_two_commands_with_one_output_leave_one_of_them(tmp_path: Path) -> None:
    make_log(tmp_path / "log.parquet", 50_000)
    both = [
        start("count", "log.parquet", "-o", "c.parquet", "--json", folder=tmp_path)
        for _ in range(2)
    ]
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert json.loads(out)["groups"] == 50_000
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["c.parquet", "log.parquet", "tmp"]
