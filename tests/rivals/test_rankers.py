"""Rivals among rankers and losses, against their definitions."""

import json
from collections.abc import Callable
from math import log2
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import torch
import xgboost
from scipy.stats import norm

from affinerank.rankers import RANKERS, Targets
from affinerank.rankers.networks.batches import Batch, RaggedLists
from affinerank.rankers.networks.losses import LOSSES
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.trees.lightgbm import TreeSettings
from affinerank.rivals.heckman import HeckmanSettings, mills, probit
from affinerank.rivals.tower_training import TowerTrainer
from affinerank.rivals.xgboost import XGBoostSettings
from affinerank.support.errors import ConfigError, DataError

SIZES = np.array([4, 3])
WORTH: dict[str, Callable[[float], float]] = {
    "svm-rank": lambda rank: rank,
    "dcg-bound": lambda rank: -1 / log2(1 + rank),
}


def batch_of(weights: np.ndarray) -> Batch:
    known = torch.tensor([[True, True, True, False, True, True, True]])
    share = torch.tensor([[1.0] * 4 + [2.0] * 3])
    w = torch.tensor(weights, dtype=torch.float64)[None]
    return Batch(w, known, share, RaggedLists.of(SIZES))


@pytest.mark.parametrize("name", ["svm-rank", "dcg-bound"])
def test_bounds_are_the_written_out_slacks(name: str) -> None:
    """Slacks of Joachims et al. 2017; DCG by Agarwal et al. 2019, pair by pair."""
    weights = np.array([2.0, 0.0, 1.5, 9.0, 0.0, 3.0, 0.5])
    s = np.array([0.3, 1.0, -0.4, 5.0, 0.2, 0.1, 2.0])
    expected = at_best = 0.0
    for docs, share in (([0, 1, 2], 1.0), ([4, 5, 6], 2.0)):
        for i in docs:
            slack = sum(max(0.0, 1 - (s[i] - s[j])) for j in docs if j != i)
            rank = 1 + sum(s[j] > s[i] for j in docs)
            worth = WORTH[name]
            expected += share * weights[i] * worth(1 + slack)
            at_best += share * weights[i] * worth(rank)
    scores = torch.tensor(s)[None]
    found = LOSSES[name].value(scores, batch_of(weights)).item()
    assert found == pytest.approx(expected, rel=1e-12)
    assert found >= at_best  # an upper bound of ranks, and of negative DCG


def test_bounds_refuse_negative_weights() -> None:
    for name in ("svm-rank", "dcg-bound"):
        with pytest.raises(DataError, match="negative weights"):
            LOSSES[name].require_learnable(batch_of(np.full(7, -1.0)))


