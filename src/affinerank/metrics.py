r"""Ranking metrics: one value per query, averages are computed last.

Arguments that every function shares:

- ``scores [n_docs]``: higher is ranked earlier. Ties go to the earlier row, everywhere.
- ``labels [n_docs]``: relevance, 0 or more. Where a metric asks whether a document is
  relevant, a label above 0 is: binarise graded labels first.
- ``offsets [n_queries + 1]``: query ``q`` owns the rows ``offsets[q]:offsets[q + 1]``.
- ``cutoff``: the deepest rank that counts, or ``None`` for all of them.
- ``empty``: the value of a query without a relevant document: ``"skip"`` (NaN, left out
  of the mean), ``"0"`` or ``"1"``.

Ranks count from 1. The discount of rank :math:`k` is :math:`1 / \log_2(k + 1)`, the
gain of a label :math:`y` is :math:`y` (``"linear"``) or :math:`2^y - 1`
(``"exponential"``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from affinerank.errors import ConfigError, DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Gain = Literal["linear", "exponential"]
Empty = Literal["skip", "0", "1"]


def ranks_by_score(scores: ArrayLike, offsets: ArrayLike) -> Ints:
    """Rank of each document within its query, from 1; ties go to the earlier row.

    >>> ranks_by_score([0.1, 0.9, 0.1, 5.0], [0, 3, 4]).tolist()
    [2, 1, 3, 1]
    """
    values = _checked(scores, offsets)[0]
    return _ranks(values, np.asarray(offsets))


def mean_by_rank(values: ArrayLike, ranks: ArrayLike, *, depth: int) -> Floats:
    """Mean of ``values [n_docs]`` at each rank from 1 to ``depth``; NaN where none is.

    >>> mean_by_rank([1.0, 0.0, 0.0], [1, 2, 1], depth=3).tolist()
    [0.5, 0.0, nan]
    """
    at = np.asarray(ranks)
    shown = at <= depth
    total = np.bincount(at[shown], np.asarray(values)[shown], minlength=depth + 1)[1:]
    count = np.bincount(at[shown], minlength=depth + 1)[1:]
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def discount(ranks: ArrayLike) -> Floats:
    r"""Discount :math:`1 / \log_2(k + 1)` of each rank.

    >>> discount([1, 3]).tolist()
    [1.0, 0.5]
    """
    return 1.0 / np.log2(np.asarray(ranks, dtype=np.float64) + 1.0)


def dcg(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    cutoff: int | None = None,
    gain: Gain = "linear",
) -> Floats:
    r"""Discounted cumulative gain of each query.

    .. math:: \mathrm{DCG}@K = \sum_{i : k_i \le K} \frac{g(y_i)}{\log_2(k_i + 1)}
    """
    values, relevance, bounds = _checked(scores, offsets, labels)
    return _dcg(_ranks(values, bounds), _gains(relevance, gain), bounds, cutoff)


def ndcg(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    cutoff: int | None = None,
    gain: Gain = "linear",
    empty: Empty = "skip",
) -> Floats:
    """DCG of each query, divided by the DCG of its best possible order."""
    values, relevance, bounds = _checked(scores, offsets, labels)
    gains = _gains(relevance, gain)
    ideal = _dcg(_ranks(relevance, bounds), gains, bounds, cutoff)
    reached = _dcg(_ranks(values, bounds), gains, bounds, cutoff)
    return _filled(reached / np.where(ideal > 0, ideal, 1.0), ideal > 0, empty)


def precision(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    cutoff: int | None = None,
    empty: Empty = "0",
) -> Floats:
    """Share of the first ``cutoff`` ranks that hold a relevant document.

    A query with fewer documents has empty ranks, which hold none. Without a cutoff,
    the share of all its documents.
    """
    values, relevance, bounds = _checked(scores, offsets, labels)
    hit = relevance > 0
    shown = hit if cutoff is None else hit & (_ranks(values, bounds) <= cutoff)
    depth = np.diff(bounds) if cutoff is None else cutoff
    return _filled(_segment_sum(shown, bounds) / depth, _any(hit, bounds), empty)


def mrr(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    cutoff: int | None = None,
    empty: Empty = "skip",
) -> Floats:
    """Reciprocal rank of each query's first relevant document, 0 below the cutoff."""
    values, relevance, bounds = _checked(scores, offsets, labels)
    hit = relevance > 0
    ranks = _ranks(values, bounds)
    counted = hit if cutoff is None else hit & (ranks <= cutoff)
    reciprocal = np.where(counted, 1.0 / ranks, 0.0)
    if len(bounds) == 1:
        return np.zeros(0)
    best = np.maximum.reduceat(reciprocal, bounds[:-1])
    return _filled(best, _any(hit, bounds), empty)


