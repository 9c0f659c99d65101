r"""A loss whose gains are limited by the exposure that the log gave, for safe learning.

A document of weight w brings, at a rank of discount :math:`\lambda`,

.. math::

    G(\lambda) = w^+ \min(\lambda, h) - w^- \max(\lambda, l) - p \lambda^2

with limits h, l and a price p of its own. Two documents that change places change
the value by :math:`\Delta`, their four G with signs; with ranks by the scores a list's
loss is :math:`\sum |\Delta_{ij}| \log(1 + e^{-(s_i - s_j)})` over pairs, i the one that
:math:`\Delta` wants above. Without limits :math:`\Delta` is that of LambdaRank for DCG.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from affinerank.arrays import Floats, Matrix
from affinerank.rankers.lists import Batch, with_gradient


def limited(batch: Batch, weights: NDArray[Any], limits: Floats) -> Batch:
    """Limit a batch; a price in units of ``weights`` is taken to its scaled ones."""
    given = np.where(batch.known.cpu().numpy(), np.abs(weights), 0.0).max()
    scale = float(batch.weights.abs()[batch.known].max()) / float(given)
    values = torch.from_numpy(limits * [[1.0], [1.0], [scale]])
    return replace(batch, limits=values.to(batch.weights))


def limited_loss(scores: Tensor, batch: Batch) -> Tensor:
    """Loss of each network, with the gradient of :func:`derivatives`."""
    return with_gradient(scores, *derivatives(scores.detach(), batch)[:2])


def derivatives(scores: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Loss of each network ``[n]``, first and second derivative by score."""
    n, limits = len(scores), batch.limits
    assert limits is not None  # noqa: S101
    loss, first, second = scores.new_zeros(n), *torch.zeros_like(scores).repeat(2, 1, 1)
    for index, there in batch.groups():
        part = scores[:, index].masked_fill(~there, -torch.inf)
        order = part.argsort(dim=-1, descending=True, stable=True)
        place = index.expand(n, -1, -1).gather(-1, order)
        seen = there.gather(-1, order)
        flat = place.flatten(1)
        s, w, share = (
            each.gather(1, flat).view(place.shape)
            for each in (scores, batch.weights, batch.share)
        )
        discount = 1.0 / torch.log2(torch.arange(2, s.shape[-1] + 2).to(s))
        gain = share[..., None] * gains(w, discount, limits[:, place])
        own = gain.diagonal(dim1=-2, dim2=-1)
        change = own[..., :, None] + own[..., None, :] - gain - gain.mT
        change = (change * (seen[..., :, None] & seen[..., None, :])).triu(1)
        gap = (s[..., :, None] - s[..., None, :]).nan_to_num() * change.sign()
        loss = loss + (change.abs() * softplus(-gap)).sum(dim=(1, 2, 3))
        low = torch.sigmoid(-gap)
        slope, curve = change * low, change.abs() * low * (1.0 - low)
        for total, of_pair in ((first, slope.mT - slope), (second, curve.mT + curve)):
            total.scatter_add_(1, flat, of_pair.sum(dim=-1).flatten(1))
    return loss, first, second


def gains(weights: Tensor, discount: Tensor, limits: Tensor) -> Tensor:
    """``[..., n, n_ranks]`` gain of each document at each rank.

    Twice as high a limit as any discount is none:

    >>> one = torch.ones(1)
    >>> gains(one, torch.tensor([1.0, 0.5]), torch.tensor([[0.0], [0.7], [0.0]]))
    tensor([[0.7000, 0.5000]])
    """
    low, high, price = limits[..., None]
    w = weights[..., None]
    within = torch.where(w > 0, discount.minimum(high), discount.maximum(low))
    found: Tensor = w * within - price * discount.square()
    return found


def limited_objective(
    batch: Batch, scores: Floats, data: object = None
) -> tuple[Matrix, Matrix]:
    """Return what LightGBM needs before each tree, of one ranker.

    Gradient and second derivative of each score, ``[n_docs]`` both.
    """
    del data
    _, first, second = derivatives(torch.from_numpy(scores).float()[None], batch)
    return first[0].numpy(), second[0].numpy()
