"""Values from clicks: exact expectations, written-out intervals, laws, coverage."""

from collections.abc import Callable
from dataclasses import replace
from math import log2

import numpy as np
import pytest

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators import ESTIMATORS, Weights, affine, ips, naive
from affinerank.evaluation.click_value import (
    Decision,
    Exposure,
    Interval,
    ValueEstimate,
    by_query,
    decide,
    estimate,
    exposure,
    unknown_share,
)
from affinerank.evaluation.metrics import Metric
from affinerank.evaluation.rank_weights import (
    RankWeights,
    logged_weights,
    ranked_weights,
)
from affinerank.pipeline.steps.weighing import learns_of, weigh
from affinerank.support.errors import DataError

from .conftest import CLICK_MODEL, World

DCG_4 = Metric("DCG", 4)
DCG = RankWeights.of_metric(DCG_4)
AFFINE = affine.ROW.name
Draw = Callable[..., World]


def test_expected_clicks_give_the_true_dcg(draw_world: Draw) -> None:
    """Unbiased in exact expectation: rates in the place of relative clicks."""
    rng = np.random.default_rng(0)
    world = draw_world(20, rng)
    rows = world.log(rng.integers(1, 9, 20), rng)
    rate = CLICK_MODEL.click_probability(rows.rank, world.relevance[rows.doc])
    rows = replace(rows, clicks=rate * rows.impressions)
    found = estimate(
        weigh(rows, AFFINE, CLICK_MODEL),
        ranked_weights(world.new, rows, DCG),
        world.query,
    )
    true = DCG_4(world.new, world.relevance, world.offsets).values
    assert found.least == pytest.approx(rows.share @ true, rel=1e-12)


def test_with_full_lists_the_estimate_is_the_papers_sum_over_interactions() -> None:
    rng = np.random.default_rng(3)
    click_model = TrustModel.paper(depth=4)
    clicks = rng.random((50, 4)) < 0.4
    ranks, total = np.array([3, 1, 4, 2]), 0.0
    for row in clicks:  # one interaction: document d is shown at rank d + 1
        for d in range(4):
            total += (
                (row[d] - click_model.beta[d])
                / click_model.alpha[d]
                / log2(ranks[d] + 1)
            )
    rows = ClickRows(
        doc=np.arange(4),
        rank=np.arange(1, 5),
        context=np.zeros(4, dtype=np.int64),
        impressions=np.full(4, 50.0),
        clicks=clicks.sum(axis=0).astype(np.float64),
        query_of_doc=np.zeros(4, dtype=np.int64),
        sessions=np.array([50.0]),
    )
    given = ranked_weights(-ranks, rows, RankWeights.of_metric(Metric("DCG")))
    found = estimate(weigh(rows, AFFINE, click_model), given, rows.query_of_doc)
    assert found.least == pytest.approx(total / 50)


def test_a_document_that_was_shown_less_often_does_not_count_less() -> None:
    """Where the paper's sum over interactions would: 80 sessions show a, 20 show b."""
    click_model, relevance = TrustModel.paper(depth=1), np.array([0.3, 0.9])
    shown = np.array([80.0, 20.0])
    rows = ClickRows(
        doc=np.array([0, 1]),
        rank=np.array([1, 1]),
        context=np.array([0, 0]),
        impressions=shown,
        clicks=shown * click_model.click_probability([1, 1], relevance),
        query_of_doc=np.array([0, 0]),
        sessions=np.array([100.0]),
    )
    given = np.array([1 / log2(3), 1.0])
    found = estimate(weigh(rows, AFFINE, click_model), given, rows.query_of_doc)
    assert found.least == pytest.approx(0.3 / log2(3) + 0.9)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, row in ESTIMATORS.items()
        if row.needs != "labels" and not learns_of(name)
    ],
)
def test_the_value_is_the_written_out_sum(draw_world: Draw, name: str) -> None:
    rng = np.random.default_rng(1)
    world = draw_world(10, rng)
    rows = world.log(rng.integers(1, 50, 10), rng, depth=4)
    weights, given = (
        weigh(rows, name, CLICK_MODEL),
        ranked_weights(world.new, rows, DCG),
    )
    total = 0.0
    for doc in np.flatnonzero(weights.known):
        share = rows.sessions[world.query[doc]] / rows.sessions.sum()
        total += share * weights.weight[doc] * given[doc]
    found = estimate(weights, given, world.query)
    assert found.least == pytest.approx(total, rel=1e-12)