def arp(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    cutoff: None = None,
    empty: Empty = "skip",
) -> Floats:
    r"""Average relevance position: the mean rank of relevance; lower is better.

    .. math:: \mathrm{ARP} = \sum_i y_i k_i \Big/ \sum_i y_i
    """
    values, relevance, bounds = _checked(scores, offsets, labels)
    if cutoff is not None:
        raise ConfigError(f"ARP has no cutoff, got {cutoff}; ask for ARP")
    total = _segment_sum(relevance, bounds)
    ranked = _segment_sum(relevance * _ranks(values, bounds), bounds)
    return _filled(ranked / np.where(total > 0, total, 1.0), total > 0, empty)


METRICS: Mapping[str, Callable[..., Floats]] = MappingProxyType(
    {"DCG": dcg, "nDCG": ndcg, "P": precision, "RR": mrr, "ARP": arp}
)


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

    @classmethod
    def parse(cls, text: str) -> Metric:
        """Read ``NAME[(gain=..., empty=...)][@CUTOFF]``, names as in ir_measures."""
        match = re.fullmatch(r"(\w+)(?:\(([^)]*)\))?(?:@([1-9]\d{0,8}))?", text.strip())
        if match is None or match[1] not in METRICS:
            raise ConfigError(
                f"{text!r} is not a metric; known are {', '.join(METRICS)}, "
                "with a cutoff as in nDCG@10"
            )
        settings: dict[str, Any] = {}
        for part in filter(None, (match[2] or "").replace(" ", "").split(",")):
            key, _, value = part.partition("=")
            choices = {"gain": ("linear", "exponential"), "empty": ("skip", "0", "1")}
            if value not in choices.get(key, ()):
                raise ConfigError(
                    f"{text!r}: expected gain=linear|exponential or empty=skip|0|1, "
                    f"got {part!r}"
                )
            if key == "gain" and "DCG" not in match[1]:
                raise ConfigError(f"{text!r}: {match[1]} has no gain to choose")
            settings[key] = value
        return cls(match[1], int(match[3]) if match[3] else None, **settings)

    def __str__(self) -> str:
        """Write the metric so that :meth:`parse` gives it back."""
        settings = [f"gain={self.gain}"] if self.gain != "linear" else []
        settings += [f"empty={self.empty}"] if self.empty != "skip" else []
        inner = f"({', '.join(settings)})" if settings else ""
        return f"{self.name}{inner}" + (f"@{self.cutoff}" if self.cutoff else "")

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike
    ) -> MetricValues:
        """Compute the metric for each query."""
        settings: dict[str, Any] = {"cutoff": self.cutoff}
        if self.name in ("DCG", "nDCG"):
            settings["gain"] = self.gain
        if self.name != "DCG":
            settings["empty"] = self.empty
        values = METRICS[self.name](scores, labels, offsets, **settings)
        return MetricValues(metric=self, values=values)


