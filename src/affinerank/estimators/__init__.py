"""Estimators: from rows of counts to weights, as rows of one table."""

from affinerank.estimators import affine, bayes_ips, full_information, ips, naive
from affinerank.estimators.evidence import (
    Division,
    Estimator,
    Evidence,
    NoOptions,
    Weights,
)
from affinerank.tables import Table

ESTIMATORS: Table[Estimator] = Table(
    "estimator", naive.ROW, ips.ROW, bayes_ips.ROW, affine.ROW, full_information.ROW
)

__all__ = [
    "ESTIMATORS",
    "Division",
    "Estimator",
    "Evidence",
    "NoOptions",
    "Weights",
]
