r"""The value of a ranking that was never shown, from the clicks on one that was.

Each query's corrected clicks under the new order, by its share of the sessions:

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
  It includes the chance of clicking.

Both are of the same value; the difference of two rankings has the difference of their
rank weights for :math:`\lambda`.

Documents that were never shown have no corrected clicks. Where their relevance is
predicted, both intervals hold what the prediction leaves open
(``never_shown``, beside this module): over sessions its variance is added; over queries
the value is estimated again without each of 20 groups of queries,
:math:`\mathrm{Var} = \sum_g (1 - p_g) (\hat V_{-g} - \hat V)^2`, which for what is not
predicted is the sum above, with groups in place of queries. Where it is not, it may be
anything from 0 to 1: there are bounds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from affinerank.counts.rows import ClickRows
from affinerank.estimators import Weights
from affinerank.evaluation.never_shown import Predicted
from affinerank.support.arrays import Floats, Ints
from affinerank.support.errors import DataError

Verdict = Literal["better", "worse", "undecided", "cannot be decided"]
Obstacle = Literal["lists moved for unknown reasons", "two judges disagree"]

LISTS_MOVED: Obstacle = "lists moved for unknown reasons"
EVALUATORS_DISAGREE: Obstacle = "two judges disagree"

LEVEL = 0.95
MOST_NEVER_SHOWN = 0.05
TOP = 0.01


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval.

    Attributes:
        low: Lower end.
        high: Upper end; both are NaN where there is too little to estimate from.
        standard_error: Of the value.
    """

    low: float
    high: float
    standard_error: float

    @classmethod
    def around(cls, value: float, variance: float, freedom: float) -> Interval:
        """Return Student's interval; the normal one for infinitely many degrees."""
        error = float(np.sqrt(variance))
        reach = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * error
        return cls(value - reach, value + reach, error)


@dataclass(frozen=True, slots=True)
class ValueEstimate:
    """A value, or the difference of two, with both intervals.

    Attributes:
        least: The value if no document that is not known is relevant.
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
        """Whether there are only bounds, since too much is not known."""
        return self.least != self.most

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: ``estimate``, or ``least`` and ``most``."""
        bounds = {"least": self.least, "most": self.most}
        return {
            **(bounds if self.bounded else {"estimate": self.least}),
            "bounds": self.bounded,
            "over_sessions": asdict(self.sessions),
            "over_queries": asdict(self.queries),
        }


def estimate(
    weights: Weights,
    rank_weights: Floats,
    query: Ints,
    *,
    bounds: bool = False,
    predicted: Predicted | None = None,
) -> ValueEstimate:
    """Estimate the value of rank weights ``[n_docs]``, positive or negative.

    Args:
        weights: Relevance of documents, estimated from clicks.
        rank_weights: What the ranking gives each document, or two rankings' difference.
        query: ``[n_docs]`` number of each document's query.
        bounds: Let the relevance of documents that are not known be anything from 0 to
            1. Otherwise they count as irrelevant.
        predicted: In place of both, their relevance as predicted.
    """
    given = weights.share[query] * rank_weights
    clicking = float(np.sum(given**2 * np.where(weights.known, weights.variance, 0.0)))

    def at(relevance: Floats | float) -> ValueEstimate:
        values = by_query(weights, rank_weights, query, relevance)
        value = float(weights.share @ values)
        sessions = Interval.around(value, clicking, np.inf)
        queries = _over_queries(value, values, weights.share)
        return ValueEstimate(value, value, sessions, queries)

    if predicted is not None:
        value = at(predicted.relevance).least
        open_ = predicted.error(np.where(weights.known, 0.0, given))
        sessions = Interval.around(value, clicking + open_, np.inf)
        queries = _without_groups(value, weights, rank_weights, predicted)
        return ValueEstimate(value, value, sessions, queries)
    if not bounds:
        return at(0.0)
    signs = rank_weights < 0, rank_weights > 0
    low, high = (at(relevant.astype(np.float64)) for relevant in signs)
    spans = (low.sessions, high.sessions), (low.queries, high.queries)
    ends = (
        Interval(a.low, b.high, max(a.standard_error, b.standard_error))
        for a, b in spans
    )
    return ValueEstimate(low.least, high.most, *ends)


def by_query(
    weights: Weights, rank_weights: Floats, query: Ints, unknown: Floats | float = 0.0
) -> Floats:
    """``[n_queries]`` relevance times rank weights, added up.

    ``unknown`` is the relevance of documents that are not known.
    """
    value = np.where(weights.known, weights.weight, unknown) * rank_weights
    return np.bincount(query, value, len(weights.share)).astype(np.float64)


def _over_queries(value: float, values: Floats, share: Floats) -> Interval:
    issued = share > 0
    part, off = share[issued], values[issued] - value
    if len(part) < 2:  # one query does not show how queries differ
        return Interval(float("nan"), float("nan"), float("nan"))
    variance = float(np.sum(part**2 * off**2 / (1.0 - part)))
    return Interval.around(value, variance, _freedom(part))


