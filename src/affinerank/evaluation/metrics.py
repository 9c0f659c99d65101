r"""Ranking metrics: one value per query, averages are computed last.

Arguments that all metrics share:

- ``scores [n_docs]``: higher is ranked earlier. Ties go to the earlier row, everywhere.
- ``labels [n_docs]``: relevance, 0 or more. Where a metric asks whether a document is
  relevant, a label above 0 is: binarise graded labels first.
- ``offsets [n_queries + 1]``: query ``q`` owns the rows ``offsets[q]:offsets[q + 1]``.
- ``cutoff``: the deepest rank that counts, or ``None`` for all of them.
- ``empty``: the value of a query without a relevant document: ``"skip"`` (NaN, left out
  of the mean), ``"0"`` or ``"1"``.

Ranks count from 1. The discount of rank :math:`k` is :math:`1 / \log_2(k + 1)`, the
gain of a label :math:`y` is :math:`y` (``"linear"``) or :math:`2^y - 1`
(``"exponential"``). ``eDCG`` is the DCG that is expected of lists drawn by
Plackett-Luce from the scores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from affinerank.output.blocks import Summary
from affinerank.support.arrays import Floats, Ints
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.lists import (
    checked_lists,
    discount,
    padded_groups,
    ranks_of_lists,
)
from affinerank.support.plackett_luce import rank_chances

if TYPE_CHECKING:
    from affinerank.data.dataset import RankingDataset

Gain = Literal["linear", "exponential"]
Empty = Literal["skip", "0", "1"]
EMPTY_VALUES = {"skip": np.nan, "0": 0.0, "1": 1.0}
SETTINGS = {"gain": ("linear", "exponential"), "empty": tuple(EMPTY_VALUES)}


class _Ranked(NamedTuple):
    """Documents with ``ranks``, ``labels`` and ``scores [n_docs]``, and ``offsets``."""

    ranks: Ints
    labels: Floats
    offsets: Ints
    scores: Floats

    def total(self, values: NDArray[Any]) -> Floats:
        """Add up ``values [n_docs]`` by query."""
        return np.add.reduceat(values.astype(np.float64), self.offsets[:-1])


def _dcg(ranked: _Ranked, metric: Metric) -> Floats:
    r""":math:`\sum_{i : k_i \le K} g(y_i) / \log_2(k_i + 1)`."""
    counted = ranked.ranks <= metric.deepest
    gained = _gains(ranked, metric) * discount(ranked.ranks)
    return ranked.total(np.where(counted, gained, 0.0))


def _gains(ranked: _Ranked, metric: Metric) -> Floats:
    return ranked.labels if metric.gain == "linear" else np.exp2(ranked.labels) - 1.0


def _expected_dcg(ranked: _Ranked, metric: Metric) -> Floats:
    """DCG that is expected of lists drawn by Plackett-Luce from the scores."""
    gains, values = _gains(ranked, metric), np.zeros(len(ranked.offsets) - 1)
    starts, lengths = ranked.offsets[:-1], np.diff(ranked.offsets)
    for queries, rows, is_document in padded_groups(starts, lengths):
        depth = int(min(rows.shape[1], metric.deepest))
        scores = np.where(is_document, ranked.scores[rows], -np.inf)
        discounts = rank_chances(scores, depth) @ discount(np.arange(1, depth + 1))
        gains_of_group = np.where(is_document, gains[rows], 0.0)
        values[queries] = np.sum(gains_of_group * discounts, axis=1)
    return values


def _ndcg(ranked: _Ranked, metric: Metric) -> Floats:
    best = ranks_of_lists(ranked.labels, ranked.offsets)
    ideal = _dcg(ranked._replace(ranks=best), metric)
    return _dcg(ranked, metric) / np.where(ideal > 0, ideal, 1.0)


def _precision(ranked: _Ranked, metric: Metric) -> Floats:
    """Share of the first ranks that hold a relevant document.

    A query with fewer documents has empty ranks, which hold none. Without a cutoff,
    the share of all its documents.
    """
    depth = metric.cutoff or np.diff(ranked.offsets)
    hits = (ranked.labels > 0) & (ranked.ranks <= metric.deepest)
    return ranked.total(hits) / depth


def _reciprocal_rank(ranked: _Ranked, metric: Metric) -> Floats:
    """Reciprocal rank of the first relevant document, 0 below the cutoff."""
    hits = (ranked.labels > 0) & (ranked.ranks <= metric.deepest)
    found = np.where(hits, 1.0 / ranked.ranks, 0.0)
    return np.maximum.reduceat(found, ranked.offsets[:-1])


def _arp(ranked: _Ranked, _: Metric) -> Floats:
    r"""Mean rank of relevance, :math:`\sum_i y_i k_i / \sum_i y_i`; lower is better."""
    total = ranked.total(ranked.labels)
    weighted = ranked.total(ranked.labels * ranked.ranks)
    return weighted / np.where(total > 0, total, 1.0)


METRICS: Mapping[str, Callable[[_Ranked, Metric], Floats]] = {
    "DCG": _dcg,
    "eDCG": _expected_dcg,
    "nDCG": _ndcg,
    "P": _precision,
    "RR": _reciprocal_rank,
    "ARP": _arp,
}
UNNORMALISED = ("DCG", "eDCG")  # queries without relevance have a value, 0


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric with its settings, written as :meth:`parse` reads it.

    >>> Metric.parse("nDCG@10")
    Metric(name='nDCG', cutoff=10, gain='linear', empty='skip')
    >>> str(Metric("nDCG", 10, gain="exponential", empty="0"))
    'nDCG(gain=exponential, empty=0)@10'
    """

    name: str
    cutoff: int | None = None
    gain: Gain = "linear"
    empty: Empty = "skip"

    def __post_init__(self) -> None:
        """Reject settings that the metric does not have."""
        if self.name not in METRICS:
            raise ConfigError(
                f"{self.name!r} is not a metric; known are {', '.join(METRICS)}, "
                "with a cutoff as in nDCG@10"
            )
        fault = ""
        for key, choices in SETTINGS.items():
            if getattr(self, key) not in choices:
                fault = f"{key} must be {' or '.join(choices)}"
        if self.gain != "linear" and "DCG" not in self.name:
            fault = "it has no gain to choose"
        if self.cutoff is not None and (self.cutoff < 1 or self.name == "ARP"):
            fault = "a cutoff must be 1 or more, and ARP has none"
        if fault:
            raise ConfigError(f"{self}: {fault}")

    @classmethod
    def parse(cls, text: str) -> Metric:
        """Read ``NAME[(gain=..., empty=...)][@CUTOFF]``, names as in ir_measures."""
        match = re.fullmatch(r"(\w+)(?:\(([^)]*)\))?(?:@([1-9]\d{0,8}))?", text.strip())
        if match is None:
            return cls(text)  # which rejects it
        inner = filter(None, (match[2] or "").replace(" ", "").split(","))
        settings: dict[str, Any] = dict(part.partition("=")[::2] for part in inner)
        if not settings.keys() <= SETTINGS.keys():
            raise ConfigError(f"{text!r}: expected gain=... or empty=...")
        return cls(match[1], int(match[3]) if match[3] else None, **settings)

    def __str__(self) -> str:
        """Write the metric so that :meth:`parse` gives it back."""
        own = {key: getattr(self, key) for key in SETTINGS}
        differ = [f"{k}={v}" for k, v in own.items() if v != SETTINGS[k][0]]
        inner = f"({', '.join(differ)})" if differ else ""
        return f"{self.name}{inner}" + (f"@{self.cutoff}" if self.cutoff else "")

    @property
    def deepest(self) -> float:
        """Deepest rank that counts."""
        return self.cutoff or np.inf

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike
    ) -> MetricValues:
        """Compute the metric for each query."""
        ranked = _ranked(scores, labels, offsets)
        values = METRICS[self.name](ranked, self)
        if self.name not in UNNORMALISED:
            relevant = ranked.total(ranked.labels) > 0
            values = np.where(relevant, values, EMPTY_VALUES[self.empty])
        return MetricValues(metric=self, values=values)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MetricValues(Summary):
    """A metric's value for each query; NaN where the query was skipped."""

    metric: Metric
    values: Floats

    def _line(self) -> str:
        return f"{self.name}: {self.mean:.4f} over {len(self.counted):,} queries"

    def _rows(self) -> list[dict[str, Any]]:
        return [self.summary()]

    @property
    def n_skipped(self) -> int:
        """Number of queries without a relevant document that were left out."""
        return len(self.values) - len(self.counted)

    @property
    def counted(self) -> Floats:
        """Values of the queries that count."""
        return self.values[~np.isnan(self.values)]

    @property
    def mean(self) -> float:
        """Mean over the queries that count; NaN if there are none."""
        return float(self.counted.mean()) if len(self.counted) else float("nan")

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, queries taken as drawn at random."""
        if len(self.counted) < 2:
            return float("nan")
        return float(self.counted.std(ddof=1) / np.sqrt(len(self.counted)))

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the 95 % interval of the mean, queries taken as drawn at random."""
        half = 1.96 * self.standard_error
        return self.mean - half, self.mean + half

    def summary(self) -> dict[str, Any]:
        """Return the mean and how far it may be off, as plain data."""
        about = {"mean": self.mean, "standard_error": self.standard_error}
        return {**about, "interval": list(self.interval)}

    @property
    def name(self) -> str:
        """The metric, its gain, and what became of queries without relevance."""
        gain = f"{self.metric.gain} gain, " if "DCG" in self.metric.name else ""
        if self.metric.name in UNNORMALISED:
            return f"{self.metric} ({gain}all {len(self.values)} queries)"
        fate = f"queries counted as {self.metric.empty}"
        if self.metric.empty == "skip":
            fate = f"{self.n_skipped} of {len(self.values)} queries skipped"
        return f"{self.metric} ({gain}{fate} for want of a relevant document)"


def _ranked(scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> _Ranked:
    """Check the arrays, and rank the documents of each query."""
    relevance = np.asarray(labels, dtype=np.float64)
    if np.shape(scores) != relevance.shape:
        raise DataError(
            "scores and labels must be one number per document, "
            f"got shapes {np.shape(scores)} and {relevance.shape}"
        )
    values, bounds = checked_lists(scores, offsets)
    if not np.all(np.isfinite(relevance) & (relevance >= 0)):
        raise DataError("labels must be numbers that are 0 or more")
    return _Ranked(ranks_of_lists(values, bounds), relevance, bounds, values)


MAIN_METRIC = Metric("nDCG", cutoff=10)


def evaluate_scores(
    scores: Floats, data: RankingDataset, relevant_above: float
) -> MetricValues:
    """Compute nDCG@10 on binarised labels, the metric of all our comparisons."""
    return MAIN_METRIC(scores, data.relevance(relevant_above), data.offsets)
