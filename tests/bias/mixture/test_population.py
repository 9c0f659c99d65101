"""Documents and cells of them; thinning by its distribution."""

from dataclasses import replace

import numpy as np
import pytest
from tests.bias.logs import click_rows, population

from affinerank.bias.mixture.population import MixtureDocuments, hinges, population_of
from affinerank.bias.pooling import RankPools, pool_cells

POOLS = RankPools(np.array([0, 1, 1, 2]), np.ones(4))


def several() -> MixtureDocuments:
    """Three documents: at pools 0 and 2 equally; at 1; at 0, 1 and 2."""
    return population(
        [0, 0, 2],
        [0, 2, 3, 6],
        [0, 2, 1, 0, 1, 2],
        [10, 10, 40, 1, 2, 7],
        [4, 1, 10, 1, 0, 7],
        [1, 2, 3],
    )


def test_a_population_is_the_shown_documents_in_their_order() -> None:
    """Document 1 was never shown; document 2 was shown at two ranks of a pool."""
    rows = click_rows(
        [2, 0, 2, 3, 2], [1, 0, 1, 1, 1], [2, 1, 3, 1, 4], [5, 6, 7, 8, 9], [1] * 5
    )
    found = population_of(rows, pool_cells(rows, POOLS, 0))
    assert found.doc.tolist() == [0, 2, 3]
    assert found.query.tolist() == [0, 1, 1]
    assert found.first.tolist() == [0, 1, 3, 4]
    assert found.pool.tolist() == [0, 1, 2, 0]
    assert found.impressions.tolist() == [6, 12, 9, 8]
    assert found.clicks.tolist() == [1, 2, 1, 1]
    assert found.n_impressions.tolist() == [6, 21, 8]
    assert (found.n_docs, found.n_pools, found.moved.sum()) == (3, 3, 1)
    assert found.doc_of_row.tolist() == [0, 1, 1, 2]
    assert found.by_query(np.array([1.0, 2.0, 4.0])).tolist() == [1, 6]


def test_home_is_where_a_document_was_seen_most_and_the_upper_of_equals() -> None:
    people = several()
    assert people.home[people.cell].tolist() == [0, 1, 2]


@pytest.mark.parametrize("docs", [[True, False, True], [0, 2]])
def test_taking_keeps_whole_documents(docs: list[int]) -> None:
    chosen = several().take(np.array(docs))
    assert chosen.doc.tolist() == [0, 2]
    assert chosen.query.tolist() == [0, 2]
    assert chosen.first.tolist() == [0, 2, 5]
    assert chosen.pool.tolist() == [0, 2, 0, 1, 2]
    assert chosen.impressions.tolist() == [10, 10, 1, 2, 7]
    assert chosen.clicks.tolist() == [4, 1, 1, 0, 7]


def test_documents_are_taken_in_an_order() -> None:
    chosen = several().take(np.array([2, 0]))
    assert chosen.first.tolist() == [0, 3, 5]
    assert chosen.pool.tolist() == [0, 1, 2, 0, 2]
    assert chosen.impressions.tolist() == [1, 2, 7, 10, 10]


def test_capped_keeps_click_rates_and_the_mixture_of_ranks() -> None:
    docs, capped = several(), several().capped(10.0)
    np.testing.assert_allclose(capped.n_impressions, [10, 10, 10])
    np.testing.assert_allclose(
        capped.clicks / capped.impressions, docs.clicks / docs.impressions
    )
    np.testing.assert_allclose(capped.impressions, [5, 5, 10, 1, 2, 7])


def test_thinned_draws_from_what_there_is() -> None:
    docs, rng = several(), np.random.default_rng(0)
    drawn = [docs.thinned(8.0, rng) for _ in range(400)]
    # 20 and 40 impressions of which 8 are kept, a rank's share rounded up; 10 likewise.
    kept = [4, 4, 8, 1, 2, 6]
    for one in drawn:
        assert one.impressions.tolist() == kept
        assert np.all(one.clicks <= np.minimum(one.impressions, docs.clicks))
        assert np.all(one.impressions - one.clicks <= docs.impressions - docs.clicks)
    clicks = np.stack([one.clicks for one in drawn])
    expected = docs.clicks / docs.impressions * np.array(kept)
    error = clicks.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(clicks.mean(axis=0) - expected) <= 4 * error + 1e-12)


