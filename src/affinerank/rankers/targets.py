"""What a stack of networks learns: weights, who was shown, how much a query counts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from affinerank.errors import DataError
from affinerank.rankers.losses import Lists
from affinerank.rankers.segments import over_lists, to_documents

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """What each network of a stack learns.

    Attributes:
        weights: ``[n_networks, n_docs]`` real numbers, of any sign.
        shown: ``[n_networks, n_docs]`` documents that have a weight at all.
        share: ``[n_networks, n_queries]`` share of the sessions; left out, every query
            counts the same.
    """

    weights: NDArray[np.floating]
    shown: Bools
    share: NDArray[np.floating] = field(default_factory=lambda: np.empty((0, 0)))

    def of_queries(self, offsets: Ints) -> Floats:
        """``[n_networks, n_queries]`` how much each query counts, 1 on average."""
        n_networks, n_queries = len(self.weights), len(offsets) - 1
        if not self.share.size:
            return np.ones((n_networks, n_queries))
        if self.share.shape != (n_networks, n_queries) or np.any(self.share < 0):
            raise DataError(
                f"shares must be 0 or more, [{n_networks} networks, {n_queries} "
                f"queries], got {self.share.shape}"
            )
        total = self.share.sum(axis=1, keepdims=True)
        if np.any(total <= 0):
            raise DataError("the shares of a network's queries must not all be 0")
        return np.asarray(self.share * n_queries / total, dtype=np.float64)

    def scaled(self, lists: Lists, *, centred: bool = False) -> tuple[Tensor, Tensor]:
        """Do what :func:`scaled_tensors` does, on the device of ``lists``.

        A network at a time, in double precision.
        """
        device = lists.offsets.device
        share = self.of_queries(np.concatenate([[0], np.cumsum(lists.sizes)]))
        weights = torch.empty(self.weights.shape, device=device)
        counts_for = torch.empty_like(weights)
        for i, row in enumerate(self.weights):
            values = torch.from_numpy(np.array(row, dtype=np.float64)).to(device)
            mask = torch.from_numpy(np.array(self.shown[i])).to(device)
            queries = torch.from_numpy(share[i]).to(device)
            weights[i], counts_for[i] = scaled_tensors(
                values[None], mask[None], queries[None], lists, centred=centred, first=i
            )
        return weights, counts_for


def scaled_tensors(
    weights: Tensor,
    shown: Tensor,
    share: Tensor,
    lists: Lists,
    *,
    centred: bool = False,
    first: int = 0,
) -> tuple[Tensor, Tensor]:
    """Divide each network's weights by how much they vary within queries.

    By the root mean square of the deviation from their query's mean, over shown
    documents, of weights times shares: then a step depends neither on the number
    of clicks, nor on the estimator, nor on the gauge.

    Args:
        weights: ``[n_networks, n_docs]``, of any value where not shown.
        shown: ``[n_networks, n_docs]``.
        share: ``[n_networks, n_queries]`` share of the sessions, 0 or more.
        lists: Where each query's documents lie.
        centred: Take the query's mean away, for losses that are not blind to it.
        first: Number of the first network, for what is wrong.

    Returns:
        Scaled weights and shares, ``[n_networks, n_docs]`` float32 both.
    """
    values = torch.where(shown, weights, 0.0)
    count = over_lists(shown.to(values.dtype), lists, "sum")
    mean = over_lists(values, lists, "sum") / count.clamp(min=1.0)
    away = torch.where(shown, values - to_documents(mean, lists), 0.0)
    counts_for = share * share.shape[1] / share.sum(dim=1, keepdim=True)
    per_document = to_documents(counts_for, lists)
    total = (away * per_document).square().sum(dim=1)
    spread = (total / shown.sum(dim=1).clamp(min=1)).sqrt()
    differ = spread > 1e-12 * (values.abs().amax(dim=1) + 1e-300)
    usable = differ & torch.isfinite(spread)
    if not bool(usable.all()):
        network = int((~usable).nonzero()[0])
        if not bool(torch.isfinite(spread[network])):
            raise DataError(
                f"network {first + network}: weights must be finite numbers, and so "
                "must their squares"
            )
        raise DataError(
            f"network {first + network}: the weights are the same for all documents "
            "of each query, so there is no order to learn"
        )
    scaled = (away if centred else values) / spread[:, None]
    return scaled.float(), per_document.float()
