r"""PL-Rank-3: the gradient of expected DCG under Plackett-Luce (Oosterhuis, 2022).

Lists y are drawn by scores f; weights :math:`\mu` may have any sign. With discounts
:math:`\theta_k` down to rank K, and in each drawn list

.. math::

    R_k = \sum_{x = k}^K \theta_x \mu_{y_x}, \qquad
    S_k = \sum_{d \notin y_{1:k-1}} e^{f_d}, \qquad
    r = \min(\mathrm{rank}(d), K),

the gradient at a document is the mean over drawn lists of

.. math::

    R_{\mathrm{rank}(d) + 1} + e^{f_d} \Big( \mu_d \sum_{k \le r} \theta_k / S_k
    - \sum_{k \le r} R_k / S_k \Big).

A drawn list of n documents costs n + K log n.
"""

from __future__ import annotations

import torch
from torch import Tensor

from affinerank.rankers.networks.batches import Batch, with_gradient
from affinerank.rankers.networks.losses import Sampling

TINY = 1e-290  # in place of sums that are 0
AT_ONCE = 1 << 21  # numbers held at a time


DEFAULT = Sampling()


def pl_rank(scores: Tensor, batch: Batch, options: Sampling = DEFAULT) -> Tensor:
    """Minus the expected DCG of each network, by drawn lists."""
    now, gains = scores.detach().double(), batch.gains.double()
    gradient, loss = torch.zeros_like(now), now.new_zeros(len(now))
    for index, there in batch.groups():
        f = now[:, index].masked_fill(~there, -torch.inf)
        value, slope = expected_dcg(f, gains[:, index] * there, options)
        loss -= value.sum(dim=1)
        place = index.expand(len(now), -1, -1)
        gradient.scatter_add_(1, place.flatten(1), -slope.flatten(1))
    return with_gradient(scores, loss.to(scores.dtype), gradient.to(scores.dtype))


def expected_dcg(
    f: Tensor, mu: Tensor, options: Sampling, salt: int = 0
) -> tuple[Tensor, Tensor]:
    """``[networks, lists]`` expected DCG, and its gradient ``[networks, lists, n]``.

    ``f`` are scores, minus infinity where there is no document. Noise depends on a
    list's scores and the ``salt`` alone: steps differ, and a training can be repeated.
    """
    deepest = min(options.cutoff, f.shape[-1])
    ranks = torch.arange(1, deepest + 1, device=f.device, dtype=f.dtype)
    theta = 1.0 / torch.log2(ranks + 1.0)
    top = f.amax(dim=-1, keepdim=True)
    e = torch.exp(f - torch.where(top > -torch.inf, top, 0.0))
    value, slope = f.new_zeros(f.shape[:-1]), torch.zeros_like(f)
    column = torch.arange(f.shape[-1], device=f.device)
    held = f > -torch.inf
    bits = _mixed(f.contiguous().view(torch.int64) + column) * held
    own = _mixed(bits.sum(dim=-1, keepdim=True) + salt)  # whole numbers: any order
    at_once = max(1, min(options.samples, AT_ONCE // max(1, f.numel())))
    for first in range(0, options.samples, at_once):
        last = min(first + at_once, options.samples)
        sample = torch.arange(first, last, device=f.device)[:, None, None, None]
        drawn = _mixed(own + (sample << 32) + column) >> 11 & (1 << 53) - 1
        uniform = (drawn + 0.5) * 2.0**-53
        keys = f - torch.log(-torch.log(uniform))  # Gumbel noise
        order = keys.topk(deepest, dim=-1).indices
        all_e, all_mu = e.expand_as(keys), mu.expand_as(keys)
        own_e, own_mu = all_e.gather(-1, order), all_mu.gather(-1, order)
        rest = all_e.scatter(-1, order, 0.0).sum(dim=-1, keepdim=True)
        left = (rest + _from_here(own_e)).clamp(min=TINY)
        gained = _from_here(theta * own_mu)
        risk, share = (gained / left).cumsum(dim=-1), (theta / left).cumsum(dim=-1)
        below = all_e * (all_mu * share[..., -1:] - risk[..., -1:])
        later = gained - theta * own_mu
        inside = later + own_e * (own_mu * share - risk)
        slope += below.scatter(-1, order, inside).sum(dim=0)
        value += gained[..., 0].sum(dim=0)
    return value / options.samples, torch.where(held, slope / options.samples, 0.0)


def _mixed(number: Tensor) -> Tensor:
    """Scramble whole numbers (SplitMix64, of which 64 bits overflow)."""
    number = number * -0x61C8864680B583EB
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15)):
        number = (number ^ (number >> shift & (1 << 64 - shift) - 1)) * factor
    return number ^ (number >> 31 & (1 << 33) - 1)


def _from_here(values: Tensor) -> Tensor:
    """Add up from each rank to the last."""
    return values.flip(-1).cumsum(dim=-1).flip(-1)
