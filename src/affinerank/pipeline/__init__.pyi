"""Public names of the pipeline, and the modules that they are loaded from."""

from affinerank.counts.holdout import held_out as held_out
from affinerank.data.databases import database_source as database_source

from .choice import Choice as Choice
from .choice import ChoiceSettings as ChoiceSettings
from .choice import train_chosen as train_chosen
from .debiasing import debias as debias
from .debiasing import save_labels as save_labels
from .description import RANKS_SHOWN as RANKS_SHOWN
from .description import describe as describe
from .estimation import estimate_users as estimate_users
from .evaluation import evaluate_rankers as evaluate_rankers
from .importance import feature_importance as feature_importance
from .offpolicy import OffPolicySettings as OffPolicySettings
from .offpolicy import evaluate_from_clicks as evaluate_from_clicks
from .offpolicy import gain_over_logged as gain_over_logged
from .production import train_production_ranker as train_production_ranker
from .ranking import rank as rank
from .safe import train_safe as train_safe
from .shop import prepare_shop as prepare_shop
from .shop import simulate_shop as simulate_shop
from .simulation import prepare_simulation as prepare_simulation
from .simulation import simulate as simulate
from .simulation import simulation_rankers as simulation_rankers
from .training import Trained as Trained
from .training import given_rates as given_rates
from .training import ranker_settings as ranker_settings
from .training import train as train
from .weighing import weigh as weigh

__all__ = [
    "RANKS_SHOWN",
    "Choice",
    "ChoiceSettings",
    "OffPolicySettings",
    "Trained",
    "database_source",
    "debias",
    "describe",
    "estimate_users",
    "evaluate_from_clicks",
    "evaluate_rankers",
    "feature_importance",
    "gain_over_logged",
    "given_rates",
    "held_out",
    "prepare_shop",
    "prepare_simulation",
    "rank",
    "ranker_settings",
    "save_labels",
    "simulate",
    "simulate_shop",
    "simulation_rankers",
    "train",
    "train_chosen",
    "train_production_ranker",
    "train_safe",
    "weigh",
]
