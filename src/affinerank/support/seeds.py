"""Random numbers: one independent stream per stage.

Two stages never share a stream, whatever the seeds: adding a stage does not shift the
others, and two stages of one seed are not correlated.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

# The place of a stage is part of its stream: add new ones at the end.
Stage = Literal[
    "production",
    "traffic",
    "clicks",
    "batches",
    "baseline",
    "estimation",
    "choice",
    "folds",
    "held out",
    "importance",
    "lists",
]


def stage_rng(stage: Stage, seed: int, *more: int) -> np.random.Generator:
    """Return the generator of a stage, for a seed and what else identifies the draw.

    >>> a, b = stage_rng("clicks", 0), stage_rng("traffic", 0)
    >>> bool(a.random() == b.random())
    False
    """
    number = get_args(Stage).index(stage) + 1
    sequence = np.random.SeedSequence(seed, spawn_key=(number, *more))
    return np.random.default_rng(sequence)
