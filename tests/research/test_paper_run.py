"""The committed paper-scale runs: what must hold of them."""

import re
import runpy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from affinerank.bias.method import REPLICATES
from affinerank.defaults import ESTIMATOR, METHOD
from affinerank.research.cells import Cell
from affinerank.research.curves import Summary, points_of
from affinerank.research.groups import cells_of
from affinerank.research.report import report_page
from affinerank.research.results import load_results, load_run
from affinerank.research.statements.paper import AFFINE, below_full, check_statements

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
RUN = DOCS / "paper-run"
RUNS = sorted(path.parent for path in DOCS.glob("*-run/plan.toml"))
TABLES = runpy.run_path(str(DOCS / "make_tables.py"))
IN_ORDER = ("naive", "ips", "bayes-ips", "affine")


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_committed_report_says_what_its_results_say(run: Path) -> None:
    plan, results = load_run(run)
    assert {r.cell for r in results} <= set(cells_of(plan))  # it may not be over
    written = (run / "report.html").read_text(encoding="utf-8")
    made = report_page(plan, results)
    start, end = "<h1>", '<script type="application/json"'  # then figures, by version
    assert (
        written[written.index(start) :].split(end)[0]
        == (made[made.index(start) :].split(end)[0])
    )
    drawn = {path.stem for path in (run / "figures").glob("*.png")}
    assert drawn == set(plan.figures)
    kept = {len(r.per_query) > 0 for r in results if r.cell.clicks == max(plan.clicks)}
    assert kept == {True}


