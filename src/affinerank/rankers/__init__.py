"""Rankers: from features and weights to scores, as rows of one table."""

from affinerank.rankers import blend, linear
from affinerank.rankers.networks import settings as mlp
from affinerank.rankers.ranker import (
    Fitted,
    Model,
    Ranker,
    RankerKind,
    predict_all,
    score,
)
from affinerank.rankers.targets import Targets, Validation
from affinerank.rankers.trees import lightgbm as trees
from affinerank.support.registry import Registry

RANKERS: Registry[RankerKind] = Registry(
    "ranker", blend.ROW, trees.ROW, linear.ROW, mlp.ROW
)

__all__ = [
    "RANKERS",
    "Fitted",
    "Model",
    "Ranker",
    "RankerKind",
    "Targets",
    "Validation",
    "predict_all",
    "score",
]
