"""User models: the paper's numbers written out, what is known, files."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affinerank.clicks.usermodel import UserModel, load_segments, save_segments
from affinerank.errors import AffineRankWarning, ConfigError, DataError

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
    users = UserModel.paper(eta=eta, eps_minus_1=eps_minus_1, depth=30)
    for rank, (relevant, irrelevant) in PAPER[eta, eps_minus_1].items():
        got = users.click_probability([rank, rank], [1.0, 0.0])
        np.testing.assert_allclose(got, [relevant, irrelevant], rtol=1e-14)


def test_clicks_are_affine_in_graded_relevance() -> None:
    users = UserModel.paper(depth=5)
    relevant, irrelevant = PAPER[1, 0.65][5]
    np.testing.assert_allclose(
        users.click_probability(5, 0.25), 0.25 * relevant + 0.75 * irrelevant
    )


def test_the_parts_of_the_paper_s_users_are_known() -> None:
    users = UserModel.paper(eta=2, eps_minus_1=0.35, depth=25)
    assert users.identified == "eps"
    assert users.theta[4] == pytest.approx((1 / 5) ** 2)
    assert users.theta[24] == pytest.approx((1 / 20) ** 2)
    assert users.eps_plus[24] == pytest.approx(1 - 21 / 100)
    assert users.eps_minus[24] == pytest.approx(0.35 / 10)
    np.testing.assert_allclose(users.zeta_plus, users.theta * users.eps_plus)
    np.testing.assert_allclose(users.zeta_minus, users.theta * users.eps_minus)


def test_position_bias_alone_clicks_relevant_documents_only() -> None:
    users = UserModel.position_bias([1.0, 0.5])
    np.testing.assert_allclose(users.click_probability([1, 2], [1, 1]), [1.0, 0.5])
    np.testing.assert_allclose(users.click_probability([1, 2], [0, 0]), [0, 0])
    np.testing.assert_allclose(users.eps_plus, 1)
    np.testing.assert_allclose(users.eps_minus, 0)


def test_zeta_has_parts_by_convention() -> None:
    users = UserModel.from_zeta([0.9, 0.4, 0.0], [0.6, 0.1, 0.0])
    np.testing.assert_allclose(users.alpha, [0.9 - 0.6, 0.4 - 0.1, 0])
    np.testing.assert_allclose(users.beta, [0.6, 0.1, 0])
    np.testing.assert_allclose(users.theta, [0.9, 0.4, 0])
    np.testing.assert_allclose(users.eps_plus, 1)
    np.testing.assert_allclose(users.eps_minus, [0.6 / 0.9, 0.1 / 0.4, 0])


@pytest.mark.parametrize(
    "name", ["theta", "eps_plus", "eps_minus", "zeta_plus", "zeta_minus"]
)
def test_a_model_up_to_gauge_refuses_to_speak_of_rates(name: str) -> None:
    users = UserModel(alpha=np.array([3.0]), beta=np.array([-1.0]), identified="gauge")
    with pytest.raises(ConfigError, match=f"^{name} is not known: .* up to gauge"):
        getattr(users, name)
    assert users.click_probability(1, 1.0) == 2.0


@pytest.mark.parametrize(
    ("alpha", "beta", "message"),
    [
        ([0.5, 0.5], [0.1, -0.1], "rank 2: .* an irrelevant document .* got -0.1 "),
        ([0.5, 2.0], [0.1, 0.1], r"rank 2: .* a relevant document .* got 2.1 \(1 such"),
    ],
)
def test_probabilities_outside_zero_to_one_are_refused_where_needed(
    alpha: list[float], beta: list[float], message: str
) -> None:
    users = UserModel(alpha=np.array(alpha), beta=np.array(beta), identified="gauge")
    with pytest.raises(DataError, match=message):
        users.require_probabilities()
    UserModel.from_zeta([1.0, 0.0], [0.0, 0.0]).require_probabilities()


def test_deeper_ranks_take_the_last_value_and_say_so() -> None:
    users = UserModel.from_zeta([0.9, 0.4], [0.6, 0.1])
    with pytest.warns(AffineRankWarning, match="ends at rank 2; .* down to 7, take"):
        got = users.click_probability([2, 3, 7], [1, 1, 0])
    np.testing.assert_allclose(got, [0.4, 0.4, 0.1])


@pytest.mark.parametrize(
    "users",
    [
        UserModel.paper(depth=3),
        UserModel.from_zeta([0.9, 0.5, 0.4], [0.6, 0.2, 0.1]),
        UserModel(alpha=np.ones(3), beta=np.zeros(3), identified="gauge"),
    ],
)
def test_a_model_made_deeper_says_so_once_and_clicks_alike(users: UserModel) -> None:
    with pytest.warns(AffineRankWarning, match="ends at rank 3"):
        deeper = users.to_depth(5)
    with pytest.warns(AffineRankWarning, match="ends at rank 3"):
        expected = users.click_probability([1, 5], [1.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(
            deeper.click_probability([1, 5], [1.0, 0.0]), expected
        )
        assert users.to_depth(2) is users
    assert (deeper.depth, deeper.identified) == (5, users.identified)


def test_ranks_count_from_one() -> None:
    with pytest.raises(DataError, match="ranks count from 1, got 0"):
        UserModel.paper().at([0, 1])


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: UserModel.paper(depth=0), ConfigError, "depth must be 1 or more"),
        (lambda: UserModel.paper(eta=-1), ConfigError, "eta must be 0 or more, got -1"),
        (lambda: UserModel.paper(eta=float("nan")), ConfigError, "got nan"),
        (lambda: UserModel.paper(eps_minus_1=2), ConfigError, "from 0 to 1, got 2"),
        (
            lambda: UserModel.from_eps([1, 1], [1], [0]),
            DataError,
            "have 2, 1 and 1 ranks; give all for the same ranks",
        ),
        (
            lambda: UserModel.from_zeta([1, 1], [0]),
            DataError,
            "zeta_plus has 2 ranks and zeta_minus 1",
        ),
        (
            lambda: UserModel.from_zeta([1, np.inf], [0, 0]),
            DataError,
            "zeta_plus at rank 2 must be finite, got inf",
        ),
        (lambda: UserModel.from_zeta([], []), DataError, "one number per rank"),
        (
            lambda: UserModel(alpha=np.ones(2), beta=np.ones(1), identified="gauge"),
            DataError,
            "alpha has 2 ranks and beta 1",
        ),
        (
            lambda: UserModel(
                alpha=np.ones(1),
                beta=np.ones(1),
                identified="all",  # type: ignore[arg-type]
            ),
            ConfigError,
            "identified must be eps, zeta, gauge, got 'all'",
        ),
        (
            lambda: UserModel(alpha=np.ones(1), beta=np.ones(1), identified="eps"),
            ConfigError,
            "build it with UserModel.from_eps",
        ),
    ],
)
def test_what_is_no_user_model_is_refused(
    build: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build()


def test_arrays_of_a_model_cannot_be_written_to() -> None:
    given = np.array([0.5, 0.4])
    users = UserModel.position_bias(given)
    given[0] = 9.0
    assert users.theta[0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        users.alpha[0] = 1.0


@pytest.mark.parametrize(
    "users",
    [
        UserModel.paper(depth=12),
        UserModel.from_zeta([0.9, 0.4], [0.6, 0.1], provenance={"from": "é"}),
        UserModel(alpha=np.array([3.0]), beta=np.array([-1.0]), identified="gauge"),
    ],
)
def test_a_file_gives_the_model_back(users: UserModel, tmp_path: Path) -> None:
    users.save(tmp_path / "users.json")
    again = UserModel.load(tmp_path / "users.json")
    assert again.to_dict() == users.to_dict()
    np.testing.assert_array_equal(again.alpha, users.alpha)
    np.testing.assert_array_equal(again.beta, users.beta)


def test_a_file_can_hold_one_model_per_segment(tmp_path: Path) -> None:
    models = {"phone": UserModel.paper(depth=2), "desk/top": UserModel.paper(eta=2)}
    save_segments(models, tmp_path / "users.json")
    again = load_segments(tmp_path / "users.json")
    assert {n: m.to_dict() for n, m in again.items()} == {
        n: m.to_dict() for n, m in models.items()
    }
    with pytest.raises(DataError, match="segments 'phone', 'desk/top'; expected one"):
        UserModel.load(tmp_path / "users.json")


GOOD = {
    "format": "affinerank-users",
    "version": 1,
    **UserModel.paper(depth=2).to_dict(),
}
ZETA = {**GOOD, "identified": "zeta"}


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({**GOOD, "version": 2}, "expected format .* version 1, got .* version 2"),
        ({**GOOD, "format": "x"}, "expected format 'affinerank-users' .* got 'x'"),
        ({"alpha": [1]}, "not a user model written by AffineRank"),
        ([], "not a user model"),
        (7, "not a user model"),
        ({**GOOD, "theta": None}, "theta must be one number per rank"),
        ({**GOOD, "theta": "x"}, "not a user model"),
        ({**GOOD, "alpha": [0.5, 0.5]}, "alpha does not follow from theta"),
        ({**GOOD, "alpha": [1, 2, 3]}, "not a user model"),
        ({**GOOD, "theta": [1.0]}, "have 1, 2 and 2 ranks"),
        ({**ZETA, "alpha": [[1]]}, r"must be one number per rank, got shape \(1, 1\)"),
        ({**ZETA, "alpha": [1, float("nan")]}, "rank 2 must be finite, got nan"),
        ({**GOOD, "identified": "maybe"}, "identified must be eps, zeta, gauge"),
        ({**GOOD, "identified": []}, "identified must be eps, zeta, gauge"),
        ({**GOOD, "provenance": "me"}, "provenance must be an object, got 'me'"),
        ({**GOOD, "segments": {}}, "holds no user model"),
        ({**GOOD, "segments": [1]}, "not a user model"),
        ({**GOOD, "segments": {"a": 1}}, "not a user model"),
    ],
)
def test_a_broken_file_is_one_sentence_that_names_it(
    about: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "users.json"
    path.write_text(json.dumps(about))
    with pytest.raises(DataError, match=message) as caught:
        UserModel.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_one_sentence(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "users.json").write_bytes(text)
    with pytest.raises(DataError, match="not a user model written by AffineRank"):
        UserModel.load(tmp_path / "users.json")


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        UserModel.load(tmp_path / "none.json")
    with pytest.raises(DataError, match="this is a folder"):
        UserModel.load(tmp_path)
