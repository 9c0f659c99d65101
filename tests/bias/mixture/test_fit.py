"""The mixture of levels: against plain loops, finite differences and its laws."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.bias import logs

from affinerank.bias.mixture import levels as module
from affinerank.bias.mixture.fit import (
    Fit,
    first_guess,
    fit_levels,
    objective,
)
from affinerank.bias.mixture.levels import (
    Layout,
    Levels,
    document_levels,
    expected_counts,
    query_likelihood,
)
from affinerank.bias.mixture.population import MixtureDocuments
from affinerank.bias.mixture.scores import document_scores
from affinerank.support.arrays import Floats

POOLS = 3
KINDS = [(2, False), (2, True), (4, False), (4, True)]


def population(seed: int = 0, n: int = 40, *, moved: bool = True) -> MixtureDocuments:
    """Documents at one to three pools, or at one, in four cells; unequal weights."""
    rng = np.random.default_rng(seed)
    pools = [
        sorted(rng.choice(POOLS, rng.integers(1, POOLS + 1) if moved else 1, False))
        for _ in range(n)
    ]
    pool = np.concatenate(pools).astype(np.int64)
    seen = rng.integers(1, 5, len(pool))
    home = np.array([0, 1, 2, 2])
    return logs.population(
        np.sort(rng.integers(0, 8, n)),
        np.concatenate([[0], np.cumsum([len(p) for p in pools])]),
        pool,
        seen,
        rng.binomial(seen, 0.4),
        np.arange(1, POOLS + 1),
        cell=rng.integers(0, len(home), n),
        home=home,
        basis=rng.normal(size=(len(home), 2)),
        weight=rng.integers(1, 4, n).astype(float),
    )


def value_of(
    people: MixtureDocuments, layout: Layout, at: Floats
) -> tuple[float, Floats]:
    return objective(people, layout, at, layout.precision())


def some_levels(n_levels: int, seed: int = 1, *, tied: bool = False) -> Levels:
    rng = np.random.default_rng(seed)
    ratio = np.full(POOLS, 1.1) if tied else rng.uniform(0.5, 2.0, POOLS)
    inner = np.sort(rng.uniform(0.1, 0.9, n_levels - 2))
    return Levels(
        rng.uniform(0.3, 0.9, POOLS),
        ratio,
        np.concatenate([[0.0], inner, [1.0]]),
        np.concatenate([[0.0], rng.normal(size=n_levels - 1)]),
        rng.normal(size=2),
        rng.normal(size=POOLS) / 3,
        float(ratio.mean()),
    )


def joint(people: MixtureDocuments, levels: Levels, d: int) -> list[float]:
    """P(level and clicks) of a document, written from the formula."""
    rows, cell = people, int(people.cell[d])
    home = int(people.home[cell])
    eta = sum(x * b for x, b in zip(levels.tilt, people.basis[cell], strict=True))
    eta += levels.by_rank[home]
    raw = [
        math.exp(u + g * eta) for u, g in zip(levels.share, levels.levels, strict=True)
    ]
    found = []
    for j, g in enumerate(levels.levels):
        value = raw[j] / sum(raw)
        for row in range(rows.first[d], rows.first[d + 1]):
            k = rows.pool[row]
            minus = levels.zeta_plus[k] / math.exp(levels.log_ratio[k])
            p = (levels.zeta_plus[k] - minus) * g + minus
            clicks, n = rows.clicks[row], rows.impressions[row]
            value *= p**clicks * (1 - p) ** (n - clicks)
        found.append(value)
    return found


@pytest.mark.parametrize("n_levels", [2, 4])
def test_likelihood_and_expected_counts_are_those_of_plain_loops(n_levels: int) -> None:
    people, levels = population(), some_levels(n_levels)
    rows = people
    likelihood = 0.0
    docs, seen = np.zeros((4, n_levels)), np.zeros((POOLS, n_levels))
    clicked = np.zeros((POOLS, n_levels))
    for d in range(rows.n_docs):
        each = joint(people, levels, d)
        likelihood += people.weight[d] * math.log(sum(each))
        for j in range(n_levels):
            part = people.weight[d] * each[j] / sum(each)
            docs[people.cell[d], j] += part
            for row in range(rows.first[d], rows.first[d + 1]):
                seen[rows.pool[row], j] += part * rows.impressions[row]
                clicked[rows.pool[row], j] += part * rows.clicks[row]
    found = expected_counts(people, levels)
    assert found[0] == pytest.approx(likelihood)
    for got, wanted in zip(found[1:], (docs, seen, clicked), strict=True):
        np.testing.assert_allclose(got, wanted)
    levels_of, log_p = document_levels(people, levels)
    each = joint(people, levels, 5)
    np.testing.assert_allclose(levels_of[5], np.array(each) / sum(each))
    assert log_p[5] == pytest.approx(math.log(sum(each)))


@pytest.mark.parametrize(("n_levels", "tied"), KINDS)
def test_the_gradient_is_the_slope(n_levels: int, tied: bool) -> None:
    people = population()
    layout = Layout(POOLS, POOLS, n_levels, 2, tied)
    at = layout.vector(some_levels(n_levels, tied=tied))
    _, gradient = value_of(people, layout, at)
    step, slope = 1e-5, np.zeros(layout.size)
    for i in range(layout.size):
        away = np.zeros(layout.size)
        away[i] = step
        ahead = value_of(people, layout, at + away)[0]
        behind = value_of(people, layout, at - away)[0]
        slope[i] = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(gradient, slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("n_levels", "tied"), KINDS)
def test_document_scores_add_up_to_the_gradient_without_the_prior(
    n_levels: int, tied: bool
) -> None:
    people, levels = population(), some_levels(n_levels, tied=tied)
    layout = Layout(POOLS, POOLS, n_levels, 2, tied)
    at = layout.vector(levels)
    fit = Fit(layout.levels(at), layout, 0.0)
    _, gradient = value_of(people, layout, at)
    held = layout.precision() @ at
    scores = document_scores(people, fit.levels, fit.layout)
    np.testing.assert_allclose(scores.T @ people.weight, gradient + held, atol=1e-8)


@pytest.mark.parametrize("n_levels", [2, 4])
def test_the_prior_is_the_written_out_one(n_levels: int) -> None:
    levels = some_levels(n_levels)
    levels = replace(levels, common_ratio=0.7)
    layout = Layout(POOLS, POOLS, n_levels, 2, odds_sd=0.5, rank_sd=0.3, ridge=0.01)
    at = layout.vector(levels)
    expected = -sum((r - 0.7) ** 2 for r in levels.log_ratio) / (2 * 0.5**2)
    expected -= sum(b**2 for b in levels.by_rank) / (2 * 0.3**2)
    expected -= 0.01 / 2 * (sum(u**2 for u in levels.share) + sum(levels.tilt**2))
    people = population()
    value, _ = value_of(people, layout, at)
    likelihood = query_likelihood(people, layout.levels(at)).sum()
    assert value - likelihood == pytest.approx(expected)


@pytest.mark.parametrize(("n_levels", "tied"), KINDS)
def test_a_vector_and_its_levels_say_the_same(n_levels: int, tied: bool) -> None:
    levels = some_levels(n_levels, tied=tied)
    layout = Layout(POOLS, POOLS, n_levels, 2, tied)
    again = layout.levels(layout.vector(levels))
    for name in ("zeta_plus", "log_ratio", "levels", "share", "tilt", "by_rank"):
        np.testing.assert_allclose(getattr(again, name), getattr(levels, name))
    assert again.common_ratio == pytest.approx(levels.common_ratio)


@pytest.mark.parametrize("moved", [False, True])
def test_documents_that_are_the_same_may_be_counted_together(moved: bool) -> None:
    people, levels = population(n=200, moved=moved), some_levels(4)
    grouped = people.grouped()
    assert (grouped.n_docs < 150) is not moved
    layout = Layout(POOLS, POOLS, 4, 2)
    at = layout.vector(levels)
    value, gradient = value_of(people, layout, at)
    other, slope = value_of(grouped, layout, at)
    assert other == pytest.approx(value)
    np.testing.assert_allclose(slope, gradient, atol=1e-9)


def test_a_weight_is_how_often_a_document_counts() -> None:
    people, levels = population(), some_levels(2)
    times = people.weight.astype(int)
    rows = people
    each = [
        np.arange(rows.first[d], rows.first[d + 1])
        for d in np.repeat(np.arange(rows.n_docs), times)
    ]
    row = np.concatenate(each)
    written_out = logs.population(
        np.repeat(rows.query, times),
        np.concatenate([[0], np.cumsum([len(part) for part in each])]),
        rows.pool[row],
        rows.impressions[row],
        rows.clicks[row],
        people.mean_rank,
        cell=np.repeat(people.cell, times),
        home=people.home,
        basis=people.basis,
    )
    np.testing.assert_allclose(
        query_likelihood(written_out, levels), query_likelihood(people, levels)
    )


@pytest.mark.parametrize(("n_levels", "tied"), KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_a_fit_never_ends_below_its_start(n_levels: int, tied: bool, seed: int) -> None:
    people = population(seed)
    start = some_levels(n_levels, seed, tied=tied)
    layout = Layout(POOLS, POOLS, n_levels, 2, tied)
    begun, _ = value_of(people, layout, layout.vector(start))
    fit = fit_levels(people, start, tied=tied)
    assert fit.objective >= begun
    value, gradient = value_of(people, layout, layout.vector(fit.levels))
    assert fit.objective == pytest.approx(value)
    assert len(set(fit.levels.log_ratio)) == (1 if tied else POOLS)
    low, high = layout.bounds()
    at = layout.vector(fit.levels)
    inside = (at > low + 1e-6) & (at < high - 1e-6)
    assert np.all(np.abs(gradient[inside]) < 0.5)


def test_the_order_of_documents_and_of_queries_does_not_matter() -> None:
    people = population(n=120)
    order = np.random.default_rng(3).permutation(120)
    renamed = np.random.default_rng(4).permutation(8)
    other = people.take(order)
    other = replace(other, query=renamed[other.query])
    levels = some_levels(2)
    likelihood = query_likelihood(people, levels)
    np.testing.assert_allclose(query_likelihood(other, levels)[renamed], likelihood)
    fits = [fit_levels(each, levels) for each in (people, other)]
    assert fits[0].objective == pytest.approx(fits[1].objective, abs=0.01)
    np.testing.assert_allclose(
        fits[0].levels.zeta_plus, fits[1].levels.zeta_plus, atol=0.02
    )


def test_queries_add_up_to_the_likelihood() -> None:
    people = population()
    levels = some_levels(2)
    each = query_likelihood(people, levels)
    assert len(each) == 8
    assert each.sum() == pytest.approx(expected_counts(people, levels)[0])
    alone = query_likelihood(people.take(people.query == 3), levels)
    np.testing.assert_allclose(alone, [each[3]])


@pytest.mark.parametrize("n_levels", [2, 3, 5])
def test_the_first_guess_is_inside_and_near_the_click_rates(n_levels: int) -> None:
    people = population(n=300)
    guess = first_guess(people, n_levels)
    rows = people
    share = np.exp(guess.log_shares(people))[0]
    assert np.all((guess.zeta_minus > 0) & (guess.zeta_plus < 1))
    assert np.all(guess.log_ratio > 0)
    if n_levels == 2:
        each = people.weight[rows.doc_of_row]
        top = np.bincount(rows.pool, each * rows.clicks)
        rate = top / np.bincount(rows.pool, each * rows.impressions)
        expected = guess.click_rate(guess.levels) @ share
        np.testing.assert_allclose(expected, rate, rtol=0.02)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_rank_that_is_always_or_never_clicked_leaves_everything_finite(
    rate: float,
) -> None:
    people = population(n=100)
    rows = people
    clicks = np.where(rows.pool == 1, rate * rows.impressions, rows.clicks)
    people = replace(people, clicks=clicks)
    fit = fit_levels(people, first_guess(people))
    assert np.isfinite(fit.objective)
    assert np.all((fit.levels.zeta_minus > 0) & (fit.levels.zeta_plus < 1))


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_parts_are_all_documents_with_whole_queries(
    scattered: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affinerank.bias.mixture.population.DOCS_AT_ONCE", at_once)
    people, levels = population(), some_levels(4)
    if scattered:
        query = np.random.default_rng(3).permutation(people.query)
        people = replace(people, query=query)
    parts = list(people.parts())
    assert (len(parts) == 1) is (at_once == 1000)
    queries = [set(part.query.tolist()) for part in parts]
    assert sum(len(names) for names in queries) == len(set.union(*queries)) == 8
    # A document that lost its rows, cell or weight would change its query's likelihood.
    found = np.concatenate([query_likelihood(part, levels) for part in parts])
    np.testing.assert_allclose(found, query_likelihood(people, levels))


@pytest.mark.parametrize("at_once", [1, 3, 7])
def test_documents_in_chunks_give_what_all_at_once_do(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    people, at = population(), some_levels(3)
    whole, each = expected_counts(people, at), document_levels(people, at)
    monkeypatch.setattr(module, "DOCS_AT_ONCE", at_once)
    found = expected_counts(people, at)
    assert found[0] == pytest.approx(whole[0])
    for one, other in zip(whole[1:], found[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    for one, other in zip(each, document_levels(people, at), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("n_levels", "tied"), [(2, False), (2, True), (3, False)])
def test_a_fit_ends_at_the_top_wherever_it_came_from(n_levels: int, tied: bool) -> None:
    """From starts that lie apart, the same top to within a millionth of an error."""
    people = population(n=400)
    first = fit_levels(people, some_levels(n_levels), tied=tied)
    vector = first.layout.vector(first.levels)
    nudge = 0.05 * np.random.default_rng(1).standard_normal(len(vector))
    low, high = first.layout.bounds()
    start = first.layout.levels(np.clip(vector + nudge, low, high))
    again = fit_levels(people, start, tied=tied)
    assert again.objective == pytest.approx(first.objective, abs=1e-6)
    np.testing.assert_allclose(
        again.levels.zeta_plus, first.levels.zeta_plus, atol=1e-6
    )
    np.testing.assert_allclose(
        again.levels.zeta_minus, first.levels.zeta_minus, atol=1e-6
    )
