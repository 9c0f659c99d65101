"""Laws that hold for every row of the table of estimators."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators import ESTIMATORS, Weights
from affinerank.estimators.correction import click_variance, standard_error
from affinerank.support.arrays import Floats
from affinerank.support.errors import AffineRankError, ConfigError

from .conftest import CLICK_MODEL, Log, logs

# These logs do not say what was clicked above.
pytestmark = pytest.mark.filterwarnings("ignore:cascade propensities need")
every = pytest.mark.parametrize("name", list(ESTIMATORS))
from_clicks = pytest.mark.parametrize(
    "name", [name for name, row in ESTIMATORS.items() if row.needs != "labels"]
)


def needing(needs: str) -> pytest.MarkDecorator:
    names = [name for name, row in ESTIMATORS.items() if row.needs == needs]
    return pytest.mark.parametrize("name", names)


def assert_same(found: Weights, expected: Weights) -> None:
    np.testing.assert_array_equal(found.known, expected.known)
    for field in ("weight", "share", "variance"):
        np.testing.assert_allclose(
            getattr(found, field), getattr(expected, field), atol=1e-9
        )


@every
@given(log=logs())
def test_there_is_a_weight_for_each_document_and_a_share_for_each_query(
    name: str, log: Log
) -> None:
    weights, rows = log.weigh(name), log.rows
    assert weights.weight.shape == weights.variance.shape == (rows.n_docs,)
    assert weights.known.shape == (rows.n_docs,)
    assert weights.known.dtype == np.bool_
    assert weights.share.shape == (rows.n_queries,)
    assert weights.share.sum() == pytest.approx(1.0)
    assert np.all(np.isfinite(weights.weight) & np.isfinite(weights.variance))
    assert np.all(weights.variance >= 0)
    if weights.slope is not None:
        assert weights.slope.shape == (len(rows),)


@every
@given(log=logs())
def test_shown_documents_are_known_and_unknown_ones_have_no_weight(
    name: str, log: Log
) -> None:
    weights = log.weigh(name)
    shown = log.rows.by_doc(log.rows.impressions) > 0
    assert np.all(weights.known[shown])
    assert not np.any(weights.weight[~weights.known])
    if weights.slope is not None:
        np.testing.assert_array_equal(weights.known, shown)


@every
@given(log=logs(), seed=st.integers(0, 2**32 - 1))
def test_the_order_of_rows_changes_nothing(name: str, log: Log, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(log.rows))
    turned = replace(log, rows=log.rows.select(order))
    expected, found = log.weigh(name), turned.weigh(name)
    assert_same(found, expected)
    if expected.slope is not None and found.slope is not None:
        np.testing.assert_allclose(found.slope, expected.slope[order])


@every
@given(log=logs(), seed=st.integers(0, 2**32 - 1))
def test_numbering_documents_and_queries_anew_moves_weights_with_them(
    name: str, log: Log, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    order, queries = rng.permutation(36), rng.permutation(3)
    rows = log.rows.renumbered(order, queries)
    turned = Log(rows, log.labels[order], log.scores[order])
    plain = log.weigh(name)
    moved = Weights(
        plain.weight[order],
        plain.known[order],
        plain.share[queries],
        plain.variance[order],
    )
    assert_same(turned.weigh(name), moved)


@every
@given(log=logs())
def test_counts_and_users_are_left_alone(name: str, log: Log) -> None:
    before = [np.copy(part) for part in _arrays(log.rows)]
    alpha, beta = CLICK_MODEL.alpha.copy(), CLICK_MODEL.beta.copy()
    log.weigh(name)
    for part, copy in zip(_arrays(log.rows), before, strict=True):
        np.testing.assert_array_equal(part, copy)
    np.testing.assert_array_equal(CLICK_MODEL.alpha, alpha)
    np.testing.assert_array_equal(CLICK_MODEL.beta, beta)


def _arrays(rows: ClickRows) -> list[np.ndarray]:
    names = ("doc", "rank", "impressions", "clicks", "query_of_doc", "sessions")
    return [getattr(rows, name) for name in names]


@pytest.mark.parametrize(
    ("name", "times_alpha"),
    [
        # Each impression is corrected by itself, so each counts the same.
        ("naive", False),
        ("ips", False),
        ("bayes-ips", False),
        ("affine", False),
        # All are corrected at once, so each counts by its alpha.
        ("policy-aware", True),
        ("intervention-aware", True),
    ],
)
@given(log=logs(), seed=st.integers(0, 2**32 - 1))
def test_weights_of_a_log_are_the_mean_of_its_halves_by_impressions(
    name: str, times_alpha: bool, log: Log, seed: int
) -> None:
    whole, rows = log.weigh(name), log.rows

    def counted(part: ClickRows) -> Floats:
        alpha = CLICK_MODEL.at(part)[0] if times_alpha else 1.0
        return part.by_doc(part.impressions * alpha)

    rng = np.random.default_rng(seed)
    n, c = rows.impressions.astype(np.int64), rows.clicks.astype(np.int64)
    shown = rng.binomial(n, 0.5)
    clicks = rng.hypergeometric(c, n - c, shown)
    total = np.zeros(rows.n_docs)
    for some, clicked in ((shown, clicks), (n - shown, c - clicks)):
        part = replace(
            rows, impressions=some.astype(float), clicks=clicked.astype(float)
        )
        part = part.select(some > 0)
        if len(part):
            half = replace(log, rows=part).weigh(name)
            total += half.weight * counted(part)
    np.testing.assert_allclose(total, whole.weight * counted(rows), atol=1e-8)


@from_clicks
@given(log=logs(), data=st.data())
def test_slope_is_what_one_more_click_adds(
    name: str, log: Log, data: st.DataObject
) -> None:
    before, rows = log.weigh(name), log.rows
    if before.slope is None:
        return
    row = data.draw(st.integers(0, len(rows) - 1))
    clicks = rows.clicks.copy()
    clicks[row] += 1
    after = replace(log, rows=replace(rows, clicks=clicks)).weigh(name)
    added = np.zeros(rows.n_docs)
    added[rows.doc[row]] = before.slope[row]
    np.testing.assert_allclose(after.weight - before.weight, added, atol=1e-9)


@from_clicks
@given(log=logs())
def test_variance_is_that_of_the_clicks_times_the_squared_slope(
    name: str, log: Log
) -> None:
    weights, rows = log.weigh(name), log.rows
    error = standard_error(weights, rows)
    assert error.shape == (rows.n_docs,)
    assert np.all(error[weights.known] > 0)
    if weights.slope is not None:
        np.testing.assert_allclose(
            weights.variance, rows.by_doc(weights.slope**2 * click_variance(rows))
        )


@needing("gauge")
@given(log=logs(), a=st.floats(0.2, 5), t=st.floats(-2, 2))
def test_moving_along_the_gauge_rescales_and_shifts_every_weight_alike(
    name: str, log: Log, a: float, t: float
) -> None:
    moved = TrustModel(
        alpha=a * CLICK_MODEL.alpha,
        beta=CLICK_MODEL.beta + t * CLICK_MODEL.alpha,
        identified="relative",
        span=((0 - t) / a, (1 - t) / a),
    )
    plain, shifted = log.weigh(name), log.weigh(name, moved)
    known = plain.known
    np.testing.assert_array_equal(known, shifted.known)
    np.testing.assert_allclose(
        shifted.weight[known], (plain.weight[known] - t) / a, atol=1e-9
    )
    np.testing.assert_allclose(shifted.variance, plain.variance / a**2, rtol=1e-9)


@needing("examination")
@given(log=logs())
def test_users_known_up_to_gauge_are_rejected_where_examination_is_needed(
    name: str, log: Log
) -> None:
    gauge = TrustModel(
        alpha=CLICK_MODEL.alpha, beta=CLICK_MODEL.beta, identified="relative"
    )
    with pytest.raises(ConfigError, match="up to gauge"):
        log.weigh(name, gauge)


@every
@given(log=logs())
def test_what_an_estimator_needs_it_must_get(name: str, log: Log) -> None:
    row = ESTIMATORS[name]
    if not row.needs_click_model:
        assert_same(log.weigh(name, None), log.weigh(name))
        return
    with pytest.raises(AffineRankError, match="click model"):
        log.weigh(name, None)


@every
def test_a_row_says_what_it_is(name: str) -> None:
    row = ESTIMATORS[name]
    assert row.name == name
    assert row.title
    assert row.meaning
    assert astuple(row.options()) == astuple(row.options())
    assert row.options.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_an_estimator_that_there_is_not_is_rejected_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'magic'.*naive, ips, bayes-ips, affine"):
        ESTIMATORS["magic"]
