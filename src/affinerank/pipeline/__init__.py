"""The stages, composed: the only place where one stage's result enters the next."""

from affinerank.pipeline.description import (
    RANKS_SHOWN,
    ProductionProfile,
    describe,
    profile_production,
)
from affinerank.pipeline.evaluation import evaluate_rankers
from affinerank.pipeline.production import (
    JUDGED_BY,
    PRODUCTION_QUERIES,
    Ranker,
    judge,
    score,
    train_production_ranker,
)
from affinerank.pipeline.simulation import (
    prepare_simulation,
    relevance_of,
    simulate,
    simulation_rankers,
)
from affinerank.pipeline.training import (
    FULL_INFORMATION,
    Trained,
    full_information,
    held_out,
    save_trained,
    stacked,
    train_rankers,
    weigh,
)

__all__ = [
    "FULL_INFORMATION",
    "JUDGED_BY",
    "PRODUCTION_QUERIES",
    "RANKS_SHOWN",
    "ProductionProfile",
    "Ranker",
    "Trained",
    "describe",
    "evaluate_rankers",
    "full_information",
    "held_out",
    "judge",
    "prepare_simulation",
    "profile_production",
    "relevance_of",
    "save_trained",
    "score",
    "simulate",
    "simulation_rankers",
    "stacked",
    "train_production_ranker",
    "train_rankers",
    "weigh",
]
