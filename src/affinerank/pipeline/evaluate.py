"""Rankers judged by labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from affinerank.data.dataset import RankingDataset
from affinerank.defaults import RELEVANT_ABOVE
from affinerank.evaluation.metrics import Metric, MetricValues
from affinerank.evaluation.significance import Comparison, compare_queries, conclude
from affinerank.output.blocks import Summary
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.ranker import score
from affinerank.support.arrays import Bools
from affinerank.support.errors import DataError


@dataclass(frozen=True, slots=True, repr=False)
class ByLabels(Summary):
    """Rankers judged by labels, each compared with the first.

    Attributes:
        metric: Its name.
        queries: With a relevant document.
        relevant_above: Labels above this are relevant.
        rankers: Values of each query, by name.
        comparisons: Paired tests, p corrected for all of them (Holm).
        left_out: Queries that a ranker learnt from, and that do not count.
    """

    metric: str
    queries: int
    relevant_above: float
    rankers: Mapping[str, MetricValues]
    comparisons: Sequence[Comparison]
    left_out: int = 0

    def _line(self) -> str:
        means = ", ".join(f"{n}: {v.mean:.4f}" for n, v in self.rankers.items())
        return f"{self.metric.split(' (')[0]} by {self.queries:,} queries, {means}"

    def _rows(self) -> list[dict[str, Any]]:
        compared = {c.first: c for c in self.comparisons}
        rows = self.to_dict()["rankers"]
        for row in rows:
            if other := compared.get(row["ranker"]):
                names = ("difference", "low", "high", "p_corrected")
                row["second"] = other.second
                row["against"] = {name: getattr(other, name) for name in names}
        return list(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: mean, standard error and 95 % interval of each."""
        of = self.metric.split(" (")[0]
        named = self.rankers.items()
        return asdict(self) | {
            "rankers": [{"ranker": name, **own.summary()} for name, own in named],
            "conclusions": [
                conclude(c.first, c.second, (c.difference,) * 2, c.low, c.high, of)
                for c in self.comparisons
            ],
        }


def evaluate_rankers(
    rankers: Mapping[str, AnyRanker],
    data: RankingDataset,
    *,
    metric: Metric,
    relevant_above: float = RELEVANT_ABOVE,
) -> ByLabels:
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
    return ByLabels(*about, int(seen.sum()))


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
