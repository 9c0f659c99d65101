"""What is expected of a document never comes from its own clicks."""

from dataclasses import replace

import numpy as np
import pytest
from tests.bias.logs import population

from affinerank.bias.mixture.covariates import (
    PENALTIES,
    corrected_labels,
    predict_relevance,
)
from affinerank.bias.mixture.levels import Levels
from affinerank.bias.mixture.population import MixtureDocuments
from affinerank.support.arrays import Bools, Floats, Matrix
from affinerank.support.errors import DataError

PLUS, MINUS = np.array([0.8, 0.5, 0.4]), np.array([0.4, 0.1, 0.05])


def levels_of(people: MixtureDocuments, share: float = 0.25) -> Levels:
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


def sample(n_queries: int = 30) -> tuple[MixtureDocuments, Matrix]:
    """Three documents a query, one at each rank, with features that tell relevance."""
    rng = np.random.default_rng(0)
    n = 3 * n_queries
    pool, relevant = np.tile(np.arange(3), n_queries), rng.random(n) < 0.3
    seen = np.full(n, 20)
    clicks = rng.binomial(seen, np.where(relevant, PLUS[pool], MINUS[pool]))
    query = np.repeat(np.arange(n_queries), 3)
    docs = population(query, np.arange(n + 1), pool, seen, clicks, [1, 2, 3])
    features = np.column_stack([relevant + rng.normal(size=n) / 2, rng.normal(size=n)])
    return replace(docs, half=query % 2), features.astype(np.float32)


def with_clicks(
    people: MixtureDocuments, where: Bools, clicks: Floats | float
) -> MixtureDocuments:
    return replace(people, clicks=np.where(where, clicks, people.clicks))


def test_features_predict_a_query_without_its_own_clicks() -> None:
    people, features = sample()
    levels = levels_of(people)
    here, elsewhere = people.query == 4, people.half == 1
    before = predict_relevance(people, levels, features)
    for clicks in (0.0, 20.0):
        after = predict_relevance(with_clicks(people, here, clicks), levels, features)
        np.testing.assert_array_equal(after.features[here], before.features[here])
        change = after.features[elsewhere] - before.features[elsewhere]
        assert np.max(np.abs(change)) > 1e-3


def test_the_slopes_of_a_half_are_those_of_the_other() -> None:
    """Exactly: whatever its own clicks, each prediction is one of four lines."""
    people, features = sample()
    levels = levels_of(people)
    label, precision = corrected_labels(people, levels)
    inputs = np.column_stack(
        [features, np.full((90, 3), [np.log(3), np.log(3) ** 2, 1])]
    )
    lines = []
    there = people.half == 1
    gram = (inputs[there].T * precision[there]) @ inputs[there]
    moment = (inputs[there].T * precision[there]) @ label[there]
    for penalty in (0.003, 0.03, 0.3, 3.0):
        held = gram + penalty * np.trace(gram) / 5 * np.eye(5)
        lines.append(inputs[~there] @ np.linalg.solve(held, moment))
    for clicks in (0.0, 10.0, 20.0):
        found = predict_relevance(with_clicks(people, ~there, clicks), levels, features)
        errors = [np.max(np.abs(found.features[~there] - line)) for line in lines]
        assert min(errors) < 1e-4


def test_the_covariate_of_a_query_leaves_the_document_itself_out() -> None:
    people, _ = sample()
    levels = levels_of(people)
    before = predict_relevance(people, levels, None)
    one = np.arange(90) == 13
    after = predict_relevance(with_clicks(people, one, 20.0), levels, None)
    others = (people.query == people.query[13]) & ~one
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
    found = predict_relevance(people, levels, None)
    top = label[1] * precision[1] + label[2] * precision[2]
    expected = top / (precision[1] + precision[2] + 1 / 0.02)
    assert found.query[0] == pytest.approx(expected)


def test_a_corrected_label_is_the_written_out_one() -> None:
    """One document of 10 impressions with 6 clicks, then 40 with 8; gamma = 1/4."""
    people = population([0], [0, 2], [0, 1], [10, 40], [6, 8], [1, 2, 3])
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
    levels = levels_of(people)
    useful = predict_relevance(people, levels, features)
    noise = predict_relevance(people, levels, features[:, 1:])
    assert useful.correlation > 0.4
    # 600 documents: a standard error is about 1 / sqrt(600) = 0.04
    assert abs(noise.correlation) < 0.15


def test_missing_features_are_refused() -> None:
    people, features = sample()
    features[5, 0] = np.nan
    with pytest.raises(DataError, match="features must be numbers"):
        predict_relevance(people, levels_of(people), features)


@pytest.mark.parametrize("at_once", [1, 8, 10**6])
def test_predictions_do_not_depend_on_blocks_or_on_the_order_of_features(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    people, features = sample()
    levels = levels_of(people)
    whole = predict_relevance(people, levels, features)
    monkeypatch.setattr("affinerank.support.large_arrays.ROWS_AT_ONCE", at_once)
    order = np.random.default_rng(1).permutation(len(features))
    elsewhere = replace(people, doc=np.argsort(order))
    found = predict_relevance(elsewhere, levels, features[order])
    np.testing.assert_allclose(found.features, whole.features, atol=1e-5)
    np.testing.assert_allclose(found.query, whole.query, atol=1e-5)


def test_each_half_is_predicted_by_the_written_out_ridge_of_the_other() -> None:
    people, features = sample()
    levels, half = levels_of(people), people.half
    label, precision = corrected_labels(people, levels)
    length = np.full(len(label), np.log(3.0))
    inputs = np.column_stack([features, length, length**2, np.ones(len(label))])
    found = predict_relevance(people, levels, features).features
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
