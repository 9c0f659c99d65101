"""Figures and the report: files of every kind, and a page that works offline."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affinerank.output.charts import save_figure
from affinerank.research.cells import DataSet
from affinerank.research.curves import Summary
from affinerank.research.figures import LOOKS, draw
from affinerank.research.plan import Plan, shipped_plan
from affinerank.research.report import report_page, write_figures, write_report
from affinerank.research.reproduce import plan_for, reproduce
from affinerank.research.results import (
    GROUPS,
    Result,
    load_results,
    open_folder,
    write_results,
)
from affinerank.support.errors import ConfigError, DataError

pytestmark = pytest.mark.slow

Results = Callable[..., list[Result]]

FIGURES = ("figure1", "figure2", "figure3")
MARK = '</script><img src=x onerror="document.title=1">&'


def plan_of(name: str) -> Plan:
    plan = shipped_plan("all", "paper")
    grid = replace(plan.grids[0], data=())
    return replace(plan, data=(DataSet(name, name),), grids=(grid,), name=name)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_saved_in_every_format(
    name: str, paper_results: list[Result], tmp_path: Path
) -> None:
    spec = draw(name, paper_results)
    starts = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF", "html": b"<!DOCTYPE"}
    for ending, start in starts.items():
        path = tmp_path / f"{name}.{ending}"
        save_figure(spec, path)
        assert path.read_bytes()[:40].lstrip().upper().startswith(start.upper())
    svg = (tmp_path / f"{name}.svg").read_text()
    assert "NaN" not in svg
    assert svg.count("η = ") >= 4


def test_what_cannot_be_drawn_is_an_error(paper_results: list[Result]) -> None:
    with pytest.raises(ConfigError, match="no figure 'figure9'"):
        draw("figure9", paper_results)
    with pytest.raises(DataError, match="Figure 3 draws click models by rank"):
        draw("figure3", [r for r in paper_results if not r.alpha])
    with pytest.raises(DataError, match="Figure 1 draws estimator by clicks"):
        draw("figure1", [])


def rows_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for panel in panels_of(spec) for row in panel]


def panels_of(spec: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The numbers of each row of panels."""
    return [panel["data"]["values"] for panel in spec["vconcat"]]


def test_figure1_draws_means_and_deviations_over_runs(
    paper_results: list[Result],
) -> None:
    rows = rows_of(draw("figure1", paper_results))
    row = next(
        r
        for r in rows
        if (r["series"], r["x"], r["setting"]) == ("Affine", 8e6, "η = 1, ε⁻₁ = 0.65")
    )
    assert row["y"] == pytest.approx(0.69)
    assert row["deviation"] == pytest.approx(1.29e-4, rel=0.01)
    assert row["runs"] == 4
    assert {r["series"] for r in rows} == set(list(LOOKS)[:6])


def test_figure3_has_the_truth_and_estimates_modulo_gauge(
    paper_results: list[Result],
) -> None:
    panels = panels_of(draw("figure3", paper_results))
    assert len(panels) == 4
    truth = {
        (r["setting"], r["x"]): r["y"]
        for r in panels[2]
        if r["series"] == "True values"
    }
    for row in panels[2]:
        if row["series"] == "Soft-min-max":  # off by a factor: the same modulo gauge
            place = (row["setting"], row["x"])
            assert row["y"] == pytest.approx(truth[place], rel=1e-6)


def test_figure2_draws_data_with_estimated_users_alone(
    paper_results_of: Results,
) -> None:
    known = [
        r
        for r in paper_results_of("known")
        if r.cell.click_model_from in (None, "true")
    ]
    spec = draw("figure2", [*known, *paper_results_of("estimated")])
    assert [panel["title"] for panel in spec["vconcat"]] == ["estimated"]
    with pytest.raises(DataError, match="Figure 2"):
        draw("figure2", known)


def test_other_policies_and_rankers_have_panels_of_their_own(
    paper_results: list[Result],
) -> None:
    changes: list[dict[str, Any]] = [
        {"policy": "fixed(top_k=5)"},
        {"ranker": "lightgbm"},
    ]
    other = [
        replace(r, cell=replace(r.cell, **change))
        for r in paper_results
        for change in changes
        if r.cell.click_model == "trust(eta=1, eps_minus_1=0.65)"
    ]
    trees = [
        replace(r, ndcg=0.8, cell=replace(r.cell, ranker="lightgbm"))
        for r in paper_results
        if r.cell.estimator == "full-information"
    ]
    rows = rows_of(draw("figure1", [*paper_results, *other, *trees]))
    base = "η = 1, ε⁻₁ = 0.65"
    panels = (base, f"{base}, Fixed ranking, top_k 5", f"{base}, LightGBM trees")
    assert set(panels) < {row["setting"] for row in rows}
    for panel in panels:  # a level is drawn where its ranker is
        own = [row for row in rows if row["setting"] == panel]
        full = {row["y"] for row in own if row["series"] == "Full information"}
        assert [round(y, 6) for y in full] == [0.8 if "trees" in panel else 0.7]
        assert {row["x"] for row in own if row["series"] == "Production"} == {3e4, 8e6}


