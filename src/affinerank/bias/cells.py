"""Documents sorted into cells: by home rank, and by what predicts their relevance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.documents import Documents

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

RANK_KNOTS = 3
DOCS_AT_ONCE = 50_000  # bounds what is held of every document at once


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Documents sorted into cells of equal expectation.

    Attributes:
        documents: Their clicks.
        cell: ``[n_docs]`` cell of each.
        home: ``[n_cells]`` pool of ranks that a cell belongs to.
        basis: ``[n_cells, n_basis]`` what the expected relevance is linear in.
        weight: ``[n_docs]`` how often each counts.
    """

    documents: Documents
    cell: Ints
    home: Ints
    basis: Floats
    weight: Floats

    def with_documents(self, documents: Documents) -> Population:
        """The same documents with other clicks."""
        return replace(self, documents=documents)

    def parts(self) -> Iterator[Population]:
        """Runs of documents, the documents of a query together in one of them."""
        query = self.documents.query
        if np.any(np.diff(query) < 0):
            yield from self.take(np.argsort(query, kind="stable")).parts()
            return
        starts = np.flatnonzero(np.diff(query, prepend=-1, append=-2))
        wanted = np.arange(0, len(query), DOCS_AT_ONCE)
        cuts = np.unique(np.append(starts[np.searchsorted(starts, wanted)], len(query)))
        for start, end in pairwise(cuts.tolist()):
            yield self._some(self.documents.between(start, end), slice(start, end))

    def select(self, kept: Bools) -> Population:
        """Only the documents of ``kept [n_docs]``, in the same cells."""
        return self._some(self.documents.select(kept), kept)

    def take(self, docs: Ints) -> Population:
        """The documents ``docs``, in that order."""
        return self._some(self.documents.take(docs), docs)

    def _some(self, documents: Documents, where: slice | Bools | Ints) -> Population:
        cell, weight = self.cell[where], self.weight[where]
        return replace(self, documents=documents, cell=cell, weight=weight)


def population_of(
    documents: Documents,
    mean_rank: Floats,
    covariates: Sequence[tuple[Floats, int, int]] = (),
) -> Population:
    """Sort documents into cells.

    Args:
        documents: Their clicks.
        mean_rank: ``[n_pools]`` mean rank of each pool.
        covariates: Values ``[n_docs]``, the number of bins they are sorted into, and
            the number of basis functions of each.
    """
    home = documents.home
    key, sorts = home, 1
    for values, bins, _ in covariates:
        key = key * bins + _bin(values, bins)
        sorts *= bins
    size = np.bincount(key)
    used = np.flatnonzero(size)
    number = np.zeros(len(size), dtype=np.int64)
    number[used] = np.arange(len(used))
    cell, size, home_of_cell = number[key], size[used], used // sorts
    knots_by_rank = min(RANK_KNOTS, len(mean_rank) - 2)
    parts = []
    if knots_by_rank > 0:
        parts = [hinges(np.log(mean_rank), knots_by_rank)[home_of_cell]]
    parts += [
        hinges(np.bincount(cell, values) / size, knots)
        for values, _, knots in covariates
    ]
    empty = np.zeros((len(size), 0))
    basis = np.concatenate([empty, *parts], axis=1)
    return Population(documents, cell, home_of_cell, basis, np.ones(documents.n_docs))


def grouped_documents(population: Population) -> Population:
    """Count documents of one row and the same cell, impressions and clicks once."""
    rows = population.documents
    if len(rows.pool) != rows.n_docs:
        return population
    keys = (rows.clicks, rows.impressions, rows.pool, population.cell)
    order = np.lexsort(keys)
    new = np.zeros(len(order), dtype=bool)
    new[:1] = True
    for key in keys:
        new[1:] |= np.diff(key[order]) != 0
    one = population.take(order[new])
    return replace(
        one,
        documents=replace(one.documents, query=np.zeros_like(one.documents.query)),
        weight=np.add.reduceat(population.weight[order], np.flatnonzero(new)),
    )


def hinges(values: Floats, n: int) -> Floats:
    """``[len(values), n]`` a broken line with ``n - 1`` kinks: its pieces, unit spread.

    >>> hinges(np.array([0.0, 1.0, 2.0]), 1).round(2).tolist()
    [[-1.22], [0.0], [1.22]]
    """
    kinks = np.quantile(values, np.linspace(0, 1, n + 1)[1:-1])
    pieces = [values, *(np.maximum(values - kink, 0.0) for kink in kinks)]
    basis = np.stack(pieces, axis=1)
    basis -= basis.mean(axis=0)
    spread = basis.std(axis=0)
    return np.asarray(basis / np.where(spread > 1e-12, spread, 1.0), dtype=np.float64)


def _bin(values: Floats, bins: int) -> Ints:
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1]))
    return np.searchsorted(edges, values, side="right")
