"""Types of arrays, named once, and what is done with arrays everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.support.errors import DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Matrix = NDArray[np.float32]
Ids = NDArray[Any]
Rng = np.random.Generator


def joint(*keys: Ints) -> Ints:
    """Return one number for each combination of keys, in their order.

    >>> joint(np.array([0, 0, 1]), np.array([0, 2, 0])).tolist()
    [0, 2, 3]
    """
    code = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        code = code * (int(key.max(initial=0)) + 1) + key
    return code


def runs(*keys: Ids) -> tuple[Ints, Ints]:
    """Return an order that sorts by keys, the last one first, and where equals begin.

    >>> order, first = runs(np.array([2, 1, 2]))
    >>> order.tolist(), first.tolist()
    ([1, 0, 2], [0, 1])
    """
    order = np.lexsort(keys)
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    return order, np.flatnonzero(new)


def reject_rows(bad: Bools, rule: str, values: Ids) -> None:
    """Reject rows that are ``bad``; say the rule, and the value of the first.

    >>> reject_rows(np.array([False, True]), "x must be 0", np.array([0.0, 2.0]))
    Traceback (most recent call last):
    affinerank.support.errors.DataError: row 1: x must be 0, got 2 (1 such rows)
    """
    if bad.any():
        row, number = int(np.argmax(bad)), np.count_nonzero(bad)
        raise DataError(f"row {row}: {rule}, got {values[row]:g} ({number} such rows)")


def sigmoid(scores: Floats | Matrix) -> Floats:
    """Return 1 / (1 + exp(-score)), without overflow.

    >>> sigmoid(np.array([-1e4, 0.0])).tolist()
    [0.0, 0.5]
    """
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * scores)), dtype=np.float64)
