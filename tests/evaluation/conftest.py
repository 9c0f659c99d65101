"""Small logs of rankings whose values are known."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import JoinedCounts, join_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.data.dataset import RankingDataset
from affinerank.metrics import ranks_by_score

Floats = NDArray[np.float64]

USERS = UserModel.paper(depth=6)


@dataclass(frozen=True)
class World:
    """Queries of six documents, and two rankings of them."""

    data: RankingDataset
    relevance: Floats
    old: Floats
    new: Floats

    def log(
        self, sessions: NDArray[np.int64], rng: np.random.Generator, depth: int = 6
    ) -> JoinedCounts:
        """Clicks on the old ranking, down to a rank."""
        rank = ranks_by_score(self.old, self.data.offsets)
        shown = sessions[self.data.query_of_doc] * (rank <= depth)
        rate = USERS.click_probability(rank, self.relevance)
        return join_counts(
            ClickCounts.from_columns(
                query_id=self.data.query_ids[self.data.query_of_doc],
                doc_id=self.data.doc_ids,
                rank=rank,
                impressions=shown,
                clicks=rng.binomial(shown, rate),
                sessions=sessions[self.data.query_of_doc],
            ),
            self.data,
        )


@pytest.fixture
def draw_world() -> Callable[..., World]:
    """Draw queries whose documents are relevant in part, ranked well and badly."""

    def drawn(n_queries: int, rng: np.random.Generator) -> World:
        n_docs = 6 * n_queries
        relevance = (rng.random(n_docs) < 0.3).astype(np.float64)
        data = RankingDataset(
            features=np.zeros((n_docs, 0), dtype=np.float32),
            offsets=6 * np.arange(n_queries + 1),
            query_ids=np.arange(n_queries),
            doc_ids=np.arange(n_docs),
        )
        old = relevance + rng.normal(size=n_docs)
        return World(data, relevance, old, relevance + 0.5 * rng.normal(size=n_docs))

    return drawn
