"""Results as text for a terminal; text from data is printed plain, never styled."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

out = Console()
faults = Console(stderr=True)

RANKS_PRINTED = 20
FEATURES_PRINTED = 20


def say(text: str) -> None:
    """Print one line on stderr."""
    faults.print(_plain(text), markup=False, highlight=False, soft_wrap=True)


def line(*lines: str) -> None:
    """Print lines on stdout."""
    for text in lines:
        out.print(_plain(text), markup=False, highlight=False, soft_wrap=True)


def table(
    heads: Iterable[str], rows: Iterable[Sequence[Any]], console: Console = out
) -> None:
    """Print a table without lines or empty columns, in which nothing is ever cut."""
    rows = [list(row) for row in rows]
    full = [any(cells) for cells in zip(*rows, strict=True)]
    rows, heads = [list(compress(row, full)) for row in rows], compress(heads, full)
    columns = [Column(head, overflow="fold") for head in heads]
    drawn = Table(*columns, box=box.SIMPLE, padding=(0, 1, 0, 0))
    for row in rows:
        drawn.add_row(*(Text(_plain(str(cell))) for cell in row))
    console.print(drawn)


def notes(about: Mapping[str, Any]) -> None:
    """Print names and values below each other; a value is never cut."""
    width = max(len(name) for name in about)
    for name, value in about.items():
        text = f"{value:,}" if isinstance(value, int) else str(value)
        below = text.replace("\n", "\n" + " " * (width + 4))
        line(f"  {name:<{width}}  {below}")


def description(about: Mapping[str, Any]) -> None:
    """Print what ``describe`` found."""
    sizes, shares = about["documents_per_query"], about["label_shares"]
    kind = " (synthetic)" if about["synthetic"] else ""
    part = f", {about['split']} split" if about["split"] else ""
    line(f"{about['data']}{kind}{part}")
    values = (f"{name} ({n} values)" for name, n in about["categories"].items())
    rows = {name: about[name] for name in ("queries", "documents", "features")} | {
        "documents per query": f"mean {sizes['mean']:.1f}, median {sizes['median']:g}, "
        f"{sizes['min']} to {sizes['max']}",
        "categories": ", ".join(values) or "none",
        "missing values": about["missing_values"],
        "labels": "  ".join(f"{value}: {s:.3f}" for value, s in (shares or {}).items())
        or "none",
    }
    if shares is not None:
        above = f"share of labels above {about['relevant_above']:g}"
        rows[above] = f"{about['relevant_share']:.4f}"
    notes(rows)
    found = about["production"] or {}
    if "not_trained" in found:
        line(f"no production ranker: {found['not_trained']}")
    elif found:
        line(
            f"production ranker: LambdaMART on {found['queries_learnt_from']} random "
            f"queries, mean of {found['draws']} draws"
        )
        relevant, values = found["relevant_share_by_rank"], found["nDCG@10"]
        _by_rank(range(1, len(relevant) + 1), {"relevant": relevant})
        line(
            f"nDCG@10 {sum(values) / len(values):.3f} "
            f"({', '.join(f'{v:.3f}' for v in values)}) on {found['judged_on']}; "
            f"linear gain, {found['queries_skipped']} queries without a relevant "
            "document skipped"
        )


def demonstration(demo: Any, report: Path) -> None:
    """Print what the demo showed."""
    log, rows = demo.log, demo.by_rank
    ranks = [row["rank"] for row in rows]
    line(f"{demo.world}, a synthetic world, ranked by LambdaMART trained on 20 queries")
    line(
        f"its users: {log['sessions']:,} sessions, {log['impressions']:,} impressions, "
        f"{log['clicks']:,} clicks; position and trust bias as in the paper"
    )
    shown = {"clicked": "rate", "relevant": "relevant"}
    _by_rank(ranks, {name: [r[key] for r in rows] for name, key in shown.items()})
    line("Clicks fall with the rank far faster than relevance: that is the bias.\n")
    values = {
        f"{name}, {label}": [row[name + end] for row in rows]
        for name in ("alpha", "beta")
        for label, end in (("true", ""), ("estimated", "_estimated"))
    }
    _by_rank(ranks, values)
    line(
        "How users click, estimated from their clicks alone, in the gauge of the truth "
        f"(error E = {demo.estimation_error:.3f}; 0 is perfect, 0.5 useless)."
    )
    if demo.trust_bias is not None:
        verdict = "is" if demo.trust_bias.found else "was not found to be"
        line(f"There {verdict} trust bias (p = {demo.trust_bias.p:.1g}).\n")
    judged = [
        (name, f"{v.mean:.3f}", "{:.3f} to {:.3f}".format(*v.interval))
        for name, v in demo.rankings.items()
    ]
    table(("ranking", "nDCG@10", "95 % interval"), judged)
    line(next(iter(demo.rankings.values())).name)
    line("The networks learnt from the same clicks; full information from the labels.")
    line(f"The paper's figures at this size, with what held: {report}")


def simulated(about: Mapping[str, Any]) -> None:
    """Print what a simulation came to."""
    clicks = f"{about['clicks']:,} (expected {about['expected_clicks']:,.0f})"
    sizes = {name: about[name] for name in ("sessions", "impressions")}
    notes({**sizes, "clicks": clicks, **about["written"]})


def reproduced(about: Mapping[str, Any]) -> None:
    """Print what an experiment came to: its size, and what held of what it measured."""
    profile = f", {about['profile']}" if about["profile"] else ""
    line(f"{about['plan']}{profile}")
    judged = [row for row in about["statements"] if row["verdict"]]
    if judged:
        rows = (
            (row["statement"], row["verdict"], "\n".join(row["numbers"]))
            for row in judged
        )
        table(("statement", "here", "number"), rows)
    left = len(about["statements"]) - len(judged)
    measured = f"{about['cells']:,}"
    if about["cells"] < about["planned"]:
        measured += f" of {about['planned']:,}; the run is not over"
    notes(
        {
            "statements": f"{len(judged)} judged, {left} not measured here",
            "cells": measured,
            "seconds": f"{about['seconds']:.1f}",
            "written": "\n".join(about["written"]),
        }
    )


def trained(about: Mapping[str, Any]) -> None:
    """Print what was trained, below what it was chosen from."""
    if "choice" in about:
        chosen(about["choice"])
    rows, left = about["rankers"], about["unmatched"]
    fixed = ("estimator", "seed", "written")
    reported = [name for name in rows[0] if name not in fixed]
    heads = ("estimator", *(name.replace("_", " ") for name in reported), "written")
    cells = (
        (row["estimator"], *(_number(row[name]) for name in reported), row["written"])
        for row in rows
    )
    table(heads, cells)
    if left["documents"]:
        line(
            f"{left['documents']:,} documents of {left['queries']:,} queries with "
            f"{left['impressions']:,} impressions and {left['clicks']:,} clicks have "
            "no features and were left out"
        )
    if about["constant"]:
        few = ", ".join(about["constant"][:10])
        more = ", ..." if len(about["constant"]) > 10 else ""
        line(
            f"{len(about['constant']):,} features are the same for all documents of "
            f"each query, so nothing is learnt from them: {few}{more}"
        )
    for name, found in about.get("importance", {}).items():
        if found:
            line(f"what features are worth to {name}:")
            importance(found)
    for row in about["imputed"]:
        line(
            f"{row['feature']} is missing {row['missing']:,} times ({row['share']:.1%})"
            f" and was filled with its median, {row['median']:.3g} from 0 to 1"
        )


def swap_plan(about: Mapping[str, Any]) -> None:
    """Print how many sessions with swaps it takes, and at which ranks."""
    now, error, wanted = (about[name] for name in ("error_now", "error", "target"))
    line(f"to know {about['goal']}: {about['sessions']:,} sessions with a swap each")
    start = f"{now:.3g}" if now < 100 * wanted else "unknown"
    line(f"standard error: {start} now, {error:.3g} then, {wanted:.3g} wanted")
    if about["difference"] is not None:
        line(f"estimated difference: {about['difference']:+.4f}")
    plain = about["sessions_of_uniform_swaps"]
    number = "more than a billion" if plain is None else f"{plain:,.0f}"
    line(f"uniform adjacent swaps would take {number} sessions")
    line(f"expected loss: {about['dcg_lost']:.1f} DCG in all these sessions")
    pairs = about["pairs"][:10]
    cells = (
        (f"{row['upper']} with {row['lower']}", *map(_number, list(row.values())[2:]))
        for row in pairs
    )
    table(("ranks", "sessions", "queries", "DCG lost"), cells)
    if len(about["pairs"]) > len(pairs):
        line(f"and {len(about['pairs']) - len(pairs)} more pairs of ranks")
    heads = ("rank", "alpha", "+-", "beta", "+-")
    table(heads, (tuple(map(_number, row.values())) for row in about["by_rank"]))


def exported(about: Mapping[str, Any]) -> None:
    """Print what was written, and how well it agrees with the ranker."""
    lines = {
        "written": f"{about['path']}\n{about['about']}",
        "features": f"{about['n_features']:,}",
    }
    if parity := about["parity"]:
        lines["compared"] = (
            f"{parity['documents']:,} documents of {parity['lists']:,} lists, scored "
            "by the file and by the ranker"
        )
        lines["max difference"] = (
            f"{parity['max_difference']:.3g} "
            f"({parity['relative']:.2g} of the largest score)"
        )
    notes(lines)


def importance(about: Mapping[str, Any]) -> None:
    """Print the features that are worth most."""
    rows = about["features"]
    heads = {"gain": "share of gain", "loss": "DCG lost", "standard_error": "+-"}
    known = [name for name in heads if name in rows[0]]
    shown = rows[:FEATURES_PRINTED]
    cells = ((r["feature"], *(f"{r[name]:.4f}" for name in known)) for r in shown)
    table(("feature", *(heads[name] for name in known)), cells)
    if len(rows) > len(shown):
        line(f"and {len(rows) - len(shown):,} features more (--json)")
    if about["queries"]:
        line(f"permuted within the lists of {about['queries']:,} held-out queries")


def chosen(about: Mapping[str, Any]) -> None:
    """Print which candidates were compared, and which was taken."""
    line(
        f"{about['judged_by']}; queries held out in {about['parts']} of "
        f"{about['folds']} parts"
    )
    rows: dict[str, list[str]] = {}
    short: dict[str, float] = {}
    for row in about["candidates"]:
        name = row["estimator"]
        gain = f"{row['gain']:+.4f} +- {row['standard_error']:.4f}"
        rows.setdefault(name, []).append(gain)
        alone = "disagreement" in about  # then the last judge decides
        short[name] = max(0.0 if alone else short.get(name, 0.0), row["short"])
    judges = dict.fromkeys(row["judge"] for row in about["candidates"])
    table(
        ("candidate", *(f"by {judge}" for judge in judges), "falls short"),
        ((name, *gains, f"{short[name]:.2f}") for name, gains in rows.items()),
    )
    line(f"taken: {about['best']} (falls short least, from 0 to 1)")


def evaluated(about: Mapping[str, Any]) -> None:
    """Print how rankers were judged."""
    line(f"{about['metric']}; labels above {about['relevant_above']:g} are relevant")
    compared = {row["first"]: row for row in about["comparisons"]}
    rows = []
    for row in about["rankers"]:
        low, high = row["interval"]
        other = compared.get(row["ranker"])
        than = ("", "")
        if other:
            than = (f"{other['difference']:+.4f}", f"{other['p_corrected']:.2g}")
        band = f"{low:.4f} to {high:.4f}"
        rows.append((row["ranker"], f"{row['mean']:.4f}", band, *than))
    table(("ranker", "mean", "95 % interval", "difference", "p (Holm)"), rows)
    _concluded(about)
    if not about["conclusions"]:
        line(
            "compared with nothing: name two rankers or more, the first to compare "
            "with (production's), or judge by clicks (--counts)"
        )


def _concluded(about: Mapping[str, Any]) -> None:
    """Print what was left out, and in words which ranker is better."""
    if about["left_out"]:
        left = f"left out: {about['left_out']:,} queries that the rankers learnt from"
        line(left)
    for sentence in about["conclusions"]:
        line(sentence)


def counted(about: Mapping[str, Any]) -> None:
    """Print what was counted, below what was found."""
    findings(about["findings"])
    names = "rows sessions queries documents ranks impressions clicks"
    rows = {name: about[name] for name in names.split()}
    dropped = about["dropped"]
    rows["dropped"] = f"{dropped['sessions']:,} sessions, {dropped['rows']:,} rows"
    rows["seconds"] = f"{about['seconds']:.1f}"
    if about.get("removed"):
        rows["removed"] = ", ".join(about["removed"])
    notes({**rows, "written": about["written"]})


def estimated(about: Mapping[str, Any]) -> None:
    """Print alpha and beta by rank, how sure they are, and whether trust is there."""
    line(f"by {about['method']}: {about['why']}")
    line(
        f"{about['documents_at_several_ranks']:,} of {about['documents']:,} documents "
        f"were shown at several ranks; that connects "
        f"{'; '.join(about['connected']) or 'no ranks'}"
    )
    rows = about["by_rank"]
    line("the scale is arbitrary: alpha is 1 and beta 0 at the first rank")
    shown = []
    for row in rows[:RANKS_PRINTED]:
        numbers = (f"{row[name]:,}" for name in ("impressions", "clicks"))
        bands = (_with_band(row["display"], name) for name in ("alpha", "beta"))
        shown.append((row["ranks"], *numbers, *bands))
    table(("rank", "impressions", "clicks", "alpha", "beta"), shown)
    if len(rows) > RANKS_PRINTED:
        line(f"... and {len(rows) - RANKS_PRINTED} more in the file and with --json")
    for note in about["notes"]:
        line(f"note: {note}")
    if "models" in about:
        line("which users predict held-out sessions (the simplest that is not behind):")
        shown = []
        for row in about["models"]:
            numbers = (f"{row[name]:.4f}" for name in ("log_likelihood", "perplexity"))
            clear = " *" if row["clear"] else ""
            lead = f"{row['lead']:+.5f} +- {row['lead_error']:.5f}{clear}"
            shown.append((row["model"], *numbers, lead if row["lead_error"] else ""))
        heads = ("users go by", "log-likelihood", "perplexity", "lead over the simpler")
        table(heads, shown)
    test, error = about.get("trust_bias"), about.get("against_truth")
    if test is not None:
        verdict = "there is trust bias" if test["found"] else "no trust bias was found"
        line(
            f"{verdict} (p = {test['p']:.2g}): it makes the clicks of "
            f"{test['n_queries']:,} held-out queries {test['gain']:+.3g} +- "
            f"{test['gain_error']:.2g} more likely each (log-likelihood); "
            f"{test['held_out']:.5f} per impression"
        )
    if error is not None:
        line(
            f"against the truth, modulo gauge: E = {error['error']:.4f}; mean absolute "
            f"error of alpha {error['alpha_absolute']:.4f}, of beta "
            f"{error['beta_absolute']:.4f}"
        )
    for name in ("written", "plot"):
        if name in about:
            line(f"{name}: {about[name]}")


def evaluated_from_clicks(about: Mapping[str, Any]) -> None:
    """Print how rankers were judged by held-out clicks."""
    line(
        f"{about['metric']} by {about['estimator']}, from {about['clicks']:,} clicks, "
        f"{about['sessions']:,} sessions and {about['queries']:,} queries; in units of "
        f"{about['units']}"
    )
    for row in about["rankers"]:
        line(row["ranker"])
        notes(_judged(row))
        if row["predicted"]:
            line(
                f"{row['ranker']}: {row['never_shown_share']:.1%} of the rank weight "
                "is on documents that were never shown: their relevance is predicted, "
                "as if documents alike were as relevant when shown (--among shown "
                "leaves them out)"
            )
    refits = about["refits"]
    if refits is not None:
        line(
            "users were estimated, so only differences are told; for each interval "
            f"they were refitted to {refits['replicates']} resamples of {refits['to']}"
        )
    if about["user_buckets"]:
        line(f"intervals are clustered by user, in {about['user_buckets']:,} buckets")
    if about["among"] == "shown":
        line("rankings order the documents that were shown, and no others")
    _concluded(about)


def _judged(row: Mapping[str, Any]) -> dict[str, str]:
    titles = {"value": "value", "logged": "logged ranking"}
    lines = {titles[key]: _estimate(row[key]) for key in titles if key in row}
    for name, verdict in (
        ("logged", "verdict on future queries"),
        ("production", "verdict against production"),
    ):
        if difference := row.get(f"against_{name}"):
            lines[f"difference from {name}"] = _estimate(difference, sign="+")
            lines[verdict] = _verdict(difference)
    if "second_judge" in row:
        second = row["second_judge"]
        low, high = (second["over_queries"][end] for end in ("low", "high"))
        lines[f"by {second['judge']}, not users"] = (
            f"{second['estimate']:+.4f}, 95 % {low:+.4f} to {high:+.4f} over queries; "
            "in a unit of its own"
        )
    lines["rank weight on documents never shown"] = f"{row['never_shown_share']:.1%}"
    if row["effective_impressions"] is not None:
        lines["effective impressions"] = (
            f"{row['effective_impressions']:,.0f} of {row['impressions']:,}; the top "
            f"1 % carry {row['top_percent_share']:.1%} of the weight"
        )
    return lines


def _estimate(about: Mapping[str, Any], sign: str = "") -> str:
    """A value, and below it both intervals, or bounds."""
    kind, lines = "95 %", []
    if about["bounds"]:
        kind = "bounds"
        lines.append(
            f"{about['least']:{sign}.4f} to {about['most']:{sign}.4f}, by what "
            "documents never shown are worth"
        )
    else:
        lines.append(f"{about['estimate']:{sign}.4f}")
    for over, target in (("sessions", "these queries"), ("queries", "future ones")):
        interval = about[f"over_{over}"]
        lines.append(
            f"{interval['low']:{sign}.4f} to {interval['high']:{sign}.4f}: {kind} over "
            f"{over} ({target})"
        )
    return "\n".join(lines)


def _verdict(difference: Mapping[str, Any]) -> str:
    verdict, needed = str(difference["verdict"]), difference["clicks_needed"]
    if verdict == "cannot be decided":
        return f"{verdict}: the judges disagree, so the users may be wrong"
    if verdict != "undecided":
        return verdict
    if needed is None:
        return "undecided, and more clicks of this kind would not decide it"
    return (
        f"undecided; about {needed:,.0f} clicks would decide it, on as many more "
        f"queries (there are {difference['clicks']:,} clicks)"
    )


def findings(found: Iterable[Mapping[str, Any]], console: Console = out) -> None:
    """Print what is wrong or peculiar about a log, with example rows."""
    write = partial(json.dumps, default=str, ensure_ascii=False)  # ids as they are
    rows = [
        (
            "fault" if row["fault"] else "note",
            row["what"],
            f"{row['number']:,} {row['unit']}",
            "\n".join(map(write, row["examples"][:3])),
        )
        for row in found
    ]
    if rows:
        table(("", "what", "how many", "for example"), rows, console)


def _by_rank(ranks: Iterable[int], rows: Mapping[str, Iterable[float | None]]) -> None:
    """Print shares by rank, a row for each name."""
    cells = (
        (name, *("-" if v is None else f"{v:.3f}".lstrip("0") or "0" for v in values))
        for name, values in rows.items()
    )
    table(("rank", *map(str, ranks)), cells)


def _with_band(row: Mapping[str, float], name: str) -> str:
    """A value, and half the width of its 95 % band where there is one."""
    reach = (row.get(f"{name}_high", 0.0) - row.get(f"{name}_low", 0.0)) / 2
    return f"{row[name]:.4f} +- {reach:.4f}" if reach > 0 else f"{row[name]:.4f}"


def _number(value: float | None) -> str:
    """A number of a report: whole ones as they are, others to four places."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def _plain(text: str) -> str:
    """Take the control characters out, which could steer a terminal."""
    return "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
