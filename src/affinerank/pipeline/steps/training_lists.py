"""Queries with what each ranker learns there, and rankers fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.estimators import Weights
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import Fitted
from affinerank.rankers.targets import ClickTargets, Targets, Validation
from affinerank.support.arrays import Bools, Ints, Matrix
from affinerank.support.large_arrays import taken
from affinerank.support.progress import Progress, no_progress


@dataclass(frozen=True, slots=True, eq=False)
class TrainingLists(Validation):
    """Queries as rankers read them, with what each ranker learns there.

    Attributes:
        features: ``[n_docs, n_features]`` mapped.
        targets: Of all rankers.
        offsets: ``[n_queries + 1]``.
        categories: Columns of features that are codes of categories.
    """

    targets: Any
    categories: Sequence[int] = ()

    @classmethod
    def of(
        cls,
        features: Matrix,
        offsets: Ints,
        weights: Sequence[Weights],
        categories: Sequence[int] = (),
    ) -> TrainingLists:
        """Put the weights of each ranker side by side."""
        noisy = [own.slope is not None for own in weights]
        rank = [own.rank for own in weights]
        given = replace(side_by_side(weights), noisy=noisy, rank=rank)
        return cls(features, given, offsets, categories)

    def of_rankers(self, places: Sequence[int]) -> TrainingLists:
        """Keep what some rankers learn."""
        own = self.targets
        kept: Any = {n: getattr(own, n)[places] for n in ("weights", "known", "share")}
        kept |= {n: [getattr(own, n)[i] for i in places] for n in ("noisy", "rank")}
        return replace(self, targets=replace(own, **kept))

    def part(self, queries: Bools) -> TrainingLists:
        """Keep some queries."""
        sizes, own = np.diff(self.offsets), self.targets
        docs = np.repeat(queries, sizes)
        names = ["weights", "known"]
        if isinstance(own, ClickTargets):
            names = [f.name for f in fields(ClickTargets)]
        arrays = {name: getattr(own, name) for name in names}
        kept: Any = {n: a if a is None else a[:, docs] for n, a in arrays.items()}
        if isinstance(own, Targets):
            kept["share"] = own.share[:, queries]
            kept["rank"] = [rank if rank is None else rank[docs] for rank in own.rank]
        offsets = np.concatenate([[0], np.cumsum(sizes[queries])])
        features = taken(self.features, np.flatnonzero(docs))
        given = features, replace(own, **kept), offsets
        return TrainingLists(*given, self.categories)


def side_by_side(learnt: Sequence[Any]) -> Any:
    """Put weights, or clicks, of each ranker side by side: ``Targets`` or the like."""
    if not isinstance(learnt[0], ClickTargets):
        weights = np.stack([own.weight for own in learnt])
        known = np.stack([own.known for own in learnt])
        return Targets(weights, known, np.stack([own.share for own in learnt]))
    slots = max(own.clicks.shape[2] for own in learnt)
    found = []
    for f in fields(ClickTargets):
        parts = [getattr(own, f.name) for own in learnt]
        wide = [np.pad(p, ((0, 0), (0, 0), (0, slots - p.shape[2]))) for p in parts]
        found.append(np.concatenate(wide))
    return ClickTargets(*found)


def fit_all(
    ranker: str,
    lists: TrainingLists,
    *,
    seeds: Sequence[int],
    settings: Any = None,
    held_out: TrainingLists | None = None,
    lengths: Sequence[int] | None = None,
    checkpoint: Path | None = None,
    progress: Progress = no_progress,
) -> list[Fitted]:
    """Train rankers on shared features, one for each of the targets."""
    kind = RANKERS[ranker]
    more = {"lengths": lengths, "categories": lists.categories or None}
    return kind.fit(
        lists.features,
        lists.targets,
        lists.offsets,
        seeds=seeds,
        settings=settings or kind.settings(),
        validation=held_out,
        checkpoint=checkpoint,
        progress=progress,
        **{name: value for name, value in more.items() if value is not None},
    )
