"""The committed paper-scale runs: what must hold of them."""

import runpy
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from affinerank.defaults import METHOD
from affinerank.experiments.cells import cells_of
from affinerank.experiments.report import report_page
from affinerank.experiments.results import load_results, load_run
from affinerank.experiments.series import Summary, points_of
from affinerank.experiments.statements import AFFINE, below_full

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
        (p.place.click_model, p.place.users): p.mean
        for p in points_of(load_results(RUN))
        if (p.place.data, p.place.estimator) == ("yahoo-like", "affine")
        and p.place.clicks == 8e6
    }
    settings = {setting for setting, _ in at_most_clicks}
    assert len(settings) == 4
    if METHOD not in {users for _, users in at_most_clicks}:
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
