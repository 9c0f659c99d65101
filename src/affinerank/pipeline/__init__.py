"""The stages, composed: the only place where one stage's result enters the next."""

from affinerank.pipeline.audit import audit, audit_file
from affinerank.pipeline.choice import (
    AUTO,
    CLIP,
    Candidate,
    Choice,
    ChoiceSettings,
    compare,
    train_chosen,
)
from affinerank.pipeline.debias import debias, save_labels
from affinerank.pipeline.description import (
    RANKS_SHOWN,
    ProductionProfile,
    describe,
    profile_production,
)
from affinerank.pipeline.estimated import Estimated
from affinerank.pipeline.estimation import estimate_users
from affinerank.pipeline.estimation_methods import METHODS, EstimationSettings
from affinerank.pipeline.evaluation import evaluate_rankers
from affinerank.pipeline.lesson import (
    FULL_INFORMATION,
    full_information,
    needs_users,
    stacked,
    weigh,
)
from affinerank.pipeline.offpolicy import (
    OffPolicySettings,
    evaluate_from_clicks,
    gain_over_logged,
)
from affinerank.pipeline.parts import held_out
from affinerank.pipeline.production import (
    JUDGED_BY,
    PRODUCTION_QUERIES,
    Ranker,
    judge,
    score,
    train_production_ranker,
)
from affinerank.pipeline.rows import click_rows, rows_and_features
from affinerank.pipeline.simulation import (
    prepare_simulation,
    relevance_of,
    simulate,
    simulation_rankers,
)
from affinerank.pipeline.training import Trained, save_trained, train_rankers
from affinerank.pipeline.trees import TrainedTrees, save_trees, train_trees

__all__ = [
    "AUTO",
    "CLIP",
    "FULL_INFORMATION",
    "JUDGED_BY",
    "METHODS",
    "PRODUCTION_QUERIES",
    "RANKS_SHOWN",
    "Candidate",
    "Choice",
    "ChoiceSettings",
    "Estimated",
    "EstimationSettings",
    "OffPolicySettings",
    "ProductionProfile",
    "Ranker",
    "Trained",
    "TrainedTrees",
    "audit",
    "audit_file",
    "click_rows",
    "compare",
    "debias",
    "describe",
    "estimate_users",
    "evaluate_from_clicks",
    "evaluate_rankers",
    "full_information",
    "gain_over_logged",
    "held_out",
    "judge",
    "needs_users",
    "prepare_simulation",
    "profile_production",
    "relevance_of",
    "rows_and_features",
    "save_labels",
    "save_trained",
    "save_trees",
    "score",
    "simulate",
    "simulation_rankers",
    "stacked",
    "train_chosen",
    "train_production_ranker",
    "train_rankers",
    "train_trees",
    "weigh",
]
