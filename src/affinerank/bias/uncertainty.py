r"""How sure an estimated user model is: bands by rank, clustered by query.

The variance of the fitted parameters is the sandwich
:math:`H^{-1} M H^{-1}` with :math:`H` the information (the sum over documents of
squared scores, and the prior) and :math:`M` the sum over queries of squared scores: it
lets the documents of a query depend on each other. Bands are of a gauge, because only
there the parameters are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from affinerank.bias.cells import Population
from affinerank.bias.gauge import display_gauge, inference_gauge
from affinerank.bias.mixture import Prior, prior_precision
from affinerank.bias.mixture_fit import Fit, document_scores
from affinerank.clicks.usermodel import UserModel
from affinerank.errors import ConfigError

Floats = NDArray[np.float64]
Gauge = Callable[[UserModel], UserModel]

STEP = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Alpha and beta by pool of ranks with standard errors, in one gauge.

    Attributes:
        alpha: ``[n_pools]``.
        beta: ``[n_pools]``.
        alpha_error: ``[n_pools]`` standard error of alpha; ``nan`` where not known.
        beta_error: ``[n_pools]`` standard error of beta, likewise.
        covariance: ``[2 n_pools, 2 n_pools]`` of alpha, then beta, where it is known.
    """

    alpha: Floats
    beta: Floats
    alpha_error: Floats
    beta_error: Floats
    covariance: Floats | None = None

    @property
    def known(self) -> bool:
        """Whether there are standard errors."""
        return not np.any(np.isnan(self.alpha_error))

    def interval(self, name: str, level: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper end of the band of ``alpha`` or ``beta``."""
        if not self.known:
            raise ConfigError("there is no band: give replicates")
        reach = stats.norm.ppf(0.5 + level / 2) * getattr(self, f"{name}_error")
        middle = getattr(self, name)
        return middle - reach, middle + reach


@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """How well the parameters of a fit are known, ``[size, size]`` each.

    Attributes:
        information: Squared scores of all documents, and the prior's precision.
        covariance: Of the parameters, clustered by query.
    """

    information: Floats
    covariance: Floats


def precision_of(population: Population, fit: Fit, prior: Prior) -> Precision:
    """Information and covariance of the parameters, from one pass over documents."""
    told = prior_precision(fit.layout, prior)
    squared, n = np.zeros_like(told), 0
    for part in population.parts():
        scores = document_scores(part, fit)
        weighted = sparse.diags(part.weight) @ scores
        told += (scores.T @ weighted).toarray()
        names, query = np.unique(part.documents.query, return_inverse=True)
        together = sparse.csr_matrix(
            (np.ones(len(query)), (query, np.arange(len(query)))),
            (len(names), len(query)),
        )
        by_query = together @ weighted
        squared += (by_query.T @ by_query).toarray()
        n += len(names)
    inverse = np.linalg.pinv(told, rcond=1e-12, hermitian=True)
    return Precision(told, inverse @ squared @ inverse * (n / max(n - 1, 1)))


def told_by_clicks(fit: Fit, prior: Prior, precision: Precision) -> Floats:
    """``[n_pools]`` how far clicks, and not the prior, say how a rank's trust differs.

    The share of the prior variance of log(zeta+ / zeta-), less its mean over ranks,
    that clicks take away: near 0 the estimate is the prior's, near 1 the clicks'.
    """
    variance = np.linalg.pinv(precision.information, rcond=1e-12, hermitian=True)
    place, n = fit.layout.slices()["ratio"], fit.layout.n_pools
    away = np.eye(n) - 1.0 / n
    left = np.diag(away @ variance[place, place] @ away)
    return np.asarray(1.0 - left / (prior.odds_sd**2 * (1 - 1 / n)), dtype=np.float64)


def mixture_bands(fit: Fit, precision: Precision, gauge: Gauge) -> Bands:
    """Bands of a fitted mixture in a gauge, by the delta method."""
    variance = precision.covariance
    vector = fit.layout.vector(fit.levels)
    place = fit.layout.slices()
    free = np.r_[place["plus"], place["ratio"]]

    def values(at: Floats) -> Floats:
        levels = fit.layout.levels(at)
        shown = gauge(
            UserModel(alpha=levels.alpha, beta=levels.zeta_minus, identified="gauge")
        )
        return np.concatenate([shown.alpha, shown.beta])

    slope = np.zeros((2 * fit.layout.n_pools, fit.layout.size))
    for i in free:
        step = np.zeros_like(vector)
        step[i] = STEP
        slope[:, i] = (values(vector + step) - values(vector - step)) / (2 * STEP)
    covariance = slope @ variance @ slope.T
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    here = values(vector)
    n = fit.layout.n_pools
    return Bands(here[:n], here[n:], error[:n], error[n:], covariance)


def for_inference(impressions: Floats) -> Gauge:
    """The gauge for inference, over these impressions by pool."""
    return lambda users: inference_gauge(users, impressions)


def for_display() -> Gauge:
    """The gauge for display: alpha 1 and beta 0 at the first rank."""
    return display_gauge
