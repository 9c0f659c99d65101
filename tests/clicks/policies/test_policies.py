"""Policies: every list is a permutation, and both ways of drawing agree."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinerank.arrays import Ints
from affinerank.clicks.policies import POLICIES, placements
from affinerank.clicks.policies.fixed import Fixed
from affinerank.clicks.policies.policy import evenly, list_places
from affinerank.clicks.policies.rotate import Rotate
from affinerank.clicks.policies.swap import Swap
from affinerank.errors import ConfigError

LENGTHS = np.array([1, 2, 3, 7])
CHANGING = [name for name, row in POLICIES.items() if row.settings().share > 0]


def settings_of(name: str) -> Any:
    """A policy of the table that changes half of the sessions."""
    return POLICIES[name].settings(share=0.5)


def lists_of(flat: Ints) -> list[tuple[int, ...]]:
    ends = np.cumsum(LENGTHS)
    return [tuple(flat[e - n : e]) for e, n in zip(ends, LENGTHS, strict=True)]


@pytest.mark.parametrize("name", CHANGING)
def test_every_list_shows_every_document_once(name: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        for places in lists_of(settings_of(name).places(LENGTHS, rng)):
            assert sorted(places) == list(range(len(places)))


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("drawn", [False, True])
def test_every_rank_and_every_document_has_all_sessions(name: str, drawn: bool) -> None:
    rng = np.random.default_rng(1) if drawn else None
    sessions = np.array([5, 100, 1000, 0])
    by_rank, by_place = np.zeros((4, 7)), np.zeros((4, 7))
    for block in placements([settings_of(name)], LENGTHS, sessions, rng):
        assert np.all(block.sessions > 0)
        np.add.at(by_rank, (block.query, block.rank - 1), block.sessions)
        np.add.at(by_place, (block.query, block.place), block.sessions)
    expected = sessions[:, None] * (np.arange(7) < LENGTHS[:, None])
    np.testing.assert_allclose(by_rank, expected, atol=1e-9)
    np.testing.assert_allclose(by_place, expected, atol=1e-9)


@pytest.mark.parametrize("name", CHANGING)
def test_lists_drawn_one_by_one_have_the_expected_placements(name: str) -> None:
    policy, n = settings_of(name), 20_000
    rng = np.random.default_rng(2)
    lengths = np.repeat(LENGTHS, n)
    taken = rng.random(len(lengths)) < policy.share
    number, stays = list_places(lengths)
    place = np.where(taken[number], policy.places(lengths, rng), stays)
    found = Counter(zip(number // n, place, stays + 1, strict=True))
    ones = np.ones(len(LENGTHS))
    expected: Counter[Any] = Counter()
    for block in placements([policy], LENGTHS, ones, None):
        for q, p, k, share in zip(
            block.query, block.place, block.rank, block.sessions, strict=True
        ):
            expected[q, p, k] += share
    assert set(found) <= set(expected)
    for key, p in expected.items():
        error = np.sqrt(n * p * max(1 - p, 0))
        assert abs(found[key] - n * p) <= 4.5 * error + 1e-6


def test_a_swap_exchanges_one_adjacent_pair() -> None:
    rng = np.random.default_rng(3)
    seen = set()
    for _ in range(200):
        lists = lists_of(Swap(share=1).places(LENGTHS, rng))
        assert lists[0] == (0,)
        assert lists[1] == (1, 0)
        seen.add(lists[2])
    assert seen == {(1, 0, 2), (0, 2, 1)}


def test_a_rotation_turns_the_first_documents() -> None:
    rng = np.random.default_rng(4)
    seen = set()
    for _ in range(200):
        lists = lists_of(Rotate(share=1, first=3).places(LENGTHS, rng))
        assert lists[1] == (1, 0)
        seen.add(lists[3])
    assert seen == {(2, 0, 1, 3, 4, 5, 6), (1, 2, 0, 3, 4, 5, 6)}


def test_a_fixed_policy_shows_the_ranker_s_list() -> None:
    rng = np.random.default_rng(5)
    unchanged: Any = Fixed()
    blocks = list(placements([unchanged], LENGTHS, np.full(4, 9), rng))
    [block] = blocks
    np.testing.assert_array_equal(block.rank, block.place + 1)
    np.testing.assert_array_equal(block.sessions, 9)


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=6),
    st.integers(0, 5),
    st.booleans(),
)
def test_totals_are_spread_whole(totals: list[int], ways: int, drawn: bool) -> None:
    rng = np.random.default_rng(0) if drawn else None
    numbers = np.array(totals) if drawn else np.array(totals, dtype=np.float64)
    spread = evenly(numbers, np.full(len(totals), ways), rng)
    assert spread.shape == (len(totals), ways)
    if ways:
        np.testing.assert_allclose(spread.sum(axis=1), totals)
    if not drawn:
        np.testing.assert_allclose(
            spread, np.outer(totals, np.ones(ways)) / (ways or 1)
        )


@pytest.mark.parametrize("kind", [Swap, Rotate])
@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_is_from_0_to_1(kind: Any, share: float) -> None:
    with pytest.raises(ConfigError, match=f"got {share:g}"):
        kind(share=share)