def test_equal_queries_have_the_usual_interval_of_a_mean(draw_world: Draw) -> None:
    rng = np.random.default_rng(2)
    world = draw_world(12, rng)
    rows = world.log(np.full(12, 30), rng)
    weights, given = (
        weigh(rows, AFFINE, CLICK_MODEL),
        ranked_weights(world.new, rows, DCG),
    )
    found = estimate(weights, given, world.query)
    values = by_query(weights, given, world.query)
    error = values.std(ddof=1) / np.sqrt(12)
    assert found.queries.standard_error == pytest.approx(error)
    assert found.queries.high - found.least == pytest.approx(2.200985 * error)  # t(11)
    noise = np.sum((given / 12) ** 2 * weights.variance)
    assert found.sessions.standard_error == pytest.approx(np.sqrt(noise))
    assert found.sessions.high - found.least == pytest.approx(1.959964 * noise**0.5)


def test_one_query_says_nothing_of_others(draw_world: Draw) -> None:
    rng = np.random.default_rng(3)
    world = draw_world(1, rng)
    rows = world.log(np.array([50]), rng)
    given = ranked_weights(world.new, rows, DCG)
    found = estimate(weigh(rows, AFFINE, CLICK_MODEL), given, world.query)
    assert np.isnan(found.queries.low)
    assert decide(found, 100).verdict == "undecided"
    assert decide(found, 100).clicks_needed is None


def test_bounds_take_unseen_documents_for_irrelevant_and_for_relevant(
    draw_world: Draw,
) -> None:
    rng = np.random.default_rng(4)
    world = draw_world(15, rng)
    rows = world.log(np.full(15, 40), rng, depth=3)
    weights, given = (
        weigh(rows, AFFINE, CLICK_MODEL),
        ranked_weights(world.new, rows, DCG),
    )
    point = estimate(weights, given, world.query)
    found = estimate(weights, given, world.query, bounds=True)
    unseen = given[~weights.known].sum() / 15
    assert not point.bounded
    assert found.bounded
    assert found.least == pytest.approx(point.least)
    assert found.most == pytest.approx(point.least + unseen)
    assert found.sessions.low == pytest.approx(point.sessions.low)
    assert found.sessions.high == pytest.approx(point.sessions.high + unseen)
    turned = estimate(weights, -given, world.query, bounds=True)
    assert (turned.least, turned.most) == pytest.approx((-found.most, -found.least))
    assert list(found.to_dict())[:3] == ["least", "most", "bounds"]
    assert point.to_dict()["estimate"] == point.least


def test_the_order_of_queries_does_not_matter(draw_world: Draw) -> None:
    rng = np.random.default_rng(5)
    world = draw_world(9, rng)
    rows = world.log(rng.integers(5, 50, 9), rng)
    order = rng.permutation(9)
    docs = (6 * order[:, None] + np.arange(6)).reshape(-1)
    turned = rows.renumbered(docs, order)
    one, other = (
        estimate(
            weigh(log, AFFINE, CLICK_MODEL),
            ranked_weights(new, log, DCG),
            log.query_of_doc,
        )
        for log, new in ((rows, world.new), (turned, world.new[docs]))
    )
    assert one.least == pytest.approx(other.least)
    assert one.queries.high == pytest.approx(other.queries.high)
    assert one.sessions.high == pytest.approx(other.sessions.high)


def test_a_ranking_does_not_differ_from_itself(draw_world: Draw) -> None:
    """Not even by rounding, which would decide: all of its intervals are tiny."""
    rng = np.random.default_rng(6)
    world = draw_world(80, rng)
    rows = world.log(rng.integers(3, 60, 80), rng)
    same = ranked_weights(world.old, rows, DCG) - logged_weights(rows, DCG)
    found = estimate(weigh(rows, AFFINE, CLICK_MODEL), same, world.query)
    assert (found.least, found.sessions.low, found.queries.high) == (0, 0, 0)
    assert decide(found, 100) == Decision("undecided", 100, None)


