"""Documents at several ranks: which ranks they connect."""

import numpy as np
from tests.bias.logs import click_rows, shown_at

from affinerank.bias.overlap import connected_pools, moved_rows, overlap_of
from affinerank.bias.pooling import RankPools, pooled


def alone(depth: int) -> RankPools:
    return RankPools(np.arange(depth), np.ones(depth))


def test_ranks_are_connected_by_chains_of_enough_documents() -> None:
    """1-2 and 2-4 make a chain, 3-5 another one; 6 is alone, as is 5-6 with 29."""
    rows = shown_at((1, 2), (2, 4), (3, 5), (6,))
    docs = pooled(rows, alone(6))
    group = connected_pools(docs, 6)
    assert group[0] == group[1] == group[3]
    assert group[2] == group[4]
    assert len({int(group[0]), int(group[2]), int(group[5])}) == 3
    assert len(set(connected_pools(docs, 6, least=31).tolist())) == 6
    found = overlap_of(rows, alone(6))
    assert found.connected == ("ranks 1-2, 4", "ranks 3, 5")
    assert (found.n_docs, found.n_moved) == (120, 90)
    assert not found.all_connected


def test_pooled_ranks_are_named_by_all_of_them() -> None:
    rows = shown_at((1, 2), (2, 4), (5,), (6,))
    pools = RankPools(np.array([0, 1, 1, 2, 3, 4]), np.ones(6))
    assert pools.names == ("1", "2-3", "4", "5", "6")
    found = overlap_of(rows, pools)
    assert found.connected == ("ranks 1-4",)
    # Moves inside a pool count as such, but connect nothing.
    inside = shown_at((2, 3), (5,))
    found = overlap_of(inside, pools)
    assert found.n_moved == 30
    assert found.connected == ()


def test_moved_documents_were_shown_at_several_ranks() -> None:
    rows = click_rows([0, 0, 1, 2, 2], [0] * 5, [1, 1, 3, 2, 5], [5] * 5, [1] * 5)
    moved = moved_rows(rows)
    assert moved.doc.tolist() == [2, 2]
    assert moved.rank.tolist() == [2, 5]
    assert moved.n_docs == 3
    assert not len(moved_rows(rows.select(rows.doc < 2)))


def test_without_moved_documents_nothing_is_connected() -> None:
    found = overlap_of(shown_at((1,), (2,)), alone(2))
    assert (found.n_docs, found.n_moved, found.connected) == (60, 0, ())
    assert not found.all_connected