def shown_lists(n_queries: int = 400) -> tuple[np.ndarray, Targets, np.ndarray]:
    """Click rates that two additive towers explain exactly, in a biased order."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (4 * n_queries, 2)).astype(np.float32)
    noisy = (x[:, 0] + rng.normal(size=len(x))).reshape(-1, 4)
    rank = 1 + np.argsort(np.argsort(-noisy, axis=1), axis=1).ravel()
    logit = -1.0 + 2.0 * x[:, 0] - x[:, 1] + np.array([1.0, 0.0, -0.5, -2.0])[rank - 1]
    rate = 1 / (1 + np.exp(-logit))
    known = np.ones((1, len(x)), dtype=bool)
    offsets = np.arange(0, len(x) + 1, 4)
    return x, Targets(rate[None], known, rank=[rank]), offsets


def test_two_towers_tell_relevance_from_bias_where_both_add_up() -> None:
    """Enumerated: rates of sigmoid(2 x1 - x2 - 1 + b) with b = 1, 0, -.5, -2."""
    x, targets, offsets = shown_lists()
    how = NetworkSettings(
        hidden=(8,), dropout=(0.0,), epochs=60, device="cpu", learning_rate=0.05
    )
    trainer = TowerTrainer(x, offsets, [0], how)
    trainer.set_targets(targets)
    for epoch in range(how.epochs):
        trainer.epoch(epoch)
    bias = trainer.learnt.bias[0, 1:].numpy()
    np.testing.assert_allclose(bias - bias[1], [1, 0, -0.5, -2], atol=0.03)
    corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=np.float32)
    [model] = trainer.networks().apart()
    scores = model.predict(corners)
    np.testing.assert_allclose(scores - scores[0], [0, 2, -1, 1], atol=0.05)


def test_two_towers_have_a_loss_of_their_own() -> None:
    x, targets, offsets = shown_lists(10)
    with pytest.raises(ConfigError, match="loss of their own"):
        RANKERS["two-tower"].fit(
            x, targets, offsets, seeds=[0], settings=NetworkSettings(loss="squared")
        )


def test_probit_of_two_groups_is_the_normal_quantile_of_their_shares() -> None:
    """Closed form: constant quantile(.2), slope quantile(.7) - quantile(.2)."""
    x = np.repeat([0.0, 1.0], 1000)
    shown = np.concatenate([np.arange(1000) < 200, np.arange(1000) < 700])
    found = probit(np.column_stack([x, np.ones(2000)]), shown, 1e-9)
    low, high = norm.ppf([0.2, 0.7])
    np.testing.assert_allclose(found, [high - low, low], atol=1e-6)
    np.testing.assert_allclose(mills(np.array([0.0])), [np.sqrt(2 / np.pi)])


def coefficients(fitted: Any) -> Any:
    return fitted.kept.coefficients


def test_heckman_is_right_where_least_squares_among_the_shown_is_not() -> None:
    """Heckman 1979: E[w | shown] = x b + r lambda; b = (1, -.5), r = .8 are found."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40_000, 2)).astype(np.float32)
    g = x @ np.array([1.0, 1.0]) - 0.5
    shown = rng.random(len(x)) < norm.cdf(g)
    weights = x @ np.array([1.0, -0.5]) + 0.8 * mills(g) + 3.0
    targets = Targets(weights[None], shown[None])
    offsets = np.arange(0, len(x) + 1, 10)
    how = HeckmanSettings(ridge=(1e-3,))
    fit = RANKERS["heckman"].fit
    [fitted] = fit(x, targets, offsets, seeds=[0], settings=how)
    found = coefficients(fitted)
    np.testing.assert_allclose(found, [1.0, -0.5], atol=0.03)  # g is estimated
    y = weights[shown] - weights[shown].mean()
    plain = np.linalg.lstsq(x[shown] - x[shown].mean(axis=0), y, rcond=None)[0]
    assert abs(plain[0] - 1.0) > 0.2
    seen = np.ones_like(shown)
    exact = Targets((x @ np.array([2.0, 1.0]))[None], seen[None])
    [fitted] = fit(x, exact, offsets, seeds=[0], settings=how)
    np.testing.assert_allclose(coefficients(fitted), np.array([2.0, 1.0]), rtol=1e-5)


def biased_rates() -> tuple[np.ndarray, Targets, np.ndarray]:
    """Clicks by a bad feature's rank alone, and a little by a good one."""
    rng = np.random.default_rng(0)
    x = rng.random((4000, 2)).astype(np.float32)
    rank = 1 + np.argsort(np.argsort(-x[:, 1].reshape(-1, 8), axis=1), axis=1).ravel()
    rate = (0.2 + 0.4 * x[:, 0]) / rank
    known = np.ones((1, len(x)), dtype=bool)
    return x, Targets(rate[None], known, rank=[rank]), np.arange(0, len(x) + 1, 8)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_the_boosters_own_debiasing_trusts_the_rank_shown_less(name: str) -> None:
    x, targets, offsets = biased_rates()
    small: dict[str, Any] = {"trees": 30, "leaves": 8, "learning_rate": 0.1}
    own = {
        "lightgbm": (TreeSettings(**small), TreeSettings(**small, position=True)),
        "xgboost": (XGBoostSettings(**small), XGBoostSettings(**small, unbiased=True)),
    }[name]
    along = []
    for settings in own:
        [fitted] = RANKERS[name].fit(x, targets, offsets, seeds=[0], settings=settings)
        scores = fitted.model.predict(x)
        slopes = np.linalg.lstsq(x - x.mean(axis=0), scores, rcond=None)[0]
        along.append(slopes[0] / np.abs(slopes[1]))
    assert along[1] > 1.5 * along[0]


