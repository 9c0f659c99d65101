"""From counts to trained rankers of any kind, and rankers written into folders.

:func:`train` says its steps: features, click model, clicks, weights, members, rankers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.holdout import matched_rows, train_part
from affinerank.counts.rows import ClickRows, Unmatched, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import TUNING
from affinerank.estimators import Weights
from affinerank.output.blocks import Summary
from affinerank.pipeline.steps.features import FeatureSource, prepare_members
from affinerank.pipeline.steps.train_members import (
    FittedMember,
    WeighedLists,
    assemble,
    assemble_outside,
    fit_members,
    report,
)
from affinerank.pipeline.steps.train_settings import (
    TrainOptions,
    TrainSettings,
    train_settings_from,
)
from affinerank.pipeline.steps.training_lists import side_by_side
from affinerank.pipeline.steps.training_weights import (
    EstimatorJob,
    train_priors,
    weigh_job,
)
from affinerank.pipeline.steps.tuning import held_out_queries
from affinerank.pipeline.steps.weighing import (
    click_model_for,
    require_depth,
    rows_named,
)
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.importance import Importance, by_gain, by_permutation
from affinerank.support.arrays import Bools
from affinerank.support.errors import ConfigError
from affinerank.support.files import new_folder
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng

if TYPE_CHECKING:
    from affinerank.bias.method import Estimate

Name = tuple[str, int]  # estimator and seed


@dataclass(frozen=True, slots=True, repr=False)
class Trained(Summary):
    """Rankers trained together.

    Attributes:
        rankers: One for each estimator and seed.
        reports: Plain numbers about the training of each.
        click_model: How users click; ``None`` where no estimator needs to know.
        estimate: How these users were estimated, if they were.
        unmatched: What the counts hold that the data have no features for.
        imputed: Which features lacked values, how many, and what was put there.
        constant: Features that tell no documents of a query apart, and were left out.
    """

    rankers: Mapping[Name, AnyRanker]
    reports: Mapping[Name, Mapping[str, Any]]
    click_model: ClickModel | None
    estimate: Estimate | None
    unmatched: Unmatched
    imputed: Sequence[Mapping[str, Any]] = ()
    constant: tuple[str, ...] = ()

    def _line(self) -> str:
        return ", ".join(f"{name}: {one!r}" for (name, _), one in self.rankers.items())

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"estimator": name, "seed": seed, **self.reports[name, seed]}
            for name, seed in self.rankers
        ]

    def save(self, folder: Path) -> dict[str, Any]:
        """Save one ranker as ``folder``, several below it by estimator (and seed).

        All of them appear, or none does. Returns what was written, as plain data.
        """
        names = dict.fromkeys(self.rankers, "")
        if len(names) == 1:
            next(iter(self.rankers.values())).save(folder)
        else:
            one_seed = len({seed for _, seed in names}) == 1
            with new_folder(folder) as aside:
                for (estimator, seed), ranker in self.rankers.items():
                    plain = re.sub(r"[^\w.-]+", "-", estimator).strip("-")
                    own = plain if one_seed else f"{plain}-{seed}"
                    names[estimator, seed] = own
                    ranker.save(aside / own)
        rows = zip(self._rows(), names.values(), strict=True)
        return {
            "rankers": [{**row, "written": str(folder / own)} for row, own in rows],
            "unmatched": asdict(self.unmatched),
            "imputed": list(self.imputed),
            "constant": list(self.constant),
        }


def train(
    counts: ClickCounts,
    data: RankingDataset,
    click_model: ClickModel | None = None,
    settings: Any = None,
    *,
    validation: tuple[ClickCounts, RankingDataset] | None = None,
    checkpoint: Path | None = None,
    check_click_model: bool = True,
    progress: Progress = no_progress,
    **options: Unpack[TrainOptions],
) -> Trained:
    """Train a ranker for each estimator and seed, all at once where the kind can.

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        data: Features of the documents.
        click_model: How users click; estimated first where left out and needed.
        settings: How rankers are trained: a :class:`TrainSettings`; or settings of the
            ranker alone, an instance of its row's ``settings``.
        validation: Counts and data used for early stopping, in place of tuning.
        checkpoint: File that an interrupted training resumes from.
        check_click_model: Warn if the log clearly contradicts the given click model.
        progress: Called as training advances.
        options: Fields of :class:`TrainSettings` that differ from ``settings``.
    """
    train_settings = train_settings_from(settings, options)
    seed = train_settings.seeds[0]

    # Features as each member of the ranker reads them. Data that it cannot read are
    # rejected here, before anything takes long.
    source = FeatureSource(data)
    members = prepare_members(source, train_settings)

    # How users click: as given, or estimated from the same counts.
    click_model, estimate = click_model_for(
        train_settings.estimators,
        counts,
        data,
        click_model,
        check=check_click_model,
        seed=seed,
        progress=progress,
    )

    # The clicks, by the numbers of the documents in the data.
    rows = matched_rows(train_part(counts), data)
    if train_settings.strict_depth:
        require_depth(train_settings.estimators, rows, click_model)

    # One weight for each document and ranker.
    jobs = [
        EstimatorJob(rows, click_model, estimator, seed)
        for estimator in train_settings.clipped_estimators
    ]
    learnt = WeighedLists(source, _weigh_jobs(jobs, source, train_settings, progress))

    # The queries that say how long to train, or end it.
    held_out = _hold_out(jobs, learnt, train_settings, validation)

    # The members of all rankers, on these weights.
    fitted = fit_members(
        members,
        learnt,
        train_settings,
        seeds=[ranker_seed for _, ranker_seed in train_settings.names],
        is_held_out=held_out.queries,
        validation=held_out.lists,
        checkpoint=checkpoint,
        progress=progress,
    )

    # The rankers, with all that a reader of their files wants to know.
    rankers = _assemble_rankers(
        fitted, learnt, held_out, rows, click_model, train_settings, progress
    )
    return Trained(
        rankers,
        reports={
            name: report(fitted, i) for i, name in enumerate(train_settings.names)
        },
        click_model=click_model,
        estimate=estimate,
        unmatched=rows.unmatched,
        imputed=_imputed_values(fitted, data),
        constant=_unused_features(rankers.values(), data),
    )


def _weigh_jobs(
    jobs: Sequence[EstimatorJob],
    source: FeatureSource,
    settings: TrainSettings,
    progress: Progress,
) -> list[Weights]:
    """Return the weights of each ranker: those of a job are the same for each seed."""
    folds = train_priors(
        jobs, source, settings, seed=settings.seeds[0], progress=progress
    )
    weights: list[Weights] = []
    for job, job_folds in zip(jobs, folds, strict=True):
        one = weigh_job(job, source.data, settings.relevant_above, job_folds)
        weights += [one] * len(settings.seeds)
    return weights


@dataclass(frozen=True, slots=True, eq=False)
class _HeldOut:
    """What says how long to train.

    Attributes:
        queries: ``[n_queries]`` queries of the training data; ``None`` for none.
        lists: Lists of other data; ``None`` for none.
        rows: The clicks on these.
    """

    queries: Bools | None = None
    lists: WeighedLists | None = None
    rows: ClickRows | None = None


def _hold_out(
    jobs: Sequence[EstimatorJob],
    learnt: WeighedLists,
    settings: TrainSettings,
    validation: tuple[ClickCounts, RankingDataset] | None,
) -> _HeldOut:
    """Return the validation clicks, weighed; or draw queries of the training data."""
    held_out = _HeldOut()
    if validation is not None:
        counts, data = validation
        rows = join_counts(counts, data)
        weights: list[Weights] = []
        for job in jobs:
            validation_job = job.on_validation_clicks(rows)
            one = weigh_job(validation_job, data, settings.relevant_above)
            weights += [one] * len(settings.seeds)
        held_out = _HeldOut(None, WeighedLists(FeatureSource(data), weights), rows)
    elif settings.is_tuned and (settings.importance or settings.kind.patience):
        held_out = _HeldOut(held_out_queries(learnt.shares, settings.seeds[0]))
    if settings.importance and held_out.queries is None and held_out.lists is None:
        raise ConfigError(
            f"importance needs held-out queries: train with --tuning {TUNING}, or with "
            "validation (--patience)"
        )
    return held_out


def _assemble_rankers(
    fitted: Sequence[FittedMember],
    learnt: WeighedLists,
    held_out: _HeldOut,
    rows: ClickRows,
    click_model: ClickModel | None,
    settings: TrainSettings,
    progress: Progress,
) -> dict[Name, AnyRanker]:
    """Put the members of each ranker together, with its provenance."""
    parts = [(rows, learnt.data)]
    if held_out.rows is not None and held_out.lists is not None:
        parts.append((held_out.rows, held_out.lists.data))
    training_queries = _training_queries(parts, settings.estimators)

    rankers: dict[Name, AnyRanker] = {}
    for i, name in enumerate(settings.names):
        ranker = assemble(settings.ranker, fitted, i, {}, training_queries)

        # What features are worth, on queries that another ranker did not learn from.
        worth = by_gain(ranker)
        outside = None
        if settings.importance:
            outside = assemble_outside(settings.ranker, fitted, i)
        if outside is not None:
            evaluated = held_out.lists or learnt
            weights = _of_queries(evaluated.weights[i], held_out.queries)
            worth = by_permutation(
                outside,
                evaluated.data,
                side_by_side([weights]),
                rng=stage_rng("importance", settings.seeds[0]),
                progress=progress,
            )

        provenance = {
            **_origin(rows, click_model, name),
            "clip": settings.clip,
            "settings": asdict(settings.settings_of_ranker),
            "tuning": settings.tuning,
            **_kept_importance(worth),
        }
        rankers[name] = replace(ranker, provenance=provenance)
    return rankers


def _of_queries(weights: Weights, queries: Bools | None) -> Weights:
    """Let other queries count nothing; ``None``: all count."""
    if queries is None:
        return weights
    return replace(weights, share=np.where(queries, weights.share, 0.0))


def _origin(
    rows: ClickRows, click_model: ClickModel | None, name: Name
) -> dict[str, Any]:
    """What a ranker of this name learnt from, for the reader of its file."""
    (row,) = rows_named([name[0]])
    return {
        "trained_on": "labels" if row.needs == "labels" else "clicks",
        "estimator": name[0],
        "seed": name[1],
        "clicks": int(rows.clicks.sum()),
        "sessions": rows.n_sessions,
        "click_model": dict(click_model.provenance) if click_model else None,
    }


def _kept_importance(worth: Importance) -> dict[str, Any]:
    """What features are worth, for the reader of a ranker's file."""
    if worth.gain is worth.loss is None:
        return {}
    return {"importance": {"queries": worth.queries, "features": worth.rows()}}


