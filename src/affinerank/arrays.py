"""Array types, named once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Matrix = NDArray[np.float32]
Ids = NDArray[Any]


def sigmoid(scores: Floats) -> Floats:
    """Return 1 / (1 + exp(-score)), without overflow.

    >>> sigmoid(np.array([-1e4, 0.0])).tolist()
    [0.0, 0.5]
    """
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * scores)), dtype=np.float64)
