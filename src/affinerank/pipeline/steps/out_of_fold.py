"""Rankers out of fold: they learn from some queries, and score the others.

Estimators that ask for rankers (their ``learns``) get them from here. Queries are dealt
into parts. For each part rankers learn from most of the other queries, and the rest of
those stops their training and says how to combine them: no click on a query has a say
in what is expected of its documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from affinerank.clicks.models import ClickModel
from affinerank.counts.rows import ClickRows
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import QUICK
from affinerank.estimators import Weights
from affinerank.estimators.estimator import CLICKS, Fold
from affinerank.estimators.relevance_scale import RelevanceScale
from affinerank.evaluation.rank_weights import centred
from affinerank.pipeline.steps.click_model import filled_features
from affinerank.pipeline.steps.training_lists import (
    TrainingLists,
    fit_all,
    side_by_side,
)
from affinerank.pipeline.steps.weighing import weigh
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import RankerKind, predict_all
from affinerank.rankers.targets import ClickTargets
from affinerank.support.arrays import Bools, Floats, Ints, Matrix
from affinerank.support.large_arrays import passed, release
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng

FOLDS = 5
WEIGHING = 0.3  # of the queries outside a part: they stop and weigh its rankers
MIN_QUERIES = 10

SLOTS = 8  # ranks of a document that are told apart where clicks are explained


@dataclass(frozen=True, slots=True, eq=False)
class RankerJob:
    """Clicks that something is learnt from, and what an estimator asks of it."""

    rows: ClickRows
    click_model: ClickModel | None
    learns: tuple[str, ...]
    seed: int


def train_out_of_fold(
    logs: Sequence[RankerJob],
    features: Matrix,
    offsets: Ints,
    *,
    rankers: Sequence[str] = (QUICK,),
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> list[list[Fold]]:
    """Train what each log asks for, all logs at once; return the folds of each.

    Args:
        logs: Clicks on the same documents; one that asks for nothing gets no folds.
        features: ``[n_docs, n_features]`` mapped.
        offsets: ``[n_queries + 1]``.
        rankers: Rows of ``RANKERS``: clicks are explained by each that can, weights
            are learnt by the last.
        settings: Of some of these rows, their defaults where left out; patience is
            added, and the learning rate is the highest of the row's ``rates``.
        seed: Of the parts.
        progress: Called after each part.
    """
    if not any(log.learns for log in logs):
        return [[] for _ in logs]
    found: list[list[Fold]] = [[] for _ in logs]
    jobs = list(_jobs(logs, rankers, settings or {}, features))
    for number, (learns, weighs, predicts) in enumerate(_parts(len(offsets) - 1, seed)):
        progress("learning out of fold", number, FOLDS)
        scores: list[dict[str, Matrix]] = [{} for _ in logs]
        scored = np.repeat(weighs | predicts, np.diff(offsets))
        for job in jobs:
            learnt = {
                i: targets
                for i, (name, places) in enumerate(job.asked)
                for targets in [_targets(name, logs[places[0]], ~predicts)]
                if _differ(targets, learns, offsets)
            }
            if not learnt:
                continue
            usable = [job.asked[i] for i in learnt]
            lists = TrainingLists(
                job.features, side_by_side([*learnt.values()]), offsets
            )
            seeds = [logs[places[0]].seed for _, places in usable]
            part, held = lists.part(learns), lists.part(weighs)
            del learnt, lists  # as much memory as the log has
            fitted = fit_all(
                job.kind, part, seeds=seeds, settings=job.settings, held_out=held
            )
            for read in (part, held):
                release(read.features)
            by_each = predict_all([one.kept for one in fitted], job.features)
            for (name, places), own in zip(usable, by_each, strict=True):
                for place in places:
                    scores[place][name + job.mark] = own[scored].astype(np.float32)
        for log, folds, own_scores in zip(logs, found, scores, strict=True):
            if log.learns:
                folds.append(Fold(weighs, predicts, own_scores))
    progress("learning out of fold", FOLDS, FOLDS)
    return found


def train_quickly(
    log: RankerJob, data: RankingDataset, progress: Progress = no_progress
) -> list[Fold]:
    """Train what one log asks for, by the quick ranker."""
    if not log.learns:
        return []
    given = [log], filled_features(data), data.offsets
    [folds] = train_out_of_fold(*given, seed=log.seed, progress=progress)
    return folds


def _parts(n_queries: int, seed: int) -> Iterator[tuple[Bools, Bools, Bools]]:
    """Yield which queries are learnt from, weigh and are predicted, part by part.

    None where queries are too few: then nothing is learnt out of fold.
    """
    if n_queries < MIN_QUERIES:
        return
    rng = stage_rng("folds", seed)
    part = rng.permutation(n_queries) % FOLDS
    for number in range(FOLDS):
        others = rng.permutation(np.flatnonzero(part != number))
        weighs = np.zeros(n_queries, dtype=bool)
        weighs[others[: max(int(WEIGHING * len(others)), 1)]] = True
        predicts = part == number
        yield ~predicts & ~weighs, weighs, predicts


class _Job(NamedTuple):
    """Rankers of one kind that are trained together in each part.

    Attributes:
        kind: Their row of ``RANKERS``.
        settings: Of that row.
        features: ``[n_docs, n_features]`` as this kind reads them.
        asked: What is learnt, each with the places of the logs that ask the same of the
            same clicks.
        mark: Tells their scores from those of another kind that learns the same.
    """

    kind: str
    settings: Any
    features: Matrix
    asked: list[tuple[str, list[int]]]
    mark: str


def _jobs(
    logs: Sequence[RankerJob],
    rankers: Sequence[str],
    settings: Mapping[str, Any],
    features: Matrix,
) -> Iterator[_Job]:
    """Yield what is trained together: clicks by each kind, then weights by the last."""
    # Logs that ask the same of the same clicks share a ranker.
    shared: dict[tuple[str, int, int, int], list[int]] = {}
    for i, log in enumerate(logs):
        for name in log.learns:
            key = (name, id(log.rows), id(log.click_model), log.seed)
            shared.setdefault(key, []).append(i)
    asked = [(name, places) for (name, *_), places in shared.items()]
    clicks = [one for one in asked if one[0] == CLICKS]
    weights = [one for one in asked if one[0] != CLICKS]

    for number, name in enumerate(rankers):
        kind = RANKERS[name]
        how = _quickly_trained(kind, settings.get(name))
        own = features if kind.reads_missing else _with_medians(features)
        mark = f" {name}" if number else ""
        if clicks and kind.explains_clicks:
            yield _Job(name, how, own, clicks, mark)
        if weights and name == rankers[-1]:
            yield _Job(name, how, own, weights, "")


def _quickly_trained(kind: RankerKind, settings: Any) -> Any:
    """Return settings for rankers out of fold.

    Half the patience and the highest learning rate, or what the row says.
    """
    settings = settings or kind.settings()
    changed: dict[str, Any] = {"patience": max((kind.patience or 8) // 2, 1)}
    if kind.rates:
        changed["learning_rate"] = kind.rates[-1]
    changed |= kind.out_of_fold
    names = {field.name for field in fields(settings)}
    return replace(settings, **{n: v for n, v in changed.items() if n in names})


def _with_medians(features: Matrix) -> Matrix:
    """Put each feature's median where it is missing, 0 where it always is."""
    if not any(np.isnan(features[some]).any() for some in passed(features)):
        return features
    missing = np.isnan(features)
    known = np.where(missing.all(axis=0), 0.0, features)
    return np.where(missing, np.nanmedian(known, axis=0), features)


