"""Evaluating by a log whose lists moved, as a user of the command line meets it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.pipeline.moving_lists import (
    CLICK_MODEL,
    READY_MADE,
    improved_production,
    personal_lists,
    swapped_lists,
)

from affinerank.cli import main
from affinerank.counts.counts import ClickCounts
from affinerank.data.parquet import write_parquet

pytestmark = pytest.mark.slow

Captured = pytest.CaptureFixture[str]


def run(*words: object, code: int = 0) -> None:
    assert main([str(word) for word in words]) == code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    READY_MADE.save(tmp_path / "ready-made")
    CLICK_MODEL.save(tmp_path / "click-model.json")
    return tmp_path


def evaluate(folder: Path, counts: str, *options: object) -> None:
    known = (
        "--click-model",
        folder / "click-model.json",
        "--data",
        folder / "data.parquet",
    )
    model = folder / "ready-made"
    run("evaluate", model, *known, "--counts", folder / counts, *options)


def evaluated(folder: Path, counts: str, captured: Captured) -> dict[str, Any]:
    captured.readouterr()
    evaluate(folder, counts, "--json")
    about: dict[str, Any] = json.loads(captured.readouterr().out)
    return about


def test_personal_lists_cannot_be_decided(folder: Path, capsys: Captured) -> None:
    log = personal_lists(np.random.default_rng(0), 3_000)
    write_parquet(log.data(), folder / "data.parquet")
    pq.write_table(log.table(), folder / "log.parquet")
    run("count", folder / "log.parquet", "-o", folder / "counts.parquet")
    about = evaluated(folder, "counts.parquet", capsys)
    [row] = about["rankers"]
    assert row["against_logged"]["verdict"] == "cannot be decided"
    assert row["second_evaluator"]["verdict"] == "cannot be decided"
    movement = about["movement"]
    assert movement["limit"] < movement["share_low"] < movement["share"]
    assert movement["far_limit"] < movement["far_share_low"]
    evaluate(folder, "counts.parquet")
    text = " ".join(capsys.readouterr().out.split())
    assert "cannot be decided: lists moved for unknown reasons" in text
    assert "policy or propensity where documents were moved at random" in text
    assert "is better than production by" not in text


@pytest.mark.parametrize("column", ["policy", "experiment"])
def test_a_column_declares_that_documents_moved_at_random(
    folder: Path, capsys: Captured, column: str
) -> None:
    log = swapped_lists(np.random.default_rng(0), 3_000)
    write_parquet(log.data(), folder / "data.parquet")
    table = log.table(**{column: np.full(3_000, "two exchanged")})
    pq.write_table(table, folder / "log.parquet")
    mapped = ["--column", f"policy={column}"] if column != "policy" else []
    counted = folder / "counts.parquet"
    run("count", folder / "log.parquet", "-o", counted, "--holdout", 0.5, *mapped)
    assert "in lists drawn at random" in capsys.readouterr().out
    about = evaluated(folder, "counts.parquet", capsys)
    assert about["movement"]["randomised_share"] == 1
    assert about["movement"]["share"] is None
    assert about["rankers"][0]["against_logged"]["obstacle"] is None


def test_counts_without_the_declaration_are_undeclared(
    folder: Path, capsys: Captured
) -> None:
    log = swapped_lists(np.random.default_rng(0), 3_000)
    write_parquet(log.data(), folder / "data.parquet")
    log.counts().save(folder / "before.parquet")
    about = evaluated(folder, "before.parquet", capsys)
    assert about["movement"]["unexplained"]
    [row] = about["rankers"]
    assert row["against_logged"]["verdict"] == "cannot be decided"


def test_the_latest_production_is_the_baseline_and_is_named(
    folder: Path, capsys: Captured
) -> None:
    """The retired ranker has three quarters of the sessions; the log has moments."""
    log = improved_production(np.random.default_rng(0), 4_000, named=True)
    assert log.kind is not None
    write_parquet(log.data(), folder / "data.parquet")
    moments = np.arange(4_000)
    counted = np.flatnonzero((log.kind == 0) | (moments >= 3_400))
    names = np.array(["retired", "present"])[log.kind]
    table = log.table(ranker=names, timestamp=moments)
    kept = np.isin(np.asarray(table["session_id"]), counted)
    pq.write_table(table.filter(kept), folder / "log.parquet")
    run("count", folder / "log.parquet", "-o", folder / "counts.parquet")
    counts = ClickCounts.load(folder / "counts.parquet")
    assert counts.ranker_times == {"retired": (0, 1_999), "present": (3_400, 3_999)}
    about = evaluated(folder, "counts.parquet", capsys)
    assert about["production"] == "present"
    assert about["baseline"] == "production (ranker present, the latest)"
    assert "(ranker present, the latest)" in about["conclusions"][0]
    evaluate(folder, "counts.parquet", "--against", "retired")
    assert "production (ranker retired, as asked)" in capsys.readouterr().out


def test_simulated_policies_are_declared_in_logs_and_in_counts(
    folder: Path, capsys: Captured
) -> None:
    world = ["simulate", "yahoo-like:40", "--sessions", 300, "--top-k", 4]
    log, counts = folder / "log.parquet", folder / "drawn.parquet"
    for policy in ("swap(share=0.5)", "plackett-luce", "epsilon-swap"):
        run(*world, "--policy", policy, "--log", log)
        assert set(pq.read_table(log)["policy"].to_pylist()) == {policy}
        run(*world, "--policy", policy, "--counts", counts)
        drawn = ClickCounts.load(counts)
        assert drawn.table["randomised"].equals(drawn.table["impressions"])
    for policy in ("fixed", "swap(share=0)"):
        run(*world, "--policy", policy, "--log", log, "--counts", counts)
        assert "policy" not in pq.read_schema(log).names
        assert "randomised" not in pq.read_schema(counts).names
    capsys.readouterr()
