"""Values from clicks: exact expectations, written-out intervals, laws, coverage."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from affinerank.clicks.join import JoinedCounts
from affinerank.corrections import ESTIMATORS, affine, estimate_metric
from affinerank.evaluation.labels import DocumentLabels, label_documents
from affinerank.evaluation.offpolicy import (
    Estimate,
    Interval,
    decide,
    estimate,
    exposure,
)
from affinerank.evaluation.rank_weights import (
    RankWeights,
    logged_weights,
    ranked_weights,
)
from affinerank.metrics import Metric, dcg, ranks_by_score

from .conftest import USERS, World

DCG = RankWeights.of_metric(Metric("DCG", 4))
Draw = Callable[..., World]


def labelled(
    world: World, joined: JoinedCounts, name: str = "affine"
) -> DocumentLabels:
    return label_documents(joined, ESTIMATORS[name](joined.counts, USERS), world.data)


def test_expected_clicks_give_the_true_dcg(draw_world: Draw) -> None:
    """Unbiased in exact expectation: rates in the place of relative clicks."""
    rng = np.random.default_rng(0)
    world = draw_world(20, rng)
    joined = world.log(rng.integers(1, 9, 20), rng)
    labels = labelled(world, joined)
    rank = joined.counts.rank
    rate = USERS.click_probability(rank, world.relevance[joined.doc])
    alpha, beta = USERS.at(rank)
    expected = np.empty(world.data.n_docs)
    expected[joined.doc] = (rate - beta) / alpha
    labels = replace(labels, relevance=expected)
    weights = ranked_weights(world.new, world.data, DCG)
    found = estimate(labels, weights, world.data)
    true = dcg(world.new, world.relevance, world.data.offsets, cutoff=4)
    assert found.least == pytest.approx(labels.share @ true, rel=1e-12)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_the_value_is_that_of_estimate_metric(draw_world: Draw, name: str) -> None:
    rng = np.random.default_rng(1)
    world = draw_world(10, rng)
    joined = world.log(rng.integers(1, 50, 10), rng, depth=4)
    correction = ESTIMATORS[name](joined.counts, USERS)
    ranks = ranks_by_score(world.new, world.data.offsets)
    expected = estimate_metric(ranks, joined, correction, world.data, DCG.at)
    weights = ranked_weights(world.new, world.data, DCG)
    found = estimate(labelled(world, joined, name), weights, world.data)
    assert found.least == pytest.approx(expected, rel=1e-12)


def test_equal_queries_have_the_usual_interval_of_a_mean(draw_world: Draw) -> None:
    rng = np.random.default_rng(2)
    world = draw_world(12, rng)
    labels = labelled(world, world.log(np.full(12, 30), rng))
    weights = ranked_weights(world.new, world.data, DCG)
    found = estimate(labels, weights, world.data)
    by_query = labels.by_query(weights, world.data.query_of_doc)
    error = by_query.std(ddof=1) / np.sqrt(12)
    assert found.queries.standard_error == pytest.approx(error)
    assert found.queries.high - found.least == pytest.approx(2.200985 * error)  # t(11)
    noise = np.sum((weights / 12) ** 2 * labels.variance)
    assert found.sessions.standard_error == pytest.approx(np.sqrt(noise))
    assert found.sessions.high - found.least == pytest.approx(1.959964 * noise**0.5)


def test_one_query_says_nothing_of_others(draw_world: Draw) -> None:
    rng = np.random.default_rng(3)
    world = draw_world(1, rng)
    labels = labelled(world, world.log(np.array([50]), rng))
    found = estimate(labels, ranked_weights(world.new, world.data, DCG), world.data)
    assert np.isnan(found.queries.low)
    assert decide(found, 100).verdict == "undecided"
    assert decide(found, 100).clicks_needed is None


def test_bounds_take_unseen_documents_for_irrelevant_and_for_relevant(
    draw_world: Draw,
) -> None:
    rng = np.random.default_rng(4)
    world = draw_world(15, rng)
    labels = labelled(world, world.log(np.full(15, 40), rng, depth=3))
    weights = ranked_weights(world.new, world.data, DCG)
    point = estimate(labels, weights, world.data)
    found = estimate(labels, weights, world.data, bounds=True)
    unseen = weights[~labels.shown].sum() / 15
    assert not point.bounded
    assert found.bounded
    assert found.least == pytest.approx(point.least)
    assert found.most == pytest.approx(point.least + unseen)
    assert found.sessions.low == pytest.approx(point.sessions.low)
    assert found.sessions.high == pytest.approx(point.sessions.high + unseen)
    turned = estimate(labels, -weights, world.data, bounds=True)
    assert (turned.least, turned.most) == pytest.approx((-found.most, -found.least))


def test_the_order_of_queries_does_not_matter(draw_world: Draw) -> None:
    rng = np.random.default_rng(5)
    world = draw_world(9, rng)
    sessions = rng.integers(5, 50, 9)
    labels = labelled(world, world.log(sessions, rng))
    weights = ranked_weights(world.new, world.data, DCG)
    order = rng.permutation(9)
    rows = (6 * order[:, None] + np.arange(6)).reshape(-1)
    turned = DocumentLabels(
        labels.relevance[rows],
        labels.variance[rows],
        labels.standard_error[rows],
        labels.shown[rows],
        labels.impressions[rows],
        labels.clicks[rows],
        labels.share[order],
    )
    one = estimate(labels, weights, world.data)
    other = estimate(turned, weights[rows], world.data.select_queries(order))
    assert one.least == pytest.approx(other.least)
    assert one.queries.high == pytest.approx(other.queries.high)
    assert one.sessions.high == pytest.approx(other.sessions.high)


def test_a_ranking_does_not_differ_from_itself(draw_world: Draw) -> None:
    rng = np.random.default_rng(6)
    world = draw_world(8, rng)
    sessions = np.full(8, 20)
    joined = world.log(sessions, rng)
    logged = logged_weights(joined, sessions.astype(np.float64), world.data, DCG)
    same = ranked_weights(world.old, world.data, DCG)
    found = estimate(labelled(world, joined), same - logged, world.data)
    assert (found.least, found.sessions.low, found.queries.high) == (0, 0, 0)
    assert decide(found, 100).verdict == "undecided"


def test_effective_size_is_the_written_out_ratio(draw_world: Draw) -> None:
    rng = np.random.default_rng(7)
    world = draw_world(5, rng)
    joined = world.log(np.full(5, 10), rng)
    weights = ranked_weights(world.new, world.data, DCG)
    correction = affine(joined.counts, USERS)
    labels = labelled(world, joined)
    found = exposure(joined, correction, labels, weights, world.data)
    one = np.repeat(weights[joined.doc] / USERS.at(joined.counts.rank)[0], 10)
    one = np.sort(one[one > 0])[::-1]
    assert found.impressions == len(one)
    assert found.effective == pytest.approx(one.sum() ** 2 / (one**2).sum())
    few = 0.01 * len(one)
    top = one[: int(few)].sum() + (few - int(few)) * one[int(few)]
    assert found.top_share == pytest.approx(top / one.sum())
    nothing = exposure(joined, correction, labels, 0 * weights, world.data)
    assert nothing.impressions == 0


def test_equal_weights_lose_nothing(draw_world: Draw) -> None:
    rng = np.random.default_rng(8)
    world = draw_world(5, rng)
    joined = world.log(np.full(5, 10), rng)
    correction = ESTIMATORS["naive"](joined.counts, USERS)
    even = np.ones(world.data.n_docs)
    found = exposure(joined, correction, labelled(world, joined), even, world.data)
    assert found.effective == pytest.approx(5 * 6 * 10)
    assert found.top_share == pytest.approx(0.01)


def interval(low: float, high: float) -> Interval:
    return Interval(low, high, (high - low) / 4)


@pytest.mark.parametrize(
    ("least", "most", "low", "high", "verdict", "needed"),
    [
        (0.2, 0.2, 0.1, 0.3, "better", 1000 * (0.1 / 0.2) ** 2),
        (-0.2, -0.2, -0.3, -0.1, "worse", 1000 * (0.1 / 0.2) ** 2),
        (0.1, 0.1, -0.2, 0.4, "undecided", 1000 * (0.3 / 0.1) ** 2),
        (-0.1, -0.1, -0.4, 0.2, "undecided", 1000 * (0.3 / 0.1) ** 2),
        (0.0, 0.0, -0.1, 0.1, "undecided", None),
        (-0.1, 0.3, -0.2, 0.4, "undecided", None),  # bounds around 0: no clicks help
        (0.1, 0.3, -0.1, 0.4, "undecided", 1000 * (0.2 / 0.1) ** 2),
    ],
)
def test_decisions(
    least: float,
    most: float,
    low: float,
    high: float,
    verdict: str,
    needed: float | None,
) -> None:
    found = Estimate(least, most, interval(-9, 9), interval(low, high))
    decision = decide(found, 1000)
    assert decision.verdict == verdict
    assert decision.clicks_needed == pytest.approx(needed)


def test_both_intervals_cover_their_target_where_naive_and_ips_fail(
    draw_world: Draw,
) -> None:
    """60 logs with new queries each: 95 % +- 3 standard errors of the share."""
    logs, n_queries = 60, 40
    rng = np.random.default_rng(9)
    population = draw_world(20_000, rng)
    future = dcg(
        population.new, population.relevance, population.data.offsets, cutoff=4
    ).mean()
    covered: dict[str, list[tuple[bool, bool]]] = {}
    for _ in range(logs):
        world = draw_world(n_queries, rng)
        joined = world.log(rng.integers(20, 80, n_queries), rng)
        weights = ranked_weights(world.new, world.data, DCG)
        true = dcg(world.new, world.relevance, world.data.offsets, cutoff=4)
        for name in ("naive", "ips", "affine"):
            labels = labelled(world, joined, name)
            found = estimate(labels, weights, world.data)
            here = labels.share @ true
            hits = (
                bool(found.sessions.low <= here <= found.sessions.high),
                bool(found.queries.low <= future <= found.queries.high),
            )
            covered.setdefault(name, []).append(hits)
    allowed = 3 * np.sqrt(0.95 * 0.05 / logs)
    assert np.all(np.abs(np.mean(covered["affine"], axis=0) - 0.95) < allowed)
    for name in ("naive", "ips"):
        assert np.all(np.mean(covered[name], axis=0) < 0.5)