def _targets(name: str, log: RankerJob, queries: Bools) -> Weights | ClickTargets:
    # Relevance is what is expected of other queries; values are a document's own.
    rows, click_model = (
        replace(log.rows, values=None).of_queries(queries),
        log.click_model,
    )
    if name == CLICKS and click_model is not None:
        return click_targets(RelevanceScale.of(click_model, rows))
    return weigh(rows, name, click_model)


def click_targets(link: RelevanceScale) -> ClickTargets:
    """Lay out clicks by document and slot, for one ranker.

    A document has a slot for each rank it was shown at; where these are many, the least
    frequent share the last slot, with the mean of their alpha and beta.
    """
    rows = link.rows
    order = np.lexsort((-rows.impressions, rows.doc))
    doc = rows.doc[order]
    first = np.searchsorted(doc, doc)
    slot = np.minimum(np.arange(len(doc)) - first, SLOTS - 1)
    shape = (1, rows.n_docs, int(slot.max(initial=0)) + 1)
    n = rows.impressions[order]

    def laid(values: Floats) -> NDArray[np.float64]:
        out = np.zeros(shape)
        np.add.at(out[0], (doc, slot), values)
        return out

    impressions = laid(n)
    safe = np.where(impressions > 0, impressions, 1.0)
    parts = (
        impressions,
        laid(rows.clicks[order]),
        laid(n * link.alpha[order]) / safe,
        laid(n * link.beta[order]) / safe,
    )
    return ClickTargets(*(part.astype(np.float32) for part in parts))


def _differ(targets: Weights | ClickTargets, learns: Bools, offsets: Ints) -> bool:
    """Whether there is anything to learn from these queries."""
    sizes = np.diff(offsets)
    if isinstance(targets, ClickTargets):
        return bool(targets.clicks[:, np.repeat(learns, sizes)].any())
    known = targets.known & np.repeat(learns & (targets.share > 0), sizes)
    query = np.repeat(np.arange(len(sizes)), sizes)
    away = np.abs(centred(targets.weight, known, query))
    return bool(away.max(initial=0.0) > 1e-9)
