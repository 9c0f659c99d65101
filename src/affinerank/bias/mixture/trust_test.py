r"""Is there trust bias, or only position bias?

If there is only position bias with constant click noise, then :math:`\beta_k /
\alpha_k`, and with it :math:`\zeta^+_k / \zeta^-_k`, is the same at every rank, and
inverse propensity scoring is enough. (:math:`\beta = 0` is not the question: a shift of
relevance makes it 0.)

The test reads two rows of the table of click models, which were fitted to half of the
sessions and predict the other half: position bias alone, with click rates :math:`p`,
and position and trust bias, with click rates :math:`p'`. Let
:math:`\Delta = \operatorname{logit} p' - \operatorname{logit} p` on each of n held-out
impressions with c clicks. If position bias is all there is, then
:math:`\operatorname{E}(c - n p) = 0`, whatever :math:`\Delta` is, so

.. math::

    T = \sum (c - n p) \Delta, \qquad
    \text{total lead} = T - \sum n \, \mathrm{KL}(p \,\|\, p')

and T has mean 0. T over its standard error, clustered by query, is the statistic. T is
never below the lead, so a model that leads clearly has a large statistic.

The test rejects if the statistic is large, trust bias predicts held-out clicks better
than position bias, and no model simpler than both predicts them as well. So its p is
that of the statistic if there is such a lead, and 1 if there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import logit

from affinerank.bias.mixture.population import MixtureDocuments
from affinerank.support.arrays import Floats

LEVEL = 0.05
MIN_CLICKED_QUERIES = 20


@dataclass(frozen=True, slots=True)
class TrustTest:
    """Whether clicks indicate trust bias.

    Attributes:
        found: Whether they do: ``p`` is below 5 %.
        p: Probability of such a statistic without trust bias; 1 where trust bias
            predicts held-out clicks no better than what is simpler.
        statistic: Student's t where there is none; large where there is.
        lead: Held-out log-likelihood that trust bias adds, per impression.
        lead_error: Its standard error, clustered by query.
        n_queries: Number of queries with held-out impressions.
    """

    found: bool
    p: float
    statistic: float
    lead: float
    lead_error: float
    n_queries: int


def trust_test(
    held: MixtureDocuments,
    position_rate: Floats,
    trust_rate: Floats,
    *,
    is_behind: bool,
) -> TrustTest | None:
    """Test for trust bias; ``None`` if too few queries were clicked.

    Args:
        held: Sessions that neither model was fitted to.
        position_rate: ``[n_rows]`` click rates by position bias alone.
        trust_rate: ``[n_rows]`` click rates by position and trust bias.
        is_behind: Whether a model simpler than both predicts as well as trust bias.
    """
    clicks_by_query = by_query(held, held.clicks)
    if np.count_nonzero(clicks_by_query) < MIN_CLICKED_QUERIES:
        return None
    n_queries = len(clicks_by_query)

    # How far clicks exceed position bias where trust bias expects more of them.
    log_odds_ratio = logit(trust_rate) - logit(position_rate)
    surprise = held.clicks - held.impressions * position_rate
    slope = by_query(held, surprise * log_odds_ratio)
    variance = binomial_variance(held, position_rate, log_odds_ratio)
    statistic = 0.0
    if variance > 0:
        statistic = float(slope.sum()) / total_error(slope, variance)

    # If trust bias predicts no better than a simpler model, it is not reported.
    lead, lead_error = lead_of(held, trust_rate, position_rate)
    is_ahead = lead > 0 and not is_behind
    p = float(stats.t.sf(statistic, n_queries - 1)) if is_ahead else 1.0
    return TrustTest(p < LEVEL, p, statistic, lead, lead_error, n_queries)


def lead_of(
    held: MixtureDocuments, rate: Floats, simpler: Floats
) -> tuple[float, float]:
    """Return how much better a model predicts clicks, and the standard error of that.

    Both in log-likelihood per impression; ``rate`` and ``simpler`` are ``[n_rows]``.
    """
    gain = by_query(held, held.log_likelihood(rate) - held.log_likelihood(simpler))
    variance = binomial_variance(held, rate, logit(rate) - logit(simpler))
    impressions = float(held.impressions.sum())
    return float(gain.sum()) / impressions, total_error(gain, variance) / impressions


def binomial_variance(held: MixtureDocuments, rate: Floats, factor: Floats) -> float:
    """Variance of the sum of clicks times ``factor``, if clicks are independent."""
    return float(np.sum(held.impressions * rate * (1 - rate) * factor**2))


def total_error(totals: Floats, variance: float) -> float:
    """Return the standard error of the sum of ``totals [n_queries]``.

    Documents of a query may depend on each other, so queries are what varies. With few
    queries that estimate can be too small, so it is at least the binomial ``variance``.
    """
    n_queries = len(totals)
    clustered = n_queries * float(totals.var(ddof=1)) if n_queries > 1 else 0.0
    return float(np.sqrt(max(clustered, variance)))


def by_query(held: MixtureDocuments, values: Floats) -> Floats:
    """Add up ``values [n_rows]`` by query, of queries with held-out impressions."""
    by_document = np.add.reduceat(values, held.first[:-1])
    shown = np.add.reduceat(held.impressions, held.first[:-1])
    return held.by_query(by_document)[held.by_query(shown) > 0]
