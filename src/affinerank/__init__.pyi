"""Public names, and the modules that they are loaded from at first use."""

from .audit import audit_file as audit_file
from .bias import METHODS as METHODS
from .bias.gauge import click_model_error as click_model_error
from .bias.method import EstimationSettings as EstimationSettings
from .clicks.models import CLICK_MODELS as CLICK_MODELS
from .clicks.models.files import load_click_model as load_click_model
from .clicks.models.files import save_click_model as save_click_model
from .clicks.models.trust import TrustModel as TrustModel
from .clicks.policies import POLICIES as POLICIES
from .clicks.simulation import simulate_counts as simulate_counts
from .clicks.simulation import write_session_log as write_session_log
from .clicks.traffic import Traffic as Traffic
from .counts.counting import count_log as count_log
from .counts.counting import open_table as open_table
from .counts.counts import ClickCounts as ClickCounts
from .counts.frames import count as count
from .counts.rows import ClickRows as ClickRows
from .counts.rows import join_counts as join_counts
from .data.dataset import RankingDataset as RankingDataset
from .data.feature_mapping import FeatureMapping as FeatureMapping
from .data.letor import read_letor as read_letor
from .data.parquet import read_parquet as read_parquet
from .data.parquet import write_parquet as write_parquet
from .data.sources import DataSource as DataSource
from .data.sources import Splits as Splits
from .data.sources import load as load
from .estimators import ESTIMATORS as ESTIMATORS
from .estimators import Estimator as Estimator
from .estimators import Evidence as Evidence
from .estimators import Weights as Weights
from .estimators.correction import corrected as corrected
from .evaluation.metrics import Metric as Metric
from .evaluation.metrics import MetricValues as MetricValues
from .evaluation.metrics import evaluate_scores as evaluate_scores
from .logs.options import LogOptions as LogOptions
from .pipeline.debias import debias as debias
from .pipeline.evaluate import evaluate_rankers as evaluate_rankers
from .pipeline.evaluate_clicks import evaluate_from_clicks as evaluate_from_clicks
from .pipeline.importance import feature_importance as feature_importance
from .pipeline.safe import train_safe as train_safe
from .pipeline.simulate import prepare_simulation as prepare_simulation
from .pipeline.steps.click_model import estimate_click_model as estimate_click_model
from .pipeline.steps.production import (
    train_production_ranker as train_production_ranker,
)
from .pipeline.steps.train_settings import TrainSettings as TrainSettings
from .pipeline.steps.train_settings import ranker_settings as ranker_settings
from .pipeline.steps.weighing import weigh as weigh
from .pipeline.train import train as train
from .rankers import RANKERS as RANKERS
from .rankers.blend import Blend as Blend
from .rankers.blend import BlendSettings as BlendSettings
from .rankers.loading import load_ranker as load_ranker
from .rankers.networks.losses import LOSSES as LOSSES
from .rankers.networks.settings import NetworkSettings as NetworkSettings
from .rankers.ranker import Ranker as Ranker
from .rankers.ranker import score as score
from .rankers.trees.lightgbm import TreeSettings as TreeSettings
from .sklearn import AffineRanker as AffineRanker
from .support.errors import AffineRankError as AffineRankError
from .support.errors import AffineRankWarning as AffineRankWarning
from .support.errors import ConfigError as ConfigError
from .support.errors import DataError as DataError

__all__ = [
    "CLICK_MODELS",
    "ESTIMATORS",
    "LOSSES",
    "METHODS",
    "POLICIES",
    "RANKERS",
    "AffineRankError",
    "AffineRankWarning",
    "AffineRanker",
    "Blend",
    "BlendSettings",
    "ClickCounts",
    "ClickRows",
    "ConfigError",
    "DataError",
    "DataSource",
    "EstimationSettings",
    "Estimator",
    "Evidence",
    "FeatureMapping",
    "LogOptions",
    "Metric",
    "MetricValues",
    "NetworkSettings",
    "Ranker",
    "RankingDataset",
    "Splits",
    "Traffic",
    "TrainSettings",
    "TreeSettings",
    "TrustModel",
    "Weights",
    "audit_file",
    "click_model_error",
    "corrected",
    "count",
    "count_log",
    "debias",
    "estimate_click_model",
    "evaluate_from_clicks",
    "evaluate_rankers",
    "evaluate_scores",
    "feature_importance",
    "join_counts",
    "load",
    "load_click_model",
    "load_ranker",
    "open_table",
    "prepare_simulation",
    "ranker_settings",
    "read_letor",
    "read_parquet",
    "save_click_model",
    "score",
    "simulate_counts",
    "train",
    "train_production_ranker",
    "train_safe",
    "weigh",
    "write_parquet",
    "write_session_log",
]
