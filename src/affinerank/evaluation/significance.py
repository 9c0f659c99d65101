"""Whether differences are more than chance: over runs, and over queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from affinerank.support.arrays import Floats
from affinerank.support.errors import DataError


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


def conclude(
    name: str, than: str, span: tuple[float, float], low: float, high: float, of: str
) -> str:
    """Say in words whether ``name`` is better ``than`` another, and by how much.

    Args:
        name: The one.
        than: The other.
        span: The difference; where there are only bounds, both.
        low: Lower end of its 95 % interval.
        high: Upper end.
        of: What differs, as in ``nDCG@10``.
    """
    interval = f"(95 % {low:+.4f} to {high:+.4f}, {of})"
    ends = sorted({f"{abs(end):.4f}" for end in span})
    by = f"by {' to '.join(ends)} {interval}"
    if low > 0:
        return f"{name} is better than {than} {by}"
    if high < 0:
        return f"{name} is not better than {than}: it is worse {by}"
    found = " to ".join(dict.fromkeys(f"{end:+.4f}" for end in span))
    return (
        f"cannot tell if {name} is better than {than}: it differs by {found} {interval}"
    )


def compare_runs(
    runs: Mapping[str, Sequence[float]], against: str, *, equal_variances: bool = True
) -> list[Comparison]:
    """Compare each set of runs with one of them by Student's t-test, or Welch's.

    Args:
        runs: Values of independent runs, by name.
        against: Name of the one to compare with.
        equal_variances: Student's, which assumes the same spread in all.
    """
    reference, others = _apart(runs, against)
    found = []
    for name, values in others.items():
        if len(values) < 2 or len(reference) < 2:
            raise DataError(f"{name}: a t-test needs two runs or more of each")
        test = stats.ttest_ind(values, reference, equal_var=equal_variances)
        found.append(_comparison(name, against, values, reference, test))
    return corrected(found)


def compare_queries(values: Mapping[str, ArrayLike], against: str) -> list[Comparison]:
    """Compare each ranking with one of them by a paired t-test over queries.

    Args:
        values: ``[n_queries]`` a metric's values by name; NaN where a query does not
            count, the same queries in all.
        against: Name of the one to compare with.
    """
    reference, others = _apart(values, against)
    counted = ~np.isnan(reference)
    found = []
    for name, array in others.items():
        if array.shape != reference.shape or np.any(np.isnan(array) == counted):
            raise DataError(f"{name} and {against} are not of the same queries")
        if np.count_nonzero(counted) < 2:
            raise DataError("a paired test needs two queries or more")
        a, b = array[counted], reference[counted]
        if np.array_equal(a, b):  # no difference at all: the test has 0 / 0
            found.append(Comparison(name, against, 0.0, 0.0, 0.0, 1.0, 1.0, len(a)))
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
        replace(c, p_corrected=float(q))
        for c, q in zip(comparisons, adjusted, strict=True)
    ]


def _apart(
    values: Mapping[str, ArrayLike], against: str
) -> tuple[Floats, dict[str, Floats]]:
    """Take the reference out of what is compared with it."""
    arrays = {name: np.asarray(v, dtype=np.float64) for name, v in values.items()}
    if against not in arrays:
        raise DataError(f"there is nothing named {against!r} to compare with")
    return arrays.pop(against), arrays


def _comparison(first: str, second: str, a: Floats, b: Floats, test: Any) -> Comparison:
    interval, p = test.confidence_interval(0.95), float(test.pvalue)
    difference = float(a.mean() - b.mean())
    low, high = float(interval.low), float(interval.high)
    return Comparison(first, second, difference, low, high, p, p, len(a))