@pytest.mark.parametrize("page", TABLES["pages"](), ids=lambda page: page.name)
def test_pages_say_what_committed_results_say(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == TABLES["generated"](page), "make tables"


def test_what_a_page_has_of_a_run_is_found_out_where_it_is_changed(
    tmp_path: Path,
) -> None:
    page = tmp_path / "page.md"
    wrong = "<!-- table: estimation-ratio -->\n\n| 1e5 | .1 |\n\n<!-- end -->\n"
    page.write_text(f"Before.\n\n{wrong}\nAfter.\n")
    made = TABLES["generated"](page)
    assert made.startswith("Before.\n\n<!-- table: estimation-ratio -->\n\n| clicks |")
    assert made.endswith(" |\n\n<!-- end -->\n\nAfter.\n")
    assert "| 1e5 | .1 |" not in made
    page.write_text(made)
    assert TABLES["generated"](page) == made
    missing = "<!-- table: {} -->\n<!-- end -->\n"
    for call in ("figure no-run figure1 x", "curves no-run", "statements no-run ours"):
        page.write_text(missing.format(call))
        assert TABLES["generated"](page) == missing.format(call)
    page.write_text(missing.format("about no-run"))
    assert TABLES["MISSING"] in TABLES["generated"](page)


def test_at_the_most_clicks_the_estimators_have_the_papers_order() -> None:
    summary = Summary(load_results(RUN))
    assert len(summary.panels) == 8
    assert summary.counts[-1] == 8e6
    for panel, *values in zip(
        summary.panels, *(summary.means(name)[:, -1] for name in IN_ORDER), strict=True
    ):
        assert all(a < b for a, b in pairwise(values)), panel


def test_affine_is_near_full_information_where_position_bias_is_mild() -> None:
    summary = Summary(load_results(RUN))
    gaps = below_full(summary, AFFINE, most_eta=1.0)
    assert np.isfinite(gaps).sum() == 4
    assert np.nanmax(gaps) <= 0.01


def test_users_estimated_by_our_default_teach_as_much_as_known_ones() -> None:
    at_most_clicks = {
        (p.place.click_model, p.place.click_model_from): p.mean
        for p in points_of(load_results(RUN))
        if (p.place.data, p.place.estimator) == ("yahoo-like", "affine")
        and p.place.clicks == 8e6
    }
    settings = {setting for setting, _ in at_most_clicks}
    assert len(settings) == 4
    if METHOD not in {click_model_from for _, click_model_from in at_most_clicks}:
        pytest.skip("the run is not over")
    for setting in settings:
        away = at_most_clicks[setting, METHOD] - at_most_clicks[setting, "true"]
        assert abs(away) < 0.002


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_all_of_a_run_was_drawn_from_the_same_labels_and_ranks(run: Path) -> None:
    digests: dict[tuple[str, int], set[str]] = {}
    for result in load_results(run):
        place = (result.cell.data, result.cell.run)
        digests.setdefault(place, set()).add(result.digest)
    assert all(len(found) == 1 for found in digests.values())


def page_text(name: str) -> str:
    """The words of a page, without line breaks."""
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


def nearest_to_the_best() -> tuple[int, int, int]:
    """Logs the default leads; on which it beats all but posteriors; the same, any."""
    values: dict[Cell, dict[tuple[str, str, str], list[float]]] = {}
    for result in load_results(DOCS / "field-run"):
        cell = result.cell
        if cell.policy is None:
            continue
        log = replace(cell, estimator="", click_model_from=None, ranker=None, run=0)
        method = (cell.estimator, str(cell.click_model_from), str(cell.ranker))
        value = result.ndcg if result.held_out_ndcg is None else result.held_out_ndcg
        values.setdefault(log, {}).setdefault(method, []).append(value)
    leads, ahead, any_posterior = 0, 0, 0
    for methods in values.values():
        means = {method: np.mean(each) for method, each in methods.items()}
        others = max(v for m, v in means.items() if not m[0].startswith(ESTIMATOR))
        [default] = [
            value
            for (estimator, click_model_from, ranker), value in means.items()
            if (estimator, click_model_from) == (ESTIMATOR, METHOD) and "mlp" in ranker
        ]
        leads += default == max(means.values())
        ahead += default > others
        any_posterior += max(means.values()) > others
    return leads, ahead, any_posterior


def test_the_field_says_how_often_the_default_itself_leads() -> None:
    leads, ahead, any_posterior = nearest_to_the_best()
    assert (leads, ahead, any_posterior) == (15, 27, 38)
    said = page_text("field.md")
    assert f"*Posterior, mixture* leads {leads} of 72 logs" in said
    assert f"ahead of all that are no posteriors on {ahead} (" in said
    assert f"On {any_posterior} logs one of the 4 posteriors" in said
    assert "The posterior leads" not in said


def test_known_limits_say_how_often_the_posterior_is_below_production() -> None:
    said = page_text("known-limits.md")
    production = (TABLES["PRODUCTION_TITLE"],)
    for method, words in (
        (TABLES["POSTERIOR"], "below production on {} of {} logs"),
        (TABLES["POSTERIOR_TREES"], "its trees on {} of {}."),
    ):
        ahead, logs = TABLES["ahead_of"]("field-run", method, production)
        plain = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", said)
        assert words.format(logs - ahead, logs).removesuffix(" logs") in plain


def test_the_field_says_what_wrong_users_cost_the_posterior() -> None:
    matrix = (DOCS / "misspecification.md").read_text().split("## All settings")[1]
    rows = [line.strip("|").split("|") for line in matrix.splitlines() if "|" in line]
    names, settings = rows[0], rows[2:]
    given, naive, posterior = (names.index(n) for n in ("given", "naive", "post."))
    wrong = [row for row in settings if row[given] not in ("right", "estimated")]
    below = [row for row in wrong if float(row[posterior]) < float(row[naive])]
    said = (
        f"(misspecification.md#all-settings) in {len(below)} of {len(wrong)} settings"
    )
    assert said in page_text("field.md")


def test_the_states_of_the_code_behind_a_run_are_named() -> None:
    states = TABLES["states_of_code"]
    assert states(["a", "a"]) == []
    assert states(["a", "b", "a"]) == [
        "The run is from 2 states of the code: 2 and 1 cells."
    ]
    assert states(["a+", "a+"]) == [
        "The run is from one state of the code, 2 cells. 2 of them had changes that "
        "were not committed."
    ]
    commits = [result.commit for result in load_results(DOCS / "field-run")]
    changed = sum(commit.endswith("+") for commit in commits)
    said = page_text("field.md")
    assert f"{len(set(commits))} states of the code" in said
    assert f"{changed} of them had changes that were not committed" in said


def test_standard_errors_of_the_field_are_those_of_its_queries() -> None:
    [level] = [
        result
        for result in load_results(DOCS / "field-run")
        if (result.cell.data, result.cell.estimator) == ("mslr-like", "production")
        and result.cell.run == 0
    ]
    queries = np.isfinite(level.per_query).sum()
    assert f"| mslr-like | {queries} | .049 to .066 |" in page_text("field.md")
    # 26 queries whose nDCG differs by some .3: .3 / sqrt(26) = .06.
    spread = np.nanstd(level.per_query, ddof=1)
    assert spread / np.sqrt(queries) == pytest.approx(0.06, abs=0.02)
    values = np.array([0.1, np.nan, 0.3])
    assert TABLES["_standard_error"](values) == pytest.approx(0.1)


def test_standard_deviations_are_off_by_what_calibration_measured() -> None:
    # The least and the largest mean of error^2 / variance: .48 and 1.30 of 2 files, of
    # which the first has the prior of before on its left.
    said = page_text("few-clicks.md")
    assert f"up to {0.48**-0.5 - 1:.0%} too large" in said
    assert f"up to {1 - 1.30**-0.5:.0%} too small" in said


def test_pages_say_how_many_resamples_bands_are_from() -> None:
    assert f"from {REPLICATES} resamples of the queries" in page_text("estimation.md")


def test_the_readme_says_how_many_statements_of_the_paper_fail() -> None:
    said = page_text("../README.md")
    for run in ("paper-run", "real-run"):
        found = [f for _, f in check_statements(load_results(DOCS / run)) if f.verdict]
        failed = sum(each.verdict == "failed" for each in found)
        assert f"{failed} of {len(found)}" in said
