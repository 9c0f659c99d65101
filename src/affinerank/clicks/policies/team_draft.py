"""Team draft: interleave two rankers' lists (Radlinski, Kurup and Joachims, 2008).

In each round a coin says which ranker is first; each picks its best document that is
left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from affinerank.clicks.policies.policy import ListBlock, PolicyKind, Shared
from affinerank.support.arrays import Bools, Floats, Ints, Rng
from affinerank.support.errors import ConfigError

MOST_ROUNDS = 10  # all ways in which coins fall are enumerated; beyond, some are drawn


@dataclass(frozen=True, slots=True)
class TeamDraft(Shared):
    """Interleave the list with that of the next ranker."""

    def orders(self, group: ListBlock, rng: Rng) -> Ints:
        """Toss a coin in each round."""
        rounds = (group.depth + 1) // 2
        return _picked(group, rng.random((len(group.held), rounds)) < 0.5)

    def chances(self, group: ListBlock) -> Floats:
        """Take the mean over all falls of coins, or some and their opposites."""
        (n, width), depth = group.held.shape, group.depth
        rounds = (depth + 1) // 2
        ways = np.arange(1 << min(rounds, MOST_ROUNDS))
        coins = (ways[:, None] >> np.arange(rounds)) % 2 == 1
        if rounds > MOST_ROUNDS:
            half = np.random.default_rng(0).random((len(ways) // 2, rounds)) < 0.5
            coins = np.concatenate([half, ~half])
        chances = np.zeros((n, width, depth))
        number, rank = np.arange(n)[:, None], np.arange(depth)
        for way in coins:
            place = _picked(group, np.tile(way, (n, 1)))[:, :depth]
            chances[number, place, rank] += 1.0 / len(coins)
        return chances


def _picked(group: ListBlock, coins: Bools) -> Ints:
    """``[n, depth]`` places in the order in which rankers pick them."""
    if group.rival is None:
        raise ConfigError("interleaving needs a second ranker (--ranker, twice)")
    n, width = group.held.shape
    number = np.arange(n)
    own = np.tile(np.arange(width), (n, 1))
    wishes = np.stack([own, np.where(group.held, group.rival, width)])
    left, picks = group.held.copy(), np.zeros((n, group.depth), dtype=np.int64)
    for rank in range(group.depth):
        first = coins[:, rank // 2] ^ (rank % 2 == 1)
        wish = np.where(left, wishes[first.astype(np.int64), number], width + 1)
        pick = wish.argmin(axis=1)
        # A list that has ended picks what nobody sees.
        picks[:, rank], left[number, pick] = pick, False
    return picks


ROW = PolicyKind("team-draft", "Team-draft interleaving", TeamDraft)
