"""Evaluate rankers by labels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from affinerank.data.dataset import RankingDataset
from affinerank.defaults import RELEVANT_ABOVE
from affinerank.evaluation.metrics import Metric
from affinerank.evaluation.results import LabelEvaluation
from affinerank.evaluation.significance import compare_queries
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.ranker import score
from affinerank.support.arrays import Bools
from affinerank.support.errors import DataError


def evaluate_rankers(
    rankers: Mapping[str, AnyRanker],
    data: RankingDataset,
    *,
    metric: Metric,
    relevant_above: float = RELEVANT_ABOVE,
) -> LabelEvaluation:
    """Judge rankers by labels; compare each with the first, query by query.

    Queries that one of them learnt from are left out.
    """
    data.known_labels()  # data without any are refused first
    seen = learnt_by(rankers, data, np.ones(data.n_queries, dtype=bool), "of the data")
    if seen.any():
        data = data.select_queries(np.flatnonzero(~seen))
    relevance = data.relevance(relevant_above)
    values = {
        name: metric(score(ranker, data), relevance, data.offsets)
        for name, ranker in rankers.items()
    }
    first, *_ = values
    queries = int(np.count_nonzero(~np.isnan(values[first].values)))
    if not queries:
        raise DataError(
            f"no query has a label above {relevant_above:g}, so there is nothing to "
            "judge by; choose which labels count as relevant (--relevant-above)"
        )
    compared = compare_queries({n: v.values for n, v in values.items()}, against=first)
    about = (values[first].name, queries, relevant_above, values, compared)
    return LabelEvaluation(*about, int(seen.sum()))


def learnt_by(
    rankers: Mapping[str, AnyRanker], data: RankingDataset, among: Bools, of: str
) -> Bools:
    """``[n_queries]`` queries ``among`` these that a ranker learnt from; reject all."""
    known = {name for ranker in rankers.values() for name in ranker.training_queries}
    seen = np.array([str(name) in known for name in data.query_ids], dtype=bool)
    seen &= among
    if seen.any() and np.array_equal(seen, among):
        raise DataError(
            f"the rankers learnt from all {int(seen.sum()):,} queries {of}, "
            f"{str(data.query_ids[seen][0])!r} for one, so there are none to judge by; "
            "hold queries out before training (count --holdout 0.2)"
        )
    return seen
