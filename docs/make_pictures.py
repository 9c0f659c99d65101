"""Draw the pictures of the docs into docs/images: ``python docs/make_pictures.py``.

Those of idea.md show expectations under the paper's users, not samples. The relevant
shares by rank are those of a production ranker on a synthetic world. That of
few-clicks.md shows what ``benchmarks/few_clicks.py`` measured.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import affinerank as ar
from affinerank.bias.gauge import display_gauge
from affinerank.defaults import POLICY, RANKER
from affinerank.output.charts import COLOURS, Spec, save_figure
from affinerank.support.lists import ranks_by_score

CLICK_MODEL = ar.TrustModel.paper(eta=1.0, eps_minus_1=0.65, depth=10)
RANKS = np.arange(1, 11)
SHOWN = (1, 2, 3, 10)
DARK, MIDDLE, LIGHT = "#08306b", "#2171b5", "#9ecae1"
ORANGE = "#d55e00"
CONFIG: Spec = {
    "font": "DejaVu Sans, Verdana, Arial, sans-serif",
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
    "axisQuantitative": {"labelFlush": False},
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "labelLimit": 400},
    "title": {"fontSize": 13, "anchor": "start", "frame": "group", "offset": 14},
    "view": {"stroke": None},
}


def chart(values: list[dict[str, Any]], **content: Any) -> Spec:
    """Return a specification with its data."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": values},
        "config": CONFIG,
        **content,
    }


def axis(field: str, title: str, **scale: Any) -> Spec:
    """Return a channel of numbers."""
    about: Spec = {"field": field, "type": "quantitative", "title": title}
    return {**about, **({"scale": scale} if scale else {})}


