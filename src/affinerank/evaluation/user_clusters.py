r"""Intervals clustered by user: sessions of one user are not independent.

Users are counted in buckets (``count --user-buckets``), by a hash of their ids. An
estimate that is linear in clicks has the variance

.. math:: \sum_b r_b^2, \qquad r_b = \sum_i g_i (c_{ib} - p_i n_{ib}),

with clicks c and impressions n of each document and rank i by the users of bucket b,
the click rate p and the weight g of a click. If clicks were independent, the sum would
be :math:`\sum_i g_i^2 v_i (n_i - \sum_b n_{ib}^2 / n_i)` on average, with the unbiased
variance v of one impression. The ratio of the two, the *design effect*, multiplies the
variance over sessions. Over queries, which are clusters themselves, what users have in
common *across* queries is added (two-way clustering, Cameron, Gelbach and Miller 2011):
:math:`\sum_b r_b^2 - \sum_{b,q} r_{bq}^2`, if that is above 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from affinerank.counts.rows import ClickRows
from affinerank.estimators import Weights
from affinerank.evaluation.click_value import LEVEL, Interval, ValueEstimate
from affinerank.support.arrays import Floats, Ints, joint


@dataclass(frozen=True, slots=True, eq=False)
class UserClusters:
    """Clicks by bucket of users.

    Attributes:
        rows: By user.
    """

    rows: ClickRows

    @property
    def bucket(self) -> Ints:
        """``[n_rows]`` number of each row's users."""
        return np.asarray(self.rows.user_bucket, dtype=np.int64)

    @property
    def number(self) -> int:
        """Number of buckets in use."""
        return len(np.unique(self.bucket))

    def effects(
        self, rows: ClickRows, weights: Weights, rank_weights: Floats
    ) -> tuple[float, float]:
        """Return the design effect, and the part of it that is across queries.

        Args:
            rows: The clicks that the estimate rests on, not by user.
            weights: Of these, with a slope.
            rank_weights: ``[n_docs]`` whose value is estimated.
        """
        if weights.slope is None:
            raise ValueError("clusters need weights that are linear in clicks")
        # A cell is what users are told apart by: document, rank, context, segment.
        names = ["doc", "rank", *(["context"] if rows.has_context else [])]
        names += ["segment"] if rows.segment is not None else []
        pairs = ((getattr(rows, name), getattr(self.rows, name)) for name in names)
        both = [np.concatenate(pair) for pair in pairs]
        _, place = np.unique(joint(*both), return_inverse=True)
        at, own = place[: len(rows)], place[len(rows) :]
        slope = np.zeros(len(place))
        slope[at] = weights.slope
        # Add up the rankers: each cell and bucket is one row.
        size = int(self.bucket.max()) + 1
        by_cell = self.rows.added_up(own * size + self.bucket)
        cell, bucket = np.divmod(by_cell.rank, size)
        n, c, query = by_cell.impressions, by_cell.clicks, by_cell.query
        shown, clicked = (np.bincount(cell, each, len(place)) for each in (n, c))
        rate = clicked / np.maximum(shown, 1.0)
        g = weights.share[query] * rank_weights[by_cell.doc] * slope[cell]
        r = g * (c - rate[cell] * n)
        spread = rate * (1.0 - rate) * shown / np.maximum(shown - 1.0, 1.0)
        alone = float(np.sum(g**2 * spread[cell] * n * (1.0 - n / shown[cell])))
        if alone <= 0:
            return 1.0, 0.0
        of_users = float(np.sum(np.bincount(bucket, r) ** 2))
        _, pair = np.unique(joint(query, bucket), return_inverse=True)
        within = float(np.sum(np.bincount(pair, r) ** 2))
        return of_users / alone, max(of_users - within, 0.0) / alone

    def widen(
        self, found: ValueEstimate, rows: ClickRows, weights: Weights, given: Floats
    ) -> ValueEstimate:
        """Cluster both intervals of an estimate of ``given`` rank weights."""
        effect, across = self.effects(rows, weights, given)
        quantile = (1 + LEVEL) / 2
        student = stats.t.ppf(quantile, self.number - 1) / stats.norm.ppf(quantile)
        sessions, queries = found.sessions, found.queries
        more = across * sessions.standard_error**2
        wider = 1.0
        if queries.standard_error > 0:
            wider = np.sqrt(1.0 + more / queries.standard_error**2)
        return replace(
            found,
            sessions=_times(found, sessions, float(np.sqrt(effect) * student)),
            queries=_times(found, queries, float(wider * (student if more else 1.0))),
        )


def _times(found: ValueEstimate, interval: Interval, factor: float) -> Interval:
    """Stretch an interval from its value, or from its bounds."""
    low = found.least - factor * (found.least - interval.low)
    high = found.most + factor * (interval.high - found.most)
    return Interval(low, high, factor * interval.standard_error)
