"""What rankers learn from: counts joined with features, corrected and weighed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import JoinedCounts, join_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import Weights, document_weights, parse_estimator
from affinerank.data.dataset import RankingDataset
from affinerank.data.features import FeatureMapping
from affinerank.errors import ConfigError, DataError
from affinerank.pipeline.parts import note_unmatched, train_part
from affinerank.progress import Progress
from affinerank.rankers.early_stopping import Validation
from affinerank.rankers.gbdt import TreeSettings
from affinerank.rankers.mlp import NetworkSettings
from affinerank.rankers.targets import Targets

FULL_INFORMATION = "full-information"
Name = tuple[str, int]  # estimator and seed
Settings = NetworkSettings | TreeSettings
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """How counts become what rankers learn from.

    For the attributes see :func:`affinerank.pipeline.train_rankers`.
    """

    users: UserModel | None
    estimators: Sequence[str]
    seeds: Sequence[int]
    clip: str | float | None
    strict: bool
    relevant_above: float

    def targets(self, joined: JoinedCounts, data: RankingDataset) -> Targets:
        """Weights of each estimator, as often as there are seeds."""
        weights = [
            weigh(
                joined,
                data,
                self.users,
                name,
                clip=self.clip,
                strict=self.strict,
                relevant_above=self.relevant_above,
            )
            for name in self.estimators
        ]
        return stacked(weights, copies=len(self.seeds))


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What rankers learn from: the same for networks and trees.

    Attributes:
        asked: How it was prepared.
        mapping: What is done to raw features first.
        features: ``[n_docs, n_features]`` mapped.
        targets: Of each ranker.
        offsets: ``[n_queries + 1]``.
        validation: What to stop early by.
        unmatched: What the counts hold that the data have no features for.
        clicks: Behind the targets.
        sessions: Behind the targets.
        queries: Names of the queries.
    """

    asked: Asked
    mapping: FeatureMapping
    features: NDArray[np.float32]
    targets: Targets
    offsets: NDArray[np.int64]
    validation: Validation | None
    unmatched: Mapping[str, Any]
    clicks: int
    sessions: int
    queries: Sequence[str]

    @property
    def names(self) -> list[Name]:
        """Estimator and seed of each ranker."""
        return [(e, seed) for e in self.asked.estimators for seed in self.asked.seeds]

    def learnt_by(
        self, fit: Callable[..., T], settings: Settings, progress: Progress
    ) -> T:
        """What :func:`fit_networks` or :func:`fit_trees` makes of it."""
        return fit(
            self.features,
            self.targets,
            self.offsets,
            seeds=[seed for _, seed in self.names],
            settings=settings,
            validation=self.validation,
            progress=progress,
        )

    def provenance(self, name: Name, settings: Settings) -> dict[str, Any]:
        """How the ranker of this name was trained, for the reader of its file."""
        estimator, seed = name
        users = self.asked.users
        return {
            "trained_on": "labels" if estimator == FULL_INFORMATION else "clicks",
            "estimator": estimator,
            "clip": self.asked.clip,
            "seed": seed,
            "clicks": self.clicks,
            "sessions": self.sessions,
            "users": dict(users.provenance) if users else None,
            "settings": asdict(settings),
            "queries": list(self.queries),
        }


def prepare_lesson(
    counts: ClickCounts,
    data: RankingDataset,
    asked: Asked,
    validation: tuple[ClickCounts, RankingDataset] | None,
    *,
    impute: bool = False,
) -> Lesson:
    """Map features, join counts with them, and weigh both; see :func:`train_rankers`.

    ``impute`` fills missing values, which networks cannot read.
    """
    if not asked.estimators or not asked.seeds:
        raise ConfigError("give an estimator or more, and a seed or more")
    mapping = FeatureMapping.fit(data, impute=impute)
    joined = join_counts(train_part(counts), data)
    note_unmatched(joined, stacklevel=4)
    judged = None
    if validation is not None:
        held, held_data = validation
        judged = Validation(
            mapping.apply(held_data).features,
            asked.targets(join_counts(held, held_data), held_data),
            held_data.offsets,
        )
    return Lesson(
        asked,
        mapping,
        mapping.apply(data).features,
        asked.targets(joined, data),
        data.offsets,
        judged,
        joined.unmatched,
        int(joined.counts.clicks.sum()),
        joined.counts.n_sessions,
        _learnt_from(joined, data, asked.estimators, validation),
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
