"""From counts to trained rankers of any kind, and rankers written into folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank import limits
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.models import ClickModel
from affinerank.clicks.rows import ClickRows, Unmatched, note_unmatched, rows_of
from affinerank.data.dataset import RankingDataset
from affinerank.data.features import FREQUENT, FeatureMapping
from affinerank.defaults import ESTIMATOR, RANKER, RECIPE, RELEVANT_ABOVE, TREES
from affinerank.errors import ConfigError, DataError
from affinerank.estimators import Fold
from affinerank.files import new_folder
from affinerank.notebook import Tabular
from affinerank.pipeline.folds import Log, learn_in_folds
from affinerank.pipeline.lists import Lists, fit_all
from affinerank.pipeline.parts import train_part
from affinerank.pipeline.recipe import fit_chosen, require_recipe
from affinerank.pipeline.safeguards import SAFEGUARDS, Safeguard
from affinerank.pipeline.weighing import (
    judging,
    labels_for,
    learns_of,
    require_clips,
    require_depth,
    rows_named,
    users_for,
    weigh,
    with_clip,
)
from affinerank.progress import Progress, quiet
from affinerank.rankers import RANKERS
from affinerank.rankers.importance import by_gain, by_permutation
from affinerank.rankers.parameters import for_features, without_monotone
from affinerank.rankers.ranker import Fitted, Ranker, RankerKind
from affinerank.seeds import stage_rng
from affinerank.settings import Spec, from_pairs, require_choice

if TYPE_CHECKING:
    from affinerank.bias.method import Estimate

CATEGORIES = ("native", "one-hot")
Name = tuple[str, int]  # estimator and seed


@dataclass(frozen=True, slots=True, repr=False)
class Trained(Tabular):
    """Rankers trained together.

    Attributes:
        rankers: One for each estimator and seed.
        fitted: How the training of each went.
        users: Whose clicks were corrected; ``None`` where no estimator needs to know.
        estimate: How these users were estimated, if they were.
        unmatched: What the counts hold that the data have no features for.
        imputed: Which features lacked values, how many, and what was put there.
        constant: Features that tell no documents of a query apart, and were left out.
    """

    rankers: Mapping[Name, Ranker]
    fitted: Mapping[Name, Fitted]
    users: ClickModel | None
    estimate: Estimate | None
    unmatched: Unmatched
    imputed: Sequence[Mapping[str, Any]] = ()
    constant: tuple[str, ...] = ()

    def _line(self) -> str:
        return ", ".join(f"{name}: {one!r}" for (name, _), one in self.rankers.items())

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"estimator": name, "seed": seed, **self.fitted[name, seed].report}
            for name, seed in self.rankers
        ]

    def save(self, folder: Path) -> dict[str, Any]:
        """Save one ranker as ``folder``, several below it by estimator (and seed).

        All of them appear, or none does. Returns what was written, as plain data.
        """
        targets = self._folders(folder)
        if len(targets) == 1:
            next(iter(self.rankers.values())).save(folder)
        else:
            with new_folder(folder) as aside:
                for name, ranker in self.rankers.items():
                    ranker.save(aside / targets[name].name)
        rows = [
            {
                "estimator": name[0],
                "seed": name[1],
                **self.fitted[name].report,
                "written": str(target),
            }
            for name, target in targets.items()
        ]
        return {
            "rankers": rows,
            "unmatched": asdict(self.unmatched),
            "imputed": list(self.imputed),
            "constant": list(self.constant),
        }

    def _folders(self, folder: Path) -> dict[Name, Path]:
        if len(self.rankers) == 1:
            return dict.fromkeys(self.rankers, folder)
        one_seed = len({seed for _, seed in self.rankers}) == 1
        found = {}
        for estimator, seed in self.rankers:
            plain = re.sub(r"[^\w.-]+", "-", estimator).strip("-")
            found[estimator, seed] = folder / (plain if one_seed else f"{plain}-{seed}")
        return found


def train(
    counts: ClickCounts,
    data: RankingDataset,
    users: ClickModel | None = None,
    *,
    ranker: str = RANKER,
    settings: Any = None,
    estimators: Sequence[str] = (ESTIMATOR,),
    seeds: Sequence[int] = (0,),
    clip: str | float | None = None,
    strict: bool = False,
    relevant_above: float = RELEVANT_ABOVE,
    recipe: str = RECIPE,
    scaling: str | None = None,
    categories: str | None = None,
    safe: str | None = None,
    rates: Sequence[float] | None = None,
    validation: tuple[ClickCounts, RankingDataset] | None = None,
    checkpoint: Path | None = None,
    importance: bool = False,
    progress: Progress = quiet,
) -> Trained:
    """Train a ranker for each estimator and seed, all at once where the kind can.

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        data: Features of the documents.
        users: How users click; estimated first where left out and needed.
        ranker: A row of ``RANKERS``.
        settings: Shape and training: an instance of the row's ``settings``.
        estimators: Rows of ``ESTIMATORS``, with options as in ``affine(clip=0.1)``.
        seeds: One ranker of each estimator for each.
        clip: Clipping rule of every estimator that divides.
        strict: Reject ranks deeper than the user model instead of extending it.
        relevant_above: Labels above this are relevant, for estimators by labels.
        recipe: ``chosen``: learning rate and length by held-out queries, then trained
            on all; ``paper``: as the settings say.
        scaling: Of features: ``list``, within the query; ``data``; ``none``. Left out,
            that of the ranker's row. Search engines cannot serve ``list``.
        categories: ``native``, for rankers that read them (default), or ``one-hot``.
        safe: A row of ``SAFEGUARDS`` that limits what is gained by leaving the logged
            ranking; :func:`~affinerank.pipeline.safe.train_safe` does more.
        rates: Learning rates to choose from; left out, those of the ranker's row.
        validation: Counts and data used for early stopping, in place of a choice.
        checkpoint: File that an interrupted training resumes from.
        importance: Measure what features are worth on queries that were held out.
        progress: Called as training advances.
    """
    if not estimators or not seeds:
        raise ConfigError("give an estimator or more, and a seed or more")
    kind = RANKERS[ranker]
    asked = settings or kind.settings()
    chosen = require_recipe(recipe) and kind.patience and validation is None
    guard = None if safe is None else _safeguarded(kind, safe)
    require_clips(estimators, clip)
    _require_held_out(importance, bool(chosen) or validation is not None)
    fit = partial(FeatureMapping.fit, data, impute=not kind.reads_missing)
    mapping = fit(scaling=scaling or kind.scaling, one_hot=_hot(kind, data, categories))
    how = for_features(asked, mapping.names)
    known, estimate = users_for(
        estimators, counts, data, users, seed=seeds[0], progress=progress
    )
    rows = rows_of(train_part(counts), data)
    note_unmatched(rows)
    if strict:
        require_depth(estimators, rows, known)
    parts = [(rows, data)]
    specs = [with_clip(name, clip) for name in estimators]
    mapped = mapping.apply(data)
    within = mapped.features
    if (mapping.codes or not mapping.by_list) and any(map(learns_of, specs)):
        # What other queries say of a document is not served, so it may use its list.
        within = fit(one_hot=FREQUENT).apply(data).features
    logs = [Log(rows, known, learns_of(spec), seeds[0]) for spec in specs]
    given: dict[str, Any] = {"settings": how, "progress": progress}
    free = {**given, "settings": without_monotone(asked)}
    outside = learn_in_folds(logs, within, data.offsets, ranker=ranker, **free)
    weighed = relevant_above, len(seeds)
    lists = _lists(specs, rows, known, mapped, *weighed, outside)
    if guard is not None:
        lists = replace(lists, limits=guard.limits(rows))
    held = None
    if validation is not None:
        part, of = rows_of(*validation), validation[1]
        parts.append((part, of))
        judges, none = [judging(spec) for spec in specs], [()] * len(specs)
        held = _lists(judges, part, known, mapping.apply(of), *weighed, none)
    names = [(str(name), seed) for name in estimators for seed in seeds]
    given |= {"seeds": [seed for _, seed in names], "checkpoint": checkpoint}
    explain = partial(_explained, mapping.names, seeds[0], progress)
    choice = {"rates": rates, "seed": seeds[0]} if chosen else None
    fitted = _fit(ranker, lists, held, choice, explain if importance else None, given)
    seen = _learnt_from(parts, estimators)
    about = _about(rows, known, asked, clip, recipe)
    by_name = dict(zip(names, fitted, strict=True))
    origin = partial(_origin, about, mapping.names)
    rankers = {
        name: Ranker(ranker, one.kept, mapping, origin(name, one), seen)
        for name, one in by_name.items()
    }
    imputed = imputed_values(mapping, data)
    read = {*mapping.names, *mapping.categories}
    unused = tuple(name for name in data.feature_names if name not in read)
    return Trained(rankers, by_name, known, estimate, rows.unmatched, imputed, unused)


def _safeguarded(kind: RankerKind, safe: str) -> Safeguard:
    if not kind.takes_limits:
        able = [row.name for row in RANKERS.values() if row.takes_limits]
        raise ConfigError(
            f"the ranker {kind.name} cannot learn within limits; --safe is for "
            f"{' and '.join(able)}"
        )
    return SAFEGUARDS[safe]


def _hot(kind: RankerKind, data: RankingDataset, how: str | None) -> int | None:
    """Return how many values of a category become features; ``None``: it is a code."""
    require_choice("categories", how or CATEGORIES[0], CATEGORIES)
    if how == CATEGORIES[1]:
        return limits.CATEGORY_VALUES
    if data.categories and not kind.reads_categories:
        names = ",".join(data.categories)
        raise DataError(
            f"{names}: text, so a category, which the ranker {kind.name} cannot read; "
            f"give --categories {CATEGORIES[1]}, --ignore {names} or --ranker {TREES}"
        )
    return None


def _lists(
    specs: Sequence[Spec],
    rows: ClickRows,
    users: ClickModel | None,
    data: RankingDataset,
    relevant_above: float,
    times: int,
    outside: Sequence[Sequence[Fold]],
) -> Lists:
    """Weigh clicks by each estimator, for so many rankers each; ``data`` are mapped."""
    labels = labels_for(specs, data, relevant_above)
    weights = []
    for spec, folds in zip(specs, outside, strict=True):
        found = weigh(rows, spec, users, labels=labels, folds=folds)
        weights += [found] * times
    codes = [i for i, n in enumerate(data.feature_names) if n in data.categories]
    return Lists(data.features, data.offsets, weights, codes)


def _about(
    rows: ClickRows,
    users: ClickModel | None,
    settings: Any,
    clip: str | float | None,
    recipe: str,
) -> dict[str, Any]:
    """What all rankers of a training have in common, for the reader of their files."""
    return {
        "clip": clip,
        "clicks": int(rows.clicks.sum()),
        "sessions": rows.n_sessions,
        "users": dict(users.provenance) if users else None,
        "settings": asdict(settings),
        "recipe": recipe,
    }


def _explained(
    names: Sequence[str], seed: int, progress: Progress, fitted: Fitted, held: Lists
) -> Fitted:
    """Measure what features are worth on held-out queries."""
    rng = stage_rng("importance", seed)
    given = held.features, held.targets(), held.offsets
    found = by_permutation(fitted.kept, names, *given, rng=rng, progress=progress)
    return replace(fitted, importance=found)


def _fit(
    ranker: str,
    lists: Lists,
    held: Lists | None,
    choice: dict[str, Any] | None,
    explain: Callable[[Fitted, Lists], Fitted] | None,
    given: dict[str, Any],
) -> list[Fitted]:
    """Train by a choice of rate and length, or as the settings say."""
    if choice is not None:
        return fit_chosen(ranker, lists, explain=explain, **choice, **given)
    fitted = fit_all(ranker, lists, held_out=held, **given)
    if explain is None or held is None:
        return fitted
    return [explain(one, held.of_ranker(i)) for i, one in enumerate(fitted)]


def _require_held_out(importance: bool, held_out: bool) -> None:
    if importance and not held_out:
        raise ConfigError(
            f"importance needs held-out queries: train by the recipe {RECIPE}, or with "
            "validation (--patience)"
        )


def _origin(
    about: dict[str, Any], names: Sequence[str], name: Name, fitted: Fitted
) -> dict[str, Any]:
    """What a ranker of this name learnt from, for the reader of its file."""
    (row,) = rows_named([name[0]])
    by = "labels" if row.needs == "labels" else "clicks"
    found = fitted.importance or by_gain(fitted.kept, names)
    worth = {"queries": found.queries, "features": found.rows()}
    told = {} if found.gain is found.loss is None else {"importance": worth}
    origin = {"trained_on": by, "estimator": name[0], "seed": name[1]}
    return {**origin, **about, **told}


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
