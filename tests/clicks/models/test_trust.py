"""Position and trust bias: the paper's numbers written out, and what is known."""

import warnings
from typing import Any

import numpy as np
import pytest

from affinerank.clicks.models import CLICK_MODELS, Shown
from affinerank.clicks.models.trust import EstimatedBy, TrustModel, TrustSettings
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import join_counts
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError

pytestmark = pytest.mark.slow

# Rank: P(click | relevant), P(click | not), with theta * eps written out.
PAPER: dict[tuple[int, float], dict[int, tuple[float, float]]] = {
    (1, 0.65): {
        1: (1 * (1 - 2 / 100), 1 * 0.65),
        2: ((1 / 2) * (1 - 3 / 100), (1 / 2) * (0.65 / 2)),
        5: ((1 / 5) * (1 - 6 / 100), (1 / 5) * (0.65 / 5)),
        10: ((1 / 10) * (1 - 11 / 100), (1 / 10) * (0.65 / 10)),
        20: ((1 / 20) * (1 - 21 / 100), (1 / 20) * (0.65 / 10)),
        30: ((1 / 20) * (1 - 21 / 100), (1 / 20) * (0.65 / 10)),
    },
    (1, 0.35): {
        1: (1 * (1 - 2 / 100), 1 * 0.35),
        2: ((1 / 2) * (1 - 3 / 100), (1 / 2) * (0.35 / 2)),
        5: ((1 / 5) * (1 - 6 / 100), (1 / 5) * (0.35 / 5)),
        10: ((1 / 10) * (1 - 11 / 100), (1 / 10) * (0.35 / 10)),
        20: ((1 / 20) * (1 - 21 / 100), (1 / 20) * (0.35 / 10)),
        30: ((1 / 20) * (1 - 21 / 100), (1 / 20) * (0.35 / 10)),
    },
    (2, 0.65): {
        1: (1 * (1 - 2 / 100), 1 * 0.65),
        2: ((1 / 2) ** 2 * (1 - 3 / 100), (1 / 2) ** 2 * (0.65 / 2)),
        5: ((1 / 5) ** 2 * (1 - 6 / 100), (1 / 5) ** 2 * (0.65 / 5)),
        10: ((1 / 10) ** 2 * (1 - 11 / 100), (1 / 10) ** 2 * (0.65 / 10)),
        20: ((1 / 20) ** 2 * (1 - 21 / 100), (1 / 20) ** 2 * (0.65 / 10)),
        30: ((1 / 20) ** 2 * (1 - 21 / 100), (1 / 20) ** 2 * (0.65 / 10)),
    },
    (2, 0.35): {
        1: (1 * (1 - 2 / 100), 1 * 0.35),
        2: ((1 / 2) ** 2 * (1 - 3 / 100), (1 / 2) ** 2 * (0.35 / 2)),
        5: ((1 / 5) ** 2 * (1 - 6 / 100), (1 / 5) ** 2 * (0.35 / 5)),
        10: ((1 / 10) ** 2 * (1 - 11 / 100), (1 / 10) ** 2 * (0.35 / 10)),
        20: ((1 / 20) ** 2 * (1 - 21 / 100), (1 / 20) ** 2 * (0.35 / 10)),
        30: ((1 / 20) ** 2 * (1 - 21 / 100), (1 / 20) ** 2 * (0.35 / 10)),
    },
}


@pytest.mark.parametrize(("eta", "eps_minus_1"), sorted(PAPER))
def test_the_paper_s_click_probabilities_are_the_written_out_ones(
    eta: int, eps_minus_1: float
) -> None:
    click_model = TrustModel.paper(eta=eta, eps_minus_1=eps_minus_1, depth=30)
    for rank, (relevant, irrelevant) in PAPER[eta, eps_minus_1].items():
        got = click_model.click_probability([rank, rank], [1.0, 0.0])
        np.testing.assert_allclose(got, [relevant, irrelevant], rtol=1e-14)


def test_clicks_are_affine_in_graded_relevance() -> None:
    click_model = TrustModel.paper(depth=5)
    relevant, irrelevant = PAPER[1, 0.65][5]
    np.testing.assert_allclose(
        click_model.click_probability(5, 0.25), 0.25 * relevant + 0.75 * irrelevant
    )


