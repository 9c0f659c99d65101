"""Whether differences are more than chance: over runs, and over queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from affinerank.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of two means, and how likely chance alone would give it.

    Attributes:
        first: Name of the one.
        second: Name of the other.
        difference: Mean of the first less that of the second.
        low: Lower end of the 95 % interval of the difference.
        high: Upper end.
        p: Two-sided p-value.
        p_corrected: The same, corrected for all comparisons made (Holm).
        n: Pairs, or runs of the first.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p: float
    p_corrected: float
    n: int


def compare_runs(
    runs: Mapping[str, Sequence[float]], against: str, *, equal_variances: bool = True
) -> list[Comparison]:
    """Student's t-test of each set of runs against one of them, or Welch's.

    Args:
        runs: Values of independent runs, by name.
        against: Name of the one to compare with.
        equal_variances: Student's, which takes the spread of all for the same.
    """
    reference = np.asarray(_known(runs, against), dtype=np.float64)
    found = []
    for name, values in runs.items():
        if name != against:
            array = np.asarray(values, dtype=np.float64)
            if len(array) < 2 or len(reference) < 2:
                raise DataError("a t-test needs two runs or more of each")
            test = stats.ttest_ind(array, reference, equal_var=equal_variances)
            found.append(_comparison(name, against, array, reference, test))
    return corrected(found)


def compare_queries(values: Mapping[str, ArrayLike], against: str) -> list[Comparison]:
    """Paired t-test over queries of each ranking against one of them.

    Args:
        values: ``[n_queries]`` a metric's values by name; NaN where a query does not
            count, the same queries in all.
        against: Name of the one to compare with.
    """
    reference = np.asarray(_known(values, against), dtype=np.float64)
    counted = ~np.isnan(reference)
    found = []
    for name, other in values.items():
        if name != against:
            array = np.asarray(other, dtype=np.float64)
            if array.shape != reference.shape or np.any(np.isnan(array) == counted):
                raise DataError(f"{name} and {against} are not of the same queries")
            if np.count_nonzero(counted) < 2:
                raise DataError("a paired test needs two queries or more")
            a, b = array[counted], reference[counted]
            if np.array_equal(a, b):  # no difference at all: the test has 0 / 0
                same = Comparison(name, against, 0.0, 0.0, 0.0, 1.0, 1.0, len(a))
                found.append(same)
            else:
                found.append(_comparison(name, against, a, b, stats.ttest_rel(a, b)))
    return corrected(found)


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Correct p-values for several comparisons by Holm's step-down method."""
    p = np.array([c.p for c in comparisons])
    order = np.argsort(p)
    steps = p[order] * (len(p) - np.arange(len(p)))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [
        Comparison(c.first, c.second, c.difference, c.low, c.high, c.p, float(q), c.n)
        for c, q in zip(comparisons, adjusted, strict=True)
    ]


def _known(values: Mapping[str, object], name: str) -> object:
    if name not in values:
        raise DataError(f"there is nothing named {name!r} to compare with")
    return values[name]


def _comparison(
    first: str, second: str, a: Floats, b: Floats, test: object
) -> Comparison:
    difference = float(a.mean() - b.mean())
    interval = test.confidence_interval(0.95)  # type: ignore[attr-defined]
    p = float(test.pvalue)  # type: ignore[attr-defined]
    return Comparison(
        first,
        second,
        difference,
        float(interval.low),
        float(interval.high),
        p,
        p,
        len(a),
    )
