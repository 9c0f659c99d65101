r"""Lists of documents: flat arrays, where offsets say which rows are of which query.

- ``scores [n_docs]``: higher is ranked earlier. Ties go to the earlier row, everywhere.
- ``offsets [n_queries + 1]``: query ``q`` owns the rows ``offsets[q]:offsets[q + 1]``.

Ranks count from 1. The discount of rank :math:`k` is :math:`1 / \log_2(k + 1)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from affinerank.support.arrays import Bools, Floats, Ints
from affinerank.support.errors import DataError


class ListGroup(NamedTuple):
    """Lists of similar length, side by side in one padded matrix.

    Attributes:
        numbers: ``[n]`` numbers of the lists.
        rows: ``[n, longest]`` rows of their documents; 0 where there is none.
        is_document: ``[n, longest]`` where there is a document.
    """

    numbers: Ints
    rows: Ints
    is_document: Bools


def padded_groups(
    starts: Ints,
    lengths: Ints,
    *,
    per_doubling: int = 4,
    shortest: int = 1,
    most_cells: int | None = None,
) -> Iterator[ListGroup]:
    """Yield all lists in groups of similar length, so that little is padded.

    Args:
        starts: ``[n_lists]`` row of the first document of each list.
        lengths: ``[n_lists]`` number of documents of each list.
        per_doubling: Number of groups that lengths from n to 2 n are divided into.
        shortest: Lists up to this length share a group.
        most_cells: Limit on the size of a matrix; a larger group is divided.
    """
    length_class = np.ceil(per_doubling * np.log2(np.maximum(lengths, shortest)))
    for value in np.unique(length_class):
        members = np.flatnonzero(length_class == value)
        column = np.arange(lengths[members].max())
        at_once = len(members)
        if most_cells is not None:
            at_once = max(1, most_cells // len(column))
        for first in range(0, len(members), at_once):
            numbers = members[first : first + at_once]
            is_document = column < lengths[numbers, None]
            rows = np.where(is_document, starts[numbers, None] + column, 0)
            yield ListGroup(numbers, rows, is_document)


def checked_lists(scores: ArrayLike, offsets: ArrayLike) -> tuple[Floats, Ints]:
    """Return scores and offsets as arrays; reject those that are no lists."""
    values = np.asarray(scores, dtype=np.float64)
    bounds = np.asarray(offsets, dtype=np.int64)
    if values.ndim != 1:
        raise DataError(f"scores must be one number per document, got {values.shape}")
    if not len(bounds) or bounds[0] != 0 or bounds[-1] != values.size:
        raise DataError(
            f"offsets must start at 0 and end at the number of scores, {values.size}"
        )
    if np.any(np.diff(bounds) < 1):
        raise DataError("every query must have a document; offsets must rise")
    bad = np.flatnonzero(np.isnan(values))
    if bad.size:
        raise DataError(f"document {bad[0]} has the score NaN ({bad.size} such)")
    return values, bounds


def ranks_by_score(scores: ArrayLike, offsets: ArrayLike) -> Ints:
    """Rank each document within its query, from 1; ties go to the earlier row.

    >>> ranks_by_score([0.1, 0.9, 0.1, 5.0], [0, 3, 4]).tolist()
    [2, 1, 3, 1]
    """
    values, bounds = checked_lists(scores, offsets)
    return ranks_of_lists(values, bounds)


def ranks_of_lists(scores: Floats, offsets: Ints) -> Ints:
    """Rank each document, as :func:`ranks_by_score`, of arrays that were checked.

    Queries of similar length are sorted together, as rows of one padded matrix: far
    faster than one sort over all documents, and ties keep their order.
    """
    ranks = np.empty(len(scores), dtype=np.int64)
    for _, rows, is_document in padded_groups(offsets[:-1], np.diff(offsets)):
        ascending = np.where(is_document, -scores[rows], np.inf)
        order = np.argsort(ascending, axis=1, kind="stable")
        group_ranks = np.empty_like(order)
        all_ranks = np.arange(rows.shape[1]) + 1
        np.put_along_axis(group_ranks, order, all_ranks[None, :], axis=1)
        ranks[rows[is_document]] = group_ranks[is_document]
    return ranks


def mean_by_rank(values: ArrayLike, ranks: ArrayLike, *, depth: int) -> Floats:
    """Average ``values [n_docs]`` at each rank from 1 to ``depth``; NaN where none is.

    >>> mean_by_rank([1.0, 0.0, 0.0], [1, 2, 1], depth=3).tolist()
    [0.5, 0.0, nan]
    """
    at = np.asarray(ranks)
    shown = at <= depth
    total = np.bincount(at[shown], np.asarray(values)[shown], minlength=depth + 1)[1:]
    count = np.bincount(at[shown], minlength=depth + 1)[1:]
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def discount(ranks: ArrayLike) -> Floats:
    r"""Discount :math:`1 / \log_2(k + 1)` of each rank.

    >>> discount([1, 3]).tolist()
    [1.0, 0.5]
    """
    return 1.0 / np.log2(np.asarray(ranks, dtype=np.float64) + 1.0)
