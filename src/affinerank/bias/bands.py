"""How well an estimated click model is known: standard errors by pool of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from affinerank.bias.gauge import Gauge
from affinerank.clicks.models.trust import TrustModel
from affinerank.support.arrays import Floats
from affinerank.support.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Alpha and beta by pool of ranks with standard errors, in one gauge.

    Attributes:
        alpha: ``[n_pools]`` slope.
        beta: ``[n_pools]`` intercept.
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
        """Return lower and upper ends of the band of ``alpha`` or ``beta``."""
        if not self.known:
            raise ConfigError("there is no band: give replicates")
        normal = NormalDist().inv_cdf(0.5 + level / 2)
        middle, reach = getattr(self, name), normal * getattr(self, f"{name}_error")
        return middle - reach, middle + reach


def replicate_bands(
    click_model: TrustModel, replicates: Sequence[TrustModel], gauge: Gauge
) -> Bands:
    """Return standard deviations over replicates, around the estimate, in a gauge.

    Without replicates there are none. How often such bands cover the truth is not
    known: they leave out the bias of the method itself.
    """
    shown = gauge(click_model)
    if not replicates:
        none = np.full_like(shown.alpha, np.nan)
        return Bands(shown.alpha, shown.beta, none, none)
    depth = click_model.depth
    others = [gauge(replicate.to_depth(depth)) for replicate in replicates]
    values = np.array([[other.alpha[:depth], other.beta[:depth]] for other in others])
    return Bands(shown.alpha, shown.beta, *values.std(axis=0, ddof=1))
