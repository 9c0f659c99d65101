"""AffineRank: learn a better ranking from clicks you cannot trust.

Names are loaded when they are first used, so that importing the package stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from affinerank.audit import audit_file as audit_file
    from affinerank.bias import METHODS as METHODS
    from affinerank.bias.gauge import gauge_error as gauge_error
    from affinerank.bias.method import EstimationSettings as EstimationSettings
    from affinerank.clicks.counting import count_log as count_log
    from affinerank.clicks.counting import open_table as open_table
    from affinerank.clicks.counts import ClickCounts as ClickCounts
    from affinerank.clicks.frames import count as count
    from affinerank.clicks.log import LogOptions as LogOptions
    from affinerank.clicks.models import CLICK_MODELS as CLICK_MODELS
    from affinerank.clicks.models.trust import TrustModel as TrustModel
    from affinerank.clicks.policies import POLICIES as POLICIES
    from affinerank.clicks.rows import ClickRows as ClickRows
    from affinerank.clicks.rows import rows_of as rows_of
    from affinerank.clicks.simulate import simulate_counts as simulate_counts
    from affinerank.clicks.simulate import write_session_log as write_session_log
    from affinerank.clicks.traffic import Traffic as Traffic
    from affinerank.clicks.users import load_users as load_users
    from affinerank.clicks.users import save_users as save_users
    from affinerank.data.catalog import DataSource as DataSource
    from affinerank.data.catalog import Splits as Splits
    from affinerank.data.catalog import load as load
    from affinerank.data.dataset import RankingDataset as RankingDataset
    from affinerank.data.features import FeatureMapping as FeatureMapping
    from affinerank.data.letor import read_letor as read_letor
    from affinerank.data.parquet import read_parquet as read_parquet
    from affinerank.data.parquet import write_parquet as write_parquet
    from affinerank.errors import AffineRankError as AffineRankError
    from affinerank.errors import AffineRankWarning as AffineRankWarning
    from affinerank.errors import ConfigError as ConfigError
    from affinerank.errors import DataError as DataError
    from affinerank.estimators import ESTIMATORS as ESTIMATORS
    from affinerank.estimators import Estimator as Estimator
    from affinerank.estimators import Evidence as Evidence
    from affinerank.estimators import Weights as Weights
    from affinerank.estimators.correction import corrected as corrected
    from affinerank.metrics import Metric as Metric
    from affinerank.metrics import MetricValues as MetricValues
    from affinerank.pipeline import debias as debias
    from affinerank.pipeline import estimate_users as estimate_users
    from affinerank.pipeline import evaluate_from_clicks as evaluate_from_clicks
    from affinerank.pipeline import evaluate_rankers as evaluate_rankers
    from affinerank.pipeline import feature_importance as feature_importance
    from affinerank.pipeline import prepare_simulation as prepare_simulation
    from affinerank.pipeline import ranker_settings as ranker_settings
    from affinerank.pipeline import train as train
    from affinerank.pipeline import train_production_ranker as train_production_ranker
    from affinerank.pipeline import train_safe as train_safe
    from affinerank.pipeline import weigh as weigh
    from affinerank.rankers import RANKERS as RANKERS
    from affinerank.rankers.blend import Blend as Blend
    from affinerank.rankers.blend import BlendSettings as BlendSettings
    from affinerank.rankers.loading import load_ranker as load_ranker
    from affinerank.rankers.losses import LOSSES as LOSSES
    from affinerank.rankers.mlp import NetworkSettings as NetworkSettings
    from affinerank.rankers.ranker import Ranker as Ranker
    from affinerank.rankers.ranker import judge as judge
    from affinerank.rankers.ranker import score as score
    from affinerank.rankers.trees import TreeSettings as TreeSettings
    from affinerank.sklearn import AffineRanker as AffineRanker

# Modules, and the names that they have.
_HOME = """
audit:audit_file bias:METHODS bias.gauge:gauge_error bias.method:EstimationSettings
clicks.counting:count_log,open_table clicks.counts:ClickCounts clicks.frames:count
clicks.log:LogOptions clicks.models:CLICK_MODELS clicks.models.trust:TrustModel
clicks.policies:POLICIES clicks.rows:ClickRows,rows_of clicks.traffic:Traffic
clicks.simulate:simulate_counts,write_session_log clicks.users:load_users,save_users
data.catalog:DataSource,Splits,load data.dataset:RankingDataset
data.features:FeatureMapping data.letor:read_letor
data.parquet:read_parquet,write_parquet
errors:AffineRankError,AffineRankWarning,ConfigError,DataError
estimators:ESTIMATORS,Estimator,Evidence,Weights estimators.correction:corrected
metrics:Metric,MetricValues pipeline:debias,estimate_users,evaluate_from_clicks
pipeline:evaluate_rankers,feature_importance,prepare_simulation,ranker_settings
pipeline:train,train_production_ranker,train_safe,weigh
rankers:RANKERS rankers.blend:Blend,BlendSettings rankers.loading:load_ranker
rankers.losses:LOSSES
rankers.mlp:NetworkSettings rankers.ranker:Ranker,judge,score
rankers.trees:TreeSettings sklearn:AffineRanker
"""
_MODULE_OF = {
    name: module
    for module, _, names in (entry.partition(":") for entry in _HOME.split())
    for name in names.split(",")
}
__all__ = [*_MODULE_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'affinerank' has no attribute {name!r}")
    from affinerank.extras import missing_library_named

    with missing_library_named():
        return getattr(import_module(f"affinerank.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
