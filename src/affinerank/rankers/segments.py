"""Sums and extremes over ragged lists, for many networks at once."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from affinerank.rankers.losses import Lists


def over_lists(
    values: Tensor, lists: Lists, how: Literal["sum", "max", "min"]
) -> Tensor:
    """Reduce ``values [n, n_docs]`` to ``[n, n_lists]``.

    >>> import numpy as np
    >>> lists = Lists.of(np.array([2, 1]))
    >>> over_lists(torch.tensor([[1.0, 2.0, 4.0]]), lists, "sum").tolist()
    [[3.0, 4.0]]
    """
    n, n_docs = values.shape
    starts = torch.arange(n, device=values.device)[:, None] * n_docs
    bounds = (starts + lists.offsets[:-1]).flatten()
    bounds = torch.nn.functional.pad(bounds, (0, 1), value=n * n_docs)
    reduced = torch.segment_reduce(values.flatten(), how, offsets=bounds, unsafe=True)
    return reduced.view(n, len(lists.sizes))


def to_documents(values: Tensor, lists: Lists) -> Tensor:
    """Give each document the value of its list, ``[n, n_lists]`` to ``[n, n_docs]``."""
    sizes = torch.diff(lists.offsets)
    total = int(lists.sizes.sum())
    return torch.repeat_interleave(values, sizes, dim=1, output_size=total)
