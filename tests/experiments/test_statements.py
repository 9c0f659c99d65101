"""The paper's statements, on results made to bear them out and to contradict them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from affinerank.clicks.models.trust import TrustModel
from affinerank.experiments.coordinates import settings_of
from affinerank.experiments.results import Result
from affinerank.experiments.statements import STATEMENTS, judge_statements
from affinerank.pipeline.worlds import Cell


def held(results: list[Result]) -> dict[str, bool | None]:
    return {s.text: found.held for s, found in judge_statements(results)}


def test_every_statement_holds_where_results_are_as_the_paper_has_them(
    paper_results: list[Result],
) -> None:
    found = held(paper_results)
    for beginning in ("Results are consistent", "Clipping"):  # not in its figures
        text = next(text for text in found if text.startswith(beginning))
        assert found.pop(text) is None
    assert set(found.values()) == {True}, [t for t, h in found.items() if not h]


@pytest.mark.parametrize(("value", "expected"), [(0.69, True), (0.60, False)])
def test_consistency_is_asked_of_noise_that_the_figures_leave_out(
    value: float, expected: bool, paper_results: list[Result]
) -> None:
    def moved(text: str | None) -> str | None:
        return text and text.replace("0.65", "0.2").replace("0.35", "0.5")

    results = [
        replace(r, cell=replace(r.cell, click_model=moved(r.cell.click_model)))
        for r in replaced(paper_results, estimator="affine", value=value)
    ]
    found = [h for t, h in held(results).items() if t.startswith("Results are con")]
    assert found == [expected]


def test_what_is_said_of_many_clicks_is_not_held_against_few(
    paper_results: list[Result],
) -> None:
    few = [r for r in paper_results if r.cell.clicks is None or r.cell.clicks <= 1e6]
    found = held(few)
    for beginning in (
        "A sizable gap",
        "Affine approximates",
        "Affine has not",
        "Affine outperforms",
        "These improvements",
    ):
        assert [h for t, h in found.items() if t.startswith(beginning)] == [None]


def test_affine_is_not_compared_with_some_of_the_others(
    paper_results: list[Result],
) -> None:
    found = held([r for r in paper_results if r.cell.estimator != "ips"])
    for beginning in ("Affine outperforms", "At few clicks", "These improvements"):
        assert [h for t, h in found.items() if t.startswith(beginning)] == [None]


@pytest.mark.parametrize(
    "change",
    [
        {"policy": "fixed(top_k=5)"},
        {"policy": "swap(share=0.5)"},
        {"ranker": "lightgbm"},
    ],
)
def test_the_paper_says_nothing_of_other_policies_and_rankers(
    change: dict[str, Any], paper_results: list[Result]
) -> None:
    results = [
        replace(r, cell=replace(r.cell, **change))
        for r in paper_results
        if r.cell.clicks is not None
    ]
    assert set(held(results).values()) == {None}


def test_without_results_nothing_is_measured() -> None:
    assert set(held([]).values()) == {None}


def replaced(
    results: list[Result], *, estimator: str, users: str = "true", value: float
) -> list[Result]:
    return [
        replace(r, ndcg=value + r.cell.run * 1e-4)
        if (r.cell.estimator, r.cell.users) == (estimator, users)
        else r
        for r in results
    ]


@pytest.mark.parametrize(
    ("estimator", "users", "value", "failing"),
    [
        ("affine", "true", 0.60, "Affine outperforms the other estimators"),
        ("affine", "true", 0.60, "Affine approximates full information"),
        ("affine", "true", 0.60, "These improvements at the most clicks"),
        ("affine", "true", 0.70, "Affine has not converged"),
        ("affine", "true", 0.70, "At few clicks affine is similar"),
        ("affine", "true", 0.40, "At few clicks affine is similar"),
        ("ips", "true", 0.60, "IPS improves over the naive"),
        ("bayes-ips", "true", 0.60, "Bayes-IPS improves over the naive"),
        ("bayes-ips", "true", 0.60, "Bayes-IPS consistently outperforms IPS"),
        ("bayes-ips", "true", 0.70, "A sizable gap remains"),
        ("affine", "soft-min-max", 0.55, "Soft-min-max outperforms"),
        ("affine", "soft-min-max", 0.55, "Soft-min-max is close to the true"),
        ("affine", "softmax", 0.40, "Softmax is decent"),
        ("affine", "sigmoid", 0.70, "Sigmoid performs poorest"),
    ],
)
def test_a_statement_fails_where_results_contradict_it(
    paper_results: list[Result],
    estimator: str,
    users: str,
    value: float,
    failing: str,
) -> None:
    results = replaced(paper_results, estimator=estimator, users=users, value=value)
    found = [h for text, h in held(results).items() if text.startswith(failing)]
    assert found == [False]


def test_a_naive_estimator_that_still_gains_has_not_converged(
    paper_results: list[Result],
) -> None:
    rising = [
        replace(r, ndcg=r.ndcg + (r.cell.clicks or 0) * 1e-8)
        if r.cell.estimator == "naive"
        else r
        for r in paper_results
    ]
    assert held(rising)["The naive estimator has converged after 3e5 clicks."] is False


@pytest.mark.parametrize(
    ("users", "factors", "failing"),
    [
        ("soft-min-max", (1.2, 1.0), "Soft-min-max underestimates alpha"),
        ("sigmoid", (1.2, 1.0), "Sigmoid underestimates alpha"),
        ("softmax", (0.8, 1.0), "Softmax overestimates alpha"),
        ("soft-min-max", (0.8, 3.0), "Soft-min-max has accurate"),
        ("softmax", (1.3, 3.0), "Softmax has accurate"),
        ("sigmoid", (0.7, 1.5), "Sigmoid underestimates beta"),
    ],
)
def test_statements_about_parameters_fail_on_other_parameters(
    paper_results: list[Result],
    users: str,
    factors: tuple[float, float],
    failing: str,
    result_of: Callable[..., Result],
    users_of: Callable[..., TrustModel],
) -> None:
    def estimated(cell: Cell) -> TrustModel:
        true = settings_of("click_model", cell.click_model or "")
        return users_of(true.eta, true.eps_minus_1, *factors)

    results = [
        result_of(r.cell, r.ndcg, estimated(r.cell)) if r.cell.users == users else r
        for r in paper_results
    ]
    found = [h for text, h in held(results).items() if text.startswith(failing)]
    assert found == [False]


@pytest.mark.parametrize(("value", "expected"), [(0.62, True), (0.55, False)])
def test_clipping_is_held_against_unclipped_at_the_fewest_clicks(
    value: float,
    expected: bool,
    paper_results: list[Result],
    result_of: Callable[..., Result],
) -> None:
    plain = [r.cell for r in paper_results if r.cell.estimator == "affine"]
    clipped = [replace(cell, estimator="affine(clip=10/sqrt(n))") for cell in plain]
    results = paper_results + [
        result_of(cell, value)
        for cell in clipped
        if (cell.users, cell.clicks, cell.run) == ("true", 3e4, 0)
    ]
    found = [h for text, h in held(results).items() if text.startswith("Clipping")]
    assert found == [expected]


def test_the_exception_that_the_paper_makes_is_made() -> None:
    text = next(s.text for s in STATEMENTS if "p <= 0.001" in s.text)
    assert "0.002 on MSLR" in text
