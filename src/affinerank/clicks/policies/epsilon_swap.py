"""Epsilon-swaps: exchange each of many adjacent pairs with the same probability.

Pairs are those of ranks 1 and 2, 3 and 4, ... or, in the other half of the sessions, of
2 and 3, 4 and 5, ...: each document can move by one. The document just below the last
one shown can be shown in its place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from affinerank.clicks.policies.policy import ListBlock, PolicyKind, Shared
from affinerank.support.arrays import Floats, Ints, Rng
from affinerank.support.errors import ConfigError


@dataclass(frozen=True, slots=True)
class EpsilonSwap(Shared):
    """Exchange each pair with the probability ``epsilon``."""

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        """Reject what is no probability."""
        Shared.__post_init__(self)
        if not 0 <= self.epsilon <= 1:
            raise ConfigError(f"epsilon must be from 0 to 1, got {self.epsilon:g}")

    def orders(self, group: ListBlock, rng: Rng) -> Ints:
        """Exchange pairs that begin at an even place, or at an odd one."""
        n, width = group.held.shape
        place = np.tile(np.arange(width), (n, 1))
        odd = rng.integers(0, 2, (n, 1))
        pair = (place[:, :-1] % 2 == odd) & group.held[:, 1:]
        swapped = pair & (rng.random(pair.shape) < self.epsilon)
        place[:, :-1] += swapped
        place[:, 1:] -= swapped
        return place

    def chances(self, group: ListBlock) -> Floats:
        """Each neighbour's place with half of epsilon, else the own."""
        n, width = group.held.shape
        chances = np.zeros((n, width, width))
        place, half = np.arange(width), self.epsilon / 2 * group.held[:, 1:]
        chances[:, place[:-1], place[1:]] = chances[:, place[1:], place[:-1]] = half
        chances[:, place, place] = 1.0 - chances.sum(axis=2)
        return chances[:, :, : group.depth]


ROW = PolicyKind("epsilon-swap", "Epsilon-swaps", EpsilonSwap)
