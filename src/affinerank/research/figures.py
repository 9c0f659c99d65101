"""Figures: each one Vega-Lite specification, made as its row of ``FIGURES`` says.

Series differ in more than colour: each has a shape and dashes of its own, and the
colours, of different lightness, can be told apart by colour-blind readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from affinerank.bias import METHODS
from affinerank.bias.regression_em.method import ROWS as EM
from affinerank.defaults import CLIP, METHOD
from affinerank.estimators import (
    affine,
    bayes_ips,
    direct,
    doubly_robust,
    full_information,
    ips,
    naive,
    policy_aware,
    posterior,
)
from affinerank.output import charts
from affinerank.output.charts import Spec
from affinerank.research.cells import PRODUCTION, TRUE
from affinerank.research.coordinates import FIGURES, TITLES, Figure, title_of
from affinerank.research.curves import (
    estimates_by_method,
    is_level,
    points_of,
    setting_title,
)
from affinerank.research.results import Result
from affinerank.support.arrays import Floats
from affinerank.support.errors import DataError

Rows = list[dict[str, Any]]
# Title of the row of panels, y axis, panel, series, place on the x axis, runs' values.
Values = Sequence[float] | Floats
Placed = tuple[str, str, str, str, float, Values]
Axes = tuple[Spec, Spec, Spec]  # x, scale of y, what a tip says of x
Look = tuple[str, str, tuple[int, ...]]  # colour, shape, dashes

DEFAULT = METHODS[METHOD].title
# Looks that readers know; the colours after Okabe and Ito.
LOOKS: Mapping[str, Look] = {
    TITLES[PRODUCTION]: ("#8a8a8a", "stroke", (2, 3)),
    full_information.ROW.title: ("#000000", "stroke", (10, 4)),
    naive.ROW.title: ("#56b4e9", "circle", (1, 0)),
    ips.ROW.title: ("#e69f00", "square", (6, 3)),
    bayes_ips.ROW.title: ("#009e73", "triangle-up", (3, 2)),
    affine.ROW.title: ("#a0005a", "diamond", (1, 0)),
    TITLES[TRUE]: ("#000000", "cross", (1, 0)),
    EM[0].title: ("#a0005a", "diamond", (1, 0)),
    EM[1].title: ("#e69f00", "square", (6, 3)),
    EM[2].title: ("#56b4e9", "circle", (3, 2)),
    DEFAULT: ("#009e73", "triangle-up", (8, 2, 2, 2)),
    f"{affine.ROW.title}, clip {CLIP}": ("#9467bd", "diamond", (4, 2)),
    policy_aware.ROW.title: ("#8c6d00", "square", (5, 2, 1, 2)),
    direct.ROW.title: ("#d55e00", "triangle-right", (8, 3)),
    doubly_robust.ROW.title: ("#cc79a7", "triangle-left", (2, 2)),
    posterior.ROW.title: ("#0072b2", "triangle-down", (1, 0)),
    f"{posterior.ROW.title}, {DEFAULT.lower()}": ("#00304d", "cross", (5, 2)),
}
OTHERS: tuple[Look, ...] = (
    ("#332288", "triangle-down", (4, 4)),
    ("#999933", "triangle-right", (8, 3)),
    ("#cc6677", "triangle-left", (2, 2)),
    ("#44aa99", "cross", (5, 2, 1, 2)),
)
ROW, WIDTH, HEIGHT = 620, 205, 165  # few panels share a row, more are as wide each
LABEL_ROOM = 0.17  # of the axis, for a number of clicks
SHARED = {"color": "shared", "shape": "shared", "strokeDash": "shared"}
# A click on the legend picks a series, in all panels at once: one view owns the pick.
PICKED: Spec = {
    "name": "picked",
    "select": {"type": "point", "fields": ["series"]},
    "bind": "legend",
    "views": ["first"],
}
CONFIG: Spec = {
    **charts.CONFIG,
    "view": {"stroke": "#bbbbbb"},
    "axis": {"labelFontSize": 10, "titleFontSize": 11, "gridColor": "#eeeeee"},
    "legend": {"labelFontSize": 11, "symbolSize": 70},
    "title": {"anchor": "start", "fontSize": 13},
}


def draw(name: str, results: Sequence[Result]) -> Spec:
    """Return the specification of a figure, complete with its numbers."""
    figure = FIGURES[name]
    placed, axes = DRAWN[figure.x]
    panels: dict[tuple[str, str], Rows] = {}
    for title, label, setting, series, x, values in placed(figure, results):
        row = _row(setting, series, x, values)
        panels.setdefault((title, label), []).append(row)
    if not panels:
        is_model = figure.series == "click_model_from"
        words = "click models" if is_model else figure.series
        raise DataError(
            f"{figure.title} draws {words} by {figure.x}, and these results have none"
        )
    drawn = [
        _panel_row(title, label, rows, *axes(label, rows))
        for (title, label), rows in panels.items()
    ]
    drawn[0]["spec"]["layer"][-1]["name"] = PICKED["views"][0]
    return {
        "title": figure.title,
        "vconcat": drawn,
        "resolve": {"legend": SHARED, "scale": SHARED},
        "params": [PICKED],
        "config": CONFIG,
    }


def _by_clicks(figure: Figure, results: Sequence[Result]) -> Iterator[Placed]:
    """Yield curves over clicks, and levels at both ends of the panels they are in."""
    points = [
        point
        for point in points_of(results)
        if point.place.clicks is None
        or all(getattr(point.place, k) == v for k, v in figure.where.items())
    ]
    curves = [point.place for point in points if point.place.clicks is not None]
    drawn = {
        place.data
        for place in curves
        if figure.besides is None or getattr(place, figure.series) != figure.besides
    }
    held_out = figure.held_out and any(point.early for point in points)
    label = "nDCG@10, held-out epoch" if held_out else "nDCG@10"
    for point in [point for point in points if point.place.data in drawn]:
        place, own = point.place, [c for c in curves if is_level(point.place, c)]
        value = getattr(place, figure.series, None)  # none of a method
        title = title_of(figure.series, value) if value else point.method
        at = [(setting_title(place), place.clicks or 0.0)]
        if place.clicks is None:
            counts = [curve.clicks or 0.0 for curve in own]
            ends = [end(counts, default=0.0) for end in (min, max)]
            at = list(product(dict.fromkeys(map(setting_title, own)), ends))
        for setting, clicks in at:
            values = (held_out and point.early) or point.values
            yield place.data, label, setting, title, clicks, values


def _by_rank(figure: Figure, results: Sequence[Result]) -> Iterator[Placed]:
    """Yield alpha and beta by rank, as they are and in the gauge of the truth."""
    estimates = estimates_by_method(results)
    for data in dict.fromkeys(one.panel.data for one in estimates):
        own = [
            (setting_title(one.panel), one)
            for one in estimates
            if one.panel.data == data
        ]
        for i, label in enumerate(("αₖ", "βₖ", "αₖ, modulo gauge", "βₖ, modulo gauge")):
            # The truth first: an estimate that hits it is drawn over it.
            lines = {(at, TITLES[TRUE]): one.truth[i % 2, None] for at, one in own}
            for at, one in own:
                values = (one.aligned if i >= 2 else one.found)[i % 2]
                lines[at, title_of(figure.series, one.method)] = values
            for line, values in lines.items():
                for rank, runs in enumerate(values.T, 1):
                    if np.isfinite(runs).all():
                        yield f"{data}: {label}", label, *line, rank, runs


def _row(setting: str, series: str, x: float, values: Values) -> dict[str, Any]:
    """Return a point: mean and standard deviation over runs."""
    mean = float(np.mean(values))
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    place = {"setting": setting, "series": series, "x": x, "y": mean}
    band = {"low": mean - deviation, "high": mean + deviation, "deviation": deviation}
    return {**place, **band, "runs": len(values)}


def _click_axes(_: str, rows: Rows) -> Axes:
    counts = sorted({row["x"] for row in rows})
    labelled = f"indexof({_labelled(counts)}, datum.value) >= 0"
    axis = {
        "title": "Training clicks",
        "format": "~s",
        "values": counts,
        "grid": False,
        "labelExpr": f"{labelled} ? datum.label : ''",
        "labelOverlap": False,
    }
    x = {"axis": axis, "scale": {"type": "log", "nice": False}}
    return x, {"zero": False}, {"title": "clicks", "format": ",.0f"}


def _labelled(counts: Sequence[float]) -> list[float]:
    """Clicks whose labels have room: the most, then powers of ten, then the others."""
    least = LABEL_ROOM * np.log10(counts[-1] / counts[0])
    kept = [counts[-1]]
    for clicks in sorted(counts, key=lambda n: (np.log10(n) % 1 > 0, -n)):
        if all(abs(np.log10(other / clicks)) >= least for other in kept):
            kept.append(clicks)
    return kept


def _rank_axes(label: str, rows: Rows) -> Axes:
    """Return axes by rank; modulo gauge, what is far from the truth is cut off."""
    scale: Spec = {"zero": False}
    truth = [row["y"] for row in rows if row["series"] == TITLES[TRUE]]
    if truth and "gauge" in label:
        span = max(truth) - min(truth)
        scale = {"domain": [min(truth) - span / 5, max(truth) + span]}
    axis = {"values": [1, *range(5, 101, 5)], "grid": False, "format": "d"}
    x = {"title": "Rank k", "axis": axis, "scale": {"zero": False, "nice": False}}
    return x, scale, {"title": "rank"}


DRAWN: Mapping[str, tuple[Callable[..., Iterator[Placed]], Callable[..., Axes]]] = {
    "clicks": (_by_clicks, _click_axes),
    "rank": (_by_rank, _rank_axes),
}


def _panel_row(
    title: str, label: str, rows: Rows, x: Spec, scale: Spec, tip: Spec
) -> Spec:
    """Draw a row of panels, one for each setting, on one scale."""
    order = list(dict.fromkeys(row["setting"] for row in rows))
    width = max(WIDTH, ROW // max(2, len(order)))
    font = min(12.0, 2.05 * width / max(map(len, order), default=1))  # what has room
    column = {"field": "setting", "type": "nominal", "sort": order, "title": None}
    looks = _looks(rows, columns=len(order) * width // 120)
    shared = {"x": _quantity("x", **x), "color": looks["color"]}
    layers = _layers(looks, {"title": label, "scale": scale}, tip)
    return {
        "title": title,
        "data": {"values": rows},
        "facet": {"column": {**column, "header": {"labelFontSize": font}}},
        "spec": {"width": width, "height": HEIGHT, "encoding": shared, "layer": layers},
    }


def _layers(looks: Spec, y: Spec, tip: Spec) -> list[Spec]:
    """Standard deviation as a band, means as a line, points to hover over."""
    strong = {"condition": {"param": "picked", "value": 1.0}, "value": 0.12}
    faint = {"condition": {"param": "picked", "value": 0.16}, "value": 0.02}
    mean, low = (_quantity(name, **y) for name in ("y", "low"))
    tips = [
        {"field": "series", "type": "nominal", "title": "method"},
        _quantity("x", **tip),
        _quantity("y", title="mean", format=".4f"),
        _quantity("deviation", title="standard deviation", format=".4f"),
        _quantity("runs", title="runs"),
    ]
    band = {"y": low, "y2": {"field": "high"}, "opacity": faint}
    line = {"y": mean, "opacity": strong, "strokeDash": looks["strokeDash"]}
    dots = {"y": mean, "opacity": strong, "shape": looks["shape"], "tooltip": tips}
    clip = {"clip": "domain" in y["scale"]}
    return [
        {"mark": {"type": "area", **clip}, "encoding": band},
        {"mark": {"type": "line", "strokeWidth": 1.6, **clip}, "encoding": line},
        {
            "mark": {"type": "point", "size": 42, "filled": True, **clip},
            "encoding": dots,
        },
    ]


def _looks(rows: Rows, columns: int) -> Spec:
    """Colour, shape and dashes of the series there are, in one legend."""
    names = {row["series"] for row in rows}
    series = [name for name in LOOKS if name in names]
    others = sorted(names - set(series))
    looks = [LOOKS[name] for name in series]
    looks += [OTHERS[i % len(OTHERS)] for i in range(len(others))]
    legend = {"title": None, "orient": "bottom", "symbolOpacity": 1.0}
    return {
        channel: {
            "field": "series",
            "type": "nominal",
            "legend": {**legend, "columns": columns},
            "scale": {"domain": [*series, *others], "range": list(values)},
        }
        for channel, values in zip(
            ("color", "shape", "strokeDash"), zip(*looks, strict=True), strict=True
        )
    }


def _quantity(field: str, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", **more}
