"""Rankers judged by labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from affinerank.data.dataset import RankingDataset
from affinerank.defaults import RELEVANT_ABOVE
from affinerank.errors import DataError
from affinerank.evaluation.significance import Comparison, compare_queries
from affinerank.metrics import Metric, MetricValues
from affinerank.notebook import Tabular
from affinerank.rankers.ranker import Ranker, score


@dataclass(frozen=True, slots=True, repr=False)
class ByLabels(Tabular):
    """Rankers judged by labels, each compared with the first.

    Attributes:
        metric: Its name.
        queries: With a relevant document.
        relevant_above: Labels above this are relevant.
        rankers: Values of each query, by name.
        comparisons: Paired tests, p corrected for all of them (Holm).
    """

    metric: str
    queries: int
    relevant_above: float
    rankers: Mapping[str, MetricValues]
    comparisons: Sequence[Comparison]

    def _line(self) -> str:
        means = ", ".join(f"{n}: {v.mean:.4f}" for n, v in self.rankers.items())
        return f"{self.metric.split(' (')[0]} by {self.queries:,} queries, {means}"

    def _rows(self) -> list[dict[str, Any]]:
        compared = {c.first: c for c in self.comparisons}
        rows = self.to_dict()["rankers"]
        for row in rows:
            if other := compared.get(row["ranker"]):
                names = ("difference", "low", "high", "p_corrected")
                against = {name: getattr(other, name) for name in names}
                row |= {"second": other.second, "against": against}
        return list(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: mean, standard error and 95 % interval of each."""
        return {
            "metric": self.metric,
            "queries": self.queries,
            "relevant_above": self.relevant_above,
            "rankers": [
                {"ranker": name, **values.summary()}
                for name, values in self.rankers.items()
            ],
            "comparisons": [asdict(comparison) for comparison in self.comparisons],
        }


def evaluate_rankers(
    rankers: Mapping[str, Ranker],
    data: RankingDataset,
    *,
    metric: Metric,
    relevant_above: float = RELEVANT_ABOVE,
) -> ByLabels:
    """Judge rankers by labels; compare each with the first, query by query."""
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
    return ByLabels(values[first].name, queries, relevant_above, values, compared)
