"""Intervention-aware weights: written out, and exact expectations."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ExpectedExposure
from affinerank.estimators import (
    ClipOptions,
    Evidence,
    affine,
    intervention_aware,
    policy_aware,
)
from affinerank.estimators.correction import click_variance
from affinerank.support.errors import DataError

from .conftest import CLICK_MODEL, Log, logs, one_row
from .test_unbiased import by, expected, relevances, shown, trusting_click_model

TWO = TrustModel.from_zeta([0.9, 0.5], [0.5, 0.1])


def options(clip: float | None = None) -> ClipOptions:
    return ClipOptions(clip)


@given(click_model=trusting_click_model(), gamma=relevances)
def test_it_is_unbiased_under_trust_bias(click_model: TrustModel, gamma: float) -> None:
    found = expected(by(intervention_aware), click_model, gamma)
    assert found == pytest.approx(gamma, abs=1e-9)


def test_weights_are_the_written_out_sums() -> None:
    rows = shown((8, 2), (6, 1))
    click_model = TrustModel.from_zeta([0.9, 0.2], [0.5, 0.1])
    evidence = Evidence(rows, click_model, options=options())
    clicks, alpha = 7 - 8 * 0.5 - 2 * 0.1, 8 * 0.4 + 2 * 0.1
    found = intervention_aware.weigh(evidence)
    assert found.weight[0] == pytest.approx(clicks / alpha)
    assert found.slope is not None
    np.testing.assert_allclose(found.slope, [1 / alpha, 1 / alpha])
    variance = click_variance(rows).sum() / alpha**2
    assert found.variance[0] == pytest.approx(variance)
    clipped = intervention_aware.weigh(
        Evidence(rows, click_model, options=options(0.5))
    )
    assert clipped.weight[0] == pytest.approx(clicks / (10 * 0.5))


@given(log=logs())
def test_documents_at_one_rank_have_their_affine_weight(log: Log) -> None:
    rows = log.rows
    once = np.bincount(rows.doc, minlength=rows.n_docs) == 1
    evidence = Evidence(rows, CLICK_MODEL, options=options())
    found, plain = intervention_aware.weigh(evidence), affine.weigh(evidence)
    np.testing.assert_allclose(found.weight[once], plain.weight[once])
    np.testing.assert_array_equal(found.known, plain.known)


def test_a_known_policy_is_used() -> None:
    none = np.zeros(2, dtype=np.int64)
    policy = ExpectedExposure(none, np.array([1, 2]), np.array([0.7, 0.3]))
    rows = replace(shown((8, 2), (6, 1)), exposure=policy)
    evidence = Evidence(rows, TWO, options=options())
    found = intervention_aware.weigh(evidence).weight
    np.testing.assert_array_equal(found, policy_aware.weigh(evidence).weight)
    beta = 0.7 * 0.5 + 0.3 * 0.1
    np.testing.assert_allclose(found, [(0.7 - beta) / 0.4])


def test_a_slope_of_zero_is_rejected() -> None:
    blind = TrustModel.from_eps([0.0], [0.9], [0.5])
    with pytest.raises(DataError, match="alpha is 0 for all rows"):
        intervention_aware.weigh(Evidence(one_row(), blind, options=options()))
