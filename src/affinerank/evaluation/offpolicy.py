r"""The value of a ranking that was never shown, from the clicks on one that was.

The estimate is :func:`affinerank.corrections.estimate_metric`: each query's corrected
clicks under the new order, by its share of the sessions,

.. math::

    \hat V = \sum_q s_q \hat V_q, \qquad s_q = N_q / N, \qquad
    \hat V_q = \sum_d w_{qd} \lambda(\mathrm{rank}(d)).

Two questions have two intervals:

- *over sessions*: the value on these queries, each with the share that it has here, if
  their users came again. Only clicks are random:
  :math:`\mathrm{Var} = \sum_{q,d} (s_q \lambda_{qd})^2 \, \mathrm{Var}(w_{qd})`.
- *over queries*: the value on future queries, of which these are a random sample with
  their sessions. Queries are clusters, and the estimate is a ratio of sums over them:
  :math:`\mathrm{Var} = \sum_q s_q^2 (\hat V_q - \hat V)^2 / (1 - s_q)`, with Student's
  quantile for :math:`(\sum_q s_q^2)^2 / \sum_q s_q^4 - 1` degrees of freedom
  (Satterthwaite's). For queries of equal shares that is the usual interval of a mean.
  It holds the chance of clicking too.

Both are of the same value; the difference of two rankings has the difference of their
rank weights for :math:`\lambda`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from affinerank.clicks.join import JoinedCounts
from affinerank.corrections import Correction
from affinerank.data.dataset import RankingDataset
from affinerank.evaluation.labels import DocumentLabels

Floats = NDArray[np.float64]
Verdict = Literal["better", "worse", "undecided"]

LEVEL = 0.95
MOST_NEVER_SHOWN = 0.05
TOP = 0.01


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval.

    Attributes:
        low: Lower end.
        high: Upper end; both are NaN where there is too little to tell.
        standard_error: Of the value.
    """

    low: float
    high: float
    standard_error: float

    @classmethod
    def around(cls, value: float, variance: float, freedom: float) -> Interval:
        """Student's interval; the normal one for infinitely many degrees of freedom."""
        error = float(np.sqrt(variance))
        reach = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * error
        return cls(value - reach, value + reach, error)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, or the difference of two, with both intervals.

    Attributes:
        least: The value if no document that was never shown is relevant.
        most: The value if all of them are; the same as ``least`` where they carry too
            little weight to matter.
        sessions: Interval for these queries; with bounds, from the lower end for
            ``least`` to the upper end for ``most``.
        queries: Interval for future queries, likewise.
    """

    least: float
    most: float
    sessions: Interval
    queries: Interval

    @property
    def bounded(self) -> bool:
        """Whether there are only bounds, since too much was never shown."""
        return self.least != self.most


def estimate(
    labels: DocumentLabels,
    rank_weights: Floats,
    data: RankingDataset,
    *,
    bounds: bool = False,
) -> Estimate:
    """Estimate the value of rank weights ``[n_docs]``, positive or negative.

    Args:
        labels: Corrected clicks.
        rank_weights: What the ranking gives each document, or two rankings' difference.
        data: The queries and documents.
        bounds: Let the relevance of documents that were never shown be anything from 0
            to 1. Otherwise they count as irrelevant.
    """
    if not bounds:
        return _estimate(labels, rank_weights, data)
    least, most = (
        _estimate(labels, rank_weights, data, unknown.astype(np.float64))
        for unknown in (rank_weights < 0, rank_weights > 0)
    )
    return Estimate(
        least.least,
        most.least,
        _spanned(least.sessions, most.sessions),
        _spanned(least.queries, most.queries),
    )


def _estimate(
    labels: DocumentLabels,
    rank_weights: Floats,
    data: RankingDataset,
    unknown: Floats | None = None,
) -> Estimate:
    query, share = data.query_of_doc, labels.share
    by_query = labels.by_query(rank_weights, query, unknown)
    value = float(share @ by_query)
    clicking = float(np.sum((share[query] * rank_weights) ** 2 * labels.variance))
    return Estimate(
        value,
        value,
        Interval.around(value, clicking, np.inf),
        _over_queries(value, by_query, share),
    )


def _over_queries(value: float, by_query: Floats, share: Floats) -> Interval:
    issued = share > 0
    part, off = share[issued], by_query[issued] - value
    if len(part) < 2:  # one query tells nothing about others
        return Interval(float("nan"), float("nan"), float("nan"))
    variance = float(np.sum(part**2 * off**2 / (1.0 - part)))
    freedom = np.sum(part**2) ** 2 / np.sum(part**4) - 1.0
    return Interval.around(value, variance, max(float(freedom), 1.0))


def _spanned(least: Interval, most: Interval) -> Interval:
    error = max(least.standard_error, most.standard_error)
    return Interval(least.low, most.high, error)


@dataclass(frozen=True, slots=True)
class Exposure:
    """How evenly an estimate rests on what was seen.

    Attributes:
        impressions: That carry weight.
        effective: As many of equal weight would be worth as much.
        top_share: Share of the weight on the 1 % that carry the most.
    """

    impressions: int
    effective: float
    top_share: float


def exposure(
    joined: JoinedCounts,
    correction: Correction,
    labels: DocumentLabels,
    rank_weights: Floats,
    data: RankingDataset,
) -> Exposure:
    r"""Measure how unequal the weights of impressions are.

    An impression of document d at rank k has the weight
    :math:`v = s_q |\lambda_{qd}| / (n_{qd} |\alpha_k|)`, with the document's
    impressions :math:`n_{qd}`; the effective number is
    :math:`(\sum v)^2 / \sum v^2`.
    """
    doc = joined.doc
    seen = (correction.exposure > 0) & (joined.counts.impressions > 0)
    doc, shown = doc[seen], joined.counts.impressions[seen]
    given = labels.share[data.query_of_doc[doc]] * np.abs(rank_weights[doc])
    weight = given / (labels.impressions[doc] * np.abs(correction.alpha[seen]))
    carrying = weight > 0
    weight, shown = weight[carrying], shown[carrying]
    if not len(weight):
        return Exposure(0, 0.0, float("nan"))
    order = np.argsort(-weight)
    weight, shown = weight[order], shown[order]
    number = int(shown.sum())
    before = np.cumsum(shown) - shown
    among_top = np.clip(TOP * number - before, 0, shown)
    total = float(shown @ weight)
    return Exposure(
        number,
        total**2 / float(shown @ weight**2),
        float(among_top @ weight) / total,
    )


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a ranking is better than another on future queries.

    Attributes:
        verdict: Undecided where the interval over queries holds 0.
        clicks: How many there are.
        clicks_needed: Clicks, on as many more queries, at which the interval would
            leave 0 out if the difference stayed; ``None`` where no number would.
    """

    verdict: Verdict
    clicks: int
    clicks_needed: float | None


def decide(difference: Estimate, clicks: int) -> Decision:
    """Judge a difference by its interval over queries.

    Intervals narrow with the root of the number of clicks, so ``clicks (reach / d)^2``
    of them decide, with the reach of the interval and the difference d (with bounds,
    the one nearer to 0; where 0 lies between them no number of clicks decides).
    """
    least, most, interval = difference.least, difference.most, difference.queries
    needed = None
    if least > 0:
        needed = clicks * ((least - interval.low) / least) ** 2
    elif most < 0:
        needed = clicks * ((interval.high - most) / most) ** 2
    if needed is not None and np.isnan(needed):
        needed = None
    verdict: Verdict = "undecided"
    if interval.low > 0:
        verdict = "better"
    elif interval.high < 0:
        verdict = "worse"
    return Decision(verdict, clicks, needed)