def test_series_that_are_not_known_have_looks_too(paper_results: list[Result]) -> None:
    clips = ("0.1", "0.2")
    clipped = [
        replace(r, cell=replace(r.cell, estimator=f"affine(clip={clip})"))
        for r in paper_results
        for clip in clips
        if (r.cell.estimator, r.cell.click_model_from) == ("affine", "true")
    ]
    spec = draw("figure1", [*paper_results, *clipped])
    colour = spec["vconcat"][0]["spec"]["encoding"]["color"]["scale"]
    assert colour["domain"][-2:] == [f"Affine, clip {clip}" for clip in clips]
    assert len(set(colour["range"])) == len(colour["domain"]) == 8


def test_every_series_has_a_look_of_its_own() -> None:
    for own in (list(LOOKS)[:6], list(LOOKS)[6:]):
        looks = [LOOKS[name] for name in own]
        assert len({look[0] for look in looks}) == len(looks)
        assert len({look[1:] for look in looks}) == len(looks)


@pytest.fixture(scope="module")
def hostile(paper_results_of: Results) -> str:
    """The report of a plan and data with hostile names."""
    return report_page(plan_of(MARK), paper_results_of(MARK))


def test_ids_cannot_inject_html(hostile: str) -> None:
    assert MARK not in hostile
    assert "&lt;/script&gt;&lt;img" in hostile
    start = hostile.index('id="figure1">') + len('id="figure1">')
    spec = json.loads(hostile[start : hostile.index("</script>", start)])
    assert spec["vconcat"][0]["title"] == MARK


def test_failed_statements_are_shown_as_failed(paper_results_of: Results) -> None:
    page = report_page(plan_of("world"), paper_results_of(shift=-0.1))
    assert page.count('<span class="failed">') >= 4
    assert '<span class="held">' in page
    assert "Not measured here: 2<" in page  # noise and clipping, not in its figures


def test_our_question_comes_first_where_a_plan_asks_it(
    paper_results: list[Result],
) -> None:
    plan = replace(plan_of("world"), figures=("figure1", "figure4"))
    ours = [
        replace(r, cell=replace(r.cell, estimator="posterior"), ndcg=r.ndcg + 0.01)
        for r in paper_results
        if (r.cell.estimator, r.cell.click_model_from) == ("affine", "true")
    ]
    page = report_page(plan, [*paper_results, *ours])
    marks = ("Does it rank", '"figure4"', "What the paper says", '"figure1"')
    places = [page.index(mark) for mark in marks]
    assert places == sorted(places)
    assert page.count('<div class="scroll" data-figure=') == 2
    assert "What we say" in page
    assert "What we say" not in report_page(plan_of("world"), paper_results)


def test_a_report_opens_with_the_gain_over_production(
    paper_results: list[Result],
) -> None:
    page = report_page(plan_of("world"), paper_results)
    before, after = page.index("Does it rank better?"), page.index("What the paper")
    assert before < after
    # Affine is .14 above; a query has half of it, the other half more: .07 and .21.
    # So the error is .07, with one degree of freedom: .14 -+ 12.706 * .07.
    assert (
        "Not clear (world, η = 1, ε⁻₁ = 0.65): after 8,000,000 clicks, Affine ranks "
        "+0.140 above production in nDCG@10 (95 % -0.749 to +1.029, 2 test queries"
    ) in page
    clear = [  # a thousand such queries leave no doubt
        replace(r, per_query=r.per_query * 500) for r in paper_results
    ]
    assert "Yes (world, η = 1, ε⁻₁ = 0.65): after 8,000,000" in report_page(
        plan_of("world"), clear
    )
    learnt = [r for r in paper_results if r.cell.estimator != "production"]
    assert "Does it rank" not in report_page(plan_of("world"), learnt)


