"""Bands of the regression EM: the spread of estimates from resampled queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.uncertainty import Bands, Gauge
from affinerank.clicks.usermodel import UserModel

Floats = NDArray[np.float64]


def query_weights(clicks: Floats, n_queries: int, rng: np.random.Generator) -> Floats:
    """``[n_queries]`` how often a bootstrap draws each query that was shown.

    Args:
        clicks: ``[n_queries]`` of each query; ``nan`` for those never shown. A draw
            without a click is drawn again: nothing could be estimated from it.
        n_queries: Number of queries.
        rng: Draws.
    """
    shown = np.flatnonzero(~np.isnan(clicks))
    while True:
        drawn = rng.choice(shown, size=len(shown))
        if clicks[drawn].sum() > 0:
            return np.bincount(drawn, minlength=n_queries).astype(np.float64)


def replicate_bands(
    users: UserModel, replicates: Sequence[UserModel], gauge: Gauge
) -> Bands:
    """Standard deviations over replicates, around the estimate, in a gauge.

    Without replicates there are none. How often such bands cover the truth is not
    known: the EM's own bias is not in them.
    """
    shown = gauge(users)
    if not replicates:
        none = np.full_like(shown.alpha, np.nan)
        return Bands(shown.alpha, shown.beta, none, none)
    others = [gauge(replicate.to_depth(users.depth)) for replicate in replicates]
    alpha = np.stack([other.alpha[: users.depth] for other in others])
    beta = np.stack([other.beta[: users.depth] for other in others])
    return Bands(
        shown.alpha, shown.beta, alpha.std(axis=0, ddof=1), beta.std(axis=0, ddof=1)
    )
