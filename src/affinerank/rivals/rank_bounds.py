r"""Hinge bounds of ranks: propensity SVM-rank (Joachims et al., 2017), and of DCG.

.. math::

    \mathrm{rank}_i \le r_i = 1 + \sum_{j \ne i} \max(0, 1 - (s_i - s_j))

so :math:`\sum_i w_i r_i` bounds the sum of ranks of relevant documents, and
:math:`-\sum_i w_i / \log_2(1 + r_i)` the negative DCG (Agarwal et al., 2019), for
weights of 0 and more: clicks over examination.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from affinerank.rankers.networks.batches import Batch


def svm_rank(scores: Tensor, batch: Batch) -> Tensor:
    """Add up bounds of ranks by weight: slacks of propensity SVM-rank, and weights."""
    return _bounded(scores, batch, lambda rank: rank)


def dcg_bound(scores: Tensor, batch: Batch) -> Tensor:
    """Bound the negative DCG."""
    return _bounded(scores, batch, lambda rank: -1.0 / torch.log2(1.0 + rank))


def _bounded(scores: Tensor, batch: Batch, worth: Callable[[Tensor], Tensor]) -> Tensor:
    """Add up ``worth`` of bounds of ranks, times weights, over known documents."""
    gains, total = batch.gains, scores.sum(dim=1) * 0.0
    for index, there in batch.groups():
        s = scores[:, index]
        slack = (1.0 - s[..., :, None] + s[..., None, :]).clamp(min=0.0)
        slack = slack * there[..., None, :]
        # A document is at distance 1 from itself, which is the 1 of the bound.
        bound = torch.where(there, slack.sum(dim=-1), 1.0)
        total = total + (gains[:, index] * there * worth(bound)).sum(dim=(1, 2))
    return total
