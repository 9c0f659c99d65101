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
from affinerank.estimators.estimator import Division, Estimator, Evidence, Fold, Weights
from affinerank.support.registry import Table

_DIVIDE = (naive, ips, bayes_ips, affine, policy_aware, intervention_aware, cascade_ips)
_EXPECT = (mixture_based, direct, doubly_robust, posterior, full_information)
ESTIMATORS: Table[Estimator] = Table(
    "estimator", *(module.ROW for module in (*_DIVIDE, *_EXPECT))
)

__all__ = ["ESTIMATORS", "Division", "Estimator", "Evidence", "Fold", "Weights"]
