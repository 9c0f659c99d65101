"""Ranks that are too rarely clicked to stand alone, pooled with the next."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from affinerank.arrays import Floats, Ints
from affinerank.clicks.rows import ClickRows
from affinerank.errors import ConfigError, DataError

LEAST_CLICKS = 200
DEEPEST = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class RankPools:
    """Which ranks share their parameters.

    Attributes:
        of_rank: ``[depth]`` pool of ranks 1, 2, ...; pools follow each other.
        impressions: ``[depth]`` how often each rank was seen.
    """

    of_rank: Ints
    impressions: Floats

    @property
    def n_pools(self) -> int:
        """Number of pools."""
        return int(self.of_rank[-1]) + 1

    @property
    def pool_impressions(self) -> Floats:
        """``[n_pools]`` how often each pool was seen."""
        return self.total(self.impressions)

    @property
    def mean_rank(self) -> Floats:
        """``[n_pools]`` mean rank of a pool's impressions; of its ranks if unseen."""
        return self.mean(np.arange(1.0, len(self.of_rank) + 1))

    @property
    def names(self) -> tuple[str, ...]:
        """``[n_pools]`` the ranks of each, as in ``3`` or ``12-15``."""
        return tuple(self.span(pool, pool) for pool in range(self.n_pools))

    @property
    def shared(self) -> tuple[str, ...]:
        """The pools of more than one rank."""
        return tuple(name for name in self.names if "-" in name)

    def span(self, first: int, last: int) -> str:
        """Name the ranks from one pool to another."""
        low = int(np.searchsorted(self.of_rank, first)) + 1
        high = int(np.searchsorted(self.of_rank, last, side="right"))
        return str(low) if low == high else f"{low}-{high}"

    def total(self, by_rank: Floats) -> Floats:
        """``[n_pools]`` add up ``by_rank [depth]`` by pool."""
        return np.bincount(self.of_rank, by_rank).astype(np.float64)

    def mean(self, by_rank: Floats) -> Floats:
        """``[n_pools]`` mean over a pool's impressions; over its ranks if unseen."""
        unseen = self.pool_impressions[self.of_rank] == 0
        weight = np.where(unseen, 1.0, self.impressions)
        return self.total(by_rank * weight) / self.total(weight)


def pool_ranks(rows: ClickRows, least_clicks: float = LEAST_CLICKS) -> RankPools:
    """Pool ranks, from the top down, until each pool has enough clicks.

    What is left at the bottom joins the last pool.
    """
    if not 0 <= least_clicks < np.inf:
        raise ConfigError(f"least_clicks must be 0 or more, got {least_clicks:g}")
    if not rows.impressions.sum() > 0:
        raise DataError("the counts have no impressions, so there is nothing to learn")
    if rows.depth > DEEPEST:
        raise DataError(f"rank {rows.depth}: ranks must be {DEEPEST:,} or less")
    clicked, seen = rows.by_rank(rows.clicks), rows.by_rank(rows.impressions)
    left = np.cumsum(clicked[::-1])[::-1] - clicked
    left_seen = np.cumsum(seen[::-1])[::-1] - seen
    of_rank = np.zeros(len(seen), dtype=np.int64)
    pool, got, got_seen = 0, 0.0, 0.0
    for k in range(len(seen)):
        of_rank[k] = pool
        got, got_seen = got + clicked[k], got_seen + seen[k]
        enough = got >= least_clicks and left[k] >= least_clicks
        if enough and got_seen > 0 and left_seen[k] > 0:
            pool, got, got_seen = pool + 1, 0.0, 0.0
    return RankPools(of_rank, seen)


def pooled(rows: ClickRows, pools: RankPools) -> ClickRows:
    """Add up rows by document and pool, in that order.

    ``rank`` is the number of the pool then, from 1.
    """
    pool = pools.of_rank[rows.rank - 1]
    order = np.lexsort((pool, rows.doc))
    doc, pool = rows.doc[order], pool[order]
    new = (np.diff(doc, prepend=-1) != 0) | (np.diff(pool, prepend=-1) != 0)
    first = np.flatnonzero(new)
    return replace(
        rows.select(order[first]),
        rank=pool[first] + 1,
        impressions=np.add.reduceat(rows.impressions[order], first),
        clicks=np.add.reduceat(rows.clicks[order], first),
    )
