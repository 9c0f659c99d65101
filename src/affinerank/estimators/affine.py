"""Affine: removes position and trust bias (Vardasbi, Oosterhuis, de Rijke, 2020)."""

from __future__ import annotations

from affinerank.estimators.correction import corrected
from affinerank.estimators.evidence import Division, Estimator, Evidence, Weights


def weigh(evidence: Evidence) -> Weights:
    """Subtract the clicks that trust alone brings, then divide: (c - beta) / alpha."""
    alpha, beta = evidence.known_users.at(evidence.rows)
    alpha = evidence.options.clipped(alpha, evidence.rows)
    return corrected(evidence.rows, alpha, beta)


ROW = Estimator(
    name="affine", title="Affine", needs="gauge", weigh=weigh, options=Division
)
