"""Rotate: turn the first documents of a list by a random number of places."""

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
from affinerank.support.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Rotate(Shared):
    """Rotate the ``first`` documents in a share of the sessions."""

    share: float = 0.1
    first: int = 10

    def __post_init__(self) -> None:
        """Reject what cannot be rotated."""
        Shared.__post_init__(self)
        if self.first < 2:
            raise ConfigError(f"a rotation moves 2 documents or more, got {self.first}")

    def moved(
        self, lengths: Ints, sessions: NDArray[Any], rng: Rng | None
    ) -> Iterator[Placements]:
        """The first documents, shifted by one place, by two, and so on."""
        turned = np.minimum(lengths, self.first)
        by_shift = evenly(sessions, np.maximum(turned - 1, 0), rng)
        query, place = list_places(turned)
        for shift in range(1, by_shift.shape[1] + 1):
            wide = turned[query] > shift
            q, p = query[wide], place[wide]
            rank = (p + shift) % turned[q] + 1
            yield Placements.where_any(q, p, rank, by_shift[q, shift - 1])

    def places(self, lengths: Ints, rng: Rng) -> Ints:
        """Rotate each list; one of a single document stays."""
        turned = np.minimum(lengths, self.first)
        shift = 1 + (rng.random(len(lengths)) * (turned - 1)).astype(np.int64)
        number, place = list_places(lengths)
        length = turned[number]
        moved = (lengths > 1)[number] & (place < length)
        return np.where(moved, (place - shift[number]) % length, place)


ROW = PolicyKind("rotate", "Rotations", Rotate)
