"""From counts to trained rankers: join, correct, weigh, fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from affinerank.clicks.counts import HELD_OUT, KEPT, ClickCounts
from affinerank.clicks.join import JoinedCounts, join_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import Weights, document_weights, parse_estimator
from affinerank.data.dataset import FeatureMapping, RankingDataset
from affinerank.errors import AffineRankWarning, ConfigError, DataError
from affinerank.files import new_folder
from affinerank.progress import Progress, quiet
from affinerank.rankers.early_stopping import Validation
from affinerank.rankers.mlp import MLPRanker, Networks, NetworkSettings
from affinerank.rankers.targets import Targets
from affinerank.rankers.training import FittedNetworks, fit_networks

FULL_INFORMATION = "full-information"
Name = tuple[str, int]  # estimator and seed


@dataclass(frozen=True, slots=True)
class Trained:
    """Rankers trained together.

    Attributes:
        rankers: One for each estimator and seed.
        losses: ``[epochs, n]`` mean loss of each.
        unmatched: What the counts hold that the data have no features for.
        imputed: Which features lacked values, how many, and what was put there.
    """

    rankers: Mapping[Name, MLPRanker]
    losses: Any
    unmatched: Mapping[str, Any]
    imputed: Sequence[Mapping[str, Any]] = ()


def train_rankers(
    counts: ClickCounts,
    data: RankingDataset,
    users: UserModel | None,
    *,
    estimators: Sequence[str] = ("affine",),
    seeds: Sequence[int] = (0,),
    settings: NetworkSettings | None = None,
    clip: str | float | None = None,
    strict: bool = False,
    relevant_above: float = 2.0,
    validation: tuple[ClickCounts, RankingDataset] | None = None,
    checkpoint: Path | None = None,
    progress: Progress = quiet,
) -> Trained:
    """Train a network for each estimator and seed, all at once.

    Args:
        counts: Clicks; of their ``split``, where they have one, the part ``train``.
        data: Features of the documents; missing values are filled with medians.
        users: How users click. The naive estimator needs none.
        estimators: Names of ``ESTIMATORS``; ``full-information`` learns from labels.
        seeds: One network of each estimator for each.
        settings: Shape and training of the networks.
        clip: Lower bound of alpha, as :meth:`Correction.clipped` takes it.
        strict: Refuse ranks deeper than the user model instead of extending it.
        relevant_above: Labels above this are relevant, for full information.
        validation: Counts and data to stop early by.
        checkpoint: File that training goes on from if it was killed.
        progress: Told of each epoch.
    """
    asked = settings or NetworkSettings()
    weigher = partial(
        weigh, users=users, clip=clip, strict=strict, relevant_above=relevant_above
    )
    lesson = prepare_lesson(
        counts, data, weigher, estimators, seeds, validation, impute=True
    )
    fitted = fit_networks(
        lesson.features,
        lesson.targets,
        data.offsets,
        seeds=[seed for _, seed in lesson.names],
        settings=asked,
        validation=lesson.validation,
        checkpoint=checkpoint,
        progress=progress,
    )
    told = partial(lesson.provenance, users=users, clip=clip, settings=asdict(asked))
    rankers = {
        name: MLPRanker(_alone(fitted, i, asked), lesson.mapping, told(name))
        for i, name in enumerate(lesson.names)
    }
    imputed = imputed_values(lesson.mapping, data)
    return Trained(rankers, fitted.losses, lesson.unmatched, imputed)


def save_trained(trained: Trained, folder: Path) -> dict[str, Any]:
    """Save one ranker as ``folder``, several below it by estimator (and seed).

    All of them appear, or none does.
    """
    written = save_rankers(trained.rankers, folder)
    rows = [
        {
            "estimator": name,
            "seed": seed,
            "first_loss": float(trained.losses[0, i]),
            "last_loss": float(trained.losses[-1, i]),
            "epochs": len(trained.losses),
            "written": str(target),
        }
        for i, ((name, seed), target) in enumerate(written.items())
    ]
    return {
        "rankers": rows,
        "unmatched": dict(trained.unmatched),
        "imputed": list(trained.imputed),
    }


def imputed_values(
    mapping: FeatureMapping, data: RankingDataset
) -> list[dict[str, Any]]:
    """Features of ``data`` that lack values, and what ``mapping`` fills them with."""
    fill = dict(zip(mapping.names, mapping.fill or (), strict=False))
    return [
        {"feature": name, "missing": n, "share": n / data.n_docs, "median": fill[name]}
        for name, n in data.missing_values().items()
        if name in fill
    ]


class Saved(Protocol):
    """A ranker that can be written."""

    def save(self, folder: Path) -> None:
        """Write a new folder."""


def save_rankers(rankers: Mapping[Name, Saved], folder: Path) -> dict[Name, Path]:
    """Save one ranker as ``folder``, several below it; say where each is."""
    if len(rankers) == 1:
        (name, ranker), *_ = rankers.items()
        ranker.save(folder)
        return {name: folder}
    one_seed = len({seed for _, seed in rankers}) == 1
    written = {
        (name, seed): folder / (name if one_seed else f"{name}-{seed}")
        for name, seed in rankers
    }
    with new_folder(folder) as aside:
        for key, ranker in rankers.items():
            ranker.save(aside / written[key].name)
    return written


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What rankers learn from: the same for networks and trees.

    Attributes:
        names: Estimator and seed of each ranker.
        mapping: What is done to raw features first.
        features: ``[n_docs, n_features]`` mapped.
        targets: Of each ranker.
        validation: What to stop early by.
        unmatched: What the counts hold that the data have no features for.
        clicks: Behind the targets.
        sessions: Behind the targets.
        queries: Names of the queries.
    """

    names: Sequence[Name]
    mapping: FeatureMapping
    features: NDArray[np.float32]
    targets: Targets
    validation: Validation | None
    unmatched: Mapping[str, Any]
    clicks: int
    sessions: int
    queries: Sequence[str]

    def provenance(
        self,
        name: Name,
        *,
        users: UserModel | None,
        clip: str | float | None,
        settings: Mapping[str, Any],
    ) -> dict[str, Any]:
        """How the ranker of this name was trained, for the reader of its file."""
        estimator, seed = name
        return {
            "trained_on": "labels" if estimator == FULL_INFORMATION else "clicks",
            "estimator": estimator,
            "clip": clip,
            "seed": seed,
            "clicks": self.clicks,
            "sessions": self.sessions,
            "users": dict(users.provenance) if users else None,
            "settings": settings,
            "queries": list(self.queries),
        }


