"""Safe learning: limits by the log, the step, and what is kept of production."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from affinerank.cli import main
from affinerank.clicks.rows import ClickRows
from affinerank.clicks.simulate import simulate_counts
from affinerank.data.catalog import DataSource
from affinerank.errors import ConfigError, DataError
from affinerank.metrics import ranks_by_score
from affinerank.pipeline import (
    ChoiceSettings,
    prepare_simulation,
    ranker_settings,
    train,
    train_production_ranker,
    train_safe,
)
from affinerank.pipeline.safe import Step, largest, spread
from affinerank.pipeline.safeguards import SAFEGUARDS
from affinerank.rankers import score
from affinerank.rankers.loading import load_ranker

FEATURE = "production"
TREES = ["trees=30", "leaves=8", "learning_rate=0.2"]


def shown_once() -> ClickRows:
    """Two queries of 2 and 1 documents, in 300 and 100 sessions; one not shown."""
    doc, none = np.array([0, 1, 2]), np.zeros(3, dtype=np.int64)
    return ClickRows(
        doc=doc,
        rank=np.array([1, 2, 1]),
        context=none,
        impressions=np.array([300.0, 300.0, 50.0]),
        clicks=np.array([30.0, 10.0, 5.0]),
        query_of_doc=np.array([0, 0, 1, 1]),
        sessions=np.array([300.0, 100.0]),
    )


LOGGED = np.array([1.0, 1 / np.log2(3), 0.5, 0.0])


def test_proximal_limits_are_the_logged_exposure_times_delta() -> None:
    low, high, price = SAFEGUARDS["prpo"].limits(shown_once())
    np.testing.assert_allclose(low, LOGGED * 100 / 400)
    np.testing.assert_allclose(high, LOGGED * 400 / 100)
    assert not price.any()


def test_a_price_is_the_slope_of_the_bound() -> None:
    low, high, price = SAFEGUARDS["crm"].limits(shown_once())
    size = 0.75 * (1 + 1 / np.log2(3)) + 0.25 * 0.5
    floor = 1 / np.log2(3)  # lists have 2 documents at most

    def bound(squared: float) -> float:  # of the first document's exposure
        d2 = 1 + 0.75 * (squared - 1) / size
        return float(np.sqrt(size / 400 * 19 * d2))

    slope = (bound(1 + 1e-6) - bound(1)) / 1e-6
    np.testing.assert_allclose(0.75 * price[0], slope, rtol=1e-4)
    np.testing.assert_allclose(price * np.maximum(LOGGED, floor), price[0])
    assert not low.any()
    assert np.isinf(high).all()


def test_the_step_is_the_largest_that_is_clearly_a_gain() -> None:
    steps = [Step(0.1, 3.0, 1.0, "a"), Step(0.5, 2.1, 1.0, "a"), Step(1, 1.0, 1.0, "b")]
    assert largest(steps, 90_000) == 0.5
    assert largest(steps, 20_000) == pytest.approx(np.sqrt(0.1))
    assert largest(steps, 100) == 0
    assert largest(steps, 400_000) == 1.0
    assert largest([Step(0.1, 1.9, 1.0, "a"), Step(1, 0.0, 0.0, "b")], 10_000) == 0


@pytest.fixture(scope="module")
def world() -> Any:
    data = DataSource.parse("yahoo-like:60").read("train")
    production = train_production_ranker(data)
    own = score(production, data).astype(np.float32)
    features = np.column_stack([data.features[:, :30], own])
    names = (*data.feature_names[:30], FEATURE)
    simulation = prepare_simulation(data, rankers={"p": production})
    return replace(data, features=features, feature_names=names), simulation, own


@pytest.mark.parametrize("ranker", ["mlp", "lightgbm"])
@pytest.mark.parametrize("safe", list(SAFEGUARDS))
def test_few_clicks_keep_production_and_many_leave_it(
    world: Any, ranker: str, safe: str, tmp_path: Path
) -> None:
    data, simulation, own = world
    short = {"mlp": ["hidden=4", "epochs=3"], "lightgbm": TREES}
    how = ranker_settings(ranker, short[ranker])
    settings = ChoiceSettings(ranker, how, recipe="paper", safe=safe)
    given: Any = {"production": FEATURE, "estimator": "affine", "settings": settings}
    rng = np.random.default_rng(0)
    few = simulate_counts(simulation, 90, rng=rng)
    (kept,) = train_safe(few, data, simulation.users, **given).rankers.values()
    ranks = ranks_by_score(score(kept, data), data.offsets)
    np.testing.assert_array_equal(ranks, ranks_by_score(own, data.offsets))
    many = simulate_counts(simulation, 10_000_000, rng=rng)
    (left,) = train_safe(many, data, simulation.users, **given).rankers.values()
    if ranker == "mlp":  # 60 queries are few for trees
        assert left.provenance["safe"]["share"] > 0
    left.save(tmp_path / "model")
    again = load_ranker(tmp_path / "model")
    np.testing.assert_array_equal(score(again, data), score(left, data))
    path = tmp_path / "model" / "ranker.json"
    about = json.loads(path.read_text())
    for wrong in ({"share": 2.0}, {"column": 99}, {"units": [0.0, 1.0]}, {"units": 1}):
        path.write_text(json.dumps({**about, "mixed": {**about["mixed"], **wrong}}))
        with pytest.raises(DataError, match="not a ranker"):
            load_ranker(tmp_path / "model")


def test_what_cannot_be_safe_is_said(world: Any) -> None:
    data, simulation, _ = world
    counts = simulate_counts(simulation, 200, rng=np.random.default_rng(0))
    with pytest.raises(ConfigError, match="have no feature 'price'"):
        train_safe(counts, data, production="price", settings=ChoiceSettings())
    with pytest.raises(ConfigError, match="--safe is for mlp and lightgbm"):
        train(counts, data, simulation.users, ranker="linear-model", safe="prpo")


@pytest.mark.parametrize("ranker", ["mlp", "lightgbm"])
def test_documents_without_a_score_of_production_are_refused(
    ranker: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trees keep gaps, so that the ranker would be written with NaN."""
    data, counts = tmp_path / "data.parquet", tmp_path / "counts.parquet"
    assert main(["data", "convert", "yahoo-like:30", str(data)]) == 0
    users = str(tmp_path / "users.json")
    clicks = ["--sessions", "90", "--counts", str(counts), "--save-users", users]
    assert main(["simulate", str(data), *clicks]) == 0
    table = pq.read_table(data)
    scores = table["f1"].to_pylist()
    scores[3] = scores[5] = None
    place = table.column_names.index("f1")
    table = table.set_column(place, "f1", pa.array(scores, pa.float32()))
    pq.write_table(table, data)
    capsys.readouterr()
    words = ["train", str(counts), "--data", str(data), "--ranker", ranker]
    short = {"mlp": "epochs=2", "lightgbm": "trees=5"}[ranker]
    words += [
        "--estimator",
        "affine",
        "--recipe",
        "paper",
        "--users",
        users,
        "--set",
        short,
    ]
    words += ["--safe", "prpo", "--production", "f1", "-o", str(tmp_path / "model")]
    assert main(words) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"affinerank: --production f1: 2 of {len(scores)} documents")
    assert not (tmp_path / "model").exists()
    assert main([*words, "--missing", "0"]) == 0
    load_ranker(tmp_path / "model")


def test_the_spread_is_within_queries() -> None:
    query = np.array([0, 0, 1, 1])
    assert spread(np.array([1.0, 3.0, 10.0, 12.0]), query) == pytest.approx(1.0)
    assert spread(np.zeros(4), query) == 1.0
