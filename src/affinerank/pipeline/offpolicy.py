"""Rankers judged by the clicks that another ranking brought."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.pooling import LEAST_CLICKS
from affinerank.clicks.counts import HELD_OUT, ClickCounts
from affinerank.clicks.join import JoinedCounts, join_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import Correction, parse_estimator
from affinerank.data.dataset import FeatureMapping, RankingDataset
from affinerank.errors import AffineRankWarning, ConfigError, DataError
from affinerank.evaluation.labels import DocumentLabels, label_documents
from affinerank.evaluation.offpolicy import (
    MOST_NEVER_SHOWN,
    Estimate,
    decide,
    estimate,
    exposure,
)
from affinerank.evaluation.rank_weights import (
    RankWeights,
    centred,
    logged_weights,
    never_shown_share,
    ranked_weights,
    shown_weights,
)
from affinerank.evaluation.refits import (
    REPLICATES,
    Held,
    Learnt,
    estimate_differences,
)
from affinerank.metrics import Metric
from affinerank.pipeline.estimation import click_rows
from affinerank.pipeline.production import Ranker, score
from affinerank.pipeline.training import note_unmatched, train_part
from affinerank.progress import Progress, quiet
from affinerank.seeds import stage_rng

Floats = NDArray[np.float64]

LOGGED = "logged"
RELEVANCE = "relevance from 0 to 1"
CLICKS = "clicks at an average rank; users are known up to gauge"
LEARNT = "the clicks they were estimated from"
HELD = "the held-out clicks, for want of those they were estimated from"


@dataclass(frozen=True, slots=True)
class OffPolicySettings:
    """What is asked of clicks.

    Attributes:
        rank_weights: The metric.
        estimator: Of ``ESTIMATORS``.
        against_logged: Whether to compare with the ranking that was logged; estimated
            users allow nothing else.
        replicates: Refits of estimated users, for each of the two intervals.
        seed: Of the resamples.
    """

    rank_weights: RankWeights = field(
        default_factory=lambda: RankWeights.of_metric(Metric("DCG", 10))
    )
    estimator: str = "affine"
    against_logged: bool = False
    replicates: int = REPLICATES
    seed: int = 0


class _Log(NamedTuple):
    """Held-out clicks, corrected.

    ``labels`` are in the gauge of the users; ``sessions`` are ``[n_queries]``.
    """

    joined: JoinedCounts
    data: RankingDataset
    correction: Correction
    labels: DocumentLabels
    sessions: Floats


def evaluate_from_clicks(
    rankers: Mapping[str, Ranker],
    counts: ClickCounts,
    data: RankingDataset,
    users: UserModel | None,
    *,
    settings: OffPolicySettings | None = None,
    estimated_from: tuple[ClickCounts, RankingDataset] | None = None,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Judge rankers by held-out clicks on another ranking.

    With users that are known, each ranker has a value; with estimated ones, only its
    difference from the logged ranking is told, from refits of the users.

    Args:
        rankers: By name; none may have been trained on a query of the counts.
        counts: Held-out clicks; of their ``split``, where they have one, the part
            ``holdout``.
        data: Features of the documents.
        users: How users click; the naive estimator needs none.
        settings: What is asked.
        estimated_from: Counts that estimated users came from, and their data. Left
            out, the part ``train`` of ``counts``, or else the held-out clicks.
        progress: Told of each refit.

    Returns:
        As plain data: for each ranker the value, the comparison, or both, with the
        intervals over sessions and over queries, and what they rest on.
    """
    asked = settings or OffPolicySettings()
    log = _corrected(held_part(counts), data, users, asked.estimator)
    for name, ranker in rankers.items():
        _require_unseen(name, ranker, log)
    scores = {name: score(ranker, data) for name, ranker in rankers.items()}
    refits = None
    if users is None or asked.estimator == "naive" or not _estimated(users):
        rows = [_valued(new, log, asked) for new in scores.values()]
    else:
        learnt, same = _learnt(users, counts, log, estimated_from)
        _require_shown(scores, log, asked.rank_weights)
        held = _differences_up_to_gauge(scores, log, asked.rank_weights)
        found = estimate_differences(
            held,
            users,
            learnt,
            same=same,
            replicates=asked.replicates,
            rng=stage_rng("estimation", asked.seed, 1),
            progress=progress,
        )
        rows = [
            {
                **_rests_on(log, held.rank_weights[i], new, asked.rank_weights),
                "against_logged": _told(found[i], log),
            }
            for i, new in enumerate(scores.values())
        ]
        refits = {"replicates": asked.replicates, "to": HELD if same else LEARNT}
    named = [{"ranker": n, **row} for n, row in zip(scores, rows, strict=True)]
    return _summary(log, asked, named, refits)


