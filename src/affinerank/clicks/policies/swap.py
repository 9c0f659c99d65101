"""Swap: exchange one adjacent pair of documents, chosen at random."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.clicks.policies.policy import (
    Placements,
    PolicyKind,
    Shared,
    evenly,
    list_places,
)
from affinerank.support.arrays import Ints, Rng


@dataclass(frozen=True, slots=True)
class Swap(Shared):
    """Swap one adjacent pair in a share of the sessions."""

    share: float = 0.1

    def moved(
        self, lengths: Ints, sessions: NDArray[Any], rng: Rng | None
    ) -> Iterator[Placements]:
        """The upper documents of swapped pairs one rank down, the lower ones up."""
        pairs = evenly(sessions, np.maximum(lengths - 1, 0), rng)
        query, upper = np.nonzero(pairs)
        number = pairs[query, upper]
        yield Placements(query, upper, upper + 2, number)
        yield Placements(query, upper + 1, upper + 1, number)

    def places(self, lengths: Ints, rng: Rng) -> Ints:
        """Swap a pair of each list; one of a single document stays."""
        upper = (rng.random(len(lengths)) * (lengths - 1)).astype(np.int64)
        number, place = list_places(lengths)
        several = (lengths > 1)[number]
        down = several & (place == upper[number])
        up = several & (place == upper[number] + 1)
        place[down] += 1
        place[up] -= 1
        return place


ROW = PolicyKind("swap", "Adjacent swaps", Swap)
