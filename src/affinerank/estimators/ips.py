"""Inverse propensity scoring: removes position bias, and only that."""

from __future__ import annotations

from affinerank.estimators.correction import corrected
from affinerank.estimators.estimator import ClipOptions, Estimator, Evidence, Weights


def weigh(evidence: Evidence) -> Weights:
    """Divide clicks by examination: alpha is theta and beta 0."""
    theta, _, _ = evidence.required_click_model.examination(evidence.rows)
    return corrected(evidence.rows, evidence.options.clipped(theta, evidence.rows))


MEANING = "relevance as IPS has it: trust bias is not removed"
ROW = Estimator("ips", "IPS", "examination", weigh, MEANING, ClipOptions)