def relevant_share() -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the share of relevant documents at ranks 1 to 10."""
    data = ar.load("yahoo-like:1000").train
    ranker = ar.train_production_ranker(data, seed=0)
    ranks = ranks_by_score(ar.score(ranker, data), data.offsets)
    relevant = data.relevance(2.0)
    return np.array([relevant[ranks == k].mean() for k in RANKS])


def clicks_by_rank() -> Spec:
    """Draw relevant documents, and clicks on them and on others, by rank."""
    share = relevant_share()
    parts = {
        "clicks on relevant documents": share * CLICK_MODEL.zeta_plus,
        "clicks on irrelevant documents": (1 - share) * CLICK_MODEL.zeta_minus,
    }
    values = [
        {"rank": int(k), "what": name, "order": i, "rate": float(rate[k - 1])}
        for i, (name, rate) in enumerate(parts.items())
        for k in RANKS
    ]
    values += [
        {"rank": int(k), "what": "relevant documents", "share": float(share[k - 1])}
        for k in RANKS
    ]
    x: Spec = {
        "field": "rank",
        "type": "ordinal",
        "title": "rank",
        "axis": {"labelAngle": 0},
    }
    names = [*parts, "relevant documents"]
    colour: Spec = {
        "field": "what",
        "type": "nominal",
        "title": None,
        "scale": {"domain": names, "range": [DARK, LIGHT, ORANGE]},
        "legend": {
            "orient": "top-right",
            "symbolType": "square",
            "fillColor": "white",
            "padding": 6,
        },
    }
    bars = {
        "transform": [{"filter": "isValid(datum.rate)"}],
        "mark": {"type": "bar"},
        "encoding": {
            "x": x,
            "y": axis("rate", "share of impressions"),
            "color": colour,
            "order": {"field": "order"},
        },
    }
    points = {
        "transform": [{"filter": "isValid(datum.share)"}],
        "mark": {
            "type": "line",
            "strokeWidth": 2.5,
            "point": {"size": 60, "filled": True},
        },
        "encoding": {"x": x, "y": axis("share", ""), "color": colour},
    }
    return chart(values, width=520, height=280, layer=[bars, points])


def corrections() -> Spec:
    """Draw expected clicks against relevance by rank: raw, by IPS, affine."""
    panels: dict[str, Callable[[float, int], float]] = {
        "Clicks": lambda p, _: p,
        "IPS: clicks / theta": lambda p, k: p / float(CLICK_MODEL.theta[k - 1]),
        "Affine: (clicks - beta) / alpha": lambda p, k: (
            (p - float(CLICK_MODEL.beta[k - 1])) / float(CLICK_MODEL.alpha[k - 1])
        ),
    }
    values = [
        {
            "panel": title,
            "rank": f"rank {k}",
            "relevance": g,
            "value": value(float(CLICK_MODEL.click_probability([k], [g])[0]), k),
        }
        for title, value in panels.items()
        for k in SHOWN
        for g in (0.0, 1.0)
    ]
    names = [f"rank {k}" for k in SHOWN]
    line: Spec = {
        "x": axis("relevance", "relevance of the document"),
        "y": axis("value", "expected value", domain=[0, 1.05], nice=False),
        "color": {
            "field": "rank",
            "type": "nominal",
            "title": None,
            "sort": names,
            "scale": {"domain": names, "range": [DARK, MIDDLE, ORANGE, "#777777"]},
        },
        "strokeDash": {
            "field": "rank",
            "type": "nominal",
            "title": None,
            "sort": names,
            "scale": {"domain": names, "range": [[1, 0], [8, 3], [4, 3], [1, 3]]},
            "legend": {"symbolSize": 500, "symbolStrokeWidth": 2.5},
        },
    }
    drawn = [
        {
            "width": 215,
            "height": 230,
            "title": title,
            "transform": [{"filter": f"datum.panel == '{title}'"}],
            "mark": {"type": "line", "strokeWidth": 2.5},
            "encoding": line,
        }
        for title in panels
    ]
    return chart(values, hconcat=drawn, bounds="flush", spacing=60)


def gauges() -> Spec:
    """Draw the same users in two gauges: other numbers, the same order."""
    moved = display_gauge(CLICK_MODEL)
    named = {"true alpha and beta": CLICK_MODEL, "as estimate prints them": moved}
    values: list[dict[str, Any]] = [
        {"gauge": name, "rank": int(k), "beta": float(model.beta[k - 1])}
        for name, model in named.items()
        for k in RANKS
    ]
    for name, model in named.items():
        for g in (0.0, 0.25, 0.5, 0.75, 1.0):
            p = float(CLICK_MODEL.click_probability([3], [g])[0])
            label = (p - float(model.beta[2])) / float(model.alpha[2])
            values.append({"gauge": name, "relevance": g, "label": label})
    look: Spec = {
        "field": "gauge",
        "type": "nominal",
        "title": None,
        "sort": list(named),
    }
    common: Spec = {
        "color": {**look, "scale": {"domain": list(named), "range": [DARK, ORANGE]}},
        "shape": {
            **look,
            "scale": {"domain": list(named), "range": ["circle", "triangle-up"]},
        },
    }
    panels = [
        ("Beta by rank", "rank", axis("rank", "rank", domain=[1, 10]), "beta", "beta"),
        (
            "Corrected label of a document",
            "relevance",
            axis("relevance", "relevance of the document"),
            "label",
            "corrected label",
        ),
    ]
    drawn = [
        {
            "width": 270,
            "height": 230,
            "title": title,
            "transform": [{"filter": f"isValid(datum.{y}) && isValid(datum.{x})"}],
            "mark": {"type": "line", "point": {"size": 70, "filled": True}},
            "encoding": {"x": channel, "y": axis(y, y_title), **common},
        }
        for title, x, channel, y, y_title in panels
    ]
    return chart(values, hconcat=drawn, bounds="flush", spacing=60)


def few_clicks() -> Spec:
    """Draw quality against clicks, users estimated from the same clicks."""
    titles = {
        "posterior": "posterior",
        "direct": "direct",
        "affine": "affine",
        "naive": "naive",
        "full-information": "from labels",
        "production": "production ranker",
    }
    with (Path(__file__).parent / "few-clicks-results.csv").open() as file:
        rows = list(csv.DictReader(file))
    full = [r for r in rows if r["clicks"] and r["policy"] == POLICY]
    logs = {(r["data"], r["eta"], r["clicks"]) for r in full}
    found: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        if row["estimator"] not in titles or row["click_model_from"] == "true":
            continue
        if (row["ranker"], row["policy"]) != (RANKER, POLICY):
            continue
        alike = row["data"], row["eta"], row["clicks"]
        for log in [alike] if row["clicks"] else sorted(logs):
            if log[0] == row["data"]:
                key = (*log, titles[row["estimator"]])
                found.setdefault(key, []).append(float(row["ndcg"]))
    values = [
        {
            "panel": f"{data}, eta = {eta}",
            "clicks": float(clicks),
            "estimator": name,
            "ndcg": float(np.mean(values)),
        }
        for (data, eta, clicks, name), values in found.items()
    ]
    names = list(titles.values())
    encoding: Spec = {
        "x": {
            **axis("clicks", "clicks", type="log", nice=False),
            "axis": {"format": "~e", "grid": False, "tickCount": 4},
        },
        "y": axis("ndcg", "nDCG@10", zero=False),
        "color": {
            "field": "estimator",
            "sort": names,
            "title": None,
            "scale": {"domain": names, "range": COLOURS[: len(names)]},
        },
        "strokeDash": {
            "field": "estimator",
            "sort": names,
            "title": None,
            "scale": {"domain": names, "range": [[1, 0]] * 4 + [[6, 3], [2, 3]]},
        },
    }
    return chart(
        values,
        facet={"field": "panel", "title": None, "sort": "ascending"},
        columns=2,
        resolve={"scale": {"x": "independent", "y": "independent"}},
        spec={
            "width": 300,
            "height": 190,
            "mark": {"type": "line", "point": True},
            "encoding": encoding,
        },
    )


PICTURES: dict[str, Callable[[], Spec]] = {
    "clicks-by-rank": clicks_by_rank,
    "corrections": corrections,
    "gauge": gauges,
    "few-clicks": few_clicks,
}


def main(folder: Path, ending: str = ".svg") -> None:
    """Write every picture into a folder."""
    for name, spec in PICTURES.items():
        save_figure(spec(), folder / f"{name}{ending}")


if __name__ == "__main__":
    main(Path(__file__).parent / "images", *sys.argv[1:])
