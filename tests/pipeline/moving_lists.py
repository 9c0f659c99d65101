"""Logs whose lists move for a reason, and nothing in the log says so.

A session has a query and a relevance for each of its documents. How it came to its list
is what differs: a system that knows the taste of its user, a production ranker that was
replaced while relevance drifted, an index that is updated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.counts import ClickCounts
from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.rankers.linear import LinearModel
from affinerank.rankers.ranker import Ranker
from affinerank.support.arrays import Floats, Ints, Rng
from affinerank.support.lists import discount

N_QUERIES, N_DOCS, SHOWN = 150, 12, 10
CLICK_MODEL = TrustModel.paper(depth=SHOWN)


@dataclass(frozen=True)
class Log:
    """Sessions: which query, which documents from the top, and which were clicked.

    Attributes:
        query: ``[n_sessions]``.
        order: ``[n_sessions, SHOWN]`` documents within the query, by rank.
        clicked: ``[n_sessions, SHOWN]``.
        scores: ``[N_QUERIES, N_DOCS]`` of a ranker that is ready-made.
        lead: What that ranker is truly worth, less what production is: DCG@10.
        kind: ``[n_sessions]`` name of the ranker that logged, where the log has it.
    """

    query: Ints
    order: Ints
    clicked: Ints
    scores: Floats
    lead: float
    kind: Ints | None = None

    def counts(self, *, randomised: bool = False) -> ClickCounts:
        """Count the log: by the kind of list, where it is known."""
        kind = np.zeros_like(self.query) if self.kind is None else self.kind
        shape = (int(kind.max()) + 1, N_QUERIES, N_DOCS, SHOWN)
        place = np.broadcast_to(np.arange(SHOWN), self.order.shape)
        cell = np.ravel_multi_index(
            (
                np.broadcast_to(kind[:, None], self.order.shape),
                np.broadcast_to(self.query[:, None], self.order.shape),
                self.order,
                place,
            ),
            shape,
        ).ravel()
        shown = np.bincount(cell, minlength=np.prod(shape))
        clicks = np.bincount(cell, self.clicked.ravel(), minlength=np.prod(shape))
        some = np.flatnonzero(shown)
        kinds, queries, documents, places = np.unravel_index(some, shape)
        sessions = np.zeros(shape[:2], dtype=np.int64)
        np.add.at(sessions, (kind, self.query), 1)
        names = np.array(["old", "new"])
        return ClickCounts.from_columns(
            query_id=queries,
            doc_id=queries * N_DOCS + documents,
            rank=places + 1,
            impressions=shown[some],
            clicks=clicks[some].astype(np.int64),
            sessions=sessions[kinds, queries],
            ranker=None if self.kind is None else names[kinds],
            randomised=shown[some] if randomised else None,
        )

    def table(self, **columns: Any) -> pa.Table:
        """One row per impression, as a log has it; ``columns`` are of sessions."""
        session, place = np.indices(self.order.shape)
        query = self.query[session]
        impressions = {
            "session_id": session,
            "query_id": query,
            "doc_id": query * N_DOCS + self.order,
            "rank": place + 1,
            "clicked": self.clicked,
        }
        impressions |= {name: np.asarray(v)[session] for name, v in columns.items()}
        return pa.table({name: v.ravel() for name, v in impressions.items()})

    def data(self) -> RankingDataset:
        """One feature: the score of the ready-made ranker."""
        return RankingDataset(
            features=self.scores.reshape(-1, 1).astype(np.float32),
            offsets=np.arange(N_QUERIES + 1) * N_DOCS,
            query_ids=np.arange(N_QUERIES),
            doc_ids=np.arange(N_QUERIES * N_DOCS),
            feature_names=("score",),
        )


READY_MADE = Ranker(
    "linear-model",
    LinearModel(np.array([1.0]), 0.0),
    FeatureMapping(("score",), scaling="none"),
    {},
)


def fixed_lists(rng: Rng, n_sessions: int = 8_000) -> Log:
    """Production always shows the same list; the other ranker is truly better."""
    relevance = _relevance(rng)
    production = relevance + rng.normal(0, 0.6, relevance.shape)
    better = relevance + rng.normal(0, 0.1, relevance.shape)
    query = rng.integers(0, N_QUERIES, n_sessions)
    return _log(query, production[query], relevance[query], better, rng)


def swapped_lists(rng: Rng, n_sessions: int = 8_000) -> Log:
    """Every list has two of its documents exchanged, at random."""
    relevance = _relevance(rng)
    production = relevance + rng.normal(0, 0.6, relevance.shape)
    better = relevance + rng.normal(0, 0.1, relevance.shape)
    query = rng.integers(0, N_QUERIES, n_sessions)
    session = np.arange(n_sessions)
    order = rng.permuted(_ranked(production)[query], axis=1)
    first, second = order[:, 0], order[:, 1]
    scores = production[query]
    scores[session, first] = production[query, second]
    scores[session, second] = production[query, first]
    return _log(query, scores, relevance[query], better, rng)


def personal_lists(rng: Rng, n_sessions: int = 8_000) -> Log:
    """Two tastes for each query; production knows which one its user has.

    The ready-made ranker knows the mean of both: as good as one list for all can be,
    and worse than a list for each.
    """
    tastes = np.stack([_relevance(rng), _relevance(rng)])
    query = rng.integers(0, N_QUERIES, n_sessions)
    taste = rng.integers(0, 2, n_sessions)
    production = tastes + rng.normal(0, 0.1, tastes.shape)
    return _log(
        query, production[taste, query], tastes[taste, query], tastes.mean(0), rng
    )


def improved_production(
    rng: Rng, n_sessions: int = 8_000, *, named: bool = False
) -> Log:
    """Relevance drifts, and production is replaced by a better one halfway.

    The ready-made ranker is better than the old production, and worse than the new.
    Its lead is that over production now, on relevance now.
    """
    before, now = _relevance(rng), _relevance(rng)
    query = rng.integers(0, N_QUERIES, n_sessions)
    late = np.arange(n_sessions) >= n_sessions // 2
    old = before + rng.normal(0, 0.6, before.shape)
    new = now + rng.normal(0, 0.25, now.shape)
    ready_made = now + rng.normal(0, 0.3, now.shape)
    scores = np.where(late[:, None], new[query], old[query])
    relevance = np.where(late[:, None], now[query], before[query])
    log = _log(query, scores, relevance, ready_made, rng)
    lead = _dcg(_ranked(ready_made), now) - _dcg(_ranked(new), now)
    kind = late.astype(np.int64) if named else None
    return Log(log.query, log.order, log.clicked, log.scores, lead, kind)


def updated_index(rng: Rng, n_sessions: int = 8_000, *, updates: float = 2.0) -> Log:
    """Production stays; documents enter and leave, so that others shift by a rank.

    ``updates`` is how many of them a query has, on average.
    """
    relevance = _relevance(rng)
    production = relevance + rng.normal(0, 0.6, relevance.shape)
    better = relevance + rng.normal(0, 0.1, relevance.shape)
    query = rng.integers(0, N_QUERIES, n_sessions)
    moment = np.arange(n_sessions) / n_sessions
    absent = np.zeros((n_sessions, N_DOCS), dtype=bool)
    for number in range(N_QUERIES):
        for _ in range(rng.poisson(updates)):
            document, when = rng.integers(0, N_DOCS), rng.random()
            enters = rng.random() < 0.5
            away = moment < when if enters else moment >= when
            absent[(query == number) & away, document] = True
    # At most two of twelve documents are away, so that ten are shown.
    too_many = absent.sum(axis=1) > N_DOCS - SHOWN
    absent[too_many] = False
    scores = np.where(absent, -np.inf, production[query])
    return _log(query, scores, relevance[query], better, rng)


def _relevance(rng: Rng) -> Floats:
    return rng.beta(0.5, 1.5, (N_QUERIES, N_DOCS))


def _ranked(scores: Floats) -> Ints:
    return np.argsort(-scores, axis=1, kind="stable")[:, :SHOWN]


def _dcg(order: Ints, relevance: Floats) -> float:
    gains = np.take_along_axis(relevance, order, axis=1)
    return float((gains * discount(np.arange(1, SHOWN + 1))).sum(axis=1).mean())


def _log(
    query: Ints, scores: Floats, relevance: Floats, ready_made: Floats, rng: Rng
) -> Log:
    """Show documents by ``scores [n_sessions, N_DOCS]``; draw clicks by relevance."""
    order = _ranked(scores)
    gains = np.take_along_axis(relevance, order, axis=1)
    click_rate = (
        CLICK_MODEL.alpha[None, :SHOWN] * gains + CLICK_MODEL.beta[None, :SHOWN]
    )
    clicked = rng.random(order.shape) < click_rate
    lead = _dcg(_ranked(ready_made)[query], relevance) - _dcg(order, relevance)
    return Log(query, order, clicked.astype(np.int64), ready_made, lead)
