"""Documents sorted into cells: by home rank, and by what predicts their relevance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.documents import Documents
from affinerank.bias.mixture import Population

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RANK_KNOTS = 3


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
