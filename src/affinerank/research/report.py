"""The report: one HTML file with everything a run measured, that opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from html import escape
from pathlib import Path

from affinerank.estimators import affine
from affinerank.evaluation.significance import compare_queries
from affinerank.output.charts import save_figure
from affinerank.output.html import html_page, html_table
from affinerank.research.cells import PRODUCTION
from affinerank.research.coordinates import FIGURES, title_of
from affinerank.research.curves import Point, Summary
from affinerank.research.figures import draw
from affinerank.research.groups import cells_of
from affinerank.research.plan import Plan
from affinerank.research.results import Result, load_run
from affinerank.research.statements.ours import check_our_statements
from affinerank.research.statements.paper import (
    OTHERS,
    Finding,
    Statement,
    allowed_p,
    check_statements,
)
from affinerank.support.errors import DataError
from affinerank.support.files import PathLike, atomic_write

REPORT = "report.html"
FORMATS = ("png", "svg", "pdf")


def write_report(run: PathLike, output: PathLike | None = None) -> Path:
    """Write the report of a run, finished or not (default: ``RUN/report.html``)."""
    target = Path(output) if output is not None else Path(run) / REPORT
    page = report_page(*load_run(run))
    with atomic_write(target) as aside:
        aside.write_text(page, encoding="utf-8")
    return target


def write_figures(run: PathLike, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write a run's figures as files of these endings, into ``RUN/figures``."""
    plan, results = load_run(run)
    folder = Path(run) / "figures"
    folder.mkdir(exist_ok=True)
    written = []
    for name in plan.figures:
        spec = draw(name, results)
        for ending in formats:
            written.append(folder / f"{name}.{ending}")
            save_figure(spec, written[-1])
    return written


def report_page(plan: Plan, results: Sequence[Result]) -> str:
    """Return the page's text."""
    summary = Summary(results)
    title = f"AffineRank: {plan.name}" + (f", {plan.profile}" if plan.profile else "")
    figures = {}
    for name in plan.figures:
        with suppress(DataError):  # there are no results for it yet
            figures[name] = draw(name, results)
    places = {n: f'<div class="scroll" data-figure="{n}"></div>' for n in figures}
    first = [places.pop(name) for name in figures if FIGURES[name].held_out]
    ours = check_our_statements(results)
    said = []
    if first or any(found.verdict for _, found in ours):
        said = [
            "<h2>What we say, and what held</h2>",
            *first,
            '<p class="note">A gap is how far the default estimator is below; where it '
            "is negative, it leads.</p>",
            _statements(ours),
        ]
    body = [
        f"<h1>{escape(title)}</h1>",
        _overview(plan, results),
        *_better(summary),
        *said,
        "<h2>What the paper says, and what held</h2>",
        '<p class="note">What is said of nDCG@10 is judged after the last epoch, as '
        "the paper trains, and after the epoch that held-out clicks chose, if any."
        "</p>",
        _statements(check_statements(results)),
        "<h2>Figures</h2>",
        '<p class="note">Hover over a point for its numbers; click a name below a '
        "figure to pick it out. Bands are one standard deviation over runs.</p>",
        *places.values(),
        "<h2>nDCG@10</h2>",
        '<p class="note">Mean over test queries, then mean and standard deviation over '
        "runs, after the last epoch; in small print, the mean after the epoch that "
        "held-out clicks chose.</p>",
        *_values(summary),
        "<h2>t-tests at the most clicks</h2>",
        '<p class="note">After the last epoch. Over runs, as in the paper: Student\'s, '
        "corrected by Holm, and Welch's. Beside it, paired over test queries: mean "
        "over runs of each query.</p>",
        _tests(summary),
        "<h2>How it was run</h2>",
        _circumstances(results),
        f"<h3>Plan</h3><pre>{escape(plan.to_toml())}</pre>",
    ]
    return html_page(title, body, figures)


def _overview(plan: Plan, results: Sequence[Result]) -> str:
    cells, done = cells_of(plan), len(results)
    state = f"All {done:,} cells are measured."
    if done < len(cells):
        state = f"{done:,} of {len(cells):,} cells are measured; the run is not over."
    used = {cell.data for cell in cells}
    worlds = [d.source for d in plan.data if d.name in used and "-like" in d.source]
    if worlds:
        state += (
            f" {', '.join(worlds)}: synthetic data, made to resemble sets that may not "
            "be handed on; their numbers are not those of the paper's data."
        )
    return f'<p class="note">{escape(state)}</p>'


