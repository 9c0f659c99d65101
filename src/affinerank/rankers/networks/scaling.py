"""Weights in units of their spread, so that steps are alike for every estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from affinerank.rankers.networks.batches import (
    TENSORS,
    Batch,
    RaggedLists,
    over_lists,
    to_documents,
)
from affinerank.rankers.targets import Targets
from affinerank.support.errors import DataError


def scaled(targets: Targets, lists: RaggedLists, *, centred: bool = False) -> Batch:
    """Do what :func:`scaled_tensors` does, one ranker at a time, in double precision.

    The result lies on the device of ``lists``.
    """

    def row(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.array(array))[None].to(lists.offsets.device)

    shares = targets.of_queries(lists.offsets.cpu().numpy())
    given = zip(targets.weights, targets.known, shares, strict=True)
    parts = [
        scaled_tensors(row(w).double(), row(k), row(s), lists, centred=centred, first=i)
        for i, (w, k, s) in enumerate(given)
    ]
    whole = {name: torch.cat([getattr(p, name) for p in parts]) for name in TENSORS}
    return Batch(**whole, lists=lists)


def scaled_tensors(
    weights: Tensor,
    known: Tensor,
    share: Tensor,
    lists: RaggedLists,
    *,
    centred: bool = False,
    first: int = 0,
) -> Batch:
    """Divide each ranker's weights by how much they vary within queries.

    By the root mean square of the deviation from their query's mean, over known
    documents, of weights times shares: then a step depends neither on the number
    of clicks, nor on the estimator, nor on the gauge.

    Args:
        weights: ``[n, n_docs]``, of any value where not known.
        known: ``[n, n_docs]``.
        share: ``[n, n_queries]`` share of the sessions, 0 or more.
        lists: Where each query's documents lie.
        centred: Subtract the query's mean, for losses that depend on it.
        first: Number of the first ranker, for errors.

    Returns:
        Scaled weights and shares in float32.
    """
    values = torch.where(known, weights, 0.0)
    count = over_lists(known.to(values.dtype), lists, "sum")
    mean = over_lists(values, lists, "sum") / count.clamp(min=1.0)
    away = torch.where(known, values - to_documents(mean, lists), 0.0)
    counts_for = share * share.shape[1] / share.sum(dim=1, keepdim=True)
    per_document = to_documents(counts_for, lists)
    total = (away * per_document).square().sum(dim=1)
    spread = (total / known.sum(dim=1).clamp(min=1)).sqrt()
    differ = spread > 1e-12 * (values.abs().amax(dim=1) + 1e-300)
    usable = differ & torch.isfinite(spread)
    if not bool(usable.all()):
        i = int((~usable).nonzero()[0])
        fault = "weights must be finite numbers, and so must their squares"
        if bool(spread[i].isfinite()):
            fault = "in each query all weights are the same: there is no order to learn"
        raise DataError(f"ranker {first + i}: {fault}")
    scaled = (away if centred else values) / spread[:, None]
    return Batch(scaled.float(), known, per_document.float(), lists)
