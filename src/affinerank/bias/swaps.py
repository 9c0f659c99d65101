r"""Documents that change rank: what they show, and how many more would show enough.

**What they show.** The relevance of a document is the same at every rank it is shown
at, so without bias its click rate is too. :func:`rank_effect` draws the line of clicks
against :math:`x = \log_2 \mathrm{rank}` within documents, whose slope is 0 then:

.. math::

    b = \frac{\sum_{d, k} (x_k - \bar x_d)\, c_{dk}}
             {\sum_{d, k} n_{dk} (x_k - \bar x_d)^2}

**How many more.** Exchange, in :math:`m` sessions, a document of the upper of two ranks
with one of the lower. A document with the click rate :math:`p` at the upper rank has
:math:`s p + t` at the lower, :math:`s` and :math:`t` being alpha and beta there in the
gauge of the upper rank. Regressing its clicks at the lower rank on its rate at the
upper one, shrunken for its noise, has the variance

.. math::

    \mathrm{Var}(s) = \frac{R}{m \lambda V} + \frac{1 - \lambda}{\lambda D}, \qquad
    \mathrm{Var}(t) = \frac{R}{m} + \frac{(1 - \lambda) V}{D}
        + \bar p^2\, \mathrm{Var}(s)

with :math:`V` the variance of :math:`p` between documents, :math:`\lambda` the share of
it that the log knows (its reliability), :math:`R` the variance of a click at the lower
rank and :math:`D` the number of documents. :func:`plan_swaps` solves it for :math:`m`.
It takes :math:`s` for 1 where that matters and the largest R between the click rates of
the two ranks, and ignores what the lower document adds at the upper rank and what
levels of relevance add: an estimate needs so many sessions at most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from affinerank.arrays import Floats
from affinerank.bias.overlap import LEAST_SHARED, moved_rows
from affinerank.bias.pooling import RankPools, pooled
from affinerank.clicks.rows import ClickRows

LEAST_QUERIES = 20
TARGET_ERROR = 0.1
DEEPEST = 10


@dataclass(frozen=True, slots=True)
class RankEffect:
    """How the clicks on one and the same document change with its rank.

    Attributes:
        slope: Change of its click rate when its rank doubles.
        error: Standard error, clustered by query.
        p: Probability of a slope as far from 0 without bias.
        rate: Click rate of these documents.
        n_docs: Documents that were shown at several ranks.
        n_queries: Their queries.
    """

    slope: float
    error: float
    p: float
    rate: float
    n_docs: int
    n_queries: int


def rank_effect(rows: ClickRows) -> RankEffect | None:
    """Compare documents with themselves at other ranks.

    ``None`` if too few moved, or all were clicked alike.
    """
    from scipy import stats

    moved = moved_rows(rows)
    n, clicks = moved.impressions, moved.clicks
    n_queries = len(np.unique(moved.query))
    clicked = float(clicks.sum() / max(n.sum(), 1.0))
    if n_queries < LEAST_QUERIES or not 0 < clicked < 1:
        return None
    # The line within documents.
    seen = np.maximum(moved.by_doc(n), 1.0)
    place = np.log2(moved.rank)
    away = place - (moved.by_doc(n * place) / seen)[moved.doc]
    spread = float(np.sum(n * away**2))
    slope = float(np.sum(away * clicks)) / spread
    # Its standard error: residuals added up by query.
    rate = (moved.by_doc(clicks) / seen)[moved.doc]
    residual = clicks - n * (rate + slope * away)
    by_query = np.bincount(moved.query, away * residual)
    scale = n_queries / (n_queries - 1)
    error = float(np.sqrt(scale * np.sum(by_query**2))) / spread
    p = 2 * float(stats.t.sf(abs(slope) / max(error, 1e-300), n_queries - 1))
    return RankEffect(slope, error, p, clicked, len(np.unique(moved.doc)), n_queries)


@dataclass(frozen=True, slots=True)
class SwapPlan:
    """Swaps between two ranks, or two pools of them.

    Attributes:
        upper: Ranks that documents are taken from.
        lower: Ranks they are exchanged with.
        sessions: How many sessions to swap; ``None`` if swaps would not help.
        beta_error: Standard error of beta that comes with them, in clicks at the upper
            rank.
        why_not: Why there is no number, in words.
        documents: Documents that the arithmetic rests on: shown twice or more.
        variance: V, of their click rates.
        reliability: Lambda, the share of V that the log knows.
    """

    upper: str
    lower: str
    sessions: int | None = None
    beta_error: float | None = None
    why_not: str | None = None
    documents: int = 0
    variance: float | None = None
    reliability: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """How much the documents of a rank differ in how they are clicked.

    Attributes:
        documents: Those shown twice or more.
        rate: Their click rate.
        variance: V, between documents.
        variance_error: Its standard error.
        reliability: Lambda.
        effective: D, documents, counted less where impressions are uneven.
    """

    documents: int
    rate: float
    variance: float
    variance_error: float
    reliability: float
    effective: float


def spread_of(impressions: Floats, clicks: Floats) -> Spread | None:
    r"""Measure how documents differ; ``None`` if fewer than two were shown twice.

    With c clicks in n impressions :math:`c (c - 1) / (n (n - 1))` is :math:`p^2` on
    average, so the variance of :math:`p` is known without its noise. A document counts
    by its impressions.
    """
    several = impressions >= 2
    n, c = impressions[several], clicks[several]
    if len(n) < 2:
        return None
    share = n / n.sum()
    rate = float(share @ (c / n))
    square = c * (c - 1) / (n * (n - 1))
    variance = float(share @ square) - rate**2
    influence = square - 2 * rate * c / n
    influence -= share @ influence
    error = float(np.sqrt(np.sum((share * influence) ** 2)))
    noise = max(rate * (1 - rate) - variance, 0.0) / n
    signal = max(variance, 0.0)
    known = float(share @ (signal / np.maximum(signal + noise, 1e-300)))
    return Spread(len(n), rate, variance, error, known, float(1 / np.sum(share**2)))


def swaps_needed(
    spread: Spread, lower_rate: float, target: float
) -> tuple[float, float] | None:
    """Return sessions for ``target`` standard error of alpha, and beta's error then.

    ``None`` if the documents are too few or too little known for it, however many
    sessions are swapped.
    """
    known, variance = spread.reliability, spread.variance
    gap = (1 - known) / (known * spread.effective)
    if not target**2 > gap:
        return None
    low, high = sorted((spread.rate, lower_rate))
    worst = min(max(0.5, low), high)
    noise = worst * (1 - worst)
    sessions = float(np.ceil(noise / (known * variance * (target**2 - gap))))
    beta = noise / sessions + spread.rate**2 * target**2
    beta += (1 - known) * variance / spread.effective
    return sessions, float(np.sqrt(beta))


def plan_swaps(
    rows: ClickRows, pools: RankPools, target: float = TARGET_ERROR
) -> list[SwapPlan]:
    """Plan swaps between each pool of ranks and the next, down to rank 10."""
    docs, names = pooled(rows, pools), pools.names
    clicked = pools.total(rows.by_rank(rows.clicks))
    rate = clicked / np.maximum(pools.pool_impressions, 1.0)
    plans = []
    for upper in range(int(pools.of_rank[:DEEPEST][-1])):
        at = docs.rank == upper + 1
        spread = spread_of(docs.impressions[at], docs.clicks[at])
        number = spread.documents if spread else 0
        plan = SwapPlan(names[upper], names[upper + 1], documents=number)
        plans.append(_filled_in(plan, spread, float(rate[upper + 1]), target))
    return plans


def _filled_in(
    plan: SwapPlan, spread: Spread | None, lower_rate: float, target: float
) -> SwapPlan:
    """Add how many sessions to swap, or why there is no number."""
    if spread is None or plan.documents < LEAST_SHARED:
        why = f"{plan.documents} documents were shown twice or more there"
        why += f", and {LEAST_SHARED} are needed"
    elif spread.variance <= 2 * spread.variance_error:
        why = "documents do not differ clearly in how often they are clicked there"
    elif needed := swaps_needed(spread, lower_rate, target):
        sessions, beta = max(int(needed[0]), LEAST_SHARED), needed[1]
        given = plan.upper, plan.lower, sessions, beta, None, plan.documents
        return SwapPlan(*given, spread.variance, spread.reliability)
    else:
        why = "the log knows too little of its documents there, and must be longer"
    return replace(plan, why_not=why)
