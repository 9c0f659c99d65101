"""The committed paper-scale runs: what must hold of them."""

from itertools import pairwise
from pathlib import Path

from affinerank.experiments.cells import cells_of
from affinerank.experiments.plan import read_plan
from affinerank.experiments.results import load_results
from affinerank.experiments.series import points_of
from affinerank.experiments.summary import Summary, below_full

DOCS = Path(__file__).parents[2] / "docs"
RUN = DOCS / "paper-run"
CLIPPING = DOCS / "clipping-run"
IN_ORDER = ("naive", "ips", "bayes-ips", "affine")


def test_at_the_most_clicks_the_estimators_have_the_papers_order() -> None:
    results = load_results(RUN)
    assert {r.cell for r in results} == set(cells_of(read_plan(RUN / "plan.toml")))
    summary = Summary(results)
    assert len(summary.panels) == 8
    for panel in summary.panels:
        values = [summary.curve(panel, name)[8e6].mean for name in IN_ORDER]
        assert all(a < b for a, b in pairwise(values)), panel


def test_affine_is_near_full_information_where_position_bias_is_mild() -> None:
    summary = Summary(load_results(RUN))
    mild = [gap for gap, panel in below_full(summary, "affine") if panel[1].eta == 1]
    assert len(mild) == 4
    assert max(mild) <= 0.01


def test_users_estimated_by_our_default_teach_as_much_as_known_ones() -> None:
    at_most_clicks = {
        (p.setting, p.users): p.mean
        for p in points_of(load_results(RUN))
        if p.data == "yahoo-like" and p.estimator == "affine" and p.clicks == 8e6
    }
    settings = {setting for setting, _ in at_most_clicks}
    assert len(settings) == 4
    for setting in settings:
        away = at_most_clicks[setting, "default"] - at_most_clicks[setting, "true"]
        assert abs(away) < 0.002


def test_clipping_helps_affine_at_the_fewest_clicks() -> None:
    at_fewest = {
        (p.setting, p.clip): p.mean
        for p in points_of(load_results(CLIPPING))
        if p.estimator == "affine" and p.clicks == 3e4
    }
    settings = {setting for setting, _ in at_fewest}
    assert len(settings) == 4
    for setting in settings:
        gain = at_fewest[setting, "10/sqrt(n)"] - at_fewest[setting, "none"]
        assert gain > 0.015


def test_all_of_a_run_was_drawn_from_the_same_labels_and_ranks() -> None:
    digests: dict[tuple[str, int], set[str]] = {}
    for result in (*load_results(RUN), *load_results(CLIPPING)):
        place = (result.cell.data, result.cell.run)
        digests.setdefault(place, set()).add(result.digest)
    assert len(digests) == 8
    assert all(len(found) == 1 for found in digests.values())