def prepare_lesson(
    counts: ClickCounts,
    data: RankingDataset,
    weigher: Callable[..., Weights],
    estimators: Sequence[str],
    seeds: Sequence[int],
    validation: tuple[ClickCounts, RankingDataset] | None,
    *,
    impute: bool = False,
) -> Lesson:
    """Map features, join counts with them, and weigh both; see :func:`train_rankers`.

    ``weigher`` is :func:`weigh`, all but its counts, data and estimator given;
    ``impute`` fills missing values, which networks cannot read.
    """
    if not estimators or not seeds:
        raise ConfigError("give an estimator or more, and a seed or more")
    mapping = FeatureMapping.fit(data, impute=impute)
    joined = join_counts(train_part(counts), data)
    note_unmatched(joined, stacklevel=4)

    def targets(part: JoinedCounts, of: RankingDataset) -> Targets:
        weights = [weigher(part, of, estimator=name) for name in estimators]
        return stacked(weights, copies=len(seeds))

    judged = None
    if validation is not None:
        held, held_data = validation
        judged = Validation(
            mapping.apply(held_data).features,
            targets(join_counts(held, held_data), held_data),
            held_data.offsets,
        )
    return Lesson(
        [(name, seed) for name in estimators for seed in seeds],
        mapping,
        mapping.apply(data).features,
        targets(joined, data),
        judged,
        joined.unmatched,
        int(joined.counts.clicks.sum()),
        joined.counts.n_sessions,
        _learnt_from(joined, data, estimators, validation),
    )


