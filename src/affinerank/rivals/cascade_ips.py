r"""Cascade propensities: clicks above say what was read (Vardasbi et al., 2020).

Users go on after a click at rank j with probability :math:`\lambda_j`, without one
always. A click counts

.. math::

    \prod_{j < k} \frac{1}{1 - c_j (1 - \lambda_j)}

times. Counts know the last click above alone; what a click there counted on average
over its query stands for the clicks before it, which is exact where a query has one
list. :math:`1 - \lambda_j` is the share of clicks at j that are the last of their
session (Guo et al., 2009).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from affinerank.clicks.models.model import require_shares
from affinerank.counts.rows import ClickRows
from affinerank.estimators.correction import smoothed_variance
from affinerank.estimators.estimator import Estimator, Evidence, Weights
from affinerank.support.arrays import Floats
from affinerank.support.errors import warn

LEAST = 0.001  # probability to go on, as in the authors' code


@dataclass(frozen=True, slots=True)
class CascadeOptions:
    """Options of cascade propensities.

    Attributes:
        stay: Probability to go on after a click at any rank; left out, estimated at
            each rank.
    """

    stay: float | None = None

    def __post_init__(self) -> None:
        """Reject what is no probability."""
        if self.stay is not None:
            require_shares(self, "stay")


def weigh(evidence: Evidence) -> Weights:
    """Divide clicks by the probability that users read on after those above."""
    rows = evidence.rows
    if not rows.has_context:
        warn(
            "cascade propensities need the clicks above, which the counts do not have: "
            "clicks are not corrected (count with --context last-click)"
        )
    stay = evidence.options.stay
    stays = stay_rates(rows) if stay is None else np.full(rows.depth + 1, stay)
    times = _times(rows, np.maximum(stays, LEAST))
    shown = rows.by_doc(rows.impressions)
    per_click = times / shown[rows.doc]
    variance = rows.by_doc(per_click**2 * smoothed_variance(rows))
    weight = rows.by_doc(per_click * rows.clicks)
    return Weights(weight, shown > 0, rows.share, variance)


def stay_rates(rows: ClickRows) -> Floats:
    """``[depth + 1]`` share of the clicks at each rank that another click follows."""
    clicks = np.append(0.0, rows.by_rank(rows.clicks))
    followed = np.bincount(rows.context, rows.clicks, minlength=len(clicks))
    return np.asarray(followed / np.maximum(clicks, 1.0), dtype=np.float64)


def _times(rows: ClickRows, stays: Floats) -> Floats:
    """``[n_rows]`` what a click counts, by its query and the last click above."""
    query, times = rows.query, np.ones(len(rows))
    mean = np.ones((rows.n_queries, rows.depth + 1))  # over a query's clicks at a rank
    for rank in range(1, rows.depth + 1):
        here = np.flatnonzero(rows.rank == rank)
        last, of, clicks = rows.context[here], query[here], rows.clicks[here]
        times[here] = np.where(last > 0, mean[of, last] / stays[last], 1.0)
        total = np.bincount(of, clicks, rows.n_queries)
        summed = np.bincount(of, clicks * times[here], rows.n_queries)
        np.divide(summed, total, out=mean[:, rank], where=total > 0)
    return times


MEANING = "clicks per list that was read so far, by cascade users"
ROW = Estimator(
    "cascade-ips", "Cascade propensities", "nothing", weigh, MEANING, CascadeOptions
)
