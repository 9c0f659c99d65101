"""AffineRank: learn a better ranking from clicks you cannot trust.

Names are loaded when they are first used, so that importing the package stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from affinerank.bias.gauge import gauge_error
    from affinerank.clicks.counting import count_log, open_table
    from affinerank.clicks.counts import ClickCounts
    from affinerank.clicks.join import join_counts
    from affinerank.clicks.log import LogOptions
    from affinerank.clicks.simulate import Traffic, simulate_counts, write_session_log
    from affinerank.clicks.usermodel import UserModel
    from affinerank.corrections import (
        ESTIMATORS,
        Correction,
        document_weights,
        estimate_metric,
    )
    from affinerank.data.catalog import DataSource, Splits, load
    from affinerank.data.dataset import RankingDataset
    from affinerank.data.features import FeatureMapping
    from affinerank.data.letor import read_letor
    from affinerank.data.parquet import read_parquet, write_parquet
    from affinerank.errors import (
        AffineRankError,
        AffineRankWarning,
        ConfigError,
        DataError,
    )
    from affinerank.metrics import Metric, MetricValues
    from affinerank.pipeline import (
        EstimationSettings,
        estimate_users,
        evaluate_rankers,
        judge,
        prepare_simulation,
        score,
        train_production_ranker,
        train_rankers,
    )
    from affinerank.rankers.gbdt import TreeRanker
    from affinerank.rankers.load import load_ranker
    from affinerank.rankers.mlp import MLPRanker, NetworkSettings
    from affinerank.sklearn import AffineRanker

_HOME = {
    "AffineRankError": "errors",
    "AffineRankWarning": "errors",
    "AffineRanker": "sklearn",
    "ClickCounts": "clicks.counts",
    "ConfigError": "errors",
    "Correction": "corrections",
    "DataError": "errors",
    "DataSource": "data.catalog",
    "ESTIMATORS": "corrections",
    "EstimationSettings": "pipeline",
    "FeatureMapping": "data.features",
    "LogOptions": "clicks.log",
    "MLPRanker": "rankers.mlp",
    "Metric": "metrics",
    "MetricValues": "metrics",
    "NetworkSettings": "rankers.mlp",
    "RankingDataset": "data.dataset",
    "Splits": "data.catalog",
    "Traffic": "clicks.simulate",
    "TreeRanker": "rankers.gbdt",
    "UserModel": "clicks.usermodel",
    "count_log": "clicks.counting",
    "document_weights": "corrections",
    "estimate_metric": "corrections",
    "estimate_users": "pipeline",
    "evaluate_rankers": "pipeline",
    "gauge_error": "bias.gauge",
    "join_counts": "clicks.join",
    "judge": "pipeline",
    "load": "data.catalog",
    "load_ranker": "rankers.load",
    "open_table": "clicks.counting",
    "prepare_simulation": "pipeline",
    "read_letor": "data.letor",
    "read_parquet": "data.parquet",
    "score": "pipeline",
    "simulate_counts": "clicks.simulate",
    "train_production_ranker": "pipeline",
    "train_rankers": "pipeline",
    "write_parquet": "data.parquet",
    "write_session_log": "clicks.simulate",
}

__all__ = [
    "ESTIMATORS",
    "AffineRankError",
    "AffineRankWarning",
    "AffineRanker",
    "ClickCounts",
    "ConfigError",
    "Correction",
    "DataError",
    "DataSource",
    "EstimationSettings",
    "FeatureMapping",
    "LogOptions",
    "MLPRanker",
    "Metric",
    "MetricValues",
    "NetworkSettings",
    "RankingDataset",
    "Splits",
    "Traffic",
    "TreeRanker",
    "UserModel",
    "count_log",
    "document_weights",
    "estimate_metric",
    "estimate_users",
    "evaluate_rankers",
    "gauge_error",
    "join_counts",
    "judge",
    "load",
    "load_ranker",
    "open_table",
    "prepare_simulation",
    "read_letor",
    "read_parquet",
    "score",
    "simulate_counts",
    "train_production_ranker",
    "train_rankers",
    "write_parquet",
    "write_session_log",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'affinerank' has no attribute {name!r}")
    return getattr(import_module(f"affinerank.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
