"""Rankers judged by the clicks that another ranking brought."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.pooling import LEAST_CLICKS
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import join_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import parse_estimator
from affinerank.data.dataset import RankingDataset
from affinerank.errors import AffineRankWarning, ConfigError, DataError
from affinerank.evaluation.offpolicy import (
    MOST_NEVER_SHOWN,
    Estimate,
    decide,
    estimate,
    exposure,
)
from affinerank.evaluation.rank_weights import RankWeights, centred, ranked_weights
from affinerank.evaluation.refits import (
    REPLICATES,
    Held,
    Learnt,
    estimate_differences,
)
from affinerank.pipeline.corrected_log import DCG_10, CorrectedLog, correct_log
from affinerank.pipeline.parts import held_part, note_unmatched, train_part
from affinerank.pipeline.production import Ranker, score
from affinerank.pipeline.rows import click_rows, filled_features
from affinerank.progress import Progress, quiet
from affinerank.seeds import stage_rng

Floats = NDArray[np.float64]

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

    rank_weights: RankWeights = DCG_10
    estimator: str = "affine"
    against_logged: bool = False
    replicates: int = REPLICATES
    seed: int = 0


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
    asked = rank_weights or DCG_10
    log = _corrected(counts, data, users, "affine")
    held = _differences_up_to_gauge({"the ranker": score(ranker, data)}, log, asked)
    with warnings.catch_warnings():  # what there is to warn of, _corrected has
        warnings.simplefilter("ignore", AffineRankWarning)
        by_query, share = held.by_query(users)
    return float(by_query[0] @ share)


def _estimated(users: UserModel) -> bool:
    """Whether users come from clicks, and not from who knows them."""
    return users.identified == "gauge" or "estimated_by" in users.provenance


def _corrected(
    counts: ClickCounts,
    data: RankingDataset,
    users: UserModel | None,
    estimator: str,
) -> CorrectedLog:
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
    return correct_log(joined, data, correct(joined.counts, model))


def _require_unseen(name: str, ranker: Ranker, log: CorrectedLog) -> None:
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


def _valued(new: Floats, log: CorrectedLog, asked: OffPolicySettings) -> dict[str, Any]:
    """The value of a ranking by known users, and its difference from the logged."""
    rank_weights = ranked_weights(new, log.data, asked.rank_weights)
    about = _rests_on(log, rank_weights, new, asked.rank_weights)
    bounds = about["never_shown_share"] > MOST_NEVER_SHOWN
    value = estimate(log.labels, rank_weights, log.data, bounds=bounds)
    row = {**about, "value": _plain(value)}
    if asked.against_logged:
        logged = log.logged(asked.rank_weights)
        difference = estimate(
            log.labels, rank_weights - logged, log.data, bounds=bounds
        )
        row["logged"] = _plain(estimate(log.labels, logged, log.data))
        row["against_logged"] = _told(difference, log)
    return row


def _require_shown(
    scores: Mapping[str, Floats], log: CorrectedLog, weights: RankWeights
) -> None:
    """Refuse rankings much of whose weight is on documents that were never shown."""
    for name, new in scores.items():
        unseen = log.never_shown(new, weights)
        if unseen > MOST_NEVER_SHOWN:
            raise DataError(
                f"{name}: {unseen:.0%} of its rank weight is on documents that were "
                "never shown, so there are only bounds, and bounds need users that "
                "are known: what relevance 0 and 1 are; choose a smaller cutoff, or a "
                "log that shows more documents"
            )


def _differences_up_to_gauge(
    scores: Mapping[str, Floats], log: CorrectedLog, weights: RankWeights
) -> Held:
    """Rank weights of rankings less those of the log, among the shown documents."""
    differences = [
        centred(each, log.labels.shown, log.data.query_of_doc)
        for each in log.over_logged(scores.values(), weights)
    ]
    return Held(log.joined, log.data, np.stack(differences))


def _learnt(
    users: UserModel,
    counts: ClickCounts,
    log: CorrectedLog,
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
        features = filled_features(data)
    least = float(users.provenance.get("least_clicks", LEAST_CLICKS))
    return Learnt(click_rows(joined, data), features, method, least), same


def _rests_on(
    log: CorrectedLog, rank_weights: Floats, new: Floats, weights: RankWeights
) -> dict[str, Any]:
    """What an estimate rests on: never-shown documents, and how uneven weights are."""
    even = exposure(log.joined, log.correction, log.labels, rank_weights, log.data)
    return {
        "never_shown_share": log.never_shown(new, weights),
        "impressions": even.impressions,
        "effective_impressions": even.effective,
        "top_percent_share": even.top_share,
    }


def _told(difference: Estimate, log: CorrectedLog) -> dict[str, Any]:
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
    log: CorrectedLog,
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
