"""Ragged lists: documents of many queries, one query after another, for many networks.

Nothing is padded here: a reduction runs from boundary to boundary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from affinerank.support.arrays import Ints
from affinerank.support.lists import padded_groups

TENSORS = ("weights", "known", "share")  # of a batch


@dataclass(frozen=True, slots=True, eq=False)
class RaggedLists:
    """Lists of unequal length, whose documents follow one another.

    Attributes:
        sizes: ``[n_lists]`` number of documents of each.
        offsets: ``[n_lists + 1]`` where each begins, on the device of the scores.
        longest: Number of documents of the longest list, or more.
    """

    sizes: Ints
    offsets: Tensor
    longest: int

    @classmethod
    def of(cls, sizes: Ints, device: torch.device | str = "cpu") -> RaggedLists:
        """Build lists of these sizes."""
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        longest = int(sizes.max(initial=0))
        return cls(sizes, torch.from_numpy(offsets).to(device), longest)

    def inside(self, n_docs: int) -> Tensor:
        """``[n_docs]`` which of so many documents belong to a list."""
        return torch.arange(n_docs, device=self.offsets.device) < self.offsets[-1]

    def groups(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Gather lists of similar length.

        Yields:
            Rows of documents ``[n, longest]``, and where there is a document.
        """
        starts = np.cumsum(self.sizes) - self.sizes
        device = self.offsets.device
        for group in padded_groups(starts, self.sizes, per_doubling=2, shortest=8):
            rows = torch.from_numpy(group.rows).to(device)
            is_document = torch.from_numpy(group.is_document).to(device)
            yield rows, is_document


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What networks learn from some lists.

    Attributes:
        weights: ``[n_networks, n_docs]`` real numbers, of any sign.
        known: ``[n_networks, n_docs]`` documents that have a weight; the others take no
            part at all, whatever is stored as their weight.
        share: ``[n_networks, n_docs]`` how much the document's list counts.
        lists: Where each list's documents lie.
    """

    weights: Tensor
    known: Tensor
    share: Tensor
    lists: RaggedLists

    @property
    def gains(self) -> Tensor:
        """Weights times shares, 0 where nothing is known."""
        return torch.where(self.known, self.weights * self.share, 0.0)

    def copy_(self, other: Batch) -> None:
        """Take over what networks learn from another batch, in place."""
        for name in TENSORS:
            getattr(self, name).copy_(getattr(other, name))

    def at(self, rows: Tensor, lists: RaggedLists) -> Batch:
        """Select the documents ``rows``; those beyond ``lists`` are never known."""
        known = self.known[:, rows] & lists.inside(len(rows))
        return Batch(self.weights[:, rows], known, self.share[:, rows], lists)

    def of_ranker(self, i: int) -> Batch:
        """Keep what one ranker learns."""
        own = {name: getattr(self, name)[i : i + 1] for name in TENSORS}
        return replace(self, **own)

    def groups(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Gather lists of similar length: index, and which documents are known."""
        for index, held in self.lists.groups():
            yield index, held & self.known[:, index]


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, loss: Tensor, gradient: Tensor) -> Tensor:
        del scores
        ctx.save_for_backward(gradient)
        return loss.view_as(loss)

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return outer[0][:, None] * gradient, None, None


def with_gradient(scores: Tensor, loss: Tensor, gradient: Tensor) -> Tensor:
    """Return ``loss [n]``, whose gradient by ``scores [n, n_docs]`` is known already.

    It is computed with the loss, so that no pair of documents is kept for later.
    """
    return _WithGradient.apply(scores, loss, gradient)  # type: ignore[no-any-return, no-untyped-call]


def over_lists(
    values: Tensor, lists: RaggedLists, how: Literal["sum", "max", "min"]
) -> Tensor:
    """Reduce ``values [n, n_docs]`` to ``[n, n_lists]``.

    >>> lists = RaggedLists.of(np.array([2, 1]))
    >>> over_lists(torch.tensor([[1.0, 2.0, 4.0]]), lists, "sum").tolist()
    [[3.0, 4.0]]
    """
    n, n_docs = values.shape
    starts = torch.arange(n, device=values.device)[:, None] * n_docs
    bounds = (starts + lists.offsets[:-1]).flatten()
    bounds = torch.nn.functional.pad(bounds, (0, 1), value=n * n_docs)
    reduced = torch.segment_reduce(values.flatten(), how, offsets=bounds, unsafe=True)
    return reduced.view(n, len(lists.sizes))


def to_documents(values: Tensor, lists: RaggedLists) -> Tensor:
    """Give each document the value of its list, ``[n, n_lists]`` to ``[n, n_docs]``."""
    sizes = torch.diff(lists.offsets)
    total = int(lists.sizes.sum())
    return torch.repeat_interleave(values, sizes, dim=1, output_size=total)
