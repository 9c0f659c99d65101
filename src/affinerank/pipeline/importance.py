"""What features are worth to a ranker, by clicks on queries that it did not learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.holdout import held_part, matched_rows
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import CORRECTION
from affinerank.pipeline.steps.click_model import check_click_model_against_log
from affinerank.pipeline.steps.training_lists import side_by_side
from affinerank.pipeline.steps.weighing import weigh
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.importance import REPEATS, Importance, by_permutation
from affinerank.support.errors import DataError, warn
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng


def feature_importance(
    ranker: AnyRanker,
    counts: ClickCounts,
    data: RankingDataset,
    click_model: ClickModel | None = None,
    *,
    estimator: str = CORRECTION,
    repeats: int = REPEATS,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Importance:
    """Measure what held-out queries lose where a feature is permuted in each list.

    Args:
        ranker: Any.
        counts: Clicks; of their ``split``, where they have one, the part ``holdout``.
            Queries that the ranker learnt from are left out.
        data: Features of the documents.
        click_model: How users click, where the estimator needs to know.
        estimator: A row of ``ESTIMATORS`` that corrects the clicks.
        repeats: Permutations of each feature.
        seed: Of the permutations.
        progress: Called after each feature.
    """
    check_click_model_against_log(counts, click_model, seed=seed)
    rows = matched_rows(held_part(counts), data)
    weights = weigh(rows, estimator, click_model)
    # Names of queries compare as text: ids of the data may be numbers or texts.
    names_learnt = set(ranker.training_queries)
    learnt = np.array([str(name) in names_learnt for name in data.query_ids])
    asked, left = weights.share > 0, np.where(learnt, 0.0, weights.share)
    if learnt[asked].any():
        warn(
            f"{np.count_nonzero(learnt & asked):,} of {np.count_nonzero(asked):,} "
            "queries were left out: the ranker learnt from them"
        )
    if not left.any():
        raise DataError(
            "there is no query with clicks that the ranker did not learn from; hold "
            "queries out before training (count --holdout)"
        )
    return by_permutation(
        ranker,
        data,
        side_by_side([replace(weights, share=left)]),
        rng=stage_rng("importance", seed),
        repeats=repeats,
        progress=progress,
    )
