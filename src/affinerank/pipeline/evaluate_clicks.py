"""Evaluate rankers by the clicks on another ranking.

In: rankers, held-out counts, features, a click model. Out: for each ranker its value,
or its difference from production, with intervals and a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.clicks.models.trust import EstimatedBy
from affinerank.counts.counts import ClickCounts
from affinerank.counts.holdout import held_part, matched_rows, train_part
from affinerank.counts.movement import measure_movement
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import CORRECTION, METHOD
from affinerank.evaluation.baseline import Baseline, choose_baseline
from affinerank.evaluation.rank_weights import DCG_10, RankWeights, over_logged
from affinerank.evaluation.refits import REPLICATES, Source, mean_alpha
from affinerank.evaluation.results import (
    PRODUCTION,
    RELEVANCE,
    ClickEvaluation,
    RankerClickEvaluation,
)
from affinerank.evaluation.user_clusters import UserClusters
from affinerank.pipeline.evaluate import learnt_by
from affinerank.pipeline.steps.click_model import (
    check_click_model_against_log,
    filled_features,
)
from affinerank.pipeline.steps.corrected_log import (
    CorrectedLog,
    correct_clicks,
    uncorrected_scores,
)
from affinerank.pipeline.steps.second_evaluator import second_evaluator
from affinerank.pipeline.steps.weighing import require_click_model
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.ranker import score
from affinerank.support.arrays import Bools, Floats
from affinerank.support.errors import warn
from affinerank.support.progress import Progress, no_progress
from affinerank.support.settings import require_choice

CLICKS = "clicks at an average rank; users are known up to gauge"
CLICK_VALUES = "the value of an average click, times "
SOURCE_CLICKS = "the clicks they were estimated from"
HELD_OUT_CLICKS = "the held-out clicks, for want of those they were estimated from"


@dataclass(frozen=True, slots=True)
class ClickEvaluationSettings:
    """What is estimated from clicks.

    Attributes:
        rank_weights: The metric.
        estimator: A row of ``ESTIMATORS``, with options as in ``affine(clip=0.1)``.
        among: Which documents are ranked: ``all``, or those that were ``shown``.
        production: Name of the ranker to compare with, beside the logged order, if the
            counts have several (``ranker``). By default the latest; if the counts know
            no moments, the one with most sessions.
        replicates: Refits of an estimated click model, for each of the two intervals.
        seed: Seed of the resamples.
    """

    rank_weights: RankWeights = DCG_10
    estimator: str = CORRECTION
    among: str = "all"
    production: str | None = None
    replicates: int = REPLICATES
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject what is no choice."""
        require_choice("--among", self.among, ("all", "shown"))


def evaluate_from_clicks(
    rankers: Mapping[str, AnyRanker],
    counts: ClickCounts,
    data: RankingDataset,
    click_model: ClickModel | None = None,
    *,
    settings: ClickEvaluationSettings | None = None,
    estimated_from: tuple[ClickCounts, RankingDataset] | None = None,
    progress: Progress = no_progress,
) -> ClickEvaluation:
    """Evaluate rankers by held-out clicks on another ranking.

    If the click model is known, each ranker has a value. If it was estimated, only the
    difference from the logged ranking is reported, and its interval comes from refits
    of the click model. A second evaluator, which does not use the click model,
    estimates the same difference (``second_evaluator``). If documents moved within
    query, ranker and segment, and the log does not declare why, no comparison can be
    decided (:mod:`affinerank.counts.movement`).

    The relevance of documents that were never shown is predicted from features, scores
    and the clicks on others, and intervals hold what that leaves open. They assume that
    documents with the same features and scores are as relevant whether they were shown
    or not (``never_shown``). With too few clicks for that, there are bounds if the
    click model is known, and an error if it was estimated, unless rankings are
    evaluated ``among`` the documents that were shown.

    Args:
        rankers: By name. Queries that one of them learned from are left out.
        counts: Held-out clicks. If the counts are split, the part ``holdout``.
        data: Features of the documents.
        click_model: How users click, if the estimator needs to know.
        settings: What is estimated.
        estimated_from: The counts that an estimated click model came from, and their
            data. By default the part ``train`` of ``counts``, or else the held-out
            clicks.
        progress: Called after each refit.
    """
    settings = settings or ClickEvaluationSettings()
    require_click_model(settings.estimator, click_model)
    check_click_model_against_log(counts, click_model, seed=settings.seed)

    # Held-out clicks, on queries that no ranker learned from.
    held_out = held_part(counts)
    rows = matched_rows(held_out, data)
    is_seen = learnt_by(rankers, data, rows.sessions > 0, "that the counts are of")
    rows = rows.of_queries(~is_seen)

    # Corrected clicks, the lists to compare with, and users for the intervals.
    baseline = choose_baseline(held_out, settings.production)
    log = correct_clicks(rows, data, click_model, settings.estimator, settings.seed)
    log = _with_production_lists(log, held_out, data, is_seen, baseline)
    log = _with_user_clusters(log, held_out, data, is_seen, settings.estimator)
    scores = {name: score(ranker, data) for name, ranker in rankers.items()}

    # An estimated click model has an unknown scale: only differences, by refits.
    refits: dict[str, Any] | None = None
    among_shown = settings.among == "shown"
    if log.click_model is not None and log.up_to_gauge:
        source = _refit_source(log.click_model, counts, rows, data, estimated_from)
        results = log.differences(
            scores,
            log.click_model,
            source,
            settings.rank_weights,
            among_shown=among_shown,
            replicates=settings.replicates,
            seed=settings.seed,
            progress=progress,
        )
        refitted_to = HELD_OUT_CLICKS if source.held_out else SOURCE_CLICKS
        refits = {"replicates": settings.replicates, "to": refitted_to}
    else:
        results = [
            log.value(name, each, settings.rank_weights, among_shown=among_shown)
            for name, each in scores.items()
        ]

    # Does an evaluator that does not use the click model agree, on the same lists?
    if log.click_model is not None:
        results = _with_second_evaluator(results, log, data, scores, settings)

    units = CLICKS if refits else RELEVANCE
    if rows.values is not None:
        units = CLICK_VALUES + units
    return ClickEvaluation(
        metric=settings.rank_weights.name,
        estimator=settings.estimator,
        queries=int(np.count_nonzero(rows.sessions)),
        sessions=rows.n_sessions,
        clicks=int(rows.clicks.sum()),
        rankers=results,
        baseline=baseline,
        movement=measure_movement(held_out),
        among=settings.among,
        left_out=int(is_seen.sum()),
        user_buckets=log.clusters.number if log.clusters else None,
        units=units,
        refits=refits,
    )


