"""Errors modulo gauge: the definition, minimised by brute force, and its laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from affinerank.bias.gauge import click_model_error, display_gauge, inference_gauge
from affinerank.clicks.models.trust import TrustModel
from affinerank.support.arrays import Floats
from affinerank.support.errors import DataError

Case = tuple[TrustModel, TrustModel, list[float]]

SLOPE = st.floats(0.05, 2.0)
INTERCEPT = st.integers(-1000, 1000).map(lambda n: n / 1000)
TRUTH = TrustModel.from_zeta([0.9, 0.6, 0.4], [0.5, 0.2, 0.1])


def model(alpha: list[float], beta: list[float]) -> TrustModel:
    return TrustModel(alpha=np.array(alpha), beta=np.array(beta), identified="relative")


def in_gauge(click_model: TrustModel, a: float, t: float) -> TrustModel:
    return model(
        (a * click_model.alpha).tolist(),
        (click_model.beta + t * click_model.alpha).tolist(),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n = draw(st.integers(1, 4))

    def several(one: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(one, min_size=n, max_size=n))

    estimate = model(several(SLOPE), several(INTERCEPT))
    truth = model(several(SLOPE), several(INTERCEPT))
    return estimate, truth, several(st.floats(0.1, 10.0))


def by_definition(estimate: TrustModel, truth: TrustModel, seen: list[float]) -> float:
    """The least E over a > 0 and t, sought by a method that knows no formula."""
    share = [n / sum(seen) for n in seen]

    def squared(point: Floats) -> float:
        a = float(np.exp(point[0]))
        t = a * point[1]  # measured in a, so that the valley does not bend
        total = 0.0
        for k, w in enumerate(share):
            for gamma in (0, 1):
                clicks = truth.alpha[k] * gamma + truth.beta[k]
                label = (clicks - estimate.beta[k]) / estimate.alpha[k]
                total += w / 2 * (label - (a * gamma + t)) ** 2 / a**2
        return total

    found = [
        minimize(
            squared,
            (np.log(a), 0.0),
            method="Nelder-Mead",
            bounds=[(-15.0, 15.0), (-1e6, 1e6)],
            options={"xatol": 1e-7, "fatol": 1e-12, "maxiter": 2000},
        ).fun
        for a in (0.1, 1.0, 10.0)
    ]
    return float(np.sqrt(max(min(found), 0.0)))


@settings(max_examples=25)
@given(cases())
def test_the_closed_form_is_the_least_over_all_gauges(case: Case) -> None:
    expected = by_definition(*case)
    assert click_model_error(*case).error == pytest.approx(expected, abs=2e-4)


@given(cases(), st.floats(0.1, 10), st.floats(-3, 3))
def test_the_gauge_of_the_estimate_does_not_matter(
    case: Case, a: float, t: float
) -> None:
    estimate, truth, seen = case
    found = click_model_error(in_gauge(estimate, a, t), truth, seen).error
    # E is the root of a difference: rounding shows as its root.
    assert found == pytest.approx(click_model_error(*case).error, abs=1e-6)


@given(st.floats(0.1, 10), st.floats(-3, 3))
def test_the_truth_in_any_gauge_is_without_error(a: float, t: float) -> None:
    found = click_model_error(in_gauge(TRUTH, a, t), TRUTH, [5, 2, 1])
    assert found.error == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(found.alpha, TRUTH.alpha)
    np.testing.assert_allclose(found.beta, TRUTH.beta)
    assert found.alpha_absolute == pytest.approx(0.0, abs=1e-9)
    assert found.beta_relative == pytest.approx(0.0, abs=1e-9)


@given(cases())
def test_nothing_is_worse_than_one_half(case: Case) -> None:
    assert 0 <= click_model_error(*case).error <= 0.5


def test_relevance_upside_down_is_as_bad_as_it_gets() -> None:
    upside_down = model([-0.4, -0.4, -0.3], [0.9, 0.6, 0.4])
    assert click_model_error(upside_down, TRUTH, [1, 1, 1]).error == 0.5


def test_the_error_of_two_ranks_is_the_written_out_one() -> None:
    """Labels 0, 1 at the first rank and 1, 2 at the second, seen equally often.

    Their covariance with relevance is 1/4 and their variance 1/2, so E^2 is
    1/4 - (1/4)^2 / (1/2) = 1/8; the best line is relevance = label / 2.
    """
    truth, estimate = model([0.4, 0.4], [0.1, 0.1]), model([0.4, 0.4], [0.1, -0.3])
    found = click_model_error(estimate, truth, [3, 3])
    assert found.error == pytest.approx(np.sqrt(1 / 8))
    # relevance = (clicks - beta) / alpha / 2, so alpha is twice 0.4
    np.testing.assert_allclose(found.alpha, [0.8, 0.8])
    np.testing.assert_allclose(found.beta, [0.1, -0.3])
    assert found.alpha_absolute == pytest.approx(0.4)
    assert found.beta_absolute == pytest.approx(0.2)
    assert found.alpha_relative == pytest.approx(1.0)
    assert found.beta_relative == pytest.approx((0 + 4) / 2)


def test_a_rank_that_was_never_seen_does_not_matter() -> None:
    estimate, wrong = model([0.5, 0.2], [0.3, 0.1]), model([0.5, 0.0], [0.3, 7.0])
    truth = model([0.4, 0.3], [0.2, 0.2])
    assert (
        click_model_error(estimate, truth, [4, 0]).error
        == click_model_error(wrong, truth, [4, 0]).error
        == pytest.approx(0.0, abs=1e-7)
    )


def test_a_true_intercept_of_zero_has_no_relative_error() -> None:
    found = click_model_error(
        TRUTH, TrustModel.position_bias([0.9, 0.5, 0.3]), [1, 1, 1]
    )
    assert np.isnan(found.beta_relative)
    assert np.isfinite(found.alpha_relative)


@given(cases())
def test_display_takes_the_first_rank_as_its_unit(case: Case) -> None:
    click_model, _, seen = case
    shown = display_gauge(click_model)
    assert (shown.alpha[0], shown.beta[0]) == pytest.approx((1.0, 0.0))
    assert shown.identified == "relative"
    assert click_model_error(shown, click_model, seen).error == pytest.approx(
        0.0, abs=1e-6
    )


@given(cases())
def test_inference_takes_the_mean_over_impressions_as_its_unit(case: Case) -> None:
    click_model, _, seen = case
    shown = inference_gauge(click_model, seen)
    share = np.array(seen) / np.sum(seen)
    assert share @ shown.alpha == pytest.approx(1.0)
    assert share @ (shown.beta / shown.alpha) == pytest.approx(0.0, abs=1e-9)
    assert click_model_error(shown, click_model, seen).error == pytest.approx(
        0.0, abs=1e-6
    )


def test_a_slope_of_zero_is_refused_where_it_was_seen() -> None:
    flat = model([0.5, 0.0], [0.1, 0.1])
    truth = model([0.5, 0.4], [0.1, 0.1])
    with pytest.raises(DataError, match="rank 2: the estimated alpha is 0"):
        click_model_error(flat, truth, [1, 1])
    with pytest.raises(DataError, match="alpha is 0 at a rank, or on average"):
        inference_gauge(flat, [1, 1])
    with pytest.raises(DataError, match="on average"):
        inference_gauge(model([0.5, -0.5], [0.1, 0.1]), [1, 1])
    with pytest.raises(DataError, match="rank 1: alpha is 0"):
        display_gauge(model([0.0, 0.5], [0.1, 0.1]))


@pytest.mark.parametrize("seen", [[1.0, -1.0], [0.0, 0.0], [[1.0, 1.0]], [np.nan, 1.0]])
def test_impressions_that_are_none_are_refused(seen: list[float]) -> None:
    with pytest.raises(DataError, match="one number per rank, 0 or more, not all 0"):
        click_model_error(TRUTH, TRUTH, seen)