def _learnt_from(
    joined: JoinedCounts,
    data: RankingDataset,
    estimators: Sequence[str],
    validation: tuple[ClickCounts, RankingDataset] | None,
) -> list[str]:
    """Queries that had a say in the rankers: evaluation must not ask them again."""
    parts = [data.query_ids[np.unique(data.query_of_doc[joined.doc])]]
    if FULL_INFORMATION in estimators:
        parts = [data.query_ids]
    if validation is not None:
        held, held_data = validation
        doc = join_counts(held, held_data).doc
        parts.append(held_data.query_ids[np.unique(held_data.query_of_doc[doc])])
    return list(dict.fromkeys(str(name) for part in parts for name in part))


def weigh(
    joined: JoinedCounts,
    data: RankingDataset,
    users: UserModel | None,
    estimator: str,
    *,
    clip: str | float | None = None,
    strict: bool = False,
    relevant_above: float = 2.0,
) -> Weights:
    """Turn counts into the weights of one estimator; see :func:`train_rankers`."""
    if estimator == FULL_INFORMATION:
        return full_information(data, relevant_above)
    correct = parse_estimator(estimator)
    if users is None:
        if estimator != "naive":
            raise ConfigError(f"the estimator {estimator} needs a user model (--users)")
        users = UserModel.position_bias([1.0])
    deepest = int(joined.counts.rank.max())
    if strict and estimator != "naive" and deepest > users.depth:
        raise DataError(
            f"the user model ends at rank {users.depth}, and the counts go down to "
            f"{deepest}; give a deeper one, or leave --strict out"
        )
    correction = correct(joined.counts, users)
    if clip is not None:
        correction = correction.clipped(clip, joined.counts.n_sessions)
    return document_weights(joined, correction, data)


def needs_users(estimators: Sequence[str]) -> bool:
    """Whether one of these estimators has to know how users click."""
    return any(name not in ("naive", FULL_INFORMATION) for name in estimators)


def stacked(weights: Sequence[Weights], *, copies: int = 1) -> Targets:
    """Put weights side by side for a stack of networks, ``copies`` times each."""
    return Targets(
        np.stack([w.weight for w in weights]).repeat(copies, axis=0),
        np.stack([w.shown for w in weights]).repeat(copies, axis=0),
        np.stack([w.share for w in weights]).repeat(copies, axis=0),
    )


def full_information(data: RankingDataset, relevant_above: float = 2.0) -> Weights:
    """Weights that know every label: what clicks could teach at best."""
    relevance = data.relevance(relevant_above).astype(np.float64)
    share = np.full(data.n_queries, 1.0 / data.n_queries)
    return Weights(relevance, np.ones(data.n_docs, dtype=bool), share)


def note_unmatched(joined: JoinedCounts, *, stacklevel: int = 3) -> None:
    """Say how much of the log has no features; most of it is hardly meant."""
    lost = joined.unmatched["impressions"]
    if not lost:
        return
    share = lost / (lost + int(joined.counts.impressions.sum()))
    if share > 0.5:
        raise DataError(
            f"{share:.0%} of the impressions are of documents that the data have no "
            "features for; are these the data that the log is about?"
        )
    warnings.warn(
        f"{share:.1%} of the impressions are of documents without features, and were "
        "left out",
        AffineRankWarning,
        stacklevel=stacklevel,
    )


def held_out(counts: ClickCounts) -> ClickCounts:
    """The part of the counts that was set aside (``count --holdout``)."""
    if "split" not in counts.keys:
        raise ConfigError(
            "stopping early needs held-out clicks: give --validation COUNTS, or count "
            "with --holdout 0.2"
        )
    return counts.select("split", HELD_OUT)


def train_part(counts: ClickCounts) -> ClickCounts:
    """The part of the counts that is learnt from."""
    return counts.select("split", KEPT) if "split" in counts.keys else counts


def _alone(fitted: FittedNetworks, i: int, settings: NetworkSettings) -> Networks:
    stack = fitted.networks
    return Networks(
        tuple(p[i : i + 1].clone() for p in stack.parameters),
        stack.n_features,
        settings,
        (stack.seeds[i],),
    )
