"""Bands: against estimates that were repeated, and by the laws of clusters."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.bias.logs import population

from affinerank.bias.bands import Bands
from affinerank.bias.gauge import Gauge, display_gauge, inference_gauge
from affinerank.bias.mixture.fit import Fit, first_guess, fit_levels
from affinerank.bias.mixture.levels import Layout
from affinerank.bias.mixture.population import MixtureDocuments, population_of
from affinerank.bias.mixture.precision import (
    mixture_bands,
    precision_of,
    share_identified,
)
from affinerank.bias.mixture.scores import document_scores
from affinerank.bias.mixture.search import aligned_fit
from affinerank.bias.pooling import RankPools, pool_cells
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats

DrawLog = Callable[..., tuple[ClickRows, Floats]]

PLUS, MINUS = [0.8, 0.6, 0.5, 0.4], [0.4, 0.2, 0.1, 0.06]
SEEN = np.ones(4)
INFERENCE = partial(inference_gauge, impressions=SEEN)


def people_of(rows: ClickRows) -> MixtureDocuments:
    return population_of(rows, pool_cells(rows, RankPools(np.arange(4), SEEN), 0))


def fitted(people: MixtureDocuments) -> Fit:
    return aligned_fit(people, first_guess(people))


def shown(fit: Fit) -> TrustModel:
    minus = fit.levels.zeta_minus
    alpha = fit.levels.zeta_plus - minus
    return INFERENCE(TrustModel(alpha=alpha, beta=minus, identified="relative"))


def both(bands: Bands) -> Floats:
    return np.concatenate([bands.alpha_error, bands.beta_error])


def test_standard_errors_are_the_spread_of_repeated_simulations(
    draw_log: DrawLog,
) -> None:
    """Forty logs: a standard deviation is known within about 11 % of itself."""
    values, errors = [], []
    for seed in range(40):
        people = people_of(draw_log(PLUS, MINUS, queries=150, seed=seed)[0])
        fit = fitted(people)
        click_model = shown(fit)
        values.append(np.concatenate([click_model.alpha, click_model.beta]))
        errors.append(both(bands_of(people, fit, INFERENCE)))
    ratio = np.mean(errors, axis=0) / np.std(values, axis=0, ddof=1)
    assert np.all((ratio > 0.7) & (ratio < 1.4)), ratio


def test_standard_errors_are_those_of_a_bootstrap_over_queries(
    draw_log: DrawLog,
) -> None:
    people = people_of(draw_log(PLUS, MINUS, queries=150)[0])
    fit = fitted(people)
    rng = np.random.default_rng(1)
    values = []
    for _ in range(60):
        drawn_queries = np.bincount(rng.choice(150, 150), minlength=150)
        weight = drawn_queries[people.query].astype(float)
        drawn = replace(people.take(weight > 0), weight=weight[weight > 0])
        again = fit_levels(drawn, fit.levels, tolerance=1e-4)
        values.append(np.concatenate([shown(again).alpha, shown(again).beta]))
    ratio = both(bands_of(people, fit, INFERENCE)) / np.std(values, axis=0)
    assert np.all((ratio > 1 / 1.4) & (ratio < 1.4)), ratio


def bands_of(people: MixtureDocuments, fit: Fit, gauge: Gauge) -> Bands:
    return mixture_bands(fit, precision_of(people, fit), gauge, np.eye(4))


def identified(people: MixtureDocuments, fit: Fit) -> Floats:
    return share_identified(fit, precision_of(people, fit), np.eye(people.n_pools))


def twice(people: MixtureDocuments, *, same_query: bool) -> MixtureDocuments:
    """Every document once more, in its query or in a query of its own."""
    doubled = people.take(np.tile(np.arange(people.n_docs), 2))
    more = np.repeat([0, 0 if same_query else people.query.max() + 1], people.n_docs)
    return replace(doubled, query=doubled.query + more)


def test_documents_of_a_query_that_repeat_each_other_make_nothing_surer(
    draw_log: DrawLog,
) -> None:
    """Repeated in other queries, they halve the variance: bands are by query."""
    people = people_of(draw_log(PLUS, MINUS, queries=100)[0])
    fit = fit_levels(people, first_guess(people))
    weak = replace(fit.layout, odds_sd=1e3, rank_sd=1e3, ridge=1e-6)
    fit = replace(fit, layout=weak)
    before = bands_of(people, fit, INFERENCE)
    same = bands_of(twice(people, same_query=True), fit, INFERENCE)
    other = bands_of(twice(people, same_query=False), fit, INFERENCE)
    np.testing.assert_allclose(both(same), both(before), rtol=1e-3)
    # n / (n - 1) of 100 and of 200 queries differ by half a percent
    np.testing.assert_allclose(both(other), both(before) / np.sqrt(2), rtol=0.006)


def test_a_weight_of_two_is_a_document_that_is_there_twice(draw_log: DrawLog) -> None:
    people = people_of(draw_log(PLUS, MINUS)[0])
    fit = fitted(people)
    heavy = replace(people, weight=np.full(people.n_docs, 2.0))
    np.testing.assert_allclose(
        precision_of(heavy, fit).covariance,
        precision_of(twice(people, same_query=True), fit).covariance,
        atol=1e-8,
    )


def test_the_covariance_is_symmetric_and_no_variance_is_negative(
    draw_log: DrawLog,
) -> None:
    people = people_of(draw_log(PLUS, MINUS)[0])
    found = precision_of(people, fitted(people)).covariance
    np.testing.assert_allclose(found, found.T, atol=1e-9)
    assert np.all(np.linalg.eigvalsh((found + found.T) / 2) > -1e-9)


def test_bands_are_of_their_gauge(draw_log: DrawLog) -> None:
    """What a gauge fixes is sure; a unit ten times as large has a tenth the error."""
    people = people_of(draw_log(PLUS, MINUS)[0])
    fit = fitted(people)
    display = bands_of(people, fit, display_gauge)
    np.testing.assert_allclose([display.alpha[0], display.beta[0]], [1, 0], atol=1e-9)
    np.testing.assert_allclose(
        [display.alpha_error[0], display.beta_error[0]], [0, 0], atol=1e-6
    )
    assert np.all(display.alpha_error[1:] > 0)
    plain = bands_of(people, fit, lambda click_model: click_model)
    np.testing.assert_allclose(plain.alpha + plain.beta, fit.levels.zeta_plus)
    np.testing.assert_allclose(plain.beta, fit.levels.zeta_minus)

    def tenfold(click_model: TrustModel) -> TrustModel:
        return TrustModel(
            alpha=10 * click_model.alpha, beta=click_model.beta, identified="relative"
        )

    scaled = bands_of(people, fit, tenfold)
    np.testing.assert_allclose(scaled.alpha_error, 10 * plain.alpha_error, rtol=1e-6)
    np.testing.assert_allclose(scaled.beta_error, plain.beta_error, rtol=1e-6)
    inference = bands_of(people, fit, INFERENCE)
    assert inference.alpha.mean() == pytest.approx(1.0)
    assert np.mean(inference.beta / inference.alpha) == pytest.approx(0, abs=1e-9)


def test_many_clicks_tell_and_hardly_any_do_not(draw_log: DrawLog) -> None:
    many = people_of(draw_log(PLUS, MINUS, queries=200, impressions=100)[0])
    few = people_of(draw_log(PLUS, MINUS, queries=10, impressions=1)[0])
    assert np.all(identified(many, fitted(many)) > 0.95)
    leant = identified(few, fitted(few))
    assert np.all(np.abs(leant) < 0.2)


def test_two_ranks_can_be_told_as_surely_as_many() -> None:
    rng = np.random.default_rng(0)
    pool, relevant = np.arange(400) % 2, rng.random(400) < 0.3
    rate = np.where(relevant, np.array([0.8, 0.5])[pool], np.array([0.4, 0.1])[pool])
    query, clicks = np.arange(400) // 2, rng.binomial(100, rate)
    people = population(query, np.arange(401), pool, [100] * 400, clicks, [1, 2])
    fit = fit_levels(people, first_guess(people))
    assert np.all(identified(people, fit) > 0.95)


def test_without_any_clicks_the_prior_is_all_there_is() -> None:
    nothing = {"cell": np.zeros(1, int)}
    people = population([0], [0, 1], [0], [1e-9], [0], [1, 2, 3, 4], **nothing)
    fit = fit_levels(people, first_guess(people))
    assert fit.layout == Layout(4, 4, 2, 0)
    np.testing.assert_allclose(identified(people, fit), 0.0, atol=1e-6)


def test_precision_is_the_written_out_sandwich_however_it_is_cut(
    draw_log: DrawLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = people_of(draw_log(PLUS, MINUS, queries=40)[0])
    fit = fitted(people)
    scores = document_scores(people, fit.levels, fit.layout).toarray()
    scores *= people.weight[:, None]
    information = scores.T @ scores + fit.layout.precision()
    query = people.query
    by_query = np.stack([scores[query == q].sum(axis=0) for q in np.unique(query)])
    n = len(by_query)
    squared = by_query.T @ by_query * n / (n - 1)
    inverse = np.linalg.pinv(information, rcond=1e-12, hermitian=True)
    for at_once in (1, 50, 10**6):
        monkeypatch.setattr("affinerank.bias.mixture.population.DOCS_AT_ONCE", at_once)
        found = precision_of(people, fit)
        np.testing.assert_allclose(found.inverse, inverse, rtol=1e-6, atol=1e-10)
        expected = inverse @ squared @ inverse
        np.testing.assert_allclose(found.covariance, expected, rtol=1e-6, atol=1e-10)