def _better(summary: Summary) -> list[str]:
    """Say whether what was learnt from the most clicks ranks better than production."""
    said, rows, name = [], [], title_of("estimator", PRODUCTION)
    for panel in summary.panels:
        points = {p.method: p for p in summary.all_of(panel)}  # of the most clicks
        values = {method: point.by_query for method, point in points.items()}
        try:
            tests = sorted(compare_queries(values, name), key=lambda t: -t.difference)
        except DataError:  # production was not measured, or not by query
            continue
        first = next(t for t in tests if points[t.first].place.clicks)
        clicks = points[first.first].place.clicks
        yes = first.p_corrected < 0.05 and first.difference > 0
        said.append(
            f"{'Yes' if yes else 'Not clear'} ({panel.title}): "
            f"after {clicks:,.0f} clicks, {first.first} ranks {first.difference:+.3f} "
            f"above production in nDCG@10 (95 % {first.low:+.3f} to {first.high:+.3f}, "
            f"{first.n:,} test queries; p = {first.p_corrected:.2g}, Holm)."
        )
        for test in tests:
            band = f"<small>{test.low:+.4f} to {test.high:+.4f}</small>"
            value = f"{points[test.first].mean:.4f}", f"{test.difference:+.4f} {band}"
            rows.append([escape(panel.title), escape(test.first), *value])
    if not said:
        return []
    heads = ("Setting", "Learnt by", "nDCG@10", "Above production, 95 % interval")
    alone = len(said) == 1  # then the setting is in the sentence
    table = html_table(heads[alone:], [row[alone:] for row in rows])
    texts = [f'<p class="text">{escape(text)}</p>' for text in said]
    if not alone:
        table = f"<details><summary>All methods</summary>{table}</details>"
    return ["<h2>Does it rank better?</h2>", *texts, table]


def _statements(evaluated: Sequence[tuple[Statement, Finding]]) -> str:
    rows, left = [], []
    for statement, found in evaluated:
        if found.verdict is None:
            left.append(f"<li>{escape(statement.text)}</li>")
            continue
        word = found.verdict.split()[0]
        verdict = f'<span class="{word}">{found.verdict}</span>'
        numbers = "<br>".join(escape(number) for number in found.numbers)
        rule = f"<small>{escape(statement.rule)}</small>"
        rows.append([escape(statement.text), verdict, numbers, rule])
    table = html_table(("Statement", "Here", "Number", "Holds if"), rows)
    if not left:
        return table
    return (
        f"{table if rows else ''}<details><summary>Not measured here: {len(left)}"
        f"</summary><ul>{''.join(left)}</ul></details>"
    )


def _values(summary: Summary) -> list[str]:
    parts = []
    for panel in summary.panels:
        points = summary.all_of(panel)
        counts = sorted({p.place.clicks for p in points if p.place.clicks})
        texts = {(p.method, p.place.clicks): _value(p) for p in points}
        rows = []
        for name in dict.fromkeys(p.method for p in points):
            level = texts.get((name, None), "")
            rows.append([escape(name), *(texts.get((name, c), level) for c in counts)])
        heads = ("Method", *(f"{c:,.0f} clicks" for c in counts))
        parts += [f"<h3>{escape(panel.title)}</h3>", html_table(heads, rows)]
    return parts


def _value(point: Point) -> str:
    text = f"{point.mean:.4f}"
    if len(point.values) > 1:
        text += f" ± {point.deviation:.4f}"
    if point.held_out_mean is not None:
        text += f"<br><small>{point.held_out_mean:.4f}</small>"
    return text


def _tests(summary: Summary) -> str:
    rows = []
    for panel in summary.panels:
        student, welch, queries = (
            summary.tests(panel, kind) for kind in ("student", "welch", "queries")
        )
        for name, test in student.items():
            rows.append(
                [
                    escape(panel.title),
                    escape(title_of("estimator", name)),
                    f"{-test.difference:+.4f}",
                    f"{-test.high:+.4f} to {-test.low:+.4f}",
                    f"{test.p:.2g}",
                    f"≤ {allowed_p(panel):g}" if name in OTHERS else "",
                    f"{test.p_corrected:.2g}",
                    f"{welch[name].p:.2g}",
                    f"{max(queries[name].p, 1e-300):.2g}" if name in queries else "",
                ]
            )
    name = affine.ROW.title
    if not rows:
        return f'<p class="note">Needs two runs or more of {name} and another.</p>'
    heads = ("Setting", f"{name} against", "Difference", "95 % interval", "p")
    more = ("p in the paper", "p, Holm", "p, Welch", "p, paired over queries")
    return html_table((*heads, *more), rows)


def _circumstances(results: Sequence[Result]) -> str:
    minutes = sum(r.seconds for r in results) / 60
    rows = [["Time spent", f"{minutes:.1f} minutes, {len(results)} cells"]]
    for name in ("device", "versions", "commit"):
        found = dict.fromkeys(getattr(r, name) for r in results)
        rows += [[name.capitalize(), escape(value)] for value in found]
    return html_table(("", ""), rows)
