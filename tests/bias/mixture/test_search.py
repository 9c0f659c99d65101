"""The search for levels: how many, where, and how it leaves wrong turns."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.bias.logs import population

from affinerank.bias.mixture.fit import (
    first_guess,
    fit_levels,
    objective,
    one_step,
)
from affinerank.bias.mixture.levels import Levels
from affinerank.bias.mixture.population import MixtureDocuments, population_of
from affinerank.bias.mixture.search import (
    added_level,
    aligned_fit,
    choose_levels,
    realigned,
    refine_levels,
    with_closest_merged,
    without_idle_levels,
)
from affinerank.bias.pooling import RankPools, pool_cells
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats

DrawLog = Callable[..., tuple[ClickRows, Floats]]

PLUS, MINUS = [0.8, 0.6, 0.5, 0.4], [0.3, 0.2, 0.1, 0.06]


def people_of(rows: ClickRows, depth: int = 4) -> MixtureDocuments:
    return population_of(
        rows, pool_cells(rows, RankPools(np.arange(depth), np.ones(depth)), 0)
    )


def chosen(people: MixtureDocuments, most: int = 7) -> Levels:
    halves = replace(people, half=people.query % 2).halves()
    return choose_levels(*halves, most, np.random.default_rng(0))


@pytest.mark.parametrize("seed", range(3))
def test_of_two_levels_two_are_chosen(draw_log: DrawLog, seed: int) -> None:
    people = people_of(draw_log(PLUS, MINUS, seed=seed, impressions=60)[0])
    found = chosen(people)
    assert found.levels.tolist() == [0.0, 1.0]
    # 60 impressions of about 20 documents and more: 0.03 is two standard errors
    np.testing.assert_allclose(found.zeta_plus, PLUS, atol=0.06)
    np.testing.assert_allclose(found.zeta_minus, MINUS, atol=0.06)


THREE = {"levels": (0.0, 0.4, 1.0), "shares": (0.5, 0.3, 0.2)}


@pytest.mark.parametrize("seed", range(2))
def test_of_three_well_separated_levels_three_are_found_where_they_are(
    draw_log: DrawLog, seed: int
) -> None:
    rows, _ = draw_log(PLUS, MINUS, queries=150, impressions=300, seed=seed, **THREE)
    found = refine_levels(people_of(rows), chosen(people_of(rows))).levels
    np.testing.assert_allclose(found.levels, [0, 0.4, 1], atol=0.02)
    np.testing.assert_allclose(found.zeta_plus, PLUS, atol=0.03)
    np.testing.assert_allclose(found.zeta_minus, MINUS, atol=0.02)


def test_no_more_levels_than_asked_for(draw_log: DrawLog) -> None:
    rows, _ = draw_log(PLUS, MINUS, queries=150, impressions=300, **THREE)
    assert len(chosen(people_of(rows), most=2).levels) == 2


def known(people: MixtureDocuments, plus: Floats, minus: Floats) -> Levels:
    """Two levels at given click rates, half of the documents each."""
    ratio = np.log(plus / minus)
    return Levels(
        plus,
        ratio,
        np.array([0.0, 1.0]),
        np.array([0.0, 0.0]),
        np.zeros(people.basis.shape[1]),
        np.zeros(len(plus)),
        float(ratio.mean()),
    )


def test_a_level_above_the_highest_is_found_and_moves_one(draw_log: DrawLog) -> None:
    """Documents are of 0, 0.5 and 1; what is known are the lower two."""
    levels = {"levels": (0.0, 0.5, 1.0), "shares": (0.4, 0.4, 0.2)}
    rows, _ = draw_log(PLUS, MINUS, impressions=300, **levels)
    people = people_of(rows)
    plus, minus = np.array(PLUS), np.array(MINUS)
    middle = (plus + minus) / 2
    found = added_level(people, known(people, middle, minus))
    # In its units the missing level is at 2, beyond the last candidate, 1.6: the search
    # goes as far as it may, and 1 is there now.
    assert found.levels[0] == 0
    assert found.levels[2] == 1
    assert found.levels[1] == pytest.approx(1 / 1.6, abs=0.1)
    assert np.all(found.zeta_plus > middle)
    np.testing.assert_allclose(found.zeta_minus, minus)
    again = fit_levels(people, found).levels
    np.testing.assert_allclose(again.levels, [0, 0.5, 1], atol=0.03)
    np.testing.assert_allclose(again.zeta_plus, plus, atol=0.05)


def test_a_level_below_the_lowest_is_found_and_moves_zero(draw_log: DrawLog) -> None:
    levels = {"levels": (0.0, 0.2, 1.0), "shares": (0.4, 0.4, 0.2)}
    plus, minus = np.array([0.8, 0.7, 0.6, 0.6]), np.array([0.4, 0.3, 0.2, 0.2])
    people = people_of(draw_log(plus, minus, impressions=30, **levels)[0])
    above = minus + 0.2 * (plus - minus)
    found = added_level(people, known(people, plus, above))
    # The level missed most lies beyond the lowest by as much as the search looks, or
    # less; 0 is there now, and a fit puts it where it is.
    assert 0.1 < found.levels[1] <= 0.5 / 1.5 + 1e-9
    assert np.all(found.zeta_minus < above - 0.03)
    np.testing.assert_allclose(found.zeta_plus, plus)
    again = fit_levels(people, found).levels
    np.testing.assert_allclose(again.levels, [0, 0.2, 1], atol=0.1)
    np.testing.assert_allclose(again.zeta_minus, minus, atol=0.06)


def test_a_new_level_leaves_the_others_their_shares(draw_log: DrawLog) -> None:
    rows, relevance = draw_log(PLUS, MINUS, impressions=30, **THREE)
    people = people_of(rows)
    start = known(people, np.array(PLUS), np.array(MINUS))
    found = added_level(people, start)
    assert found.levels[1] == pytest.approx(0.4, abs=0.1)
    shares = np.exp(found.log_shares(people))[people.cell].mean(axis=0)
    assert shares[1] == pytest.approx(0.03, abs=0.001)
    assert shares[2] > np.mean(relevance == 1) * 0.97 - 0.01


def test_one_rank_that_is_off_by_a_level_is_put_right(draw_log: DrawLog) -> None:
    """At rank 2 the levels 0, 1/2, 1 were taken for 1/2, 1, 3/2 of the others."""
    levels = {"levels": (0.0, 0.5, 1.0), "shares": (0.3, 0.4, 0.3)}
    rows, _ = draw_log(PLUS, MINUS, queries=100, impressions=200, **levels)
    people = people_of(rows)
    right = replace(
        known(people, np.array(PLUS), np.array(MINUS)),
        levels=np.array([0.0, 0.5, 1.0]),
        share=np.zeros(3),
    )
    plus, minus = np.array(PLUS), np.array(MINUS)
    half = (plus - minus)[1] / 2
    plus[1], minus[1] = plus[1] - half, minus[1] - half + 0.01
    shifted = replace(right, zeta_plus=plus, log_ratio=np.log(plus / minus))
    found = realigned(people, shifted)
    np.testing.assert_allclose(found.zeta_plus, PLUS, atol=0.02)
    np.testing.assert_allclose(found.zeta_minus, MINUS, atol=0.02)
    assert realigned(people, right) is right
    best = aligned_fit(people, right)
    found_fit = aligned_fit(people, shifted)
    assert found_fit.objective == pytest.approx(best.objective, abs=0.5)


def test_letting_in_more_and_more_ends_where_all_clicks_are(draw_log: DrawLog) -> None:
    """A document of 20,000 impressions is let in by 400, 1,600 and 6,400 first."""
    rows, _ = draw_log(PLUS, MINUS, queries=40, impressions=20_000)
    people = people_of(rows)
    fit = refine_levels(people, first_guess(people))
    np.testing.assert_allclose(fit.levels.zeta_plus, PLUS, atol=0.004)
    np.testing.assert_allclose(fit.levels.zeta_minus, MINUS, atol=0.004)


def test_levels_that_clicks_do_not_need_are_left_out(draw_log: DrawLog) -> None:
    """Two levels, fitted by four: two stand beside the lowest and the highest."""
    people = people_of(draw_log(PLUS, MINUS, seed=3, impressions=60)[0])
    two = aligned_fit(people, first_guess(people))
    four = aligned_fit(people, first_guess(people, n_levels=4))
    fit = without_idle_levels(people, four)
    assert fit.levels.levels.tolist() == [0.0, 1.0]
    assert fit.objective == pytest.approx(two.objective, abs=1e-6)
    np.testing.assert_allclose(fit.levels.zeta_plus, two.levels.zeta_plus, atol=1e-5)


def test_levels_that_clicks_need_stay(draw_log: DrawLog) -> None:
    rows, _ = draw_log(PLUS, MINUS, queries=150, impressions=300, **THREE)
    people = people_of(rows)
    three = aligned_fit(people, first_guess(people, n_levels=3))
    assert without_idle_levels(people, three) is three


def test_the_neighbours_merged_are_those_that_few_documents_tell_apart() -> None:
    """Shares .5, .3 and .2 at 0, .1 and 1: merging the lower two loses the least."""
    people = population([0], [0, 1], [0], [1], [1], [1.0])
    levels = Levels(
        zeta_plus=np.array([0.8]),
        log_ratio=np.log([4.0]),
        levels=np.array([0.0, 0.1, 1.0]),
        share=np.log([1.0, 0.6, 0.4]),
        tilt=np.zeros(people.basis.shape[1]),
        by_rank=np.zeros(1),
        common_ratio=0.0,
    )
    merged = with_closest_merged(people, levels)
    assert merged.levels.tolist() == [0.0, 1.0]
    # .5 and .3 together against .2.
    np.testing.assert_allclose(np.exp(merged.share), [1.0, 0.2 / 0.8])
    # With .9 in the middle it joins the upper one: .5 against .3 and .2.
    upper = with_closest_merged(people, replace(levels, levels=np.array([0, 0.9, 1])))
    np.testing.assert_allclose(np.exp(upper.share), [1.0, 1.0])


def test_one_step_from_the_whole_comes_near_the_fit_of_a_part(
    draw_log: DrawLog,
) -> None:
    rows, _ = draw_log(PLUS, MINUS, queries=400, impressions=60, seed=5)
    people = people_of(rows)
    whole = aligned_fit(people, first_guess(people))
    half = people.take(people.query % 2 == 0)
    fit, step = fit_levels(half, whole.levels), one_step(half, whole)
    # What the fit of the half wins over that of the whole, nearly all of it at once.
    vector, prior = whole.layout.vector(whole.levels), whole.layout.precision()
    before, _ = objective(half, whole.layout, vector, prior)
    assert 0.9 * (fit.objective - before) < step.objective - before
    assert step.objective <= fit.objective + 1e-6
