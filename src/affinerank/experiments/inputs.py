"""What the cells of one data set learn from: features, rankings, clicks, weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from affinerank.clicks.join import JoinedCounts, join_counts
from affinerank.clicks.simulate import prepare, simulate_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import Weights
from affinerank.data.catalog import DataSource
from affinerank.data.dataset import RankingDataset
from affinerank.data.features import FeatureMapping
from affinerank.data.reading import Split
from affinerank.errors import DataError
from affinerank.experiments.cells import Cell, click_rng
from affinerank.experiments.estimate import estimate_users
from affinerank.experiments.plan import NO_CLIP, TRUE, DataSet
from affinerank.metrics import MetricValues, ranks_by_score
from affinerank.pipeline import (
    full_information,
    judge,
    score,
    train_production_ranker,
    weigh,
)
from affinerank.rankers.gbdt import TreeRanker
from affinerank.seeds import stage_rng
from affinerank.threads import in_parallel

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A split of the data: as it was read, and as networks read it."""

    raw: RankingDataset
    features: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Logged:
    """The production ranker of a run, and what it does.

    Attributes:
        ranks: ``[n_docs]`` rank of each document, by split.
        value: nDCG@10 on the test split.
        digest: Of the training labels and ranks, which all of a run is drawn from.
    """

    ranks: dict[Split, Ints]
    value: MetricValues
    digest: str


@dataclass(frozen=True, slots=True, eq=False)
class Clicks:
    """Clicks drawn for the cells of one log, and the users who clicked."""

    joined: JoinedCounts
    users: UserModel
    split: Split


class Inputs:
    """A data set read once, with the production rankers trained on it so far."""

    def __init__(self, data: DataSet, seed: int) -> None:
        self.data = data
        self.seed = seed
        self.source = DataSource.parse(data.source)
        self._raw: dict[Split, RankingDataset] = {}
        self._parts: dict[Split, Part] = {}
        self._logged: dict[int, Logged] = {}

    @cached_property
    def mapping(self) -> FeatureMapping:
        """What is done to features before networks read them."""
        return FeatureMapping.fit(self._read("train"))

    def part(self, split: Split) -> Part:
        """A split, read at first use."""
        if split not in self._parts:
            raw = self._read(split)
            self._parts[split] = Part(raw, self.mapping.apply(raw).features)
        return self._parts[split]

    def rank(self, runs: Iterable[int], *, held_out: bool) -> None:
        """Train the production rankers of runs, and rank what their users will see."""
        splits: tuple[Split, ...] = ("train", "validation") if held_out else ("train",)
        ranked = {
            run for run, it in self._logged.items() if set(splits) <= set(it.ranks)
        }
        new = sorted(set(runs) - ranked)
        for split in ("test", *splits):
            self.part(split)  # read before threads ask for it
        rankers = [self._production_ranker(run) for run in new]
        made = in_parallel(lambda ranker: self._log(ranker, splits), rankers)
        self._logged |= zip(new, made, strict=True)

    def logged(self, run: int) -> Logged:
        """What the production ranker of a run does; see :meth:`rank`."""
        return self._logged[run]

    def clicks(self, cell: Cell, *, held_out: bool = False) -> Clicks:
        """Draw a cell's clicks: on training queries, or fewer on validation queries."""
        split: Split = "validation" if held_out else "train"
        part = self.part(split).raw
        above = self.data.relevant_above
        simulation = prepare(
            part,
            {"production": self._logged[cell.run].ranks[split]},
            part.relevance(above),
            true_users(cell, int(part.docs_per_query.max())),
            rng=stage_rng("traffic", self.seed + cell.run),
        )
        share = self.data.validation_share if held_out else 1.0
        sessions = simulation.sessions_for((cell.clicks or 0.0) * share)
        rng = click_rng(cell, self.seed, held_out=held_out)
        counts = simulate_counts(simulation, sessions, rng=rng)
        return Clicks(join_counts(counts, part), simulation.users, split)

    def users(self, cell: Cell, clicks: Clicks) -> UserModel:
        """The users that a cell's correction goes by: true, or estimated."""
        if cell.users == TRUE:
            return clicks.users
        part = self.part("train")
        return estimate_users(cell.users, clicks.joined, part.raw, self.seed + cell.run)

    def weights(self, cell: Cell, clicks: Clicks, users: UserModel) -> Weights:
        """What a cell makes of clicks; held-out ones are never clipped."""
        free = cell.clip == NO_CLIP or clicks.split != "train"
        return weigh(
            clicks.joined,
            self.part(clicks.split).raw,
            users,
            cell.estimator,
            clip=None if free else cell.clip,
        )

    def full_information(self, split: Split) -> Weights:
        """What labels say, on a split."""
        return full_information(self.part(split).raw, self.data.relevant_above)

    def _read(self, split: Split) -> RankingDataset:
        if split in self._raw:
            return self._raw[split]
        if split not in self.source.splits:
            has = ", ".join(self.source.splits) or "none"
            raise DataError(
                f"{self.data.source}: an experiment needs the split {split}, "
                f"and the splits there are {has}"
            )
        self._raw[split] = self.source.read(split)
        return self._raw[split]

    def _production_ranker(self, run: int) -> TreeRanker:
        return train_production_ranker(
            self.part("train").raw,
            relevant_above=self.data.relevant_above,
            seed=self.seed + run,
        )

    def _log(self, ranker: TreeRanker, splits: tuple[Split, ...]) -> Logged:
        train, test = self.part("train").raw, self.part("test").raw
        ranks: dict[Split, Ints] = {}
        for split in splits:
            part = self.part(split).raw
            ranks[split] = ranks_by_score(score(ranker, part), part.offsets)
        digest = hashlib.blake2b(digest_size=16)
        digest.update(np.ascontiguousarray(train.known_labels()).data)
        digest.update(np.ascontiguousarray(ranks["train"]).data)
        value = judge(score(ranker, test), test, self.data.relevant_above)
        return Logged(ranks, value, digest.hexdigest())


def true_users(cell: Cell, depth: int) -> UserModel:
    """The users who click in a cell."""
    return UserModel.paper(
        eta=cell.eta or 0.0, eps_minus_1=cell.eps_minus_1 or 0.0, depth=depth
    )
