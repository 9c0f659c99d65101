"""Where the time of a command went."""

import json
from itertools import count
from pathlib import Path

import pytest

from affinerank.cli import main
from affinerank.support import progress
from affinerank.support.progress import START, StageTimes, both


def test_a_stage_lasts_until_another_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves a second at each look, the processor's half of that."""
    seconds, halves = count(step=1.0), count(step=0.5)
    monkeypatch.setattr(progress, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(progress, "process_time", lambda: next(halves))
    times = StageTimes(_began=next(seconds), _cpu_began=next(halves))
    for stage in ("count", "count", "fit", "count"):
        times(stage, 1, 2)
    times.end_stage()
    assert times.rows() == [
        {"stage": START, "seconds": 1.0, "cpu_seconds": 0.5},
        {"stage": "count", "seconds": 2.0, "cpu_seconds": 1.0},
        {"stage": "fit", "seconds": 1.0, "cpu_seconds": 0.5},
    ]


def test_two_callbacks_hear_the_same() -> None:
    heard: list[tuple[str, int, int]] = []
    report = both(
        lambda *step: heard.append(step), lambda stage, *_: heard.append((stage, 0, 0))
    )
    report("fit", 1, 2)
    assert heard == [("fit", 1, 2), ("fit", 0, 0)]


def test_a_command_says_how_long_its_stages_took(
    small_log: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts, click_model, data = small_log
    train = ["train", counts, "--data", data, "--click-model", click_model, "--timings"]
    train += ["--ranker", "linear-model"]
    assert main([*train, "-o", str(tmp_path / "one"), "--json"]) == 0
    stages = json.loads(capsys.readouterr().out)["timings"]
    names = [row["stage"] for row in stages]
    assert names == [START, "learning out of fold", "fitting linear models"]
    assert all(row["seconds"] >= 0 for row in stages)
    assert main([*train, "-o", str(tmp_path / "two")]) == 0
    assert "learning out of fold" in capsys.readouterr().out
