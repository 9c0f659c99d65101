"""Safe learning: the step, and what is kept of production."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from affinerank.cli import main
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.sources import DataSource
from affinerank.pipeline.compare import ChoiceSettings
from affinerank.pipeline.safe import (
    Step,
    evaluate_shares,
    largest_safe_share,
    train_safe,
)
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.steps.train_settings import TrainSettings, ranker_settings
from affinerank.rankers import score
from affinerank.rankers.blend import spread_within_lists
from affinerank.rankers.loading import load_ranker
from affinerank.support.errors import ConfigError
from affinerank.support.lists import ranks_by_score

FEATURE = "production"
TREES = ["trees=30", "leaves=8", "learning_rate=0.2"]


def test_the_step_is_the_largest_that_is_clearly_a_gain() -> None:
    steps = [Step(0.1, 3.0, 1.0, "a"), Step(0.5, 2.1, 1.0, "a"), Step(1, 1.0, 1.0, "b")]
    assert largest_safe_share(steps, 90_000) == 0.5
    assert largest_safe_share(steps, 20_000) == pytest.approx(np.sqrt(0.1))
    assert largest_safe_share(steps, 100) == 0
    assert largest_safe_share(steps, 400_000) == 1.0
    assert (
        largest_safe_share([Step(0.1, 1.9, 1.0, "a"), Step(1, 0.0, 0.0, "b")], 10_000)
        == 0
    )


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
def test_few_clicks_keep_production_and_many_leave_it(
    world: Any, ranker: str, tmp_path: Path
) -> None:
    data, simulation, own = world
    short = {"mlp": ["hidden=4", "epochs=3"], "lightgbm": TREES}
    how = ranker_settings(ranker, short[ranker])
    training = TrainSettings(ranker, how, tuning="none")
    settings = ChoiceSettings((ranker,), ("affine",), training)
    given: Any = {"production": FEATURE, "settings": settings}
    rng = np.random.default_rng(0)
    few = simulate_counts(simulation, 90, rng=rng)
    (kept,) = train_safe(few, data, simulation.click_model, **given).rankers.values()
    ranks = ranks_by_score(score(kept, data), data.offsets)
    np.testing.assert_array_equal(ranks, ranks_by_score(own, data.offsets))
    many = simulate_counts(simulation, 10_000_000, rng=rng)
    (left,) = train_safe(many, data, simulation.click_model, **given).rankers.values()
    if ranker == "mlp":  # 60 queries are few for trees
        assert left.provenance["safe"]["share"] > 0
    left.save(tmp_path / "model")
    again = load_ranker(tmp_path / "model")
    np.testing.assert_array_equal(score(again, data), score(left, data))


def test_what_cannot_be_safe_is_said(world: Any) -> None:
    data, simulation, _ = world
    counts = simulate_counts(simulation, 200, rng=np.random.default_rng(0))
    with pytest.raises(ConfigError, match="have no feature 'price'"):
        train_safe(counts, data, production="price")
    with pytest.raises(ConfigError, match="one ranker by one estimator"):
        train_safe(counts, data, production=FEATURE, settings=ChoiceSettings())


def test_lists_that_were_not_scored_do_not_change_what_a_share_is() -> None:
    """Two of four queries were scored; zeros of the others must not lessen the spread.

    In units of their spread, production prefers the first document of both lists by 2,
    and what was learnt the second by 1.6 and by 2.3: at a share of one half, only the
    second list is turned round, which is half of what turning both gains.
    """
    query = np.arange(4).repeat(2)
    data = RankingDataset.from_groups(
        np.zeros((8, 1)), query, np.arange(4), doc_ids=np.tile([0, 1], 4)
    )
    counts = ClickCounts.from_columns(
        query_id=query[:4],
        doc_id=np.tile([0, 1], 2),
        rank=np.tile([1, 2], 2),
        impressions=np.full(4, 100),
        clicks=np.tile([10, 50], 2),
    )
    rows = join_counts(counts, data)
    production = np.array([2.0, 0, 2, 0, 7, 9, 7, 9])
    learnt = np.array([0.0, 1.6, 0, np.sqrt(8 - 1.6**2), 0, 0, 0, 0])
    click_model = TrustModel.position_bias([0.9, 0.9])
    steps = evaluate_shares(production, learnt, rows, click_model)
    gain = {step.share: step.gain for step in steps}
    assert gain[0.25] == 0.0
    assert gain[1.0] == pytest.approx(gain[0.75])
    assert gain[0.5] == pytest.approx(gain[1.0] / 2)
    assert gain[1.0] > 0


def test_a_blend_with_production_keeps_no_importance_of_what_was_learnt(
    world: Any,
) -> None:
    data, simulation, _ = world
    counts = simulate_counts(simulation, 90, rng=np.random.default_rng(0))
    how = ranker_settings("lightgbm", TREES)
    training = TrainSettings("lightgbm", how, tuning="none")
    settings = ChoiceSettings(("lightgbm",), ("affine",), training)
    trained = train_safe(
        counts, data, simulation.click_model, production=FEATURE, settings=settings
    )
    [ranker] = trained.rankers.values()
    assert ranker.provenance["safe"]["share"] == 0
    assert "importance" not in ranker.provenance


@pytest.mark.parametrize("ranker", ["mlp", "lightgbm"])
def test_documents_without_a_score_of_production_are_refused(
    ranker: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trees keep gaps, so that the ranker would be written with NaN."""
    data, counts = tmp_path / "data.parquet", tmp_path / "counts.parquet"
    assert main(["data", "convert", "yahoo-like:30", str(data)]) == 0
    click_model = str(tmp_path / "click-model.json")
    clicks = [
        "--sessions",
        "90",
        "--counts",
        str(counts),
        "--save-click-model",
        click_model,
    ]
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
        "--tuning",
        "none",
        "--click-model",
        click_model,
        "--set",
        short,
    ]
    words += ["--safe", "--production", "f1", "-o", str(tmp_path / "model")]
    assert main(words) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"affinerank: --production f1: 2 of {len(scores)} documents")
    assert not (tmp_path / "model").exists()
    assert main([*words, "--missing", "0"]) == 0
    load_ranker(tmp_path / "model")


def test_the_spread_is_within_queries() -> None:
    query = np.array([0, 0, 1, 1])
    scores = np.array([1.0, 3.0, 10.0, 12.0])
    assert spread_within_lists(scores, query) == pytest.approx(1.0)
    assert spread_within_lists(np.zeros(4), query) == 1.0
