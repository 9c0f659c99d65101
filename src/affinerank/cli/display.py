"""Results as text for a terminal; text from data is printed plain, never styled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

About = Mapping[str, Any]  # a result, as plain data
out = Console()
faults = Console(stderr=True)

ROWS_PRINTED = 20
SIMULATED = (
    "sessions",
    "impressions",
    "clicks",
    "purchases",
    "queries",
    "products",
)
ROUNDING = 1e-9  # a band that is no wider is 0, on another processor if not on this one


def say(text: str) -> None:
    """Print one line on stderr."""
    faults.print(_plain(text), markup=False, highlight=False, soft_wrap=True)


def line(text: str) -> None:
    """Print one line on stdout."""
    out.print(_plain(text), markup=False, highlight=False, soft_wrap=True)


def told(about: About, *texts: str) -> None:
    """Print texts, with values in the place of names; those about nothing are left out.

    What a text is about is the first name in it.
    """
    for text in texts:
        if about.get(re.findall(r"{(\w+)", text)[0]):
            line(text.format_map(about))


def listed(rows: Iterable[About], columns: Mapping[str, str]) -> None:
    """Print a table; the text of each column has values in the place of names."""
    table(columns, ([c.format_map(row) for c in columns.values()] for row in rows))


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


def notes(about: About) -> None:
    """Print names and values below each other; a value is never cut."""
    width = max(len(name) for name in about)
    for name, value in about.items():
        text = f"{value:,}" if isinstance(value, int) else str(value)
        below = text.replace("\n", "\n" + " " * (width + 4))
        line(f"  {name:<{width}}  {below}")


def stage_times(stages: Sequence[Mapping[str, Any]]) -> None:
    """Print how long each stage took."""
    columns = {
        "stage": "{stage}",
        "seconds": "{seconds:.1f}",
        "CPU seconds": "{cpu_seconds:.1f}",
    }
    listed(stages, columns)


def description(about: About) -> None:
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
    told(found, "no production ranker: {not_trained}")
    if "nDCG@10" in found:
        relevant, values = found["relevant_share_by_rank"], found["nDCG@10"]
        line(
            f"production ranker: LambdaMART on {found['queries_learnt_from']} random "
            f"queries, mean of {found['draws']} draws"
        )
        _by_rank(range(1, len(relevant) + 1), {"relevant": relevant})
        line(
            f"nDCG@10 {sum(values) / len(values):.3f} "
            f"({', '.join(f'{v:.3f}' for v in values)}) on {found['judged_on']}; "
            f"linear gain, {found['queries_skipped']} queries without a relevant "
            "document skipped"
        )


def simulated(about: About) -> None:
    """Print what a simulation came to."""
    shown = {name: about[name] for name in SIMULATED if name in about}
    if "clicks" in about:
        expected = f"(expected {about['expected_clicks']:,.0f})"
        shown["clicks"] = f"{about['clicks']:,} {expected}"
    notes({**shown, **about["written"]})


def reproduced(about: About) -> None:
    """Print what an experiment came to: its size, and what held of what it measured."""
    profile = f", {about['profile']}" if about["profile"] else ""
    line(f"{about['plan']}{profile}")
    evaluated = [
        {**row, "numbers": "\n".join(row["numbers"])}
        for row in about["statements"]
        if row["verdict"]
    ]
    if evaluated:
        columns = {"statement": "{statement}", "here": "{verdict}"}
        listed(evaluated, {**columns, "number": "{numbers}"})
    left = len(about["statements"]) - len(evaluated)
    measured = f"{about['cells']:,}"
    if about["cells"] < about["planned"]:
        measured += f" of {about['planned']:,}; the run is not over"
    rows = {"statements": f"{len(evaluated)} judged, {left} not measured here"}
    rows |= {"cells": measured, "seconds": f"{about['seconds']:.1f}"}
    notes({**rows, "written": "\n".join(about["written"])})


def trained(about: About) -> None:
    """Print what was trained, below what it was chosen from."""
    if "choice" in about:
        chosen(about["choice"])
    apart = ("seed", "written", "members")
    names = [name for name in about["rankers"][0] if name not in apart]
    heads = (*(name.replace("_", " ") for name in names), "written")
    cells = (
        (*(_number(row[name]) for name in names), row["written"])
        for row in about["rankers"]
    )
    table(heads, cells)
    for row in about["rankers"]:
        if members := row.get("members"):
            parts = ", ".join(_member(member) for member in members)
            line(f"{row['estimator']}: a blend of {parts}")
    told(
        about["unmatched"],
        "{documents:,} documents of {queries:,} queries with {impressions:,} "
        "impressions and {clicks:,} clicks have no features and were left out",
    )
    if constant := about["constant"]:
        few = ", ".join([*constant[:10], *(["..."] if len(constant) > 10 else [])])
        line(
            f"{len(constant):,} features are the same for all documents of each query, "
            f"so nothing is learnt from them: {few}"
        )
    for name, found in about.get("importance", {}).items():
        if found:
            line(f"what features are worth to {name}:")
            importance(found)
    for row in about["imputed"]:
        told(
            row,
            "{feature} is missing {missing:,} times ({share:.1%}); the {member} model "
            "is given its median, {median:.3g} from 0 to 1",
        )


def _member(row: About) -> str:
    """Say how large a member of a blend became."""
    size = f" ({row['trees']:,} trees)" if "trees" in row else ""
    return f"{row['member']}{size}"


def swap_plan(about: About) -> None:
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
    pairs = about["pairs"]
    cells = []
    for pair in pairs[:10]:
        ranks = f"{pair['upper']} with {pair['lower']}"
        numbers = (pair["sessions"], pair["queries"], pair["dcg_lost"])
        cells.append((ranks, *map(_number, numbers)))
    table(("ranks", "sessions", "queries", "DCG lost"), cells)
    if len(pairs) > 10:
        line(f"and {len(pairs) - 10} more pairs of ranks")
    heads = ("rank", "alpha", "+-", "beta", "+-")
    table(heads, ([*map(_number, row.values())] for row in about["by_rank"]))


def exported(about: About) -> None:
    """Print what was written, and how well it agrees with the ranker."""
    lines = {
        "written": "{path}\n{about}",
        "features": "{n_features:,}",
        "compared": (
            "{parity[documents]:,} documents of {parity[lists]:,} lists, "
            "{parity[made_up]:,} made up: scored by the file and by the ranker"
        ),
    }
    if about["parity"]["between"]:
        lines["left out"] = (
            "{parity[between]:.2%} of the lists' documents: a value lies between the "
            "ranker's threshold and the nearest that the format can have"
        )
    lines["max difference"] = (
        "{parity[max_difference]:.3g} ({parity[relative]:.2g} of the largest score)"
    )
    notes({name: text.format_map(about) for name, text in lines.items()})


def importance(about: About) -> None:
    """Print the features that are worth most."""
    rows = about["features"]
    heads = {"gain": "share of gain", "loss": "DCG lost", "standard_error": "+-"}
    known = {heads[name]: f"{{{name}:.4f}}" for name in heads if name in rows[0]}
    listed(rows[:ROWS_PRINTED], {"feature": "{feature}", **known})
    if len(rows) > ROWS_PRINTED:
        line(f"and {len(rows) - ROWS_PRINTED:,} features more (--json)")
    told(about, "permuted within the lists of {queries:,} held-out queries")


def chosen(about: About) -> None:
    """Print which candidates were compared, and which was taken."""
    told(about, "{evaluated_by}; queries held out in {parts} of {folds} parts")
    rows: dict[str, list[str]] = {}
    short: dict[str, float] = {}
    for row in about["candidates"]:
        name = row["candidate"]
        gain = "{gain:+.4f} +- {standard_error:.4f}".format_map(row)
        rows.setdefault(name, []).append(gain)
        alone = "disagreement" in about  # then the last judge decides
        short[name] = max(0.0 if alone else short.get(name, 0.0), row["short"])
    evaluators = dict.fromkeys(row["evaluator"] for row in about["candidates"])
    table(
        ("candidate", *(f"by {evaluator}" for evaluator in evaluators), "falls short"),
        ((name, *gains, f"{short[name]:.2f}") for name, gains in rows.items()),
    )
    told(about, "taken: {best} (falls short least, from 0 to 1)")
    told(about, "{decision}")


def evaluated(about: About) -> None:
    """Print how rankers were judged."""
    told(about, "{metric}; labels above {relevant_above:g} are relevant")
    compared = {row["first"]: row for row in about["comparisons"]}
    rows = []
    for row in about["rankers"]:
        than = {"difference": "", "p": ""}
        if other := compared.get(row["ranker"]):
            than["difference"] = f"{other['difference']:+.4f}"
            than["p"] = f"{other['p_corrected']:.2g}"
        rows.append({**row, **than})
    columns = {"ranker": "{ranker}", "mean": "{mean:.4f}"}
    columns["95 % interval"] = "{interval[0]:.4f} to {interval[1]:.4f}"
    listed(rows, {**columns, "difference": "{difference}", "p (Holm)": "{p}"})
    _concluded(about)
    if not about["conclusions"]:
        line(
            "compared with nothing: give --against FOLDER of another ranker (or "
            "--against production, as simulate trains it), or judge by clicks "
            "(--counts)"
        )


def _concluded(about: About) -> None:
    """Print what was left out, and in words which ranker is better."""
    told(about, "left out: {left_out:,} queries that the rankers learnt from")
    for sentence in about["conclusions"]:
        line(sentence)


def counted(about: About) -> None:
    """Print what was counted, below what was found."""
    findings(about["findings"])
    names = "rows sessions queries documents ranks impressions clicks"
    rows = {name: about[name] for name in names.split()}
    dropped = about["dropped"]
    if about.get("randomised"):
        rows["in lists drawn at random"] = f"{about['randomised']:,} impressions"
    rows["dropped"] = f"{dropped['sessions']:,} sessions, {dropped['rows']:,} rows"
    rows["seconds"] = f"{about['seconds']:.1f}"
    if about.get("removed"):
        rows["removed"] = ", ".join(about["removed"])
    notes({**rows, "written": about["written"]})


def estimated(about: About) -> None:
    """Print alpha and beta by rank, how sure they are, and whether trust is there."""
    rows = about["by_rank"]
    line(f"by {about['method']}: {about['why']}")
    line(
        f"{about['documents_at_several_ranks']:,} of {about['documents']:,} documents "
        f"were shown at several ranks; that connects "
        f"{'; '.join(about['connected']) or 'no ranks'}"
    )
    line("the scale is arbitrary: alpha is 1 and beta 0 at the first rank")
    shown = [
        row | {name: with_band(row["display"], name) for name in ("alpha", "beta")}
        for row in rows[:ROWS_PRINTED]
    ]
    columns = {"rank": "{ranks}", "impressions": "{impressions:,}"}
    columns |= {"clicks": "{clicks:,}", "alpha": "{alpha}", "beta": "{beta}"}
    listed(shown, columns)
    if len(rows) > ROWS_PRINTED:
        line(f"... and {len(rows) - ROWS_PRINTED} more in the file and with --json")
    for note in about["notes"]:
        line(f"note: {note}")
    if "models" in about:
        line("which users predict held-out sessions (the simplest that is not behind):")
        shown = []
        for row in about["models"]:
            lead = "{lead:+.5f} +- {lead_error:.5f}" if row["lead_error"] else ""
            clear = " *" if lead and row["clear"] else ""
            shown.append({**row, "lead": lead.format_map(row) + clear})
        columns = {"users go by": "{model}", "log-likelihood": "{log_likelihood:.4f}"}
        columns |= {"perplexity": "{perplexity:.4f}", "lead over the simpler": "{lead}"}
        listed(shown, columns)
    if test := about.get("trust_bias"):
        verdict = "there is trust bias" if test["found"] else "no trust bias was found"
        better = "better" if test["lead"] > 0 else "no better"
        told(
            {"verdict": verdict, "better": better, **test},
            "{verdict} (p = {p:.2g}): it predicts the held-out clicks of "
            "{n_queries:,} queries {better} than position bias alone: {lead:+.3g} +- "
            "{lead_error:.2g} (log-likelihood per impression)",
        )
    told(
        about,
        "against the truth, modulo gauge: E = {against_truth[error]:.4f}; mean "
        "absolute error of alpha {against_truth[alpha_absolute]:.4f}, of beta "
        "{against_truth[beta_absolute]:.4f}",
        "written: {written}",
        "plot: {plot}",
    )


def evaluated_from_clicks(about: About) -> None:
    """Print how rankers were judged by held-out clicks."""
    told(
        about,
        "{metric} by {estimator}, from {clicks:,} clicks, {sessions:,} sessions and "
        "{queries:,} queries; in units of {units}",
    )
    for row in about["rankers"]:
        line(row["ranker"])
        notes(_evaluated(row))
        if row["predicted"]:
            told(
                row,
                "{ranker}: {never_shown_share:.1%} of the rank weight is on documents "
                "that were never shown: their relevance is predicted, as if documents "
                "alike were as relevant when shown (--among shown leaves them out)",
            )
    told(
        about,
        "users were estimated, so only differences are told; for each interval they "
        "were refitted to {refits[replicates]} resamples of {refits[to]}",
        "intervals are clustered by user, in {user_buckets:,} buckets",
    )
    _moved(about["movement"])
    if about["among"] == "shown":
        line("rankings order the documents that were shown, and no others")
    _concluded(about)


def _moved(movement: About) -> None:
    """Print how far lists moved, where they did; too far is part of the conclusion."""
    if movement["share"] > 0 and not movement["unexplained"]:
        line(
            "{share:.1%} of the impressions show a document at another rank than its "
            "usual one, and the log does not say why; up to {limit:.0%} is taken for "
            "chance ({far_share:.1%} more than one rank away, up to "
            "{far_limit:.0%})".format_map(movement)
        )


def _evaluated(row: About) -> dict[str, str]:
    titles = {"value": "value", "logged": "logged ranking"}
    lines = {titles[key]: _estimate(row[key]) for key in titles if key in row}
    verdicts = {"logged": "on future queries", "production": "against production"}
    for name, verdict in verdicts.items():
        if difference := row.get(f"against_{name}"):
            lines[f"difference from {name}"] = _estimate(difference, sign="+")
            lines[f"verdict {verdict}"] = _verdict(difference)
    if second := row.get("second_evaluator"):
        lines[f"by {second['evaluator']}, not users"] = (
            "{estimate:+.4f}, 95 % {over_queries[low]:+.4f} to "
            "{over_queries[high]:+.4f} over queries; in a unit of its own"
        ).format_map(second)
    lines["rank weight on documents never shown"] = f"{row['never_shown_share']:.1%}"
    if row["effective_impressions"] is not None:
        lines["effective impressions"] = (
            "{effective_impressions:,.0f} of {impressions:,}; the top 1 % carry "
            "{top_percent_share:.1%} of the weight"
        ).format_map(row)
    return lines


def _estimate(about: About, sign: str = "") -> str:
    """A value, and below it both intervals, or bounds."""
    kind, first = "95 %", f"{{estimate:{sign}.4f}}"
    if about["bounds"]:
        kind, first = "bounds", f"{{least:{sign}.4f}} to {{most:{sign}.4f}}"
        first += ", by what documents never shown are worth"
    lines = [first.format_map(about)]
    for over, target in (("sessions", "these queries"), ("queries", "future ones")):
        low, high = (about[f"over_{over}"][end] for end in ("low", "high"))
        band = f"{low:{sign}.4f} to {high:{sign}.4f}"
        lines.append(f"{band}: {kind} over {over} ({target})")
    return "\n".join(lines)


def _verdict(difference: About) -> str:
    verdict, needed = str(difference["verdict"]), difference["clicks_needed"]
    if verdict == "cannot be decided":
        return f"{verdict}: {difference['obstacle']}"
    if verdict != "undecided":
        return verdict
    if needed is None:
        return "undecided, and more clicks of this kind would not decide it"
    return (
        f"undecided; about {needed:,.0f} clicks would decide it, on as many more "
        f"queries (there are {difference['clicks']:,} clicks)"
    )


def findings(found: Iterable[About], console: Console = out) -> None:
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


def with_band(row: Mapping[str, float], name: str) -> str:
    """A value, and half the width of its 95 % band where there is one."""
    reach = (row.get(f"{name}_high", 0.0) - row.get(f"{name}_low", 0.0)) / 2
    has_band = reach > ROUNDING
    return f"{row[name]:.4f} +- {reach:.4f}" if has_band else f"{row[name]:.4f}"


def _number(value: float | str | None) -> str:
    """A number of a report: whole ones as they are, others to four places."""
    if isinstance(value, float):
        return f"{value:.4f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else value


def _plain(text: str) -> str:
    """Take the control characters out, which could steer a terminal."""
    return "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
