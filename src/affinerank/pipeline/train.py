"""From counts to trained rankers of any kind, and rankers written into folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.holdout import matched_rows, train_part
from affinerank.counts.rows import ClickRows, Unmatched, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FREQUENT, FeatureMapping
from affinerank.defaults import ESTIMATOR, RANKER, RELEVANT_ABOVE, TUNING
from affinerank.estimators import Fold, Weights
from affinerank.output.blocks import Summary
from affinerank.pipeline.out_of_fold import RankerJob, train_out_of_fold
from affinerank.pipeline.train_members import (
    WeighedLists,
    assemble,
    assemble_outside,
    fit_members,
    member_plans,
    report,
)
from affinerank.pipeline.training_lists import side_by_side
from affinerank.pipeline.tuning import held_out_queries, require_tuning
from affinerank.pipeline.weighing import (
    click_model_for,
    labels_for,
    learns_of,
    require_clips,
    require_depth,
    rows_named,
    validation_estimator,
    weigh,
    with_clip,
)
from affinerank.rankers import RANKERS
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.importance import Importance, by_gain, by_permutation
from affinerank.rankers.ranker import MemberPlan, RankerKind
from affinerank.rankers.trees.parameters import without_monotone
from affinerank.support.arrays import Bools
from affinerank.support.errors import ConfigError
from affinerank.support.files import new_folder
from affinerank.support.progress import Progress, no_progress
from affinerank.support.seeds import stage_rng
from affinerank.support.settings import EntrySpec, from_pairs

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
    *,
    ranker: str = RANKER,
    settings: Any = None,
    estimators: Sequence[str] = (ESTIMATOR,),
    seeds: Sequence[int] = (0,),
    clip: str | float | None = None,
    strict: bool = False,
    relevant_above: float = RELEVANT_ABOVE,
    tuning: str = TUNING,
    scaling: str | None = None,
    categories: str | None = None,
    rates: Sequence[float] | None = None,
    validation: tuple[ClickCounts, RankingDataset] | None = None,
    checkpoint: Path | None = None,
    importance: bool = False,
    check_click_model: bool = True,
    progress: Progress = no_progress,
) -> Trained:
    """Train a ranker for each estimator and seed, all at once where the kind can.

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        data: Features of the documents.
        click_model: How users click; estimated first where left out and needed.
        ranker: A row of ``RANKERS``.
        settings: Shape and training: an instance of the row's ``settings``.
        estimators: Rows of ``ESTIMATORS``, with options as in ``affine(clip=0.1)``.
        seeds: One ranker of each estimator for each.
        clip: Clipping rule of every estimator that divides.
        strict: Reject ranks deeper than the click model instead of extending it.
        relevant_above: Labels above this are relevant, for estimators by labels.
        tuning: ``chosen``: learning rate and length by held-out queries, then trained
            on all; ``paper``: as the settings say.
        scaling: Of features: ``list``, within the query; ``data``; ``none``. Left out,
            that of the ranker's row. Search engines cannot serve ``list``.
        categories: ``native``, for rankers that read them (default), or ``one-hot``.
        rates: Learning rates to choose from; left out, those of the ranker's row.
        validation: Counts and data used for early stopping, in place of a choice.
        checkpoint: File that an interrupted training resumes from.
        importance: Measure what features are worth on queries that were held out.
        check_click_model: Warn if the log clearly contradicts the given click model.
        progress: Called as training advances.
    """
    if not estimators or not seeds:
        raise ConfigError("give an estimator or more, and a seed or more")
    kind = RANKERS[ranker]
    settings = settings or kind.settings()
    _require_settings_of(kind, settings)
    plans = member_plans(ranker, settings, scaling)
    choose = require_tuning(tuning) and validation is None
    require_clips(estimators, clip)

    # The clicks, and how users click.
    known, estimate = click_model_for(
        estimators,
        counts,
        data,
        click_model,
        check=check_click_model,
        seed=seeds[0],
        progress=progress,
    )
    rows = matched_rows(train_part(counts), data)
    if strict:
        require_depth(estimators, rows, known)

    # Weights, with what rankers of other queries expect where an estimator asks for it.
    specs = [with_clip(name, clip) for name in estimators]
    folds = _out_of_fold(specs, rows, known, data, kind, plans, seeds[0], progress)
    weigh_by = partial(
        _weighed, click_model=known, above=relevant_above, times=len(seeds)
    )
    learnt = WeighedLists(data, weigh_by(specs, rows, data, folds))
    del folds  # as much memory as the log has

    # The queries that say how long to train, or end it.
    parts, held_out, held = [(rows, data)], None, None
    if validation is not None:
        held_rows, held_data = join_counts(*validation), validation[1]
        parts.append((held_rows, held_data))
        evaluators = list(map(validation_estimator, specs))
        held_weights = weigh_by(evaluators, held_rows, held_data, [()] * len(specs))
        held_out = WeighedLists(held_data, held_weights)
    elif choose and (importance or kind.patience):
        held = held_out_queries(learnt.shares, seeds[0])
    if importance and held is None and held_out is None:
        raise ConfigError(
            f"importance needs held-out queries: train with --tuning {TUNING}, or with "
            "validation (--patience)"
        )

    # The rankers.
    names = [(str(name), seed) for name in estimators for seed in seeds]
    members = fit_members(
        plans,
        learnt,
        seeds=[seed for _, seed in names],
        categories=categories,
        choose=choose,
        held=held,
        held_out=held_out,
        rates=rates,
        checkpoint=checkpoint,
        keep_outside=importance,
        progress=progress,
    )
    about = {"clip": clip, "settings": asdict(settings), "tuning": tuning}
    seen = _learnt_from(parts, estimators)
    rankers: dict[Name, AnyRanker] = {}
    for i, name in enumerate(names):
        made = assemble(ranker, members, i, {}, seen)
        worth = by_gain(made)
        outside = assemble_outside(ranker, members, i) if importance else None
        if outside is not None:
            evaluated = held_out or learnt
            worth = by_permutation(
                outside,
                evaluated.data,
                side_by_side([_of_queries(evaluated.weights[i], held)]),
                rng=stage_rng("importance", seeds[0]),
                progress=progress,
            )
        origin = _origin(rows, known, name) | about | _kept_importance(worth)
        rankers[name] = replace(made, provenance=origin)
    reports = {name: report(members, i) for i, name in enumerate(names)}
    imputed = [
        {**row, "member": member.plan.name}
        for member in members
        for row in imputed_values(member.mapping, data)
    ]
    read = {name for one in rankers.values() for name in one.features}
    unused = tuple(name for name in data.feature_names if name not in read)
    return Trained(rankers, reports, known, estimate, rows.unmatched, imputed, unused)


def _out_of_fold(
    specs: Sequence[EntrySpec],
    rows: ClickRows,
    click_model: ClickModel | None,
    data: RankingDataset,
    kind: RankerKind,
    plans: Sequence[MemberPlan],
    seed: int,
    progress: Progress,
) -> list[list[Fold]]:
    """Train what each estimator asks of other queries; return the folds of each.

    What they say of a document is not served, so they may scale within its list.
    """
    logs = [RankerJob(rows, click_model, learns_of(spec), seed) for spec in specs]
    if not any(log.learns for log in logs):
        return [[] for _ in logs]
    fills = not RANKERS[kind.prior[0]].reads_missing
    mapping = FeatureMapping.fit(data, impute=fills, one_hot=FREQUENT)
    return train_out_of_fold(
        logs,
        mapping.apply(data).features,
        data.offsets,
        rankers=kind.prior,
        settings={plan.ranker: without_monotone(plan.settings) for plan in plans},
        seed=seed,
        progress=progress,
    )


def _require_settings_of(kind: RankerKind, settings: object) -> None:
    """Reject settings of another ranker."""
    if not isinstance(settings, kind.settings):
        raise ConfigError(
            f"the ranker {kind.name} takes {kind.settings.__name__}, got "
            f"{type(settings).__name__}; name the ranker that these settings are of"
        )


def _weighed(
    specs: Sequence[EntrySpec],
    rows: ClickRows,
    data: RankingDataset,
    folds: Sequence[Sequence[Fold]],
    *,
    click_model: ClickModel | None,
    above: float,
    times: int,
) -> list[Weights]:
    """Weigh clicks by each estimator, for so many rankers each."""
    labels = labels_for(specs, data, above)
    weights: list[Weights] = []
    for spec, own in zip(specs, folds, strict=True):
        weights += [weigh(rows, spec, click_model, labels=labels, folds=own)] * times
    return weights


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


def _learnt_from(
    parts: Sequence[tuple[ClickRows, RankingDataset]], estimators: Sequence[str]
) -> tuple[str, ...]:
    """Names of queries that had a say: evaluation must not judge by them."""
    every = any(row.needs == "labels" for row in rows_named(estimators))
    names: dict[str, None] = {}
    for i, (rows, data) in enumerate(parts):
        used = slice(None) if every and i == 0 else np.unique(rows.query)
        names |= dict.fromkeys(str(name) for name in data.query_ids[used])
    return tuple(names)


def ranker_settings(ranker: str, pairs: Sequence[str], seed: int = 0) -> Any:
    """Read the settings of a ranker from texts as in ``epochs=12``.

    What a kind draws in training is drawn by ``seed``.
    """
    kind = RANKERS[ranker].settings
    seeded = any(entry.name == "data_seed" for entry in fields(kind))
    return from_pairs(kind, [*([f"data_seed={seed}"] if seeded else []), *pairs])


def given_rates(ranker: str, pairs: Sequence[str]) -> list[float] | None:
    """Return the learning rate that these texts set, or ``None``: it is chosen."""
    if not any(text.replace(" ", "").startswith("learning_rate=") for text in pairs):
        return None
    return [ranker_settings(ranker, pairs).learning_rate]


def imputed_values(
    mapping: FeatureMapping, data: RankingDataset
) -> list[dict[str, Any]]:
    """List the features of ``data`` that lack values, and what ``mapping`` fills in."""
    fill = dict(zip(mapping.names, mapping.fill or (), strict=False))
    return [
        {"feature": name, "missing": n, "share": n / data.n_docs, "median": fill[name]}
        for name, n in data.missing_values().items()
        if name in fill
    ]
