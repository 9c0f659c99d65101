"""Pools of ranks: consecutive, each with enough clicks, none without impressions."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.bias.logs import click_rows

from affinerank.bias.pooling import RankPools, pool_ranks, pooled
from affinerank.support.errors import ConfigError, DataError

ROWS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 50), st.floats(0, 1)),
    min_size=1,
    max_size=30,
)


def pools_of(rows: list[tuple[int, int, int]], least: float) -> RankPools:
    """Pools of rows of rank, impressions and clicks."""
    doc = np.arange(len(rows))
    return pool_ranks(click_rows(doc, doc, *zip(*rows, strict=True)), least)


@given(ROWS, st.integers(0, 60))
def test_laws_of_pools(drawn: list[tuple[int, int, float]], least: int) -> None:
    rows = [(rank, seen, round(seen * rate)) for rank, seen, rate in drawn]
    if not sum(seen for _, seen, _ in rows):
        with pytest.raises(DataError, match="no impressions"):
            pools_of(rows, least)
        return
    pools = pools_of(rows, least)
    depth = max(rank for rank, _, _ in rows)
    assert len(pools.of_rank) == depth
    # Consecutive: from 0, each rank in the pool of the one before or in the next.
    assert pools.of_rank[0] == 0
    assert set(np.diff(pools.of_rank)) <= {0, 1}
    for pool in range(pools.n_pools):
        there = [row for row in rows if pools.of_rank[row[0] - 1] == pool]
        assert sum(seen for _, seen, _ in there) == pools.pool_impressions[pool] > 0
        if pools.n_pools > 1:
            assert sum(clicks for _, _, clicks in there) >= least
    assert np.all(np.diff(pools.mean_rank) > 0)


def test_pools_take_no_more_ranks_than_they_need() -> None:
    rows = [(1, 90, 20), (2, 90, 9), (3, 90, 1), (4, 90, 10), (5, 90, 9), (6, 90, 0)]
    pools = pools_of(rows, 10)
    assert pools.of_rank.tolist() == [0, 1, 1, 2, 2, 2]
    assert pools.names == ("1", "2-3", "4-6")
    assert pools.shared == ("2-3", "4-6")
    assert pools.total(np.arange(6.0)).tolist() == [0, 1 + 2, 3 + 4 + 5]
    assert pools.span(1, 2) == "2-6"


def test_the_mean_rank_is_over_impressions() -> None:
    pools = pools_of([(1, 5, 5), (2, 30, 1), (3, 10, 1)], 2)
    assert pools.names == ("1", "2-3")
    np.testing.assert_allclose(pools.mean_rank, [1, (2 * 30 + 3 * 10) / 40])


def test_ranks_without_impressions_join_the_next_or_the_last() -> None:
    """Even where no clicks are asked for: there is nothing to learn about them."""
    pools = pools_of([(2, 5, 1), (4, 5, 1), (5, 5, 0), (6, 0, 0)], 0)
    assert pools.names == ("1-2", "3-4", "5-6")


def test_one_pool_may_have_too_few() -> None:
    assert pools_of([(1, 9, 3), (2, 9, 3)], 7).names == ("1-2",)


def test_a_rank_of_a_pool_of_its_own_that_was_never_seen_has_its_own_mean() -> None:
    """The regression EM pools nothing, and a log may lack a rank."""
    pools = RankPools(np.arange(3), np.array([4.0, 0.0, 2.0]))
    assert pools.mean_rank.tolist() == [1.0, 2.0, 3.0]


def test_what_cannot_be_pooled_is_refused() -> None:
    with pytest.raises(ConfigError, match="min_clicks must be 0 or more, got -1"):
        pools_of([(1, 9, 3)], -1)
    with pytest.raises(DataError, match="no impressions"):
        pool_ranks(click_rows([], [], [], [], []))


POOLS = RankPools(np.array([0, 1, 1, 2]), np.ones(4))


def sample(seed: int = 0, n: int = 60) -> dict[str, NDArray[Any]]:
    """Rows in any order; documents 10 and 11 have none."""
    rng = np.random.default_rng(seed)
    doc, impressions = rng.integers(0, 10, n), rng.integers(1, 8, n)
    return {
        "doc": doc,
        "query": doc // 3,
        "rank": rng.integers(1, 5, n),
        "impressions": impressions,
        "clicks": rng.binomial(impressions, 0.4),
    }


def test_rows_are_added_up_by_document_and_pool() -> None:
    rows = sample()
    expected: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for d, _, k, n, c in zip(*rows.values(), strict=True):
        total = expected[d, {1: 1, 2: 2, 3: 2, 4: 3}[k]]
        total[0] += n
        total[1] += c
    found = pooled(click_rows(*rows.values(), n_docs=12), POOLS)
    each = zip(found.doc, found.rank, found.impressions, found.clicks, strict=True)
    assert [(d, k, [n, c]) for d, k, n, c in each] == [
        (d, k, expected[d, k]) for d, k in sorted(expected)
    ]
    np.testing.assert_array_equal(found.query, found.doc // 3)
    assert found.n_docs == 12


def test_the_order_of_rows_does_not_matter() -> None:
    rows = sample()
    other = np.random.default_rng(1).permutation(len(rows["doc"]))
    shuffled = {name: values[other] for name, values in rows.items()}
    a, b = (pooled(click_rows(*each.values()), POOLS) for each in (rows, shuffled))
    for name in ("doc", "query", "rank", "impressions", "clicks"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
