"""Direct: expects relevance by features alone, as clicks of other queries have it."""

from __future__ import annotations

from typing import Any

import numpy as np

from affinerank.arrays import sigmoid
from affinerank.errors import ConfigError, DataError
from affinerank.estimators.evidence import CLICKS, Estimator, Evidence, Weights
from affinerank.estimators.prior import Prior, prior_of
from affinerank.estimators.unit import UnitLink


def weigh(evidence: Evidence) -> Weights:
    """Take what rankers of other queries predict; own clicks have no part."""
    link, prior = predicted(evidence, ROW.name)
    return link.weights(prior.mean, prior.variance, np.zeros(link.rows.n_docs))


def predicted(evidence: Evidence, name: str) -> tuple[UnitLink, Prior]:
    r"""Take scores for log-odds of relevance, for the estimator ``name``.

    :math:`m_d = \mathrm{sigmoid}(f(x_d))`, with f learnt from clicks by likelihood.
    """
    link = UnitLink.of(evidence.known_users, evidence.rows)
    if not evidence.folds:
        raise ConfigError(f"{name} needs features: give --data")
    if any(CLICKS not in fold.scores for fold in evidence.folds):
        raise DataError("there are too few clicks to explain them by features")
    return link, prior_of(link, evidence.folds, lambda f, _: sigmoid(f.scores[CLICKS]))


def learns(options: Any) -> tuple[str, ...]:
    """Ask for a ranker that explains clicks, out of fold."""
    del options
    return (CLICKS,)


ROW = Estimator("direct", "Direct method", "gauge", weigh, learns=learns)
