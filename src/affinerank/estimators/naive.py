"""Naive: take clicks for relevance, as if nothing were biased."""

from __future__ import annotations

from affinerank.estimators.correction import corrected
from affinerank.estimators.estimator import Estimator, Evidence, Weights


def weigh(evidence: Evidence) -> Weights:
    """Clicks per impression: alpha is 1 and beta 0."""
    return corrected(evidence.rows, alpha=1.0, beta=0.0)


MEANING = "clicks per impression, not corrected"
ROW = Estimator("naive", "No correction", "nothing", weigh, MEANING)
