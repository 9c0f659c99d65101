"""The test for trust bias: it finds what is there, and is calibrated where not."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from affinerank.arrays import Floats
from affinerank.bias.mixture.fit import first_guess, fit_levels
from affinerank.bias.mixture.population import Population, population_of
from affinerank.bias.pooling import RankPools, pool_cells
from affinerank.bias.trust_test import TrustTest, trust_test
from affinerank.clicks.rows import ClickRows

DrawLog = Callable[..., tuple[ClickRows, Floats]]

PLUS = np.array([0.9, 0.6, 0.45, 0.3])
TRUSTING = np.array([0.6, 0.2, 0.1, 0.03])


def people_of(rows: ClickRows) -> Population:
    people = population_of(
        rows, pool_cells(rows, RankPools(np.arange(4), np.ones(4)), 0)
    )
    return replace(people, half=people.query % 2)


def result_of(rows: ClickRows) -> TrustTest:
    people = people_of(rows)
    fit = fit_levels(people, first_guess(people))
    found = trust_test(people, fit)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(5))
def test_strong_trust_bias_is_found(draw_log: DrawLog, seed: int) -> None:
    found = result_of(draw_log(PLUS, TRUSTING, queries=100, seed=seed)[0])
    assert found.found
    assert found.p < 1e-3
    assert found.p == pytest.approx(stats.t.sf(found.statistic, 49))
    assert found.gain > 2 * found.gain_error > 0
    assert found.n_queries == 50
    assert found.held_out < 0


def test_without_trust_bias_the_statistic_is_standard_normal(
    draw_log: DrawLog,
) -> None:
    """Relevant documents are clicked three times as often at every rank."""
    found = np.array(
        [
            result_of(draw_log(PLUS, PLUS / 3, seed=seed, impressions=20)[0]).statistic
            for seed in range(30)
        ]
    )
    assert np.all(np.isfinite(found))
    assert 0.6 < found.std(ddof=1) < 1.5
    assert abs(found.mean()) < 3 * found.std(ddof=1) / np.sqrt(len(found))


def test_a_relevance_that_depends_on_rank_is_not_taken_for_trust(
    draw_log: DrawLog,
) -> None:
    """Position bias with no clicks on the irrelevant but by accident, again thirty."""
    shares = {"shares": (0.5, 0.5)}
    found = [
        result_of(
            draw_log(PLUS, PLUS / 8, seed=seed, impressions=15, **shares)[0]
        ).found
        for seed in range(30)
    ]
    # Of 30 at 5 %, 6 or more have a probability of 0.3 %.
    assert sum(found) < 6


def test_only_the_other_half_judges(draw_log: DrawLog) -> None:
    """Queries of half 0 decide on the way, and do not judge."""
    rows, _ = draw_log(PLUS, TRUSTING)
    people = people_of(rows)
    fit = fit_levels(people, first_guess(people))
    found = trust_test(replace(people, half=people.query // 40), fit)
    assert found is not None
    assert found.n_queries == 20
    # Too few to judge, or too few to learn from: no test at all.
    few = people.query // 41
    assert trust_test(replace(people, half=few), fit) is None
    assert trust_test(replace(people, half=1 - few), fit) is None
