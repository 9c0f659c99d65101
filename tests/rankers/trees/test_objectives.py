"""Gradients of trees: against double loops and written-out numbers, and their laws."""

import math
from itertools import pairwise

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affinerank.evaluation.metrics import Metric
from affinerank.rankers.likelihood import Clicks
from affinerank.rankers.targets import ClickTargets
from affinerank.rankers.trees.objectives import ClickObjective, LambdaObjective
from affinerank.support.errors import DataError

Arrays = tuple[np.ndarray, np.ndarray]


def ranks_of(scores: np.ndarray) -> dict[int, int]:
    order = sorted(range(len(scores)), key=lambda d: -scores[d])
    return {d: k for k, d in enumerate(order, start=1)}


def deltas(scores: np.ndarray, gains: np.ndarray, truncation: int) -> np.ndarray:
    """What a pair counts in one list, ``[i, j]``, where i should come before j."""
    rank = ranks_of(scores)
    delta = np.zeros((len(scores), len(scores)))
    for i, k in rank.items():
        for j, m in rank.items():
            if gains[i] > gains[j] and min(k, m) <= truncation:
                apart = abs(1 / math.log2(1 + k) - 1 / math.log2(1 + m))
                delta[i, j] = (gains[i] - gains[j]) * apart
    return delta


def loss(scores: np.ndarray, delta: np.ndarray) -> float:
    """The loss of one list, what pairs count held fixed."""
    total = 0.0
    for i in range(len(scores)):
        for j in range(len(scores)):
            total += delta[i, j] * math.log(1 + math.exp(-(scores[i] - scores[j])))
    return total


def looped(scores: np.ndarray, gains: np.ndarray, truncation: int) -> Arrays:
    """The derivatives of one list, pair by pair."""
    delta = deltas(scores, gains, truncation)
    gradient, hessian = np.zeros(len(scores)), np.zeros(len(scores))
    for i in range(len(scores)):
        for j in range(len(scores)):
            rho = 1 / (1 + math.exp(scores[i] - scores[j]))
            gradient[i] -= delta[i, j] * rho
            gradient[j] += delta[i, j] * rho
            hessian[[i, j]] += delta[i, j] * rho * (1 - rho)
    return gradient, hessian


def drawn(seed: int, sizes: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores with some ties, gains of both signs, and offsets."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=sum(sizes)).round(1)
    gains = rng.normal(size=sum(sizes)).round(1)
    return scores, gains, np.concatenate([[0], np.cumsum(sizes)])


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    sizes=st.lists(st.integers(0, 15), min_size=1, max_size=6),
    truncation=st.integers(1, 20),
)
def test_derivatives_are_those_of_the_double_loop(
    seed: int, sizes: list[int], truncation: int
) -> None:
    scores, gains, offsets = drawn(seed, sizes)
    found = LambdaObjective(gains, offsets, truncation)(scores)
    for start, end in pairwise(offsets):
        expected = looped(scores[start:end], gains[start:end], truncation)
        for part, whole in zip(expected, found, strict=True):
            np.testing.assert_allclose(whole[start:end], part, rtol=1e-5, atol=1e-6)


def test_derivatives_are_differences_of_the_loss() -> None:
    scores, gains, offsets = drawn(0, [9])
    delta = deltas(scores, gains, 30)
    gradient, hessian = LambdaObjective(gains, offsets)(scores)
    for d in range(9):
        step = np.zeros(9)
        step[d] = 1e-4
        up, down = loss(scores + step, delta), loss(scores - step, delta)
        assert gradient[d] == pytest.approx((up - down) / 2e-4, abs=1e-6)
        curve = (up - 2 * loss(scores, delta) + down) / 1e-8
        assert hessian[d] == pytest.approx(curve, abs=1e-5)


def test_the_derivatives_of_two_documents_are_the_written_out_numbers() -> None:
    objective = LambdaObjective(np.array([-2.0, -1.5]), np.array([0, 2]))
    gradient, hessian = objective(np.array([1.0, 0.0]))
    delta = (-1.5 - -2.0) * (1 / math.log2(2) - 1 / math.log2(3))
    rho = 1 / (1 + math.exp(0.0 - 1.0))
    np.testing.assert_allclose(gradient, [delta * rho, -delta * rho], rtol=1e-6)
    np.testing.assert_allclose(hessian, [delta * rho * (1 - rho)] * 2, rtol=1e-6)


def test_shifting_all_gains_changes_nothing_and_scaling_them_only_scales() -> None:
    scores, gains, offsets = drawn(1, [7, 12])
    plain = LambdaObjective(gains, offsets)(scores)
    shifted = LambdaObjective(gains - 3.0, offsets)(scores)
    scaled = LambdaObjective(4.0 * gains, offsets)(scores)
    for one, two, three in zip(plain, shifted, scaled, strict=True):
        np.testing.assert_allclose(two, one, atol=1e-5)
        np.testing.assert_allclose(three, 4.0 * one, rtol=1e-5)


def test_a_list_pushes_as_much_up_as_down() -> None:
    scores, gains, offsets = drawn(2, [20, 5])
    gradient, hessian = LambdaObjective(gains, offsets)(scores)
    np.testing.assert_allclose(np.add.reduceat(gradient, offsets[:-1]), 0, atol=1e-4)
    assert np.all(hessian >= 0)


