"""What rankers learn and are judged by: weights, what is known, how queries count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from affinerank.support.arrays import Bools, Floats, Ints, Matrix
from affinerank.support.errors import DataError

DOCS_AT_ONCE = 2**14


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """What each of ``n`` rankers learns.

    Attributes:
        weights: ``[n, n_docs]`` real numbers, of any sign.
        known: ``[n, n_docs]`` documents that have a weight at all.
        share: ``[n, n_queries]`` share of the sessions; left out, every query counts
            the same.
        noisy: Whether weights are corrected clicks, chance and all; left out, none are.
        rank: ``[n_docs]`` of each ranker: rank that documents were shown at, 0 for
            none, for rankers with a position bias of their own; ``None`` if not known.
    """

    weights: NDArray[np.floating]
    known: Bools
    share: NDArray[np.floating] = field(default_factory=lambda: np.empty((0, 0)))
    noisy: Sequence[bool] = ()
    rank: Sequence[Ints | None] = ()

    def rank_of(self, i: int) -> Ints:
        """Return the ranks that documents were shown at, for ranker ``i``."""
        found = self.rank[i] if self.rank else None
        return np.zeros(self.known.shape[1], np.int64) if found is None else found

    def of_queries(self, offsets: Ints) -> Floats:
        """Return how much each query counts, ``[n, n_queries]``, 1 on average."""
        shape = (len(self.weights), len(offsets) - 1)
        if not self.share.size:
            return np.ones(shape)
        total = self.share.sum(axis=-1, keepdims=True)
        if self.share.shape != shape or np.any(self.share < 0) or np.any(total <= 0):
            raise DataError(
                f"shares must be 0 or more, [{shape[0]} rankers, {shape[1]} queries], "
                f"and not all 0 for a ranker, got {self.share.shape}"
            )
        return np.asarray(self.share * shape[1] / total, dtype=np.float64)

    def of_documents(self, offsets: Ints) -> Floats:
        """Return how much each document's query counts, ``[n, n_docs]``."""
        return self.of_queries(offsets).repeat(np.diff(offsets), axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class ClickTargets:
    r"""Clicks that each of ``n`` rankers explains, in place of weights.

    A score s stands for the relevance sigmoid(s), and that for click rates
    :math:`p = \alpha \, \mathrm{sigmoid}(s) + \beta`. A document has a slot for
    each rank it was shown at; slots with 0 impressions are empty.

    Attributes:
        impressions: ``[n, n_docs, slots]``, as the others.
        clicks: At most the impressions.
        alpha: Slope of the click rate.
        beta: Its intercept.
    """

    impressions: NDArray[np.float32]
    clicks: NDArray[np.float32]
    alpha: NDArray[np.float32]
    beta: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """Held-out queries that rankers are judged by, with what each learns there."""

    features: Matrix
    targets: Targets | ClickTargets
    offsets: Ints


def require_numbers(features: Matrix, reader: str = "a network") -> None:
    """Reject missing values, which some kinds cannot read."""
    for start in range(0, len(features), DOCS_AT_ONCE):
        bad = np.argwhere(~np.isfinite(features[start : start + DOCS_AT_ONCE]))
        if len(bad):
            row, column = bad[0]
            raise DataError(
                f"document {start + row}, feature {column + 1}: the value is missing, "
                f"which {reader} cannot read; put a number there (--missing 0)"
            )


def require_order(i: int, weights: Floats, away: Floats) -> None:
    """Reject weights that are not finite, or the same within each query."""
    if not np.isfinite(weights).all():
        raise DataError(f"ranker {i}: weights must be finite numbers")
    if not np.any(np.abs(away) > 1e-12 * np.abs(weights).max(initial=0.0)):
        raise DataError(
            f"ranker {i}: in each query all weights are the same: there is no order "
            "to learn"
        )
