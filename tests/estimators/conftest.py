"""Logs for laws that every estimator keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from affinerank.clicks.models import ClickModel
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators import ESTIMATORS, Evidence, Fold, Weights
from affinerank.support.arrays import Floats

CLICK_MODEL = TrustModel.paper(depth=10)


@dataclass(frozen=True)
class Log:
    """Rows of counts, and labels of their documents, and made-up scores."""

    rows: ClickRows
    labels: Floats
    scores: Floats

    def folds(self, learns: tuple[str, ...]) -> list[Fold]:
        """Each query is predicted by itself, and all others weigh.

        No ranker is trained: all have the same scores, each in its own unit.
        """
        if not learns:
            return []
        scores = {name: (i + 1) * self.scores for i, name in enumerate(learns)}
        every = np.eye(self.rows.n_queries, dtype=bool)
        return [Fold(~one, one, scores) for one in every]

    def weigh(self, name: str, click_model: ClickModel | None = CLICK_MODEL) -> Weights:
        """Weigh the documents by a row of the table, with its default options."""
        row = ESTIMATORS[name]
        options = row.options()
        folds = self.folds(row.learns(options))
        return row.weigh(Evidence(self.rows, click_model, self.labels, folds, options))


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Two rankers show ten of twelve documents of three queries; none is clicked out.

    Every row has an impression without a click, so that a click can be added.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sessions = rng.integers(1, 30, (3, 2))
    doc, rank, shown = [], [], []
    for query in range(3):
        for n in sessions[query]:
            doc.append(12 * query + rng.permutation(12)[:10])
            rank.append(np.arange(1, 11))
            shown.append(np.full(10, n))
    impressions = np.concatenate(shown)
    rows = ClickRows(
        doc=np.concatenate(doc),
        rank=np.concatenate(rank),
        context=np.zeros(len(impressions), dtype=np.int64),
        impressions=impressions.astype(np.float64),
        clicks=rng.integers(0, impressions).astype(np.float64),
        query_of_doc=np.repeat(np.arange(3), 12),
        sessions=sessions.sum(axis=1).astype(np.float64),
    )
    labels = rng.integers(0, 2, 36).astype(np.float64)
    return Log(rows, labels, labels + rng.normal(size=36))


def one_row(clicks: float = 0, rank: int = 1, impressions: float = 1) -> ClickRows:
    """One document of one query, shown at one rank."""
    return ClickRows(
        doc=np.array([0]),
        rank=np.array([rank]),
        context=np.array([0]),
        impressions=np.array([impressions], dtype=np.float64),
        clicks=np.array([clicks], dtype=np.float64),
        query_of_doc=np.array([0]),
        sessions=np.array([impressions], dtype=np.float64),
    )
