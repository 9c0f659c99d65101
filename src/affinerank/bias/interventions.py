"""Estimation from documents that were shown at several ranks: no features needed.

Several rankers, swaps or rotations show one document at different ranks. Its relevance
is the same there, so how its clicks change tells how the ranks differ: slope and
intercept up to gauge. Relevance is taken to be spread over as many levels as clicks of
held-out queries ask for, with shares that depend on where a document is mostly shown.
Documents seen at one rank only are left out, so that nothing rests on levels being the
same from rank to rank.

Ranks that no chain of documents connects have no gauge in common. They are named, and
not compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from affinerank.bias.cells import Population, population_of
from affinerank.bias.covariates import halves_of
from affinerank.bias.documents import ClickRows, Documents, documents
from affinerank.bias.level_mixture import (
    MixtureSettings,
    require_estimable,
    require_queries,
    users_of,
)
from affinerank.bias.levels import choose_levels, documents_differ, refine_levels
from affinerank.bias.mixture_fit import Fit
from affinerank.bias.pooling import RankPools, pool_ranks
from affinerank.clicks.usermodel import UserModel
from affinerank.errors import DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_SHARED = 30


@dataclass(frozen=True, slots=True, eq=False)
class Overlap:
    """How far documents were seen at several ranks.

    Attributes:
        n_docs: Documents that were shown.
        n_moved: Those shown at several ranks.
        connected: Groups of ranks that enough documents connect, as text; ranks that
            nothing connects are in none.
        all_connected: Whether one group has all ranks.
    """

    n_docs: int
    n_moved: int
    connected: tuple[str, ...]
    all_connected: bool


@dataclass(frozen=True, slots=True, eq=False)
class Interventions:
    """A user model estimated from documents that changed rank.

    Attributes:
        users: Known up to gauge.
        pools: Which ranks share their parameters.
        population: The documents that changed rank.
        fit: Levels, their shares and click rates.
        half: ``[n_queries]`` which half of the queries each is in.
        differ: Whether documents were found to differ in relevance at all.
        overlap: How many there are, and what they connect.
    """

    users: UserModel
    pools: RankPools
    population: Population
    fit: Fit
    half: Ints
    differ: bool
    overlap: Overlap


def fit_interventions(
    rows: ClickRows,
    *,
    rng: np.random.Generator,
    settings: MixtureSettings | None = None,
) -> Interventions:
    """Estimate how users click from documents seen at several ranks.

    Args:
        rows: Counts.
        rng: Halves the queries, and draws where there is more than enough.
        settings: How the mixture is fitted.

    Raises:
        DataError: No document changed rank, or they do not connect all ranks.
    """
    asked = settings or MixtureSettings()
    moved = moved_rows(rows)
    if not len(moved.doc):
        raise DataError(
            "no document was shown at several ranks, so ranks cannot be compared: swap "
            "documents, or give features and another --method"
        )
    everywhere = pool_ranks(
        rows.rank, rows.impressions, rows.clicks, least_clicks=asked.least_clicks
    )
    overlap = overlap_of(rows, everywhere)
    if not overlap.all_connected:
        groups = "; ".join(overlap.connected) or "nothing"
        raise DataError(
            f"{overlap.n_moved:,} of {overlap.n_docs:,} documents were shown at "
            f"several ranks, and that connects only {groups}; ranks that are not "
            "connected cannot be compared: swap documents across them (two ranks are "
            f"connected by {LEAST_SHARED} documents), or give features and another "
            "--method"
        )
    require_queries("the documents shown at several ranks", moved.query)
    pools = pool_ranks(
        moved.rank, moved.impressions, moved.clicks, least_clicks=asked.least_clicks
    )
    require_estimable(moved, pools)
    docs = documents(moved, pools)
    population = population_of(docs.select(np.diff(docs.first) > 1), pools.mean_rank)
    half = halves_of(population.documents.query, rng)
    side = half[population.documents.query]
    learnt, held = population.select(side == 0), population.select(side == 1)
    start = choose_levels(
        learnt,
        held,
        pools.n_pools,
        asked.prior,
        rng=rng,
        most=asked.most_levels,
    )
    fit = refine_levels(population, start.levels, asked.prior)
    differ = documents_differ(learnt, held, start.levels)
    users = users_of(fit, pools)
    return Interventions(users, pools, population, fit, half, differ, overlap)


def overlap_of(rows: ClickRows, pools: RankPools) -> Overlap:
    """Say how many documents changed rank, and which pools of ranks that connects."""
    seen = rows.rank[rows.impressions > 0]
    moved = moved_rows(rows)
    docs = documents(moved, pools)
    group = connected_ranks(docs, pools.n_pools)
    names = np.array(pools.names)
    labels, sizes = np.unique(group, return_counts=True)
    connected = tuple(
        f"ranks {', '.join(_runs(names[group == g], pools))}" for g in labels[sizes > 1]
    )
    lost = np.setdiff1d(seen, moved.rank)
    n_docs = len(np.unique(rows.doc[rows.impressions > 0]))
    together = len(labels) == 1 and not len(lost)
    return Overlap(n_docs, len(np.unique(moved.doc)), connected, together)


def moved_rows(rows: ClickRows) -> ClickRows:
    """The rows of documents that were shown at several ranks."""
    seen = np.flatnonzero(rows.impressions > 0)
    order = seen[np.lexsort((rows.rank[seen], rows.doc[seen]))]
    same = np.diff(rows.doc[order]) == 0
    changes = same & (np.diff(rows.rank[order]) != 0)
    moved = np.unique(rows.doc[order[1:][changes]])
    kept = np.isin(rows.doc, moved) & (rows.impressions > 0)
    return ClickRows(
        rows.doc[kept],
        rows.query[kept],
        rows.rank[kept],
        rows.impressions[kept],
        rows.clicks[kept],
    )


def connected_ranks(docs: Documents, n_pools: int, least: int = LEAST_SHARED) -> Ints:
    """``[n_pools]`` group of each pool: equal where a chain of documents connects."""
    seen = sparse.csr_matrix(
        (np.ones(len(docs.pool)), (docs.doc_of_row, docs.pool)),
        shape=(docs.n_docs, n_pools),
    )
    shared = (seen.T @ seen).toarray()
    _, group = connected_components(sparse.csr_matrix(shared >= least), directed=False)
    return np.asarray(group, dtype=np.int64)


def _runs(names: NDArray[np.str_], pools: RankPools) -> list[str]:
    """Join pools that follow each other: 1, 2, 3-5 and 9 become 1-5 and 9."""
    order = {name: i for i, name in enumerate(pools.names)}
    found: list[list[str]] = []
    for name in names:
        if found and order[str(name)] == order[found[-1][-1]] + 1:
            found[-1].append(str(name))
        else:
            found.append([str(name)])
    return [_span(part) for part in found]


def _span(part: list[str]) -> str:
    first, last = part[0].split("-")[0], part[-1].split("-")[-1]
    return first if first == last else f"{first}-{last}"
