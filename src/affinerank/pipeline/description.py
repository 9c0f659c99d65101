"""What a data set holds, and how production rankers would order it."""

from __future__ import annotations

from typing import Any

import numpy as np

from affinerank.data.dataset import RankingDataset
from affinerank.data.read_options import Split
from affinerank.data.sources import DataSource
from affinerank.defaults import RELEVANT_ABOVE
from affinerank.evaluation.metrics import MAIN_METRIC, evaluate_scores
from affinerank.pipeline.steps.production import (
    PRODUCTION_QUERIES,
    train_production_ranker,
)
from affinerank.rankers.ranker import score
from affinerank.support.errors import DataError
from affinerank.support.lists import mean_by_rank, ranks_by_score
from affinerank.support.progress import Progress, no_progress

RANKS_SHOWN = 10


def profile_production(
    train: RankingDataset,
    evaluated: RankingDataset,
    *,
    draws: int = 5,
    relevant_above: float = RELEVANT_ABOVE,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Train ``draws`` production rankers; tell what each puts where, as plain data.

    The mean relevant share by rank is taken on ``train``, nDCG@10 on ``evaluated``.
    """
    shares, values = [], []
    relevance = train.relevance(relevant_above)
    for draw in range(draws):
        progress("production rankers", draw, draws)
        ranker = train_production_ranker(
            train, relevant_above=relevant_above, seed=seed * draws + draw
        )
        ranks = ranks_by_score(score(ranker, train), train.offsets)
        shares.append(mean_by_rank(relevance, ranks, depth=RANKS_SHOWN))
        values.append(
            evaluate_scores(score(ranker, evaluated), evaluated, relevant_above)
        )
    progress("production rankers", draws, draws)
    relevant = np.mean(shares, axis=0).tolist()
    return {
        "draws": draws,
        "queries_learnt_from": PRODUCTION_QUERIES,
        "relevant_share_by_rank": [None if np.isnan(s) else s for s in relevant],
        str(MAIN_METRIC): [value.mean for value in values],
        "queries_skipped": values[0].n_skipped,
    }


def describe(
    source: DataSource,
    *,
    split: Split | None = None,
    relevant_above: float = RELEVANT_ABOVE,
    seed: int = 0,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Describe a data set, and how a production ranker orders it, as plain data."""
    progress("reading", 0, 1)
    part = split or source.default_split("train")
    data = source.read(part)
    progress("reading", 1, 1)
    about: dict[str, Any] = {
        "data": source.name,
        "split": part,
        "synthetic": source.synthetic,
        **data.summary(),
        "production": None,
    }
    if data.labels is None:
        return about
    about["relevant_above"] = relevant_above
    about["relevant_share"] = float(data.relevance(relevant_above).mean())
    tested = part == "train" and "test" in source.splits
    given: dict[str, Any] = {"relevant_above": relevant_above, "seed": seed}
    evaluated = source.read("test") if tested else data
    try:
        profile = profile_production(data, evaluated, progress=progress, **given)
    except DataError as error:
        return {**about, "production": {"not_trained": str(error)}}
    on = {"judged_on": "test" if tested else "the same data"}
    return {**about, "production": profile | on}
