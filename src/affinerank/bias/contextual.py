r"""Contextual position bias from documents that change rank (Fang et al., 2019).

Documents of a segment z that were shown at both ranks k and k' have one relevance, so

.. math::

    P(C = 1 \mid z, k, k') = p_{zk} \, r_{zkk'}, \qquad r_{zkk'} = r_{zk'k},
    \qquad \log p_{zk} = a_k + b_{zk}

is fitted to their click rates by maximum likelihood, each document counting once
at each rank; b is drawn to 0. Without segments this is AllPairs of Agarwal et al.
(2019). Users have position bias alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from affinerank.arrays import Floats, Ints, Matrix
from affinerank.bias.method import Estimate, EstimationSettings, Method
from affinerank.bias.overlap import overlap_of, require_connected
from affinerank.bias.pooling import RankPools, pool_ranks, pooled
from affinerank.bias.requirements import require_estimable
from affinerank.clicks.models.by_segment import SegmentedModel
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.rows import ClickRows
from affinerank.errors import DataError

RIDGE = 0.1
HIGHEST = 1.0 - 1e-6  # click rate
NOTE = "position bias only, from documents shown at several ranks"


@dataclass(frozen=True, slots=True, eq=False)
class Harvest:
    """Documents shown at two ranks each, added up; an entry is one of the two.

    Attributes:
        place: ``[n]`` segment times ranks, plus rank from 0.
        pair: ``[n]`` number of the segment and pair of ranks.
        clicked: ``[n]`` sum of their click rates there.
        number: ``[n]`` how many there are.
    """

    place: Ints
    pair: Ints
    clicked: Floats
    number: Floats

    @classmethod
    def of(cls, segments: list[ClickRows], depth: int) -> Harvest:
        """Collect them from rows whose rank is that of a pool."""
        found = [
            (z * depth + k, (z * depth + low) * depth + high, rate)
            for z, rows in enumerate(segments)
            for k, low, high, rate in _moves(rows)
        ]
        place, pair, rate = (np.concatenate(part) for part in zip(*found, strict=True))
        if len(np.unique(place % depth)) < depth:
            raise DataError(
                "documents change rank between segments, not within them, so segments "
                "cannot be told apart: count without --segment"
            )
        _, pair = np.unique(pair, return_inverse=True)
        key = pair * (int(place.max()) + 1) + place
        _, first, entry = np.unique(key, return_index=True, return_inverse=True)
        sums = (np.bincount(entry, values) for values in (rate, np.ones(len(rate))))
        return cls(place[first], pair[first], *(total.astype(float) for total in sums))

    def fit(self, n_segments: int, depth: int) -> Floats:
        """``[n_segments, depth]`` position bias, 1 at the first rank."""
        from scipy.optimize import minimize

        n, rank = n_segments * depth, self.place % depth
        pairs = int(self.pair.max()) + 1
        held = np.repeat([RIDGE / 100.0, RIDGE, 0.0], [depth, n, pairs])
        rate = np.bincount(self.pair, self.clicked) / np.bincount(
            self.pair, self.number
        )
        start = np.append(np.zeros(depth + n), np.log(np.clip(rate, 1e-6, HIGHEST)))

        def loss(values: Floats) -> tuple[float, Floats]:
            a, b, r = np.split(values, [depth, depth + n])
            odds = np.minimum(a[rank] + b[self.place] + r[self.pair], np.log(HIGHEST))
            p = np.exp(odds)
            missed = self.number - self.clicked
            value = -(self.clicked @ odds + missed @ np.log1p(-p))
            slope = missed * p / (1.0 - p) - self.clicked
            sums = (
                np.bincount(rank, slope, depth),
                np.bincount(self.place, slope, n),
                np.bincount(self.pair, slope, pairs),
            )
            total = float(value + held @ values**2 / 2)
            return total, np.concatenate(sums) + held * values

        how = {"maxiter": 2000, "ftol": 1e-13, "gtol": 1e-8}
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options=how).x
        bias = found[:depth] + found[depth : depth + n].reshape(n_segments, depth)
        return np.asarray(np.exp(bias - bias[:, :1]), dtype=np.float64)


def _moves(rows: ClickRows) -> Iterator[tuple[Ints, Ints, Ints, Floats]]:
    """Yield ranks from 0 with those of the pair, and click rates, of moved documents.

    Rows of a document follow each other by rank; those so many apart make pairs.
    """
    rows = rows.select(np.lexsort((rows.rank, rows.doc)))
    rank, rate = rows.rank - 1, rows.clicks / rows.impressions
    for apart in range(1, rows.depth):
        upper = np.flatnonzero(rows.doc[:-apart] == rows.doc[apart:])
        low, high = rank[upper], rank[upper + apart]
        yield low, low, high, rate[upper]
        yield high, low, high, rate[upper + apart]


def estimate(
    rows: ClickRows, _features: Matrix | None, settings: EstimationSettings, *_: object
) -> Estimate:
    """Fit position bias of each segment, where they were counted, or of all users."""
    whole = rows.merged()
    pools = pool_ranks(whole, settings.least_clicks)
    require_estimable(whole, pools)
    require_connected(overlap_of(whole, pools))
    names, of = (rows.segments, rows.segment) if settings.segment else ((), None)
    parts = [whole]
    if of is not None:
        parts = [rows.select(of == z).merged() for z in range(len(names))]
    found = _bias(parts, pools)
    models = [_users(own, pools) for own in found]
    if not names:
        return replace(Estimate.of(models[0], whole), notes=(NOTE,))
    [mean] = _bias([whole], pools)
    average = _users(mean, pools)
    about = Estimate.of(average, whole)
    users = SegmentedModel(dict(zip(names, models, strict=True)))
    return replace(about, users=users, average=average, notes=(NOTE,))


def _bias(parts: list[ClickRows], pools: RankPools) -> Floats:
    harvest = Harvest.of([pooled(part, pools) for part in parts], pools.n_pools)
    return harvest.fit(len(parts), pools.n_pools)


def _users(bias: Floats, pools: RankPools) -> TrustModel:
    alpha = bias[pools.of_rank]
    return TrustModel(alpha=alpha, beta=0 * alpha, identified="gauge")


ROW = Method(
    "contextual", "Contextual position bias", estimate, by_context=True, refit=estimate
)
