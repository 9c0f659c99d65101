"""Pools of ranks: consecutive, each with enough clicks, none without impressions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinerank.bias.pooling import RankPools, pool_ranks
from affinerank.errors import ConfigError, DataError

ROWS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 50), st.floats(0, 1)),
    min_size=1,
    max_size=30,
)


def pooled(rows: list[tuple[int, int, int]], least: float) -> RankPools:
    """Pools of rows of rank, impressions and clicks."""
    rank, seen, clicks = (np.array(column) for column in zip(*rows, strict=True))
    return pool_ranks(
        rank, seen.astype(float), clicks.astype(float), least_clicks=least
    )


@given(ROWS, st.integers(0, 60))
def test_laws_of_pools(drawn: list[tuple[int, int, float]], least: int) -> None:
    rows = [(rank, seen, round(seen * rate)) for rank, seen, rate in drawn]
    if not sum(seen for _, seen, _ in rows):
        with pytest.raises(DataError, match="no impressions"):
            pooled(rows, least)
        return
    pools = pooled(rows, least)
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
    pools = pooled(rows, 10)
    assert pools.of_rank.tolist() == [0, 1, 1, 2, 2, 2]
    assert pools.names == ("1", "2-3", "4-6")
    assert pools.shared == ("2-3", "4-6")
    assert pools.pool(np.array([6, 1, 3])).tolist() == [2, 0, 1]


def test_the_mean_rank_is_over_impressions() -> None:
    pools = pooled([(1, 5, 5), (2, 30, 1), (3, 10, 1)], 2)
    assert pools.names == ("1", "2-3")
    np.testing.assert_allclose(pools.mean_rank, [1, (2 * 30 + 3 * 10) / 40])


def test_ranks_without_impressions_join_the_next_or_the_last() -> None:
    """Even where no clicks are asked for: there is nothing to learn about them."""
    pools = pooled([(2, 5, 1), (4, 5, 1), (5, 5, 0), (6, 0, 0)], 0)
    assert pools.names == ("1-2", "3-4", "5-6")


def test_one_pool_may_have_too_few() -> None:
    assert pooled([(1, 9, 3), (2, 9, 3)], 7).names == ("1-2",)


def test_a_rank_of_a_pool_of_its_own_that_was_never_seen_has_its_own_mean() -> None:
    """The regression EM pools nothing, and a log may lack a rank."""
    pools = RankPools(np.arange(3), np.array([4.0, 0.0, 2.0]))
    assert pools.mean_rank.tolist() == [1.0, 2.0, 3.0]


def test_what_cannot_be_pooled_is_refused() -> None:
    with pytest.raises(ConfigError, match="least_clicks must be 0 or more, got -1"):
        pooled([(1, 9, 3)], -1)
    with pytest.raises(DataError, match="no impressions"):
        pool_ranks(np.array([], dtype=np.int64), np.array([]), np.array([]))
