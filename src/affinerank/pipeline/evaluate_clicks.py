"""Rankers judged by the clicks on another ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.clicks.models.trust import EstimatedBy
from affinerank.counts.counts import ClickCounts
from affinerank.counts.holdout import held_part, matched_rows, train_part
from affinerank.counts.movement import WHAT_TO_LOG, Movement, measure_movement
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import BASELINE, CORRECTION, METHOD
from affinerank.estimators import Fold, Weights
from affinerank.estimators.click_value import valued
from affinerank.estimators.estimator import CLICKS as EXPLAINED
from affinerank.evaluation.click_value import (
    EVALUATORS_DISAGREE,
    LISTS_MOVED,
    MOST_NEVER_SHOWN,
    Decision,
    Exposure,
    ValueEstimate,
    decide,
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
    DCG_10,
    RankWeights,
    centred,
    logged_weights,
    over_logged,
    ranked_weights,
    shown_weights,
)
from affinerank.evaluation.refits import (
    REPLICATES,
    Differences,
    Source,
    Weigh,
    estimate_differences,
    is_estimated,
    mean_alpha,
)
from affinerank.evaluation.significance import conclude
from affinerank.evaluation.user_clusters import UserClusters
from affinerank.output.blocks import Summary
from affinerank.pipeline.baseline import Baseline, choose_baseline
from affinerank.pipeline.click_model import filled_features
from affinerank.pipeline.evaluate import learnt_by
from affinerank.pipeline.out_of_fold import RankerJob, train_quickly
from affinerank.pipeline.second_evaluator import second_evaluator
from affinerank.pipeline.weighing import (
    learns_of,
    require_click_model,
    rows_named,
    weigh,
)
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.ranker import score
from affinerank.support.arrays import Floats
from affinerank.support.errors import AffineRankError, ConfigError, DataError, warn
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng
from affinerank.support.settings import require_choice

RELEVANCE = "relevance from 0 to 1"
CLICKS = "clicks at an average rank; users are known up to gauge"
LEARNT = "the clicks they were estimated from"
VALUES = "the value of an average click, times "
FEW = (
    "there are too few clicks to predict them, so there are only bounds, and bounds "
    "need users that are known: what relevance 0 and 1 are"
)
WORTH = "what clicks on them are worth is not known"
LOGGED, PRODUCTION = "against_logged", "against_production"
HELD = "the held-out clicks, for want of those they were estimated from"
MIN_QUERIES = 20  # from which relevance of other documents is predicted


@dataclass(frozen=True, slots=True)
class ClickEvaluationSettings:
    """What is estimated from clicks.

    Attributes:
        rank_weights: The metric.
        estimator: A row of ``ESTIMATORS``, with options as in ``affine(clip=0.1)``.
        among: Which documents are ranked: ``all``, or those that were ``shown``.
        production: Name of the ranker to compare with, beside the logged order, where
            the counts have several (``ranker``); by default the latest, or where the
            counts know no moments that of most sessions.
        replicates: Refits of estimated users, for each of the two intervals.
        seed: Of the resamples.
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