def _training_queries(
    parts: Sequence[tuple[ClickRows, RankingDataset]], estimators: Sequence[str]
) -> tuple[str, ...]:
    """Names of queries that had a say: evaluation must not judge by them."""
    every = any(row.needs == "labels" for row in rows_named(estimators))
    names: dict[str, None] = {}
    for i, (rows, data) in enumerate(parts):
        used = slice(None) if every and i == 0 else np.unique(rows.query)
        names |= dict.fromkeys(str(name) for name in data.query_ids[used])
    return tuple(names)


def _imputed_values(
    members: Sequence[FittedMember], data: RankingDataset
) -> list[dict[str, Any]]:
    """List the features that lack values, and what each member has in their place."""
    rows = []
    for member in members:
        fill = dict(zip(member.mapping.names, member.mapping.fill or (), strict=False))
        for name, number in data.missing_values().items():
            if name in fill:
                rows.append(
                    {
                        "member": member.plan.name,
                        "feature": name,
                        "missing": number,
                        "share": number / data.n_docs,
                        "median": fill[name],
                    }
                )
    return rows


def _unused_features(
    rankers: Iterable[AnyRanker], data: RankingDataset
) -> tuple[str, ...]:
    """Return the features that no ranker reads: they tell no documents apart."""
    used = {name for ranker in rankers for name in ranker.features}
    return tuple(name for name in data.feature_names if name not in used)
