"""What a policy is, and where several of them together show documents.

Places count from 0: place ``i`` of a list is what the ranker puts there. Ranks count
from 1. Without an ``rng``, numbers of sessions are expected values, not draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from affinerank.support.arrays import Bools, Floats, Ints, Rng
from affinerank.support.errors import ConfigError
from affinerank.support.lists import padded_groups

AT_ONCE = 1 << 20  # documents of lists gathered at a time


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


@dataclass(frozen=True, slots=True, eq=False)
class RankedLists:
    """Lists of rankers to choose from: documents by place, best first.

    Attributes:
        starts: ``[n]`` where each list begins in ``scores`` and ``rival``.
        lengths: ``[n]`` documents that can be shown.
        shown: ``[n]`` documents that are.
        scores: Score of the document at each place.
        rival: Place of that document in the list of another ranker, where there is one.
    """

    starts: Ints
    lengths: Ints
    shown: Ints
    scores: Floats
    rival: Ints | None = None

    def at(self, lists: Ints) -> RankedLists:
        """Return some lists, each as often as it is named."""
        own = self.starts[lists], self.lengths[lists], self.shown[lists]
        return RankedLists(*own, self.scores, self.rival)

    def groups(self) -> Iterator[tuple[Ints, ListBlock]]:
        """Gather lists of similar length, with their numbers."""
        groups = padded_groups(
            self.starts, self.lengths, per_doubling=2, shortest=4, most_cells=AT_ONCE
        )
        for numbers, rows, is_document in groups:
            scores = np.where(is_document, self.scores[rows], -np.inf)
            rival = None if self.rival is None else self.rival[rows]
            yield numbers, ListBlock(is_document, self.shown[numbers], scores, rival)


@dataclass(frozen=True, slots=True, eq=False)
class ListBlock:
    """Lists of similar length, filled up at the end.

    Attributes:
        held: ``[n, width]`` false where there is filling.
        shown: ``[n]`` documents that are shown.
        scores: ``[n, width]`` minus infinity where there is filling.
        rival: ``[n, width]`` place in another ranker's list, where there is one.
    """

    held: Bools
    shown: Ints
    scores: Floats
    rival: Ints | None

    @property
    def depth(self) -> int:
        """Deepest rank shown."""
        return int(self.shown.max(initial=0))


@dataclass(frozen=True, slots=True)
class Shared:
    """What policies have in common: the share of the sessions that they take."""

    share: float = 1.0

    def __post_init__(self) -> None:
        """Reject what is no share."""
        if not 0 <= self.share <= 1:
            raise ConfigError(
                f"share of sessions must be from 0 to 1, got {self.share:g}"
            )


@runtime_checkable
class DrawnPolicy(Protocol):
    """A policy that draws which documents are shown, from all that could be."""

    @property
    def share(self) -> float:
        """Share of the sessions whose lists it draws."""

    def orders(self, group: ListBlock, rng: Rng) -> Ints:
        """``[n, width]`` the place that each rank shows, for one session of each."""

    def chances(self, group: ListBlock) -> Floats:
        """``[n, width, depth]`` probability that a place is shown at each rank."""


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


AnyPolicy = Policy | DrawnPolicy


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
    policies: Sequence[AnyPolicy],
    lists: RankedLists,
    sessions: NDArray[Any],
    rng: Rng | None,
) -> Iterator[Placements]:
    """Where documents are shown, and in how many of each query's ``sessions``."""
    lengths = lists.shown
    query, place = list_places(lengths)
    starts = np.cumsum(lengths) - lengths
    changing = [policy for policy in policies if policy.share > 0]
    shares = [policy.share for policy in changing]
    rest = max(0.0, 1 - sum(shares))  # rounding may fall below 0
    if rng is None:
        taken = np.outer(sessions, shares)
    else:
        taken = rng.multinomial(sessions, [*shares, rest])[:, :-1]
    # A list of one document cannot be changed.
    taken = taken * (lists.lengths > 1)[:, None]
    drawn = np.array(
        [isinstance(policy, DrawnPolicy) for policy in changing], dtype=bool
    )
    rests = sessions - taken[:, drawn].sum(axis=1)
    stays = rests[query].astype(np.float64 if rng is None else np.int64)
    for policy, changed in zip(changing, taken.T, strict=True):
        if isinstance(policy, DrawnPolicy):
            yield _drawn(policy, lists, changed, rng)
            continue
        for block in policy.moved(lengths, changed * (lengths > 1), rng):
            np.subtract.at(stays, starts[block.query] + block.place, block.sessions)
            yield block
    yield Placements.where_any(query, place, place + 1, stays)


