"""Which queries come in, and what their users are shown: what sessions are drawn from.

A session is one query issued: it is drawn, a ranker is drawn for it, its list may be
changed (one adjacent pair swapped, or the first ranks rotated) and is cut off at
``top_k``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.clicks.usermodel import UserModel
from affinerank.data.dataset import RankingDataset
from affinerank.errors import ConfigError, DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST = 10**15  # sessions or clicks; sums of counts stay whole


@dataclass(frozen=True, slots=True)
class Traffic:
    """Which queries come in, and what their users are shown.

    Attributes:
        queries: ``"uniform"``, or ``"zipf:s"``: the i-th most frequent query comes in
            proportion to ``i ** -s``; which one that is, is random.
        top_k: Only the first ``top_k`` documents are shown; ``None`` for all.
        swap: Share of sessions in which one random adjacent pair is swapped.
        rotate: Share of sessions in which the first ``rotate_first`` documents are
            rotated by a random number of places.
        rotate_first: How many documents a rotation moves.
        shares: Share of sessions of each ranker; equal where left out.
    """

    queries: str = "uniform"
    top_k: int | None = None
    swap: float = 0.0
    rotate: float = 0.0
    rotate_first: int = 10
    shares: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        self.zipf_exponent()
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k must be 1 or more, got {self.top_k}")
        if not (self.swap >= 0 and self.rotate >= 0 and self.swap + self.rotate <= 1):
            raise ConfigError(
                "swap and rotate are shares of sessions, 0 or more and together at "
                f"most 1, got {self.swap:g} and {self.rotate:g}"
            )
        if self.rotate_first < 2:
            raise ConfigError(
                f"a rotation moves 2 documents or more, got {self.rotate_first}"
            )
        if any(not share > 0 for share in self.shares.values()):
            raise ConfigError("the share of each ranker must be above 0")

    def zipf_exponent(self) -> float:
        """Exponent of the law that queries follow; 0 is uniform."""
        if self.queries == "uniform":
            return 0.0
        match = re.fullmatch(r"zipf:(\d+(?:\.\d+)?)", self.queries)
        if match is None:
            raise ConfigError(
                f"queries must be uniform or zipf:s, as in zipf:1, got {self.queries!r}"
            )
        return float(match[1])


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """All that sessions are drawn from; build one with :func:`prepare`.

    Attributes:
        data: Queries and documents.
        order: ``[n_rankers, n_docs]`` row of the document at each place of each list.
        names: ``[n_rankers]`` names of the rankers.
        relevance: ``[n_docs]`` probability of relevance.
        users: How users click.
        traffic: Which queries come, and what is shown.
        query_share: ``[n_queries]`` probability of each query.
        ranker_share: ``[n_rankers]`` probability of each ranker.
        shown: ``[n_queries]`` length of the list shown.
    """

    data: RankingDataset
    order: Ints
    names: tuple[str, ...]
    relevance: Floats
    users: UserModel
    traffic: Traffic
    query_share: Floats
    ranker_share: Floats
    shown: Ints

    @property
    def expected_clicks(self) -> float:
        """Expected clicks of one session."""
        total = 0.0
        starts = self.data.offsets[:-1]
        for share, order in zip(self.ranker_share, self.order, strict=True):
            for block in placements(self, np.ones(self.data.n_queries), None):
                doc = order[starts[block.query] + block.base - 1]
                rate = self.users.click_probability(block.rank, self.relevance[doc])
                weight = share * self.query_share[block.query] * block.sessions
                total += float(np.sum(weight * rate))
        return total

    def sessions_for(self, clicks: float) -> int:
        """Number of sessions that bring this many clicks in expectation."""
        if not 0 < clicks <= MOST:
            raise ConfigError(
                "the number of clicks must be above 0, and at most 10^15, "
                f"got {clicks:g}"
            )
        expected = self.expected_clicks
        if not expected > 0:
            raise DataError("these users never click: their probabilities are all 0")
        return max(1, round(clicks / expected))


def prepare(
    data: RankingDataset,
    rankings: Mapping[str, Ints],
    relevance: NDArray[np.floating],
    users: UserModel,
    *,
    traffic: Traffic | None = None,
    rng: np.random.Generator,
) -> Simulation:
    """Put together what sessions are drawn from.

    Args:
        data: Queries and documents.
        rankings: For each ranker, ``[n_docs]`` the rank it gives each document.
        relevance: ``[n_docs]`` probability that a user finds the document relevant.
        users: How users click; their probabilities must lie in [0, 1].
        traffic: Which queries come, and what is shown.
        rng: Draws which queries are frequent.
    """
    asked = traffic or Traffic()
    users.require_probabilities()
    if data.n_queries == 0 or not rankings:
        raise DataError(
            "there is nothing to show: give data with queries, and a ranker"
        )
    gamma = np.asarray(relevance, dtype=np.float64)
    if gamma.shape != (data.n_docs,) or np.any(~((gamma >= 0) & (gamma <= 1))):
        raise DataError("relevance must be a probability for each document")
    names = tuple(rankings)
    unknown = set(asked.shares) - set(names)
    if unknown or (asked.shares and len(asked.shares) != len(names)):
        raise ConfigError(
            f"shares are given for the rankers {sorted(asked.shares)}, "
            f"and the rankers are {sorted(names)}"
        )
    shares = np.array([asked.shares.get(name, 1.0) for name in names])
    popularity = np.arange(1.0, data.n_queries + 1) ** -asked.zipf_exponent()
    query_share = rng.permutation(popularity)
    shown = np.minimum(data.docs_per_query, asked.top_k or data.docs_per_query)
    return Simulation(
        data=data,
        order=np.stack([_order(data, name, rankings[name]) for name in names]),
        names=names,
        relevance=gamma,
        users=users.to_depth(int(shown.max())),
        traffic=asked,
        query_share=query_share / query_share.sum(),
        ranker_share=shares / shares.sum(),
        shown=shown,
    )


def _order(data: RankingDataset, name: str, ranks: Ints) -> Ints:
    """Turn the rank of each document into the document at each place."""
    wanted = np.asarray(ranks, dtype=np.int64)
    if wanted.shape != (data.n_docs,):
        raise DataError(
            f"ranker {name!r}: expected a rank for each of {data.n_docs} documents, "
            f"got shape {wanted.shape}"
        )
    place = np.repeat(data.offsets[:-1], data.docs_per_query) + wanted - 1
    order = np.full(data.n_docs, -1, dtype=np.int64)
    inside = (wanted >= 1) & (
        wanted <= np.repeat(data.docs_per_query, data.docs_per_query)
    )
    order[place[inside]] = np.flatnonzero(inside)
    if np.any(order < 0):
        raise DataError(
            f"ranker {name!r}: a query's ranks must be 1 to its number of documents"
        )
    return order


@dataclass(frozen=True, slots=True, eq=False)
class Placements:
    """Documents of lists, by place in the ranker's list, and where they are shown."""

    query: Ints
    base: Ints  # place in the ranker's list, from 1
    rank: Ints  # rank it is shown at
    sessions: NDArray[Any]  # how many sessions show it so

    @classmethod
    def where_any(
        cls, query: Ints, base: Ints, rank: Ints, sessions: NDArray[Any]
    ) -> Placements:
        """Leave out what no session shows."""
        some = np.flatnonzero(sessions)
        return cls(query[some], base[some], rank[some], sessions[some])


