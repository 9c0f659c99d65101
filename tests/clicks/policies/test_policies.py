"""Policies: every list is a permutation, and both ways of drawing agree."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinerank.clicks.policies import POLICIES
from affinerank.clicks.policies.epsilon_swap import EpsilonSwap
from affinerank.clicks.policies.fixed import Fixed
from affinerank.clicks.policies.plackett_luce import PlackettLuce
from affinerank.clicks.policies.policy import (
    DrawnPolicy,
    ListBlock,
    RankedLists,
    drawn_places,
    evenly,
    list_places,
    one_list_each,
    placements,
    probability,
)
from affinerank.clicks.policies.rotate import Rotate
from affinerank.clicks.policies.swap import Swap
from affinerank.clicks.policies.team_draft import TeamDraft
from affinerank.support import plackett_luce
from affinerank.support.arrays import Floats, Ints
from affinerank.support.errors import ConfigError

pytestmark = pytest.mark.slow

LENGTHS = np.array([1, 2, 3, 7])
STARTS = np.cumsum(LENGTHS) - LENGTHS
SCORES = np.array([0.0, 1.0, 0.5, 2.0, 0.0, -1.0, *np.linspace(1, -1, 7)])
RIVAL = np.array([0, 1, 0, 2, 0, 1, 6, 0, 1, 4, 3, 5, 2])
LISTS = RankedLists(STARTS, LENGTHS, LENGTHS, SCORES, RIVAL)
TOP = RankedLists(STARTS, LENGTHS, np.minimum(LENGTHS, 3), SCORES, RIVAL)
CHANGING = [name for name, row in POLICIES.items() if row.settings().share > 0]


def settings_of(name: str) -> Any:
    """A policy of the table that changes half of the sessions."""
    return POLICIES[name].settings(share=0.5)


def places_of(policy: Any, lists: RankedLists, rng: np.random.Generator) -> Ints:
    if isinstance(policy, DrawnPolicy):
        return drawn_places(policy, lists, rng)
    moved: Ints = policy.places(lists.shown, rng)
    return moved


def lists_of(flat: Ints) -> list[tuple[int, ...]]:
    ends = np.cumsum(LENGTHS)
    return [tuple(flat[e - n : e]) for e, n in zip(ends, LENGTHS, strict=True)]


@pytest.mark.parametrize("name", CHANGING)
def test_every_list_shows_every_document_once(name: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        for places in lists_of(places_of(settings_of(name), LISTS, rng)):
            assert sorted(places) == list(range(len(places)))


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("drawn", [False, True])
def test_every_rank_and_every_document_has_all_sessions(name: str, drawn: bool) -> None:
    rng = np.random.default_rng(1) if drawn else None
    sessions = np.array([5, 100, 1000, 0])
    by_rank, by_place = np.zeros((4, 7)), np.zeros((4, 7))
    for block in placements([settings_of(name)], LISTS, sessions, rng):
        assert np.all(block.sessions > 0)
        np.add.at(by_rank, (block.query, block.rank - 1), block.sessions)
        np.add.at(by_place, (block.query, block.place), block.sessions)
    expected = sessions[:, None] * (np.arange(7) < LENGTHS[:, None])
    np.testing.assert_allclose(by_rank, expected, atol=1e-9)
    np.testing.assert_allclose(by_place, expected, atol=1e-9)


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("lists", [LISTS, TOP])
def test_lists_drawn_one_by_one_have_the_probability(
    name: str, lists: RankedLists
) -> None:
    policy, n = settings_of(name), 20_000
    rng = np.random.default_rng(2)
    number = np.repeat(np.arange(len(LENGTHS)), n)
    place = one_list_each([policy], lists.at(number), rng)
    found = np.zeros((LENGTHS.sum(), lists.shown.max()))
    shown, rank = list_places(lists.shown[number])
    np.add.at(found, (STARTS[number[shown]] + place, rank), 1 / n)
    expected = probability([policy], lists)
    assert np.all(found[expected == 0] == 0)
    error = np.sqrt(expected * (1 - expected) / n)
    assert np.all(np.abs(found - expected) <= 4.5 * error + 1e-9)
    # Counts drawn at once have it as well.
    counts = np.zeros_like(found)
    for block in placements([policy], lists, np.full(4, n), rng):
        at = STARTS[block.query] + block.place, block.rank - 1
        np.add.at(counts, at, block.sessions / n)
    assert np.all(np.abs(counts - expected) <= 4.5 * error + 1e-9)


def by_enumeration(scores: Floats, depth: int) -> Floats:
    """Chances of ranks: the sum over all orders of the documents."""
    found, rates = np.zeros((len(scores), depth)), np.exp(scores)
    for order in permutations(range(len(scores))):
        chance = np.prod(
            [rates[d] / rates[list(order[i:])].sum() for i, d in enumerate(order)]
        )
        for rank in range(depth):
            found[order[rank], rank] += chance
    return found


@pytest.mark.parametrize("temperature", [0.1, 1.0, 3.0])
def test_plackett_luce_is_the_sum_over_all_orders(temperature: float) -> None:
    rng = np.random.default_rng(6)
    scores = np.sort(rng.normal(size=6))[::-1]
    lists = RankedLists(np.zeros(1, int), np.array([6]), np.array([4]), scores)
    found = probability([PlackettLuce(temperature=temperature)], lists)
    expected = by_enumeration(scores / temperature, 4)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # Two documents: the softmax.
    two = RankedLists(
        np.zeros(1, int), np.array([2]), np.array([1]), np.array([1.0, 0.0])
    )
    odds = np.exp([1 / temperature, 0.0])
    found = probability([PlackettLuce(temperature=temperature)], two)[:, 0]
    np.testing.assert_allclose(found, odds / odds.sum(), atol=1e-12)


def test_long_lists_are_sampled_and_every_document_has_a_chance() -> None:
    scores = np.random.default_rng(7).normal(size=6)
    found = plackett_luce.sampled_chances(scores, 3, samples=4000)
    expected = by_enumeration(scores, 3)
    np.testing.assert_allclose(found.sum(axis=0), 1.0)
    error = np.sqrt(
        expected * (1 - expected) / 4000
    )  # at most: lists give whole chances
    assert np.all(np.abs(found - expected) <= 4.5 * error)
    many = np.full((1, 3), 5.0)
    many[0, 2] = -600.0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plackett_luce, "MOST_TERMS", 0)
        np.testing.assert_allclose(
            plackett_luce.rank_chances(many, 2)[0],
            [[0.5, 0.5], [0.5, 0.5], [0.0, 0.0]],
            atol=0.06,
        )


def test_epsilon_swaps_are_the_written_out_shares() -> None:
    lists = RankedLists(np.zeros(1, int), np.array([4]), np.array([3]), np.zeros(4))
    found = probability([EpsilonSwap(share=0.5, epsilon=0.4)], lists)
    near = 0.5 * 0.4 / 2  # half of the sessions, one of two sets of pairs
    expected: Any = [[1 - near, near, 0], [near, 1 - 2 * near, near]]
    expected += [[0, near, 1 - 2 * near], [0, 0, near]]
    np.testing.assert_allclose(found, expected)


def test_a_team_draft_is_the_written_out_picks() -> None:
    # Ours: 0 1 2; theirs: 0 2 1. Both want 0 first; then each has its own.
    held = np.ones((1, 3), dtype=bool)
    group = ListBlock(held, np.array([3]), np.zeros((1, 3)), np.array([[0, 2, 1]]))
    expected: Any = [[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]
    np.testing.assert_allclose(TeamDraft().chances(group)[0], expected)
    alone = ListBlock(held, np.array([3]), np.zeros((1, 3)), None)
    with pytest.raises(ConfigError, match="second ranker"):
        TeamDraft().chances(alone)


def test_long_team_drafts_toss_some_coins() -> None:
    lists = RankedLists(np.zeros(1, int), np.array([24]), np.array([24]), np.zeros(24))
    lists = replace(lists, rival=np.arange(24)[::-1])
    found = probability([TeamDraft()], lists)
    np.testing.assert_allclose(found.sum(axis=0), 1.0)
    np.testing.assert_allclose(found[0, :2], [0.5, 0.5])  # coins and their opposites


@pytest.mark.parametrize(
    ("kind", "fault"),
    [(PlackettLuce, "temperature"), (EpsilonSwap, "epsilon")],
)
def test_settings_that_cannot_be_drawn_are_rejected(kind: Any, fault: str) -> None:
    with pytest.raises(ConfigError, match=f"{fault} must be .*got -1"):
        kind(**{fault: -1.0})


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
    blocks = list(placements([unchanged], LISTS, np.full(4, 9), rng))
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


@pytest.mark.parametrize("kind", [Swap, Rotate, PlackettLuce, EpsilonSwap, TeamDraft])
@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_is_from_0_to_1(kind: Any, share: float) -> None:
    with pytest.raises(ConfigError, match=f"got {share:g}"):
        kind(share=share)
