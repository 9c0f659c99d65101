r"""What rows of ``LOSSES`` compute, on ragged lists, for many networks at once.

A loss takes ``scores [n_networks, n_docs]`` and a ``Batch``, and returns one number per
network, the sum over its lists.

LambdaLoss for DCG has the weights of NDCG-Loss2, and a gain linear in the weight:

.. math::

    \sum_{i, j: w_i > w_j} (w_i - w_j)
    \left| \frac{1}{\log_2(|r_i - r_j| + 1)} - \frac{1}{\log_2(|r_i - r_j| + 2)} \right|
    \log_2(1 + e^{-(s_i - s_j)})

with :math:`r` the ranks that the scores give the known documents.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from affinerank.rankers.networks.batches import Batch, with_gradient

PAIRS_AT_ONCE = 1 << 22  # bounds the pair tensors, on long lists and many networks


def lambda_loss(scores: Tensor, batch: Batch) -> Tensor:
    """LambdaLoss for DCG of each network; see the module for the formula."""
    computed = _gathered
    if scores.is_cuda and scores.dtype == torch.float32:
        from affinerank.rankers.networks.cuda import lambda_pairs as computed
    return with_gradient(scores, *computed(scores.detach(), batch))


def squared_error(scores: Tensor, batch: Batch) -> Tensor:
    r"""Pointwise squared error, :math:`\sum_i (s_i - w_i)^2` over known documents."""
    weights = torch.where(batch.known, batch.weights, 0.0)
    away = torch.where(batch.known, scores - weights, 0.0)
    return (batch.share * away.square()).sum(dim=1)


def softmax(scores: Tensor, batch: Batch) -> Tensor:
    r"""Listwise softmax, :math:`-\sum_i w_i \log \mathrm{softmax}(s)_i`.

    Only for weights of 0 and more: where the weights of a list sum to less than 0, it
    has no minimum.
    """
    gains = batch.gains
    total = scores.sum(dim=1) * 0.0
    for index, there in batch.groups():
        lowest = torch.finfo(scores.dtype).min / 2  # not -inf: a list may be empty
        masked = scores[:, index].masked_fill(~there, lowest)
        log_share = torch.log_softmax(masked, dim=-1)
        terms = torch.where(there, gains[:, index] * log_share, 0.0)
        total = total - terms.sum(dim=(1, 2))
    return total


def _gathered(scores: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Loss of each network and gradient of each score, lists gathered by length."""
    gradient = torch.zeros_like(scores)
    loss = scores.new_zeros(len(scores))
    gains = batch.gains
    for index, there in batch.groups():
        part = scores[:, index].masked_fill(~there, -math.inf)
        order = part.argsort(dim=-1, descending=True, stable=True)
        known = there.gather(-1, order)
        s = part.gather(-1, order).masked_fill(~known, 0.0)
        w = gains[:, index].gather(-1, order)
        # A block of ranks against all at a time.
        rows = max(1, PAIRS_AT_ONCE // max(1, s.numel()))
        blocks = [
            _pairs(s, w, known, slice(first, first + rows))
            for first in range(0, s.shape[-1], rows)
        ]
        value, slope = (torch.cat(part, dim=-1) for part in zip(*blocks, strict=True))
        loss = loss + value.sum(dim=(1, 2))
        # Filling points at document 0 with slope 0, which adding does not change.
        place = index.expand(len(scores), -1, -1).gather(-1, order)
        gradient.scatter_add_(1, place.flatten(1), slope.flatten(1))
    return loss, gradient


def _pairs(s: Tensor, w: Tensor, there: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
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
    place = torch.arange(s.shape[-1], device=s.device)
    apart = place.to(s.dtype).clamp(min=1.0)
    near = 1.0 / torch.log2(apart + 1.0) - 1.0 / torch.log2(apart + 2.0)
    near[0] = 0.0
    return near[(place[rows, None] - place[None, :]).abs()]
