"""Expectations, exact: summed over all outcomes of the clicks of a document."""

from collections.abc import Callable
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators import Evidence, affine, bayes_ips, ips, naive
from affinerank.estimators.correction import corrected

from .conftest import Log, logs

probabilities = st.floats(0.1, 0.99)
relevances = st.floats(0, 1)
Weigh = Callable[[ClickRows, TrustModel], float]


@st.composite
def trusting_click_model(draw: st.DrawFn) -> TrustModel:
    """Users of two ranks, eps+ above eps- by 0.1 or more at both."""
    theta = [draw(st.floats(0.1, 1)) for _ in range(2)]
    minus = [draw(st.floats(0.01, 0.85)) for _ in range(2)]
    plus = [draw(st.floats(low + 0.1, 1)) for low in minus]
    return TrustModel.from_eps(theta, plus, minus)


def shown(impressions: tuple[int, ...], clicks: tuple[int, ...]) -> ClickRows:
    """One document, shown at ranks 1 and 2."""
    return ClickRows(
        doc=np.array([0, 0]),
        rank=np.array([1, 2]),
        context=np.array([0, 0]),
        impressions=np.array(impressions, dtype=np.float64),
        clicks=np.array(clicks, dtype=np.float64),
        query_of_doc=np.array([0]),
        sessions=np.array([float(sum(impressions))]),
    )


def expected(weigh: Weigh, click_model: TrustModel, gamma: float) -> float:
    """Mean weight over all outcomes of 2 impressions at rank 1 and 1 at rank 2."""
    impressions, total = (2, 1), 0.0
    rates = click_model.click_probability([1, 2], [gamma, gamma])
    for clicks in product(*(range(n + 1) for n in impressions)):
        chance = 1.0
        for n, c, p in zip(impressions, clicks, rates, strict=True):
            chance *= comb(n, c) * p**c * (1 - p) ** (n - c)
        total += chance * weigh(shown(impressions, clicks), click_model)
    return total


def by(row: object) -> Weigh:
    """Weigh by a row of the table."""

    def weigh(rows: ClickRows, click_model: TrustModel) -> float:
        found = row.ROW  # type: ignore[attr-defined]
        return float(
            found.weigh(Evidence(rows, click_model, options=found.options())).weight[0]
        )

    return weigh


@given(click_model=trusting_click_model(), gamma=relevances)
def test_affine_is_unbiased_under_trust_bias(
    click_model: TrustModel, gamma: float
) -> None:
    assert expected(by(affine), click_model, gamma) == pytest.approx(gamma, abs=1e-9)


@given(theta=st.tuples(probabilities, probabilities), gamma=relevances)
def test_ips_is_unbiased_under_position_bias(
    theta: tuple[float, float], gamma: float
) -> None:
    click_model = TrustModel.position_bias(theta)
    for row in (ips, bayes_ips, affine):
        assert expected(by(row), click_model, gamma) == pytest.approx(gamma, abs=1e-9)


@given(gamma=relevances)
def test_naive_is_unbiased_where_everything_is_examined(gamma: float) -> None:
    click_model = TrustModel.position_bias([1.0, 1.0])
    assert expected(by(naive), click_model, gamma) == pytest.approx(gamma, abs=1e-12)


@given(theta=probabilities, plus=probabilities, minus=probabilities, gamma=relevances)
def test_bayes_ips_has_exactly_the_bias_of_the_paper(
    theta: float, plus: float, minus: float, gamma: float
) -> None:
    click_model = TrustModel.from_eps([theta] * 2, [plus] * 2, [minus] * 2)
    slope = 1 - plus * (plus - minus) / (plus + minus)
    bias = slope * gamma - plus * minus / (plus + minus)
    found = expected(by(bayes_ips), click_model, gamma)
    assert gamma - found == pytest.approx(bias, abs=1e-12)


@given(click_model=trusting_click_model(), gamma=st.floats(0.01, 1))
def test_a_propensity_that_knows_relevance_is_unbiased(
    click_model: TrustModel, gamma: float
) -> None:
    """Which is of no use: the propensity is the click rate over relevance."""
    rho = (click_model.alpha * gamma + click_model.beta) / gamma

    def weigh(rows: ClickRows, _: TrustModel) -> float:
        return float(corrected(rows, rho).weight[0])

    assert expected(weigh, click_model, gamma) == pytest.approx(gamma, abs=1e-12)


@given(log=logs(), minus=st.floats(0.05, 0.4), plus=st.floats(0.5, 0.95))
def test_without_trust_bias_affine_and_ips_rank_alike(
    log: Log, minus: float, plus: float
) -> None:
    theta = 1.0 / np.arange(1, 11)
    click_model = TrustModel.from_eps(theta, np.full(10, plus), np.full(10, minus))
    by_ips, by_affine = (log.weigh(row.ROW.name, click_model) for row in (ips, affine))
    known = by_ips.known
    np.testing.assert_allclose(
        by_affine.weight[known],
        (by_ips.weight[known] - minus) / (plus - minus),
        atol=1e-9,
    )
