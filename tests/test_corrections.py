"""The theory, carried out: exact expectations over the two outcomes of a click."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import join_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import (
    ESTIMATORS,
    Correction,
    affine,
    bayes_ips,
    document_weights,
    estimate_metric,
    ips,
    naive,
    parse_clip,
    parse_estimator,
    propensity,
)
from affinerank.data.dataset import RankingDataset
from affinerank.errors import AffineRankWarning, ConfigError, DataError
from affinerank.metrics import discount
from affinerank.theory import ips_counterexample

shares = st.floats(0.1, 0.99)


def one_row(clicks: int = 0, rank: int = 1, impressions: int = 1) -> ClickCounts:
    return ClickCounts.from_columns(
        query_id=["q"],
        doc_id=["d"],
        rank=[rank],
        impressions=[impressions],
        clicks=[clicks],
    )


def users(theta: float, plus: float, minus: float, depth: int = 3) -> UserModel:
    return UserModel.from_eps([theta] * depth, [plus] * depth, [minus] * depth)


def expected(estimate: object, model: UserModel, gamma: float, rank: int = 1) -> float:
    """E[corrected click], summed over click and no click."""
    p = float(model.click_probability([rank], [gamma])[0])
    total = 0.0
    for click, chance in ((1, p), (0, 1 - p)):
        c: Correction = estimate(one_row(click, rank), model)  # type: ignore[operator]
        total += chance * float((click - c.beta[0]) / c.alpha[0])
    return total


@given(theta=shares, minus=shares, plus=shares, gamma=st.floats(0, 1))
def test_affine_is_unbiased_under_trust_bias(
    theta: float, minus: float, plus: float, gamma: float
) -> None:
    assume(plus - minus > 0.1)
    model = users(theta, plus, minus)
    assert expected(affine, model, gamma) == pytest.approx(gamma, abs=1e-12)


@given(theta=shares, gamma=st.floats(0, 1))
def test_ips_is_unbiased_under_position_bias(theta: float, gamma: float) -> None:
    model = UserModel.position_bias([theta])
    assert expected(ips, model, gamma) == pytest.approx(gamma, abs=1e-12)


@given(gamma=st.floats(0, 1))
def test_naive_is_unbiased_where_all_is_examined(gamma: float) -> None:
    model = UserModel.position_bias([1.0])
    assert expected(naive, model, gamma) == pytest.approx(gamma, abs=1e-12)


@given(theta=shares, minus=shares, plus=shares, gamma=st.floats(0, 1))
def test_bayes_ips_has_exactly_the_bias_of_the_paper(
    theta: float, minus: float, plus: float, gamma: float
) -> None:
    model = users(theta, plus, minus)
    slope = 1 - plus * (plus - minus) / (plus + minus)
    bias = slope * gamma - plus * minus / (plus + minus)
    assert gamma - expected(bayes_ips, model, gamma) == pytest.approx(bias, abs=1e-12)


@given(theta=shares, minus=shares, plus=shares, gamma=st.floats(0.01, 1))
def test_ips_that_knows_relevance_is_unbiased(
    theta: float, minus: float, plus: float, gamma: float
) -> None:
    model = users(theta, plus, minus)
    rho = (model.alpha[0] * gamma + model.beta[0]) / gamma

    def oracle(counts: ClickCounts, _: UserModel) -> Correction:
        return propensity(counts, rho)

    assume(rho > 0.01)
    assert expected(oracle, model, gamma) == pytest.approx(gamma, abs=1e-12)


fractions = st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50)


@given(
    theta=st.tuples(fractions, fractions),
    plus=st.tuples(fractions, fractions),
    minus=st.tuples(fractions, fractions),
    rho=st.tuples(
        st.fractions(Fraction(1, 100), 10, max_denominator=100),
        st.fractions(Fraction(1, 100), 10, max_denominator=100),
    ),
)
def test_theorem_1_every_propensity_prefers_a_wrong_ranker(
    theta: tuple[Fraction, Fraction],
    plus: tuple[Fraction, Fraction],
    minus: tuple[Fraction, Fraction],
    rho: tuple[Fraction, Fraction],
) -> None:
    assume(plus[0] > minus[0] and plus[1] > minus[1])
    assume(plus[0] * minus[1] != plus[1] * minus[0])
    gamma = ips_counterexample(theta, plus, minus, rho)
    assert all(0 < g < 1 for g in gamma)
    alpha = [t * (p - m) for t, p, m in zip(theta, plus, minus, strict=True)]
    beta = [t * m for t, m in zip(theta, minus, strict=True)]
    estimate = [
        (a * g + b) / r for a, g, b, r in zip(alpha, gamma, beta, rho, strict=True)
    ]
    truth, seen = gamma[0] - gamma[1], estimate[0] - estimate[1]
    assert (truth > 0 and seen < 0) or (truth < 0 and seen > 0)


def test_theorem_1_needs_trust_bias() -> None:
    half = (Fraction(1, 2), Fraction(1, 2))
    with pytest.raises(DataError, match="no counterexample"):
        ips_counterexample(half, half, (Fraction(1, 4), Fraction(1, 4)), half)


@st.composite
def logs(draw: st.DrawFn) -> tuple[ClickCounts, RankingDataset]:
    """Counts of two rankers that show their first ten of twelve, and the data."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows: dict[str, list[Any]] = {n: [] for n in ("q", "d", "k", "r", "n", "c", "s")}
    for query in range(3):
        for name in ("old", "new"):
            n = int(rng.integers(1, 30))
            for k, doc in enumerate(rng.permutation(12)[:10], start=1):
                c = int(rng.integers(0, n + 1))
                values = (query, int(doc), k, name, n, c, n)
                for key, value in zip(rows, values, strict=True):
                    rows[key].append(value)
    counts = ClickCounts.from_columns(
        query_id=rows["q"],
        doc_id=rows["d"],
        rank=rows["k"],
        ranker=rows["r"],
        impressions=rows["n"],
        clicks=rows["c"],
        sessions=rows["s"],
    )
    data = RankingDataset.from_rows(
        rng.random((36, 2)), np.repeat([0, 1, 2], 12), doc_ids=np.tile(np.arange(12), 3)
    )
    return counts, data