@dataclass(frozen=True, slots=True)
class RankerClickEvaluation:
    """A ranker's value, and its difference from what was logged.

    Attributes:
        ranker: Its name.
        never_shown_share: Share of its rank weight on documents that were never shown.
        predicted: Whether their relevance was predicted; otherwise there are bounds.
        exposure: How evenly the estimate rests on impressions.
        found: By name: ``value`` of the ranker, and of the ``logged`` order, unless
            users are known up to gauge; the difference ``against_logged``; and that
            ``against_production``, the lists of one ranker that logged, where the
            counts have several; otherwise the logged order is production's.
        second: The same differences by a judge that is not told of the users, among the
            documents that were shown, and in units of its own; empty without users.
        evaluator: Name of that judge.
    """

    ranker: str
    never_shown_share: float
    predicted: bool
    exposure: Exposure
    found: Mapping[str, ValueEstimate]
    second: Mapping[str, ValueEstimate] = field(default_factory=dict)
    evaluator: str = ""

    @property
    def difference(self) -> str:
        """Name of the difference from production, of those in ``found``."""
        return PRODUCTION if PRODUCTION in self.found else LOGGED

    def decide(self, difference: str, clicks: int, movement: Movement) -> Decision:
        """Decide about the difference of this name."""
        return decide(
            self.found[difference],
            clicks,
            self.second.get(difference),
            lists_moved=movement.unexplained,
        )

    def to_dict(self, clicks: int, movement: Movement) -> dict[str, Any]:
        """Return plain data; ``clicks`` there are decide whether more are needed."""
        about: dict[str, Any] = {
            "ranker": self.ranker,
            "never_shown_share": self.never_shown_share,
            "predicted": self.predicted,
            **asdict(self.exposure),
        }
        for name, value in self.found.items():
            about[name] = value.to_dict()
            if name in (LOGGED, PRODUCTION):
                about[name] |= asdict(self.decide(name, clicks, movement))
        if self.second:
            second = self.second[self.difference]
            decision = decide(second, clicks, lists_moved=movement.unexplained)
            about["second_evaluator"] = {
                "evaluator": self.evaluator,
                **second.to_dict(),
                "verdict": decision.verdict,
            }
        return about

    def conclude(self, baseline: Baseline, movement: Movement, metric: str) -> str:
        """Say in words whether the ranker is better than production."""
        production = baseline.name
        decision = self.decide(self.difference, 1, movement)
        if decision.obstacle == LISTS_MOVED:
            return (
                f"cannot tell if {self.ranker} is better than {production}: it cannot "
                f"be decided, since {movement.in_words()}, and the log does not say "
                f"why; {WHAT_TO_LOG}"
            )
        if decision.obstacle == EVALUATORS_DISAGREE:
            why = "two judges disagree, so the users may be wrong"
            return f"cannot tell if {self.ranker} is better than {production}: {why}"
        lead = self.found[self.difference]
        low, high = lead.queries.low, lead.queries.high
        span = (lead.least, lead.most)
        return conclude(self.ranker, production, span, low, high, metric)


