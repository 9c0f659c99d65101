r"""Losses of ragged lists, for many networks at once.

Arguments that every loss shares:

- ``scores [n_networks, n_docs]``;
- ``weights [n_networks, n_docs]``: real numbers, of any sign;
- ``shown [n_networks, n_docs]``: documents that are not shown take no part at all,
  whatever stands there as their weight;
- ``share [n_networks, n_docs]``: how much the document's list counts;
- ``lists``: where each list's documents lie, :class:`Lists`.

Each returns one loss per network, the sum over its lists.

LambdaLoss for DCG has the weights of NDCG-Loss2, and a gain linear in the weight:

.. math::

    \sum_{i, j: w_i > w_j} (w_i - w_j)
    \left| \frac{1}{\log_2(|r_i - r_j| + 1)} - \frac{1}{\log_2(|r_i - r_j| + 2)} \right|
    \log_2(1 + e^{-(s_i - s_j)})

with :math:`r` the ranks that the scores give the shown documents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from affinerank.errors import DataError

Loss = Callable[[Tensor, Tensor, Tensor, Tensor, "Lists"], Tensor]

PAIRS_AT_ONCE = 1 << 22  # bounds the pair tensors, on long lists and many networks


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Lists of unequal length, whose documents follow one another.

    Attributes:
        sizes: ``[n_lists]`` documents of each.
        offsets: ``[n_lists + 1]`` where each begins, on the device of the scores.
    """

    sizes: NDArray[np.int64]
    offsets: Tensor

    @classmethod
    def of(cls, sizes: NDArray[np.int64], device: torch.device | str = "cpu") -> Lists:
        """Lists of these sizes."""
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return cls(sizes, torch.from_numpy(offsets).to(device))

    def groups(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Gather lists of similar length: index ``[n, longest]``, and what is held."""
        starts = np.cumsum(self.sizes) - self.sizes
        classes = np.ceil(2 * np.log2(np.maximum(self.sizes, 8)))
        for value in np.unique(classes):
            chosen = np.flatnonzero(classes == value)
            column = np.arange(self.sizes[chosen].max())
            held = column < self.sizes[chosen, None]
            index = np.where(held, starts[chosen, None] + column, 0)
            device = self.offsets.device
            yield torch.from_numpy(index).to(device), torch.from_numpy(held).to(device)


def lambda_loss(
    scores: Tensor, weights: Tensor, shown: Tensor, share: Tensor, lists: Lists
) -> Tensor:
    """LambdaLoss for DCG of each network; see the module for the formula."""
    gains = torch.where(shown, weights * share, 0.0)
    loss: Tensor = _LambdaLoss.apply(scores, gains, shown, lists)  # type: ignore[no-untyped-call]
    return loss


def squared_error(
    scores: Tensor, weights: Tensor, shown: Tensor, share: Tensor, lists: Lists
) -> Tensor:
    r"""Pointwise squared error, :math:`\sum_i (s_i - w_i)^2` over shown documents."""
    del lists
    away = torch.where(shown, scores - torch.where(shown, weights, 0.0), 0.0)
    return (share * away.square()).sum(dim=1)


def softmax_cross_entropy(
    scores: Tensor, weights: Tensor, shown: Tensor, share: Tensor, lists: Lists
) -> Tensor:
    r"""Listwise softmax, :math:`-\sum_i w_i \log \mathrm{softmax}(s)_i`.

    Only for weights of 0 and more: where the weights of a list sum to less than 0, it
    has no minimum.
    """
    require_no_negative(weights, shown)
    gains = torch.where(shown, weights * share, 0.0)
    total = scores.sum(dim=1) * 0.0
    for index, held in lists.groups():
        there = held & shown[:, index]
        lowest = torch.finfo(scores.dtype).min / 2  # not -inf: a list may be empty
        log_share = torch.log_softmax(
            scores[:, index].masked_fill(~there, lowest), dim=-1
        )
        terms = torch.where(there, gains[:, index] * log_share, 0.0)
        total = total - terms.sum(dim=(1, 2))
    return total


def require_no_negative(weights: Tensor, shown: Tensor) -> None:
    """Refuse what softmax cross-entropy cannot learn."""
    if bool(torch.any(torch.where(shown, weights, 0.0) < 0)):
        raise DataError(
            "softmax cross-entropy has no minimum where weights are negative, and some "
            "are; use lambda or squared"
        )


LOSSES: Mapping[str, Loss] = MappingProxyType(
    {
        "lambda": lambda_loss,
        "squared": squared_error,
        "softmax": softmax_cross_entropy,
    }
)


class _LambdaLoss(torch.autograd.Function):
    """The gradient is computed with the loss, so that no pair is kept for later."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, weights: Tensor, shown: Tensor, lists: Lists
    ) -> Tensor:
        if scores.is_cuda and scores.dtype == torch.float32:
            from affinerank.rankers.cuda import lambda_pairs

            value, gradient = lambda_pairs(
                scores.contiguous(),
                weights.contiguous(),
                shown.contiguous(),
                lists.offsets,
                int(lists.sizes.max(initial=0)),
            )
            loss = value.sum(dim=1)
        else:
            loss, gradient = _gathered(scores, weights, shown, lists)
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return outer[0][:, None] * gradient, None, None, None


