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
from affinerank.defaults import ESTIMATOR, METHOD
from affinerank.research.cells import PRODUCTION, TRUE
from affinerank.research.coordinates import title_of
from affinerank.research.curves import (
    Panel,
    Point,
    Summary,
    at_held_out_epoch,
    points_of,
)
from affinerank.research.groups import cells_of
from affinerank.research.plan import read_plan
from affinerank.research.results import PLAN, Result, load_results
from affinerank.research.statements.ours import check_our_statements
from affinerank.research.statements.paper import (
    OTHERS,
    SOFT_MIN_MAX,
    SOFTMAX,
    allowed_p,
    check_statements,
)

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
WIDTH = 116
BLOCK = re.compile(r"<!-- table: (.+?) -->\n.*?<!-- end -->", re.DOTALL)
MISSING = "*There is no committed run yet.*"
CHECKS = {"paper": check_statements, "ours": check_our_statements}
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
    evaluated = [(s, f) for s, f in CHECKS[whose](run_of(run)) if f.verdict]
    if not evaluated:
        return ["None of them was measured."] if run_of(run) else []
    words = Counter(str(found.verdict) for _, found in evaluated)
    lines = ["; ".join(f"{word}: {count}" for word, count in words.most_common()), ""]
    for statement, found in evaluated:
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
    own = [p for p in summary.curves(panel) if p.place.click_model_from == TRUE]
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
            if not only
            or p.place.click_model_from == TRUE
            or p.place.click_model_from in only
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
    return short(point.mean if point.held_out_mean is None else point.held_out_mean)


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
    columns = sorted(
        logs, key=lambda log: (_CLICK_MODELS.index(log[0].split("(")[0]), log[1])
    )
    free = {p.whole_method for p in own if p.place.clicks is None}
    best = {c: max(found[n].get(c, 0) for n in found if n not in free) for c in columns}
    rows = [
        [name, *(_bold(found[name].get(c), best[c], name in free) for c in columns)]
        for name in names
    ]
    kinds = [
        click_model_from.split("(")[0].removesuffix("-based")
        for click_model_from, _ in columns
    ]
    heads = [f"{kind} {clicks(n)}" for kind, (_, n) in zip(kinds, columns, strict=True)]
    return markdown(["", *heads], rows) if logs else []


_CLICK_MODELS = [*CLICK_MODELS]


def _log(point: Point) -> tuple[str, float]:
    return point.place.click_model or "", point.place.clicks or 0.0


def _value(point: Point) -> float:
    return point.mean if point.held_out_mean is None else point.held_out_mean


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


# Names of methods, as pages have them.
POSTERIOR = title_of("estimator", ESTIMATOR)
# The click model is estimated.
DEFAULT = f"{POSTERIOR}, {title_of('click_model_from', METHOD).lower()}"
NAIVE = title_of("estimator", "naive")
AFFINE = title_of("estimator", "affine")
PRODUCTION_TITLE = title_of("estimator", PRODUCTION)
PLAIN_TREES = f"{NAIVE}; LightGBM trees"
POSITION_TREES = f"{PLAIN_TREES}, position true"
UNBIASED_TREES = f"{NAIVE}; XGBoost trees, unbiased true"
POSTERIOR_TREES = f"{POSTERIOR}; LightGBM trees"
OTHER_TREES = (PLAIN_TREES, POSITION_TREES, UNBIASED_TREES)
# Who is ahead of whom on how many logs.
PAIRS = (
    (DEFAULT, (PRODUCTION_TITLE,)),
    (POSTERIOR, (PRODUCTION_TITLE,)),
    (POSTERIOR_TREES, (PRODUCTION_TITLE,)),
    (POSTERIOR_TREES, OTHER_TREES),
    (POSITION_TREES, (PLAIN_TREES,)),
    (POSITION_TREES, (NAIVE,)),
    (UNBIASED_TREES, (PLAIN_TREES,)),
    (UNBIASED_TREES, (NAIVE,)),
    (f"{NAIVE}; Additive two-tower", (NAIVE,)),
    (f"{NAIVE}; Heckman selection", (NAIVE,)),
)


def is_posterior(method: str) -> bool:
    """Whether a method is the posterior, with any users and ranker."""
    return method.startswith(POSTERIOR)


def field_leads(run: str) -> Lines:
    """Where the default leads, and what leads where no posterior does.

    The best of several posteriors is known only once labels are: it is no method.
    """
    logs = field_logs(run)
    if not logs:
        return []
    rows = []
    for (data, policy, click_model, count), values in logs.items():
        best = max(values, key=lambda name: values[name])
        if not is_posterior(best):
            ahead = f"{values[best] - values[DEFAULT]:.3f}".replace("0.", ".", 1)
            shown = [data, policy, click_model.split("(")[0], clicks(count)]
            rows.append(
                [*shown, best, short(values[best]), short(values[DEFAULT]), ahead]
            )
    heads = ["data", "shown", "users", "clicks", "best", "nDCG", DEFAULT, "ahead"]
    number = {len([n for n in own if is_posterior(n)]) for own in logs.values()}
    said = (
        f"{_leads(logs, DEFAULT)}. {_leads(logs, POSTERIOR)}. On "
        f"{len(logs) - len(rows)} logs one of the {max(number)} posteriors that were "
        "run on each leads; which one, only labels tell. The others:"
    )
    return [*wrapped(said, ""), "", *markdown(heads, rows)]


