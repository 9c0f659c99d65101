"""Clicks on a logged ranking, corrected, so that they can judge other rankings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from affinerank.clicks.join import JoinedCounts
from affinerank.corrections import Correction
from affinerank.data.dataset import RankingDataset
from affinerank.evaluation.labels import DocumentLabels, label_documents
from affinerank.evaluation.rank_weights import (
    RankWeights,
    logged_weights,
    never_shown_share,
    ranked_weights,
    shown_weights,
)
from affinerank.metrics import Metric

Floats = NDArray[np.float64]

DCG_10 = RankWeights.of_metric(Metric("DCG", 10))  # what is asked unless told


@dataclass(frozen=True, slots=True, eq=False)
class CorrectedLog:
    """Counted clicks, corrected.

    Attributes:
        joined: The counts.
        data: The queries and documents.
        correction: Of the counts.
        labels: In the gauge of the users.
        sessions: ``[n_queries]``.
    """

    joined: JoinedCounts
    data: RankingDataset
    correction: Correction
    labels: DocumentLabels
    sessions: Floats

    def logged(self, weights: RankWeights) -> Floats:
        """``[n_docs]`` rank weights of the ranking that was logged."""
        return logged_weights(self.joined, self.sessions, self.data, weights)

    def over_logged(
        self, scores: Iterable[Floats], weights: RankWeights
    ) -> list[Floats]:
        """Rank weights of rankings of the shown documents, less those of the log."""
        logged = self.logged(weights)
        return [
            shown_weights(new, self.joined, self.sessions, self.data, weights) - logged
            for new in scores
        ]

    def never_shown(self, new: Floats, weights: RankWeights) -> float:
        """Share of a ranking's weight that is on documents that were never shown."""
        return never_shown_share(
            ranked_weights(new, self.data, weights),
            self.labels.shown,
            self.labels.share,
            self.data.query_of_doc,
        )


def correct_log(
    joined: JoinedCounts, data: RankingDataset, correction: Correction
) -> CorrectedLog:
    """Label the documents of a log by its corrected clicks."""
    labels = label_documents(joined, correction, data)
    sessions = labels.share * joined.counts.n_sessions
    return CorrectedLog(joined, data, correction, labels, sessions)
