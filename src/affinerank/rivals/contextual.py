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
from dataclasses import replace

import numpy as np

from affinerank.bias.method import Estimate, EstimationSettings, Method
from affinerank.bias.overlap import overlap_of, require_connected
from affinerank.bias.pooling import RankPools, pool_ranks, pooled
from affinerank.bias.requirements import require_estimable
from affinerank.clicks.models.by_segment import SegmentedModel
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats, Ints, Matrix
from affinerank.support.errors import DataError

RIDGE = 0.1
HIGHEST = 1.0 - 1e-6  # click rate
NOTE = "position bias only, from documents shown at several ranks"


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
    pools = pool_ranks(whole, settings.min_clicks)
    require_estimable(whole, pools)
    require_connected(overlap_of(whole, pools))
    names, of = (rows.segments, rows.segment) if settings.segment else ((), None)
    parts = [whole]
    if of is not None:
        parts = [rows.select(of == z).merged() for z in range(len(names))]
    models = _click_model(parts, pools)
    average = models[0] if of is None else _click_model([whole], pools)[0]
    about = replace(Estimate.of(average, whole), notes=(NOTE,))
    if of is None:
        return about
    click_model = SegmentedModel(dict(zip(names, models, strict=True)))
    return replace(about, click_model=click_model, average=average)


def _click_model(parts: list[ClickRows], pools: RankPools) -> list[TrustModel]:
    """Fit the users of each segment, whose position bias is 1 at the first rank."""
    from scipy.optimize import minimize

    # Documents shown at two ranks each: segment and rank, number of the segment and
    # pair of ranks, and click rate there.
    depth, n = pools.n_pools, len(parts) * pools.n_pools
    found = [
        (z * depth + k, (z * depth + low) * depth + high, rate)
        for z, rows in enumerate(parts)
        for k, low, high, rate in _moves(pooled(rows, pools))
    ]
    place, pair, rate = (np.concatenate(part) for part in zip(*found, strict=True))
    if len(np.unique(place % depth)) < depth:
        raise DataError(
            "documents change rank between segments, not within them, so segments "
            "cannot be told apart: count without --segment"
        )
    # Added up by both.
    _, pair = np.unique(pair, return_inverse=True)
    key = pair * (int(place.max()) + 1) + place
    _, first, entry = np.unique(key, return_index=True, return_inverse=True)
    clicked, number = np.bincount(entry, rate), np.bincount(entry).astype(float)
    place, pair, rank = place[first], pair[first], place[first] % depth
    mean = np.bincount(pair, clicked) / np.bincount(pair, number)
    held = np.repeat([RIDGE / 100.0, RIDGE, 0.0], [depth, n, len(mean)])
    start = np.append(np.zeros(depth + n), np.log(np.clip(mean, 1e-6, HIGHEST)))

    def loss(values: Floats) -> tuple[float, Floats]:
        a, b, r = np.split(values, [depth, depth + n])
        odds = np.minimum(a[rank] + b[place] + r[pair], np.log(HIGHEST))
        p, missed = np.exp(odds), number - clicked
        value = -(clicked @ odds + missed @ np.log1p(-p))
        slope = missed * p / (1.0 - p) - clicked
        by = (rank, depth), (place, n), (pair, len(mean))
        sums = [np.bincount(at, slope, size) for at, size in by]
        total = float(value + held @ values**2 / 2)
        return total, np.concatenate(sums) + held * values

    how = {"maxiter": 2000, "ftol": 1e-13, "gtol": 1e-8}
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options=how).x
    bias = best[:depth] + best[depth : depth + n].reshape(-1, depth)
    alphas = np.exp(bias - bias[:, :1])[:, pools.of_rank]
    return [TrustModel(alpha=a, beta=0 * a, identified="relative") for a in alphas]


ROW = Method(
    "contextual", "Contextual position bias", estimate, by_context=True, refit=estimate
)
