"""The paper's statements, on results made to bear them out and to contradict them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from affinerank.clicks.models.trust import TrustModel
from affinerank.research.cells import Cell
from affinerank.research.coordinates import settings_of
from affinerank.research.results import Result
from affinerank.research.statements.paper import STATEMENTS, Finding, check_statements

pytestmark = pytest.mark.slow

VERDICTS = {"held": True, "failed": False, None: None}


def held(results: list[Result]) -> dict[str, bool | None]:
    """Whether statements held; what held at one epoch alone is no answer here."""
    return {s.text: VERDICTS[f.verdict] for s, f in check_statements(results)}


def finding(results: list[Result], beginning: str) -> Finding:
    evaluated = check_statements(results)
    return next(found for s, found in evaluated if s.text.startswith(beginning))


def at_epoch(results: list[Result], value: float, *, early: bool) -> list[Result]:
    """The same, with affine at this value at one of two epochs."""

    def moved(r: Result) -> Result:
        own = value + (r.cell.run - 1.5) * 1e-4
        return replace(r, held_out_ndcg=own) if early else replace(r, ndcg=own)

    affine = ("affine", "true")
    return [
        moved(r) if (r.cell.estimator, r.cell.click_model_from) == affine else r
        for r in results
    ]


@pytest.mark.parametrize(("early", "epoch"), [(True, "last"), (False, "held-out")])
def test_a_statement_that_holds_at_one_epoch_says_at_which(
    early: bool, epoch: str, paper_results: list[Result]
) -> None:
    results = at_epoch(paper_results, 0.60, early=early)
    found = finding(results, "Affine outperforms")
    assert found.verdict == f"held at the {epoch} epoch"
    # Bayes-IPS has .64 at the most clicks, and .001 more at the held-out epoch.
    low = "-0.0410" if early else "-0.0400"
    assert [low in number for number in found.numbers] == [not early, early]
    assert found.numbers[0].startswith("last epoch: smallest lead")
    assert found.numbers[1].startswith("held-out epoch: smallest lead")


def test_without_held_out_clicks_the_last_epoch_decides(
    paper_results: list[Result],
) -> None:
    last = [replace(r, held_out_ndcg=None, held_out_epoch=None) for r in paper_results]
    found = finding(last, "Affine outperforms")
    assert found.verdict == "held"
    (number,) = found.numbers
    assert number.startswith("smallest lead")


def test_new_networks_are_a_number_beside_those_of_the_em(
    paper_results: list[Result],
) -> None:
    # In the EM's own networks soft-min-max leads by .02 or more, in new ones it trails.
    values = {"soft-min-max": 0.60, "softmax": 0.61, "sigmoid": 0.50}
    fresh = [
        replace(
            r,
            ndcg=value,
            cell=replace(r.cell, click_model_from=f"{click_model_from}(fresh=true)"),
        )
        for click_model_from, value in values.items()
        for r in paper_results
        if r.cell.click_model_from == click_model_from and r.cell.clicks == 8e6
    ]
    found = finding(paper_results + fresh, "Soft-min-max outperforms")
    assert found.verdict == "held"
    assert found.numbers[0] == finding(paper_results, "Soft-min-max out").numbers[0]
    assert found.numbers[-1].startswith("new networks: smallest lead -0.0100")
    assert len(finding(paper_results, "Soft-min-max outperforms").numbers) == 2


def test_alpha_is_judged_at_twenty_ranks_and_at_ten(
    paper_results: list[Result],
) -> None:
    def deep(result: Result) -> Result:
        """Alpha is 20 % too low at ranks 2 to 10, and three times too high below."""
        if result.cell.click_model_from != "soft-min-max":
            return result
        factors = [1.0] * 10 + [3.0 / 0.8] * 10
        alpha = tuple(a * f for a, f in zip(result.alpha, factors, strict=True))
        return replace(result, alpha=alpha)

    found = finding([deep(r) for r in paper_results], "Soft-min-max underestimates")
    assert found.verdict == "held at the first 10 ranks"
    mean = (9 * -0.2 + 10 * 2.0) / 19
    assert found.numbers == (
        f"first 20 ranks: {mean:+.0%} to {mean:+.0%}",
        "first 10 ranks: -20% to -20%",
    )


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
    results: list[Result],
    *,
    estimator: str,
    click_model_from: str = "true",
    value: float,
) -> list[Result]:
    moved = value + 0.001
    return [
        replace(
            r, ndcg=value + r.cell.run * 1e-4, held_out_ndcg=moved + r.cell.run * 1e-4
        )
        if (r.cell.estimator, r.cell.click_model_from) == (estimator, click_model_from)
        else r
        for r in results
    ]


@pytest.mark.parametrize(
    ("estimator", "click_model_from", "value", "failing"),
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
    click_model_from: str,
    value: float,
    failing: str,
) -> None:
    results = replaced(
        paper_results,
        estimator=estimator,
        click_model_from=click_model_from,
        value=value,
    )
    found = [h for text, h in held(results).items() if text.startswith(failing)]
    assert found == [False]


def test_a_naive_estimator_that_still_gains_has_not_converged(
    paper_results: list[Result],
) -> None:
    rising = [
        replace(
            r,
            ndcg=r.ndcg + (r.cell.clicks or 0) * 1e-8,
            held_out_ndcg=r.ndcg + (r.cell.clicks or 0) * 1e-8,
        )
        if r.cell.estimator == "naive"
        else r
        for r in paper_results
    ]
    assert held(rising)["The naive estimator has converged after 3e5 clicks."] is False


@pytest.mark.parametrize(
    ("click_model_from", "factors", "failing"),
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
    click_model_from: str,
    factors: tuple[float, float],
    failing: str,
    result_of: Callable[..., Result],
    click_model_of: Callable[..., TrustModel],
) -> None:
    def estimated(cell: Cell) -> TrustModel:
        true = settings_of("click_model", cell.click_model or "")
        return click_model_of(true.eta, true.eps_minus_1, *factors)

    results = [
        result_of(r.cell, r.ndcg, estimated(r.cell))
        if r.cell.click_model_from == click_model_from
        else r
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
        if (cell.click_model_from, cell.clicks, cell.run) == ("true", 3e4, 0)
    ]
    found = [h for text, h in held(results).items() if text.startswith("Clipping")]
    assert found == [expected]


def test_the_exception_that_the_paper_makes_is_made() -> None:
    text = next(s.text for s in STATEMENTS if "p <= 0.001" in s.text)
    assert "0.002 on MSLR" in text
