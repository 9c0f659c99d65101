"""Bayes-IPS of Agarwal et al.: clicks are also weighted by P(relevant | click)."""

from __future__ import annotations

from affinerank.estimators.correction import corrected
from affinerank.estimators.estimator import ClipOptions, Estimator, Evidence, Weights


def weigh(evidence: Evidence) -> Weights:
    """Divide clicks by theta (eps+ + eps-) / eps+."""
    theta, plus, minus = evidence.required_click_model.examination(evidence.rows)
    alpha = theta * (plus + minus) / plus
    return corrected(evidence.rows, evidence.options.clipped(alpha, evidence.rows))


MEANING = "relevance as Bayes-IPS has it: trust bias is not removed"
ROW = Estimator("bayes-ips", "Bayes-IPS", "examination", weigh, MEANING, ClipOptions)
