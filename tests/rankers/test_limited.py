"""A loss within limits: derivatives, what PRPO and CRM allow, and mixing."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from affinerank.metrics import discount
from affinerank.rankers.limited import derivatives, gains, limited, limited_loss
from affinerank.rankers.lists import Batch, Lists
from affinerank.rankers.mlp import NetworkSettings
from affinerank.rankers.targets import Targets
from affinerank.rankers.training import fit_networks
from affinerank.rankers.tree_objective import LambdaObjective
from affinerank.rankers.trees import TreeSettings, fit_trees

SIZES = np.array([4, 1, 7, 12])


def batch_of(
    weights: NDArray[Any], limits: NDArray[Any], sizes: NDArray[Any] = SIZES
) -> Batch:
    w = torch.from_numpy(weights)[None]
    known = torch.ones_like(w, dtype=torch.bool)
    given = (w, known, torch.ones_like(w), Lists.of(sizes))
    return Batch(*given, torch.from_numpy(limits))


def free(n: int) -> NDArray[Any]:
    return np.stack([np.zeros(n), np.full(n, np.inf), np.zeros(n)])


def test_without_limits_it_is_lambdarank() -> None:
    rng = np.random.default_rng(0)
    n = int(SIZES.sum())
    weights, scores = rng.normal(size=(2, n))
    batch = batch_of(weights, free(n))
    _, first, second = derivatives(torch.from_numpy(scores)[None], batch)
    ours = LambdaObjective(weights, np.concatenate([[0], np.cumsum(SIZES)]), 100)
    expected = ours(scores)
    np.testing.assert_allclose(first[0], expected[0], atol=1e-5)
    np.testing.assert_allclose(second[0], expected[1], atol=1e-5)


def test_two_documents_are_the_written_out_pair() -> None:
    limits = np.array([[0.2, 0.2], [0.7, 0.9], [0.1, 0.3]])
    batch = batch_of(np.array([2.0, -1.0]), limits, np.array([2]))
    scores = torch.tensor([[0.3, 0.1]], dtype=torch.float64, requires_grad=True)
    low = 1 / np.log2(3)

    def gain(w: float, lam: float, i: int) -> float:
        within = min(lam, limits[1, i]) if w > 0 else max(lam, limits[0, i])
        return float(w * within - limits[2, i] * lam**2)

    kept = gain(2.0, 1.0, 0) + gain(-1.0, low, 1)
    change = kept - gain(2.0, low, 0) - gain(-1.0, 1.0, 1)
    loss = limited_loss(scores, batch)
    assert loss.item() == pytest.approx(change * np.log1p(np.exp(-0.2)))
    loss.sum().backward()  # type: ignore[no-untyped-call]
    slope = -change / (1 + np.exp(0.2))
    assert scores.grad is not None
    np.testing.assert_allclose(scores.grad[0], [slope, -slope])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_at_delta_1_no_ranking_gains_over_the_logged_one(sign: float) -> None:
    rng = np.random.default_rng(1)
    weights = torch.from_numpy(sign * rng.random(4))
    logged = discount(np.arange(1, 5))
    limits = torch.from_numpy(np.stack([logged, logged, 0 * logged]))
    table = gains(weights, torch.from_numpy(logged), limits)
    value = {p: sum(float(table[i, r]) for i, r in enumerate(p)) for p in orders()}
    assert max(value.values()) == pytest.approx(value[0, 1, 2, 3])
    plain = gains(weights, torch.from_numpy(logged), torch.from_numpy(free(4)))
    best = max(orders(), key=lambda p: sum(float(plain[i, r]) for i, r in enumerate(p)))
    assert best != (0, 1, 2, 3)


def orders() -> list[tuple[int, ...]]:
    return list(permutations(range(4)))


@pytest.mark.parametrize("kind", ["networks", "trees"])
def test_limits_keep_networks_and_trees_at_the_logged_order(kind: str) -> None:
    """The weights want the reverse of the logged order, which delta = 1 forbids."""
    rng = np.random.default_rng(2)
    features = rng.random((60 * 5, 1)).astype(np.float32)
    offsets = np.arange(0, 301, 5)
    rank = (-features.reshape(60, 5)).argsort(axis=1).argsort(axis=1).ravel() + 1
    logged = discount(rank)
    weights = (1 - features.T).astype(np.float64)
    known = np.ones_like(weights, dtype=bool)
    limits = np.stack([logged, logged, 0 * logged])

    def slope(limits: NDArray[Any] | None) -> float:
        targets = Targets(weights, known, limits=limits)
        if kind == "networks":
            how = NetworkSettings(hidden=(4,), epochs=30, device="cpu")
            (found,) = fit_networks(features, targets, offsets, seeds=[0], settings=how)
        else:
            short = TreeSettings(trees=10, leaves=4)
            (found,) = fit_trees(features, targets, offsets, seeds=[0], settings=short)
        return float(np.corrcoef(found.kept.predict(features), features[:, 0])[0, 1])

    assert slope(None) < -0.5
    assert slope(limits) > 0.5


def test_a_price_is_in_units_of_the_weights() -> None:
    weights = np.array([[3.0, 1.0, 2.0]])
    scaled = torch.from_numpy(weights / 4)
    known = torch.ones_like(scaled, dtype=torch.bool)
    batch = Batch(scaled, known, torch.ones_like(scaled), Lists.of(np.array([3])))
    found = limited(batch, weights, np.ones((3, 3)))
    assert found.limits is not None
    np.testing.assert_allclose(found.limits[2], 0.25)
    np.testing.assert_allclose(found.limits[:2], 1.0)
