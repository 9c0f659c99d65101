"""The paper's figures, each from one Vega-Lite specification.

Series are told apart without colour too: each has a shape and dashes of its own, and
the colours, of different lightness, stay apart for colour-blind readers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import altair as alt
import numpy as np

from affinerank.charts import Spec
from affinerank.errors import ConfigError, DataError
from affinerank.experiments.parameters import Estimate, Floats, estimates_of
from affinerank.experiments.plan import BASELINES, TRUE, Setting
from affinerank.experiments.results import Result
from affinerank.experiments.series import USERS, Point, points_of, title_of
from affinerank.pipeline import RANKS_SHOWN

Rows = list[dict[str, Any]]

# (colour, shape, dashes) of each series; the colours after Okabe and Ito.
LOOKS: Mapping[str, tuple[str, str, tuple[int, ...]]] = MappingProxyType(
    {
        "Production": ("#8a8a8a", "stroke", (2, 3)),
        "Full information": ("#000000", "stroke", (10, 4)),
        "No correction": ("#56b4e9", "circle", (1, 0)),
        "IPS": ("#e69f00", "square", (6, 3)),
        "Bayes-IPS": ("#009e73", "triangle-up", (3, 2)),
        "Affine": ("#a0005a", "diamond", (1, 0)),
        "True values": ("#000000", "cross", (1, 0)),
        "Soft-min-max": ("#a0005a", "diamond", (1, 0)),
        "Softmax": ("#e69f00", "square", (6, 3)),
        "Sigmoid": ("#56b4e9", "circle", (3, 2)),
        "Our default": ("#009e73", "triangle-up", (8, 2, 2, 2)),
    }
)
OTHER = ("#0072b2", "triangle-down", (4, 4))
WIDTH, HEIGHT = 205, 165
LABEL_ROOM = 0.17  # of the axis, for a number of clicks
# A click on the legend picks a series, in all panels at once: one view owns the pick.
PICKED: Spec = {
    "name": "picked",
    "select": {"type": "point", "fields": ["series"]},
    "bind": "legend",
    "views": ["first"],
}


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """Axes of a panel, x as a reader hovers over it, and whether to cut off."""

    x: alt.X
    title: str
    scale: alt.Scale
    tip: alt.Tooltip
    cut: bool = False


def figure1(results: Sequence[Result]) -> alt.VConcatChart:
    """nDCG@10 against clicks of each estimator, given the true users."""
    chosen = [p for p in points_of(results) if p.users == TRUE]
    return _curves(chosen, lambda point: point.method, "Figure 1")


def figure2(results: Sequence[Result]) -> alt.VConcatChart:
    """nDCG@10 against clicks of the affine estimator, by where its users come from."""
    chosen = [
        p
        for p in points_of(results)
        if p.estimator in (*BASELINES, "affine") and p.clip == "none"
    ]
    with_estimates = {p.data for p in chosen if p.users != TRUE}
    chosen = [p for p in chosen if p.data in with_estimates]

    def name(point: Point) -> str:
        return point.method if point.estimator in BASELINES else USERS[point.users]

    return _curves(chosen, name, "Figure 2")


def figure3(results: Sequence[Result]) -> alt.VConcatChart:
    """Estimated alpha and beta by rank, as they are and in the gauge of the truth."""
    found = estimates_of(results)
    if not found:
        raise DataError("Figure 3 draws estimated users, and these results have none")
    shown = ("αₖ", "βₖ", "αₖ, modulo gauge", "βₖ, modulo gauge")
    panels = []
    for data in dict.fromkeys(e.data for e in found):
        own = [e for e in found if e.data == data]
        for place, label in enumerate(shown):
            rows = [row for estimate in own for row in _by_rank(estimate, place)]
            truth = [row for one in _first_each(own) for row in _truth(one, place)]
            axes = _rank_axes(label, truth)
            # The truth first: an estimate that hits it is drawn over it.
            panels.append(_panel_row(truth + rows, f"{data}: {label}", axes))
    return _together(panels, "Figure 3")


DRAWN: Mapping[str, Callable[[Sequence[Result]], alt.VConcatChart]] = MappingProxyType(
    {"figure1": figure1, "figure2": figure2, "figure3": figure3}
)


def draw(name: str, results: Sequence[Result]) -> Spec:
    """The specification of a figure, complete with its numbers."""
    if name not in DRAWN:
        raise ConfigError(f"there is no figure {name!r}; known are {', '.join(DRAWN)}")
    spec: Spec = DRAWN[name](results).to_dict()
    spec["vconcat"][0]["spec"]["layer"][-1]["name"] = PICKED["views"][0]
    return {**spec, "params": [PICKED]}


def _curves(
    points: Sequence[Point], name: Callable[[Point], str], title: str
) -> alt.VConcatChart:
    panels = []
    for data in dict.fromkeys(p.data for p in points if p.setting is not None):
        own = [point for point in points if point.data == data]
        settings = list(dict.fromkeys(p.setting for p in own if p.setting is not None))
        counts = sorted({p.clicks for p in own if p.clicks is not None})
        rows: Rows = []
        for point in own:
            places = [(point.setting, point.clicks)]
            if point.setting is None:  # a level: drawn across every panel
                places = [(s, c) for s in settings for c in (counts[0], counts[-1])]
            rows += [_curve_row(point, name(point), s, c) for s, c in places if s]
        panels.append(_panel_row(rows, data, _click_axes(counts)))
    if not panels:
        raise DataError(f"{title} draws what clicks taught, and nothing here did")
    return _together(panels, title)


def _curve_row(
    point: Point, series: str, setting: Setting | None, clicks: float | None
) -> dict[str, Any]:
    spread = 0.0 if np.isnan(point.deviation) else point.deviation
    return {
        "setting": title_of(setting) if setting else "",
        "series": series,
        "x": clicks,
        "y": point.mean,
        "low": point.mean - spread,
        "high": point.mean + spread,
        "deviation": spread,
        "runs": len(point.values),
        "level": point.setting is None,
    }


def _by_rank(estimate: Estimate, place: int) -> Rows:
    values = (
        estimate.alpha,
        estimate.beta,
        estimate.gauge_alpha,
        estimate.gauge_beta,
    )[place]
    return _rank_rows(estimate.setting, USERS[estimate.users], values)


def _truth(estimate: Estimate, place: int) -> Rows:
    values = (estimate.truth.alpha, estimate.truth.beta)[place % 2]
    return _rank_rows(estimate.setting, USERS[TRUE], values[None, :])


def _rank_rows(setting: Setting, series: str, values: Floats) -> Rows:
    mean = values.mean(axis=0)
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(mean))
    return [
        {
            "setting": title_of(setting),
            "series": series,
            "x": rank + 1,
            "y": float(mean[rank]),
            "low": float(mean[rank] - spread[rank]),
            "high": float(mean[rank] + spread[rank]),
            "deviation": float(spread[rank]),
            "runs": len(values),
            "level": False,
        }
        for rank in range(min(RANKS_SHOWN, len(mean)))
        if np.isfinite(mean[rank])
    ]


def _first_each(estimates: Sequence[Estimate]) -> list[Estimate]:
    """One estimate of each setting, for its truth."""
    return list({estimate.setting: estimate for estimate in estimates}.values())


def _click_axes(counts: Sequence[float]) -> Axes:
    axis = alt.Axis(
        title="Training clicks",
        format="~s",
        values=list(counts),
        grid=False,
        labelExpr=f"indexof({_labelled(counts)}, datum.value) < 0 ? '' : datum.label",
        labelOverlap=False,
    )
    x = alt.X("x:Q", axis=axis).scale(type="log", nice=False)
    tip = alt.Tooltip("x:Q", title="clicks", format=",.0f")
    return Axes(x, "nDCG@10", alt.Scale(zero=False), tip)


def _labelled(counts: Sequence[float]) -> list[float]:
    """Clicks whose labels have room: the most, then powers of ten, then the others."""
    least = LABEL_ROOM * np.log10(counts[-1] / counts[0])
    kept = [counts[-1]]
    for clicks in sorted(counts, key=lambda n: (np.log10(n) % 1 > 0, -n)):
        if all(abs(np.log10(other / clicks)) >= least for other in kept):
            kept.append(clicks)
    return kept


def _rank_axes(label: str, truth: Rows) -> Axes:
    """Axes by rank; modulo gauge, what is far from the truth is cut off."""
    x = alt.X("x:Q", title="Rank k").axis(tickCount=RANKS_SHOWN, grid=False, format="d")
    tip = alt.Tooltip("x:Q", title="rank")
    if "gauge" not in label:
        return Axes(x, label, alt.Scale(zero=False), tip)
    low, high = min(r["y"] for r in truth), max(r["y"] for r in truth)
    span = high - low
    scale = alt.Scale(domain=[low - span / 5, high + span])
    return Axes(x, label, scale, tip, cut=True)


def _panel_row(rows: Rows, title: str, axes: Axes) -> alt.FacetChart:
    """A row of panels, one for each setting, on one scale."""
    order = list(dict.fromkeys(row["setting"] for row in rows))
    column = alt.Column("setting:N", sort=order, title=None)
    data = alt.InlineData(values=rows)
    return (
        _layers(_looks(rows), axes)
        .properties(width=WIDTH, height=HEIGHT)
        .facet(data=data, column=column)
        .properties(title=title)
    )


def _layers(looks: dict[str, Any], axes: Axes) -> alt.LayerChart:
    """Standard deviation as a band, means as a line, points to hover over."""
    strong = {"condition": {"param": "picked", "value": 1.0}, "value": 0.12}
    faint = {"condition": {"param": "picked", "value": 0.16}, "value": 0.02}
    y = alt.Y("y:Q", title=axes.title, scale=axes.scale)
    low = alt.Y("low:Q", title=axes.title, scale=axes.scale)
    tips = [
        alt.Tooltip("series:N", title="method"),
        axes.tip,
        alt.Tooltip("y:Q", title="mean", format=".4f"),
        alt.Tooltip("deviation:Q", title="standard deviation", format=".4f"),
        alt.Tooltip("runs:Q", title="runs"),
    ]
    base = alt.Chart().encode(x=axes.x, color=looks["color"])
    band = base.mark_area(clip=axes.cut).encode(y=low, y2="high:Q", opacity=faint)
    line = base.mark_line(strokeWidth=1.6, clip=axes.cut)
    line = line.encode(y=y, strokeDash=looks["strokeDash"], opacity=strong)
    dots = base.mark_point(size=42, filled=True, clip=axes.cut)
    dots = dots.encode(y=y, shape=looks["shape"], opacity=strong, tooltip=tips)
    return alt.LayerChart(layer=[band, line, dots])


def _looks(rows: Rows) -> dict[str, Any]:
    """Colour, shape and dashes of the series there are, in one legend."""
    series = [name for name in LOOKS if any(row["series"] == name for row in rows)]
    series += sorted({row["series"] for row in rows} - set(series))
    looks = [LOOKS.get(name, OTHER) for name in series]
    legend = alt.Legend(title=None, orient="bottom", symbolOpacity=1.0, columns=7)
    colours, shapes, dashes = zip(*looks, strict=True)
    colour = alt.Color("series:N", legend=legend)
    shape = alt.Shape("series:N", legend=legend)
    dash = alt.StrokeDash("series:N", legend=legend)
    return {
        "color": colour.scale(domain=series, range=list(colours)),
        "shape": shape.scale(domain=series, range=list(shapes)),
        "strokeDash": dash.scale(domain=series, range=[list(d) for d in dashes]),
    }


def _together(panels: Sequence[alt.FacetChart], title: str) -> alt.VConcatChart:
    chart: alt.VConcatChart = (
        alt.vconcat(*panels)
        .properties(title=title)
        .resolve_legend(color="shared", shape="shared", strokeDash="shared")
        .resolve_scale(color="shared", shape="shared", strokeDash="shared")
        .configure(font="DejaVu Sans, Verdana, Arial, sans-serif")
        .configure_view(stroke="#bbbbbb")
        .configure_axis(labelFontSize=10, titleFontSize=11, gridColor="#eeeeee")
        .configure_legend(labelFontSize=11, symbolSize=70)
        .configure_title(anchor="start", fontSize=13)
        .configure_header(labelFontSize=12)
    )
    return chart