def test_the_parts_of_the_paper_s_users_are_known() -> None:
    click_model = TrustModel.paper(eta=2, eps_minus_1=0.35, depth=25)
    assert click_model.identified == "examination"
    assert click_model.theta[4] == pytest.approx((1 / 5) ** 2)
    assert click_model.theta[24] == pytest.approx((1 / 20) ** 2)
    assert click_model.eps_plus[24] == pytest.approx(1 - 21 / 100)
    assert click_model.eps_minus[24] == pytest.approx(0.35 / 10)
    np.testing.assert_allclose(
        click_model.zeta_plus, click_model.theta * click_model.eps_plus
    )
    np.testing.assert_allclose(
        click_model.zeta_minus, click_model.theta * click_model.eps_minus
    )


def test_position_bias_alone_clicks_relevant_documents_only() -> None:
    click_model = TrustModel.position_bias([1.0, 0.5])
    np.testing.assert_allclose(
        click_model.click_probability([1, 2], [1, 1]), [1.0, 0.5]
    )
    np.testing.assert_allclose(click_model.click_probability([1, 2], [0, 0]), [0, 0])
    np.testing.assert_allclose(click_model.eps_plus, 1)
    np.testing.assert_allclose(click_model.eps_minus, 0)


def test_zeta_has_parts_by_convention() -> None:
    click_model = TrustModel.from_zeta([0.9, 0.4, 0.0], [0.6, 0.1, 0.0])
    np.testing.assert_allclose(click_model.alpha, [0.9 - 0.6, 0.4 - 0.1, 0])
    np.testing.assert_allclose(click_model.beta, [0.6, 0.1, 0])
    np.testing.assert_allclose(click_model.theta, [0.9, 0.4, 0])
    np.testing.assert_allclose(click_model.eps_plus, 1)
    np.testing.assert_allclose(click_model.eps_minus, [0.6 / 0.9, 0.1 / 0.4, 0])


@pytest.mark.parametrize(
    "name", ["theta", "eps_plus", "eps_minus", "zeta_plus", "zeta_minus"]
)
def test_a_model_up_to_gauge_has_no_click_rates(name: str) -> None:
    click_model = TrustModel(
        alpha=np.array([3.0]), beta=np.array([-1.0]), identified="relative"
    )
    with pytest.raises(ConfigError, match=f"{name} .*gauge"):
        getattr(click_model, name)
    assert click_model.click_probability(1, 1.0) == 2.0


@pytest.mark.parametrize(
    ("alpha", "beta", "message"),
    [
        ([0.5, 0.5], [0.1, -0.1], r"an irrelevant .* rank 2 .*got -0\.1 \(1 "),
        ([0.5, 2.0], [0.1, 0.1], r"a relevant .* rank 2 .*got 2\.1 \(1 "),
    ],
)
def test_probabilities_outside_zero_to_one_are_rejected_where_needed(
    alpha: list[float], beta: list[float], message: str
) -> None:
    click_model = TrustModel(
        alpha=np.array(alpha), beta=np.array(beta), identified="relative"
    )
    with pytest.raises(DataError, match=message):
        click_model.require_probabilities()
    TrustModel.from_zeta([1.0, 0.0], [0.0, 0.0]).require_probabilities()


def test_deeper_ranks_take_the_last_value_with_a_warning() -> None:
    click_model = TrustModel.from_zeta([0.9, 0.4], [0.6, 0.1])
    with pytest.warns(AffineRankWarning, match="rank 2.* 7,"):
        got = click_model.click_probability([2, 3, 7], [1, 1, 0])
    np.testing.assert_allclose(got, [0.4, 0.4, 0.1])