@dataclass(frozen=True, slots=True, repr=False)
class ClickEvaluation(Summary):
    """Rankers judged by clicks.

    Attributes:
        metric: Name of the rank weights.
        estimator: That corrected the clicks.
        queries: Issued.
        sessions: Of the held-out clicks.
        clicks: Held out.
        rankers: The rankers.
        among: Which documents were ranked: ``all``, or those ``shown``.
        left_out: Queries of the log that a ranker learnt from, and that do not count.
        baseline: What rankers are compared with.
        movement: How far documents moved for unknown reasons: too far, and no
            comparison can be decided.
        user_buckets: Number of clusters of users that intervals rest on; ``None`` if
            sessions count as independent.
        units: Of values and differences, in words.
        refits: How estimated users were refitted, ``replicates`` and ``to`` what;
            ``None`` if users are known, or not needed.
    """

    metric: str
    estimator: str
    queries: int
    sessions: int
    clicks: int
    rankers: Sequence[RankerClickEvaluation]
    baseline: Baseline
    movement: Movement
    among: str = "all"
    left_out: int = 0
    user_buckets: int | None = None
    units: str = RELEVANCE
    refits: Mapping[str, Any] | None = None

    def _line(self) -> str:
        names = ", ".join(row.ranker for row in self.rankers)
        return f"{self.metric} by {self.estimator}, {self.clicks:,} clicks: {names}"

    def _rows(self) -> list[dict[str, Any]]:
        return list(self.to_dict()["rankers"])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        metric = f"{self.metric} on future queries"
        movement, baseline = self.movement, self.baseline
        return asdict(self) | {
            "click_model_estimated": self.refits is not None,
            "production": baseline.ranker,
            "baseline": baseline.name,
            "movement": movement.to_dict(),
            "rankers": [row.to_dict(self.clicks, movement) for row in self.rankers],
            "conclusions": [
                row.conclude(baseline, movement, metric) for row in self.rankers
            ],
        }


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
    """Judge rankers by held-out clicks on another ranking.

    With known users, each ranker has a value; with estimated ones, only its difference
    from the logged ranking is reported, from refits of the users. A second judge, who
    is not told of the users, says what it takes the difference for
    (``second_evaluator``). Where documents moved within query, ranker and
    segment, and the log does not declare why, no comparison can be decided
    (:mod:`affinerank.counts.movement`).

    Relevance of documents that were never shown is predicted from features, scores and
    the clicks on others, and intervals hold what that leaves open; they assume that
    documents alike in these are as relevant whether they were shown or not
    (``never_shown``). Where clicks are too few for that, there are
    bounds with known users, and an error with estimated ones; unless rankings are
    judged ``among`` the documents that were shown.

    Args:
        rankers: By name. Queries that one of them learnt from are left out.
        counts: Held-out clicks; of their ``split``, where they have one, the part
            ``holdout``.
        data: Features of the documents.
        click_model: How users click, if the estimator needs them.
        settings: What is estimated.
        estimated_from: Counts that estimated users came from, and their data. Left
            out, the part ``train`` of ``counts``, or else the held-out clicks.
        progress: Called after each refit.
    """
    how = settings or ClickEvaluationSettings()
    require_click_model(how.estimator, click_model)
    held = held_part(counts)
    movement = measure_movement(held)
    rows = matched_rows(held, data)
    seen = learnt_by(rankers, data, rows.sessions > 0, "that the counts are of")
    rows = rows.of_queries(~seen)
    baseline = choose_baseline(held, how.production)
    log = _corrected(rows, data, click_model, how.estimator, how.seed)
    if baseline.ranker is not None:
        of_baseline = held.select("ranker", baseline.ranker)
        own = join_counts(of_baseline, data).of_queries(~seen)
        log = replace(log, lists={**log.lists, PRODUCTION: _lists_of(own, rows)})
    if "user_bucket" in held.keys and log.weights.slope is None:
        warn(
            f"{how.estimator} is not linear in clicks, so intervals are not clustered "
            f"by user; use {CORRECTION}"
        )
    elif "user_bucket" in held.keys:
        by_user = join_counts(held, data, by_user=True).of_queries(~seen)
        log = replace(log, clusters=UserClusters(by_user))
    scores = {name: score(ranker, data) for name, ranker in rankers.items()}
    refits = None
    if log.click_model is None or not log.up_to_gauge:
        found = [log.valued(name, new, how) for name, new in scores.items()]
    else:
        source = _source(log.click_model, counts, rows, data, estimated_from)
        found = log.compared(scores, log.click_model, source, how, progress)
        to = HELD if source.held_out else LEARNT
        refits = {"replicates": how.replicates, "to": to}
    if log.click_model is not None:
        explaining = [*scores.values(), *_uncorrected(rows, data, how.seed)]
        evaluator, weights = second_evaluator(rows, explaining, log.click_model)
        other = replace(log, rows=rows.merged(), weights=weights)
        for i, new in enumerate(scores.values()):
            second = {
                name: other.estimate(
                    over_logged(new, rows, how.rank_weights, lists=lists)
                )
                for name, lists in log.lists.items()
            }
            found[i] = replace(found[i], second=second, evaluator=evaluator)
    return ClickEvaluation(
        metric=how.rank_weights.name,
        estimator=how.estimator,
        queries=int(np.count_nonzero(rows.sessions)),
        sessions=rows.n_sessions,
        clicks=int(rows.clicks.sum()),
        rankers=found,
        baseline=baseline,
        movement=movement,
        among=how.among,
        left_out=int(seen.sum()),
        user_buckets=log.clusters.number if log.clusters else None,
        units=VALUES * (rows.values is not None) + (CLICKS if refits else RELEVANCE),
        refits=refits,
    )


def gain_over_logged(
    ranker: AnyRanker,
    counts: ClickCounts,
    data: RankingDataset,
    click_model: ClickModel,
) -> float:
    """Return the DCG@10 of a ranker less that of the logged ranking, as a bare number.

    By the default correction, in units of clicks at an average rank, so that users need
    be known up to gauge only. Documents that were never shown do not count. For
    intervals, and a check against queries learnt from, see
    :func:`evaluate_from_clicks`.

    Args:
        ranker: Any.
        counts: Clicks on the logged ranking.
        data: Features of the documents.
        click_model: How users click.
    """
    rows = matched_rows(counts, data)
    log = _corrected(rows, data, click_model, CORRECTION, None)
    over = log.over_logged(score(ranker, data), DCG_10, rows)
    return log.estimate(over).least * mean_alpha(rows, log.click_model or click_model)