def test_weight_on_documents_never_shown_is_counted_by_sessions() -> None:
    known = np.array([True, True, False, True, True])
    query, nothing = np.array([0, 0, 0, 1, 1]), np.zeros(5)
    weights = Weights(nothing, known, np.array([0.25, 0.75]), nothing)
    given = np.array([1.0, 0.0, 1.0, 1.0, 0.0])
    share = unknown_share(weights, given, query)
    assert share == pytest.approx(0.25 / (0.25 * 2 + 0.75))
    with pytest.raises(DataError, match="no weight to any document"):
        unknown_share(weights, nothing, query)


def test_effective_size_is_the_written_out_ratio(draw_world: Draw) -> None:
    rng = np.random.default_rng(7)
    world = draw_world(5, rng)
    rows = world.log(np.full(5, 10), rng)
    weights, given = (
        weigh(rows, AFFINE, CLICK_MODEL),
        ranked_weights(world.new, rows, DCG),
    )
    found = exposure(rows, weights, given)
    one = np.repeat(given[rows.doc] / CLICK_MODEL.at(rows)[0], 10)
    one = np.sort(one[one > 0])[::-1]
    assert found.impressions == len(one)
    assert found.effective_impressions == pytest.approx(one.sum() ** 2 / (one**2).sum())
    few = 0.01 * len(one)
    top = one[: int(few)].sum() + (few - int(few)) * one[int(few)]
    assert found.top_percent_share == pytest.approx(top / one.sum())
    assert exposure(rows, weights, 0 * given).impressions == 0
    bent = exposure(rows, replace(weights, slope=None), given)
    assert bent == Exposure()


def test_equal_weights_lose_nothing(draw_world: Draw) -> None:
    rng = np.random.default_rng(8)
    rows = draw_world(5, rng).log(np.full(5, 10), rng)
    found = exposure(rows, weigh(rows, naive.ROW.name), np.ones(rows.n_docs))
    assert found.effective_impressions == pytest.approx(5 * 6 * 10)
    assert found.top_percent_share == pytest.approx(0.01)


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
    found = ValueEstimate(least, most, interval(-9, 9), interval(low, high))
    decision = decide(found, 1000)
    assert decision.verdict == verdict
    assert decision.clicks_needed == pytest.approx(needed)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ((0.1, 0.3), (-0.3, -0.1), "cannot be decided"),
        ((-0.3, -0.1), (0.1, 0.3), "cannot be decided"),
        ((0.1, 0.3), (-0.3, 0.1), "better"),  # the second does not know
        ((0.1, 0.3), (0.2, 0.3), "better"),
        ((-0.1, 0.3), (-0.3, -0.1), "undecided"),  # the first does not
    ],
)
def test_judges_that_clearly_disagree_decide_nothing(
    first: tuple[float, float], second: tuple[float, float], verdict: str
) -> None:
    one, other = (
        ValueEstimate(sum(ends) / 2, sum(ends) / 2, interval(-9, 9), interval(*ends))
        for ends in (first, second)
    )
    assert decide(one, 1000, other).verdict == verdict


def test_both_intervals_cover_their_target_where_naive_and_ips_fail(
    draw_world: Draw,
) -> None:
    """60 logs with new queries each: 95 % +- 3 standard errors of the share."""
    logs, n_queries = 60, 40
    rng = np.random.default_rng(9)
    population = draw_world(20_000, rng)
    future = DCG_4(
        population.new, population.relevance, population.offsets
    ).values.mean()
    covered: dict[str, list[tuple[bool, bool]]] = {}
    for _ in range(logs):
        world = draw_world(n_queries, rng)
        rows = world.log(rng.integers(20, 80, n_queries), rng)
        given = ranked_weights(world.new, rows, DCG)
        true = DCG_4(world.new, world.relevance, world.offsets).values
        for row in (naive.ROW, ips.ROW, affine.ROW):
            found = estimate(weigh(rows, row.name, CLICK_MODEL), given, world.query)
            here = rows.share @ true
            hits = (
                bool(found.sessions.low <= here <= found.sessions.high),
                bool(found.queries.low <= future <= found.queries.high),
            )
            covered.setdefault(row.name, []).append(hits)
    allowed = 3 * np.sqrt(0.95 * 0.05 / logs)
    assert np.all(np.abs(np.mean(covered[AFFINE], axis=0) - 0.95) < allowed)
    for row in (naive.ROW, ips.ROW):
        assert np.all(np.mean(covered[row.name], axis=0) < 0.5)
