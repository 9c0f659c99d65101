"""Corrected clicks, their variances and errors: written out."""

from math import comb

import numpy as np
import pytest

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.estimators import (
    ESTIMATORS,
    ClipOptions,
    Evidence,
    Weights,
    affine,
    bayes_ips,
    ips,
)
from affinerank.estimators.correction import (
    click_variance,
    corrected,
    smoothed_variance,
    standard_error,
)
from affinerank.estimators.estimator import parse_clip
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError

from .conftest import one_row


def by_affine(
    rows: ClickRows, click_model: TrustModel, clip: str | None = None
) -> Weights:
    return affine.weigh(Evidence(rows, click_model, options=ClipOptions(clip)))


def test_weights_are_the_written_out_sums_and_the_unseen_are_masked() -> None:
    counts = ClickCounts.from_columns(
        query_id=[1, 1, 1, 2],
        doc_id=["a", "a", "b", "a"],
        rank=[1, 2, 2, 1],
        impressions=[4, 6, 4, 5],
        clicks=[3, 1, 2, 5],
        sessions=[10, 10, 10, 5],
    )
    data = RankingDataset.from_rows(
        [[0.0]] * 4, [1, 1, 1, 2], doc_ids=["a", "b", "c", "a"]
    )
    click_model = TrustModel.from_eps([1.0, 0.5], [0.9, 0.8], [0.5, 0.2])
    weights = by_affine(join_counts(counts, data), click_model)
    a = ((3 - 0.5 * 4) / 0.4 + (1 - 0.1 * 6) / 0.3) / 10
    b = ((2 - 0.1 * 4) / 0.3) / 4
    c = ((5 - 0.5 * 5) / 0.4) / 5
    np.testing.assert_allclose(weights.weight, [a, b, 0.0, c])
    assert weights.known.tolist() == [True, True, False, True]
    np.testing.assert_allclose(weights.share, [10 / 15, 5 / 15])


def test_an_error_is_the_written_out_sum() -> None:
    counts = ClickCounts.from_columns(
        query_id=["q", "q"],
        doc_id=["a", "a"],
        rank=[1, 2],
        impressions=[8, 2],
        clicks=[6, 1],
    )
    rows = join_counts(counts)
    weights = by_affine(rows, TrustModel.from_zeta([0.9, 0.5], [0.5, 0.1]))
    relevance = ((6 - 0.5 * 8) / 0.4 + (1 - 0.1 * 2) / 0.4) / 10
    variance = (6 * 2 / 7 + 1 * 1 / 1) / 0.4**2 / 10**2
    assert weights.weight[0] == pytest.approx(relevance)
    assert weights.variance[0] == pytest.approx(variance)
    smoothed = 0.0
    for shown, clicks in ((8, 6), (2, 1)):
        mean = (clicks + 0.5) / (shown + 1)  # its rank has no one else
        rate = (clicks + 0.5) / (shown + 0.5 / mean)
        smoothed += shown * rate * (1 - rate) / 0.4**2
    assert standard_error(weights, rows)[0] == pytest.approx(np.sqrt(smoothed) / 10)


def test_an_irrelevant_document_shown_often_has_expected_weight_zero() -> None:
    click_model, shown = TrustModel.paper(depth=3), 1000
    for rank in (1, 2, 3):
        rows = one_row(shown * click_model.beta[rank - 1], rank, shown)  # as expected
        assert by_affine(rows, click_model).weight[0] == pytest.approx(0.0, abs=1e-12)


def test_rows_that_nobody_saw_change_nothing() -> None:
    counts = ClickCounts.from_columns(
        query_id=["q", "q"],
        doc_id=["d", "d"],
        rank=[1, 2],
        impressions=[4, 0],
        clicks=[3, 0],
        sessions=[4, 4],
    )
    click_model = TrustModel.from_eps([1.0, 0.0], [0.9, 0.9], [0.5, 0.5])
    weights = by_affine(join_counts(counts), click_model)
    assert weights.weight[0] == pytest.approx((3 - 0.5 * 4) / 0.4 / 4)


@pytest.mark.parametrize("shown", [1, 2, 7])
def test_the_variance_of_clicks_is_unbiased(shown: int) -> None:
    """In exact expectation; one impression rests on the rank, of the same rate."""
    rate, expected = 0.3, 0.0
    for clicks in range(shown + 1):
        counts = ClickCounts.from_columns(
            query_id=["q", "r"],
            doc_id=["a", "b"],
            rank=[1, 1],
            impressions=[shown, 10**9],
            clicks=[clicks, 3 * 10**8],
        )
        chance = comb(shown, clicks) * rate**clicks * (1 - rate) ** (shown - clicks)
        expected += chance * click_variance(join_counts(counts))[0]
    assert expected == pytest.approx(shown * rate * (1 - rate), rel=1e-6)


