r"""Is there trust bias, or only position bias?

Under position bias with constant click noise :math:`\beta_k / \alpha_k`, and with it
:math:`\zeta^+_k / \zeta^-_k`, is the same at every rank, and inverse propensity scoring
is enough. (:math:`\beta = 0` is not the question: it is a matter of gauge.)

The test fits the first user model to half of the queries, takes from them the direction
in which the second would leave it, one step of scoring, and asks the other half whether
their clicks become more likely that way, per query. The way leaves the first model at
its own best fit, so to first order no error of that fit shows; and only a direction is
taken for the second, whose freedom therefore costs nothing. Without trust bias the mean
over queries is 0. (The line to the second model's best fit is no such direction: where
that is far, it may well begin downhill.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from affinerank.bias.cells import Population
from affinerank.bias.mixture import Levels, Prior, prior_precision, query_likelihood
from affinerank.bias.mixture_fit import Fit, document_scores, fit_levels
from affinerank.bias.uncertainty import precision_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_CLICKED = 20


@dataclass(frozen=True, slots=True)
class TrustTest:
    """Whether clicks speak for trust bias.

    Attributes:
        statistic: Student's t where there is none; large where there is.
        p: Probability of as much without trust bias.
        gain: Held-out log-likelihood that trust bias adds, per query.
        gain_error: Its standard error over queries.
        held_out: Log-likelihood with trust bias, per impression of those queries.
        n_queries: Number of queries that were asked.
    """

    statistic: float
    p: float
    gain: float
    gain_error: float
    held_out: float
    n_queries: int

    @property
    def found(self) -> bool:
        """Whether there is trust bias at the level of 5 %, and it predicts clicks."""
        return self.p < 0.05 and self.gain > 0


def trust_test(
    population: Population, fit: Fit, half: Ints, prior: Prior
) -> TrustTest | None:
    """Test for trust bias; none where too few queries of either half were clicked.

    Args:
        population: Documents and their clicks.
        fit: What was fitted to all of them; both models start there.
        half: ``[n_queries]`` 0 for those that are fitted, 1 for those that are asked.
        prior: What holds the parameters.
    """
    side = half[population.documents.query]
    learnt, held = population.select(side == 0), population.select(side == 1)
    if min(_clicked_queries(learnt), _clicked_queries(held)) < LEAST_CLICKED:
        return None
    there = np.bincount(held.documents.query) > 0
    without = fit_levels(learnt, _tied(fit.levels), prior, tied=True)
    with_trust = fit_levels(learnt, without.levels, prior)
    slope = _slopes_towards_trust(learnt, held, without, prior)[there]
    gain = query_likelihood(held, with_trust.levels)
    gain = (gain - query_likelihood(held, without.levels))[there]
    seen = held.documents.impressions.sum()
    likelihood = query_likelihood(held, with_trust.levels).sum() / seen
    root = np.sqrt(len(slope))
    statistic = float(slope.mean() / max(slope.std(ddof=1) / root, 1e-300))
    return TrustTest(
        statistic,
        float(stats.t.sf(statistic, len(slope) - 1)),
        float(gain.mean()),
        float(gain.std(ddof=1) / root),
        float(likelihood),
        len(gain),
    )


def _clicked_queries(population: Population) -> int:
    """Number of queries that have a click."""
    rows = population.documents
    return len(np.unique(rows.query[rows.doc_of_row[rows.clicks > 0]]))


def _tied(levels: Levels) -> Levels:
    """The same click rates at the highest level, with one ratio for all ranks."""
    ratio = np.full_like(levels.log_ratio, levels.log_ratio.mean())
    return replace(levels, log_ratio=ratio, common_ratio=float(ratio[0]))


def _slopes_towards_trust(
    learnt: Population, held: Population, without: Fit, prior: Prior
) -> Floats:
    """``[n_queries]`` slope of log-likelihood where ``learnt`` would go with trust."""
    freed = replace(without, layout=replace(without.layout, tied=False))
    at = freed.layout.vector(freed.levels)
    uphill = -prior_precision(freed.layout, prior) @ at
    for part in learnt.parts():
        uphill += document_scores(part, freed).T @ part.weight
    told = precision_of(learnt, freed, prior).information
    inverse = np.linalg.pinv(told, rcond=1e-12, hermitian=True)
    slopes = np.zeros(held.documents.n_queries)
    for part in held.parts():
        each = part.weight * (document_scores(part, freed) @ (inverse @ uphill))
        query, rows = np.unique(part.documents.query, return_inverse=True)
        slopes[query] = np.bincount(rows.reshape(-1), each)
    return slopes
