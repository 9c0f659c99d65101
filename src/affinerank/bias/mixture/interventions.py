"""Estimation from documents that were shown at several ranks: no features needed.

Several rankers, swaps or rotations show one document at different ranks. Its relevance
is the same there, so how its clicks change tells how the ranks differ: slope and
intercept up to gauge. Relevance is taken to be spread over as many levels as clicks of
held-out queries support, with shares that depend on where a document is mostly shown.
Documents seen at one rank only are left out, so that nothing rests on levels being the
same from rank to rank.

Ranks that no chain of documents connects have no gauge in common. They are named, and
not compared.
"""

from __future__ import annotations

import numpy as np

from affinerank.bias.method import EstimationSettings
from affinerank.bias.mixture.estimate import Mixture, pools_of
from affinerank.bias.mixture.population import population_of
from affinerank.bias.mixture.search import find_levels
from affinerank.bias.overlap import moved_rows, overlap_of, require_connected
from affinerank.bias.pooling import pool_ranks
from affinerank.bias.requirements import require_estimable
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Matrix, Rng


def fit_interventions(
    rows: ClickRows,
    _features: Matrix | None,
    settings: EstimationSettings,
    rng: Rng,
    _first: Mixture | None = None,
    *,
    most_levels: int,
) -> Mixture:
    """Fit a mixture of levels to documents that changed rank.

    Args:
        rows: Counts.
        settings: How users are estimated.
        rng: Halves the queries, and draws where there is more than enough.
        most_levels: Levels at most.
    """
    require_connected(overlap_of(rows, pool_ranks(rows, settings.min_clicks)))
    moved = moved_rows(rows)
    cells = pools_of(moved, settings)
    require_estimable(moved, cells.ranks, "the documents shown at several ranks")
    # Documents at several pools of ranks, in cells by their home.
    population = population_of(moved, cells)
    population = population.take(population.moved).in_cells(()).halved(rng)
    # The number of levels by halves of the queries, then all clicks.
    fit, differ = find_levels(population, population.halves(), most_levels, rng)
    about = {"documents_at_several_ranks": len(np.unique(moved.doc))}
    return Mixture(moved, cells, population, fit, differ, about)
