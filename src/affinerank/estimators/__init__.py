"""Estimators: from rows of counts to weights, as rows of one table."""

from affinerank.estimators import (
    affine,
    bayes_ips,
    cascade_ips,
    direct,
    doubly_robust,
    full_information,
    intervention_aware,
    ips,
    mixture_based,
    naive,
    policy_aware,
    posterior,
)
from affinerank.estimators.evidence import (
    Division,
    Estimator,
    Evidence,
    Fold,
    NoOptions,
    Weights,
)
from affinerank.tables import Table

ESTIMATORS: Table[Estimator] = Table(
    "estimator",
    naive.ROW,
    ips.ROW,
    bayes_ips.ROW,
    affine.ROW,
    policy_aware.ROW,
    intervention_aware.ROW,
    cascade_ips.ROW,
    mixture_based.ROW,
    direct.ROW,
    doubly_robust.ROW,
    posterior.ROW,
    full_information.ROW,
)

__all__ = [
    "ESTIMATORS",
    "Division",
    "Estimator",
    "Evidence",
    "Fold",
    "NoOptions",
    "Weights",
]
