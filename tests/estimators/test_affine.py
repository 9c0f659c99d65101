"""Rows of a document weighed by what they know: exact, over all outcomes of clicks."""

from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators import Evidence, Weights, affine
from affinerank.support.errors import ConfigError, DataError

from .conftest import CLICK_MODEL, Log, logs, one_row

STEEP = TrustModel.from_zeta([0.9, 0.4], [0.3, 0.3])  # alpha .6 and .1
RELEVANCE = np.array([0.2, 0.7])
SHOWN = np.array([2.0, 2.0, 2.0, 3.0])


def by(rows: ClickRows, how: str, click_model: TrustModel = STEEP) -> Weights:
    options = affine.ROW.options(rows=how)
    return affine.weigh(Evidence(rows, click_model, options=options))


def two_documents(clicks: tuple[int, ...]) -> ClickRows:
    """Both shown at both ranks."""
    return ClickRows(
        doc=np.array([0, 0, 1, 1]),
        rank=np.array([1, 2, 1, 2]),
        context=np.zeros(4, dtype=np.int64),
        impressions=SHOWN,
        clicks=np.array(clicks, dtype=np.float64),
        query_of_doc=np.array([0, 0]),
        sessions=np.array([5.0]),
    )


def outcomes() -> list[tuple[float, ClickRows]]:
    """Every outcome of the clicks, with its chance."""
    rates = STEEP.click_probability([1, 2, 1, 2], np.repeat(RELEVANCE, 2))
    found = []
    for clicks in product(*(range(int(n) + 1) for n in SHOWN)):
        chance = 1.0
        for n, c, p in zip(SHOWN.astype(int), clicks, rates, strict=True):
            chance *= comb(n, c) * p**c * (1 - p) ** (n - c)
        found.append((chance, two_documents(clicks)))
    return found


def test_by_information_is_unbiased_and_knows_its_variance() -> None:
    mean, square, said = np.zeros(2), np.zeros(2), np.zeros(2)
    for chance, rows in outcomes():
        found = by(rows, "information")
        mean += chance * found.weight
        square += chance * found.weight**2
        said += chance * found.variance
    np.testing.assert_allclose(mean, RELEVANCE, atol=1e-12)
    np.testing.assert_allclose(square - mean**2, said, rtol=1e-9)


def test_by_information_varies_less_where_ranks_differ() -> None:
    variance = {}
    for how in ("equal", "information"):
        weights = [(chance, by(rows, how).weight) for chance, rows in outcomes()]
        variance[how] = sum(p * (w - RELEVANCE) ** 2 for p, w in weights)
    assert np.all(variance["information"] < 0.3 * variance["equal"])


def test_weights_are_the_written_out_sums() -> None:
    rows = two_documents((2, 1, 1, 0))
    # Click rates of the other document: (1 + .5) / (2 + 1) and (0 + .5) / (3 + 1).
    h_1, h_2 = 2 * 0.6**2 / (0.5 * 0.5), 2 * 0.1**2 / (0.125 * 0.875)
    s_1, s_2 = (2 - 2 * 0.3) / (2 * 0.6), (1 - 2 * 0.3) / (2 * 0.1)
    expected = (h_1 * s_1 + h_2 * s_2) / (h_1 + h_2)
    found = by(rows, "information")
    assert found.weight[0] == pytest.approx(expected)
    assert found.slope is not None
    slope = h_1 / (2 * 0.6) / (h_1 + h_2), h_2 / (2 * 0.1) / (h_1 + h_2)
    np.testing.assert_allclose(found.slope[:2], slope)


@given(log=logs())
def test_a_document_with_one_row_has_the_same_weight_either_way(log: Log) -> None:
    once = np.bincount(log.rows.doc, minlength=log.rows.n_docs) == 1
    plain = by(log.rows, "equal", CLICK_MODEL)
    informed = by(log.rows, "information", CLICK_MODEL)
    np.testing.assert_allclose(informed.weight[once], plain.weight[once])
    np.testing.assert_allclose(informed.variance[once], plain.variance[once])


@given(log=logs(), a=st.floats(0.2, 5), t=st.floats(-2, 2))
def test_by_information_moves_with_the_gauge(log: Log, a: float, t: float) -> None:
    moved = TrustModel(
        alpha=a * CLICK_MODEL.alpha,
        beta=CLICK_MODEL.beta + t * CLICK_MODEL.alpha,
        identified="relative",
    )
    plain = by(log.rows, "information", CLICK_MODEL)
    shifted = by(log.rows, "information", moved)
    known = plain.known
    np.testing.assert_allclose(
        shifted.weight[known], (plain.weight[known] - t) / a, atol=1e-9
    )


def test_slopes_that_are_all_zero_are_rejected_as_they_are_without() -> None:
    blind = TrustModel.from_eps([0.0], [0.9], [0.5])
    with pytest.raises(DataError, match="alpha is 0 for all rows"):
        by(one_row(), "information", blind)


def test_what_is_no_way_to_weigh_rows_is_rejected() -> None:
    with pytest.raises(ConfigError, match="'all'"):
        affine.ROW.options(rows="all")
    with pytest.raises(ConfigError, match="'ten'"):
        affine.ROW.options(clip="ten")