@dataclass(frozen=True, slots=True, eq=False)
class _Log:
    """Clicks on the logged ranking, corrected; ``lists`` are compared with."""

    rows: ClickRows
    weights: Weights
    weigh: Weigh
    click_model: ClickModel | None
    up_to_gauge: bool
    folds: Sequence[Fold]
    lists: Mapping[str, ClickRows]
    clusters: UserClusters | None = None

    def valued(
        self, name: str, new: Floats, settings: ClickEvaluationSettings
    ) -> RankerClickEvaluation:
        """Estimate the value of a ranking, and its differences from lists."""
        rows, weights, at = self.rows, self.weights, settings.rank_weights
        whole = given = ranked_weights(new, rows, at)
        if shown := settings.among == "shown":
            given = shown_weights(new, rows, at)
        unknown = unknown_share(weights, given, rows.query_of_doc)
        predicted = None
        if rows.values is not None:
            _require_known({name: unknown}, WORTH)
        elif unknown and self.click_model is not None and can_predict(self.folds):
            predicted = predict(rows, self.click_model, self.folds, new)
        bounds = predicted is None and unknown > MOST_NEVER_SHOWN
        about: dict[str, Any] = {"bounds": bounds, "predicted": predicted}
        found = {"logged": self.estimate(logged_weights(rows, at))}
        for other, lists in self.lists.items():
            if shown:
                given = shown_weights(new, rows, at, lists=lists)
            found[other] = self.estimate(given - logged_weights(lists, at), **about)
        found["value"] = self.estimate(given, **about)
        never, rests_on = self._never_shown(whole), exposure(rows, weights, given)
        return RankerClickEvaluation(
            name, never, predicted is not None, rests_on, found
        )

    def compared(
        self,
        scores: Mapping[str, Floats],
        click_model: ClickModel,
        source: Source,
        settings: ClickEvaluationSettings,
        progress: Progress,
    ) -> list[RankerClickEvaluation]:
        """Estimate differences from lists with estimated users."""
        rows, weights, at = self.rows, self.weights, settings.rank_weights
        given = {name: ranked_weights(new, rows, at) for name, new in scores.items()}
        unknown = {
            name: unknown_share(weights, own, rows.query_of_doc)
            for name, own in given.items()
        }
        shown, values = settings.among == "shown", rows.values is not None
        predicts = can_predict(self.folds) and any(unknown.values())
        predicts = predicts and not (shown or values)
        if not (shown or predicts):
            _require_known(unknown, WORTH if values else FEW)
        over = {
            (name, other): self.over_logged(new, at, lists, every=predicts)
            for other, lists in self.lists.items()
            for name, new in scores.items()
        }
        by = partial(predict, folds=self.folds)
        how = [partial(by, scores=scores[name]) for name, _ in over if predicts]
        found = estimate_differences(
            Differences(rows, np.stack([*over.values()]), self.weigh, how),
            click_model,
            source,
            replicates=settings.replicates,
            rng=stage_rng("estimation", settings.seed, 1),
            progress=progress,
        )
        pairs = zip(over.items(), found, strict=True)
        wide = {key: self._clustered(each, own) for (key, own), each in pairs}
        return [
            RankerClickEvaluation(
                name,
                self._never_shown(own),
                predicts,
                exposure(rows, weights, over[name, LOGGED]),
                {other: wide[name, other] for other in self.lists},
            )
            for name, own in given.items()
        ]

    def estimate(self, given: Floats, **about: Any) -> ValueEstimate:
        """Estimate the value of rank weights ``[n_docs]``."""
        found = estimate(self.weights, given, self.rows.query_of_doc, **about)
        return self._clustered(found, given)

    def over_logged(
        self, new: Floats, at: RankWeights, lists: ClickRows, *, every: bool = False
    ) -> Floats:
        """Rank weights of a ranking less those of ``lists``, among known documents.

        Or among all, where ``every`` document counts.
        """
        over = over_logged(new, self.rows, at, every=every, lists=lists)
        known, query = self.weights.known, self.rows.query_of_doc
        return over if every else centred(over, known, query)

    def _clustered(self, found: ValueEstimate, given: Floats) -> ValueEstimate:
        if self.clusters is None:
            return found
        return self.clusters.widen(found, self.rows, self.weights, given)

    def _never_shown(self, given: Floats) -> float:
        shown = self.rows.by_doc(self.rows.impressions) > 0
        weights = replace(self.weights, known=shown & self.weights.known)
        return unknown_share(weights, given, self.rows.query_of_doc)


def _uncorrected(rows: ClickRows, data: RankingDataset, seed: int) -> list[Floats]:
    """Scores of a ranker that learnt uncorrected clicks out of fold, if it can."""
    if not _can_learn(rows, data):
        return []
    with suppress(AffineRankError):  # a part in which no query was issued
        folds = train_quickly(RankerJob(rows, None, (BASELINE,), seed), data)
        scores = out_of_fold(folds, BASELINE, rows)
        return [scores] if scores.any() else []
    return []


