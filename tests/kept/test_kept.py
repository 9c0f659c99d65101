"""Files that version 0.1 wrote: they load, and give the numbers they gave then."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import affinerank as ar
from affinerank.clicks.models.trust import EstimatedBy
from affinerank.experiments.cells import cells_of
from affinerank.experiments.plan import read_plan
from affinerank.experiments.report import write_report
from affinerank.experiments.reproduce import outcome
from affinerank.experiments.results import load_results, load_run

KEPT = Path(__file__).parent
EXPECTED: dict[str, Any] = json.loads((KEPT / "expected.json").read_text())


@pytest.mark.parametrize("name", ["counts", "counts-keys"])
def test_counts(name: str) -> None:
    counts, wanted = ar.ClickCounts.load(KEPT / f"{name}.parquet"), EXPECTED[name]
    summary = counts.summary()
    assert {key: wanted[key] for key in summary} == summary
    assert list(counts.keys) == wanted["keys"]
    rows = ar.rows_of(counts)
    assert rows.by_rank(rows.impressions).tolist() == wanted["impressions_by_rank"]
    assert rows.by_rank(rows.clicks).tolist() == wanted["clicks_by_rank"]


@pytest.mark.parametrize("key", ["ranker", "segment", "split"])
def test_counts_by_key(key: str) -> None:
    counts, wanted = ar.ClickCounts.load(KEPT / "counts-keys.parquet"), EXPECTED
    assert set(counts.table[key].to_pylist()) == set(
        wanted["counts-keys"][f"clicks_by_{key}"]
    )
    for value, clicks in wanted["counts-keys"][f"clicks_by_{key}"].items():
        part = counts.select(key, value)
        assert part.clicks.sum() == clicks
        assert part.n_sessions == wanted["counts-keys"][f"sessions_by_{key}"][value]


@pytest.mark.parametrize(
    ("file", "segment", "estimated"),
    [
        ("users-eps", None, None),
        ("users-zeta", None, None),
        # Version 0.1 noted in the provenance how users were estimated.
        ("users-gauge", None, EstimatedBy("interventions", True, 200.0)),
        ("users-segments", "desktop", None),
        ("users-segments", "mobile", None),
    ],
)
def test_users(
    file: str, segment: str | None, estimated: EstimatedBy | None, tmp_path: Path
) -> None:
    users = ar.load_users(KEPT / f"{file}.json", segment=segment)
    wanted = EXPECTED[file] if segment is None else EXPECTED[file][segment]
    assert users.name == "trust"
    assert users.estimated == estimated
    for name, value in wanted.items():
        found = getattr(users, name)
        assert np.array_equal(found, value), name
    ar.save_users(users, tmp_path / "again.json")
    assert ar.load_users(tmp_path / "again.json").to_dict() == users.to_dict()


def test_users_of_segments_are_one_model() -> None:
    users = ar.load_users(KEPT / "users-segments.json")
    assert list(users.models) == ["desktop", "mobile"]
    for segment, model in users.models.items():
        wanted = ar.load_users(KEPT / "users-segments.json", segment)
        assert model.to_dict() == wanted.to_dict()


@pytest.mark.parametrize(("kind", "tolerance"), [("mlp", 1e-6), ("lightgbm", 1e-12)])
def test_rankers(kind: str, tolerance: float, tmp_path: Path) -> None:
    ranker: Any = ar.load_ranker(KEPT / f"ranker-{kind}")
    wanted = EXPECTED[f"ranker-{kind}"]
    assert ranker.kind == kind
    assert list(ranker.mapping.names) == wanted["features"]
    for name in ("estimator", "clip", "clicks"):
        assert ranker.provenance[name] == wanted[name]
    counts = ar.ClickCounts.load(KEPT / "counts.parquet")
    issued = {str(name) for name in counts.table["query_id"].to_pylist()}
    assert set(ranker.learnt_from) == issued
    test = ar.load("yahoo-like:60").test
    assert test is not None
    ranker.save(tmp_path / "again")
    for each in (ranker, ar.load_ranker(tmp_path / "again")):
        scores = ar.score(each, test)
        for found, value in (
            (scores[:5], wanted["first_5_of_test"]),
            (scores[::100], wanted["every_100th_of_test"]),
            (scores.sum(), wanted["sum_of_test"]),
            (ar.judge(scores, test, 2.0).mean, wanted["ndcg"]),
        ):
            np.testing.assert_allclose(found, value, rtol=tolerance, atol=tolerance)


def test_results_of_a_run() -> None:
    results = load_results(KEPT / "run")
    for found, wanted in zip(results, EXPECTED["run"], strict=True):
        cell, clipped = found.cell, wanted["clip"] != "none"
        options = f"(clip={wanted['clip']})" if clipped else ""
        assert cell.data == "tiny"
        assert cell.estimator == wanted["estimator"] + options
        drawn = wanted["clicks"] is not None
        assert cell.click_model == ("trust(eta=1, eps_minus_1=0.65)" if drawn else None)
        assert cell.policy == ("fixed" if drawn else None)
        assert cell.ranker == (None if cell.estimator == "production" else "mlp")
        users = {"default": "mixture"}.get(wanted["users"], wanted["users"])
        assert cell.users == (users if drawn else None)
        assert (cell.run, cell.clicks) == (wanted["run"], wanted["clicks"])
        names = ("ndcg", "early_ndcg", "early_epoch", "sessions", "clicks_drawn")
        for name in (*names, "queries"):
            assert getattr(found, name) == wanted[name]
        assert len(found.per_query) == wanted["per_query"]
        assert sum(found.alpha) == pytest.approx(wanted["alpha_sum"], rel=1e-12)
        assert sum(found.beta) == pytest.approx(wanted["beta_sum"], rel=1e-12)


def test_plan_of_a_run() -> None:
    plan, results = load_run(KEPT / "run")
    assert set(cells_of(plan)) == {result.cell for result in results}
    [network] = plan.rankers
    given = dict(network.parameters)
    assert network.name == "mlp"
    assert (given["hidden"], given["epochs"], given["batch_queries"]) == ((8, 4), 3, 32)
    [data] = plan.data
    assert (data.source, data.learning_rate) == ("yahoo-like:40", 0.01)
    assert (plan.runs, plan.early_stopping, plan.group_networks) == (2, True, 8)


def test_a_plan_is_written_in_the_new_form(tmp_path: Path) -> None:
    plan = read_plan(KEPT / "run" / "plan.toml")
    path = tmp_path / "plan.toml"
    path.write_text(plan.to_toml())
    assert "[network]" not in path.read_text()
    assert read_plan(path) == plan


def test_report_of_a_run(tmp_path: Path) -> None:
    page = write_report(KEPT / "run", tmp_path / "report.html").read_text()
    assert "AffineRank: kept" in page
    rows = [r for r in EXPECTED["run"] if r["clip"] == "none"]
    for estimator, users in (("production", "true"), ("affine", "default")):
        own = [r for r in rows if (r["estimator"], r["users"]) == (estimator, users)]
        assert len(own) == 2
        assert f"{np.mean([r['ndcg'] for r in own]):.4f}" in page
    about = outcome(KEPT / "run")
    assert (about["cells"], about["planned"]) == (18, 18)
