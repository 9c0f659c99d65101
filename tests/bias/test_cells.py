"""Cells of documents, and the broken lines that relevance is linear in."""

import numpy as np

from affinerank.bias.cells import hinges, population_of
from affinerank.bias.documents import Documents


def at_one_pool(home: list[int]) -> Documents:
    n = len(home)
    ones = np.ones(n)
    return Documents(
        np.arange(n) // 3, np.arange(n + 1), np.array(home), 5 * ones, ones
    )


def test_documents_of_a_cell_share_their_home_and_their_bin() -> None:
    rng = np.random.default_rng(0)
    docs = at_one_pool(rng.integers(0, 3, 60).tolist())
    values = rng.normal(size=60)
    people = population_of(docs, np.array([1.0, 2.0, 4.0]), [(values, 4, 2)])
    np.testing.assert_array_equal(people.home[people.cell], docs.home)
    assert len(people.home) == people.cell.max() + 1 <= 12
    assert people.basis.shape == (len(people.home), 1 + 2)
    assert people.weight.tolist() == [1.0] * 60
    edges = np.quantile(values, [0.25, 0.5, 0.75])
    for cell in range(len(people.home)):
        there = values[people.cell == cell]
        for edge in edges:
            assert np.all(there < edge) or np.all(there >= edge)


def test_a_covariate_that_says_nothing_makes_no_cells() -> None:
    docs = at_one_pool([0, 1, 0, 1, 2])
    people = population_of(docs, np.array([1.0, 2.0, 3.0]), [(np.zeros(5), 16, 4)])
    assert people.home.tolist() == [0, 1, 2]
    assert np.all(np.isfinite(people.basis))
    assert not np.any(people.basis[:, 1:])


def test_with_two_pools_rank_has_no_curve_of_its_own() -> None:
    people = population_of(at_one_pool([0, 1, 1]), np.array([1.0, 2.0]))
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
