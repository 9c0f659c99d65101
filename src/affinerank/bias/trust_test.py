r"""Is there trust bias, or only position bias?

Under position bias with constant click noise :math:`\beta_k / \alpha_k`, and with it
:math:`\zeta^+_k / \zeta^-_k`, is the same at every rank, and inverse propensity scoring
is enough. (:math:`\beta = 0` is not the question: it is a matter of gauge.)

The test fits the first user model to half of the queries, takes from them the direction
in which the second would leave it, one step of scoring, and measures on the other half
whether clicks become more likely that way, per query. The way leaves the first model at
its own best fit, so to first order no error of that fit shows; and only a direction is
taken for the second, whose freedom therefore costs nothing. Without trust bias the mean
over queries is 0. (The line to the second model's best fit is no such direction: where
that is far, it may well begin downhill.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from affinerank.arrays import Floats
from affinerank.bias.mixture.fit import Fit, fit_levels
from affinerank.bias.mixture.levels import query_likelihood
from affinerank.bias.mixture.population import Population
from affinerank.bias.mixture.precision import document_scores, precision_of

LEAST_CLICKED = 20
ROUNDING = 1e-6  # a gain in log-likelihood per query that is none


@dataclass(frozen=True, slots=True)
class TrustTest:
    """Whether clicks indicate trust bias.

    Attributes:
        statistic: Student's t where there is none; large where there is.
        p: Probability of as much without trust bias.
        gain: Held-out log-likelihood that trust bias adds, per query.
        gain_error: Its standard error over queries.
        held_out: Log-likelihood with trust bias, per impression of those queries.
        n_queries: Number of held-out queries.
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
        return self.p < 0.05 and self.gain > ROUNDING


def trust_test(population: Population, fit: Fit) -> TrustTest | None:
    """Test for trust bias; ``None`` if too few queries of either half were clicked.

    Args:
        population: Clicks; the first half of its queries is fitted, the other judges.
        fit: What was fitted to all of them; both models start there.
    """
    learnt, held = population.halves()
    for half in (learnt, held):
        clicked = half.query[half.doc_of_row[half.clicks > 0]]
        if len(np.unique(clicked)) < LEAST_CLICKED:
            return None
    ratio = np.full_like(fit.levels.log_ratio, fit.levels.log_ratio.mean())
    start = replace(fit.levels, log_ratio=ratio, common_ratio=float(ratio[0]))
    without = fit_levels(learnt, start, tied=True)
    with_trust = fit_levels(learnt, without.levels)
    slope = _slopes_towards_trust(learnt, held, without)
    likelihood = query_likelihood(held, with_trust.levels)
    gain = likelihood - query_likelihood(held, without.levels)
    n, error = len(slope), slope.std(ddof=1) / np.sqrt(len(slope))
    statistic = float(slope.mean() / error) if error > 0 else 0.0
    p, mean = float(stats.t.sf(statistic, n - 1)), float(gain.mean())
    gain_error = float(gain.std(ddof=1) / np.sqrt(n))
    held_out = float(likelihood.sum() / held.impressions.sum())
    return TrustTest(statistic, p, mean, gain_error, held_out, n)


def _slopes_towards_trust(learnt: Population, held: Population, without: Fit) -> Floats:
    """Slope of each held query's likelihood where ``learnt`` would go with trust."""
    freed = replace(without, layout=replace(without.layout, tied=False))
    # One step of scoring: gradient of the freed model, over its information.
    uphill = -freed.layout.precision() @ freed.layout.vector(freed.levels)
    for part in learnt.parts():
        uphill += document_scores(part, freed).T @ part.weight
    # Where irrelevant documents are never clicked, the ratio has no end: do not go on.
    _, most = freed.layout.bounds()
    ended = freed.layout.vector(freed.levels) >= most - 0.1
    uphill[ended] = np.minimum(uphill[ended], 0.0)
    step = precision_of(learnt, freed).inverse @ uphill
    parts = held.parts()
    each = [p.by_query(p.weight * (document_scores(p, freed) @ step)) for p in parts]
    return np.concatenate(each)
