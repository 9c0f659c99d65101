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

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from affinerank.rankers.lists import Batch, Lists
from affinerank.settings import require_at_least

TINY = 1e-290  # in place of sums that are 0
AT_ONCE = 1 << 21  # numbers held at a time


@dataclass(frozen=True, slots=True)
class Sampling:
    """Options of PL-Rank.

    Attributes:
        samples: Lists drawn per query and step.
        cutoff: Deepest rank that counts.
    """

    samples: int = 32
    cutoff: int = 10

    def __post_init__(self) -> None:
        """Reject what cannot be drawn."""
        require_at_least(self, least={"samples": 1, "cutoff": 1})


DEFAULT = Sampling()


def pl_rank(scores: Tensor, batch: Batch, options: Sampling = DEFAULT) -> Tensor:
    """Minus the expected DCG of each network, by drawn lists."""
    return _PLRank.apply(scores, batch.gains, batch.known, batch.lists, options)  # type: ignore[no-any-return, no-untyped-call]


class _PLRank(torch.autograd.Function):
    """The gradient is computed with the loss, from the same lists."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        gains: Tensor,
        known: Tensor,
        lists: Lists,
        options: Sampling,
    ) -> Tensor:
        gradient = torch.zeros_like(scores, dtype=torch.float64)
        loss = scores.new_zeros(len(scores), dtype=torch.float64)
        draws = [_generator(row) for row in scores]
        for index, held in lists.groups():
            there = held & known[:, index]
            f = scores[:, index].double().masked_fill(~there, -torch.inf)
            value, slope = expected_dcg(f, gains[:, index].double(), options, draws)
            loss -= value.sum(dim=1)
            place = index.expand(len(scores), -1, -1)
            gradient.scatter_add_(1, place.flatten(1), -slope.flatten(1))
        ctx.save_for_backward(gradient.to(scores.dtype))
        return loss.to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> tuple[Tensor, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return outer[0][:, None] * gradient, None, None, None, None


def _generator(scores: Tensor) -> torch.Generator:
    """Seed by the scores: steps differ, and a training can be repeated."""
    seed = int(scores.detach().double().sum().reshape(1).view(torch.int64))
    return torch.Generator(scores.device).manual_seed(seed % 2**63)


def expected_dcg(
    f: Tensor, mu: Tensor, options: Sampling, draws: list[torch.Generator]
) -> tuple[Tensor, Tensor]:
    """``[networks, lists]`` expected DCG, and its gradient ``[networks, lists, n]``.

    ``f`` are scores, minus infinity where there is no document; ``draws`` is one source
    of noise per network.
    """
    deepest = min(options.cutoff, f.shape[-1])
    ranks = torch.arange(1, deepest + 1, device=f.device, dtype=f.dtype)
    theta = 1.0 / torch.log2(ranks + 1.0)
    top = f.amax(dim=-1, keepdim=True)
    e = torch.exp(f - torch.where(top > -torch.inf, top, 0.0))
    value, slope = f.new_zeros(f.shape[:-1]), torch.zeros_like(f)
    at_once = max(1, min(options.samples, AT_ONCE // max(1, f.numel())))
    for first in range(0, options.samples, at_once):
        size = (min(at_once, options.samples - first), *f.shape[1:])
        drawn = [torch.empty(size, device=f.device, dtype=f.dtype) for _ in draws]
        noise = [x.exponential_(generator=g) for x, g in zip(drawn, draws, strict=True)]
        # Sorted by score and Gumbel noise, which is minus the log of exponential noise.
        keys = f - torch.stack(noise, dim=1).log()
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
    held = f > -torch.inf
    return value / options.samples, torch.where(held, slope / options.samples, 0.0)


def _from_here(values: Tensor) -> Tensor:
    """Add up from each rank to the last."""
    return values.flip(-1).cumsum(dim=-1).flip(-1)