@dataclass(frozen=True, slots=True, eq=False)
class MetricValues:
    """A metric's value for each query; NaN where the query was skipped."""

    metric: Metric
    values: Floats

    @property
    def n_skipped(self) -> int:
        """Number of queries without a relevant document that were left out."""
        return int(np.count_nonzero(np.isnan(self.values)))

    @property
    def mean(self) -> float:
        """Mean over the queries that count; NaN where none does."""
        counted = self.values[~np.isnan(self.values)]
        return float(counted.mean()) if counted.size else float("nan")

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, queries taken as drawn at random."""
        counted = self.values[~np.isnan(self.values)]
        if counted.size < 2:
            return float("nan")
        return float(counted.std(ddof=1) / np.sqrt(counted.size))

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the 95 % interval of the mean, queries taken as drawn at random."""
        half = 1.96 * self.standard_error
        return self.mean - half, self.mean + half

    @property
    def name(self) -> str:
        """The metric, its gain, and what became of queries without relevance."""
        gain = f"{self.metric.gain} gain, " if "DCG" in self.metric.name else ""
        if self.metric.name == "DCG":
            return f"{self.metric} ({gain}all {len(self.values)} queries)"
        if self.metric.empty == "skip":
            fate = f"{self.n_skipped} of {len(self.values)} queries skipped"
        else:
            fate = f"queries counted as {self.metric.empty}"
        return f"{self.metric} ({gain}{fate} for want of a relevant document)"


def _checked(
    scores: ArrayLike, offsets: ArrayLike, labels: ArrayLike | None = None
) -> tuple[Floats, Floats, Ints]:
    bounds = np.asarray(offsets, dtype=np.int64)
    values = np.asarray(scores, dtype=np.float64)
    relevance = values if labels is None else np.asarray(labels, dtype=np.float64)
    if values.ndim != 1 or values.shape != relevance.shape:
        raise DataError(
            "scores and labels must be one number per document, "
            f"got shapes {values.shape} and {relevance.shape}"
        )
    if not len(bounds) or bounds[0] != 0 or bounds[-1] != len(values):
        raise DataError(
            f"offsets must start at 0 and end at the number of scores, {len(values)}"
        )
    if np.any(np.diff(bounds) < 1):
        raise DataError("every query must have a document; offsets must rise")
    bad = np.flatnonzero(np.isnan(values))
    if bad.size:
        raise DataError(
            f"document {bad[0]} has the score NaN ({bad.size} such documents); "
            "a score must be a number"
        )
    if labels is not None and not np.all(np.isfinite(relevance) & (relevance >= 0)):
        raise DataError("labels must be numbers that are 0 or more")
    return values, relevance, bounds


def _ranks(scores: Floats, offsets: Ints) -> Ints:
    """Sort queries of similar length together, as rows of one padded matrix.

    Far faster than one sort over all documents, and stable: ties keep their order.
    """
    sizes = np.diff(offsets)
    ranks = np.empty(len(scores), dtype=np.int64)
    length_class = np.ceil(4 * np.log2(sizes))  # lengths within 19 % of each other
    for value in np.unique(length_class):
        queries = np.flatnonzero(length_class == value)
        column = np.arange(sizes[queries].max())
        held = column < sizes[queries, None]
        row = np.where(held, offsets[queries, None] + column, 0)
        order = np.argsort(np.where(held, -scores[row], np.inf), axis=1, kind="stable")
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, column[None, :] + 1, axis=1)
        ranks[row[held]] = rank[held]
    return ranks


def _gains(labels: Floats, gain: Gain) -> Floats:
    if gain not in ("linear", "exponential"):
        raise ConfigError(f"gain must be linear or exponential, got {gain!r}")
    return labels if gain == "linear" else np.exp2(labels) - 1.0


def _dcg(ranks: Ints, gains: Floats, offsets: Ints, cutoff: int | None) -> Floats:
    gained = gains * discount(ranks)
    if cutoff is not None:
        gained = np.where(ranks <= cutoff, gained, 0.0)
    return _segment_sum(gained, offsets)


def _segment_sum(values: NDArray[Any], offsets: Ints) -> Floats:
    if len(offsets) == 1:
        return np.zeros(0)
    return np.add.reduceat(values.astype(np.float64), offsets[:-1])


def _any(hits: NDArray[np.bool_], offsets: Ints) -> NDArray[np.bool_]:
    return _segment_sum(hits, offsets) > 0


def _filled(values: Floats, known: NDArray[np.bool_], empty: Empty) -> Floats:
    """Give queries without a relevant document the value that ``empty`` asks for."""
    fill = {"skip": np.nan, "0": 0.0, "1": 1.0}
    if empty not in fill:
        raise ConfigError(f"empty must be one of skip, 0, 1, got {empty!r}")
    return np.where(known, values, fill[empty])
