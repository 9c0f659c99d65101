"""Charts as files, from Vega-Lite specifications.

What converts them is imported when a chart is saved: training needs none of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from affinerank.errors import ConfigError
from affinerank.files import written_whole

Spec = dict[str, Any]
FORMATS = (".png", ".svg", ".pdf", ".html")


def save_figure(spec: Spec, path: Path) -> None:
    """Write a figure as PNG, SVG, PDF or (interactive) HTML, by the file's ending."""
    import vl_convert

    ending = figure_format(path)
    text = json.dumps(spec)
    writers: dict[str, Callable[[], bytes]] = {
        ".png": lambda: bytes(vl_convert.vegalite_to_png(text, scale=2)),
        ".svg": lambda: vl_convert.vegalite_to_svg(text).encode(),
        ".pdf": lambda: bytes(vl_convert.vegalite_to_pdf(text)),
        ".html": lambda: vl_convert.vegalite_to_html(text, bundle=True).encode(),
    }
    with written_whole(path) as aside:
        aside.write_bytes(writers[ending]())


def figure_format(path: Path) -> str:
    """The file's ending, which must be one that figures are written in."""
    if path.suffix not in FORMATS:
        raise ConfigError(f"{path}: a figure is written as {', '.join(FORMATS)}")
    return path.suffix


def bias_figure(
    rows: Sequence[Mapping[str, Any]], truth: Mapping[str, Sequence[float]] | None
) -> Spec:
    """Alpha and beta by rank with bands, beside the truth where it is known.

    Args:
        rows: Of :meth:`affinerank.pipeline.Estimated.by_rank`.
        truth: ``alpha`` and ``beta`` by pool of ranks, in the same gauge: the one for
            inference.
    """
    values: list[dict[str, Any]] = []
    for i, row in enumerate(rows):
        shown = row["inference"]
        for name in ("alpha", "beta"):
            about = {"rank": row["ranks"], "mean_rank": row["mean_rank"]}
            about |= {"parameter": name, "series": "estimate", "value": shown[name]}
            if f"{name}_low" in shown:
                low, high = shown[f"{name}_low"], shown[f"{name}_high"]
                about |= {"low": low, "high": high}
            values.append(about)
            if truth is not None:
                point = {"series": "truth", "value": truth[name][i]}
                bare = {k: v for k, v in about.items() if k not in ("low", "high")}
                values.append({**bare, **point})
    shown = ["estimate"] if truth is None else ["estimate", "truth"]
    panels = [_bias_panel(name, shown) for name in ("alpha", "beta")]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": values},
        "hconcat": panels,
        "config": {"font": "DejaVu Sans, Verdana, Arial, sans-serif"},
    }


def _bias_panel(name: str, shown: list[str]) -> Spec:
    title = {
        "alpha": "Alpha: what a click rate gains by relevance",
        "beta": "Beta: clicks without relevance",
    }
    x = {
        "field": "mean_rank",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False},
        "title": "rank (log scale)",
        "axis": {"values": [1, 2, 3, 5, 10, 20, 50, 100, 200, 500], "grid": False},
    }
    y = {"type": "quantitative", "title": "gauge: mean alpha 1, mean beta/alpha 0"}
    series: Spec = {
        "field": "series",
        "type": "nominal",
        "title": None,
        "scale": {"domain": shown, "range": ["#0072b2", "#d55e00"]},
    }
    shapes = {"domain": shown, "range": ["circle", "cross"]}
    shape: Spec = {**series, "scale": shapes}
    tips = [{"field": f} for f in ("series", "rank", "value", "low", "high")]
    return {
        "width": 360,
        "height": 260,
        "title": {"text": title[name], "anchor": "start"},
        "transform": [{"filter": f"datum.parameter == '{name}'"}],
        "layer": [
            {
                "transform": [{"filter": "datum.series == 'estimate'"}],
                "mark": {"type": "rule", "color": "#0072b2", "opacity": 0.5, "size": 3},
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "low"},
                    "y2": {"field": "high"},
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 50, "opacity": 0.9},
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "value"},
                    "color": series,
                    "shape": shape,
                    "tooltip": tips,
                },
            },
        ],
    }