def test_a_document_without_clicks_still_has_an_error() -> None:
    counts = ClickCounts.from_columns(
        query_id=["q", "q", "r"],
        doc_id=["a", "b", "c"],
        rank=[1, 2, 1],
        impressions=[5, 5, 5],
        clicks=[0, 0, 2],
    )
    rows = join_counts(counts)
    assert click_variance(rows).tolist() == [0.0, 0.0, 2 * 3 / 4]
    assert np.all(smoothed_variance(rows) > 0)


def test_an_estimator_that_is_not_linear_has_the_error_that_it_says() -> None:
    known = np.array([True])
    weights = Weights(np.array([0.4]), known, np.array([1.0]), np.array([0.09]))
    assert standard_error(weights, one_row()).tolist() == pytest.approx([0.3])


def test_rows_with_a_zero_slope_say_nothing() -> None:
    """Nobody looks at rank 2, where document 1 stands, and document 0 stood too."""
    rows = join_counts(
        ClickCounts.from_columns(
            query_id=[0, 0, 0],
            doc_id=[0, 0, 1],
            rank=[1, 2, 2],
            impressions=[10, 5, 5],
            clicks=[4, 0, 0],
        )
    )
    alpha, beta = np.array([0.5, 0.0, 0.0]), np.array([0.1, 0.0, 0.0])
    found = corrected(rows, alpha, beta)
    assert found.weight.tolist() == pytest.approx([(0.4 - 0.1) / 0.5, 0.0])
    assert found.known.tolist() == [True, False]
    assert np.all(np.isfinite(found.variance))


def test_slopes_that_are_all_zero_are_rejected_with_the_papers_two_reasons() -> None:
    blind = TrustModel.from_eps([0.0], [0.9], [0.5])
    with pytest.raises(DataError, match=r"nothing is examined.*clicked alike"):
        by_affine(one_row(), blind)
    with pytest.raises(DataError, match="finite"):
        corrected(one_row(), np.array([np.inf]))


def test_a_negative_slope_is_warned_of() -> None:
    with pytest.warns(AffineRankWarning, match="below 0 for 1 rows"):
        by_affine(one_row(), TrustModel.from_eps([1.0], [0.2], [0.5]))


def test_click_rates_alone_make_ips_a_convention_with_a_warning() -> None:
    rates = TrustModel.from_zeta([0.8], [0.2])
    for row, alpha in ((ips.ROW, 0.8), (bayes_ips.ROW, 0.8 * 1.25)):
        with pytest.warns(AffineRankWarning, match=r"theta is taken to be zeta\+"):
            weights = row.weigh(Evidence(one_row(1), rates, options=ClipOptions()))
        assert weights.weight[0] == pytest.approx(1 / alpha)


def test_ranks_below_the_users_take_the_last_values_with_a_warning() -> None:
    click_model = TrustModel.from_eps([1.0, 0.5], [0.9, 0.8], [0.5, 0.2])
    with pytest.warns(AffineRankWarning, match="ends at rank 2"):
        weights = by_affine(one_row(1, rank=5), click_model)
    assert weights.weight[0] == pytest.approx((1 - 0.1) / 0.3)


def test_clipping_raises_small_slopes_only() -> None:
    counts = ClickCounts.from_columns(
        query_id=[1, 1],
        doc_id=[1, 2],
        rank=[1, 2],
        impressions=[100, 100],
        clicks=[30, 30],
    )
    rows = join_counts(counts)
    click_model = TrustModel.from_eps([1.0, 0.1], [0.9, 0.9], [0.1, 0.1])  # .8 and .08
    for clip, slopes in (("0.5", (0.8, 0.5)), ("2/sqrt(n)", (0.8, 0.2))):
        weights = by_affine(rows, click_model, clip)
        expected = [(0.3 - 0.1) / slopes[0], (0.3 - 0.01) / slopes[1]]
        np.testing.assert_allclose(weights.weight, expected)
    negative = TrustModel.from_eps([1.0, 0.1], [0.1, 0.9], [0.9, 0.1])
    with pytest.warns(AffineRankWarning, match="below 0"):
        weights = by_affine(rows, negative, "0.5")
    assert weights.weight[0] == pytest.approx((0.3 - 0.9) / -0.8)


def test_a_rule_by_sessions_is_read_and_never_above_one() -> None:
    assert parse_clip("10/sqrt(n)", 4) == 1.0
    assert parse_clip(0.05, 4) == 0.05
    assert ESTIMATORS[ips.ROW.name].options is ClipOptions


@pytest.mark.parametrize("clip", ["ten", "-1", "10/n", "", "1/sqrt(n", "1e"])
def test_what_is_no_rule_is_rejected(clip: str) -> None:
    with pytest.raises(ConfigError, match="clip must be") as fault:
        ClipOptions(clip)
    assert repr(clip) in str(fault.value)
