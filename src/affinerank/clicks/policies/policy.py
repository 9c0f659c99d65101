"""What a policy is, and where several of them together show documents.

Places count from 0: place ``i`` of a list is what the ranker puts there. Ranks count
from 1. Without an ``rng``, numbers of sessions are expected values, not draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from affinerank.arrays import Ints, Rng
from affinerank.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class Placements:
    """Documents of lists, and the rank at which sessions show them.

    Attributes:
        query: ``[n]`` number of the query.
        place: ``[n]`` place in the ranker's list.
        rank: ``[n]`` rank it is shown at.
        sessions: ``[n]`` how many sessions show it so.
    """

    query: Ints
    place: Ints
    rank: Ints
    sessions: NDArray[Any]

    @classmethod
    def where_any(
        cls, query: Ints, place: Ints, rank: Ints, sessions: NDArray[Any]
    ) -> Placements:
        """Leave out what no session shows."""
        some = np.flatnonzero(sessions)
        return cls(query[some], place[some], rank[some], sessions[some])


class Policy(Protocol):
    """Changes some of the lists; its settings are its fields."""

    @property
    def share(self) -> float:
        """Share of the sessions whose lists it changes."""

    def moved(
        self, lengths: Ints, sessions: NDArray[Any], rng: Rng | None
    ) -> Iterator[Placements]:
        """Where documents are shown that do not stay at their place.

        ``sessions [n_queries]`` are those whose lists, of ``lengths [n_queries]``, are
        changed.
        """

    def places(self, lengths: Ints, rng: Rng) -> Ints:
        """The place that each rank shows, for one list of each of ``lengths``: flat."""


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """A row of ``POLICIES``.

    Attributes:
        name: Its key.
        title: What figures and messages call it.
        settings: Type of the policy, a frozen dataclass.
    """

    name: str
    title: str
    settings: type


def placements(
    policies: Sequence[Policy], lengths: Ints, sessions: NDArray[Any], rng: Rng | None
) -> Iterator[Placements]:
    """Where documents are shown, and in how many of each query's ``sessions``."""
    query, place = list_places(lengths)
    stays = sessions[query].astype(np.float64 if rng is None else np.int64)
    starts = np.cumsum(lengths) - lengths
    changing = [policy for policy in policies if policy.share > 0]
    shares = [policy.share for policy in changing]
    rest = max(0.0, 1 - sum(shares))  # rounding may fall below 0
    if rng is None:
        taken = np.outer(sessions, shares)
    else:
        taken = rng.multinomial(sessions, [*shares, rest])[:, :-1]
    # A list of one document cannot be changed.
    taken = taken * (lengths > 1)[:, None]
    for policy, changed in zip(changing, taken.T, strict=True):
        for block in policy.moved(lengths, changed, rng):
            np.subtract.at(stays, starts[block.query] + block.place, block.sessions)
            yield block
    yield Placements.where_any(query, place, place + 1, stays)


def list_places(lengths: Ints) -> tuple[Ints, Ints]:
    """List and place of every document of lists of ``lengths``, one after another."""
    number = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.cumsum(lengths) - lengths
    return number, np.arange(len(number)) - starts[number]


def evenly(totals: NDArray[Any], ways: Ints, rng: Rng | None) -> NDArray[Any]:
    """Spread each total evenly over its ``ways``: ``[n, max(ways)]``.

    Drawn one way after another from what is left, which is the uniform multinomial.
    """
    widest = int(ways.max(initial=0))
    spread = np.zeros((len(totals), widest), dtype=totals.dtype)
    left = totals.copy()
    for way in range(widest):
        some = np.flatnonzero((ways > way) & (left > 0))
        chance = 1.0 / (ways[some] - way)
        taken = left[some] * chance if rng is None else rng.binomial(left[some], chance)
        spread[some, way] = taken
        left[some] = left[some] - taken
    return spread


def require_share(share: float) -> None:
    """Reject what is no share of sessions."""
    if not 0 <= share <= 1:
        raise ConfigError(f"share of sessions must be from 0 to 1, got {share:g}")