@given(log=logs(), a=st.floats(0.2, 5), t=st.floats(-2, 2))
def test_moving_along_the_gauge_rescales_and_shifts_every_weight_alike(
    log: tuple[ClickCounts, RankingDataset], a: float, t: float
) -> None:
    counts, data = log
    joined = join_counts(counts, data)
    model = UserModel.paper(depth=10)
    moved = UserModel(
        alpha=a * model.alpha, beta=model.beta + t * model.alpha, identified="gauge"
    )
    plain, shifted = (
        document_weights(joined, affine(joined.counts, m), data) for m in (model, moved)
    )
    np.testing.assert_array_equal(plain.shown, shifted.shown)
    np.testing.assert_allclose(
        shifted.weight[plain.shown], (plain.weight[plain.shown] - t) / a, atol=1e-9
    )


@given(log=logs(), minus=st.floats(0.05, 0.4), plus=st.floats(0.5, 0.95))
def test_without_trust_bias_affine_and_ips_rank_alike(
    log: tuple[ClickCounts, RankingDataset], minus: float, plus: float
) -> None:
    counts, data = log
    joined = join_counts(counts, data)
    theta = 1.0 / np.arange(1, 11)
    model = UserModel.from_eps(theta, np.full(10, plus), np.full(10, minus))
    by_ips = document_weights(joined, ips(joined.counts, model), data)
    by_affine = document_weights(joined, affine(joined.counts, model), data)
    expected_weights = (by_ips.weight - minus) / (plus - minus)
    shown = by_ips.shown
    np.testing.assert_allclose(
        by_affine.weight[shown], expected_weights[shown], atol=1e-12
    )


def test_an_irrelevant_document_shown_m_times_has_expected_weight_zero() -> None:
    model = UserModel.paper(depth=3)
    m = 1000
    data = RankingDataset.from_rows([[1.0]], ["q"], doc_ids=["d"])
    for rank in (1, 2, 3):
        clicks = m * model.beta[rank - 1]  # expected
        joined = join_counts(one_row(0, rank, m), data)
        correction = affine(joined.counts, model)
        weight = (
            clicks / correction.alpha[0] - m * correction.beta[0] / correction.alpha[0]
        )
        assert weight == pytest.approx(0.0, abs=1e-9)
        # The same through document_weights, which is linear in clicks.
        low = document_weights(joined, correction, data).weight[0]
        full = join_counts(one_row(m, rank, m), data)
        high = document_weights(full, affine(full.counts, model), data).weight[0]
        assert low + (high - low) * model.beta[rank - 1] == pytest.approx(
            0.0, abs=1e-12
        )


def test_weights_are_the_written_out_sum_and_the_unseen_are_masked() -> None:
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
    model = UserModel.from_eps([1.0, 0.5], [0.9, 0.8], [0.5, 0.2])
    joined = join_counts(counts, data)
    weights = document_weights(joined, affine(joined.counts, model), data)
    a = ((3 - 0.5 * 4) / 0.4 + (1 - 0.1 * 6) / 0.3) / 10
    b = ((2 - 0.1 * 4) / 0.3) / 4
    c = ((5 - 0.5 * 5) / 0.4) / 5
    np.testing.assert_allclose(weights.weight, [a, b, 0.0, c])
    assert weights.shown.tolist() == [True, True, False, True]
    np.testing.assert_allclose(weights.share, [10 / 15, 5 / 15])
    ranks = [2, 1, 3, 1]
    value = 10 / 15 * (a / np.log2(3) + b / np.log2(2)) + 5 / 15 * c / np.log2(2)
    estimate = estimate_metric(
        ranks, joined, affine(joined.counts, model), data, discount
    )
    assert estimate == pytest.approx(value)