def gain_over_logged(
    ranker: Ranker,
    counts: ClickCounts,
    data: RankingDataset,
    users: UserModel,
    *,
    rank_weights: RankWeights | None = None,
) -> float:
    """The value of a ranker less that of the logged ranking, as a bare number.

    By the affine correction, in units of clicks at an average rank, so that users need
    be known up to gauge only. Documents that were never shown do not count. For
    intervals, and a guard against queries learnt from, see
    :func:`evaluate_from_clicks`.

    Args:
        ranker: Any.
        counts: Clicks on the logged ranking.
        data: Features of the documents.
        users: How users click.
        rank_weights: The metric, DCG@10 where left out.
    """
    asked = rank_weights or OffPolicySettings().rank_weights
    log = _corrected(counts, data, users, "affine")
    held = _differences_up_to_gauge({"the ranker": score(ranker, data)}, log, asked)
    with warnings.catch_warnings():  # what there is to warn of, _corrected has
        warnings.simplefilter("ignore", AffineRankWarning)
        by_query, share = held.by_query(users)
    return float(by_query[0] @ share)


def held_part(counts: ClickCounts) -> ClickCounts:
    """The held-out part of counts that are split, or all of them."""
    if "split" not in counts.keys:
        return counts
    held = counts.select("split", HELD_OUT)
    if not len(held.rank):
        raise DataError(
            f"the counts are split, and none are marked {HELD_OUT!r}; count with "
            "--holdout 0.2"
        )
    return held


def _estimated(users: UserModel) -> bool:
    """Whether users come from clicks, and not from who knows them."""
    return users.identified == "gauge" or "estimated_by" in users.provenance


def _corrected(
    counts: ClickCounts,
    data: RankingDataset,
    users: UserModel | None,
    estimator: str,
) -> _Log:
    correct = parse_estimator(estimator)
    if users is None and estimator != "naive":
        raise ConfigError(f"the estimator {estimator} needs a user model (--users)")
    joined = join_counts(counts, data)
    note_unmatched(joined)
    if not joined.counts.impressions.sum():
        raise DataError("the held-out counts hold no impressions")
    model = users or UserModel.position_bias([1.0])
    if estimator not in ("naive", "affine") and _estimated(model):
        raise ConfigError(
            f"the estimator {estimator} needs users that are known, and these were "
            "estimated, up to gauge; ask for affine"
        )
    correction = correct(joined.counts, model)
    labels = label_documents(joined, correction, data)
    return _Log(
        joined, data, correction, labels, labels.share * joined.counts.n_sessions
    )


def _require_unseen(name: str, ranker: Ranker, log: _Log) -> None:
    """Refuse a ranker that was trained on queries of the log."""
    known = set(getattr(ranker, "provenance", {}).get("queries") or ())
    ids = [str(query) for query in log.data.query_ids[log.labels.share > 0]]
    seen = [query for query in ids if query in known]
    if seen:
        raise DataError(
            f"{name}: trained on {len(seen):,} of the {len(ids):,} queries that the "
            f"counts are of, {seen[0]!r} for one, so it cannot be judged by them; "
            "hold queries out before training (count --holdout)"
        )


def _valued(new: Floats, log: _Log, asked: OffPolicySettings) -> dict[str, Any]:
    """The value of a ranking by known users, and its difference from the logged."""
    rank_weights = ranked_weights(new, log.data, asked.rank_weights)
    about = _rests_on(log, rank_weights, new, asked.rank_weights)
    bounds = about["never_shown_share"] > MOST_NEVER_SHOWN
    value = estimate(log.labels, rank_weights, log.data, bounds=bounds)
    row = {**about, "value": _plain(value)}
    if asked.against_logged:
        logged = logged_weights(log.joined, log.sessions, log.data, asked.rank_weights)
        difference = estimate(
            log.labels, rank_weights - logged, log.data, bounds=bounds
        )
        row["logged"] = _plain(estimate(log.labels, logged, log.data))
        row["against_logged"] = _told(difference, log)
    return row


