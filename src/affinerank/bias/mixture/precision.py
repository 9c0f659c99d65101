r"""How well a fitted mixture is known: bands by rank, clustered by query.

The variance of the fitted parameters is the sandwich
:math:`H^{-1} M H^{-1}` with :math:`H` the information (the sum over documents of
squared scores, and the prior) and :math:`M` the sum over queries of squared scores: it
lets the documents of a query depend on each other. Bands are of a gauge, because only
there the parameters are known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from affinerank.bias.bands import Bands
from affinerank.bias.gauge import Gauge
from affinerank.bias.mixture.fit import Fit
from affinerank.bias.mixture.levels import Levels
from affinerank.bias.mixture.population import MixtureDocuments
from affinerank.bias.mixture.scores import document_scores
from affinerank.support.arrays import Floats

STEP = 1e-5
NEVER = 6.0  # of log(zeta+ / zeta-): irrelevant documents are not clicked


class Precision(NamedTuple):
    """How well the parameters of a fit are known, ``[size, size]`` each.

    Attributes:
        inverse: Of the information: squared scores of all documents, and the prior.
        covariance: Of the parameters, clustered by query.
    """

    inverse: Floats
    covariance: Floats


def precision_of(population: MixtureDocuments, fit: Fit) -> Precision:
    """Return information and covariance, from one pass over documents."""
    information = fit.layout.precision().toarray()
    squared, n = np.zeros_like(information), 0
    for part in population.parts():
        scores = document_scores(part, fit.levels, fit.layout)
        weighted = sparse.diags(part.weight) @ scores
        information += (scores.T @ weighted).toarray()
        bounds = np.flatnonzero(np.diff(part.query, prepend=-1, append=-1))
        docs = np.arange(part.n_docs)
        by_query = sparse.csr_matrix((np.ones(len(docs)), docs, bounds)) @ weighted
        squared += (by_query.T @ by_query).toarray()
        n += len(bounds) - 1
    inverse = np.linalg.pinv(information, rcond=1e-12, hermitian=True).astype(float)
    covariance = inverse @ squared @ inverse * (n / max(n - 1, 1))
    return Precision(inverse, covariance)


def share_identified(fit: Fit, precision: Precision, mean: Floats) -> Floats:
    """``[n_ranks]`` how far clicks, and not the prior, determine a rank's trust.

    The share of the prior variance of log(zeta+ / zeta-), less its mean over ranks,
    that clicks take away: near 0 the estimate is the prior's, near 1 the clicks'.
    """
    place, n = fit.layout.slices()["ratio"], fit.layout.n_pools
    away = np.eye(n) - 1.0 / n
    left = np.diag(away @ precision.inverse[place, place] @ away)
    before = fit.layout.odds_sd**2 * (1 - 1 / n)
    # Where irrelevant documents are never clicked, that is known, and the log has no
    # end. Of a rank's pools each counts by the clicks it may have.
    share = np.where(fit.levels.log_ratio > NEVER, 1.0, 1.0 - left / before)
    weight = mean * fit.levels.zeta_plus
    return np.asarray((weight @ share) / weight.sum(axis=1))


def mixture_bands(fit: Fit, precision: Precision, gauge: Gauge, mean: Floats) -> Bands:
    """Return bands of a fitted mixture in a gauge, by the delta method.

    Args:
        fit: The mixture.
        precision: How well its parameters are known.
        gauge: Of the bands.
        mean: ``[n_ranks, n_pools]`` what averages pools by rank.
    """
    layout, n = fit.layout, fit.layout.n_ranks
    vector, place = layout.vector(fit.levels), layout.slices()

    def values(levels: Levels) -> Floats:
        shown = gauge(levels.click_model(mean))
        return np.concatenate([shown.alpha, shown.beta])

    # Slopes of alpha and beta in the parameters that they depend on.
    slope = np.zeros((2 * n, layout.size))
    for i in np.r_[place["plus"], place["ratio"]]:
        step = np.zeros_like(vector)
        step[i] = STEP
        up, down = (values(layout.levels(vector + s)) for s in (step, -step))
        slope[:, i] = (up - down) / (2 * STEP)
    covariance = slope @ precision.covariance @ slope.T
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    here = values(fit.levels)
    return Bands(here[:n], here[n:], error[:n], error[n:], covariance)
