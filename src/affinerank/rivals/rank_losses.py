"""Losses that bound ranks, as rows: propensity SVM-rank, and a bound of DCG.

What they compute stands in :mod:`affinerank.rivals.rank_bounds`, which needs torch.
"""

from affinerank.rankers.networks.losses import Loss
from affinerank.support.registry import later

SVM_RANK = Loss(
    "svm-rank",
    "Propensity SVM-rank",
    later("affinerank.rivals.rank_bounds:svm_rank"),
    signed=False,
    gathers=True,
)
DCG_BOUND = Loss(
    "dcg-bound",
    "Bound of DCG",
    later("affinerank.rivals.rank_bounds:dcg_bound"),
    signed=False,
    gathers=True,
)