def test_lightgbm_position_is_what_the_library_does_with_the_ranks() -> None:
    x, targets, offsets = biased_rates()
    settings = TreeSettings(trees=5, leaves=4, position=True)
    [fitted] = RANKERS["lightgbm"].fit(
        x, targets, offsets, seeds=[0], settings=settings
    )
    rate = targets.weights[0]
    data = lgb.Dataset(
        x,
        label=np.rint(255 * rate / rate.max()),
        group=np.diff(offsets),
        weight=np.ones(len(x)),
        position=targets.rank_of(0),
        params={"max_bin": 63, "verbosity": -1, "feature_pre_filter": False},
    )
    params = {
        "objective": "lambdarank",
        "label_gain": [step / 255 for step in range(256)],
        "num_leaves": 4,
        "learning_rate": 0.1,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
        "max_bin": 63,
    }
    booster = lgb.train(params, data, 5)
    np.testing.assert_allclose(fitted.model.predict(x), booster.predict(x), rtol=1e-9)


def test_xgboost_unbiased_takes_the_rank_shown_for_the_row() -> None:
    x, targets, offsets = biased_rates()
    settings = XGBoostSettings(trees=3, leaves=4, unbiased=True)
    rank = targets.rank_of(0)
    order = np.lexsort((rank, np.arange(len(x)) // 8))
    by_rank = Targets(targets.weights[:, order], targets.known, rank=[rank[order]])
    fit = RANKERS["xgboost"].fit
    [one] = fit(x, targets, offsets, seeds=[0], settings=settings)
    [two] = fit(x[order], by_rank, offsets, seeds=[0], settings=settings)
    np.testing.assert_allclose(one.model.predict(x), two.model.predict(x), rtol=1e-6)


def test_xgboost_unbiased_has_the_ratios_of_hu_et_al() -> None:
    """After one tree t+ is sqrt(li / li_1), li the sum of pair costs log(2) |delta|."""
    x, targets, offsets = biased_rates()
    label = targets.weights[0][np.lexsort((targets.rank_of(0), np.arange(len(x)) // 8))]
    label = (label / label.max()).astype(np.float32)
    data = xgboost.DMatrix(x, label=label, group=np.diff(offsets))
    how = {"objective": "rank:ndcg", "ndcg_exp_gain": False, "base_score": 0.0}
    how |= {"lambdarank_unbiased": True, "lambdarank_num_pair_per_sample": 8}
    booster = xgboost.train(how, data, 1)
    worth, cost = 1 / np.log2(np.arange(8) + 2.0), np.zeros(8)
    for own in label.reshape(-1, 8).astype(float):
        ideal = np.sort(own)[::-1] @ worth
        for i in range(8):
            for j in range(8):
                if own[i] > own[j]:
                    delta = (own[i] - own[j]) * abs(worth[i] - worth[j]) / ideal
                    cost[i] += np.log(2) * delta
    saved = json.loads(booster.save_config())["learner"]["objective"]["ti+"]
    np.testing.assert_allclose(saved, np.sqrt(cost / cost[0]), rtol=1e-4)


def test_what_cannot_be_debiased_is_rejected() -> None:
    with pytest.raises(ConfigError, match="own objective"):
        TreeSettings(objective="any-sign", position=True)
    x, targets, offsets = biased_rates()
    unknown = Targets(targets.weights, targets.known)
    with pytest.raises(DataError, match="shown at a rank"):
        RANKERS["lightgbm"].fit(
            x, unknown, offsets, seeds=[0], settings=TreeSettings(position=True)
        )
