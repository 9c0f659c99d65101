"""Documents shown at several ranks, and which ranks they connect."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from affinerank.bias.pooling import RankPools, pooled
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Ints
from affinerank.support.errors import DataError

MIN_SHARED = 30


@dataclass(frozen=True, slots=True)
class Overlap:
    """How far documents were shown at several ranks.

    Attributes:
        n_docs: Documents that were shown.
        n_moved: Those shown at several ranks.
        connected: Groups of ranks that enough documents connect, as text; ranks that
            nothing connects are in none.
        all_connected: Whether one group has all ranks.
    """

    n_docs: int = 0
    n_moved: int = 0
    connected: tuple[str, ...] = ()
    all_connected: bool = False


def overlap_of(rows: ClickRows, pools: RankPools) -> Overlap:
    """Count documents that changed rank, and find the ranks that they connect."""
    moved = moved_rows(rows)
    group = connected_pools(pooled(moved, pools), pools.n_pools)
    labels, sizes = np.unique(group, return_counts=True)
    together = [np.flatnonzero(group == label) for label in labels[sizes > 1]]
    lost = np.setdiff1d(rows.rank, moved.rank)
    n_docs, n_moved = (len(np.unique(some.doc)) for some in (rows, moved))
    names = tuple(f"ranks {_spans(members, pools)}" for members in together)
    return Overlap(n_docs, n_moved, names, len(labels) == 1 and not len(lost))


def require_connected(overlap: Overlap) -> None:
    """Reject ranks that no chain of documents connects."""
    if not overlap.all_connected:
        groups = "; ".join(overlap.connected)
        raise DataError(
            f"{overlap.n_moved:,} of {overlap.n_docs:,} documents were shown at "
            f"several ranks, which connects {groups or 'nothing'}; ranks that are not "
            "connected cannot be compared: swap documents across them (two ranks are "
            f"connected by {MIN_SHARED} documents), or give features and another "
            "--method"
        )


def moved_rows(rows: ClickRows) -> ClickRows:
    """Select the rows of documents that were shown at several ranks."""
    highest, lowest = np.full(rows.n_docs, rows.depth), np.zeros(rows.n_docs, np.int64)
    np.minimum.at(highest, rows.doc, rows.rank)
    np.maximum.at(lowest, rows.doc, rows.rank)
    return rows.select((highest < lowest)[rows.doc])


def connected_pools(rows: ClickRows, n_pools: int, least: int = MIN_SHARED) -> Ints:
    """``[n_pools]`` group of each pool: equal where a chain of documents connects.

    Args:
        rows: Clicks by document and pool.
        n_pools: Number of pools.
        least: Documents that connect two pools.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    seen = np.ones(len(rows)), (rows.doc, rows.rank - 1)
    seen = sparse.csr_matrix(seen, shape=(rows.n_docs, n_pools))
    shared = (seen.T @ seen).toarray()
    _, group = connected_components(sparse.csr_matrix(shared >= least), directed=False)
    return np.asarray(group, dtype=np.int64)


def _spans(members: Ints, pools: RankPools) -> str:
    """Join pools that follow each other: 1, 2, 3-5 and 9 become 1-5 and 9."""
    runs = np.split(members, np.flatnonzero(np.diff(members) > 1) + 1)
    return ", ".join(pools.span(run[0], run[-1]) for run in runs)
