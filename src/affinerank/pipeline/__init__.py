"""The stages, composed: the only place where one stage's result enters the next.

Names are loaded when they are first used, so that a stage that needs neither torch nor
LightGBM loads neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from affinerank.pipeline.choice import Choice as Choice
    from affinerank.pipeline.choice import ChoiceSettings as ChoiceSettings
    from affinerank.pipeline.choice import train_chosen as train_chosen
    from affinerank.pipeline.database import database_source as database_source
    from affinerank.pipeline.debiasing import debias as debias
    from affinerank.pipeline.debiasing import save_labels as save_labels
    from affinerank.pipeline.description import RANKS_SHOWN as RANKS_SHOWN
    from affinerank.pipeline.description import describe as describe
    from affinerank.pipeline.estimation import estimate_users as estimate_users
    from affinerank.pipeline.evaluation import evaluate_rankers as evaluate_rankers
    from affinerank.pipeline.importance import feature_importance as feature_importance
    from affinerank.pipeline.offpolicy import OffPolicySettings as OffPolicySettings
    from affinerank.pipeline.offpolicy import (
        evaluate_from_clicks as evaluate_from_clicks,
    )
    from affinerank.pipeline.offpolicy import gain_over_logged as gain_over_logged
    from affinerank.pipeline.parts import held_out as held_out
    from affinerank.pipeline.production import (
        train_production_ranker as train_production_ranker,
    )
    from affinerank.pipeline.ranking import rank as rank
    from affinerank.pipeline.safe import train_safe as train_safe
    from affinerank.pipeline.shop import prepare_shop as prepare_shop
    from affinerank.pipeline.shop import simulate_shop as simulate_shop
    from affinerank.pipeline.simulation import prepare_simulation as prepare_simulation
    from affinerank.pipeline.simulation import simulate as simulate
    from affinerank.pipeline.simulation import simulation_rankers as simulation_rankers
    from affinerank.pipeline.training import Trained as Trained
    from affinerank.pipeline.training import given_rates as given_rates
    from affinerank.pipeline.training import ranker_settings as ranker_settings
    from affinerank.pipeline.training import train as train
    from affinerank.pipeline.weighing import weigh as weigh

_HOME = {
    "choice": "Choice ChoiceSettings train_chosen",
    "database": "database_source",
    "debiasing": "debias save_labels",
    "description": "RANKS_SHOWN describe",
    "estimation": "estimate_users",
    "evaluation": "evaluate_rankers",
    "importance": "feature_importance",
    "offpolicy": "OffPolicySettings evaluate_from_clicks gain_over_logged",
    "parts": "held_out",
    "production": "train_production_ranker",
    "ranking": "rank",
    "safe": "train_safe",
    "shop": "prepare_shop simulate_shop",
    "simulation": "prepare_simulation simulate simulation_rankers",
    "training": "Trained given_rates ranker_settings train",
    "weighing": "weigh",
}


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names.split():
            return getattr(import_module(f"affinerank.pipeline.{module}"), name)
    raise AttributeError(f"module 'affinerank.pipeline' has no attribute {name!r}")
