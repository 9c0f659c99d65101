"""Ranks that are too rarely clicked to stand alone, put together with the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from affinerank.errors import ConfigError, DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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
        seen = np.bincount(self.of_rank, self.impressions, minlength=self.n_pools)
        return seen.astype(np.float64)

    @property
    def mean_rank(self) -> Floats:
        """``[n_pools]`` mean rank of a pool's impressions; of its ranks if unseen."""
        return self.mean(np.arange(1.0, len(self.of_rank) + 1))

    @property
    def names(self) -> tuple[str, ...]:
        """``[n_pools]`` the ranks of each, as in ``3`` or ``12-15``."""
        first = np.searchsorted(self.of_rank, np.arange(self.n_pools)) + 1
        last = np.searchsorted(self.of_rank, np.arange(self.n_pools), side="right")
        return tuple(
            str(a) if a == b else f"{a}-{b}" for a, b in zip(first, last, strict=True)
        )

    @property
    def shared(self) -> tuple[str, ...]:
        """The pools of more than one rank."""
        return tuple(name for name in self.names if "-" in name)

    def mean(self, by_rank: Floats) -> Floats:
        """``[n_pools]`` mean over a pool's impressions; over its ranks if unseen."""
        unseen = self.pool_impressions[self.of_rank] == 0
        weight = np.where(unseen, 1.0, self.impressions)
        total = np.bincount(self.of_rank, by_rank * weight)
        return np.asarray(total / np.bincount(self.of_rank, weight), dtype=np.float64)

    def pool(self, rank: Ints) -> Ints:
        """Pool of each of ``rank``, which count from 1."""
        return self.of_rank[rank - 1]


def pool_ranks(
    rank: Ints,
    impressions: Floats,
    clicks: Floats,
    *,
    least_clicks: float = LEAST_CLICKS,
) -> RankPools:
    """Put ranks together, from the top down, until each pool has enough clicks.

    What is left at the bottom joins the last pool.

    >>> import numpy as np
    >>> rank, seen = np.array([1, 2, 3, 4]), np.full(4, 900.0)
    >>> pool_ranks(rank, seen, np.array([300.0, 150.0, 90.0, 30.0])).names
    ('1', '2-4')
    """
    if not 0 <= least_clicks < np.inf:
        raise ConfigError(f"least_clicks must be 0 or more, got {least_clicks:g}")
    depth = int(rank.max(initial=0))
    if not depth or not impressions.sum() > 0:
        raise DataError("the counts have no impressions, so there is nothing to learn")
    if depth > DEEPEST:
        raise DataError(f"rank {depth}: ranks must be {DEEPEST:,} or less")
    clicked = np.bincount(rank, clicks, minlength=depth + 1)[1:]
    seen = np.bincount(rank, impressions, minlength=depth + 1)[1:]
    left = np.cumsum(clicked[::-1])[::-1] - clicked
    left_seen = np.cumsum(seen[::-1])[::-1] - seen
    of_rank = np.zeros(depth, dtype=np.int64)
    pool, got, got_seen = 0, 0.0, 0.0
    for k in range(depth):
        of_rank[k] = pool
        got, got_seen = got + clicked[k], got_seen + seen[k]
        enough = got >= least_clicks and left[k] >= least_clicks
        if enough and got_seen > 0 and left_seen[k] > 0:
            pool, got, got_seen = pool + 1, 0.0, 0.0
    return RankPools(of_rank, seen.astype(np.float64))