def _drawn(
    policy: DrawnPolicy, lists: RankedLists, sessions: NDArray[Any], rng: Rng | None
) -> Placements:
    """Where a policy shows documents in the sessions that it draws."""
    if rng is None:
        chance = _chances(policy, lists)
        query, place = list_places(lists.lengths)
        row, rank = np.nonzero(chance)
        query, number = query[row], chance[row, rank] * sessions[query[row]]
        return Placements.where_any(query, place[row], rank + 1, number)
    session = np.repeat(np.arange(len(sessions)), sessions)
    width, depth = int(lists.lengths.max()), int(lists.shown.max())
    counts = np.zeros(len(sessions) * width * depth, dtype=np.int64)
    for first in range(0, len(session), AT_ONCE):
        query = session[first : first + AT_ONCE]
        number, place = list_places(lists.shown[query])
        shown = drawn_places(policy, lists.at(query), rng)
        cell = (query[number] * width + shown) * depth + place
        counts += np.bincount(cell, minlength=len(counts))
    some = np.flatnonzero(counts)
    query, cell = np.divmod(some, width * depth)
    return Placements(query, cell // depth, cell % depth + 1, counts[some])


def _chances(policy: DrawnPolicy, lists: RankedLists) -> Floats:
    """``[n_places, depth]`` probability that each document is at each rank."""
    depth = int(lists.shown.max(initial=0))
    chances = np.zeros((int(lists.lengths.sum()), depth))
    starts = np.cumsum(lists.lengths) - lists.lengths
    for some, group in lists.groups():
        found = policy.chances(group)
        found *= np.arange(group.depth) < group.shown[:, None, None]
        number, place = np.nonzero(group.held)
        chances[starts[some[number]] + place, : group.depth] = found[number, place]
    return chances


def drawn_places(policy: DrawnPolicy, lists: RankedLists, rng: Rng) -> Ints:
    """The place that each rank shows, for one session of each of ``lists``: flat."""
    places = np.empty(int(lists.shown.sum()), dtype=np.int64)
    starts = np.cumsum(lists.shown) - lists.shown
    for some, group in lists.groups():
        order = policy.orders(group, rng)
        number, rank = np.nonzero(np.arange(group.depth) < group.shown[:, None])
        places[starts[some[number]] + rank] = order[number, rank]
    return places


def one_list_each(policies: Sequence[AnyPolicy], lists: RankedLists, rng: Rng) -> Ints:
    """The place that each rank shows, policies taking their shares of ``lists``."""
    number, place = list_places(lists.shown)
    kind, below = rng.random(len(lists.shown)), 0.0
    for policy in policies:
        if policy.share > 0:
            taken = (kind >= below) & (kind < below + policy.share)
            if isinstance(policy, DrawnPolicy):
                moved = drawn_places(policy, lists, rng)
            else:
                moved = policy.places(lists.shown, rng)
            place = np.where(taken[number], moved, place)
            below += policy.share
    return place


def probability(policies: Sequence[AnyPolicy], lists: RankedLists) -> Floats:
    """``[n_places, depth]`` probability that a session shows a document at each rank.

    Documents of ``lists`` follow each other. Exact wherever the policies' are.
    """
    found = np.zeros((int(lists.lengths.sum()), int(lists.shown.max(initial=0))))
    starts = np.cumsum(lists.lengths) - lists.lengths
    for block in placements(policies, lists, np.ones(len(starts)), None):
        at = starts[block.query] + block.place, block.rank - 1
        np.add.at(found, at, block.sessions)
    return np.minimum(found, 1.0)


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