def placements(
    simulation: Simulation,
    sessions: NDArray[Any],
    rng: np.random.Generator | None,
) -> Iterator[Placements]:
    """Where documents are shown, and in how many of each query's ``sessions``.

    With an ``rng`` the numbers of changed lists are drawn; without one they are
    expected values.
    """
    shown = simulation.shown
    traffic = simulation.traffic
    swapped, rotated = _changed(shown, sessions, traffic, rng)
    query = np.repeat(np.arange(len(shown)), shown)
    base = np.arange(len(query)) - np.repeat(np.cumsum(shown) - shown, shown) + 1
    stays = np.asarray(sessions)[query].astype(np.float64 if rng is None else np.int64)
    if swapped is not None:
        down = swapped  # of the pair (base, base + 1); none after the last
        up = np.where(base > 1, np.roll(swapped, 1), 0)
        stays = stays - down - up
        yield Placements.where_any(query, base, base + 1, down)
        yield Placements.where_any(query, base, base - 1, up)
    if rotated is not None:
        length = np.minimum(shown, traffic.rotate_first)[query]
        moved = base <= length
        q, b, n = query[moved], base[moved], length[moved]
        for shift in range(1, rotated.shape[1] + 1):
            inside = n > shift
            count = rotated[q[inside], shift - 1]
            target = (b[inside] - 1 + shift) % n[inside] + 1
            yield Placements.where_any(q[inside], b[inside], target, count)
        stays = stays - np.where(moved, rotated.sum(axis=1)[query], 0)
    yield Placements.where_any(query, base, base, stays)


def _changed(
    shown: Ints,
    sessions: NDArray[Any],
    traffic: Traffic,
    rng: np.random.Generator | None,
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Sessions with each pair swapped ``[places]``, and each rotation ``[queries, n]``.

    Lists of one document cannot be changed.
    """
    if traffic.swap == 0 and traffic.rotate == 0:
        return None, None
    can = shown > 1
    rest = max(0.0, 1 - traffic.swap - traffic.rotate)  # rounding may fall below 0
    shares = np.array([traffic.swap, traffic.rotate, rest])
    if rng is None:
        drawn = np.asarray(sessions)[:, None] * shares
    else:
        drawn = rng.multinomial(np.asarray(sessions), shares)
    swaps, rotations = drawn[:, 0] * can, drawn[:, 1] * can
    pairs = _evenly(swaps, shown - 1, rng)
    # A place for the last document of each list, which has no pair below it.
    by_place = np.zeros(int(shown.sum()), dtype=pairs.dtype)
    width = pairs.shape[1]
    query = np.repeat(np.arange(len(shown)), shown)
    place = np.arange(len(query)) - np.repeat(np.cumsum(shown) - shown, shown)
    has_pair = place < np.minimum(shown[query] - 1, width)
    by_place[has_pair] = pairs[query[has_pair], place[has_pair]]
    length = np.minimum(shown, traffic.rotate_first)
    return by_place, _evenly(rotations, length - 1, rng)


def _evenly(
    totals: NDArray[Any], ways: Ints, rng: np.random.Generator | None
) -> NDArray[Any]:
    """Spread each total evenly over its ``ways``: ``[n, max(ways)]``.

    Drawn one way after another from what is left, which is the uniform multinomial.
    """
    widest = int(ways.max(initial=0))
    spread = np.zeros((len(totals), widest), dtype=np.asarray(totals).dtype)
    left = np.array(totals)
    for way in range(widest):
        some = np.flatnonzero((ways > way) & (left > 0))
        chance = 1.0 / (ways[some] - way)
        taken = left[some] * chance if rng is None else rng.binomial(left[some], chance)
        spread[some, way] = taken
        left[some] = left[some] - taken
    return spread
