"""The production ranker of a simulation, and judging rankings by labels."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from affinerank.data.dataset import RankingDataset
from affinerank.data.features import FeatureMapping
from affinerank.errors import DataError
from affinerank.metrics import Metric, MetricValues
from affinerank.rankers.gbdt import TreeRanker, fit_lambdamart
from affinerank.seeds import stage_rng

JUDGED_BY = Metric("nDCG", cutoff=10)
PRODUCTION_QUERIES = 20


class Ranker(Protocol):
    """Anything that scores documents from mapped features."""

    @property
    def mapping(self) -> FeatureMapping:
        """What is done to raw features first."""

    def predict(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Score documents from mapped features."""


def train_production_ranker(
    data: RankingDataset,
    *,
    n_queries: int = PRODUCTION_QUERIES,
    relevant_above: float = 2.0,
    seed: int = 0,
) -> TreeRanker:
    """Train a decent but improvable ranker on a few labelled queries.

    As in the paper: LambdaMART with LightGBM's defaults, on ``n_queries`` queries drawn
    without replacement, labels binarised.
    """
    if data.n_queries < n_queries:
        raise DataError(
            f"the production ranker learns from {n_queries} queries, "
            f"and the data have {data.n_queries}"
        )
    rng = stage_rng("production", seed)
    chosen = data.select_queries(rng.choice(data.n_queries, n_queries, replace=False))
    mapping = FeatureMapping.fit(chosen)
    mapped = mapping.apply(chosen)
    relevance = mapped.relevance(relevant_above)
    model = fit_lambdamart(mapped.features, relevance, mapped.offsets, seed=seed)
    provenance = {
        "trained_by": "LambdaMART on labels",
        "queries": [str(name) for name in mapped.query_ids],
        "relevant_above": relevant_above,
        "seed": seed,
    }
    return TreeRanker(model, mapping, provenance)


def score(ranker: Ranker, data: RankingDataset) -> NDArray[np.float64]:
    """Score every document of raw ``data``: ``[n_docs]``, higher is ranked earlier.

    Some queries at a time: the mapped features are never there as a whole.
    """
    scores = np.empty(data.n_docs)
    for rows, features in ranker.mapping.blocks(data):
        scores[rows] = ranker.predict(features)
    return scores


def judge(
    scores: NDArray[np.float64], data: RankingDataset, relevant_above: float
) -> MetricValues:
    """Compute the number everything is judged by: nDCG@10 on binarised labels."""
    return JUDGED_BY(scores, data.relevance(relevant_above), data.offsets)