def _require_shown(
    scores: Mapping[str, Floats], log: _Log, weights: RankWeights
) -> None:
    """Refuse rankings much of whose weight is on documents that were never shown."""
    for name, new in scores.items():
        unseen = _unseen(new, log, weights)
        if unseen > MOST_NEVER_SHOWN:
            raise DataError(
                f"{name}: {unseen:.0%} of its rank weight is on documents that were "
                "never shown, so there are only bounds, and bounds need users that "
                "are known: what relevance 0 and 1 are; choose a smaller cutoff, or a "
                "log that shows more documents"
            )


def _differences_up_to_gauge(
    scores: Mapping[str, Floats], log: _Log, weights: RankWeights
) -> Held:
    """Rank weights of rankings less those of the log, among the shown documents."""
    data = log.data
    logged = logged_weights(log.joined, log.sessions, data, weights)
    differences = []
    for new in scores.values():
        there = shown_weights(new, log.joined, log.sessions, data, weights)
        differences.append(centred(there - logged, log.labels.shown, data.query_of_doc))
    return Held(log.joined, data, np.stack(differences))


def _unseen(new: Floats, log: _Log, weights: RankWeights) -> float:
    """Share of a ranking's weight that is on documents that were never shown."""
    return never_shown_share(
        ranked_weights(new, log.data, weights),
        log.labels.shown,
        log.labels.share,
        log.data.query_of_doc,
    )


def _learnt(
    users: UserModel,
    counts: ClickCounts,
    log: _Log,
    estimated_from: tuple[ClickCounts, RankingDataset] | None,
) -> tuple[Learnt, bool]:
    """What estimated users are refitted to, and whether that is the held-out clicks."""
    method = str(users.provenance.get("estimated_by", "mixture"))
    joined, data, same = log.joined, log.data, True
    if estimated_from is not None:
        source, data = estimated_from
        joined, same = join_counts(train_part(source), data), False
    elif "split" in counts.keys and len(train_part(counts).rank):
        joined, same = join_counts(train_part(counts), data), False
    features = None
    if users.provenance.get("features", True):  # refitted as it was fitted
        features = FeatureMapping.fit(data, impute=True).apply(data).features
    least = float(users.provenance.get("least_clicks", LEAST_CLICKS))
    return Learnt(click_rows(joined, data), features, method, least), same


def _rests_on(
    log: _Log, rank_weights: Floats, new: Floats, weights: RankWeights
) -> dict[str, Any]:
    """What an estimate rests on: never-shown documents, and how uneven weights are."""
    even = exposure(log.joined, log.correction, log.labels, rank_weights, log.data)
    return {
        "never_shown_share": _unseen(new, log, weights),
        "impressions": even.impressions,
        "effective_impressions": even.effective,
        "top_percent_share": even.top_share,
    }


def _told(difference: Estimate, log: _Log) -> dict[str, Any]:
    clicks = int(log.joined.counts.clicks.sum())
    return {**_plain(difference), **asdict(decide(difference, clicks))}


def _plain(found: Estimate) -> dict[str, Any]:
    about: dict[str, Any] = {
        "bounds": found.bounded,
        "over_sessions": asdict(found.sessions),
        "over_queries": asdict(found.queries),
    }
    if found.bounded:
        return {"least": found.least, "most": found.most, **about}
    return {"estimate": found.least, **about}


def _summary(
    log: _Log,
    asked: OffPolicySettings,
    rows: list[dict[str, Any]],
    refits: dict[str, Any] | None,
) -> dict[str, Any]:
    sizes = log.joined.counts.summary()
    return {
        "metric": asked.rank_weights.name,
        "estimator": asked.estimator,
        "users_estimated": refits is not None,
        "units": CLICKS if refits else RELEVANCE,
        "refits": refits,
        **{name: sizes[name] for name in ("queries", "sessions", "clicks")},
        "rankers": rows,
    }
