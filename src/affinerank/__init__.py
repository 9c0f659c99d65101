"""AffineRank: learn a better ranking from clicks you cannot trust.

Names are loaded when they are first used, so that importing the package stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from affinerank.data.catalog import DataSource, Splits, load
    from affinerank.data.dataset import FeatureMapping, RankingDataset
    from affinerank.data.letor import read_letor
    from affinerank.data.parquet import read_parquet, write_parquet
    from affinerank.errors import (
        AffineRankError,
        AffineRankWarning,
        ConfigError,
        DataError,
    )
    from affinerank.metrics import Metric, MetricValues
    from affinerank.pipeline import judge, score, train_production_ranker
    from affinerank.rankers.gbdt import TreeRanker

_HOME = {
    "AffineRankError": "errors",
    "AffineRankWarning": "errors",
    "ConfigError": "errors",
    "DataError": "errors",
    "DataSource": "data.catalog",
    "FeatureMapping": "data.dataset",
    "Metric": "metrics",
    "MetricValues": "metrics",
    "RankingDataset": "data.dataset",
    "Splits": "data.catalog",
    "TreeRanker": "rankers.gbdt",
    "judge": "pipeline",
    "load": "data.catalog",
    "read_letor": "data.letor",
    "read_parquet": "data.parquet",
    "score": "pipeline",
    "train_production_ranker": "pipeline",
    "write_parquet": "data.parquet",
}

__all__ = [
    "AffineRankError",
    "AffineRankWarning",
    "ConfigError",
    "DataError",
    "DataSource",
    "FeatureMapping",
    "Metric",
    "MetricValues",
    "RankingDataset",
    "Splits",
    "TreeRanker",
    "judge",
    "load",
    "read_letor",
    "read_parquet",
    "score",
    "train_production_ranker",
    "write_parquet",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'affinerank' has no attribute {name!r}")
    return getattr(import_module(f"affinerank.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
