"""Direct: expects relevance by features alone, as clicks of other queries have it."""

from __future__ import annotations

from typing import Any

import numpy as np

from affinerank.estimators.estimator import CLICKS, Estimator, Evidence, Weights
from affinerank.estimators.prior import prior_of
from affinerank.estimators.relevance_scale import RelevanceScale
from affinerank.support.arrays import Floats, sigmoid
from affinerank.support.errors import ConfigError, DataError


def weigh(evidence: Evidence) -> Weights:
    """Take what rankers of other queries predict; own clicks have no part."""
    link, mean, variance = predicted(evidence, ROW.name)
    return link.weights(mean, variance, np.zeros(link.rows.n_docs))


def predicted(evidence: Evidence, name: str) -> tuple[RelevanceScale, Floats, Floats]:
    r"""Take scores for log-odds of relevance, for the estimator ``name``.

    :math:`m_d = \mathrm{sigmoid}(f(x_d))`, with f learnt from clicks by likelihood.

    Returns:
        The link, and mean and variance ``[n_docs]`` of relevance.
    """
    link = RelevanceScale.of(evidence.required_click_model, evidence.rows)
    if not evidence.folds:
        raise ConfigError(f"{name} needs features: give --data")
    if any(CLICKS not in fold.scores for fold in evidence.folds):
        raise DataError("there are too few clicks to explain them by features")
    found = prior_of(link, evidence.folds, lambda f, _: sigmoid(f.scores[CLICKS]))
    return link, *found


def learns(options: Any) -> tuple[str, ...]:
    """Ask for a ranker that explains clicks, out of fold."""
    del options
    return (CLICKS,)


ROW = Estimator("direct", "Direct method", "relative", weigh, learns=learns)
