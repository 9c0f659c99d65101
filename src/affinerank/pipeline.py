"""The stages, composed: the only place where one stage's result enters the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.data.catalog import DataSource
from affinerank.data.dataset import FeatureMapping, RankingDataset, Split
from affinerank.errors import DataError
from affinerank.metrics import Metric, MetricValues, mean_by_rank, ranks_by_score
from affinerank.progress import Progress, quiet
from affinerank.rankers.gbdt import TreeRanker, fit_lambdamart

JUDGED_BY = Metric("nDCG", cutoff=10)
PRODUCTION_QUERIES = 20
RANKS_SHOWN = 10


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
    rng = np.random.default_rng(seed)
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


def score(ranker: TreeRanker, data: RankingDataset) -> NDArray[np.float64]:
    """Score every document of raw ``data``: ``[n_docs]``, higher is ranked earlier."""
    return ranker.predict(ranker.mapping.apply(data).features)


@dataclass(frozen=True, slots=True)
class ProductionProfile:
    """How the production ranker orders the data, over several draws of its queries.

    Attributes:
        draws: Number of production rankers, each trained on its own queries.
        relevant_share: ``[10]`` share of relevant documents at ranks 1 to 10.
        ndcg: One nDCG@10 per draw.
        skipped: Queries without a relevant document, left out of nDCG.
    """

    draws: int
    relevant_share: NDArray[np.float64]
    ndcg: NDArray[np.float64]
    skipped: int


def profile_production(
    train: RankingDataset,
    judged: RankingDataset,
    *,
    draws: int = 5,
    relevant_above: float = 2.0,
    seed: int = 0,
    progress: Progress = quiet,
) -> ProductionProfile:
    """Train ``draws`` production rankers; average what each puts where.

    The relevant share by rank is taken on ``train``, nDCG@10 on ``judged``.
    """
    shares = []
    values: list[MetricValues] = []
    relevance = train.relevance(relevant_above)
    for draw in range(draws):
        progress("production rankers", draw, draws)
        ranker = train_production_ranker(
            train, relevant_above=relevant_above, seed=seed * draws + draw
        )
        ranks = ranks_by_score(score(ranker, train), train.offsets)
        shares.append(mean_by_rank(relevance, ranks, depth=RANKS_SHOWN))
        values.append(judge(score(ranker, judged), judged, relevant_above))
    progress("production rankers", draws, draws)
    return ProductionProfile(
        draws=draws,
        relevant_share=np.mean(shares, axis=0),
        ndcg=np.array([value.mean for value in values]),
        skipped=values[0].n_skipped,
    )


def judge(
    scores: NDArray[np.float64], data: RankingDataset, relevant_above: float
) -> MetricValues:
    """Compute the number everything is judged by: nDCG@10 on binarised labels."""
    return JUDGED_BY(scores, data.relevance(relevant_above), data.offsets)


def describe(
    source: DataSource,
    *,
    split: Split | None = None,
    relevant_above: float = 2.0,
    seed: int = 0,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Say what a set holds and how a production ranker orders it, as plain data."""
    progress("reading", 0, 1)
    data = source.read(split or source.default_split("train"))
    progress("reading", 1, 1)
    about: dict[str, Any] = {
        "data": source.name,
        "split": split or source.default_split("train"),
        "synthetic": source.synthetic,
        **data.summary(),
        "production": None,
    }
    if data.labels is None:
        return about
    about["relevant_above"] = relevant_above
    about["relevant_share"] = float(data.relevance(relevant_above).mean())
    judged = data
    if about["split"] == "train" and "test" in source.splits:
        judged = source.read("test")
    try:
        profile = profile_production(
            data, judged, relevant_above=relevant_above, seed=seed, progress=progress
        )
    except DataError as error:
        about["production"] = {"not_trained": str(error)}
        return about
    about["production"] = {
        "draws": profile.draws,
        "queries_learnt_from": PRODUCTION_QUERIES,
        "relevant_share_by_rank": [
            None if np.isnan(s) else float(s) for s in profile.relevant_share
        ],
        str(JUDGED_BY): [float(value) for value in profile.ndcg],
        "judged_on": "test" if judged is not data else "the same data",
        "queries_skipped": profile.skipped,
    }
    return about


@dataclass(frozen=True, slots=True)
class DemoRow:
    """One line of the demo's table."""

    ranking: str
    values: MetricValues


def demo(*, seed: int = 0, progress: Progress = quiet) -> list[DemoRow]:
    """Build a small world, train a production ranker, judge it on the test split."""
    source = DataSource.parse("yahoo-like:1000", seed=seed)
    progress("making the world", 0, 2)
    train = source.read("train")
    progress("making the world", 1, 2)
    test = source.read("test")
    progress("making the world", 2, 2)
    progress("training the production ranker", 0, 1)
    ranker = train_production_ranker(train, seed=seed)
    progress("training the production ranker", 1, 1)
    rng = np.random.default_rng(seed)
    rankings = {
        "random": rng.random(test.n_docs),
        "production": score(ranker, test),
        "ideal": test.relevance().astype(np.float64),
    }
    return [DemoRow(name, judge(s, test, 2.0)) for name, s in rankings.items()]
