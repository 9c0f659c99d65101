"""Small logs of rankings whose values are known."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats, Ints
from affinerank.support.lists import ranks_by_score

CLICK_MODEL = TrustModel.paper(depth=6)


@dataclass(frozen=True)
class World:
    """Queries of six documents, and two rankings of them."""

    relevance: Floats
    old: Floats
    new: Floats

    @property
    def query(self) -> Ints:
        """Query of each document."""
        return np.arange(len(self.relevance)) // 6

    @property
    def offsets(self) -> Ints:
        """Query boundaries."""
        return np.arange(0, len(self.relevance) + 1, 6)

    def log(
        self, sessions: Ints, rng: np.random.Generator, depth: int = 6
    ) -> ClickRows:
        """Clicks on the old ranking, down to a rank."""
        rank = ranks_by_score(self.old, self.offsets)
        shown = sessions[self.query] * (rank <= depth)
        clicks = rng.binomial(
            shown, CLICK_MODEL.click_probability(rank, self.relevance)
        )
        doc = np.flatnonzero(shown)
        return ClickRows(
            doc=doc,
            rank=rank[doc],
            context=np.zeros(len(doc), dtype=np.int64),
            impressions=shown[doc].astype(np.float64),
            clicks=clicks[doc].astype(np.float64),
            query_of_doc=self.query,
            sessions=sessions.astype(np.float64),
        )


@pytest.fixture
def draw_world() -> Callable[..., World]:
    """Draw queries whose documents are relevant in part, ranked well and badly."""

    def drawn(n_queries: int, rng: np.random.Generator) -> World:
        n_docs = 6 * n_queries
        relevance = (rng.random(n_docs) < 0.3).astype(np.float64)
        old = relevance + rng.normal(size=n_docs)
        return World(relevance, old, relevance + 0.5 * rng.normal(size=n_docs))

    return drawn
