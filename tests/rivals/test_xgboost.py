"""The ranker by XGBoost: saved as XGBoost loads it, and checked before it does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affinerank.data.feature_mapping import FeatureMapping
from affinerank.rankers import Ranker, Targets
from affinerank.rankers.loading import load_ranker
from affinerank.rankers.targets import ClickTargets
from affinerank.rankers.trees.xgboost_json import nodes_of
from affinerank.rivals import xgboost
from affinerank.rivals.xgboost import XGBoostSettings, fit_xgboost
from affinerank.support.errors import ConfigError, DataError

RNG = np.random.default_rng(0)
FEATURES = RNG.random((1000, 3)).astype(np.float32)
FEATURES[RNG.random((1000, 3)) < 0.1] = np.nan
OFFSETS = np.arange(0, 1001, 10)
KNOWN = np.ones((1, 1000), dtype=bool)
SMALL = XGBoostSettings(trees=10, leaves=8, learning_rate=0.3)


def model(weights: Any, **more: Any) -> Any:
    targets = Targets(weights[None], KNOWN, **more)
    return fit_xgboost(FEATURES, targets, OFFSETS, seeds=[0], settings=SMALL)[0].kept


def relevance() -> Any:
    return np.nan_to_num(FEATURES[:, 0], nan=0.5)


def folder(path: Path) -> Path:
    mapping = FeatureMapping(("a", "b", "c"), "none")
    Ranker("xgboost", model(relevance()), mapping, {}).save(path)
    return path / "model.json"


def test_the_file_is_one_that_xgboost_loads(tmp_path: Path) -> None:
    import xgboost as xgb

    booster = xgb.Booster()
    booster.load_model(folder(tmp_path / "m"))
    found = booster.predict(xgb.DMatrix(FEATURES))
    np.testing.assert_array_equal(found, model(relevance()).predict(FEATURES))
    loaded: Any = load_ranker(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(FEATURES), found)


@pytest.mark.parametrize("noisy", [False, True])
def test_relevance_and_corrected_clicks_are_learnt(noisy: bool) -> None:
    weights = relevance() + RNG.normal(0, 0.5 if noisy else 0.01, 1000)
    scores = model(weights, noisy=[noisy]).predict(FEATURES)
    assert np.corrcoef(scores, relevance())[0, 1] > 0.7


def test_clicks_are_explained_from_their_mean_on() -> None:
    """Users examine all: a score is the log odds of a click."""
    rate = np.where(relevance() > 0.5, 0.6, 0.2)
    n = np.full((1, 1000, 1), 1000.0, dtype=np.float32)
    clicks = (n[0, :, 0] * rate).astype(np.float32)[None, :, None]
    targets = ClickTargets(n, clicks, n / n, 0 * n)
    settings = XGBoostSettings(trees=40, learning_rate=0.3)
    [one] = fit_xgboost(FEATURES, targets, OFFSETS, seeds=[0], settings=settings)
    found = 1.0 / (1.0 + np.exp(-one.kept.predict(FEATURES)))
    assert np.abs(found - rate).mean() < 0.005


def test_importance_is_the_gain_of_splits() -> None:
    gain = model(relevance()).gain()
    assert gain[0] > 10 * gain[1:].sum()


def test_nodes_are_numbered_after_their_parents() -> None:
    """A root whose children stand before and after others, one node unused."""
    tree = {
        "left_children": [3, -1, -1, -1, 1],
        "right_children": [4, -1, -1, -1, 2],
        "split_indices": [0, 0, 0, 0, 1],
        "default_left": [1, 0, 0, 0, 0],
        "split_conditions": [0.5, 1.0, 2.0, 3.0, 0.25],
        "loss_changes": [9.0, 0.0, 0.0, 0.0, 4.0],
    }
    found = nodes_of(tree)
    assert [node.left for node in found] == [1, 0, 3, 0, 0]
    assert [node.right for node in found] == [2, 0, 4, 0, 0]
    assert [node.gain for node in found] == [9.0, 0.0, 4.0, 0.0, 0.0]
    values = [0.5, 3.0, 0.25, 1.0, 2.0]
    assert [node.value for node in found] == pytest.approx(values, abs=1e-7)


SPOILT = {
    "a child out of range": ("left_children", 0, 99),
    "a child before its parent": ("left_children", 0, 0),
    "one child": ("left_children", 0, -1),
    "a child twice": ("left_children", 0, 2),
    "an unknown feature": ("split_indices", 0, 3),
    "no number": ("split_conditions", 0, "1"),
    "too large": ("split_conditions", 0, 1e39),
    "a side": ("default_left", 0, 2),
    "a fraction": ("split_indices", 0, 0.5),
}


@pytest.mark.parametrize("name", SPOILT)
def test_xgboost_never_sees_a_spoilt_file(name: str, tmp_path: Path) -> None:
    path = folder(tmp_path / "m")
    key, node, value = SPOILT[name]
    found = json.loads(path.read_text())
    found["learner"]["gradient_booster"]["model"]["trees"][1][key][node] = value
    path.write_text(json.dumps(found))
    with pytest.raises(DataError, match=r"model.json: not trees .* tree 1: "):
        load_ranker(tmp_path / "m")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"learner": 3}', "[" * 100])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    folder(tmp_path / "m").write_text(text)
    with pytest.raises(DataError, match=r"model.json: not trees as XGBoost writes"):
        load_ranker(tmp_path / "m")


def test_without_xgboost_one_sentence_says_so(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ConfigError, match=r"pip install 'affinerank\[xgboost\]'"):
        model(relevance())


def test_the_table_does_not_load_xgboost() -> None:
    assert xgboost.ROW.settings().trees == 300
    with pytest.raises(ConfigError, match="feature_share must be above 0 and up to 1"):
        XGBoostSettings(feature_share=2.0)