def test_each_panel_has_its_p_values_over_runs_and_over_queries(
    paper_results: list[Result],
) -> None:
    summary = Summary(paper_results)
    panel = summary.panels[0]
    # Affine is .69 and Bayes-IPS .64; a query has half of it, the other half more:
    # differences of -.025 and -.075, so t = -.05 / .025 with one degree of freedom.
    tests = summary.tests(panel, "queries")
    assert tests["bayes-ips"].difference == pytest.approx(-0.05)
    assert tests["bayes-ips"].p == pytest.approx(1 - 2 / np.pi * np.arctan(2.0))
    assert tests["bayes-ips"].n == 2
    assert set(tests) == set(summary.tests(panel)) == {"naive", "ips", "bayes-ips"}
    folds = [  # the last run is a fold with one query more
        replace(r, per_query=(*r.per_query, r.ndcg)) if r.cell.run == 3 else r
        for r in paper_results
    ]
    tests_of_folds = Summary(folds).tests(panel, "queries")
    assert {test.n for test in tests_of_folds.values()} == {4 * 2 + 1}
    unkept = Summary([replace(r, per_query=()) for r in paper_results])
    assert unkept.tests(panel, "queries") == {}
    page = report_page(plan_of("world"), paper_results)
    assert "p, paired over queries" in page
    assert f"<td>{tests['bayes-ips'].p:.2g}</td>" in page


def test_a_report_of_an_unfinished_run_says_so(
    paper_results: list[Result], tmp_path: Path
) -> None:
    root = open_folder(tmp_path / "run", plan_of("world"))
    assert "0 of" in write_report(root).read_text()
    write_results(root / GROUPS / "group-0000.parquet", paper_results)
    assert "the run is not over" in write_report(root, tmp_path / "x.html").read_text()
    assert len(load_results(root)) == len(paper_results)
    some = [result for result in paper_results if not result.alpha]
    write_results(root / GROUPS / "group-0000.parquet", some)
    page = write_report(root).read_text()  # without what draws Figures 2 and 3
    assert 'data-figure="figure1"' in page
    assert 'data-figure="figure3"' not in page
    with pytest.raises(DataError, match="not the folder of a run"):
        write_report(tmp_path)


def test_the_report_works_offline_in_a_browser(
    hostile: str, tmp_path: Path, browse: Callable[[Path], Any]
) -> None:
    report = tmp_path / "report.html"
    report.write_text(hostile, encoding="utf-8")
    tab = browse(report)
    tab.wait_for_selector("[data-figure=figure3] svg .mark-symbol path")
    assert tab.locator("[data-figure] svg.marks").count() == 3
    assert tab.title().startswith("AffineRank")
    assert tab.locator("img").count() == 0

    figure = tab.locator("[data-figure=figure1]")
    points = figure.locator(".mark-symbol.role-mark path")
    assert points.count() > 20
    symbols = figure.locator(".mark-symbol.role-mark path[aria-label*='Affine']")
    symbols.nth(1).hover(force=True)
    tab.wait_for_selector("#vg-tooltip-element.visible")
    assert "standard deviation" in tab.locator("#vg-tooltip-element").inner_text()

    def strong() -> int:
        opacities = points.evaluate_all(
            "all => all.map(p => p.getAttribute('opacity'))"
        )
        return sum(value in (None, "1") for value in opacities)

    before = strong()
    figure.locator(".role-legend-entry .role-legend-symbol path").nth(3).click()
    tab.wait_for_timeout(300)
    assert 0 < strong() < before


def test_reproduce_writes_results_figures_and_report(tmp_path: Path) -> None:
    about = reproduce("figure1", tmp_path / "run", profile="smoke", device="cpu")
    names = {Path(path).name for path in about["written"]}
    assert names == {
        "results.parquet",
        "figure1.png",
        "figure1.svg",
        "figure1.pdf",
        "report.html",
    }
    assert all(Path(path).stat().st_size for path in about["written"])
    assert about["cells"] == len(load_results(tmp_path / "run"))
    assert json.dumps(about)
    again = reproduce("figure1", tmp_path / "run", profile="smoke", device="cpu")
    assert again["seconds"] == about["seconds"]
    assert len(write_figures(tmp_path / "run", ["html"])) == 1


def test_a_plan_is_named_or_is_a_file(tmp_path: Path) -> None:
    plan = replace(shipped_plan("figure1", "smoke"), name="own")
    path = tmp_path / "own.toml"
    path.write_text(plan.to_toml())
    assert plan_for(str(path)) == plan
    assert plan_for("figure1", profile="smoke", seed=7).seed == 7
    with pytest.raises(ConfigError, match="no plan 'figur1'; did you mean"):
        plan_for("figur1")