def test_thinned_leaves_what_is_few_alone() -> None:
    docs = several()
    same = docs.thinned(1000.0, np.random.default_rng(0))
    np.testing.assert_array_equal(same.impressions, docs.impressions)
    np.testing.assert_array_equal(same.clicks, docs.clicks)


def test_thinned_takes_a_document_with_very_many_impressions() -> None:
    docs = population([0], [0, 1], [0], [3e9], [1e9], [1])
    clicks = docs.thinned(400.0, np.random.default_rng(0)).clicks[0]
    assert clicks == pytest.approx(400 / 3, abs=5 * np.sqrt(400 * 2 / 9))


@pytest.mark.parametrize("n", [1, 2, 7, 10])
def test_halves_are_as_equal_as_can_be(n: int) -> None:
    people = at_one_pool([0] * 2 * n)
    people = replace(people, query=np.repeat(np.arange(n), 2))
    half = people.halved(np.random.default_rng(0)).half
    np.testing.assert_array_equal(half[::2], half[1::2])
    assert sorted(half[::2].tolist()) == sorted([i % 2 for i in range(n)])


def test_halves_are_of_the_queries_that_occur() -> None:
    """Six of 301: three are in each half, whatever the stream."""
    query = np.array([300, 7, 7, 90, 2, 50, 51])
    people = replace(at_one_pool([0] * 7), query=query)
    for seed in range(20):
        half = people.halved(np.random.default_rng(seed)).half
        assert half[1] == half[2]
        assert np.delete(half, 1).sum() == 3


def at_one_pool(
    home: list[int], mean_rank: tuple[float, ...] = (1, 2, 3)
) -> MixtureDocuments:
    n = len(home)
    query = np.arange(n) // 3
    return population(query, np.arange(n + 1), home, [5] * n, [1] * n, mean_rank)


def test_documents_of_a_cell_share_their_home_and_their_bin() -> None:
    rng = np.random.default_rng(0)
    docs = at_one_pool(rng.integers(0, 3, 60).tolist(), (1.0, 2.0, 4.0))
    values = rng.normal(size=60)
    people = docs.in_cells([(values, 4, 2)])
    np.testing.assert_array_equal(people.home[people.cell], docs.pool)
    assert len(people.home) == people.cell.max() + 1 <= 12
    assert people.basis.shape == (len(people.home), 1 + 2)
    assert people.weight.tolist() == [1.0] * 60
    edges = np.quantile(values, [0.25, 0.5, 0.75])
    for cell in range(len(people.home)):
        there = values[people.cell == cell]
        for edge in edges:
            assert np.all(there < edge) or np.all(there >= edge)


def test_a_covariate_that_says_nothing_makes_no_cells() -> None:
    people = at_one_pool([0, 1, 0, 1, 2]).in_cells([(np.zeros(5), 16, 4)])
    assert people.home.tolist() == [0, 1, 2]
    assert np.all(np.isfinite(people.basis))
    assert not np.any(people.basis[:, 1:])


def test_with_two_pools_rank_has_no_curve_of_its_own() -> None:
    people = at_one_pool([0, 1, 1], (1.0, 2.0))
    assert people.basis.shape == (2, 0)


def test_hinges_span_the_broken_lines_with_kinks_at_quantiles() -> None:
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    basis = hinges(x, 2)
    np.testing.assert_allclose(basis.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(basis.std(axis=0), 1)
    line = np.where(x < 2, x, 2 + 5 * (x - 2))  # the kink is at the median
    design = np.column_stack([basis, np.ones(5)])
    rest = line - design @ np.linalg.lstsq(design, line, rcond=None)[0]
    np.testing.assert_allclose(rest, 0, atol=1e-9)
