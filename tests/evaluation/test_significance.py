"""Tests of significance against scipy, written-out corrections, and edge cases."""

import numpy as np
import pytest
from scipy import stats

from affinerank.evaluation.significance import (
    Comparison,
    compare_queries,
    compare_runs,
    corrected,
)
from affinerank.support.errors import DataError


def test_welch_does_not_take_spreads_for_the_same() -> None:
    """Means 2 and 4, variances 1 and 4, three runs each: t = 2 / sqrt(5 / 3)."""
    runs = {"a": [1.0, 2.0, 3.0], "b": [2.0, 4.0, 6.0]}
    (found,) = compare_runs(runs, against="b", equal_variances=False)
    t, freedom = -2 / np.sqrt(5 / 3), (5 / 3) ** 2 / (1 / 9 / 2 + 16 / 9 / 2)
    assert found.p == pytest.approx(2 * stats.t.cdf(t, freedom))


def test_runs_are_compared_by_students_t_test() -> None:
    runs = {"a": [0.70, 0.72, 0.71, 0.73], "b": [0.68, 0.69, 0.70, 0.66]}
    (found,) = compare_runs(runs, against="b")
    expected = stats.ttest_ind(runs["a"], runs["b"])
    assert found.p == pytest.approx(expected.pvalue)
    assert found.difference == pytest.approx(0.715 - 0.6825)
    assert found.low < found.difference < found.high


def test_queries_are_compared_in_pairs_and_skipped_ones_left_out() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(50)
    base[3] = np.nan
    values = {"old": base, "new": base + rng.normal(0.05, 0.1, 50)}
    (found,) = compare_queries(values, against="old")
    counted = ~np.isnan(base)
    expected = stats.ttest_rel(values["new"][counted], base[counted])
    assert found.p == pytest.approx(expected.pvalue)
    assert found.n == 49


def test_holm_is_the_written_out_step_down() -> None:
    given = [
        Comparison(name, "x", 0, 0, 0, p, p, 4)
        for name, p in (("a", 0.04), ("b", 0.01), ("c", 0.03))
    ]
    adjusted = {c.first: c.p_corrected for c in corrected(given)}
    assert adjusted == pytest.approx({"b": 3 * 0.01, "c": 2 * 0.03, "a": 2 * 0.03})
    assert corrected([]) == []


def test_no_difference_at_all_has_p_one() -> None:
    (found,) = compare_queries({"a": [0.5, 0.7], "b": [0.5, 0.7]}, against="b")
    assert (found.difference, found.p) == (0.0, 1.0)


def test_equal_runs_still_have_an_interval() -> None:
    (found,) = compare_runs({"a": [0.5, 0.6, 0.7], "b": [0.5, 0.6, 0.7]}, against="b")
    assert found.low == pytest.approx(-found.high)
    assert found.high > 0.1


def test_what_cannot_be_compared_is_rejected() -> None:
    with pytest.raises(DataError, match="two runs or more"):
        compare_runs({"a": [0.1], "b": [0.2]}, against="b")
    with pytest.raises(DataError, match="nothing named 'c'"):
        compare_runs({"a": [0.1]}, against="c")
    with pytest.raises(DataError, match="not of the same queries"):
        compare_queries({"a": [0.1, np.nan], "b": [0.1, 0.2]}, against="b")
