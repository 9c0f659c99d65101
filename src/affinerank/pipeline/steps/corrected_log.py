"""Clicks on the logged lists, corrected by an estimator: what rankings are valued by.

In: rows of held-out clicks, a click model, the name of an estimator. Out: weights of
documents, and from them the value of any ranking and its difference from the lists
that the log shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.counts.rows import ClickRows
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import BASELINE, CORRECTION
from affinerank.estimators import Fold, Weights
from affinerank.estimators.click_value import valued
from affinerank.estimators.estimator import CLICKS as EXPLAINED
from affinerank.evaluation.click_value import (
    MOST_NEVER_SHOWN,
    ValueEstimate,
    estimate,
    exposure,
    unknown_share,
)
from affinerank.evaluation.never_shown import (
    by_information,
    can_predict,
    out_of_fold,
    predict,
)
from affinerank.evaluation.rank_weights import (
    RankWeights,
    centred,
    logged_weights,
    over_logged,
    ranked_weights,
    shown_weights,
)
from affinerank.evaluation.refits import (
    Differences,
    Source,
    Weigh,
    estimate_differences,
    is_estimated,
)
from affinerank.evaluation.results import LOGGED, RankerClickEvaluation
from affinerank.evaluation.user_clusters import UserClusters
from affinerank.pipeline.steps.out_of_fold import RankerJob, train_quickly
from affinerank.pipeline.steps.weighing import learns_of, rows_named, weigh
from affinerank.support.arrays import Floats
from affinerank.support.errors import AffineRankError, ConfigError, DataError
from affinerank.support.progress import Progress
from affinerank.support.seeds import stage_rng

MIN_QUERIES = 20  # from which relevance of other documents is predicted
FEW_CLICKS = (
    "there are too few clicks to predict them, so there are only bounds, and bounds "
    "need users that are known: what relevance 0 and 1 are"
)
NO_VALUE_KNOWN = "what clicks on them are worth is not known"


@dataclass(frozen=True, slots=True, eq=False)
class CorrectedLog:
    """Clicks on the logged lists, corrected.

    Attributes:
        rows: The clicks.
        weights: What the estimator makes of them.
        weigh: The estimator, for other rows and click models.
        click_model: How users click; ``None`` if the estimator does not use it.
        up_to_gauge: Whether the click model was estimated, so that weights have an
            unknown scale and only differences of rankings are meaningful.
        folds: Rankers out of fold that explain the clicks; empty if there are none.
        lists: The lists to compare with, by the name of the difference.
        clusters: Users whose sessions belong together, if the log has them.
    """

    rows: ClickRows
    weights: Weights
    weigh: Weigh
    click_model: ClickModel | None
    up_to_gauge: bool
    folds: Sequence[Fold]
    lists: Mapping[str, ClickRows]
    clusters: UserClusters | None = None

    def value(
        self, name: str, scores: Floats, rank_weights: RankWeights, *, among_shown: bool
    ) -> RankerClickEvaluation:
        """Estimate the value of a ranking, and its differences from the lists."""
        rows = self.rows
        ranking = ranked_weights(scores, rows, rank_weights)
        ranking_among = ranking
        if among_shown:
            ranking_among = shown_weights(scores, rows, rank_weights)

        # Relevance of documents that were never shown is predicted, if clicks allow it.
        unknown = unknown_share(self.weights, ranking_among, rows.query_of_doc)
        predicted = None
        if rows.values is not None:
            require_known({name: unknown}, NO_VALUE_KNOWN)
        elif unknown and self.click_model is not None and can_predict(self.folds):
            predicted = predict(rows, self.click_model, self.folds, scores)

        # Otherwise there are bounds, if too much of the ranking is unknown.
        has_bounds = predicted is None and unknown > MOST_NEVER_SHOWN
        about: dict[str, Any] = {"bounds": has_bounds, "predicted": predicted}

        # The value of the logged lists, the differences from each list, and the value.
        found = {"logged": self.estimate(logged_weights(rows, rank_weights))}
        for difference, lists in self.lists.items():
            compared = ranking
            if among_shown:
                compared = shown_weights(scores, rows, rank_weights, lists=lists)
            compared = compared - logged_weights(lists, rank_weights)
            found[difference] = self.estimate(compared, **about)
        found["value"] = self.estimate(ranking_among, **about)
        return RankerClickEvaluation(
            ranker=name,
            never_shown_share=self._never_shown_share(ranking),
            predicted=predicted is not None,
            exposure=exposure(rows, self.weights, ranking_among),
            found=found,
        )

    def differences(
        self,
        scores: Mapping[str, Floats],
        click_model: ClickModel,
        source: Source,
        rank_weights: RankWeights,
        *,
        among_shown: bool,
        replicates: int,
        seed: int,
        progress: Progress,
    ) -> list[RankerClickEvaluation]:
        """Estimate differences from the lists, with an estimated click model.

        Intervals hold the error of the click model: it is refitted ``replicates``
        times to resamples of ``source``.
        """
        rows = self.rows
        rankings = {
            name: ranked_weights(each, rows, rank_weights)
            for name, each in scores.items()
        }

        # Documents that were never shown: predicted, or refused if they weigh much.
        unknown = {
            name: unknown_share(self.weights, ranking, rows.query_of_doc)
            for name, ranking in rankings.items()
        }
        has_values = rows.values is not None
        predicts = can_predict(self.folds) and any(unknown.values())
        predicts = predicts and not among_shown and not has_values
        if not among_shown and not predicts:
            require_known(unknown, NO_VALUE_KNOWN if has_values else FEW_CLICKS)

        # A row of rank weights for each ranking and each list it is compared with.
        compared = {
            (name, difference): self.over_lists(
                scores[name], rank_weights, lists, every=predicts
            )
            for difference, lists in self.lists.items()
            for name in scores
        }
        predictors = []
        if predicts:
            predictors = [
                partial(predict, folds=self.folds, scores=scores[name])
                for name, _ in compared
            ]
        estimates = estimate_differences(
            Differences(rows, np.stack([*compared.values()]), self.weigh, predictors),
            click_model,
            source,
            replicates=replicates,
            rng=stage_rng("estimation", seed, 1),
            progress=progress,
        )
        widened = {
            key: self._widened_by_users(each, compared[key])
            for key, each in zip(compared, estimates, strict=True)
        }
        return [
            RankerClickEvaluation(
                ranker=name,
                never_shown_share=self._never_shown_share(ranking),
                predicted=predicts,
                exposure=exposure(rows, self.weights, compared[name, LOGGED]),
                found={each: widened[name, each] for each in self.lists},
            )
            for name, ranking in rankings.items()
        ]

    def estimate(self, rank_weights: Floats, **about: Any) -> ValueEstimate:
        """Estimate the value of rank weights ``[n_docs]``."""
        value = estimate(self.weights, rank_weights, self.rows.query_of_doc, **about)
        return self._widened_by_users(value, rank_weights)

    def over_lists(
        self,
        scores: Floats,
        rank_weights: RankWeights,
        lists: ClickRows,
        *,
        every: bool = False,
    ) -> Floats:
        """Rank weights of a ranking less those of ``lists``, among known documents.

        Or among all, if ``every`` document counts.
        """
        compared = over_logged(
            scores, self.rows, rank_weights, every=every, lists=lists
        )
        if every:
            return compared
        return centred(compared, self.weights.known, self.rows.query_of_doc)

    def _widened_by_users(
        self, value: ValueEstimate, rank_weights: Floats
    ) -> ValueEstimate:
        """Widen the intervals, if sessions of a user belong together."""
        if self.clusters is None:
            return value
        return self.clusters.widen(value, self.rows, self.weights, rank_weights)

    def _never_shown_share(self, rank_weights: Floats) -> float:
        """Share of the rank weights on documents that were never shown."""
        was_shown = self.rows.by_doc(self.rows.impressions) > 0
        weights = replace(self.weights, known=was_shown & self.weights.known)
        return unknown_share(weights, rank_weights, self.rows.query_of_doc)


def correct_clicks(
    rows: ClickRows,
    data: RankingDataset,
    click_model: ClickModel | None,
    estimator: str,
    seed: int | None,
) -> CorrectedLog:
    """Weigh the documents of a log by any estimator whose needs are met.

    With a ``seed``, rankers that explain clicks are trained if something rests on them:
    documents that were never shown, or shown at several ranks.
    """
    [row] = rows_named([estimator])
    if row.needs == "labels":
        raise ConfigError(f"{row.name} needs labels: it cannot evaluate by clicks")
    is_estimate = click_model is not None and is_estimated(click_model)
    if row.needs == "examination" and is_estimate:
        raise ConfigError(
            f"the estimator {row.name} needs users that are known, and these were "
            f"estimated, up to gauge; use {CORRECTION}"
        )
    if not len(rows):
        raise DataError("the held-out counts hold no impressions")

    # Rankers out of fold, which explain the clicks by features.
    folds: Sequence[Fold] = ()
    if click_model is not None and row.needs_click_model:
        click_model = click_model.to_depth(rows.depth)  # which warns, once
        if seed is not None:
            targets = learns_of(estimator)
            if not targets and _rests_on_features(rows, data):
                targets = (EXPLAINED,)
            folds = train_quickly(RankerJob(rows, click_model, targets, seed), data)

    # A document at several ranks has several rows, which are weighed by information.
    has_several_rows = len(np.unique(rows.doc)) < len(rows)
    uses_information = estimator == CORRECTION and can_predict(folds)
    uses_information = uses_information and has_several_rows

    def weigh_rows(rows: ClickRows, click_model: ClickModel | None) -> Weights:
        if uses_information and click_model is not None:
            weights = by_information(rows, click_model, folds)
            return valued(weights, rows, click_model)
        return weigh(rows, estimator, click_model, folds=folds)

    return CorrectedLog(
        rows=rows,
        weights=weigh_rows(rows, click_model),
        weigh=weigh_rows,
        click_model=click_model,
        up_to_gauge=row.needs == "relative" and is_estimate,
        folds=folds,
        lists={LOGGED: rows},
    )


def uncorrected_scores(
    rows: ClickRows, data: RankingDataset, seed: int
) -> list[Floats]:
    """Scores of a ranker that learns uncorrected clicks out of fold, if it can."""
    if not _can_learn(rows, data):
        return []
    with suppress(AffineRankError):  # a part in which no query was issued
        folds = train_quickly(RankerJob(rows, None, (BASELINE,), seed), data)
        scores = out_of_fold(folds, BASELINE, rows)
        return [scores] if scores.any() else []
    return []


def require_known(unknown: Mapping[str, float], why: str) -> None:
    """Reject a ranking much of whose weight is on documents that are not known."""
    for name, share in unknown.items():
        if share > MOST_NEVER_SHOWN:
            raise DataError(
                f"{name}: {share:.0%} of its rank weight is on documents that were "
                f"never shown, and {why}; evaluate among the documents that were shown "
                "(--among shown), choose a smaller cutoff, or a log that shows more "
                "documents"
            )


def _rests_on_features(rows: ClickRows, data: RankingDataset) -> bool:
    """Whether documents were never shown, or at several ranks, and can be explained."""
    is_issued = rows.sessions > 0
    n_documents = is_issued[rows.query_of_doc].sum()
    n_shown = len(np.unique(rows.doc))
    n_places = len(rows.merged())
    all_shown_at_one_rank = n_places == n_shown == n_documents
    return not all_shown_at_one_rank and _can_learn(rows, data)


def _can_learn(rows: ClickRows, data: RankingDataset) -> bool:
    """Whether there are clicks and queries enough to learn from, and features."""
    n_queries = np.count_nonzero(rows.sessions)
    is_enough = min(rows.clicks.sum(), n_queries) >= MIN_QUERIES
    return bool(is_enough and data.varying_features())