def _leads(logs: dict[tuple[str, str, str, float], dict[str, float]], name: str) -> str:
    """Say on how many logs a method leads, and leads all that are not posteriors."""
    leads, ahead, ahead_where_all_shown, all_shown = 0, 0, 0, 0
    for (_, policy, *_), values in logs.items():
        others = [value for n, value in values.items() if not is_posterior(n)]
        is_ahead = values[name] > max(others)
        leads += values[name] == max(values.values())
        ahead += is_ahead
        all_shown += policy == "fixed"
        ahead_where_all_shown += is_ahead and policy == "fixed"
    return (
        f"*{name}* leads {leads} of {len(logs)} logs, and is ahead of all that are no "
        f"posteriors on {ahead} ({ahead_where_all_shown} of the {all_shown} where all "
        "documents are shown)"
    )


def field_pairs(run: str) -> Lines:
    """On how many logs one method is ahead of another, or of all of several."""
    rows = [
        [name, _named(others), "{} of {}".format(*ahead_of(run, name, others))]
        for name, others in PAIRS
        if run_of(run)
    ]
    return markdown(["", "is ahead of", "on logs"], rows) if rows else []


def _named(others: Sequence[str]) -> str:
    return "all other trees" if others == OTHER_TREES else " and ".join(others)


def ahead_of(run: str, name: str, others: Sequence[str]) -> tuple[int, int]:
    """Number of logs on which a method is ahead of all others; logs that have all."""
    production = {
        p.place.data: _value(p)
        for p in points_of(run_of(run))
        if p.place.estimator == PRODUCTION
    }
    ahead, number = 0, 0
    for (data, *_), measured in field_logs(run).items():
        values = {**measured, PRODUCTION_TITLE: production[data]}
        if name in values and all(other in values for other in others):
            number += 1
            ahead += values[name] > max(values[other] for other in others)
    return ahead, number


def field_errors(run: str) -> Lines:
    """How sure the field is, by data set; and the default beside the next method.

    Behind the best: mean over the logs that most methods have.
    """
    places: dict[str, dict[tuple[str, str, str, float], dict[str, Point]]] = {}
    for point in points_of(run_of(run)):
        if point.place.policy is not None and len(point.by_query):
            log = (point.place.data, point.place.policy, *_log(point))
            logs_of_data = places.setdefault(point.place.data, {})
            logs_of_data.setdefault(log, {})[point.whole_method] = point
    rows = []
    for data, logs in places.items():
        levels, differences = [], []
        for methods in logs.values():
            posterior, affine = (methods[n].by_query for n in (POSTERIOR, AFFINE))
            levels.append(_standard_error(posterior))
            differences.append(_standard_error(posterior - affine))
        queries = np.count_nonzero(np.isfinite(posterior))
        behind = _behind(run, data)
        others = {n: gap for n, gap in behind.items() if not is_posterior(n)}
        next_best = min(others, key=lambda name: others[name])
        cells = [_span(levels), _span(differences), short(behind[DEFAULT])]
        cells += [f"{short(others[next_best])} ({next_best})"]
        rows.append([data, str(queries), *cells])
    heads = [
        "data",
        "test queries",
        "s.e. of a level",
        "s.e. of a lead over affine",
        DEFAULT,
        "next, no posterior",
    ]
    return markdown(heads, rows) if rows else []


def _standard_error(values: Any) -> float:
    """Standard error of a mean over queries; those without a value do not count."""
    known = values[np.isfinite(values)]
    return float(np.std(known, ddof=1) / np.sqrt(len(known)))


def _span(values: Sequence[float]) -> str:
    return f"{short(min(values))} to {short(max(values))}"


def _behind(run: str, data: str) -> dict[str, float]:
    """Mean distance to the best, of methods that all the fullest logs have."""
    logs = field_logs(run)
    most = max(map(len, logs.values()))
    fullest = [v for (d, *_), v in logs.items() if d == data and len(v) == most]
    return {
        name: float(np.mean([max(own.values()) - own[name] for own in fullest]))
        for name in fullest[0]
    }


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


