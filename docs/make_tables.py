"""Rewrite the generated blocks of the pages: ``python docs/make_tables.py``.

A block stands between ``<!-- table: NAME ARGUMENTS -->`` and ``<!-- end -->`` in
README.md or a page of docs. NAME is a row of ``BLOCKS`` below; what it says comes from
committed results alone. Where a run is not there yet, ``about`` says so.
"""

from __future__ import annotations

import csv
import re
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.clicks.models import CLICK_MODELS
from affinerank.defaults import ESTIMATOR
from affinerank.experiments.cells import cells_of
from affinerank.experiments.coordinates import title_of
from affinerank.experiments.our_statements import judge_ours
from affinerank.experiments.plan import read_plan
from affinerank.experiments.results import PLAN, Result, load_results
from affinerank.experiments.series import (
    Panel,
    Point,
    Summary,
    at_held_out_epoch,
    points_of,
)
from affinerank.experiments.statements import (
    OTHERS,
    SOFT_MIN_MAX,
    SOFTMAX,
    allowed_p,
    judge_statements,
)
from affinerank.pipeline.worlds import TRUE

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
WIDTH = 116
BLOCK = re.compile(r"<!-- table: (.+?) -->\n.*?<!-- end -->", re.DOTALL)
MISSING = "*There is no committed run yet.*"
JUDGES = {"paper": judge_statements, "ours": judge_ours}
Lines = list[str]


def pages() -> list[Path]:
    """Pages that may have blocks."""
    return [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


def generated(page: Path) -> str:
    """Return a page's text with all its blocks as committed results have them."""

    def block(match: re.Match[str]) -> str:
        name, *arguments = shlex.split(match[1])
        body = "\n".join(BLOCKS[name](*arguments))
        if page.parent != DOCS:
            body = body.replace("](", "](docs/")
        body = f"\n{body}\n\n" if body else ""
        return f"<!-- table: {match[1]} -->\n{body}<!-- end -->"

    return BLOCK.sub(block, page.read_text(encoding="utf-8"))


def main() -> None:
    """Rewrite every page; print those that changed."""
    for page in pages():
        text = generated(page)
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(ROOT)}\n")


# Runs


@lru_cache(maxsize=2)
def run_of(name: str) -> list[Result]:
    """Results of a committed run; none where it is not there."""
    folder = DOCS / name
    return load_results(folder) if (folder / "plan.toml").is_file() else []


def figure(run: str, name: str, text: str) -> Lines:
    """A figure of a run."""
    path = f"{run}/figures/{name}.png"
    return [f"![{text}]({path})"] if (DOCS / path).is_file() else []


def statements(run: str, whose: str) -> Lines:
    """Statements with verdict, numbers and rule, as a list."""
    judged = [(s, f) for s, f in JUDGES[whose](run_of(run)) if f.verdict]
    if not judged:
        return ["None of them was measured."] if run_of(run) else []
    words = Counter(str(found.verdict) for _, found in judged)
    lines = ["; ".join(f"{word}: {count}" for word, count in words.most_common()), ""]
    for statement, found in judged:
        lines += wrapped(f"- **{found.verdict}**: {statement.text}", "  ")
        for number in (*found.numbers, f"holds if {statement.rule}"):
            lines += wrapped(f"    - {number}", "      ")
    return lines