def gain_over_logged(
    ranker: AnyRanker,
    counts: ClickCounts,
    data: RankingDataset,
    click_model: ClickModel,
) -> float:
    """Return the DCG@10 of a ranker less that of the logged ranking, as a bare number.

    By the default correction, in units of clicks at an average rank, so that the click
    model need be known up to gauge only. Documents that were never shown do not count.
    For intervals, and a check against queries learned from, see
    :func:`evaluate_from_clicks`.

    Args:
        ranker: Any.
        counts: Clicks on the logged ranking.
        data: Features of the documents.
        click_model: How users click.
    """
    rows = matched_rows(counts, data)
    log = correct_clicks(rows, data, click_model, CORRECTION, None)
    compared = log.over_lists(score(ranker, data), DCG_10, rows)
    gain = log.estimate(compared).least
    return gain * mean_alpha(rows, log.click_model or click_model)


def _with_production_lists(
    log: CorrectedLog,
    held_out: ClickCounts,
    data: RankingDataset,
    is_seen: Bools,
    baseline: Baseline,
) -> CorrectedLog:
    """Add the lists of the production ranker, if the counts have several rankers."""
    if baseline.ranker is None:
        return log
    counts_of_production = held_out.select("ranker", baseline.ranker)
    own = join_counts(counts_of_production, data).of_queries(~is_seen)

    # For queries that it did not log, its lists are those of all rankers.
    has_own = own.sessions > 0
    others = log.rows.of_queries(~has_own)
    columns: dict[str, Any] = {
        name: np.append(getattr(own, name), getattr(others, name))
        for name in ("doc", "rank", "impressions", "clicks")
    }
    sessions = own.sessions + others.sessions
    lists = replace(log.rows, **columns, sessions=sessions)
    return replace(log, lists={**log.lists, PRODUCTION: lists})


def _with_user_clusters(
    log: CorrectedLog,
    held_out: ClickCounts,
    data: RankingDataset,
    is_seen: Bools,
    estimator: str,
) -> CorrectedLog:
    """Add which sessions belong to one user, if the counts have buckets of users."""
    if "user_bucket" not in held_out.keys:
        return log
    if log.weights.slope is None:
        warn(
            f"{estimator} is not linear in clicks, so intervals are not clustered by "
            f"user; use {CORRECTION}"
        )
        return log
    by_user = join_counts(held_out, data, by_user=True).of_queries(~is_seen)
    return replace(log, clusters=UserClusters(by_user))


def _with_second_evaluator(
    results: list[RankerClickEvaluation],
    log: CorrectedLog,
    data: RankingDataset,
    scores: Mapping[str, Floats],
    settings: ClickEvaluationSettings,
) -> list[RankerClickEvaluation]:
    """Add the differences that an evaluator without the click model finds."""
    explaining = [
        *scores.values(),
        *uncorrected_scores(log.rows, data, settings.seed),
    ]
    name, weights = second_evaluator(log.rows, explaining, log.click_model)
    second_log = replace(log, rows=log.rows.merged(), weights=weights)
    with_second = []
    for result, ranker_scores in zip(results, scores.values(), strict=True):
        differences = {}
        for difference, lists in log.lists.items():
            compared = over_logged(
                ranker_scores, log.rows, settings.rank_weights, lists=lists
            )
            differences[difference] = second_log.estimate(compared)
        with_second.append(replace(result, second=differences, evaluator=name))
    return with_second


def _refit_source(
    click_model: ClickModel,
    counts: ClickCounts,
    held_out: ClickRows,
    data: RankingDataset,
    estimated_from: tuple[ClickCounts, RankingDataset] | None,
) -> Source:
    """Find the clicks that an estimated click model is refitted to."""
    source_counts = None
    if estimated_from is not None:
        source_counts, data = train_part(estimated_from[0]), estimated_from[1]
    elif "split" in counts.keys and len(train_part(counts).rank):
        source_counts = train_part(counts)
    rows = held_out if source_counts is None else join_counts(source_counts, data)

    how = click_model.estimated or EstimatedBy(METHOD, features=True)
    features = filled_features(data) if how.features else None
    return Source(rows, how, features, held_out=source_counts is None)
