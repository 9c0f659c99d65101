"""Results as text for a terminal; text from data is printed plain, never styled."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

out = Console()
faults = Console(stderr=True)

RANKS_PRINTED = 20


def say(text: str) -> None:
    """Print one line on stderr."""
    faults.print(_plain(text), markup=False, highlight=False, soft_wrap=True)


def line(text: str) -> None:
    """Print one line on stdout."""
    out.print(_plain(text), markup=False, highlight=False, soft_wrap=True)


def description(about: Mapping[str, Any]) -> None:
    """Print what ``describe`` found."""
    sizes = about["documents_per_query"]
    kind = " (synthetic)" if about["synthetic"] else ""
    part = f", {about['split']} split" if about["split"] else ""
    line(f"{about['data']}{kind}{part}")
    rows = {
        "queries": f"{about['queries']:,}",
        "documents": f"{about['documents']:,}",
        "features": f"{about['features']:,}",
        "documents per query": f"mean {sizes['mean']:.1f}, median {sizes['median']:g}, "
        f"{sizes['min']} to {sizes['max']}",
        "missing values": f"{about['missing_values']:,}",
        "labels": "none",
    }
    if about["label_shares"] is not None:
        shares = about["label_shares"].items()
        rows["labels"] = "  ".join(f"{value}: {s:.3f}" for value, s in shares)
        name = f"share of labels above {about['relevant_above']:g}"
        rows[name] = f"{about['relevant_share']:.4f}"
    _pairs(rows)
    if about["production"] is not None:
        _production(about["production"])


def demonstration(demo: Any, world: str, report: Path) -> None:
    """Print what the demo showed."""
    line(f"{world}, a synthetic world, ranked by LambdaMART trained on 20 queries")
    log = demo.log
    line(
        f"its users: {log['sessions']:,} sessions, {log['impressions']:,} impressions, "
        f"{log['clicks']:,} clicks; position and trust bias as in the paper"
    )
    table = _table("rank", *(str(row["rank"]) for row in demo.by_rank))
    table.add_row("clicked", *_shares(row["rate"] for row in demo.by_rank))
    table.add_row("relevant", *_shares(row["relevant"] for row in demo.by_rank))
    out.print(table)
    line("Clicks fall with the rank far faster than relevance: that is the bias.\n")
    table = _table("rank", *(str(row["rank"]) for row in demo.by_rank))
    for name in ("alpha", "beta"):
        for label, key in (("true", name), ("estimated", f"{name}_estimated")):
            values = (row[key] for row in demo.by_rank)
            table.add_row(f"{name}, {label}", *_shares(values))
    out.print(table)
    line(
        "How users click, estimated from their clicks alone, in the gauge of the truth "
        f"(error E = {demo.estimation_error:.3f}; 0 is perfect, 0.5 useless)."
    )
    if demo.trust_bias is not None:
        verdict = "is" if demo.trust_bias.found else "was not found to be"
        line(f"There {verdict} trust bias (p = {demo.trust_bias.p:.1g}).\n")
    table = _table("ranking", "nDCG@10", "95 % interval")
    for name, values in demo.rankings.items():
        low, high = values.interval
        table.add_row(name, f"{values.mean:.3f}", f"{low:.3f} to {high:.3f}")
    out.print(table)
    line(next(iter(demo.rankings.values())).name)
    line("The networks learnt from the same clicks; full information from the labels.")
    line(f"The paper's figures at this size, with what held: {report}")


def simulated(about: Mapping[str, Any]) -> None:
    """Print what a simulation came to."""
    _pairs(
        {
            "sessions": f"{about['sessions']:,}",
            "impressions": f"{about['impressions']:,}",
            "clicks": f"{about['clicks']:,} (expected {about['expected_clicks']:,.0f})",
            **about["written"],
        }
    )


def reproduced(about: Mapping[str, Any]) -> None:
    """Print what an experiment came to: its size, and what held of what it measured."""
    profile = f", {about['profile']}" if about["profile"] else ""
    line(f"{about['plan']}{profile}")
    table = _table("statement of the paper", "here", "number")
    judged = [row for row in about["statements"] if row["held"] is not None]
    for row in judged:
        here = "held" if row["held"] else "failed"
        table.add_row(Text(row["statement"]), here, Text(_plain(row["number"])))
    if judged:
        out.print(table)
    left = len(about["statements"]) - len(judged)
    measured = f"{about['cells']:,}"
    if about["cells"] < about["planned"]:
        measured += f" of {about['planned']:,}; the run is not over"
    _pairs(
        {
            "statements": f"{len(judged)} judged, {left} not measured here",
            "cells": measured,
            "seconds": f"{about['seconds']:.1f}",
            "written": "\n".join(about["written"]),
        }
    )


def trained(about: Mapping[str, Any]) -> None:
    """Print what was trained."""
    table = _table("estimator", "loss, first epoch", "last epoch", "written")
    for row in about["rankers"]:
        first, last = row["first_loss"], row["last_loss"]
        table.add_row(
            row["estimator"], f"{first:.4f}", f"{last:.4f}", Text(row["written"])
        )
    out.print(table)
    _left_out(about["unmatched"])
    for row in about["imputed"]:
        line(
            f"{row['feature']} is missing {row['missing']:,} times ({row['share']:.1%})"
            f" and was filled with its median, {row['median']:.3g} from 0 to 1"
        )


def chosen(about: Mapping[str, Any]) -> None:
    """Print which candidates were compared, and which was taken."""
    line(f"{about['judged_by']}; queries held out in {about['folds']} parts")
    gains: dict[str, list[float]] = {}
    for row in about["candidates"]:
        gains.setdefault(row["ranker"], []).append(row["gain"])
    over = (f"{kind} over logged" for kind in gains)
    table = _table("estimator", "clip", "over naive, std error", *over)
    for i, row in enumerate(about["estimators"]):
        table.add_row(
            row["estimator"],
            Text(str(row["clip"] or "")),
            f"{row['lead']:+.4f}, {row['standard_error']:.4f}",
            *(f"{values[i]:+.4f}" for values in gains.values()),
        )
    means = (f"{sum(values) / len(values):+.4f}" for values in gains.values())
    table.add_row("mean", "", "", *means)
    out.print(table)
    best = about["best"]
    clip = f", clip {best['clip']}" if best["clip"] else ""
    line(
        f"taken: {best['estimator']}{clip} (largest lead less half its standard "
        f"error), {best['ranker']} (highest mean)"
    )


def trained_trees(about: Mapping[str, Any]) -> None:
    """Print what trees were trained."""
    table = _table("estimator", "trees", "held-out DCG, first tree", "best", "written")
    for row in about["rankers"]:
        held = (row["first_held_out"], row["best_held_out"])
        first, best = ("" if value is None else f"{value:.4f}" for value in held)
        table.add_row(
            row["estimator"], f"{row['trees']}", first, best, Text(row["written"])
        )
    out.print(table)
    _left_out(about["unmatched"])


def _left_out(unmatched: Mapping[str, int]) -> None:
    """Print what had no features."""
    if unmatched["documents"]:
        line(
            f"{unmatched['documents']:,} documents of {unmatched['queries']:,} queries "
            f"with {unmatched['impressions']:,} impressions and "
            f"{unmatched['clicks']:,} clicks have no features and were left out"
        )


def evaluated(about: Mapping[str, Any]) -> None:
    """Print how rankers were judged."""
    line(f"{about['metric']}; labels above {about['relevant_above']:g} are relevant")
    table = _table("ranker", "mean", "95 % interval", "difference", "p (Holm)")
    compared = {row["first"]: row for row in about["comparisons"]}
    for row in about["rankers"]:
        low, high = row["interval"]
        other = compared.get(row["ranker"])
        table.add_row(
            Text(row["ranker"]),
            f"{row['mean']:.4f}",
            f"{low:.4f} to {high:.4f}",
            f"{other['difference']:+.4f}" if other else "",
            f"{other['p_corrected']:.2g}" if other else "",
        )
    out.print(table)


def counted(about: Mapping[str, Any]) -> None:
    """Print what was counted."""
    names = (
        "rows",
        "sessions",
        "queries",
        "documents",
        "ranks",
        "impressions",
        "clicks",
    )
    rows = {name: f"{about[name]:,}" for name in names}
    dropped = about["dropped"]
    rows["dropped"] = f"{dropped['sessions']:,} sessions, {dropped['rows']:,} rows"
    rows["seconds"] = f"{about['seconds']:.1f}"
    rows["written"] = about["written"]
    _pairs(rows)


def estimated(about: Mapping[str, Any]) -> None:
    """Print alpha and beta by rank, how sure they are, and whether trust is there."""
    line(f"by {about['method']}: {about['why']}")
    groups = about["connected"]
    line(
        f"{about['documents_at_several_ranks']:,} of {about['documents']:,} documents "
        f"were shown at several ranks; that connects "
        f"{'; '.join(groups) if groups else 'no ranks'}"
    )
    rows = about["by_rank"]
    line("alpha and beta up to gauge: in units of clicks at the first rank (1 and 0)")
    table = _table("rank", "impressions", "clicks", "alpha", "beta")
    for row in rows[:RANKS_PRINTED]:
        shown = row["display"]
        table.add_row(
            row["ranks"],
            f"{row['impressions']:,}",
            f"{row['clicks']:,}",
            _with_band(shown, "alpha"),
            _with_band(shown, "beta"),
        )
    out.print(table)
    if len(rows) > RANKS_PRINTED:
        line(f"... and {len(rows) - RANKS_PRINTED} more in the file and with --json")
    for note in about["notes"]:
        line(f"note: {note}")
    test = about.get("trust_bias")
    if test is not None:
        verdict = "there is trust bias" if test["found"] else "no trust bias was found"
        line(
            f"{verdict} (p = {test['p']:.2g}): it makes the clicks of "
            f"{test['n_queries']:,} held-out queries {test['gain']:+.3g} +- "
            f"{test['gain_error']:.2g} more likely each (log-likelihood); "
            f"{test['held_out']:.5f} per impression"
        )
    if "against_truth" in about:
        error = about["against_truth"]
        line(
            f"against the truth, modulo gauge: E = {error['error']:.4f}; mean absolute "
            f"error of alpha {error['alpha_absolute']:.4f}, of beta "
            f"{error['beta_absolute']:.4f}"
        )
    for name in ("written", "plot"):
        if name in about:
            line(f"{name}: {about[name]}")


def _with_band(row: Mapping[str, float], name: str) -> str:
    """A value, and half the width of its 95 % band where there is one."""
    value = f"{row[name]:.4f}"
    if f"{name}_low" not in row:
        return value
    reach = (row[f"{name}_high"] - row[f"{name}_low"]) / 2
    return f"{value} +- {reach:.4f}" if reach > 0 else value


def findings(report: Any, *, to_stderr: bool) -> None:
    """Print what is wrong or peculiar about a log, with example rows."""
    console = faults if to_stderr else out
    table = _table("", "what", "how many", "for example")
    for finding in report.findings:
        examples = "\n".join(_example(example) for example in finding.examples[:3])
        table.add_row(
            "fault" if finding.fault else "note",
            Text(finding.what),
            f"{finding.number:,} {finding.unit}",
            Text(examples),
        )
    if report.findings:
        console.print(table)


def notes(about: Mapping[str, Any]) -> None:
    """Print names and values as they are."""
    _pairs({name: str(value) for name, value in about.items()})


def _example(row: Mapping[str, Any]) -> str:
    return json.dumps(row, default=str, ensure_ascii=True)


def _production(production: Mapping[str, Any]) -> None:
    if "not_trained" in production:
        line(f"no production ranker: {production['not_trained']}")
        return
    line(
        f"production ranker: LambdaMART on {production['queries_learnt_from']} random "
        f"queries, mean of {production['draws']} draws"
    )
    table = _table("rank", *(str(k) for k in range(1, 11)))
    table.add_row("relevant", *_shares(production["relevant_share_by_rank"]))
    out.print(table)
    values = production["nDCG@10"]
    line(
        f"nDCG@10 {sum(values) / len(values):.3f} "
        f"({', '.join(f'{v:.3f}' for v in values)}) on {production['judged_on']}; "
        f"linear gain, {production['queries_skipped']} queries without a relevant "
        "document skipped"
    )


def _table(*headers: str) -> Table:
    """A table without lines, in which nothing is ever cut."""
    columns = [Column(header, overflow="fold") for header in headers]
    return Table(*columns, box=box.SIMPLE, padding=(0, 1, 0, 0))


def _shares(values: Iterable[float | None]) -> list[str]:
    return ["-" if v is None else f"{v:.3f}".lstrip("0") or "0" for v in values]


def _pairs(rows: Mapping[str, str]) -> None:
    """Print names and values below each other; a value is never cut."""
    width = max(len(name) for name in rows)
    for name, value in rows.items():
        below = value.replace("\n", "\n" + " " * (width + 4))
        line(f"  {name:<{width}}  {below}")


def _plain(text: str) -> str:
    """Take the control characters out, which could steer a terminal."""
    return "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
