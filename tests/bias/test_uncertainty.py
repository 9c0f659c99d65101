"""Bands: against estimates that were repeated, and by the laws of clusters."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from affinerank.bias.cells import Population, population_of
from affinerank.bias.documents import ClickRows, Documents, documents
from affinerank.bias.levels import aligned_fit
from affinerank.bias.mixture import Layout, Prior, prior_precision
from affinerank.bias.mixture_fit import (
    Fit,
    document_scores,
    first_guess,
    fit_levels,
)
from affinerank.bias.pooling import RankPools
from affinerank.bias.replicates import query_weights
from affinerank.bias.uncertainty import (
    Bands,
    Gauge,
    for_display,
    for_inference,
    mixture_bands,
    precision_of,
    told_by_clicks,
)
from affinerank.clicks.usermodel import UserModel

Floats = NDArray[np.float64]
DrawLog = Callable[..., tuple[ClickRows, Floats]]

PLUS, MINUS = [0.8, 0.6, 0.5, 0.4], [0.4, 0.2, 0.1, 0.06]
PRIOR = Prior()
SEEN = np.ones(4)
INFERENCE = for_inference(SEEN)


def people_of(rows: ClickRows) -> Population:
    docs = documents(
        rows,
        RankPools(np.arange(4), SEEN),
    )
    return population_of(docs, np.arange(1.0, 5.0))


def fitted(people: Population) -> Fit:
    return aligned_fit(people, first_guess(people, 4), PRIOR)


def shown(fit: Fit) -> UserModel:
    minus = fit.levels.zeta_minus
    alpha = fit.levels.zeta_plus - minus
    return INFERENCE(UserModel(alpha=alpha, beta=minus, identified="gauge"))


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
        users = shown(fit)
        values.append(np.concatenate([users.alpha, users.beta]))
        errors.append(both(bands_of(people, fit, PRIOR, INFERENCE)))
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
        weight = query_weights(np.ones(150), 150, rng)[people.documents.query]
        drawn = replace(people.select(weight > 0), weight=weight[weight > 0])
        again = fit_levels(drawn, fit.levels, PRIOR, tolerance=1e-4)
        values.append(np.concatenate([shown(again).alpha, shown(again).beta]))
    ratio = both(bands_of(people, fit, PRIOR, INFERENCE)) / np.std(values, axis=0)
    assert np.all((ratio > 1 / 1.4) & (ratio < 1.4)), ratio


def bands_of(people: Population, fit: Fit, prior: Prior, gauge: Gauge) -> Bands:
    return mixture_bands(fit, precision_of(people, fit, prior), gauge)


def told(people: Population, fit: Fit) -> Floats:
    return told_by_clicks(fit, PRIOR, precision_of(people, fit, PRIOR))


def twice(people: Population, *, same_query: bool) -> Population:
    """Every document once more, in its query or in a query of its own."""
    rows = people.documents
    more = 0 if same_query else rows.n_queries
    return replace(
        people,
        documents=Documents(
            np.concatenate([rows.query, rows.query + more]),
            np.arange(2 * rows.n_docs + 1),
            np.tile(rows.pool, 2),
            np.tile(rows.impressions, 2),
            np.tile(rows.clicks, 2),
        ),
        cell=np.tile(people.cell, 2),
        weight=np.tile(people.weight, 2),
    )


def test_documents_of_a_query_that_repeat_each_other_make_nothing_surer(
    draw_log: DrawLog,
) -> None:
    """Repeated in other queries, they halve the variance: bands are by query."""
    people = people_of(draw_log(PLUS, MINUS, queries=100)[0])
    weak = Prior(1e3, 1e3, 1e-6)
    fit = fit_levels(people, first_guess(people, 4), PRIOR)
    before = bands_of(people, fit, weak, INFERENCE)
    same = bands_of(twice(people, same_query=True), fit, weak, INFERENCE)
    other = bands_of(twice(people, same_query=False), fit, weak, INFERENCE)
    np.testing.assert_allclose(both(same), both(before), rtol=1e-3)
    # n / (n - 1) of 100 and of 200 queries differ by half a percent
    np.testing.assert_allclose(both(other), both(before) / np.sqrt(2), rtol=0.006)


def test_a_weight_of_two_is_a_document_that_is_there_twice(draw_log: DrawLog) -> None:
    people = people_of(draw_log(PLUS, MINUS)[0])
    fit = fitted(people)
    heavy = replace(people, weight=np.full(people.documents.n_docs, 2.0))
    np.testing.assert_allclose(
        precision_of(heavy, fit, PRIOR).covariance,
        precision_of(twice(people, same_query=True), fit, PRIOR).covariance,
        atol=1e-8,
    )


def test_the_covariance_is_symmetric_and_no_variance_is_negative(
    draw_log: DrawLog,
) -> None:
    people = people_of(draw_log(PLUS, MINUS)[0])
    found = precision_of(people, fitted(people), PRIOR).covariance
    np.testing.assert_allclose(found, found.T, atol=1e-9)
    assert np.all(np.linalg.eigvalsh((found + found.T) / 2) > -1e-9)


def test_bands_are_of_their_gauge(draw_log: DrawLog) -> None:
    """What a gauge fixes is sure; a unit ten times as large has a tenth the error."""
    people = people_of(draw_log(PLUS, MINUS)[0])
    fit = fitted(people)
    display = bands_of(people, fit, PRIOR, for_display())
    np.testing.assert_allclose([display.alpha[0], display.beta[0]], [1, 0], atol=1e-9)
    np.testing.assert_allclose(
        [display.alpha_error[0], display.beta_error[0]], [0, 0], atol=1e-6
    )
    assert np.all(display.alpha_error[1:] > 0)
    plain = bands_of(people, fit, PRIOR, lambda users: users)
    np.testing.assert_allclose(plain.alpha + plain.beta, fit.levels.zeta_plus)
    np.testing.assert_allclose(plain.beta, fit.levels.zeta_minus)

    def tenfold(users: UserModel) -> UserModel:
        return UserModel(alpha=10 * users.alpha, beta=users.beta, identified="gauge")

    scaled = bands_of(people, fit, PRIOR, tenfold)
    np.testing.assert_allclose(scaled.alpha_error, 10 * plain.alpha_error, rtol=1e-6)
    np.testing.assert_allclose(scaled.beta_error, plain.beta_error, rtol=1e-6)
    inference = bands_of(people, fit, PRIOR, INFERENCE)
    assert inference.alpha.mean() == pytest.approx(1.0)
    assert np.mean(inference.beta / inference.alpha) == pytest.approx(0, abs=1e-9)


def test_an_interval_is_the_written_out_one() -> None:
    bands = Bands(*(np.array([v]) for v in (1.0, 0.5, 0.1, 0.2)))
    low, high = bands.interval("alpha")
    np.testing.assert_allclose([low[0], high[0]], [1 - 0.196, 1 + 0.196], atol=1e-4)
    low, high = bands.interval("beta", 0.5)
    np.testing.assert_allclose([low[0], high[0]], [0.5 - 0.1349, 0.5 + 0.1349], 1e-3)


def test_many_clicks_tell_and_hardly_any_do_not(draw_log: DrawLog) -> None:
    many = people_of(draw_log(PLUS, MINUS, queries=200, impressions=100)[0])
    few = people_of(draw_log(PLUS, MINUS, queries=10, impressions=1)[0])
    assert np.all(told(many, fitted(many)) > 0.95)
    leant = told(few, fitted(few))
    assert np.all(np.abs(leant) < 0.2)


def test_two_ranks_can_be_told_as_surely_as_many() -> None:
    rng = np.random.default_rng(0)
    pool, relevant = np.arange(400) % 2, rng.random(400) < 0.3
    rate = np.where(relevant, np.array([0.8, 0.5])[pool], np.array([0.4, 0.1])[pool])
    docs = Documents(
        np.arange(400) // 2,
        np.arange(401),
        pool,
        np.full(400, 100.0),
        rng.binomial(100, rate).astype(float),
    )
    people = population_of(docs, np.array([1.0, 2.0]))
    fit = fit_levels(people, first_guess(people, 2), PRIOR)
    assert np.all(told(people, fit) > 0.95)


def test_without_any_clicks_the_prior_is_all_there_is() -> None:
    docs = Documents(*(np.array(v) for v in ([0], [0, 1], [0], [1e-9], [0.0])))
    people = Population(
        docs, np.zeros(1, int), np.zeros(1, int), np.zeros((1, 0)), np.ones(1)
    )
    fit = fit_levels(people, first_guess(people, 4), PRIOR)
    assert fit.layout == Layout(4, 2, 0)
    np.testing.assert_allclose(told(people, fit), 0.0, atol=1e-6)


def test_precision_is_the_written_out_sandwich_however_it_is_cut(
    draw_log: DrawLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = people_of(draw_log(PLUS, MINUS, queries=40)[0])
    fit = fitted(people)
    scores = document_scores(people, fit).toarray() * people.weight[:, None]
    told = scores.T @ scores + prior_precision(fit.layout, PRIOR)
    query = people.documents.query
    by_query = np.stack([scores[query == q].sum(axis=0) for q in np.unique(query)])
    n = len(by_query)
    squared = by_query.T @ by_query * n / (n - 1)
    inverse = np.linalg.pinv(told, rcond=1e-12, hermitian=True)
    for at_once in (1, 50, 10**6):
        monkeypatch.setattr("affinerank.bias.cells.DOCS_AT_ONCE", at_once)
        found = precision_of(people, fit, PRIOR)
        np.testing.assert_allclose(found.information, told, rtol=1e-9, atol=1e-9)
        expected = inverse @ squared @ inverse
        np.testing.assert_allclose(found.covariance, expected, rtol=1e-6, atol=1e-10)
