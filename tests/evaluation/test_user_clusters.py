"""Intervals clustered by user: they cover where sessions of a user are alike."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.defaults import CORRECTION
from affinerank.estimators import Weights
from affinerank.evaluation.click_value import estimate
from affinerank.evaluation.user_clusters import UserClusters
from affinerank.pipeline.steps.weighing import weigh
from affinerank.support.arrays import Floats, Rng

QUERIES, DEPTH, CLICK_MODEL, BUCKETS = 8, 4, 200, 50
ALPHA, BETA = np.array([0.3, 0.2, 0.15, 0.1]), np.array([0.1, 0.05, 0.03, 0.01])
KNOWN = TrustModel(alpha=ALPHA, beta=BETA, identified="click-rates")
GIVEN = np.tile([-0.5, -0.1, 0.2, 0.4], QUERIES)  # the ranking turned round, say
RELEVANCE = np.random.default_rng(7).random((QUERIES, DEPTH))


def drawn(rng: Rng, alike: float, sessions: int = 20) -> ClickCounts:
    """Sessions of users, each of whom likes one half of the ranks more, if alike."""
    likes = rng.choice([-1.0, 1.0], CLICK_MODEL) * alike
    user = np.repeat(np.arange(CLICK_MODEL), sessions)
    query = rng.integers(0, QUERIES, len(user))
    taste = likes[user, None] * np.array([-1.0, -1.0, 1.0, 1.0])
    rate = ALPHA * RELEVANCE[query] + BETA
    clicks = rng.random(rate.shape) < rate * (1.0 + taste)
    key = (query[:, None] * DEPTH + np.arange(DEPTH)) * BUCKETS
    key = (key + (user % BUCKETS)[:, None]).ravel()
    n, c = (np.bincount(key, v.ravel()) for v in (np.ones_like(rate), clicks + 0.0))
    there = np.flatnonzero(n)
    cell, bucket = there // BUCKETS, there % BUCKETS
    return ClickCounts.from_columns(
        query_id=cell // DEPTH,
        doc_id=cell % DEPTH,
        rank=cell % DEPTH + 1,
        user_bucket=bucket.astype(str),
        impressions=n[there].astype(int),
        clicks=c[there].astype(int),
    )


def evaluated(counts: ClickCounts) -> tuple[ClickRows, Weights, UserClusters]:
    rows = join_counts(counts)
    clusters = UserClusters(join_counts(counts, by_user=True))
    return rows, weigh(rows, CORRECTION, KNOWN), clusters


def test_buckets_add_up_to_the_counts_without_them() -> None:
    counts = drawn(np.random.default_rng(0), 0.5)
    plain, by_user = join_counts(counts), join_counts(counts, by_user=True)
    merged = join_counts(counts.merged("user_bucket"))
    for name in ("doc", "rank", "impressions", "clicks", "sessions"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(merged, name))
    np.testing.assert_array_equal(
        by_user.by_doc(by_user.clicks), plain.by_doc(plain.clicks)
    )
    assert by_user.n_sessions == plain.n_sessions


def test_the_design_effect_is_the_written_out_ratio() -> None:
    """Two buckets, one document at two ranks; g = (1, 2)."""
    counts = ClickCounts.from_columns(
        query_id=["q"] * 4,
        doc_id=["a", "a", "b", "b"],
        rank=[1, 1, 2, 2],
        user_bucket=["0", "1"] * 2,
        impressions=[4, 6, 4, 6],
        clicks=[3, 2, 4, 1],
        sessions=[4, 6, 4, 6],
    )
    rows, clusters = (
        join_counts(counts),
        UserClusters(join_counts(counts, by_user=True)),
    )
    one = np.ones(2)
    weights = Weights(0 * one, one > 0, one[:1], one, slope=one)
    # Click rates are .5 and .5; v = .25 * 10 / 9 each.
    r = [1 * (3 - 2) + 2 * (4 - 2), 1 * (2 - 3) + 2 * (1 - 3)]
    alone = (1 + 4) * 0.25 * 10 / 9 * (10 - (16 + 36) / 10)
    effect, across = clusters.effects(rows, weights, np.array([1.0, 2.0]))
    assert effect == pytest.approx((r[0] ** 2 + r[1] ** 2) / alone)
    assert across == 0  # there is one query


@pytest.mark.parametrize("alike", [0.0, 0.6])
def test_clustered_intervals_cover_where_others_do_not(alike: float) -> None:
    rng, runs = np.random.default_rng(1), 300
    covered: dict[str, list[bool]] = {"sessions": [], "users": []}
    effects: list[Any] = []
    for _ in range(runs):
        rows, weights, clusters = evaluated(drawn(rng, alike))
        truth = float(rows.share @ (RELEVANCE @ GIVEN[:DEPTH]))
        plain = estimate(weights, GIVEN, rows.query_of_doc)
        wide = clusters.widen(plain, rows, weights, GIVEN)
        effects.append(clusters.effects(rows, weights, GIVEN))
        for name, found in (("sessions", plain), ("users", wide)):
            covered[name].append(found.sessions.low < truth < found.sessions.high)
    low, high = stats.binom.ppf([0.001, 0.999], runs, 0.95)
    assert low <= sum(covered["users"]) <= high
    mean: Floats = np.mean(effects, axis=0)
    if alike:
        assert sum(covered["sessions"]) < low
        assert mean[0] > 2
        assert 0.5 * mean[0] < mean[1] < mean[0]  # most of it is across queries
    else:
        assert low <= sum(covered["sessions"]) <= high
        assert mean[0] == pytest.approx(1, abs=4 * np.sqrt(2 / BUCKETS / runs))
