"""Laws that every click model and every ranker must obey, foreign ones too."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import foreign

from affinerank.clicks.models import CLICK_MODELS, Shown
from affinerank.clicks.models.files import load_click_model, save_click_model
from affinerank.counts.rows import ClickRows
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.pipeline.steps.train_settings import ranker_settings
from affinerank.rankers import RANKERS, Ranker, Targets
from affinerank.rankers.loading import load_ranker
from affinerank.support.errors import ConfigError

pytestmark = pytest.mark.slow

DEPTH, SESSIONS, QUERIES, SIZE = 5, 40_000, 30, 8
SMALL = {
    "mlp": ("hidden=8", "epochs=4", "device=cpu", "learning_rate=0.1"),
    "two-tower": ("hidden=8", "epochs=4", "device=cpu", "learning_rate=0.1"),
    "xgboost": ("trees=8", "leaves=4", "min_documents=2", "learning_rate=0.3"),
    "lightgbm": ("trees=8", "leaves=4", "min_documents=2", "learning_rate=0.3"),
}


@pytest.fixture(autouse=True)
def rows() -> Iterator[None]:
    with CLICK_MODELS.added(foreign.CLICK_MODEL), RANKERS.added(foreign.RANKER):
        yield


models = pytest.mark.parametrize("name", [*CLICK_MODELS, foreign.CLICK_MODEL.name])
# A blend has no model of its own; its laws are in test_blend.
MODELS = [name for name, row in RANKERS.items() if row.members is None]
rankers = pytest.mark.parametrize("name", [*MODELS, foreign.RANKER.name])


def click_model_of(name: str) -> Any:
    row = CLICK_MODELS[name]
    return row.make(row.settings(), DEPTH)


def rows_at(rank: Any) -> ClickRows:
    one = np.ones(len(rank))
    doc = np.arange(len(rank))
    rows = ClickRows(doc, np.asarray(rank), 0 * doc, one, 0 * one, doc, one)
    return replace(rows, has_context=True, segments=("s1",), segment=0 * doc)


def values_at(click_model: Any, rows: ClickRows) -> Any:
    """Alpha and beta, or why there are none."""
    try:
        return click_model.at(rows)
    except ConfigError as error:
        return str(error)


@models
def test_clicks_are_what_alpha_and_beta_expect(name: str) -> None:
    """Where P(click) depends on rank and relevance alone; within 5 standard errors."""
    click_model = click_model_of(name)
    rank = np.tile(np.arange(1, DEPTH + 1), SESSIONS)
    relevance = np.tile([1.0, 0.0, 0.5, 0.25, 1.0], SESSIONS)
    session = np.repeat(np.arange(SESSIONS), DEPTH)
    shown = Shown(session, rank, relevance, 0 * rank, 0 * rank)
    clicked = click_model.click(shown, np.random.default_rng(1)).reshape(
        SESSIONS, DEPTH
    )
    assert set(np.unique(clicked)) <= {False, True}
    expected = click_model.click_probability(rank[:DEPTH], relevance[:DEPTH])
    if expected is None:  # clicks depend on each other
        return
    alpha, beta = click_model.at(rows_at(rank[:DEPTH]))
    np.testing.assert_allclose(alpha * relevance[:DEPTH] + beta, expected)
    error = np.sqrt(expected * (1 - expected) / SESSIONS)
    assert np.all(np.abs(clicked.mean(axis=0) - expected) <= 5 * error)


@models
@pytest.mark.filterwarnings("ignore::affinerank.support.errors.AffineRankWarning")
def test_a_click_model_is_the_same_after_its_file(name: str, tmp_path: Path) -> None:
    click_model = click_model_of(name)
    save_click_model(click_model, tmp_path / "click-model.json")
    again = load_click_model(tmp_path / "click-model.json")
    assert again.to_dict() == click_model.to_dict()
    assert again.name == click_model.name
    deeper = click_model.to_depth(DEPTH + 3)
    assert deeper.depth >= DEPTH + 3
    first = rows_at(np.arange(1, DEPTH + 1))
    np.testing.assert_array_equal(
        values_at(deeper, first), values_at(click_model, first)
    )


def lists(seed: int = 0) -> tuple[Any, Targets, Any]:
    """Lists whose first feature is relevance; a third of the documents is unknown."""
    rng = np.random.default_rng(seed)
    features = rng.random((QUERIES * SIZE, 3)).astype(np.float32)
    weights = 4.0 * features[:, 0] - 1.0 + 0.1 * rng.normal(size=len(features))
    known = rng.random(len(features)) > 1 / 3
    share = np.full((1, QUERIES), 1.0 / QUERIES)
    offsets = np.arange(0, len(features) + 1, SIZE)
    return features, Targets(weights[None], known[None], share), offsets


def model_of(name: str, features: Any, targets: Targets, offsets: Any) -> Any:
    settings = ranker_settings(name, SMALL.get(name, ()))
    fit = RANKERS[name].fit
    [fitted] = fit(features, targets, offsets, seeds=[3], settings=settings)
    return fitted.kept


@rankers
def test_what_is_not_known_does_not_matter(name: str) -> None:
    features, targets, offsets = lists()
    scores = model_of(name, features, targets, offsets).predict(features)
    weights = np.where(targets.known, targets.weights, 1e6)
    other = replace(targets, weights=weights)
    again = model_of(name, features, other, offsets).predict(features)
    np.testing.assert_allclose(again, scores, rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_a_query_without_sessions_does_not_matter(name: str) -> None:
    features, targets, offsets = lists()
    share = targets.share.copy()
    share[0, :5] = 0.0
    less = replace(targets, share=share)
    scores = model_of(name, features, less, offsets).predict(features)
    weights = targets.weights.copy()
    weights[0, : offsets[5]] *= -1.0
    other = replace(less, weights=weights)
    again = model_of(name, features, other, offsets).predict(features)
    np.testing.assert_allclose(again, scores, rtol=1e-5, atol=1e-6)


@rankers
def test_the_sign_of_weights_is_the_direction_of_scores(name: str) -> None:
    features, targets, offsets = lists()
    turned = replace(targets, weights=-targets.weights)
    for sign, learnt in ((1, targets), (-1, turned)):
        scores = model_of(name, features, learnt, offsets).predict(features)
        assert sign * np.corrcoef(scores, features[:, 0])[0, 1] > 0.5


@rankers
def test_scores_do_not_depend_on_what_else_is_scored(name: str) -> None:
    features, targets, offsets = lists()
    model = model_of(name, features, targets, offsets)
    together = model.predict(features)
    alone = [model.predict(features[i : i + 1])[0] for i in range(10)]
    np.testing.assert_allclose(alone, together[:10], rtol=1e-5, atol=1e-6)


@rankers
def test_a_ranker_is_the_same_after_its_folder(name: str, tmp_path: Path) -> None:
    features, targets, offsets = lists()
    model = model_of(name, features, targets, offsets)
    mapping = FeatureMapping(("a", "b", "c"))
    Ranker(name, model, mapping, {"why": "a test"}, ("q",)).save(tmp_path / "model")
    again: Any = load_ranker(tmp_path / "model")
    assert (again.kind, again.training_queries) == (name, ("q",))
    np.testing.assert_array_equal(again.predict(features), model.predict(features))