def _require_known(unknown: Mapping[str, float], why: str) -> None:
    """Reject a ranking much of whose weight is on documents that are not known."""
    for name, share in unknown.items():
        if share > MOST_NEVER_SHOWN:
            raise DataError(
                f"{name}: {share:.0%} of its rank weight is on documents that were "
                f"never shown, and {why}; judge among the documents that were shown "
                "(--among shown), choose a smaller cutoff, or a log that shows more "
                "documents"
            )


def _corrected(
    rows: ClickRows,
    data: RankingDataset,
    click_model: ClickModel | None,
    estimator: str,
    seed: int | None,
) -> _Log:
    """Weigh the documents of a log by any estimator whose needs are met.

    With a ``seed``, rankers that explain clicks are learnt where something rests on
    them: documents that were never shown, or shown at several ranks.
    """
    [row] = rows_named([estimator])
    if row.needs == "labels":
        raise ConfigError(f"{row.name} needs labels: it cannot judge by clicks")
    estimated = click_model is not None and is_estimated(click_model)
    if row.needs == "examination" and estimated:
        raise ConfigError(
            f"the estimator {row.name} needs users that are known, and these were "
            f"estimated, up to gauge; use {CORRECTION}"
        )
    if not len(rows):
        raise DataError("the held-out counts hold no impressions")
    folds: Sequence[Fold] = ()
    if click_model is not None and row.needs_click_model:
        click_model = click_model.to_depth(rows.depth)  # which warns, once
        if seed is not None:
            learns = learns_of(estimator)
            if not learns and _rests_on_features(rows, data):
                learns = (EXPLAINED,)
            folds = train_quickly(RankerJob(rows, click_model, learns, seed), data)
    # Own rows by information, where a document has several.
    best = estimator == CORRECTION and can_predict(folds)
    best = best and len(np.unique(rows.doc)) < len(rows)

    def by_estimator(rows: ClickRows, click_model: ClickModel | None) -> Weights:
        if best and click_model is not None:
            return valued(by_information(rows, click_model, folds), rows, click_model)
        return weigh(rows, estimator, click_model, folds=folds)

    up_to_gauge = row.needs == "relative" and estimated
    weights = by_estimator(rows, click_model)
    lists = {LOGGED: rows}
    return _Log(rows, weights, by_estimator, click_model, up_to_gauge, folds, lists)


def _rests_on_features(rows: ClickRows, data: RankingDataset) -> bool:
    """Whether documents were never shown, or at several ranks, and can be explained."""
    issued = rows.sessions > 0
    placed = len(rows.merged())
    whole = placed == len(np.unique(rows.doc)) == issued[rows.query_of_doc].sum()
    return not whole and _can_learn(rows, data)


def _can_learn(rows: ClickRows, data: RankingDataset) -> bool:
    """Whether there are clicks and queries enough to learn from, and features."""
    least = min(rows.clicks.sum(), np.count_nonzero(rows.sessions))
    return bool(least >= MIN_QUERIES and data.varying_features())


def _lists_of(own: ClickRows, rows: ClickRows) -> ClickRows:
    """Lists of one ranker; those of all rankers for queries that it did not log."""
    has = own.sessions > 0
    rest = rows.of_queries(~has)
    both: dict[str, Any] = {
        name: np.append(getattr(own, name), getattr(rest, name))
        for name in ("doc", "rank", "impressions", "clicks")
    }
    return replace(rows, **both, sessions=own.sessions + rest.sessions)


def _source(
    click_model: ClickModel,
    counts: ClickCounts,
    held: ClickRows,
    data: RankingDataset,
    estimated_from: tuple[ClickCounts, RankingDataset] | None,
) -> Source:
    """Find what estimated users are refitted to."""
    learnt = None
    if estimated_from is not None:
        learnt, data = train_part(estimated_from[0]), estimated_from[1]
    elif "split" in counts.keys and len(train_part(counts).rank):
        learnt = train_part(counts)
    how = click_model.estimated or EstimatedBy(METHOD, features=True)
    rows = held if learnt is None else join_counts(learnt, data)
    features = filled_features(data) if how.features else None
    return Source(rows, how, features, held_out=learnt is None)
