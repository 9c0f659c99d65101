"""Charts: what Vega-Lite specifications have in common, and how they become files.

The converter is imported when a chart is saved: training does not need it. A
specification names no version of Vega-Lite; pages and files take the converter's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from affinerank.support.errors import ConfigError
from affinerank.support.files import atomic_write

Spec = dict[str, Any]
# Endings of the files that figures are written in, with options of the converter.
FORMATS: Mapping[str, Spec] = {
    ".png": {"scale": 2},
    ".svg": {},
    ".pdf": {},
    ".html": {"bundle": True},
}
# After Okabe and Ito: colour-blind readers can tell them apart.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
SHAPES = ["circle", "cross", "square", "diamond", "triangle-up", "triangle-down"]
CONFIG: Spec = {
    "font": "DejaVu Sans, Verdana, Arial, sans-serif",
    "range": {"category": [*COLOURS, "#999999"], "symbol": SHAPES},
}
RANK_TICKS = [1, 2, 3, 5, 10, 20, 50, 100, 200, 500]
RANKS_DRAWN = 100
RANKS_LINEAR = 20  # deeper lists are drawn on a log scale
ENDS = ("low", "high")


def save_figure(spec: Spec, path: Path) -> None:
    """Write a figure as PNG, SVG, PDF or (interactive) HTML, by the file's ending."""
    import vl_convert

    ending = figure_format(path)
    convert = getattr(vl_convert, f"vegalite_to_{ending[1:]}")
    drawn = convert(json.dumps(spec), **FORMATS[ending])
    with atomic_write(path) as aside:
        aside.write_bytes(drawn.encode() if isinstance(drawn, str) else drawn)


def figure_format(path: Path) -> str:
    """Return the file's ending; reject one that figures are not written in."""
    if path.suffix not in FORMATS:
        raise ConfigError(f"{path}: a figure is written as {', '.join(FORMATS)}")
    return path.suffix


def by_rank(
    values: Sequence[Spec],
    names: list[str],
    title: str,
    *,
    log: bool,
    line: bool = False,
    zero: bool = False,
) -> Spec:
    """Return the layers of values by rank: intervals, points to hover over, lines.

    Args:
        values: The data: ``series``, ``rank`` as it is called, ``mean_rank`` as a
            number, ``value`` and, where there is an interval, ``low`` and ``high``.
        names: The series, in the order of their colours.
        title: Of the y axis.
        log: Whether the axis of ranks is logarithmic.
        line: Whether points are connected.
        zero: Whether the y axis begins at 0.
    """
    x: Spec = {"field": "mean_rank", "type": "quantitative", "title": "rank"}
    axis: Spec = {"tickMinStep": 1, "format": "d", "grid": False}
    scale: Spec = {"zero": False, "nice": False}
    if log:
        x["title"], scale = "rank (log scale)", {"type": "log", "nice": False}
        axis = {"values": RANK_TICKS, "grid": False}
    x |= {"axis": axis, "scale": scale}
    legend = {"orient": "top", "columns": 2, "labelLimit": 340, "symbolOpacity": 1}
    series: Spec = {"field": "series", "type": "nominal", "title": None}
    series |= {"sort": names, "scale": {"domain": names}}
    series["legend"] = legend if len(names) > 1 else None
    y: Spec = {"type": "quantitative", "title": title, "scale": {"zero": zero}}
    value = {**y, "field": "value"}
    tips = [{"field": f} for f in ("series", "rank", "value", *ENDS)]
    intervals = {
        "transform": [{"filter": "isValid(datum.low)"}],
        "mark": {"type": "rule", "opacity": 0.5, "size": 3},
        "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}},
    }
    layers: list[Spec] = [
        *([intervals] if any("low" in row for row in values) else []),
        {
            "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1},
            "encoding": {"y": value, "shape": series, "tooltip": tips},
        },
    ]
    if line:
        layers.append({"mark": "line", "encoding": {"y": value}})
    return {"height": 260, "encoding": {"x": x, "color": series}, "layer": layers}


def lines_by_rank(
    series: Mapping[str, Sequence[Spec]], title: str, *, zero: bool = True
) -> Spec:
    """Return a line per series of values by rank, with intervals where known.

    Args:
        series: Rows as :func:`by_rank` wants them, without ``series``; a ``rank`` that
            is a number needs no ``mean_rank``.
        title: Of the y axis.
        zero: Whether the y axis begins at 0.
    """
    values = [
        {"mean_rank": row["rank"], **row, "series": label}
        for label, rows in series.items()
        for row in rows[:RANKS_DRAWN]
    ]
    deep = max(value["mean_rank"] for value in values) > RANKS_LINEAR
    drawn = by_rank(values, list(series), title, log=deep, line=True, zero=zero)
    return {"data": {"values": values}, "width": "container", **drawn, "config": CONFIG}


def bias_figure(
    rows: Sequence[Mapping[str, Any]], truth: Mapping[str, Sequence[float]] | None
) -> Spec:
    """Return alpha and beta by rank with bands, beside the truth where it is known.

    Args:
        rows: Of an estimate's ``by_rank``.
        truth: ``alpha`` and ``beta`` by pool of ranks, in the same gauge: the one for
            inference.
    """
    values: list[Spec] = []
    for i, row in enumerate(rows):
        found, place = row["inference"], row["mean_rank"]
        for name in ("alpha", "beta"):
            point = {"rank": row["ranks"], "mean_rank": place, "parameter": name}
            ends = {e: found[f"{name}_{e}"] for e in ENDS if f"{name}_{e}" in found}
            values.append({**point, "series": "estimate", "value": found[name], **ends})
            if truth is not None:
                values.append({**point, "series": "truth", "value": truth[name][i]})
    names = ["estimate"] if truth is None else ["estimate", "truth"]
    scale = "arbitrary scale: mean alpha 1, mean beta/alpha 0"
    drawn = by_rank(values, names, scale, log=True)
    panels = [
        {
            **drawn,
            "width": 320,
            "title": {"text": title, "anchor": "start", "frame": "group"},
            "transform": [{"filter": f"datum.parameter == '{name}'"}],
        }
        for name, title in (
            ("alpha", "Alpha: what a click rate gains by relevance"),
            ("beta", "Beta: clicks without relevance"),
        )
    ]
    return {"data": {"values": values}, "hconcat": panels, "config": CONFIG}