def test_rows_that_nobody_was_exposed_to_change_nothing() -> None:
    counts = ClickCounts.from_columns(
        query_id=["q", "q"],
        doc_id=["d", "d"],
        rank=[1, 2],
        impressions=[4, 0],
        clicks=[3, 0],
        sessions=[4, 4],
    )
    data = RankingDataset.from_rows([[1.0]], ["q"], doc_ids=["d"])
    joined = join_counts(counts, data)
    model = UserModel.from_eps([1.0, 0.0], [0.9, 0.9], [0.5, 0.5])
    weights = document_weights(joined, affine(joined.counts, model), data)
    assert weights.weight[0] == pytest.approx((3 - 0.5 * 4) / 0.4 / 4)


def test_a_correction_of_other_counts_is_refused() -> None:
    data = RankingDataset.from_rows([[1.0]], ["q"], doc_ids=["d"])
    joined = join_counts(one_row(), data)
    wrong = Correction("x", np.ones(2), np.zeros(2), np.ones(2))
    with pytest.raises(DataError, match="of 2 rows of counts, and there are 1"):
        document_weights(joined, wrong, data)


def test_the_estimate_is_the_papers_sum_over_interactions() -> None:
    rng = np.random.default_rng(3)
    model = UserModel.paper(depth=4)
    clicks = np.array([[rng.random() < 0.4 for _ in range(4)] for _ in range(50)])
    total = 0.0
    ranks = np.array([3, 1, 4, 2])
    for row in clicks:  # one interaction: document d is shown at rank d + 1
        for d in range(4):
            corrected = (row[d] - model.beta[d]) / model.alpha[d]
            total += corrected / np.log2(ranks[d] + 1)
    counts = ClickCounts.from_columns(
        query_id=["q"] * 4,
        doc_id=range(4),
        rank=[1, 2, 3, 4],
        impressions=[50] * 4,
        clicks=clicks.sum(axis=0),
    )
    data = RankingDataset.from_rows([[0.0]] * 4, ["q"] * 4)
    joined = join_counts(counts, data)
    estimate = estimate_metric(
        ranks, joined, affine(joined.counts, model), data, discount
    )
    assert estimate == pytest.approx(total / 50)


def test_a_zero_slope_is_refused_with_the_papers_two_reasons() -> None:
    blind = UserModel.from_eps([0.0], [0.9], [0.5])
    with pytest.raises(DataError, match=r"never examined .* clicked alike"):
        affine(one_row(), blind)


def test_a_negative_slope_says_what_it_means() -> None:
    with pytest.warns(AffineRankWarning, match="clicked more than relevant ones"):
        affine(one_row(), UserModel.from_eps([1.0], [0.2], [0.5]))


def test_click_rates_alone_make_ips_a_convention_and_say_so() -> None:
    rates = UserModel.from_zeta([0.8], [0.2])
    with pytest.warns(AffineRankWarning, match=r"theta is taken to be zeta\+"):
        correction = ips(one_row(), rates)
    assert correction.alpha[0] == pytest.approx(0.8)
    with pytest.warns(AffineRankWarning):
        assert bayes_ips(one_row(), rates).alpha[0] == pytest.approx(0.8 * 1.25)


@pytest.mark.parametrize("estimate", [ips, bayes_ips])
def test_a_gauge_model_is_refused_by_ips(estimate: object) -> None:
    gauge = UserModel(alpha=np.array([2.0]), beta=np.array([-1.0]), identified="gauge")
    with pytest.raises(ConfigError, match="only up to gauge"):
        estimate(one_row(), gauge)  # type: ignore[operator]
    assert affine(one_row(), gauge).alpha.tolist() == [2.0]


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_estimator_gives_a_value_per_row_and_leaves_counts_alone(
    name: str,
) -> None:
    counts = one_row(1, 2, 3)
    correction = ESTIMATORS[name](counts, UserModel.paper(depth=5))
    assert correction.name == name
    for values in (correction.alpha, correction.beta, correction.exposure):
        assert values.shape == (1,)
    assert counts.equals(one_row(1, 2, 3))


def test_clipping_raises_small_slopes_only() -> None:
    counts = ClickCounts.from_columns(
        query_id=[1, 1], doc_id=[1, 2], rank=[1, 2], impressions=[5, 5], clicks=[1, 1]
    )
    correction = affine(counts, UserModel.from_eps([1.0, 0.1], [0.9, 0.9], [0.1, 0.1]))
    assert correction.clipped(0.5, 100).alpha.tolist() == pytest.approx([0.8, 0.5])
    assert correction.clipped("2/sqrt(n)", 100).alpha[1] == pytest.approx(0.2)
    assert parse_clip("10/sqrt(n)", 4) == 1.0


@pytest.mark.parametrize("clip", ["ten", "-1", "10/n", "", "1/sqrt(n", "1e"])
def test_a_rule_that_is_none_is_refused(clip: str) -> None:
    with pytest.raises(ConfigError, match="clip must be a number or a rule"):
        parse_clip(clip, 10)


def test_unknown_estimators_are_refused_with_the_known() -> None:
    with pytest.raises(ConfigError, match="known are naive, ips, bayes-ips, affine"):
        parse_estimator("magic")