@pytest.mark.parametrize(
    "click_model",
    [
        TrustModel.paper(depth=3),
        TrustModel.from_zeta([0.9, 0.5, 0.4], [0.6, 0.2, 0.1]),
        TrustModel(alpha=np.ones(3), beta=np.zeros(3), identified="relative"),
    ],
)
def test_a_model_made_deeper_warns_once_and_clicks_alike(
    click_model: TrustModel,
) -> None:
    with pytest.warns(AffineRankWarning, match="rank 3"):
        deeper = click_model.to_depth(5)
    with pytest.warns(AffineRankWarning, match="rank 3"):
        expected = click_model.click_probability([1, 5], [1.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(
            deeper.click_probability([1, 5], [1.0, 0.0]), expected
        )
        assert click_model.to_depth(2) is click_model
    assert (deeper.depth, deeper.identified) == (5, click_model.identified)


def test_ranks_count_from_one() -> None:
    with pytest.raises(DataError, match="from 1, got 0"):
        TrustModel.paper().at_ranks([0, 1])


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: TrustModel.paper(depth=0), ConfigError, "depth .*got 0"),
        (lambda: TrustModel.paper(eta=-1), ConfigError, "eta .*got -1"),
        (lambda: TrustModel.paper(eta=float("nan")), ConfigError, "eta .*got nan"),
        (lambda: TrustModel.paper(eps_minus_1=2), ConfigError, "eps_minus_1 .*got 2"),
        (
            lambda: TrustModel.from_eps([1, 1], [1], [0]),
            DataError,
            "'theta': 2, 'eps_plus': 1, 'eps_minus': 1",
        ),
        (
            lambda: TrustModel.from_zeta([1, 1], [0]),
            DataError,
            "'zeta_plus': 2, 'zeta_minus': 1",
        ),
        (
            lambda: TrustModel.from_zeta([1, np.inf], [0, 0]),
            DataError,
            "zeta_plus at rank 2 .*got inf",
        ),
        (lambda: TrustModel.from_zeta([], []), DataError, "zeta_plus .*one number"),
        (
            lambda: TrustModel(
                alpha=np.ones(2), beta=np.ones(1), identified="relative"
            ),
            DataError,
            "'alpha': 2, 'beta': 1",
        ),
        (
            lambda: TrustModel(
                alpha=np.ones(1),
                beta=np.ones(1),
                identified="all",  # type: ignore[arg-type]
            ),
            ConfigError,
            "identified .*examination, click-rates or relative, got 'all'",
        ),
        (
            lambda: TrustModel(
                alpha=np.ones(1), beta=np.ones(1), identified="examination"
            ),
            ConfigError,
            "from_eps",
        ),
    ],
)
def test_what_is_no_user_model_is_rejected(
    build: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build()


def test_arrays_of_a_model_cannot_be_written_to() -> None:
    given = np.array([0.5, 0.4])
    click_model = TrustModel.position_bias(given)
    given[0] = 9.0
    assert click_model.theta[0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        click_model.alpha[0] = 1.0


def test_rows_of_counts_have_the_values_of_their_rank() -> None:
    counts = ClickCounts.from_columns(
        query_id=[1, 1, 1],
        doc_id=[5, 6, 5],
        rank=[1, 2, 2],
        impressions=[3, 3, 1],
        clicks=[1, 0, 1],
    )
    rows = join_counts(counts)
    model = TrustModel.from_eps([1.0, 0.5], [0.9, 0.8], [0.5, 0.1])
    alpha, beta = model.at(rows)
    np.testing.assert_allclose(alpha, model.alpha[rows.rank - 1])
    np.testing.assert_allclose(beta, model.beta[rows.rank - 1])
    theta, plus, minus = model.examination(rows)
    np.testing.assert_allclose(theta * (plus - minus), alpha)
    np.testing.assert_allclose(theta * minus, beta)
    rates = TrustModel.from_zeta(model.zeta_plus, model.zeta_minus)
    with pytest.warns(AffineRankWarning, match="theta .*zeta"):
        theta, plus, _ = rates.examination(rows)
    np.testing.assert_allclose(theta, model.zeta_plus[rows.rank - 1])
    np.testing.assert_allclose(plus, 1)


def test_clicks_are_drawn_with_their_probability() -> None:
    model, n = TrustModel.paper(depth=2), 40_000
    rank, relevance = np.tile([1, 2], n), np.tile([0.25, 1.0], n)
    shown = Shown(np.repeat(np.arange(n), 2), rank, relevance, 0 * rank, 0 * rank)
    clicked = model.click(shown, np.random.default_rng(0)).reshape(n, 2)
    expected = model.click_probability([1, 2], [0.25, 1.0])
    error = np.sqrt(expected * (1 - expected) / n)
    assert np.all(np.abs(clicked.mean(axis=0) - expected) < 4.5 * error)


def test_the_row_of_the_table_makes_the_paper_s_users() -> None:
    row = CLICK_MODELS["trust"]
    made = row.make(TrustSettings(eta=2, eps_minus_1=0.35), 7)
    expected = TrustModel.paper(eta=2, eps_minus_1=0.35, depth=7)
    assert made.to_dict() == expected.to_dict()
    assert row.read(made.to_dict()).to_dict() == made.to_dict()
    assert str(TrustSettings(eta=2, eps_minus_1=0.35)) == "η = 2, ε⁻₁ = 0.35"


def test_how_a_model_was_estimated_goes_through_plain_data() -> None:
    how = EstimatedBy("a method", features=True, min_clicks=50.0)
    model = TrustModel.from_zeta([0.9, 0.4], [0.6, 0.1], estimated=how)
    again = TrustModel.from_dict(model.to_dict())
    assert again.estimated == how
    with pytest.warns(AffineRankWarning):
        assert model.to_depth(3).estimated == how
    assert TrustModel.paper().estimated is None
