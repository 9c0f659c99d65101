"""What is expected of a document never comes from its own clicks."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from affinerank.bias.cells import Population, population_of
from affinerank.bias.covariates import (
    PENALTIES,
    corrected_labels,
    halves_of,
    predict_relevance,
)
from affinerank.bias.documents import Documents
from affinerank.bias.mixture import Levels
from affinerank.errors import DataError

Floats = NDArray[np.float64]

PLUS, MINUS = np.array([0.8, 0.5, 0.4]), np.array([0.4, 0.1, 0.05])


def levels_of(people: Population, share: float = 0.25) -> Levels:
    """Two levels; a document is relevant with probability ``share``."""
    ratio = np.log(PLUS / MINUS)
    return Levels(
        PLUS,
        ratio,
        np.array([0.0, 1.0]),
        np.array([0.0, np.log(share / (1 - share))]),
        np.zeros(people.basis.shape[1]),
        np.zeros(3),
        float(ratio.mean()),
    )


def sample(n_queries: int = 30) -> tuple[Population, NDArray[np.float32]]:
    """Three documents a query, one at each rank, with features that tell relevance."""
    rng = np.random.default_rng(0)
    n = 3 * n_queries
    pool, relevant = np.tile(np.arange(3), n_queries), rng.random(n) < 0.3
    seen = np.full(n, 20)
    clicks = rng.binomial(seen, np.where(relevant, PLUS[pool], MINUS[pool]))
    docs = Documents(
        np.repeat(np.arange(n_queries), 3),
        np.arange(n + 1),
        pool,
        seen.astype(float),
        clicks.astype(float),
    )
    features = np.column_stack([relevant + rng.normal(size=n) / 2, rng.normal(size=n)])
    return population_of(docs, np.arange(1.0, 4.0)), features.astype(np.float32)


def with_clicks(people: Population, where: NDArray[np.bool_], clicks: float) -> Floats:
    return np.where(where, clicks, people.documents.clicks)


HALF = np.arange(30) % 2


def test_features_predict_a_query_without_its_own_clicks() -> None:
    people, features = sample()
    query = people.documents.query
    levels, half = levels_of(people), HALF[query]
    here, elsewhere = query == 4, half != HALF[4]
    before = predict_relevance(people, levels, features, half)
    for clicks in (0.0, 20.0):
        other = replace(people.documents, clicks=with_clicks(people, here, clicks))
        after = predict_relevance(people.with_documents(other), levels, features, half)
        np.testing.assert_array_equal(after.features[here], before.features[here])
        change = after.features[elsewhere] - before.features[elsewhere]
        assert np.max(np.abs(change)) > 1e-3


def test_the_slopes_of_a_half_are_those_of_the_other() -> None:
    """Exactly: whatever its own clicks, each prediction is one of four lines."""
    people, features = sample()
    rows = people.documents
    levels, half = levels_of(people), HALF[rows.query]
    label, precision = corrected_labels(people, levels)
    inputs = np.column_stack(
        [features, np.full((90, 3), [np.log(3), np.log(3) ** 2, 1])]
    )
    lines = []
    there = half == 1
    gram = (inputs[there].T * precision[there]) @ inputs[there]
    moment = (inputs[there].T * precision[there]) @ label[there]
    for penalty in (0.003, 0.03, 0.3, 3.0):
        held = gram + penalty * np.trace(gram) / 5 * np.eye(5)
        lines.append(inputs[~there] @ np.linalg.solve(held, moment))
    for clicks in (0.0, 10.0, 20.0):
        other = replace(rows, clicks=np.where(there, rows.clicks, clicks))
        found = predict_relevance(people.with_documents(other), levels, features, half)
        errors = [np.max(np.abs(found.features[~there] - line)) for line in lines]
        assert min(errors) < 1e-4


def test_the_covariate_of_a_query_leaves_the_document_itself_out() -> None:
    people, _ = sample()
    levels, half = levels_of(people), HALF[people.documents.query]
    before = predict_relevance(people, levels, None, half)
    one = np.arange(90) == 13
    changed = replace(people.documents, clicks=with_clicks(people, one, 20.0))
    after = predict_relevance(people.with_documents(changed), levels, None, half)
    others = (people.documents.query == people.documents.query[13]) & ~one
    assert after.query[13] == pytest.approx(before.query[13])
    assert np.all(after.query[others] > before.query[others])
    rest = ~others & ~one
    np.testing.assert_array_equal(after.query[rest], before.query[rest])
    assert not np.any(before.features)
    assert before.correlation == 0


def test_the_covariate_of_a_query_is_the_shrunk_mean_of_the_others() -> None:
    people, _ = sample()
    levels = levels_of(people)
    label, precision = corrected_labels(people, levels)
    found = predict_relevance(people, levels, None, HALF[people.documents.query])
    top = label[1] * precision[1] + label[2] * precision[2]
    expected = top / (precision[1] + precision[2] + 1 / 0.02)
    assert found.query[0] == pytest.approx(expected)


def test_a_corrected_label_is_the_written_out_one() -> None:
    """One document of 10 impressions with 6 clicks, then 40 with 8; gamma = 1/4."""
    docs = Documents(
        np.array([0]),
        np.array([0, 2]),
        np.array([0, 1]),
        np.array([10.0, 40.0]),
        np.array([6.0, 8.0]),
    )
    people = population_of(docs, np.arange(1.0, 4.0))
    label, precision = corrected_labels(people, levels_of(people, 0.25))
    # alpha is 0.4 at both ranks; click rates are 0.4 + 0.1 and 0.1 + 0.1
    told = [0.4**2 / (0.5 * 0.5), 0.4**2 / (0.2 * 0.8)]
    each = [(6 - 0.4 * 10) / 0.4 / 10, (8 - 0.1 * 40) / 0.4 / 40]
    known = told[0] * 10 + told[1] * 40
    expected = (told[0] * 10 * each[0] + told[1] * 40 * each[1]) / known
    np.testing.assert_allclose(label, [expected])
    np.testing.assert_allclose(precision, [1 / (1 / known + 0.1)])


def test_features_that_tell_relevance_correlate_and_noise_does_not() -> None:
    people, features = sample(200)
    half = (np.arange(200) % 2)[people.documents.query]
    levels = levels_of(people)
    told = predict_relevance(people, levels, features, half)
    noise = predict_relevance(people, levels, features[:, 1:], half)
    assert told.correlation > 0.4
    # 600 documents: a standard error is about 1 / sqrt(600) = 0.04
    assert abs(noise.correlation) < 0.15


def test_missing_features_are_refused() -> None:
    people, features = sample()
    features[5, 0] = np.nan
    with pytest.raises(DataError, match="features must be numbers"):
        predict_relevance(
            people, levels_of(people), features, HALF[people.documents.query]
        )


@pytest.mark.parametrize("n", [1, 2, 7, 10])
def test_halves_are_as_equal_as_can_be(n: int) -> None:
    half = halves_of(np.repeat(np.arange(n), 2), np.random.default_rng(0))
    assert sorted(half.tolist()) == sorted([i % 2 for i in range(n)])


def test_halves_are_of_the_queries_that_occur() -> None:
    """Six of 301: three are in each half, whatever the stream."""
    query = np.array([300, 7, 7, 90, 2, 50, 51])
    for seed in range(20):
        half = halves_of(query, np.random.default_rng(seed))
        assert len(half) == 301
        assert half[np.unique(query)].sum() == half.sum() == 3


@pytest.mark.parametrize("at_once", [1, 8, 10**6])
def test_predictions_do_not_depend_on_blocks_or_on_the_order_of_features(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    people, features = sample()
    levels, half = levels_of(people), HALF[people.documents.query]
    whole = predict_relevance(people, levels, features, half)
    monkeypatch.setattr("affinerank.data.mapped.ROWS_AT_ONCE", at_once)
    order = np.random.default_rng(1).permutation(len(features))
    place = np.argsort(order)
    found = predict_relevance(people, levels, features[order], half, row_of_doc=place)
    np.testing.assert_allclose(found.features, whole.features, atol=1e-5)
    np.testing.assert_allclose(found.query, whole.query, atol=1e-5)


def test_each_half_is_predicted_by_the_written_out_ridge_of_the_other() -> None:
    people, features = sample()
    levels, half = levels_of(people), HALF[people.documents.query]
    label, precision = corrected_labels(people, levels)
    length = np.full(len(label), np.log(3.0))
    inputs = np.column_stack([features, length, length**2, np.ones(len(label))])
    found = predict_relevance(people, levels, features, half).features
    for side in (0, 1):
        there, other = half == side, half != side
        x, w = inputs[other], precision[other, None]
        gram, moment = x.T @ (w * x), x.T @ (precision * label)[other]
        fits = []
        for penalty in PENALTIES:
            ridge = penalty * np.trace(gram) / len(gram) * np.eye(len(gram))
            slope = np.linalg.solve(gram + ridge, moment)
            rest = np.sum(precision[other] * (label[other] - x @ slope) ** 2)
            freedom = np.trace(np.linalg.solve(gram + ridge, gram))
            fits.append((rest / (1 - freedom / len(x)) ** 2, slope))
        best = min(fits, key=lambda fit: fit[0])[1]
        np.testing.assert_allclose(found[there], inputs[there] @ best, atol=1e-3)
