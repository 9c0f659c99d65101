"""The figures of an audit: click rates by rank, and bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from affinerank.charts import Spec, bias_figure

RANKS_DRAWN = 100
RANKS_LINEAR = 20  # deeper lists are drawn on a log scale
LOGGED = "as logged"
SAME = "the same documents at every rank"
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#000000",
    "#999999",
)


def audit_figures(about: Mapping[str, Any]) -> dict[str, Spec]:
    """What there is to draw in the findings of an audit, by name."""
    rates, identified = about["click_rates"], about["identified"]
    figures: dict[str, Spec] = {}
    if len(rates.get("by_rank", [])) > 1:
        figures["rates"] = _rate_figure(_observed_and_same(rates["by_rank"]))
    for key in ("ranker", "segment"):
        groups = rates.get(f"by_{key}", [])
        if len(groups) > 1:
            named = {group["name"]: group["by_rank"] for group in groups}
            figures[key] = _rate_figure(named)
    if "by_rank" in identified:
        drawn = bias_figure(identified["by_rank"], None)
        # Without it the browser takes the version of Vega-Lite that the page carries.
        figures["bias"] = {k: v for k, v in drawn.items() if k != "$schema"}
    return figures


def _observed_and_same(
    rows: Sequence[Mapping[str, Any]],
) -> dict[str, Sequence[Mapping[str, Any]]]:
    series: dict[str, Sequence[Mapping[str, Any]]] = {LOGGED: rows}
    same = [
        {"rank": row["rank"], "rate": row["same_documents"]}
        for row in rows
        if row.get("same_documents") is not None
    ]
    return series | ({SAME: same} if same else {})


def _rate_figure(series: Mapping[str, Sequence[Mapping[str, Any]]]) -> Spec:
    """Click rate by rank, a line for each series, with intervals where there are."""
    names = ("rank", "rate", "low", "high")
    values = [
        {"series": name, **{key: row[key] for key in names if key in row}}
        for name, rows in series.items()
        for row in rows[:RANKS_DRAWN]
    ]
    deep = max(value["rank"] for value in values) > RANKS_LINEAR
    axis = {"tickMinStep": 1, "format": "d", "grid": False}
    x: Spec = {"field": "rank", "type": "quantitative", "title": "rank", "axis": axis}
    if deep:
        ticks = [1, 2, 3, 5, 10, 20, 50, 100]
        x["axis"] = {"values": ticks, "grid": False}
        x["scale"] = {"type": "log", "nice": False}
    colour: Spec = {
        "field": "series",
        "type": "nominal",
        "title": None,
        "sort": list(series),
        "scale": {"domain": list(series), "range": list(COLOURS[: len(series)])},
        "legend": {"orient": "top", "labelLimit": 260} if len(series) > 1 else None,
    }
    y: Spec = {"type": "quantitative", "title": "click rate", "scale": {"zero": True}}
    shared = {"x": x, "color": colour}
    tips = [{"field": f} for f in ("series", "rank", "rate", "low", "high")]
    return {
        "data": {"values": values},
        "width": "container",
        "height": 260,
        "encoding": shared,
        "layer": [
            {"mark": "line", "encoding": {"y": {**y, "field": "rate"}}},
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "opacity": 0.5, "size": 3},
                "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 50},
                "encoding": {"y": {**y, "field": "rate"}, "tooltip": tips},
            },
        ],
        "config": {"font": "DejaVu Sans, Verdana, Arial, sans-serif"},
    }
