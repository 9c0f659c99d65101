"""The test for trust bias: it finds what is there, and is calibrated where not."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logit
from tests.bias.logs import population

from affinerank.bias.mixture.comparison import (
    as_far_as_known,
    best_model,
    compare_models,
    test_for_trust,
)
from affinerank.bias.mixture.fit import first_guess
from affinerank.bias.mixture.population import MixtureDocuments, population_of
from affinerank.bias.mixture.search import aligned_fit
from affinerank.bias.mixture.trust_test import TrustTest, trust_test
from affinerank.bias.pooling import RankPools, pool_cells
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats

# Not a test of its own.
test_for_trust.__test__ = False  # type: ignore[attr-defined]

DrawLog = Callable[..., tuple[ClickRows, Floats]]

PLUS = np.array([0.9, 0.6, 0.45, 0.3])
TRUSTING = np.array([0.6, 0.2, 0.1, 0.03])


def result_of(rows: ClickRows) -> TrustTest:
    """The test of a log, which must agree with the table that it is a row of."""
    cells = pool_cells(rows, RankPools(np.arange(4), np.ones(4)), 0)
    documents = population_of(rows, cells)
    fit = aligned_fit(documents, first_guess(documents))
    table = compare_models(documents, cells, fit.levels, np.random.default_rng(0))
    test = test_for_trust(table)
    assert test is not None
    position, trust = table[1:3]
    assert trust.clear is test.found
    assert (best_model(table) is trust) is test.found
    difference = trust.log_likelihood - position.log_likelihood
    assert test.lead == pytest.approx(difference, abs=1e-12)
    if position.clear:
        assert (trust.lead, trust.lead_error) == (test.lead, test.lead_error)
    if test.lead > 2 * test.lead_error:
        assert test.found
    return test


@pytest.mark.parametrize("seed", range(5))
def test_strong_trust_bias_is_found(draw_log: DrawLog, seed: int) -> None:
    test = result_of(draw_log(PLUS, TRUSTING, queries=100, seed=seed)[0])
    assert test.found
    assert test.p < 1e-3
    assert test.p == pytest.approx(stats.t.sf(test.statistic, 99))
    assert test.lead > 2 * test.lead_error > 0
    assert test.n_queries == 100


def test_without_trust_bias_the_statistic_is_standard_normal(
    draw_log: DrawLog,
) -> None:
    """Relevant documents are clicked three times as often at every rank."""
    statistics = np.array(
        [
            result_of(draw_log(PLUS, PLUS / 3, seed=seed, impressions=60)[0]).statistic
            for seed in range(40)
        ]
    )
    assert np.all(np.isfinite(statistics))
    # Chi-squared with 40 degrees of freedom, 99.9 % on each side.
    assert 18 / 40 < np.mean(statistics**2) < 73.4 / 40
    assert abs(statistics.mean()) < 3.3 / np.sqrt(40)


def test_a_relevance_that_depends_on_rank_is_not_taken_for_trust(
    draw_log: DrawLog,
) -> None:
    """Position bias with no clicks on the irrelevant but by accident, thirty times."""
    shares = {"shares": (0.5, 0.5)}
    is_found = [
        result_of(
            draw_log(PLUS, PLUS / 8, seed=seed, impressions=15, **shares)[0]
        ).found
        for seed in range(30)
    ]
    # Of 30 at 5 %, 6 or more have a probability of 0.3 %.
    assert sum(is_found) < 6


def thirty_queries(clicks: Floats) -> MixtureDocuments:
    """A document per query, shown ten times at the one rank there is."""
    query = np.arange(30)
    first = np.arange(31)
    rows = np.zeros(30, dtype=np.int64), np.full(30, 10.0), clicks
    return population(query, first, *rows, [1.0])


def test_the_statistic_is_what_its_formula_says() -> None:
    """Half of the queries have 6 clicks of 10, the others 3; position expects 4."""
    clicks = np.where(np.arange(30) % 2 == 0, 6.0, 3.0)
    held = thirty_queries(clicks)
    test = trust_test(held, np.full(30, 0.4), np.full(30, 0.5), is_behind=False)
    assert test is not None
    added = np.log(1.0) - np.log(0.4 / 0.6)
    slope = (clicks - 4.0) * added
    # 15 x 2 - 15 x 1 = 15; queries deviate from their mean by 1.5 each.
    clustered = np.sqrt(30 * 1.5**2 * 30 / 29) * added
    binomial = np.sqrt(30 * 10 * 0.4 * 0.6) * added
    assert slope.sum() == pytest.approx(15 * added)
    assert binomial > clustered  # so the larger one counts
    assert test.statistic == pytest.approx(15 * added / binomial)
    assert test.p == pytest.approx(stats.t.sf(15 / np.sqrt(72), 29))
    won = clicks * np.log(0.5 / 0.4) + (10 - clicks) * np.log(0.5 / 0.6)
    assert test.lead == pytest.approx(won.sum() / 300)


def test_clicks_that_vary_by_query_count_less() -> None:
    """10 of 10 or none: the queries, not the clicks, are what was drawn."""
    clicks = np.where(np.arange(30) < 20, 10.0, 0.0)
    held = thirty_queries(clicks)
    test = trust_test(held, np.full(30, 0.4), np.full(30, 0.5), is_behind=False)
    assert test is not None
    excess = clicks - 4.0
    expected = excess.sum() / (excess.std(ddof=1) * np.sqrt(30))
    assert test.statistic == pytest.approx(expected)


def test_what_does_not_predict_better_is_not_found() -> None:
    held = thirty_queries(np.full(30, 6.0))
    position, trust = np.full(30, 0.4), np.full(30, 0.5)
    one, other = (
        trust_test(held, position, trust, is_behind=is_behind)
        for is_behind in (False, True)
    )
    assert one is not None
    assert other is not None
    assert (one.found, other.found) == (True, False)
    assert replace(one, found=False, p=1.0) == other
    # Clicks above position bias, but far below what trust bias expects.
    far = trust_test(held, position, np.full(30, 0.95), is_behind=False)
    assert far is not None
    assert stats.t.sf(far.statistic, 29) < 0.05
    assert far.lead < 0
    assert (far.found, far.p) == (False, 1.0)


def test_two_models_that_are_one_are_no_evidence() -> None:
    """A thousandth in log odds, of 300 impressions at .4: .008 standard errors."""
    held = thirty_queries(np.full(30, 9.0))
    rate = np.full(30, 0.4)
    same = as_far_as_known(held, rate, 1 / (1 + np.exp(-(logit(rate) + 0.001))))
    assert same is rate
    test = trust_test(held, rate, same, is_behind=False)
    assert test is not None
    assert (test.statistic, test.p, test.found) == (0.0, 1.0, False)
    assert (test.lead, test.lead_error) == (0.0, 0.0)


def test_few_clicked_queries_are_no_test() -> None:
    rates = np.full(30, 0.4), np.full(30, 0.5)
    clicked = np.where(np.arange(30) < 20, 5.0, 0.0)
    assert trust_test(thirty_queries(clicked), *rates, is_behind=False) is not None
    clicked[0] = 0.0
    assert trust_test(thirty_queries(clicked), *rates, is_behind=False) is None


def test_trust_is_taken_as_far_as_it_is_known() -> None:
    """Of k ratios, D squared standard errors: a share of 1 - k / D, at least 1 / √D."""
    documents = thirty_queries(np.full(30, 4.0))
    position = np.full(30, 0.4)

    def share(added: float, n_pools: int) -> float:
        seen = replace(documents, rank_of=np.zeros(n_pools, dtype=np.int64))
        trust = 1 / (1 + np.exp(-(logit(position) + added)))
        rate = as_far_as_known(seen, position, trust)
        return float((logit(rate) - logit(position))[0] / added)

    # 300 impressions at .4: D = 300 x .24 x added^2.
    assert share(1.0, 10) == pytest.approx(1 - 9 / 72)
    assert share(0.5, 10) == pytest.approx(1 - 9 / 18)
    assert share(0.25, 10) == pytest.approx(1 / np.sqrt(4.5))
    assert share(0.05, 10) == pytest.approx(1.0)