def estimated_click_models(run: str) -> Lines:
    """Largest relative error of alpha by method, modulo gauge, at the most clicks."""
    rows = []
    for one in Summary(run_of(run)).estimates:
        error = np.abs(one.aligned[0].mean(axis=0) / one.truth[0] - 1)
        texts = [f"{np.max(part):.1%}" for part in (error[:10], error[10:])]
        rows.append([one.panel.title, title_of("click_model_from", one.method), *texts])
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
    report = f"([report]({run}/report.html))."
    return [made, report, *states_of_code([r.commit for r in results])]


def states_of_code(commits: Sequence[str]) -> Lines:
    """Say from how many states of the code a run is; ``+``: with changes of its own."""
    states = Counter(commits)
    if len(states) == 1 and not any(state.endswith("+") for state in states):
        return []
    of_states = f"one state of the code, {len(commits):,} cells"
    if len(states) > 1:
        numbers = [f"{count:,}" for _, count in states.most_common()]
        listed = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
        of_states = f"{len(states)} states of the code: {listed} cells"
    said = f"The run is from {of_states}."
    changed = [count for state, count in states.items() if state.endswith("+")]
    if changed:
        said += f" {sum(changed):,} of them had changes that were not committed."
    return wrapped(said, "")


# Files


def text(name: str, last: str = "0") -> Lines:
    """What a benchmark printed, as it is; or so many of its last lines."""
    lines = (DOCS / "results" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [f"    {line}".rstrip() for line in lines[-int(last) :]]


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
        and row["click_model_from"] in ("", known)
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


def few_clicks_fails() -> Lines:
    """How often estimated users left a ranker clearly behind no correction."""
    runs: dict[tuple[str, ...], dict[str, float]] = {}
    production: dict[tuple[str, str, str], float] = {}
    for row in rows_of("few-clicks-results.csv"):
        log = ("data", "policy", "ranker", "eta", "clicks", "run")
        if row["estimator"] == PRODUCTION:
            place = (row["data"], row["policy"], row["run"])
            production[place] = float(row["ndcg"])
        elif row["click_model_from"] in ("", METHOD):
            values = runs.setdefault(tuple(row[name] for name in log), {})
            values[row["estimator"]] = float(row["ndcg"])
    number, below_naive, below_production = 0, Counter[str](), 0
    for (data, policy, _, _, _, run), values in runs.items():
        if ESTIMATOR in values and "naive" in values:
            number += 1
            for name in ("affine", ESTIMATOR):
                below_naive[name] += values[name] < values["naive"] - FAR
            below_production += values[ESTIMATOR] < production[data, policy, run]
    said = (
        f"Of {number} rankers trained with estimated users, affine was more than "
        f"{short(FAR)} nDCG@10 behind no correction on {below_naive['affine']}, the "
        f"posterior on {below_naive[ESTIMATOR]}; the posterior was below production on "
        f"{below_production}."
    )
    return wrapped(said, "")


FAR = 0.03


def calibration() -> Lines:
    """How far standard deviations are off with today's prior, most either way."""
    ratios: list[float] = []
    for row in text("calibration-2")[:4]:  # the right half: today's prior
        ratios += map(float, row.rsplit(maxsplit=6)[1:])
    for row in text("calibration-3"):  # likelihoods follow
        ratios += map(float, row.rsplit(maxsplit=9)[1:7])
    too_large, too_small = min(ratios) ** -0.5 - 1, 1 - max(ratios) ** -0.5
    said = (
        f"Measured on synthetic logs, the standard deviation was up to {too_large:.0%} "
        f"too large (graded relevance, 3 clicks per query), and up to {too_small:.0%} "
        "too small ([calibration](benchmarks.md#calibration-calibrationpy))."
    )
    return wrapped(said, "")


def failed_statements(synthetic: str, real: str) -> Lines:
    """How many of the paper's statements failed, on synthetic and on real labels."""
    failed = {}
    for run in (synthetic, real):
        verdicts = [f.verdict for _, f in check_statements(run_of(run)) if f.verdict]
        failed[run] = f"{verdicts.count('failed')} of {len(verdicts)}"
    said = (
        f"Of the paper's statements that could be judged, {failed[synthetic]} fail on "
        "[synthetic data of the paper's size]"
        f"(reproduction.md#the-paper-scale-run), and {failed[real]} on [real queries "
        "and labels with simulated clicks](reproduction.md#real-queries-and-labels)."
    )
    return wrapped(said, "")


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
    "field-errors": field_errors,
    "field-leads": field_leads,
    "field-pairs": field_pairs,
    "field-regret": field_regret,
    "tests": tests,
    "activations": activations,
    "click-models": estimated_click_models,
    "about": about,
    "text": text,
    "lines": lines,
    "few-clicks": few_clicks,
    "few-clicks-fails": few_clicks_fails,
    "calibration": calibration,
    "failed-statements": failed_statements,
    "estimation": estimation,
    "estimation-ratio": estimation_ratio,
    "estimation-clipped": estimation_clipped,
}

if __name__ == "__main__":
    main()
