"""Which impressions a policy drew at random, as a log declares it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.halves import halves

from affinerank.counts.counts import ClickCounts
from affinerank.logs.options import LogOptions
from affinerank.support.errors import DataError

pytestmark = pytest.mark.slow

Count = Callable[..., Any]
Rows = list[dict[str, Any]]


def log_of(**columns: list[Any]) -> Rows:
    """One document, shown at rank 1 in a session for each value."""
    [values, *_] = columns.values()
    return [
        {"session_id": i, "query_id": "q", "doc_id": "d", "rank": 1, "clicked": 0}
        | {name: value[i] for name, value in columns.items()}
        for i in range(len(values))
    ]


def randomised(counts: ClickCounts) -> list[int]:
    return list(counts.table["randomised"].to_pylist())


def test_a_policy_declares_and_the_rankers_own_list_does_not(count: Count) -> None:
    policies = ["swap", "ours, 5 %", "fixed", " FIXED ", "None", "", None]
    assert randomised(count(log_of(policy=policies))[0]) == [2]
    columns = {"policy": "experiment"}
    renamed, _ = count(log_of(experiment=policies), LogOptions(columns=columns))
    assert randomised(renamed) == [2]


def test_a_propensity_below_1_declares(count: Count) -> None:
    counts, _ = count(log_of(propensity=[0.25, 0.999, 1.0, 1.0]))
    assert randomised(counts) == [2]
    either = log_of(propensity=[0.5, 1.0, 1.0], policy=[None, "swap", "fixed"])
    assert randomised(count(either)[0]) == [2]


@pytest.mark.parametrize("context", ["none", "last-click"])
def test_the_declaration_survives_counting(count: Count, context: str) -> None:
    rows = log_of(policy=["swap", "fixed", "swap"], propensity=[0.5, 1.0, 0.5])
    rows += rows[:1]  # a repeat
    counts, found = count(rows, context=context, holdout=0.5)
    assert randomised(counts) == [2]
    assert found.summary["randomised"] == 2
    silent, found = count(log_of(device=[1, 2]))
    assert "randomised" not in silent.columns
    assert "randomised" not in found.summary


def test_halves_share_what_is_randomised() -> None:
    counts = ClickCounts.from_columns(
        query_id=[1, 1],
        doc_id=[1, 2],
        rank=[1, 2],
        impressions=[1_000, 1_000],
        clicks=[100, 100],
        randomised=[1_000, 400],
    )
    first, second = halves(counts, rng=np.random.default_rng(0))
    for half in (first, second):
        assert randomised(half)[0] == half.impressions[0]
        # Hypergeometric: 500 drawn of 1,000 of which 400 are, error 7.7.
        assert abs(randomised(half)[1] - 200) < 5 * 7.8
    assert randomised(first)[1] + randomised(second)[1] == 400


def test_more_than_the_impressions_cannot_be_randomised() -> None:
    columns = {"query_id": [1], "doc_id": [1], "rank": [1], "clicks": [0]}
    for wrong in (3, -1):
        with pytest.raises(DataError, match=r"doc_id 1, rank 1: randomised must be"):
            ClickCounts.from_columns(**columns, impressions=[2], randomised=[wrong])