def test_derivatives_stay_finite_at_margins_of_a_thousand() -> None:
    objective = LambdaObjective(np.array([0.0, 1.0, 0.5]), np.array([0, 3]))
    for found in objective(np.array([1000.0, -1000.0, 0.0])):
        assert np.all(np.isfinite(found))


def test_scores_are_not_written_to() -> None:
    scores, gains, offsets = drawn(3, [6])
    before = scores.copy()
    LambdaObjective(gains, offsets)(scores)
    np.testing.assert_array_equal(scores, before)


def ideal(labels: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Best DCG of each document's query, which lambdarank divides by."""
    best = Metric("DCG", 30)(labels, labels, offsets).values
    return np.repeat(np.maximum(best, 1e-9), np.diff(offsets))


def test_from_binary_labels_the_first_tree_is_that_of_lambdarank() -> None:
    rng = np.random.default_rng(4)
    features = rng.random((600, 3))
    labels = (features[:, 1] + 0.3 * rng.random(600) > 0.9).astype(np.float64)
    offsets = np.arange(0, 601, 20)
    basic = {"num_threads": 1, "num_leaves": 4, "verbosity": -1, "metric": "none"}
    builtin = {"objective": "lambdarank", "lambdarank_norm": False}
    ours = {"objective": LambdaObjective(labels / ideal(labels, offsets), offsets)}
    values = []
    for asked in (ours, builtin):
        data = lgb.Dataset(features, label=labels, group=np.diff(offsets))
        booster = lgb.train({**basic, **asked}, data, num_boost_round=1)
        values.append(booster.predict(features))
    np.testing.assert_allclose(values[0], values[1], rtol=1e-4)


N = np.array([[10, 4], [20, 0]], dtype=np.float32)
CLICKS = np.array([[3, 1], [8, 0]], dtype=np.float32)
ALPHA = np.array([[0.5, 0.25], [0.5, 0]], dtype=np.float32)
BETA = np.array([[0.25, 0.125], [0.25, 0]], dtype=np.float32)


def explained(*counts: np.ndarray, start: float = 0.0) -> ClickObjective:
    """The objective of impressions, clicks, alpha and beta, ``[n_docs, slots]``."""
    targets = ClickTargets(*(part[None] for part in counts))
    return ClickObjective(Clicks.of(targets, 0), start)


EXPLAINED = explained(N, CLICKS, ALPHA, BETA)


def test_the_derivatives_of_two_clicked_documents_are_the_written_out_numbers() -> None:
    gradient, hessian = EXPLAINED(np.array([0.0, math.log(3)]))
    # Relevance 1/2: rates 1/2 and 1/4, which move by 1/8 and 1/16.
    up = (3 - 5) / (1 / 4) / 8 + (1 - 1) / (3 / 16) / 16
    curve = 10 / (1 / 4) / 64 + 4 / (3 / 16) / 256
    # Relevance 3/4: rate 5/8, which moves by 3/32; the other slot is empty.
    other = (8 - 12.5) / (15 / 64) * 3 / 32
    other_curve = 20 / (15 / 64) * (3 / 32) ** 2
    np.testing.assert_allclose(gradient, [-up, -other], rtol=1e-6)
    np.testing.assert_allclose(hessian, [curve, other_curve], rtol=1e-6)


def surprise(scores: np.ndarray) -> float:
    """Minus the log-likelihood of the clicks."""
    rate = ALPHA / (1 + np.exp(-scores[:, None])) + BETA
    shown = N > 0
    n, clicks, p = N[shown], CLICKS[shown], rate[shown]
    return -float(np.sum(clicks * np.log(p) + (n - clicks) * np.log(1 - p)))


def test_gradients_of_clicks_are_differences_of_the_likelihood() -> None:
    scores = np.array([-0.7, 1.3])
    gradient, _ = EXPLAINED(scores)
    for d, step in enumerate(1e-5 * np.eye(2)):
        change = (surprise(scores + step) - surprise(scores - step)) / 2e-5
        assert gradient[d] == pytest.approx(change, rel=1e-5)


def test_second_derivatives_of_clicks_are_expected_ones() -> None:
    """That is, those of the likelihood where clicks are what rates expect."""
    scores = np.array([-0.7, 1.3])
    rate = ALPHA / (1 + np.exp(-scores[:, None])) + BETA
    expected = explained(N, (N * rate).astype(np.float32), ALPHA, BETA)
    _, hessian = expected(scores)
    for d, step in enumerate(1e-3 * np.eye(2)):
        up, down = expected(scores + step)[0][d], expected(scores - step)[0][d]
        assert hessian[d] == pytest.approx((up - down) / 2e-3, rel=1e-3)


def test_second_derivatives_start_at_a_quarter_whatever_the_number_of_clicks() -> None:
    for times in (1, 1000):
        many = explained(times * N, times * CLICKS, ALPHA, BETA, start=-1.0)
        plain, scaled = many(np.zeros(2)), many.scaled()(np.zeros(2))
        assert scaled[1].mean() == pytest.approx(0.25)
        np.testing.assert_allclose(scaled[0] / scaled[1], plain[0] / plain[1], 1e-5)
        np.testing.assert_allclose(
            plain, times * np.array(EXPLAINED(np.full(2, -1.0))), 1e-5
        )
    with pytest.raises(DataError, match="clicks tell of relevance"):
        explained(N, CLICKS, 0 * ALPHA, BETA).scaled()
    for found in EXPLAINED(np.array([1000.0, -1000.0])):
        assert np.all(np.isfinite(found))
