"""Queries with what each ranker learns there, and rankers fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.arrays import Bools, Floats, Ints, Matrix
from affinerank.estimators import Weights
from affinerank.progress import Progress, quiet
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import Fitted
from affinerank.rankers.targets import Targets, Validation


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Queries as rankers read them, with what each ranker learns there.

    Attributes:
        features: ``[n_docs, n_features]`` mapped.
        offsets: ``[n_queries + 1]``.
        weights: Of each ranker.
        categories: Columns of features that are codes of categories.
        limits: ``[3, n_docs]`` of what documents can bring, for safe learning.
    """

    features: Matrix
    offsets: Ints
    weights: Sequence[Weights]
    categories: Sequence[int] = ()
    limits: Floats | None = None

    def targets(self) -> Targets:
        """Put the weights side by side."""
        return Targets(
            np.stack([w.weight for w in self.weights]),
            np.stack([w.known for w in self.weights]),
            np.stack([w.share for w in self.weights]),
            [w.slope is not None for w in self.weights],
            [w.rank for w in self.weights],
            self.limits,
        )

    def of_ranker(self, i: int) -> Lists:
        """Keep what one ranker learns."""
        return replace(self, weights=[self.weights[i]])

    def part(self, queries: Bools) -> Lists:
        """Keep some queries."""
        sizes = np.diff(self.offsets)
        docs = np.repeat(queries, sizes)
        made = {
            number: replace(
                weights,
                weight=weights.weight[docs],
                known=weights.known[docs],
                share=weights.share[queries],
                variance=np.empty(0),
                slope=None if weights.slope is None else np.empty(0),
                kappa=None,
                rank=None if weights.rank is None else weights.rank[docs],
            )
            for number, weights in {id(w): w for w in self.weights}.items()
        }
        offsets = np.concatenate([[0], np.cumsum(sizes[queries])])
        of_each = [made[id(weights)] for weights in self.weights]
        limits = None if self.limits is None else self.limits[:, docs]
        given = (self.features[docs], offsets, of_each, self.categories, limits)
        return Lists(*given)


def fit_all(
    ranker: str,
    lists: Lists,
    *,
    seeds: Sequence[int],
    settings: Any = None,
    held_out: Lists | None = None,
    lengths: Sequence[int] | None = None,
    checkpoint: Path | None = None,
    progress: Progress = quiet,
) -> list[Fitted]:
    """Train rankers on shared features, one for each of ``lists.weights``."""
    validation = None
    if held_out is not None:
        validation = Validation(held_out.features, held_out.targets(), held_out.offsets)
    kind = RANKERS[ranker]
    planned: dict[str, Any] = {} if lengths is None else {"lengths": lengths}
    if lists.categories:
        planned["categories"] = lists.categories
    return kind.fit(
        lists.features,
        lists.targets(),
        lists.offsets,
        seeds=seeds,
        settings=settings or kind.settings(),
        validation=validation,
        checkpoint=checkpoint,
        progress=progress,
        **planned,
    )