def _gathered(
    scores: Tensor, weights: Tensor, shown: Tensor, lists: Lists
) -> tuple[Tensor, Tensor]:
    """Loss of each network and gradient of each score, lists gathered by length."""
    gradient = torch.zeros_like(scores)
    loss = scores.new_zeros(scores.shape[0])
    for index, held in lists.groups():
        there = held & shown[:, index]
        part = scores[:, index].masked_fill(~there, -math.inf)
        order = part.argsort(dim=-1, descending=True, stable=True)
        there = there.gather(-1, order)
        s = part.gather(-1, order).masked_fill(~there, 0.0)
        w = weights[:, index].gather(-1, order)
        value, slope = _by_blocks(s, w, there)
        loss = loss + value.sum(dim=(1, 2))
        # Filling points at document 0 with slope 0, which adding does not change.
        place = index.expand(len(scores), -1, -1).gather(-1, order)
        gradient.scatter_add_(1, place.flatten(1), slope.flatten(1))
    return loss, gradient


def _by_blocks(s: Tensor, w: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and gradient of each document, a block of ranks against all at a time."""
    longest = s.shape[-1]
    rows = max(1, PAIRS_AT_ONCE // max(1, s.numel()))
    blocks = [
        _pairs_of(s, w, there, slice(first, min(first + rows, longest)))
        for first in range(0, longest, rows)
    ]
    values, slopes = zip(*blocks, strict=True)
    return torch.cat(values, dim=-1), torch.cat(slopes, dim=-1)


def _pairs_of(
    s: Tensor, w: Tensor, there: Tensor, rows: slice
) -> tuple[Tensor, Tensor]:
    r"""Half the pair losses of the documents ``rows``, sorted by score, and slopes.

    With :math:`x = \mathrm{sign}(w_i - w_j)(s_j - s_i)` a pair's loss is
    :math:`c |w_i - w_j| \log_2(1 + e^x)`, and its slope at :math:`s_i` is
    :math:`-c (w_i - w_j) \sigma(x) / \ln 2`: rows alone give both.
    """
    higher = w[..., rows, None] - w[..., None, :]
    gap = s[..., None, :] - s[..., rows, None]
    x = torch.where(higher > 0, gap, -gap)
    strength = _closeness(rows, s) * higher * there[..., None, :]
    slope = -(strength * torch.sigmoid(x)).sum(dim=-1) * there[..., rows]
    value = (strength.abs() * torch.nn.functional.softplus(x)).sum(dim=-1)
    value = value * there[..., rows] * (0.5 / math.log(2.0))
    return value, slope / math.log(2.0)


def _closeness(rows: slice, s: Tensor) -> Tensor:
    r""":math:`1/\log_2(d + 1) - 1/\log_2(d + 2)` of the places ``rows`` and all others.

    Lists are sorted by score, so the distance d of two ranks is that of two places. A
    document has no distance from itself.
    """
    apart = torch.arange(s.shape[-1], device=s.device).to(s.dtype).clamp(min=1.0)
    near = 1.0 / torch.log2(apart + 1.0) - 1.0 / torch.log2(apart + 2.0)
    near[0] = 0.0
    place = torch.arange(s.shape[-1], device=s.device)
    return near[(place[rows, None] - place[None, :]).abs()]
