"""What a set holds, and how production rankers would order it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.data.catalog import DataSource
from affinerank.data.dataset import RankingDataset
from affinerank.data.reading import Split
from affinerank.errors import DataError
from affinerank.metrics import MetricValues, mean_by_rank, ranks_by_score
from affinerank.pipeline.production import (
    JUDGED_BY,
    PRODUCTION_QUERIES,
    judge,
    score,
    train_production_ranker,
)
from affinerank.progress import Progress, quiet

RANKS_SHOWN = 10


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
