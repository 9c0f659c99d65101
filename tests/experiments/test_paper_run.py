"""The committed paper-scale run: what must hold of it."""

from itertools import pairwise
from pathlib import Path

from affinerank.experiments.results import load_results
from affinerank.experiments.summary import Summary, below_full

RUN = Path(__file__).parents[2] / "docs" / "paper-run"
IN_ORDER = ("naive", "ips", "bayes-ips", "affine")


def test_at_the_most_clicks_the_estimators_have_the_papers_order() -> None:
    summary = Summary(load_results(RUN))
    assert {panel[0] for panel in summary.panels} == {"yahoo-like", "mslr-like"}
    for panel in summary.panels:
        values = [summary.curve(panel, name)[8e6].mean for name in IN_ORDER]
        assert all(a < b for a, b in pairwise(values)), panel


def test_affine_is_near_full_information_where_position_bias_is_mild() -> None:
    summary = Summary(load_results(RUN))
    mild = [gap for gap, panel in below_full(summary, "affine") if panel[1].eta == 1]
    assert mild
    assert max(mild) <= 0.01


def test_all_of_a_run_was_drawn_from_the_same_labels_and_ranks() -> None:
    digests: dict[tuple[str, int], set[str]] = {}
    for result in load_results(RUN):
        place = (result.cell.data, result.cell.run)
        digests.setdefault(place, set()).add(result.digest)
    assert len(digests) == 8
    assert all(len(found) == 1 for found in digests.values())
