"""Worlds: data sets on which clicks are simulated.

A world reads the splits of a data set, trains the production ranker of each run, and
draws the clicks of cells on its rankings.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from affinerank.clicks.models import CLICK_MODELS, ClickModel, trust
from affinerank.clicks.policies import fixed
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic, prepare
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.read_options import Split
from affinerank.data.sources import DataSource
from affinerank.evaluation.metrics import MetricValues, evaluate_scores
from affinerank.pipeline.simulate import click_model_of
from affinerank.pipeline.steps.features import FeatureSource
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.rankers.ranker import Ranker, score
from affinerank.research.cells import PER_DATA_SET, PER_RUN, PRODUCTION, Cell, DataSet
from affinerank.support.arrays import Floats, Ints, Rng
from affinerank.support.errors import DataError
from affinerank.support.lists import ranks_by_score
from affinerank.support.seeds import stage_rng
from affinerank.support.settings import EntrySpec
from affinerank.support.threads import in_parallel


@dataclass(frozen=True, slots=True, eq=False)
class Production:
    """What the production ranker of a run does.

    Attributes:
        ranks: ``[n_docs]`` rank of each document, by split.
        scores: ``[n_docs]`` score of each document, by split.
        value: nDCG@10 on the test split.
        digest: Of the training labels and ranks, which all of a run is drawn from.
    """

    ranks: Mapping[Split, Ints]
    scores: Mapping[Split, Floats]
    value: MetricValues
    digest: str


class World:
    """A data set read once, with the production rankers trained on it so far.

    Args:
        data: What is read, and how it is used.
        seed: Of the first run; run r has the seed ``seed + r``.
        production: ``per-run``: each run has a production ranker of its own;
            ``per-data-set``: all have that of the first.
        fold: Which fold of the data.
        turn: What training waits for, where processes share a device.
    """

    def __init__(
        self,
        data: DataSet,
        seed: int = 0,
        *,
        production: str = PER_RUN,
        fold: int = 1,
        turn: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.turn = turn
        self.data = data
        self.seed = seed
        self.fold = fold
        self.shared = production == PER_DATA_SET
        self._parts: dict[Split, FeatureSource] = {}
        self._production: dict[int, Production] = {}

    def part(self, split: Split) -> FeatureSource:
        """Return a split and its features, read and mapped at first use."""
        if split not in self._parts:
            source = DataSource.parse(self.data.source, fold=self.fold)
            dealt = self.data.folds > 1 and not source.splits
            if not dealt and split not in source.splits:
                has = ", ".join(source.splits) or "none"
                raise DataError(
                    f"{source.name}: an experiment needs the split {split}, and the "
                    f"splits there are {has}"
                )
            data = self._dealt(source, split) if dealt else source.read(split)
            self._parts[split] = FeatureSource(data, keeps=True)
        return self._parts[split]

    def _dealt(self, source: DataSource, split: Split) -> RankingDataset:
        """Deal the queries of a file into parts, and take a fold's, as LETOR does."""
        data, folds = source.read(None), self.data.folds
        order = stage_rng("folds", self.seed).permutation(data.n_queries)
        part = (order - self.fold + 1) % folds
        last = {"validation": folds - 2, "test": folds - 1}
        taken = part == last[split] if split in last else part < folds - 2
        return data.select_queries(np.flatnonzero(taken))

    def production(self, run: int) -> Production:
        """Return what the production ranker of a run does; see :meth:`rank`."""
        return self._production[0 if self.shared else run]

    def rank(self, runs: Iterable[int], *, held_out: bool = False) -> None:
        """Train the production rankers of runs, and rank what their users will see."""
        splits: tuple[Split, ...] = ("train", "validation") if held_out else ("train",)
        ranked = {r for r, p in self._production.items() if set(splits) <= set(p.ranks)}
        new = sorted(({0} if self.shared else set(runs)) - ranked)
        for split in (*splits, "test"):
            self.part(split)  # read before threads need it
        train, above = self.part("train").data, self.data.relevant_above
        rankers = [
            train_production_ranker(train, relevant_above=above, seed=self.seed + run)
            for run in new
        ]
        made = in_parallel(lambda ranker: self._ranked(ranker, splits), rankers)
        self._production |= zip(new, made, strict=True)

    def draw(self, cell: Cell, *, held_out: bool = False) -> tuple[ClickRows, Any]:
        """Draw a cell's clicks: on training queries, or fewer on validation queries.

        Returns:
            The clicks and the users who clicked; no clicks for a cell that depends on
            none.
        """
        data = self.part(_split_of_clicks(held_out)).data
        if cell.clicks is None:
            none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
            columns = (none, none, none, nothing, nothing, data.query_of_doc)
            return ClickRows(*columns, np.zeros(data.n_queries)), None
        counts, click_model = self.simulate(cell, held_out=held_out)
        return join_counts(counts, data), click_model

    def simulate(
        self, cell: Cell, *, held_out: bool = False
    ) -> tuple[ClickCounts, ClickModel]:
        """Simulate the log of a cell that depends on one; return the users, too."""
        split = _split_of_clicks(held_out)
        data = self.part(split).data
        production = self.production(cell.run)
        simulation = prepare(
            data,
            {PRODUCTION: production.ranks[split]},
            data.relevance(self.data.relevant_above),
            click_model_of(cell.click_model or "", int(data.docs_per_query.max())),
            traffic=Traffic.of(EntrySpec.parse(cell.policy or "")),
            scores={PRODUCTION: production.scores[split]},
            rng=stage_rng("traffic", self.seed + cell.run),
        )
        share = self.data.validation_share if held_out else 1.0
        sessions = simulation.sessions_for((cell.clicks or 0.0) * share)
        rng = click_rng(cell, self.seed, held_out=held_out)
        by_rank = simulation.click_model.click_probability(np.ones(1, int), np.zeros(1))
        context = by_rank is None  # such users may go by their clicks above
        counts = simulate_counts(simulation, sessions, rng=rng, context=context)
        return counts, simulation.click_model

    def _ranked(self, ranker: Ranker, splits: Iterable[Split]) -> Production:
        train, test = self.part("train").data, self.part("test").data
        raw = {split: self.part(split).data for split in splits}
        scores = {s: score(ranker, r) for s, r in raw.items()}
        ranks = {s: ranks_by_score(scores[s], r.offsets) for s, r in raw.items()}
        digest = hashlib.blake2b(digest_size=16)
        for array in (train.known_labels(), ranks["train"]):
            digest.update(np.ascontiguousarray(array).data)
        value = evaluate_scores(score(ranker, test), test, self.data.relevant_above)
        return Production(ranks, scores, value, digest.hexdigest())


def _split_of_clicks(held_out: bool) -> Split:
    """Return the split whose queries are clicked on."""
    return "validation" if held_out else "train"


def click_rng(cell: Cell, seed: int, *, held_out: bool = False) -> Rng:
    """Return the stream of a cell's clicks: a function of its coordinates.

    Committed runs drew their clicks by these numbers, so the numbers do not change.
    """
    model, policy = cell.click_model or "", cell.policy or ""
    spec = EntrySpec.parse(model)
    click_model: Any = spec.settings(CLICK_MODELS[spec.name].settings)
    numbers = [_number(cell.data), round(cell.clicks or 0.0), int(held_out)]
    if spec.name == trust.ROW.name:
        numbers[1:1] = [round(value * 1e6) for value in astuple(click_model)]
    else:
        numbers.append(_number(model))
    if policy != fixed.ROW.name:
        numbers.append(_number(policy))
    return stage_rng("clicks", seed + cell.run, *numbers)


def _number(text: str) -> int:
    return zlib.crc32(text.encode())
