"""Direct: expects relevance by features alone, as clicks of other queries have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from affinerank.arrays import sigmoid
from affinerank.errors import ConfigError, DataError
from affinerank.estimators.evidence import CLICKS, Estimator, Evidence, Fold, Weights
from affinerank.estimators.prior import RHO_GUESS, Prior, part_of, spread_around
from affinerank.estimators.unit import UnitLink


def weigh(evidence: Evidence) -> Weights:
    """Take what rankers of other queries predict; own clicks have no part."""
    rows = evidence.rows
    link, prior = predicted(evidence, ROW.name)
    known = rows.sessions[rows.query_of_doc] > 0
    return Weights(
        np.where(known, link.back(prior.mean), 0.0),
        known,
        rows.share,
        np.where(known, link.span**2 * prior.variance, 0.0),
        kappa=np.zeros(rows.n_docs),
    )


def predicted(evidence: Evidence, name: str) -> tuple[UnitLink, Prior]:
    """Predict relevance from 0 to 1, for the estimator ``name``."""
    link = UnitLink.of(evidence.known_users, evidence.rows)
    if not evidence.folds:
        raise ConfigError(f"{name} needs features: give --data")
    return link, direct_prior(link, evidence.folds)


def direct_prior(link: UnitLink, folds: Sequence[Fold]) -> Prior:
    r"""Take scores for log-odds of relevance; how far they are off, by moments.

    :math:`m_d = \mathrm{sigmoid}(f(x_d))`, with f learnt from clicks by likelihood.
    """
    rows = link.rows
    mean, rho = np.full(rows.n_docs, 0.5), np.full(rows.n_docs, RHO_GUESS)
    for fold in folds:
        here = fold.predicts[rows.query_of_doc]
        if CLICKS not in fold.scores:
            raise DataError("there are too few clicks to explain them by features")
        expected = sigmoid(fold.scores[CLICKS])
        mean[here] = expected[here]
        rho[here] = spread_around(expected, part_of(link, fold.weighs))
    return Prior(mean, rho)


def learns(options: Any) -> tuple[str, ...]:
    """Ask for a ranker that explains clicks, out of fold."""
    del options
    return (CLICKS,)


ROW = Estimator(
    name="direct", title="Direct method", needs="gauge", weigh=weigh, learns=learns
)
