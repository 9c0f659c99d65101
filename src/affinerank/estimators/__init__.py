"""Estimators: from rows of counts to weights, as rows of one table."""

from affinerank.estimators import (
    affine,
    bayes_ips,
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
from affinerank.estimators.estimator import (
    ClipOptions,
    Estimator,
    Evidence,
    Fold,
    Weights,
)
from affinerank.support.registry import Registry

_DIVIDE = (naive, ips, bayes_ips, affine, policy_aware, intervention_aware)
_EXPECT = (mixture_based, direct, doubly_robust, posterior, full_information)
ESTIMATORS: Registry[Estimator] = Registry(
    "estimator", *(module.ROW for module in (*_DIVIDE, *_EXPECT))
)

__all__ = ["ESTIMATORS", "ClipOptions", "Estimator", "Evidence", "Fold", "Weights"]
