"""Differences by estimated users: gauge does not matter, refits are honest."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from affinerank.bias.documents import ClickRows
from affinerank.clicks.join import JoinedCounts
from affinerank.clicks.usermodel import UserModel
from affinerank.errors import ConfigError, DataError
from affinerank.evaluation.rank_weights import (
    RankWeights,
    centred,
    logged_weights,
    ranked_weights,
    shown_weights,
)
from affinerank.evaluation.refits import Held, Learnt, estimate_differences
from affinerank.metrics import Metric

from .conftest import USERS, World

DCG = RankWeights.of_metric(Metric("DCG", 4))
Draw = Callable[..., World]


def held_out(world: World, sessions: np.ndarray, joined: JoinedCounts) -> Held:
    number = sessions.astype(np.float64)
    new = shown_weights(world.new, joined, number, world.data, DCG)
    old = logged_weights(joined, number, world.data, DCG)
    shown = np.bincount(joined.doc, minlength=world.data.n_docs) > 0
    return Held(
        joined, world.data, centred(new - old, shown, world.data.query_of_doc)[None]
    )


def learnt(world: World, joined: JoinedCounts, method: str = "two-level") -> Learnt:
    counts = joined.counts
    rows = ClickRows(
        joined.doc,
        world.data.query_of_doc[joined.doc],
        counts.rank,
        counts.impressions.astype(np.float64),
        counts.clicks.astype(np.float64),
    )
    return Learnt(rows, None, method)


def in_gauge(users: UserModel, a: float, t: float) -> UserModel:
    return UserModel(
        alpha=a * users.alpha, beta=users.beta + t * users.alpha, identified="gauge"
    )


@pytest.mark.parametrize(("a", "t"), [(3.0, 0.0), (1.0, -0.4), (0.2, 5.0)])
def test_the_gauge_of_the_users_changes_nothing(
    draw_world: Draw, a: float, t: float
) -> None:
    rng = np.random.default_rng(0)
    world = draw_world(20, rng)
    sessions = rng.integers(5, 30, 20)
    held = held_out(world, sessions, world.log(sessions, rng))
    expected, _ = held.by_query(USERS)
    found, _ = held.by_query(in_gauge(USERS, a, t))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_both_intervals_hold_the_difference_and_rest_on_the_seed(
    draw_world: Draw,
) -> None:
    rng = np.random.default_rng(1)
    world = draw_world(80, rng)
    sessions = np.full(80, 300)
    joined = world.log(sessions, rng)
    held, source = held_out(world, sessions, joined), learnt(world, joined)
    one, again, apart = (
        estimate_differences(
            held,
            USERS,
            source,
            same=same,
            replicates=4,
            rng=np.random.default_rng(2),
        )[0]
        for same in (True, True, False)
    )
    assert one == again
    assert one.least == apart.least
    for found in (one, apart):
        assert found.sessions.low < found.least < found.sessions.high
        assert found.sessions.standard_error < found.queries.standard_error


def test_intervals_with_estimated_users_cover_as_often_as_they_say(
    draw_world: Draw,
) -> None:
    """Each log has users estimated from its own clicks; targets from relevance.

    Of 60 other logs 59 and 58 covered theirs.
    """
    mean_alpha = USERS.alpha.mean()  # differences are in clicks at an average rank

    def difference(world: World) -> float:
        change = ranked_weights(world.new, world.data, DCG)
        change -= ranked_weights(world.old, world.data, DCG)
        return float(mean_alpha * change @ world.relevance / world.data.n_queries)

    ahead = difference(draw_world(100_000, np.random.default_rng(5)))
    n, covered, off, error = 20, np.zeros(2), [], []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        world, sessions = draw_world(80, rng), np.full(80, 60)
        joined = world.log(sessions, rng)
        source = learnt(world, joined)
        first = source.fitted(rng).first
        assert first is not None
        found = estimate_differences(
            held_out(world, sessions, joined),
            first.users,
            source,
            same=True,
            replicates=5,
            rng=rng,
        )[0]
        for i, (interval, target) in enumerate(
            [(found.sessions, difference(world)), (found.queries, ahead)]
        ):
            covered[i] += interval.low <= target <= interval.high
        off.append(found.least - ahead)
        error.append(found.queries.standard_error)
    assert np.all(covered >= 0.95 * n - 3 * np.sqrt(0.95 * 0.05 * n))
    # Nor are they too wide: a root mean square of n is known to 1 / sqrt(2 n).
    spread = np.sqrt(np.mean(np.square(off)))
    assert np.sqrt(np.mean(np.square(error))) == pytest.approx(
        spread, rel=3 / np.sqrt(2 * n)
    )


def test_what_cannot_be_refitted_is_refused(draw_world: Draw) -> None:
    rng = np.random.default_rng(3)
    world = draw_world(30, rng)
    sessions = np.full(30, 2)
    joined = world.log(sessions, rng)
    held = held_out(world, sessions, joined)
    with pytest.raises(ConfigError, match="estimated by em, which is too slow"):
        learnt(world, joined, "em")
    with pytest.raises(ConfigError, match="2 replicates or more, got 1"):
        estimate_differences(held, USERS, learnt(world, joined), replicates=1, rng=rng)
    with pytest.raises(DataError, match="cannot be refitted to resamples"):
        estimate_differences(held, USERS, learnt(world, joined), rng=rng)


def test_half_of_the_queries_keeps_whole_queries(draw_world: Draw) -> None:
    rng = np.random.default_rng(4)
    world = draw_world(10, rng)
    source = learnt(world, world.log(np.full(10, 5), rng))
    chosen = np.arange(10) % 2 == 0
    kept = source.half(chosen).rows
    assert np.unique(kept.query).tolist() == [0, 2, 4, 6, 8]
    assert len(kept.doc) == 30
    again = replace(source).clicked_again(rng).rows
    assert np.all((again.clicks >= 0) & (again.clicks <= again.impressions))
