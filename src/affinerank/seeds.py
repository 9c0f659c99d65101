"""Random numbers: one independent stream for each stage that draws some.

A stage never shares a stream with another, whatever the seeds: adding a stage does not
shift the others, and two stages of one seed are not correlated.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

Stage = Literal[
    "production", "traffic", "clicks", "batches", "baseline", "estimation", "choice"
]
_NUMBER = {
    "production": 1,
    "traffic": 2,
    "clicks": 3,
    "batches": 4,
    "baseline": 5,
    "estimation": 6,
    "choice": 7,
}


def stage_rng(stage: Stage, seed: int, *more: int) -> np.random.Generator:
    """Return the generator of a stage, for a seed and what else tells draws apart.

    >>> a, b = stage_rng("clicks", 0), stage_rng("traffic", 0)
    >>> bool(a.random() == b.random())
    False
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(_NUMBER[stage], *more))
    return np.random.default_rng(sequence)
