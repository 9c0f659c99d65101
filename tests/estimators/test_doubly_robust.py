"""Between what features predict and what own clicks say."""

import numpy as np
import pytest

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators import (
    ClipOptions,
    Evidence,
    Fold,
    Weights,
    direct,
    doubly_robust,
    intervention_aware,
)
from affinerank.estimators.correction import smoothed_variance
from affinerank.estimators.estimator import CLICKS
from affinerank.support.errors import ConfigError

CLICK_MODEL = TrustModel.from_zeta([0.9, 0.5], [0.4, 0.1])  # alpha .5 and .4
# Two documents of a query of 10 sessions and one never shown; one of another query.
ROWS = ClickRows(
    doc=np.array([0, 0, 1, 1, 3]),
    rank=np.array([1, 2, 1, 2, 1]),
    context=np.zeros(5, dtype=np.int64),
    impressions=np.array([8.0, 2.0, 2.0, 5.0, 6.0]),
    clicks=np.array([6.0, 1.0, 2.0, 1.0, 3.0]),
    query_of_doc=np.array([0, 0, 0, 1]),
    sessions=np.array([10.0, 6.0]),
)
FIRST = np.array([True, False])
SCORES = {CLICKS: np.array([1.0, -1.0, 0.5, 2.0])}
FOLDS = [Fold(~FIRST, FIRST, SCORES), Fold(FIRST, ~FIRST, SCORES)]


def by(
    tau: str | float | None = None, click_model: TrustModel = CLICK_MODEL
) -> Weights:
    kind = doubly_robust.ROW.options
    options = kind() if tau is None else kind(tau=tau)
    return doubly_robust.weigh(
        Evidence(ROWS, click_model, folds=FOLDS, options=options)
    )


PREDICTED = direct.weigh(Evidence(ROWS, CLICK_MODEL, folds=FOLDS))
OWN = intervention_aware.weigh(Evidence(ROWS, CLICK_MODEL, options=ClipOptions()))


def test_without_a_threshold_own_clicks_decide_where_there_are_some() -> None:
    found, shown = by(0), OWN.known
    np.testing.assert_allclose(found.weight[shown], OWN.weight[shown])
    assert found.own_click_share is not None
    np.testing.assert_allclose(found.own_click_share, shown)
    np.testing.assert_allclose(found.weight[~shown], PREDICTED.weight[~shown])
    np.testing.assert_allclose(found.variance[~shown], PREDICTED.variance[~shown])
    assert found.known.all()


def test_with_a_huge_threshold_features_decide() -> None:
    found = by(1e12)
    np.testing.assert_allclose(found.weight, PREDICTED.weight, atol=1e-9)
    np.testing.assert_allclose(found.variance, PREDICTED.variance, atol=1e-9)


def test_weights_are_the_written_out_sums() -> None:
    found = by(0.4)
    a = 2 * 0.5 + 5 * 0.4
    s = 3 - 2 * 0.4 - 5 * 0.1
    own_click_share = a / (0.4 * 10)
    r = PREDICTED.weight[1]
    assert found.weight[1] == pytest.approx(r + own_click_share * (s / a - r))
    assert found.own_click_share is not None
    np.testing.assert_allclose(
        found.own_click_share, [1, own_click_share, 0, 1]
    )  # 4.8 > 4, 3 < 4
    clicking = smoothed_variance(ROWS)[2:4].sum() / a**2
    variance = (1 - own_click_share) ** 2 * PREDICTED.variance[
        1
    ] + own_click_share**2 * clicking
    assert found.variance[1] == pytest.approx(variance)


def test_the_rule_goes_by_sessions() -> None:
    np.testing.assert_array_equal(by("2/sqrt(n)").weight, by(2 / np.sqrt(16)).weight)
    np.testing.assert_array_equal(by().weight, by(1.0).weight)  # 10/sqrt(16) is above


def test_weights_move_with_the_gauge() -> None:
    a, t = 0.4, -0.7
    moved = TrustModel(
        alpha=a * CLICK_MODEL.alpha,
        beta=CLICK_MODEL.beta + t * CLICK_MODEL.alpha,
        identified="relative",
        span=((0 - t) / a, (1 - t) / a),
    )
    plain, shifted = by(0.4), by(0.4, moved)
    np.testing.assert_allclose(shifted.weight, (plain.weight - t) / a)
    np.testing.assert_allclose(shifted.variance, plain.variance / a**2)
    assert plain.own_click_share is not None
    assert shifted.own_click_share is not None
    np.testing.assert_allclose(shifted.own_click_share, plain.own_click_share)


def test_what_it_cannot_do_without_is_asked_for() -> None:
    row = doubly_robust.ROW
    assert row.learns(row.options()) == (CLICKS,)
    with pytest.raises(ConfigError, match=f"{row.name} needs features"):
        doubly_robust.weigh(Evidence(ROWS, CLICK_MODEL, options=row.options()))
    with pytest.raises(ConfigError, match=r"tau must be.*'ten'"):
        row.options(tau="ten")