def wrapped(text: str, indent: str) -> Lines:
    """An item of a list, in lines that are short enough to read."""
    return textwrap.wrap(
        text,
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def at_most_clicks(run: str, epoch: str) -> Lines:
    """nDCG@10 at the most clicks by estimator, users known: mean (deviation)."""
    results = run_of(run)
    summary = Summary(at_held_out_epoch(results) if epoch == "held-out" else results)
    lasts = {panel.title: _lasts(summary, panel) for panel in summary.panels}
    names = list(dict.fromkeys(name for own in lasts.values() for name in own))
    rows = [[title, *map(own.get, names)] for title, own in lasts.items()]
    texts = [[title, *map(_mean_and_spread, points)] for title, *points in rows]
    return markdown(["", *names], texts) if texts else []


def _lasts(summary: Summary, panel: Panel) -> dict[str, Point]:
    """What is known of users, or needs none, at the most clicks of a panel."""
    own = [p for p in summary.curves(panel) if p.place.users == TRUE]
    most = max((p.place.clicks or 0.0 for p in own), default=0.0)
    kept = [p for p in own if p.place.clicks == most]
    return {p.method: p for p in (*kept, *summary.levels(panel))}


def _mean_and_spread(point: Any) -> str:
    if point is None:
        return ""
    spread = "" if np.isnan(point.deviation) else f" ({short(point.deviation)})"
    return f"{short(point.mean)}{spread}"


def curves(run: str, *only: str) -> Lines:
    """nDCG@10 by method and clicks, a table for each panel.

    ``only``: the method of estimation to show; else all that was measured.
    """
    summary = Summary(run_of(run))
    lines: Lines = []
    for panel in summary.panels:
        own = [
            p
            for p in summary.curves(panel)
            if not only or p.place.users == TRUE or p.place.users in only
        ]
        counts = sorted({p.place.clicks or 0.0 for p in own})
        found = {(p.method, p.place.clicks): p for p in own}
        rows = [
            [name, *(_early(found.get((name, c))) for c in counts)]
            for name in dict.fromkeys(p.method for p in own)
        ]
        rows += [[p.method, *[_early(p)] * len(counts)] for p in summary.levels(panel)]
        heads = [clicks(count) for count in counts]
        lines += ["", f"{panel.title}, clicks:", "", *markdown(["", *heads], rows)]
    return lines[1:]


def _early(point: Point | None) -> str:
    """Mean after the held-out epoch, or the last where there is none."""
    if point is None:
        return ""
    return short(point.mean if point.early_mean is None else point.early_mean)


def field(run: str, data: str, policy: str) -> Lines:
    """nDCG@10 of every method by users and clicks, best mean first, the best bold."""
    found: dict[str, dict[tuple[str, float], float]] = {}
    own = [p for p in points_of(run_of(run)) if p.place.data == data]
    logs = {_log(p) for p in own if p.place.policy == policy}
    for point in own:
        places = logs if point.place.policy is None else {_log(point)}
        if point.place.policy in (None, policy):
            values = dict.fromkeys(places, float(_value(point)))
            found.setdefault(point.whole_method, {}).update(values)
    names = sorted(found, key=lambda n: -float(np.mean(list(found[n].values()))))
    columns = sorted(logs, key=lambda log: (_USERS.index(log[0].split("(")[0]), log[1]))
    free = {p.whole_method for p in own if p.place.clicks is None}
    best = {c: max(found[n].get(c, 0) for n in found if n not in free) for c in columns}
    rows = [
        [name, *(_bold(found[name].get(c), best[c], name in free) for c in columns)]
        for name in names
    ]
    kinds = [users.split("(")[0].removesuffix("-based") for users, _ in columns]
    heads = [f"{kind} {clicks(n)}" for kind, (_, n) in zip(kinds, columns, strict=True)]
    return markdown(["", *heads], rows) if logs else []


_USERS = [*CLICK_MODELS]


def _log(point: Point) -> tuple[str, float]:
    return point.place.click_model or "", point.place.clicks or 0.0


def _value(point: Point) -> float:
    return point.mean if point.early_mean is None else point.early_mean


def _bold(value: float | None, best: float, free: bool) -> str:
    if value is None:
        return ""
    return f"**{short(value)}**" if value == best and not free else short(value)


def field_logs(run: str) -> dict[tuple[str, str, str, float], dict[str, float]]:
    """Value of every method on every log: data, policy, users, clicks."""
    logs: dict[tuple[str, str, str, float], dict[str, float]] = {}
    for p in points_of(run_of(run)):
        if p.place.policy is not None:
            log = (p.place.data, p.place.policy, *_log(p))
            logs.setdefault(log, {})[p.whole_method] = _value(p)
    return logs


def field_regret(run: str) -> Lines:
    """How far each method is behind the best of a log: mean, few clicks, worst."""
    behind: dict[str, list[tuple[float, float]]] = {}
    for (*_, count), own in field_logs(run).items():
        for name, value in own.items():
            behind.setdefault(name, []).append((count, max(own.values()) - value))
    most = max(map(len, behind.values()), default=0)
    rows = []
    for name, gaps in behind.items():
        few = [gap for count, gap in gaps if count == min(c for c, _ in gaps)]
        every = [gap for _, gap in gaps]
        if 2 * len(gaps) >= most:
            numbers = (np.mean(every), np.mean(few), max(every))
            rows.append([name, *(short(n) for n in numbers), str(len(gaps))])
    heads = ["", "behind the best", "at fewest clicks", "at worst", "logs"]
    return markdown(heads, sorted(rows, key=lambda row: row[1])) if rows else []


def field_leads(run: str) -> Lines:
    """Where the default estimator leads, and what leads where it does not."""
    logs = field_logs(run)
    ours, rows = title_of("estimator", ESTIMATOR), []
    for (data, policy, users, count), own in logs.items():
        first = max(own, key=lambda name: own[name])
        mine = max((n for n in own if n.startswith(ours)), key=lambda n: own[n])
        if first != mine:
            lost = f"{own[first] - own[mine]:.3f}".replace("0.", ".", 1)
            shown = [data, policy, users.split("(")[0], clicks(count)]
            rows.append([*shown, first, short(own[first]), short(own[mine]), lost])
    heads = [
        "data",
        "shown",
        "users",
        "clicks",
        "best",
        "nDCG",
        f"best {ours}",
        "ahead",
    ]
    said = f"The {ours.lower()} leads {len(logs) - len(rows)} of {len(logs)} logs"
    return [f"{said}; the others:", "", *markdown(heads, rows)] if logs else []


def tests(run: str) -> Lines:
    """p-values of affine against the others at the most clicks."""
    summary = Summary(run_of(run))
    rows = []
    for panel in summary.panels:
        student, welch, queries = (
            summary.tests(panel, kind) for kind in ("student", "welch", "queries")
        )
        for name in [name for name in OTHERS if name in student]:
            test = student[name]
            paired = probability(queries[name].p) if name in queries else ""
            cells = (f"{test.p:.2g}", f"{allowed_p(panel):g}", f"{welch[name].p:.2g}")
            lead = f"{-test.difference:+.4f}"
            named = title_of("estimator", name)
            rows.append([panel.title, named, lead, *cells, paired])
    heads = ["", "affine against", "lead", "p", "paper: at most", "Welch", "by query"]
    return markdown(heads, rows) if rows else []


def activations(run: str) -> Lines:
    """How far soft-min-max is above softmax, by clicks, trained equally long."""
    results = run_of(run)
    if not results:
        return []
    kinds = {
        "last": (Summary(results), ""),
        "held-out": (Summary(at_held_out_epoch(results)), ""),
        "new": (Summary(results), "(fresh=true)"),
    }
    rows = []
    for title, (summary, how) in kinds.items():
        lead = summary.means(SOFT_MIN_MAX[0], f"{SOFT_MIN_MAX[1]}{how}")
        lead = lead - summary.means(SOFTMAX[0], f"{SOFTMAX[1]}{how}")
        for panel, own in zip(summary.panels, lead, strict=True):
            if np.isfinite(own).any():
                cells = [
                    "" if np.isnan(x) else f"{x:+.3f}".replace("0.", ".") for x in own
                ]
                rows.append([panel.title, title, *cells])
    heads = [clicks(count) for count in Summary(results).counts]
    return markdown(["", "epoch", *heads], sorted(rows)) if rows else []


def users(run: str) -> Lines:
    """Largest relative error of alpha by method, modulo gauge, at the most clicks."""
    rows = []
    for one in Summary(run_of(run)).estimates:
        error = np.abs(one.aligned[0].mean(axis=0) / one.truth[0] - 1)
        texts = [f"{np.max(part):.1%}" for part in (error[:10], error[10:])]
        rows.append([one.panel.title, title_of("users", one.users), *texts])
    heads = ["", "estimated by", "ranks 1 to 10", "ranks 11 to 20"]
    return markdown(heads, rows) if rows else []


def about(run: str) -> Lines:
    """What ran, where, and for how long."""
    results = run_of(run)
    if not results:
        return [MISSING]
    devices = " and ".join(dict.fromkeys(r.device for r in results))
    torch = re.search(r"torch [\d.]+", results[-1].versions)
    minutes = sum(r.seconds for r in results) / 60
    planned = len(cells_of(read_plan(DOCS / run / PLAN)))
    over = "" if len(results) == planned else f" of {planned:,} (the run is not over)"
    made = f"{len(results):,} cells{over}, {devices}, {torch[0] if torch else ''}, "
    made += f"{minutes:.0f} minutes summed over groups"
    return [f"{made}", f"([report]({run}/report.html))."]


# Files


def text(name: str) -> Lines:
    """What a benchmark printed, as it is."""
    lines = (DOCS / "results" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [f"    {line}".rstrip() for line in lines]


def lines(name: str) -> Lines:
    """The same, where a script printed Markdown."""
    if not (DOCS / "results" / f"{name}.txt").is_file():
        return [MISSING]
    return [line[4:] for line in text(name)]


def rows_of(name: str) -> list[dict[str, str]]:
    """Rows of a CSV file of docs."""
    with (DOCS / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def few_clicks(data: str, ranker: str, known: str, policy: str = "fixed") -> Lines:
    """nDCG@10 of ``benchmarks/few_clicks.py`` by estimator and log, means over runs."""
    found: dict[tuple[str, tuple[str, float]], list[float]] = {}
    own = [
        row
        for row in rows_of("few-clicks-results.csv")
        if (row["data"], row["policy"], row["ranker"]) == (data, policy, ranker)
        and row["users"] in ("", known)
    ]
    logs = sorted({(r["eta"], float(r["clicks"])) for r in own if r["clicks"]})
    for row in own:
        places = [(row["eta"], float(row["clicks"]))] if row["clicks"] else logs
        for log in places:
            found.setdefault((row["estimator"], log), []).append(float(row["ndcg"]))
    first = {"production": 0, "naive": 1}
    names = sorted(
        dict.fromkeys(name for name, _ in found),
        key=lambda name: first.get(name, 3 if name.startswith("full") else 2),
    )
    rows = [
        [name, *(short(np.mean(found.get((name, log), [np.nan]))) for log in logs)]
        for name in names
    ]
    return markdown(["", *(f"η {eta}: {clicks(c)}" for eta, c in logs)], rows)


def estimation(metric: str) -> Lines:
    """Means over settings of ``benchmarks/estimation.py``."""
    found: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for row in rows_of("estimation-results.csv"):
        if row["metric"] == metric:
            log = tuple(row[k] for k in ("world", "relevance", "queries", "clicks"))
            own = found.setdefault(log, {}).setdefault(row["method"], [])
            own.append(float(row["mean"]))
    names = [n for n in METHODS if any(n in own for own in found.values())]
    rows = [
        [*log, *(short(np.mean(own.get(name, [np.nan]))) for name in names)]
        for log, own in found.items()
    ]
    return markdown(["world", "relevance", "queries", "clicks", *names], rows)


METHODS = ("soft-min-max", "softmax", "sigmoid", "mixture", "true")


def estimation_ratio() -> Lines:
    """E of the mixture over that of soft-min-max, by clicks."""
    found: dict[str, list[float]] = {}
    places: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for row in rows_of("estimation-results.csv"):
        if row["metric"] == "E":
            log = tuple(row[k] for k in ("world", "relevance", "queries", "clicks"))
            own = places.setdefault(log, {}).setdefault(row["method"], [])
            own.append(float(row["mean"]))
    for log, own in places.items():
        ratio = np.mean(own["mixture"]) / np.mean(own["soft-min-max"])
        found.setdefault(log[-1], []).append(float(ratio))
    rows = [[c, short(min(own)), short(max(own))] for c, own in sorted(found.items())]
    return markdown(["clicks", "smallest", "largest"], rows)


def estimation_clipped() -> Lines:
    """Values with clipping, and paired differences with their standard errors."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows_of("estimation-results.csv"):
        if row["metric"].startswith("nDCG@10 clipped"):
            error = (
                row["standard_error"] and f" ± {short(float(row['standard_error']))}"
            )
            log = tuple(row[k] for k in ("relevance", "queries", "clicks"))
            value = short(float(row["mean"])) + error
            found.setdefault(log, {})[row["method"]] = value
    names = list(next(iter(found.values())))
    rows = [[*log, *own.values()] for log, own in found.items()]
    return markdown(["relevance", "queries", "clicks", *names], rows)


def short(value: float) -> str:
    """Three digits after the point, and no 0 before it; nothing for NaN."""
    return "" if np.isnan(value) else f"{value:.3f}".replace("0.", ".", 1)


def clicks(count: float) -> str:
    """A number of clicks, as in 3e4."""
    digits, power = f"{count:e}".split("e")
    return f"{float(digits):g}e{int(power)}"


def probability(p: float) -> str:
    """A p-value in one digit."""
    return f"{p:.1g}" if p else "below 1e-300"


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Lines:
    """A table, of lines that are no longer than they must be."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    return [line(heads), "|" + "---|" * len(heads), *(line(row) for row in rows)]


BLOCKS: dict[str, Callable[..., Lines]] = {
    "figure": figure,
    "statements": statements,
    "at-most-clicks": at_most_clicks,
    "curves": curves,
    "field": field,
    "field-leads": field_leads,
    "field-regret": field_regret,
    "tests": tests,
    "activations": activations,
    "users": users,
    "about": about,
    "text": text,
    "lines": lines,
    "few-clicks": few_clicks,
    "estimation": estimation,
    "estimation-ratio": estimation_ratio,
    "estimation-clipped": estimation_clipped,
}

if __name__ == "__main__":
    main()
