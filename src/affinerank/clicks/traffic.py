"""Which queries come in, and what their users are shown: what sessions are drawn from.

A session is one query issued. A query is drawn, then a ranker; policies change some of
the lists; and a list is cut off at ``top_k``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.clicks.models import ClickModel, Shown
from affinerank.clicks.models.by_segment import SegmentedModel
from affinerank.clicks.policies import POLICIES
from affinerank.clicks.policies.policy import (
    AnyPolicy,
    DrawnPolicy,
    RankedLists,
    list_places,
    one_list_each,
    placements,
    probability,
)
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import POLICY
from affinerank.output.blocks import Summary
from affinerank.support.arrays import Floats, Ints, Rng
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.settings import EntrySpec, require_at_least

MOST = 10**15  # sessions or clicks; sums of counts stay whole
SAMPLED = 20_000  # sessions
Block = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Which queries come in, and what their users are shown.

    Attributes:
        queries: ``"uniform"``, or ``"zipf:s"``: the i-th most frequent query comes in
            proportion to ``i ** -s``; which one that is, is random.
        top_k: Only the first ``top_k`` documents are shown; ``None`` for all.
        policies: Rows of ``POLICIES`` with their settings, as in ``swap(share=0.1)``;
            sessions that none of them takes show the ranker's own list.
        shares: Share of the sessions of each ranker; equal where left out.
    """

    queries: str = "uniform"
    top_k: int | None = None
    policies: tuple[str, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reject what cannot be drawn."""
        self.zipf_exponent()
        require_at_least(self, least={"top_k": 1})
        total = sum(policy.share for policy in self.changes())
        if total > 1 + 1e-12:
            raise ConfigError(f"shares of policies add up to 1 at most, got {total:g}")
        if any(not share > 0 for share in self.shares.values()):
            raise ConfigError("the share of each ranker must be above 0")

    @classmethod
    def of(cls, policy: EntrySpec) -> Traffic:
        """Read a policy as plans have it: with ``top_k`` among its parameters."""
        parameters = dict(policy.parameters)
        top_k = parameters.pop("top_k", None)
        bare = EntrySpec(policy.name, tuple(parameters.items()))
        try:
            cut = None if top_k is None else int(top_k)
        except ValueError:
            raise ConfigError(f"top_k must be a number, got {top_k!r:.60}") from None
        return cls(top_k=cut, policies=(str(bare),))

    def changes(self) -> list[AnyPolicy]:
        """The policies."""
        specs = [EntrySpec.parse(text) for text in self.policies]
        return [spec.settings(POLICIES[spec.name].settings) for spec in specs]

    def random_policies(self) -> str:
        """Name the policies that change lists at random; empty if none does."""
        names = [
            text
            for text, policy in zip(self.policies, self.changes(), strict=True)
            if EntrySpec.parse(text).name != POLICY and policy.share > 0
        ]
        return "; ".join(names)

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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Simulation(Summary):
    """All that sessions are drawn from; build one with :func:`prepare`.

    Attributes:
        data: Queries and documents.
        order: ``[n_rankers, n_docs]`` row of the document at each place of each list.
        names: ``[n_rankers]`` names of the rankers.
        relevance: ``[n_docs]`` probability of relevance.
        click_model: How users click.
        policies: How lists are changed, or drawn.
        scores: ``[n_rankers, n_docs]`` of the document at each place, for policies that
            draw by them.
        query_share: ``[n_queries]`` probability of each query.
        ranker_share: ``[n_rankers]`` probability of each ranker.
        shown: ``[n_queries]`` length of the list shown.
        rival: ``[n_rankers, n_docs]`` place of that document in the next ranker's list,
            where there are several.
        policy: Names of the policies that change lists at random; empty if none does.
    """

    data: RankingDataset
    order: Ints
    names: tuple[str, ...]
    relevance: Floats
    click_model: ClickModel
    policies: tuple[AnyPolicy, ...]
    scores: Floats
    query_share: Floats
    ranker_share: Floats
    shown: Ints
    rival: Ints | None = None
    policy: str = ""

    def _line(self) -> str:
        return f"{self.data!r} ranked by {', '.join(self.names)}, {self.click_model!r}"

    def _rows(self) -> list[dict[str, Any]]:
        shares = zip(self.names, self.ranker_share.tolist(), strict=True)
        return [{"ranker": name, "share": share} for name, share in shares]

    def placed(
        self, ranker: int, sessions: NDArray[Any], rng: Rng | None
    ) -> Iterator[tuple[Ints, Ints, NDArray[Any]]]:
        """Document, rank and number of sessions that show it there, of one ranker."""
        starts = self.data.offsets[:-1]
        for block in placements(self.policies, self.lists(ranker), sessions, rng):
            doc = self.order[ranker][starts[block.query] + block.place]
            yield doc, block.rank, block.sessions

    def lists(self, ranker: Ints | int, query: Ints | None = None) -> RankedLists:
        """Lists of one ranker; or of the ranker and query of each session."""
        asked = np.arange(self.data.n_queries) if query is None else query
        return RankedLists(
            ranker * self.data.n_docs + self.data.offsets[asked],
            self.data.docs_per_query[asked],
            self.shown[asked],
            self.scores.ravel(),
            None if self.rival is None else self.rival.ravel(),
        )

    @property
    def selects(self) -> bool:
        """Whether policies draw which documents are shown."""
        return any(isinstance(p, DrawnPolicy) and p.share > 0 for p in self.policies)

    def propensity(self) -> Floats:
        """``[n_rankers, n_docs, depth]`` P(a session of it shows one at a rank)."""
        shape = (*self.order.shape, int(self.shown.max()))
        found = np.zeros(shape)
        for ranker, order in enumerate(self.order):
            found[ranker, order] = probability(self.policies, self.lists(ranker))
        return found

    @property
    def segments(self) -> tuple[str, ...]:
        """Names of the segments of users; none where all are alike."""
        click_model = self.click_model
        return (
            tuple(click_model.models) if isinstance(click_model, SegmentedModel) else ()
        )

    @property
    def expected_clicks(self) -> float:
        """Expected clicks per session."""
        total, query = 0.0, self.data.query_of_doc
        for ranker, share in enumerate(self.ranker_share):
            ones = np.ones(self.data.n_queries)
            for doc, rank, sessions in self.placed(ranker, ones, None):
                rate = self.click_model.click_probability(rank, self.relevance[doc])
                if rate is None:  # not by rank alone: take the mean of some sessions
                    drawn = self.draw(SAMPLED, np.random.default_rng(0))
                    return float(drawn["clicked"].sum()) / SAMPLED
                weight = share * self.query_share[query[doc]] * sessions
                total += float(np.sum(weight * rate))
        return total

    def sessions_for(self, clicks: float) -> int:
        """Return the number of sessions that bring this many clicks in expectation."""
        return sessions_for(clicks, self.expected_clicks)

    def draw(self, size: int, rng: Rng) -> Block:
        """Draw sessions one by one: flat arrays over their impressions."""
        bounds = np.cumsum(self.query_share)
        query = np.searchsorted(bounds / bounds[-1], rng.random(size), side="right")
        ranker = rng.choice(len(self.names), size, p=self.ranker_share)
        session, rank = list_places(self.shown[query])
        rank += 1
        place = one_list_each(self.policies, self.lists(ranker, query), rng)
        asked = query[session]
        doc = self.order[ranker[session], self.data.offsets[asked] + place]
        segment = np.zeros(size, dtype=np.int64)
        if isinstance(self.click_model, SegmentedModel):
            segment = self.click_model.draw(size, rng)
        shown = Shown(session, rank, self.relevance[doc], asked, segment[session])
        return {
            "session_id": session,
            "query_id": asked,
            "doc_id": doc,
            "rank": rank.astype(np.int32),
            "clicked": self.click_model.click(shown, rng),
            "ranker": ranker[session],
            "segment": shown.segment,
        }


def sessions_for(clicks: float, per_session: float) -> int:
    """Return the number of sessions that bring ``clicks`` in expectation."""
    if not 0 < clicks <= MOST:
        raise ConfigError(f"clicks must be above 0, and at most 10^15, got {clicks:g}")
    if not per_session > 0:
        raise DataError("these users never click: their probabilities are all 0")
    return max(1, round(clicks / per_session))


def prepare(
    data: RankingDataset,
    rankings: Mapping[str, Ints],
    relevance: NDArray[np.floating],
    click_model: ClickModel,
    *,
    traffic: Traffic | None = None,
    scores: Mapping[str, Floats] | None = None,
    rng: Rng,
) -> Simulation:
    """Put together what sessions are drawn from.

    Args:
        data: Queries and documents.
        rankings: For each ranker, ``[n_docs]`` the rank it gives each document.
        relevance: ``[n_docs]`` probability that a user finds the document relevant.
        click_model: How users click; their probabilities must lie in [0, 1].
        traffic: Which queries come, and what is shown.
        scores: For each ranker, ``[n_docs]`` its scores, which some policies draw by;
            left out, minus the rank.
        rng: Draws which queries are frequent.
    """
    settings = traffic or Traffic()
    click_model.require_probabilities()
    if data.n_queries == 0 or not rankings:
        raise DataError("nothing to show: give data with queries, and a ranker")
    gamma = np.asarray(relevance, dtype=np.float64)
    if gamma.shape != (data.n_docs,) or np.any(~((gamma >= 0) & (gamma <= 1))):
        raise DataError("relevance must be a probability for each document")
    names = tuple(rankings)
    if settings.shares and set(settings.shares) != set(names):
        raise ConfigError(
            f"shares are of {sorted(settings.shares)}, the rankers are {sorted(names)}"
        )
    shares = np.array([settings.shares.get(name, 1.0) for name in names])
    popularity = np.arange(1.0, data.n_queries + 1) ** -settings.zipf_exponent()
    query_share = rng.permutation(popularity)
    shown = np.minimum(data.docs_per_query, settings.top_k or data.docs_per_query)
    order = np.stack([_order(data, name, rankings[name]) for name in names])
    by = scores or {name: -rankings[name].astype(np.float64) for name in names}
    rival = np.stack([rankings[name] for name in (*names[1:], names[0])]) - 1
    return Simulation(
        data=data,
        order=order,
        names=names,
        relevance=gamma,
        click_model=click_model.to_depth(int(shown.max())),
        policies=tuple(settings.changes()),
        scores=np.stack([by[n][own] for n, own in zip(names, order, strict=True)]),
        query_share=query_share / query_share.sum(),
        ranker_share=shares / shares.sum(),
        shown=shown,
        rival=np.take_along_axis(rival, order, axis=1) if len(names) > 1 else None,
        policy=settings.random_policies(),
    )


def _order(data: RankingDataset, name: str, ranks: Ints) -> Ints:
    """Turn the rank of each document into the document at each place."""
    wanted = np.asarray(ranks, dtype=np.int64)
    if wanted.shape != (data.n_docs,):
        raise DataError(
            f"ranker {name!r}: expected a rank for each of {data.n_docs} documents, "
            f"got shape {wanted.shape}"
        )
    query, place = list_places(data.docs_per_query)
    order = np.lexsort((wanted, query))
    if np.any(wanted[order] != place + 1):
        raise DataError(
            f"ranker {name!r}: the ranks of a query must be 1, 2, ... in some order"
        )
    return order
