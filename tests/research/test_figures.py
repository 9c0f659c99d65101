"""Figures: which values are drawn, under which names, in which panels."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from affinerank.research.cells import Cell
from affinerank.research.figures import LABEL_ROOM, LOOKS, _labelled, draw
from affinerank.research.results import Result

pytestmark = pytest.mark.slow

MODEL = "trust(eta=1, eps_minus_1=0.65)"
NAMES = {
    ("affine", "true"): "Affine",
    ("affine(clip=10/sqrt(n))", "true"): "Affine, clip 10/sqrt(n)",
    ("policy-aware", "true"): "Policy-aware",
    ("direct", "true"): "Direct method",
    ("doubly-robust", "true"): "Doubly robust",
    ("posterior", "true"): "Posterior",
    ("posterior", "mixture"): "Posterior, mixture",
}


def measured(
    result_of: Callable[..., Result], policies: Sequence[str] = ("fixed",)
) -> list[Result]:
    """Two runs of each method, 0.1 apart, and a production ranker."""
    made = []
    for run in range(2):
        cell = Cell("world", None, None, None, "production", None, None, run)
        made.append(
            replace(result_of(cell, 0.5), held_out_ndcg=None, held_out_epoch=None)
        )
        for policy in policies:
            for i, (estimator, click_model_from) in enumerate(NAMES):
                cell = Cell(
                    "world", MODEL, policy, 1e4, estimator, click_model_from, "mlp", run
                )
                value = result_of(cell, 0.6 + i / 100 + run / 10)
                made.append(replace(value, held_out_ndcg=value.ndcg - 0.2))
    return made


def rows_of(drawn: dict[str, Any]) -> list[dict[str, Any]]:
    (panels,) = drawn["vconcat"]
    found: list[dict[str, Any]] = panels["data"]["values"]
    return found


@pytest.mark.parametrize("name", ["figure4", "figure5"])
def test_methods_are_drawn_at_the_epoch_that_held_out_clicks_chose(
    name: str, result_of: Callable[..., Result]
) -> None:
    drawn = draw(name, measured(result_of))
    rows = {row["series"]: row for row in rows_of(drawn)}
    assert set(rows) == {"Production", *NAMES.values()}
    assert set(rows) <= set(LOOKS)
    for i, title in enumerate(NAMES.values()):
        assert rows[title]["y"] == pytest.approx(0.6 + i / 100 + 0.05 - 0.2)
        assert rows[title]["deviation"] == pytest.approx(0.1 / np.sqrt(2))
    assert rows["Production"]["y"] == 0.5  # it has no epochs
    assert "nDCG@10, held-out epoch" in str(drawn)


def test_without_a_held_out_epoch_the_last_is_drawn(
    result_of: Callable[..., Result],
) -> None:
    results = [replace(r, held_out_ndcg=None) for r in measured(result_of)]
    drawn = draw("figure4", results)
    rows = {row["series"]: row["y"] for row in rows_of(drawn)}
    assert rows["Affine"] == pytest.approx(0.65)
    assert "held-out" not in str(drawn)
    assert "held-out" not in str(draw("figure1", measured(result_of)))


def test_cutoffs_make_panels(result_of: Callable[..., Result]) -> None:
    results = measured(result_of, ["fixed(top_k=5)", "fixed(top_k=10)"])
    drawn = draw("figure5", results)
    titles = {row["setting"] for row in rows_of(drawn)}
    assert titles == {f"η = 1, ε⁻₁ = 0.65, Fixed ranking, top_k {k}" for k in (5, 10)}
    row = drawn["vconcat"][0]
    assert row["spec"]["width"] == 310  # two panels share the row
    assert row["facet"]["column"]["header"]["labelFontSize"] == 12.0


def test_looks_differ_within_a_figure() -> None:
    looks = [LOOKS[title] for title in ("Production", "IPS", *NAMES.values())]
    assert len({colour for colour, _, _ in looks}) == len(looks)
    assert len({(shape, dashes) for _, shape, dashes in looks}) == len(looks)


def test_labels_of_clicks_do_not_overlap() -> None:
    counts = [1e3, 1e4, 3e4, 1e5, 3e5, 1e6, 8e6]
    kept = sorted(_labelled(counts))
    assert kept == [1e3, 1e4, 1e5, 1e6, 8e6]
    assert min(np.diff(np.log10(kept))) >= LABEL_ROOM * np.log10(8e6 / 1e3)
