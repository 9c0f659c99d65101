"""Saved rankers judged by labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from affinerank.data.dataset import RankingDataset
from affinerank.errors import DataError
from affinerank.evaluation.significance import compare_queries
from affinerank.metrics import Metric
from affinerank.pipeline.production import Ranker, score


def evaluate_rankers(
    rankers: Mapping[str, Ranker],
    data: RankingDataset,
    *,
    metric: Metric,
    relevant_above: float = 2.0,
) -> dict[str, Any]:
    """Judge rankers by labels; compare each with the first, query by query.

    Returns:
        As plain data: the metric's name, mean, standard error and 95 % interval of
        each, and paired tests with p corrected for all of them (Holm).
    """
    relevance = data.relevance(relevant_above)
    values = {
        name: metric(score(ranker, data), relevance, data.offsets)
        for name, ranker in rankers.items()
    }
    first = next(iter(values.values()))
    if np.all(np.isnan(first.values)):
        raise DataError(
            f"no query has a label above {relevant_above:g}, so there is nothing to "
            "judge by; choose which labels count as relevant (--relevant-above)"
        )
    compared = compare_queries(
        {name: v.values for name, v in values.items()}, against=next(iter(values))
    )
    return {
        "metric": first.name,
        "queries": int(np.count_nonzero(~np.isnan(first.values))),
        "relevant_above": relevant_above,
        "rankers": [
            {
                "ranker": name,
                "mean": v.mean,
                "standard_error": v.standard_error,
                "interval": list(v.interval),
            }
            for name, v in values.items()
        ],
        "comparisons": [asdict(comparison) for comparison in compared],
    }
