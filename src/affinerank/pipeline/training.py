"""From counts to trained rankers of any kind, and rankers written into folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank import limits
from affinerank.arrays import Floats
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.models import ClickModel
from affinerank.clicks.rows import ClickRows, Unmatched, rows_of
from affinerank.data.dataset import RankingDataset
from affinerank.data.features import FREQUENT, FeatureMapping
from affinerank.defaults import ESTIMATOR, RANKER, RECIPE, RELEVANT_ABOVE, TREES
from affinerank.errors import ConfigError, DataError
from affinerank.estimators import Fold
from affinerank.files import new_folder
from affinerank.notebook import Tabular
from affinerank.pipeline.folds import Log, learn_in_folds
from affinerank.pipeline.lists import Lists, fit_all
from affinerank.pipeline.parts import matched_rows, train_part
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
from affinerank.rankers.importance import Importance, by_gain, by_permutation
from affinerank.rankers.parameters import for_features, without_monotone
from affinerank.rankers.ranker import Fitted, Model, Ranker, RankerKind
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
    guard = None if safe is None else SAFEGUARDS[safe]
    _require_able(kind, guard, importance, chosen or validation)
    require_clips(estimators, clip)
    fit = partial(FeatureMapping.fit, data, impute=not kind.reads_missing)
    mapping = fit(scaling=scaling or kind.scaling, one_hot=_hot(kind, data, categories))
    how = for_features(asked, mapping.names)
    known, estimate = users_for(
        estimators, counts, data, users, seed=seeds[0], progress=progress
    )
    rows = matched_rows(train_part(counts), data)
    if strict:
        require_depth(estimators, rows, known)
    specs = [with_clip(name, clip) for name in estimators]
    mapped = mapping.apply(data)
    within = mapped.features
    if (mapping.codes or not mapping.by_list) and any(map(learns_of, specs)):
        # What other queries say of a document is not served, so it may use its list.
        within = fit(one_hot=FREQUENT).apply(data).features
    outside = learn_in_folds(
        [Log(rows, known, learns_of(spec), seeds[0]) for spec in specs],
        within,
        data.offsets,
        ranker=ranker,
        settings=without_monotone(asked),
        progress=progress,
    )
    weighed = partial(_lists, users=known, above=relevant_above, times=len(seeds))
    bounds = None if guard is None else guard.limits(rows)
    lists = weighed(specs, rows, mapped, outside, bounds)
    del outside, within  # as much memory as the log has
    parts, held = [(rows, data)], None
    if validation is not None:
        part, of = rows_of(*validation), validation[1]
        parts.append((part, of))
        judges = list(map(judging, specs))
        held = weighed(judges, part, mapping.apply(of), [()] * len(specs))
    names = [(str(name), seed) for name in estimators for seed in seeds]
    own = [seed for _, seed in names]
    given: dict[str, Any] = {"seeds": own, "settings": how, "checkpoint": checkpoint}
    explain = partial(_worth, mapping.names, seeds[0], progress) if importance else None
    choose = partial(fit_chosen, rates=rates, seed=seeds[0])
    train_all = choose if chosen else partial(fit_all, held_out=held)
    fitted = train_all(ranker, lists, explain=explain, progress=progress, **given)
    by_name = dict(zip(names, fitted, strict=True))
    about = {"clip": clip, "settings": asdict(asked), "recipe": recipe}
    origin = partial(_origin, rows, known, about, mapping.names)
    seen = _learnt_from(parts, estimators)
    rankers = {
        name: Ranker(ranker, one.kept, mapping, origin(name, one), seen)
        for name, one in by_name.items()
    }
    imputed = imputed_values(mapping, data)
    read = {*mapping.names, *mapping.categories}
    unused = tuple(name for name in data.feature_names if name not in read)
    return Trained(rankers, by_name, known, estimate, rows.unmatched, imputed, unused)


def _require_able(
    kind: RankerKind, guard: Safeguard | None, importance: bool, held_out: object
) -> None:
    """Reject limits that the ranker does not heed, and importance of no queries."""
    if guard is not None and not kind.takes_limits:
        able = [row.name for row in RANKERS.values() if row.takes_limits]
        raise ConfigError(
            f"the ranker {kind.name} cannot learn within limits; --safe is for "
            f"{' and '.join(able)}"
        )
    if importance and not held_out:
        raise ConfigError(
            f"importance needs held-out queries: train by the recipe {RECIPE}, or with "
            "validation (--patience)"
        )


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
    data: RankingDataset,
    outside: Sequence[Sequence[Fold]],
    limits: Floats | None = None,
    *,
    users: ClickModel | None,
    above: float,
    times: int,
) -> Lists:
    """Weigh clicks by each estimator, for so many rankers each; ``data`` are mapped."""
    labels = labels_for(specs, data, above)
    weights = [
        found
        for spec, folds in zip(specs, outside, strict=True)
        for found in [weigh(rows, spec, users, labels=labels, folds=folds)] * times
    ]
    codes = [i for i, n in enumerate(data.feature_names) if n in data.categories]
    return Lists.of(data.features, data.offsets, weights, codes, limits)


def _worth(
    names: Sequence[str], seed: int, progress: Progress, model: Model, held: Lists
) -> Importance:
    """Measure what features are worth on held-out queries."""
    given: Any = held.features, held.targets, held.offsets
    rng = stage_rng("importance", seed)
    return by_permutation(model, names, *given, rng=rng, progress=progress)


def _origin(
    rows: ClickRows,
    users: ClickModel | None,
    how: Mapping[str, Any],
    features: Sequence[str],
    name: Name,
    fitted: Fitted,
) -> dict[str, Any]:
    """What a ranker of this name learnt from, for the reader of its file."""
    (row,) = rows_named([name[0]])
    found = fitted.importance or by_gain(fitted.kept, features)
    worth = {"queries": found.queries, "features": found.rows()}
    return {
        "trained_on": "labels" if row.needs == "labels" else "clicks",
        "estimator": name[0],
        "seed": name[1],
        "clicks": int(rows.clicks.sum()),
        "sessions": rows.n_sessions,
        "users": dict(users.provenance) if users else None,
        **how,
        **({} if found.gain is found.loss is None else {"importance": worth}),
    }


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
