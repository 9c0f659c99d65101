"""Parameters of tree libraries handed on by name, and scores that are monotone."""

from __future__ import annotations

import tomllib
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from affinerank.pipeline.steps.train_settings import ranker_settings
from affinerank.rankers import RANKERS, Targets
from affinerank.rankers.trees import parameters
from affinerank.rankers.trees.parameters import for_features
from affinerank.support.errors import ConfigError
from affinerank.support.settings import from_table, to_toml

NAMES = ("price", "rating", "age")
KINDS = pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
RNG = np.random.default_rng(0)
FEATURES = RNG.random((2000, 3)).astype(np.float32)
OFFSETS = np.arange(0, 2001, 10)


def fitted(kind: str, settings: Any, seed: int = 0) -> Any:
    """Relevance rises with price, and with rating up to a half."""
    wave = 1.0 - np.abs(FEATURES[:, 1] - 0.5)
    weights = FEATURES[:, 0] + wave + np.sin(9 * FEATURES[:, 2])
    targets = Targets(weights[None], np.ones((1, 2000), dtype=bool))
    fit = RANKERS[kind].fit
    [one] = fit(FEATURES, targets, OFFSETS, seeds=[seed], settings=settings)
    return one.kept


def steps(model: Any, feature: int) -> Any:
    """Changes of the score as one feature rises and the others stay."""
    grid = np.repeat(FEATURES[:50], 40, axis=0)
    grid[:, feature] = np.tile(np.linspace(0, 1, 40, dtype=np.float32), 50)
    return np.diff(model.predict(grid).reshape(50, 40), axis=1)


@KINDS
def test_scores_are_monotone_where_asked(kind: str) -> None:
    free = fitted(kind, ranker_settings(kind, ["trees=30"]))
    asked = ranker_settings(kind, ["trees=30", "monotone=price=-1,rating=+1"])
    held = fitted(kind, for_features(asked, NAMES))
    assert steps(free, 0).max() > 0.01
    assert steps(held, 0).max() <= 1e-6
    assert steps(free, 1).min() < -0.01
    assert steps(held, 1).min() >= -1e-6
    assert steps(held, 1).max() > 0.01
    assert steps(held, 2).min() < -0.01 < 0.01 < steps(held, 2).max()


@KINDS
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pric=1", "'pric' is none of the 3 features .* did you mean 'price'"),
        ("price=2", "as in price=-1,rating=.1, got 'price=2'"),
        ("price", "got 'price'"),
    ],
)
def test_what_cannot_be_monotone_is_said(kind: str, text: str, message: str) -> None:
    settings = ranker_settings(kind, [f"monotone={text}"])
    with pytest.raises(ConfigError, match=message):
        for_features(settings, NAMES)


@KINDS
def test_names_are_resolved_before_a_fit(kind: str) -> None:
    with pytest.raises(ConfigError, match="for_features"):
        fitted(kind, ranker_settings(kind, ["monotone=price=1"]))


@pytest.mark.parametrize(
    ("kind", "pairs", "message"),
    [
        ("lightgbm", ["lamda_l2=1"], "no key 'lamda_l2'; did you mean 'lambda_l2'"),
        ("lightgbm", ["nonsense=1"], "known are trees, leaves"),
        ("lightgbm", ["lambda_l2=-1"], "lambda_l2 must be a number of at least 0, got"),
        ("lightgbm", ["bagging_fraction=2"], "at least 1e-09 and at most 1, got '2'"),
        ("lightgbm", ["max_depth=1.5"], "max_depth must be a whole number"),
        ("lightgbm", ["extra_trees=maybe"], "must be true or false, got 'maybe'"),
        ("xgboost", ["reg_lamda=1"], "no key 'reg_lamda'; did you mean 'reg_lambda'"),
        ("xgboost", ["subsample=nan"], "subsample must be a number"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(
    kind: str, pairs: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ranker_settings(kind, pairs)


@KINDS
def test_a_parameter_reaches_the_library(kind: str) -> None:
    """Trees of one split, by the library's own parameter."""
    settings = ranker_settings(kind, ["trees=5", "max_depth=1"])
    for tree in fitted(kind, settings).nodes():
        assert [node.left for node in tree] == [1, 0, 0]


def test_what_is_drawn_is_drawn_by_the_seed() -> None:
    asked = ["trees=5", "bagging_fraction=0.5", "bagging_freq=1"]
    settings = ranker_settings("lightgbm", asked)
    one, again, other = (fitted("lightgbm", settings, seed) for seed in (0, 0, 1))
    scores = [model.predict(FEATURES) for model in (one, again, other)]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert np.abs(scores[0] - scores[2]).max() > 1e-3


@KINDS
def test_other_names_mean_ours_and_settings_survive_a_plan(kind: str) -> None:
    row: Any = RANKERS[kind].settings
    settings: Any = from_table(row, {"n_estimators": 7, "max_depth": 3}, "x")
    assert (settings.trees, settings.params) == (7, ("max_depth=3",))
    assert set(row.OURS.values()) <= {*row.PASSED, *row.__dataclass_fields__}
    again = from_table(type(settings), tomllib.loads(to_toml(settings)), "x")
    assert again == settings


def test_lightgbm_knows_every_name_that_is_handed_on() -> None:
    known = lgb.basic._ConfigAliases._get_all_param_aliases()
    assert set(parameters.LIGHTGBM) <= set(known)
