r"""Probabilities of relevance from scores: sigmoid, softmax and soft-min-max.

Arguments that every activation shares:

- ``scores [n, n_docs]``, of any size: nothing overflows;
- ``shown [n, n_docs]``: documents that were not shown take no part at all;
- ``lists``: where each query's documents lie.

Each returns ``[n, n_docs]``, with nan where there is no probability: at documents that
were not shown, and in lists that leave it 0/0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from affinerank.rankers.networks.batches import RaggedLists, over_lists, to_documents

Activation = Callable[[Tensor, Tensor, RaggedLists], Tensor]


def sigmoid(scores: Tensor, shown: Tensor, lists: RaggedLists) -> Tensor:
    r""":math:`1 / (1 + e^{-(x_i - \bar x)})`, with the mean over the list.

    Ranking losses leave the level of a list's scores free, so it means nothing: if the
    mean were not subtracted, a whole list would be relevant or not by accident.
    """
    count = over_lists(shown.to(scores.dtype), lists, "sum")
    total = over_lists(torch.where(shown, scores, 0.0), lists, "sum")
    mean = to_documents(total / count.clamp(min=1.0), lists)
    return torch.sigmoid(scores - mean).masked_fill(~shown, math.nan)


def softmax(scores: Tensor, shown: Tensor, lists: RaggedLists) -> Tensor:
    r""":math:`e^{x_i} / \sum_j e^{x_j}`: the probabilities of a list sum to 1."""
    top = over_lists(scores.masked_fill(~shown, -math.inf), lists, "max")
    away = torch.where(shown, scores - to_documents(top, lists), -math.inf)
    powers = torch.exp(away)
    total = to_documents(over_lists(powers, lists, "sum"), lists)
    return (powers / total).masked_fill(~shown, math.nan)


def soft_min_max(scores: Tensor, shown: Tensor, lists: RaggedLists) -> Tensor:
    r""":math:`(e^{x_i} - e^{\min x}) / (e^{\max x} - e^{\min x})`.

    Computed as :math:`e^{x_i - \max x} (e^{\min x - x_i} - 1) / (e^{\min x - \max x} -
    1)`, whose powers are at most 1. A list of one document, or of equal scores, is 0/0.
    """
    top = over_lists(scores.masked_fill(~shown, -math.inf), lists, "max")
    low = over_lists(scores.masked_fill(~shown, math.inf), lists, "min")
    gap = to_documents(torch.expm1(low - top), lists)
    low, top = to_documents(low, lists), to_documents(top, lists)
    value = torch.exp(scores - top) * torch.expm1(low - scores) / gap
    return torch.where(shown & (low < top), value, math.nan)


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {f.__name__.replace("_", "-"): f for f in (sigmoid, softmax, soft_min_max)}
)
