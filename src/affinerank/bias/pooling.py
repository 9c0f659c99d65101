"""Ranks that are too rarely clicked to stand alone, pooled with the next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats, Ints
from affinerank.support.errors import ConfigError, DataError

MIN_CLICKS = 200
REACH = 20  # distances to the last click above that are told apart
DEEPEST = 1_000_000
MOST_CELLS = 1000  # about: the covariance of their parameters is inverted


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


def pool_ranks(rows: ClickRows, min_clicks: float = MIN_CLICKS) -> RankPools:
    """Pool ranks, from the top down, until each pool has enough clicks.

    What is left at the bottom joins the last pool.
    """
    if not 0 <= min_clicks < np.inf:
        raise ConfigError(f"min_clicks must be 0 or more, got {min_clicks:g}")
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
        enough = got >= min_clicks and left[k] >= min_clicks
        if enough and got_seen > 0 and left_seen[k] > 0:
            pool, got, got_seen = pool + 1, 0.0, 0.0
    return RankPools(of_rank, seen)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Which ranks, and contexts and segments where they count, share parameters.

    Attributes:
        ranks: Pools of ranks.
        table: ``[depth, reach + 1]`` cell by rank and distance to the last click above;
            column 0 is without one, the last one is that far or further. One column
            where the context does not count.
        rank_of: ``[n_cells]`` pool of ranks of each cell; segment after segment.
        segments: Names of the segments; each has all cells of the table.
        impressions: ``[n_cells]`` how often each was seen.
    """

    ranks: RankPools
    table: Ints
    rank_of: Ints
    segments: tuple[str, ...]
    impressions: Floats

    @property
    def by_context(self) -> bool:
        """Whether the last click above counts."""
        return bool(self.table.shape[1] > 1)

    @property
    def size(self) -> int:
        """Number of cells of a segment."""
        return len(self.rank_of) // max(1, len(self.segments))

    def of(self, rows: ClickRows) -> Ints:
        """``[n_rows]`` cell of each row."""
        away = distance(rows, self.table.shape[1] - 1)
        segment = 0 if not self.segments or rows.segment is None else rows.segment
        return self.table[rows.rank - 1, away] + segment * self.size

    def mean_by_rank(self) -> Floats:
        """``[n_pools, n_cells]`` what averages cells by rank, over impressions."""
        weight = np.zeros((self.ranks.n_pools, len(self.rank_of)))
        weight[self.rank_of, np.arange(len(self.rank_of))] = self.impressions + 1e-9
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def views(self) -> list[View]:
        """Ways to look at the cells, the simplest first."""
        number, context = np.arange(len(self.rank_of)), self.by_context
        found = [View("by rank", self.rank_of)]
        if context:
            found.append(View("by rank and last click", number % self.size, context))
        if self.segments:
            found.append(View(f"{found[-1].name}, by segment", number, context, True))
        return found


class View(NamedTuple):
    """Cells, some of them taken for one.

    Attributes:
        name: In words.
        of_cell: ``[n_cells]`` what each cell becomes.
        context: Whether the last click above counts.
        segment: Whether the segment counts.
    """

    name: str
    of_cell: Ints
    context: bool = False
    segment: bool = False


def distance(rows: ClickRows, reach: int) -> Ints:
    """``[n_rows]`` ranks since the last click above, ``reach`` at most; 0: none."""
    return np.minimum(np.where(rows.context > 0, rows.rank - rows.context, 0), reach)


def pool_cells(
    rows: ClickRows, pools: RankPools, min_clicks: float, *, context: bool = True
) -> Cells:
    """Split pools of ranks by segment and by distance to the last click above.

    Distances are pooled with the next until each has enough clicks, or so many
    impressions that few clicks are known to be few. Lists without a click above stay by
    themselves. Of deep lists more clicks are enough, so that cells are not too many.
    """
    reach = min(rows.depth - 1, REACH) if context and rows.has_context else 0
    clicks, seen = np.zeros((2, pools.n_pools, reach + 1))
    place = pools.of_rank[rows.rank - 1], distance(rows, reach)
    np.add.at(clicks, place, rows.clicks)
    np.add.at(seen, place, rows.impressions)
    groups = _groups_of_distances(clicks, seen, min_clicks)
    most = max(MOST_CELLS / max(1, len(rows.segments)), 2 * pools.n_pools)
    while np.sum(groups.max(axis=1) + 1) > most:
        min_clicks = 2 * min_clicks + 1
        groups = _groups_of_distances(clicks, seen, min_clicks)
    sizes = groups.max(axis=1) + 1
    table = groups + (np.cumsum(sizes) - sizes)[:, None]
    rank_of = np.arange(pools.n_pools).repeat(sizes)
    rank_of = np.tile(rank_of, max(1, len(rows.segments)))
    cells = Cells(pools, table[pools.of_rank], rank_of, rows.segments, np.zeros(0))
    impressions = np.bincount(cells.of(rows), rows.impressions, len(rank_of))
    return replace(cells, impressions=impressions.astype(np.float64))


def _groups_of_distances(clicks: Floats, seen: Floats, min_clicks: float) -> Ints:
    """``[n_pools, reach + 1]`` group of each distance, of each pool of ranks.

    Distance 0 stays alone unless the rest is empty. What is left at the end joins the
    last group.
    """
    groups = np.zeros(seen.shape, dtype=np.int64)
    for group, own, shown in zip(groups, clicks, seen, strict=True):
        number, got, got_seen = 1, 0.0, 0.0
        for j in range(1, len(shown)):
            group[j] = number
            got, got_seen = got + own[j], got_seen + shown[j]
            if got >= min_clicks / 5 or got_seen >= 5 * min_clicks:
                number, got, got_seen = number + 1, 0.0, 0.0
        np.minimum(group, max(number - 1, 1) * shown[1:].any(), out=group)
    return groups


def pooled(rows: ClickRows, pools: RankPools) -> ClickRows:
    """Add up rows by document and pool, in that order.

    ``rank`` is the number of the pool then, from 1.
    """
    return rows.added_up(pools.of_rank[rows.rank - 1] + 1)