def _freedom(part: Floats) -> float:
    return max(float(np.sum(part**2) ** 2 / np.sum(part**4) - 1.0), 1.0)


def _without_groups(
    value: float, weights: Weights, rank_weights: Floats, predicted: Predicted
) -> Interval:
    part, off = predicted.share, np.zeros(len(predicted.share))
    for g, unknown in enumerate(predicted.without):
        values = by_query(weights, rank_weights, predicted.query, unknown)
        share = np.where(predicted.group == g, 0.0, weights.share)
        off[g] = share @ values / share.sum() - value
    variance = float(np.sum((1.0 - part) * off**2))
    given = weights.share[predicted.query] * rank_weights
    variance += predicted.beyond(np.where(weights.known, 0.0, given))
    return Interval.around(value, variance, _freedom(part))


def unknown_share(weights: Weights, rank_weights: Floats, query: Ints) -> float:
    """Share of a ranking's weight, over sessions, on documents that are not known."""
    carried = rank_weights * weights.share[query]
    total = float(carried.sum())
    if total <= 0:
        raise DataError("the ranking gives no weight to any document of these queries")
    return float(carried[~weights.known].sum() / total)


@dataclass(frozen=True, slots=True)
class Exposure:
    """How evenly an estimate rests on impressions; ``None`` if not linear in clicks.

    Attributes:
        impressions: That carry weight.
        effective_impressions: Number of impressions of equal weight that would be worth
            as much.
        top_percent_share: Share of the weight on the 1 % that carry the most.
    """

    impressions: int | None = None
    effective_impressions: float | None = None
    top_percent_share: float | None = None


def exposure(rows: ClickRows, weights: Weights, rank_weights: Floats) -> Exposure:
    r"""Measure how unequal the weights of impressions are.

    An impression of document d at rank k has the weight
    :math:`v = s_q |\lambda_{qd} \, \partial w_{qd} / \partial c_k|`; the effective
    number is :math:`(\sum v)^2 / \sum v^2`.
    """
    if weights.slope is None:
        return Exposure()
    each = np.abs(weights.share[rows.query] * rank_weights[rows.doc] * weights.slope)
    each[each < 1e-12 * each.max(initial=0.0)] = 0.0  # rounding carries no weight
    order = np.argsort(-each)[: np.count_nonzero(each)]
    weight, shown = each[order], rows.impressions[order]
    if not len(weight):
        return Exposure(0, 0.0, float("nan"))
    number, total = int(shown.sum()), float(shown @ weight)
    among_top = np.clip(TOP * number - (np.cumsum(shown) - shown), 0, shown)
    effective = total**2 / float(shown @ weight**2)
    return Exposure(number, effective, float(among_top @ weight) / total)


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a ranking is better than another on future queries.

    Attributes:
        verdict: Undecided where the interval over queries contains 0. Cannot be decided
            where lists moved for unknown reasons, or a second judge's interval is on
            the other side of 0.
        clicks: How many there are.
        clicks_needed: Clicks, on as many more queries, at which the interval would
            exclude 0 if the difference stayed; ``None`` where no number would.
        obstacle: Why it cannot be decided; ``None`` where it can.
    """

    verdict: Verdict
    clicks: int
    clicks_needed: float | None
    obstacle: Obstacle | None = None


def decide(
    difference: ValueEstimate,
    clicks: int,
    second: ValueEstimate | None = None,
    *,
    lists_moved: bool = False,
) -> Decision:
    """Judge a difference by its interval over queries, and by that of a second judge.

    Intervals narrow with the root of the number of clicks, so ``clicks (reach / d)^2``
    of them decide, with the reach of the interval and the difference d (with bounds,
    the one nearer to 0; where 0 lies between them no number of clicks decides).

    Args:
        difference: Of two rankings.
        clicks: How many there are.
        second: The difference by the second judge.
        lists_moved: Whether lists moved so much, for unknown reasons, that neither
            judge can be right about it.
    """
    if lists_moved:
        return Decision("cannot be decided", clicks, None, LISTS_MOVED)
    low, high = difference.queries.low, difference.queries.high
    other = (second or difference).queries
    if other.high < 0 < low or high < 0 < other.low:
        return Decision("cannot be decided", clicks, None, EVALUATORS_DISAGREE)

    verdict: Verdict = "undecided"
    if low > 0:
        verdict = "better"
    elif high < 0:
        verdict = "worse"

    needed = np.nan
    if difference.least > 0:
        needed = clicks * ((difference.least - low) / difference.least) ** 2
    elif difference.most < 0:
        needed = clicks * ((high - difference.most) / difference.most) ** 2
    return Decision(verdict, clicks, None if np.isnan(needed) else needed)
