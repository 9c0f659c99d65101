"""From counts to trained rankers of any kind, and rankers written into folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.arrays import Matrix
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.models import ClickModel
from affinerank.clicks.rows import ClickRows, Unmatched, note_unmatched, rows_of
from affinerank.data.dataset import RankingDataset
from affinerank.data.features import FeatureMapping
from affinerank.defaults import ESTIMATOR, RANKER, RECIPE, RELEVANT_ABOVE
from affinerank.errors import ConfigError
from affinerank.estimators import Fold
from affinerank.files import new_folder
from affinerank.notebook import Tabular
from affinerank.pipeline.folds import Log, learn_in_folds
from affinerank.pipeline.lists import Lists, fit_all
from affinerank.pipeline.parts import train_part
from affinerank.pipeline.recipe import fit_chosen, require_recipe
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
from affinerank.rankers.ranker import Fitted, Ranker
from affinerank.settings import Spec, from_pairs

if TYPE_CHECKING:
    from affinerank.bias.method import Estimate

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
    rates: Sequence[float] | None = None,
    validation: tuple[ClickCounts, RankingDataset] | None = None,
    checkpoint: Path | None = None,
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
            that of the ranker's row. Engines that score one document at a time cannot
            serve rankers whose features are scaled within the list.
        rates: Learning rates to choose from; left out, those of the ranker's row.
        validation: Counts and data used for early stopping, in place of a choice.
        checkpoint: File that an interrupted training resumes from.
        progress: Called as training advances.
    """
    if not estimators or not seeds:
        raise ConfigError("give an estimator or more, and a seed or more")
    kind = RANKERS[ranker]
    how, impute = settings or kind.settings(), not kind.reads_missing
    chosen = require_recipe(recipe) and kind.patience and validation is None
    require_clips(estimators, clip)
    mapping = FeatureMapping.fit(data, scaling=scaling or kind.scaling, impute=impute)
    known, estimate = users_for(
        estimators, counts, data, users, seed=seeds[0], progress=progress
    )
    rows = rows_of(train_part(counts), data)
    note_unmatched(rows)
    if strict:
        require_depth(estimators, rows, known)
    parts = [(rows, data)]
    specs = [with_clip(name, clip) for name in estimators]
    features = within = mapping.apply(data).features
    if not mapping.by_list and any(learns_of(spec) for spec in specs):
        # What other queries say of a document is not served, so it may use its list.
        within = FeatureMapping.fit(data, impute=impute).apply(data).features
    logs = [Log(rows, known, learns_of(spec), seeds[0]) for spec in specs]
    given: dict[str, Any] = {"settings": how, "progress": progress}
    outside = learn_in_folds(logs, within, data.offsets, ranker=ranker, **given)
    weighed = relevant_above, len(seeds)
    lists = _lists(specs, rows, known, data, features, *weighed, outside)
    held = None
    if validation is not None:
        part, of = rows_of(*validation), validation[1]
        parts.append((part, of))
        judges, none = [judging(spec) for spec in specs], [()] * len(specs)
        mapped = mapping.apply(of).features
        held = _lists(judges, part, known, of, mapped, *weighed, none)
    names = [(str(name), seed) for name in estimators for seed in seeds]
    given |= {"seeds": [seed for _, seed in names], "checkpoint": checkpoint}
    if chosen:
        fitted = fit_chosen(ranker, lists, rates=rates, seed=seeds[0], **given)
    else:
        fitted = fit_all(ranker, lists, held_out=held, **given)
    seen = _learnt_from(parts, estimators)
    about = _about(rows, known, how, clip, recipe)
    rankers = {
        name: Ranker(ranker, one.kept, mapping, {**_origin(name), **about}, seen)
        for name, one in zip(names, fitted, strict=True)
    }
    by_name = dict(zip(names, fitted, strict=True))
    imputed = imputed_values(mapping, data)
    unused = tuple(name for name in data.feature_names if name not in mapping.names)
    return Trained(rankers, by_name, known, estimate, rows.unmatched, imputed, unused)


def _lists(
    specs: Sequence[Spec],
    rows: ClickRows,
    users: ClickModel | None,
    data: RankingDataset,
    features: Matrix,
    relevant_above: float,
    times: int,
    outside: Sequence[Sequence[Fold]],
) -> Lists:
    """Weigh clicks by each estimator, for so many rankers each."""
    labels = labels_for(specs, data, relevant_above)
    weights = []
    for spec, folds in zip(specs, outside, strict=True):
        found = weigh(rows, spec, users, labels=labels, folds=folds)
        weights += [found] * times
    return Lists(features, data.offsets, weights)


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


def _origin(name: Name) -> dict[str, Any]:
    """What a ranker of this name learnt from, for the reader of its file."""
    (row,) = rows_named([name[0]])
    by = "labels" if row.needs == "labels" else "clicks"
    return {"trained_on": by, "estimator": name[0], "seed": name[1]}


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
