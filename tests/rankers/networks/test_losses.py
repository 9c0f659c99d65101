"""Losses against a double loop written from the formula, and laws they obey."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from affinerank.rankers.networks import loss_functions
from affinerank.rankers.networks.batches import Batch, RaggedLists
from affinerank.rankers.networks.losses import LOSSES, Loss
from affinerank.support.errors import DataError


def of(
    name: str,
    scores: torch.Tensor,
    weights: torch.Tensor,
    known: torch.Tensor,
    lists: RaggedLists,
) -> torch.Tensor:
    """The loss of this name, where every list counts the same."""
    batch = Batch(weights, known, torch.ones_like(weights), lists)
    return LOSSES[name].value(scores, batch)


def lambda_loss(
    scores: torch.Tensor, weights: torch.Tensor, known: torch.Tensor, lists: RaggedLists
) -> torch.Tensor:
    return of("lambda", scores, weights, known, lists)


def looped(
    scores: np.ndarray, weights: np.ndarray, known: np.ndarray, sizes: list[int]
) -> float:
    """The formula, pair by pair, for one network."""
    total, start = 0.0, 0
    for size in sizes:
        docs = [d for d in range(start, start + size) if known[d]]
        order = sorted(docs, key=lambda d: -scores[d])
        rank = {d: k for k, d in enumerate(order, start=1)}
        for i in docs:
            for j in docs:
                if weights[i] > weights[j]:
                    apart = abs(rank[i] - rank[j])
                    near = 1 / math.log2(apart + 1) - 1 / math.log2(apart + 2)
                    pair = math.log2(1 + math.exp(-(scores[i] - scores[j])))
                    total += (weights[i] - weights[j]) * abs(near) * pair
        start += size
    return total


def drawn(
    seed: int, sizes: list[int], networks: int = 2
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, RaggedLists]:
    rng = np.random.default_rng(seed)
    shape = (networks, sum(sizes))
    return (
        torch.from_numpy(rng.normal(size=shape)),
        torch.from_numpy(rng.normal(size=shape)),
        torch.from_numpy(rng.random(shape) < 0.8),
        RaggedLists.of(np.array(sizes)),
    )


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    sizes=st.lists(st.integers(1, 15), min_size=1, max_size=6),
)
def test_lambda_loss_is_the_double_loop(seed: int, sizes: list[int]) -> None:
    scores, weights, known, lists = drawn(seed, sizes)
    loss = lambda_loss(scores, weights, known, lists)
    for n in range(2):
        expected = looped(
            scores[n].numpy(), weights[n].numpy(), known[n].numpy(), sizes
        )
        assert loss[n].item() == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_its_gradient_is_that_of_the_double_loop() -> None:
    sizes = [6, 1, 9]
    scores, weights, known, lists = drawn(0, sizes, networks=1)
    scores.requires_grad_()
    (gradient,) = torch.autograd.grad(
        lambda_loss(scores, weights, known, lists).sum(), scores
    )
    s, w, h = scores.detach()[0].numpy(), weights[0].numpy(), known[0].numpy()
    for d in range(sum(sizes)):
        step = np.zeros_like(s)
        step[d] = 1e-6
        up, down = looped(s + step, w, h, sizes), looped(s - step, w, h, sizes)
        assert gradient[0, d].item() == pytest.approx((up - down) / 2e-6, abs=1e-6)


def test_blocks_of_long_lists_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = drawn(1, [40, 3, 17, 33])
    scores = arguments[0].requires_grad_()
    found = []
    for pairs in (1 << 22, 1, 500):
        monkeypatch.setattr(loss_functions, "PAIRS_AT_ONCE", pairs)
        loss = lambda_loss(*arguments)
        found.append((loss.detach(), torch.autograd.grad(loss.sum(), scores)[0]))
    for loss, gradient in found[1:]:
        torch.testing.assert_close(loss, found[0][0])
        torch.testing.assert_close(gradient, found[0][1])


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_the_unknown_and_the_neighbours_change_nothing(name: str) -> None:
    scores, weights, known, lists = drawn(2, [5, 8, 3])
    weights = weights.abs()
    whole = of(name, scores, weights, known, lists)
    changed = torch.where(known, scores, scores + 100)
    other = torch.where(known, weights, math.nan)
    torch.testing.assert_close(of(name, changed, other, known, lists), whole)
    parts = torch.zeros(2, dtype=torch.float64)
    for start, size in ((0, 5), (5, 8), (13, 3)):
        cut = [x[:, start : start + size] for x in (scores, weights, known)]
        parts += of(name, cut[0], cut[1], cut[2], RaggedLists.of(np.array([size])))
    torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_losses_stay_finite_at_margins_of_a_thousand(name: str) -> None:
    scores = torch.tensor([[1000.0, -1000.0, 0.0]]).requires_grad_()
    weights = torch.tensor([[0.0, 1.0, 0.5]])
    known = torch.ones(1, 3, dtype=torch.bool)
    loss = of(name, scores, weights, known, RaggedLists.of(np.array([3])))
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    assert torch.isfinite(loss).all()
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_list_of_which_nothing_was_known_has_no_loss(name: str) -> None:
    scores = torch.zeros(1, 4).requires_grad_()
    known = torch.tensor([[False, False, True, True]])
    weights = torch.tensor([[9.0, 1.0, 0.0, 0.0]])
    loss = of(name, scores, weights, known, RaggedLists.of(np.array([2, 2])))
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    assert loss.item() == pytest.approx(0.0)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_list_counts_in_proportion_to_its_share(name: str) -> None:
    scores, weights, known, lists = drawn(5, [4, 6], networks=1)
    weights = weights.abs()
    share = torch.tensor([[3.0] * 4 + [0.5] * 6], dtype=torch.float64)
    whole = LOSSES[name].value(scores, Batch(weights, known, share, lists))
    parts = 0.0
    for part, factor in ((slice(0, 4), 3.0), (slice(4, 10), 0.5)):
        size = RaggedLists.of(np.array([part.stop - part.start]))
        cut = [x[:, part] for x in (scores, weights, known)]
        parts += factor * of(name, cut[0], cut[1], cut[2], size).item()
    assert whole.item() == pytest.approx(parts)


def test_shifting_all_weights_of_a_list_changes_nothing_in_lambda_loss() -> None:
    scores, weights, known, lists = drawn(3, [7, 4])
    shifted = lambda_loss(scores, weights - 3.0, known, lists)
    torch.testing.assert_close(shifted, lambda_loss(scores, weights, known, lists))


def test_squared_and_softmax_are_the_written_out_sums() -> None:
    scores = torch.tensor([[1.0, 0.0, 2.0]], dtype=torch.float64)
    weights = torch.tensor([[0.5, 1.0, 9.0]], dtype=torch.float64)
    known = torch.tensor([[True, True, False]])
    lists = RaggedLists.of(np.array([3]))
    squared = of("squared", scores, weights, known, lists)
    assert squared.item() == pytest.approx((1 - 0.5) ** 2 + (0 - 1) ** 2)
    total = math.e + 1
    expected = -0.5 * math.log(math.e / total) - 1.0 * math.log(1 / total)
    softmax = of("softmax", scores, weights, known, lists)
    assert softmax.item() == pytest.approx(expected)


def test_softmax_rejects_negative_weights_that_are_known() -> None:
    lists, share = RaggedLists.of(np.array([2])), torch.ones(1, 2)
    known = torch.tensor([[True, False]])
    softmax = LOSSES["softmax"]
    softmax.require_learnable(Batch(torch.tensor([[1.0, -1.0]]), known, share, lists))
    negative = Batch(torch.tensor([[-1.0, 1.0]]), known, share, lists)
    with pytest.raises(DataError, match=r"softmax .* negative .* lambda or squared"):
        softmax.require_learnable(negative)
    LOSSES["lambda"].require_learnable(negative)


def test_a_loss_of_ones_own_trains_a_network() -> None:
    from affinerank.rankers import RANKERS, Targets
    from affinerank.rankers.networks.settings import NetworkSettings

    def hinge(scores: torch.Tensor, batch: Batch) -> torch.Tensor:
        return (batch.share * (1 - scores * batch.gains).clamp(min=0)).sum(dim=1)

    features = np.random.default_rng(0).random((12, 3)).astype(np.float32)
    targets = Targets(features[None, :, 0], np.ones((1, 12), dtype=bool))
    with LOSSES.added(Loss("hinge", "Hinge", hinge, centred=True)):
        settings = NetworkSettings(hidden=(4,), loss="hinge", epochs=9, device="cpu")
        (fitted,) = RANKERS["mlp"].fit(
            features, targets, np.array([0, 6, 12]), seeds=[0], settings=settings
        )
    assert fitted.report["last_loss"] < fitted.report["first_loss"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_the_cuda_kernel_is_the_double_loop() -> None:
    sizes = [5, 130, 1, 700]
    scores, weights, known, lists = drawn(4, sizes)
    loss = lambda_loss(
        scores.float().cuda(),
        weights.float().cuda(),
        known.cuda(),
        RaggedLists.of(np.array(sizes), "cuda"),
    )
    torch.testing.assert_close(
        loss.cpu().double(),
        lambda_loss(scores, weights, known, lists),
        rtol=1e-4,
        atol=0,
    )
