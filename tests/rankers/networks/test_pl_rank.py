"""PL-Rank-3: its gradient is that of expected DCG, by enumeration."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch

from affinerank.evaluation.metrics import Metric
from affinerank.rankers.networks.batches import Batch, RaggedLists
from affinerank.rankers.networks.losses import LOSSES, Loss, Sampling
from affinerank.rankers.networks.pl_rank import expected_dcg, pl_rank
from affinerank.support.arrays import Floats
from affinerank.support.errors import ConfigError

SCORES = np.array([0.3, -0.8, 1.1, 0.2])
WEIGHTS = np.array([1.5, -0.7, 0.4, -2.0])  # of either sign


def exact(scores: Any, weights: Any, cutoff: int) -> Any:
    """Sum DCG over all orders, times their probability, as autograd can follow it."""
    rates, total = torch.exp(scores), torch.tensor(0.0)
    for order in permutations(range(len(scores))):
        chance: Any = 1.0
        value: Any = 0.0
        for i, d in enumerate(order):
            chance = chance * rates[d] / rates[list(order[i:])].sum()
            if i < cutoff:
                value = value + weights[d] / np.log2(i + 2)
        total = total + chance * value
    return total


@pytest.mark.parametrize("cutoff", [1, 2, 4, 10])
def test_the_gradient_is_the_exact_one(cutoff: int) -> None:
    scores = torch.tensor(SCORES, requires_grad=True)
    value = exact(scores, torch.tensor(WEIGHTS), cutoff)
    value.backward()
    # Batches of samples give a standard error.
    found = []
    for seed in range(40):
        f, mu = torch.tensor(SCORES)[None, None], torch.tensor(WEIGHTS)[None, None]
        dcg, slope = expected_dcg(f, mu, Sampling(2000, cutoff), seed)
        found.append(np.append(slope[0, 0].numpy(), dcg[0, 0].item()))
    assert scores.grad is not None
    expected = np.append(scores.grad.numpy(), value.item())
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(40)
    assert np.all(np.abs(mean - expected) <= 4.5 * error + 1e-12)
    assert np.all(error < 0.01)


def by_loss(scores: Floats, known: list[bool], sizes: list[int]) -> tuple[Any, Any]:
    leaf = torch.tensor(scores[None], requires_grad=True)
    weights = torch.tensor(np.resize(WEIGHTS, len(scores))[None])
    share = torch.ones_like(weights)
    lists = RaggedLists.of(np.array(sizes))
    value = pl_rank(leaf, Batch(weights, torch.tensor([known]), share, lists))
    torch.autograd.backward(value.sum())
    assert leaf.grad is not None
    return value.detach().numpy(), leaf.grad.numpy()[0]


def test_unknown_documents_take_no_part_and_lists_are_apart() -> None:
    scores = np.array([0.3, -0.8, 99.0, 0.2, 1.0])
    value, gradient = by_loss(scores, [True, True, False, True, True], [4, 1])
    assert gradient[2] == 0.0
    assert abs(gradient[4]) < 1e-12  # alone, it is first
    again = by_loss(scores, [True, True, False, True, True], [4, 1])
    np.testing.assert_array_equal(value, again[0])
    np.testing.assert_array_equal(gradient, again[1])


def test_scores_far_apart_stay_finite() -> None:
    value, gradient = by_loss(np.array([0.0, 2000.0, -2000.0, 1.0]), [True] * 4, [4])
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()


def test_options_are_read_by_name() -> None:
    name = LOSSES["pl-rank"].name
    assert Loss.named(f"{name}(samples=5)").value.keywords["options"] == Sampling(5)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="sample"):
        Loss.named(f"{name}(sample=5)")
    with pytest.raises(ConfigError, match="samples"):
        Loss.named(f"{name}(samples=0)")


@pytest.mark.parametrize("cutoff", [2, None])
def test_expected_dcg_is_the_sum_over_all_orders(cutoff: int | None) -> None:
    labels = np.array([1.0, 0.0, 1.0, 0.0])
    scores = np.append(SCORES, [2.0])
    metric = Metric("eDCG", cutoff)
    found = metric(scores, np.append(labels, [1.0]), [0, 4, 5])
    expected = exact(torch.tensor(SCORES), torch.tensor(labels), cutoff or 4).item()
    np.testing.assert_allclose(found.values, [expected, 1.0], atol=1e-10)
    assert "all 2 queries" in found.name
