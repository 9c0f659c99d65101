"""The production ranker of a simulation: decent, and improvable."""

from __future__ import annotations

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FREQUENT, FeatureMapping
from affinerank.defaults import RELEVANT_ABOVE, TREES
from affinerank.rankers.ranker import Ranker
from affinerank.support.errors import DataError
from affinerank.support.seeds import stage_rng

PRODUCTION_QUERIES = 20


def train_production_ranker(
    data: RankingDataset,
    *,
    n_queries: int = PRODUCTION_QUERIES,
    relevant_above: float = RELEVANT_ABOVE,
    seed: int = 0,
) -> Ranker:
    """Train a ranker on a few labelled queries.

    As in the paper: LambdaMART with LightGBM's defaults, on ``n_queries`` queries drawn
    without replacement, labels binarised.
    """
    from affinerank.rankers.trees.lightgbm import fit_lambdamart

    if data.n_queries < n_queries:
        raise DataError(
            f"the production ranker learns from {n_queries} queries, "
            f"and the data have {data.n_queries}"
        )
    rng = stage_rng("production", seed)
    chosen = data.select_queries(rng.choice(data.n_queries, n_queries, replace=False))
    mapping = FeatureMapping.fit(chosen, one_hot=FREQUENT)
    mapped = mapping.apply(chosen)
    relevance = mapped.relevance(relevant_above)
    model = fit_lambdamart(mapped.features, relevance, mapped.offsets, seed=seed)
    provenance = {
        "trained_by": "LambdaMART on labels",
        "relevant_above": relevant_above,
        "seed": seed,
    }
    training_queries = tuple(str(name) for name in mapped.query_ids)
    return Ranker(TREES, model, mapping, provenance, training_queries)
