"""Messages name the file at fault, show values as they are, and say what to do."""

import resource
import subprocess
import sys
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from affinerank import RankingDataset, write_parquet
from affinerank.cli import main, options
from affinerank.support.progress import in_lines

pytestmark = pytest.mark.slow

HEAD = "session_id,query_id,doc_id,rank,clicked"


def log_of(path: Path, *rows: str) -> str:
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    return str(path)


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    return " ".join(capsys.readouterr().err.split())


def test_ids_and_values_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clicked = log_of(tmp_path / "a.csv", "s,禁书,文1,1,perhaps", "s,禁书,文2,2,no")
    target = ["-o", str(tmp_path / "counts.parquet")]
    text = said(["count", clicked, *target], capsys)
    for part in ('"禁书"', '"文1"', '"perhaps"', "clicked is neither 0 nor 1"):
        assert part in text
    assert "null" not in text
    ranked = log_of(tmp_path / "b.csv", "s,q,d,first,1")
    assert '"first"' in said(["count", ranked, *target], capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv", "b.csv"]


def test_yes_and_no_are_clicks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"s{i},q,d{i},1,{word}" for i, word in enumerate(["yes", "No", "T", "f"])]
    log, counts = log_of(tmp_path / "log.csv", *rows), tmp_path / "counts.parquet"
    assert main(["count", log, "-o", str(counts)]) == 0
    assert "clicks 2" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", ["estimate", "debias", "train"])
def test_a_log_in_the_place_of_counts_is_to_be_counted_first(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = log_of(tmp_path / "log.csv", "s,q,d,1,1")
    more = [] if command == "estimate" else ["-o", str(tmp_path / "out.parquet")]
    more += ["--data", "yahoo-like:30"] if command == "train" else []
    text = said([command, log, *more], capsys)
    assert text.startswith(f"affinerank: {log}: ")
    assert f"run count first, as in affinerank count {log}" in text


def test_counts_in_the_place_of_a_log_are_counts_already(
    small_log: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "out.parquet")
    text = said(["count", small_log[0], "-o", target], capsys)
    assert "counts already" in text
    assert "estimate" in text


def test_a_folder_without_a_ranker_and_a_file_without_users_are_named(
    small_log: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts, _, world = small_log
    text = said(["evaluate", str(tmp_path), "--data", world], capsys)
    assert text.startswith(f"affinerank: {tmp_path}: ")
    assert "as train writes it" in text
    log = log_of(tmp_path / "log.csv", "s,q,d,1,1")
    text = said(["estimate", counts, "--truth", log], capsys)
    assert text.startswith(f"affinerank: {log}: ")
    assert "as estimate writes it" in text


@pytest.mark.parametrize("command", ["count", "convert"])
def test_an_output_that_cannot_be_written_is_to_blame(
    command: str, tmp_path: Path
) -> None:
    """Files of 1,000 bytes at the most, as on a disk that is full."""
    rows = [f"s{i},q{i},document{i:06d},1,1" for i in range(2_000)]
    log, target = log_of(tmp_path / "log.csv", *rows), tmp_path / "out.parquet"
    words = ["count", log, "-o", str(target)]
    if command == "convert":
        words = ["data", "convert", "yahoo-like:30", str(target)]
    done = subprocess.run(
        [sys.executable, "-m", "affinerank", *words],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000)),
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"affinerank: {target}: could not be written: File too large"
    )
    assert not target.exists()


def test_features_that_tell_nothing_apart_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, n = np.random.default_rng(0), 30
    features = rng.random((4 * n, 3)).astype(np.float32)
    features[:, 1] = np.repeat(rng.random(n), 4)  # one value in each query
    names, query = ("price", "season", "rating"), np.repeat(np.arange(n), 4)
    data = RankingDataset.from_rows(features, query, feature_names=names)
    write_parquet(data, tmp_path / "data.parquet")
    rows = [
        f"s{q}-{s},{q},{data.doc_ids[4 * q + k]},{k + 1},{int(rng.random() < 0.4)}"
        for q in range(n)
        for s in range(3)
        for k in range(4)
    ]
    log, counts = log_of(tmp_path / "log.csv", *rows), str(tmp_path / "counts.parquet")
    assert main(["count", log, "-o", counts]) == 0
    words = ["train", counts, "--data", str(tmp_path / "data.parquet"), "--ranker"]
    words += ["lightgbm", "--estimator", "naive", "--tuning", "none", "--set"]
    assert main([*words, "trees=2", "-o", str(tmp_path / "model")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "1 features are the same for all documents of each query" in printed
    assert printed.endswith("learnt from them: season")


def test_long_work_says_how_far_it_is_also_in_silent_stages() -> None:
    said: list[str] = []
    with in_lines(said.append, 0.02) as progress:
        sleep(0.1)
        progress("learning", 3, 1_000)
        sleep(0.1)
    spoken = len(said)
    sleep(0.06)
    assert said[0] == "at work, 0 s"
    assert said[-1] == "learning: 3 of 1,000, 0 s"
    assert len(said) == spoken  # none once it is over


def test_lines_go_to_stderr_in_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "SECONDS_BETWEEN_LINES", 0.001)
    log, counts = log_of(tmp_path / "log.csv", "s,q,d,1,1"), tmp_path / "c.parquet"
    assert main(["count", log, "--json", "-o", str(counts)]) == 0
    printed = capsys.readouterr()
    assert "checking the log: 0 of 1, 0 s\n" in printed.err
    assert printed.out.startswith("{")
