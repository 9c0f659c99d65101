"""The findings of an audit as one HTML page that opens offline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from affinerank.audit_figures import audit_figures
from affinerank.charts import Spec
from affinerank.page import html_page, html_table

RANKS_LISTED = 20
TOLD = {"yes": ("care", "Yes"), "no": ("good", "Not found")}
KNOWN = {"yes": ("good", "Up to gauge"), "partly": ("care", "In part")}
STATUS = {
    "yes": ("good", "yes"),
    "partly": ("care", "in part"),
    "no": ("bad", "no"),
    "never": ("unknown", "never"),
}
NOTHING = ("unknown", "Cannot be told")


def audit_page(about: Mapping[str, Any]) -> str:
    """The page of what :func:`affinerank.pipeline.audit_file` found."""
    title = f"Click log: {about['source']}"
    figures = audit_figures(about)
    answers = _answers(about)
    body = [
        f"<h1>{escape(title)}</h1>",
        _cards(answers),
        *_section("usable", answers, about),
        _checks(about["usable"]["checks"]),
        _findings(about["usable"]["findings"]),
        *_section("click_rates", answers, about),
        _figure("rates", figures),
        _rates(about["click_rates"]),
        *_groups("ranker", about["click_rates"], figures),
        *_groups("segment", about["click_rates"], figures),
        *_section("position_bias", answers, about),
        *_section("trust_bias", answers, about),
        *_section("identified", answers, about),
        _parameters(about["identified"]),
        *_bias(about["identified"], figures),
        *_section("first_rank", answers, about),
        _examples(about["first_rank"]),
        "<h2>What to do next</h2>",
        *_steps(about["next"]),
    ]
    return html_page(title, [part for part in body if part], figures)


def _answers(about: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Question, kind and answer of each section."""
    first = about["first_rank"]
    number = first.get("another_first", 0)
    first_told = {
        "yes": ("care", f"For {number:,} {'query' if number == 1 else 'queries'}"),
        "no": ("good", "Nothing for sure"),
    }
    usable = {"yes": ("good", "Yes"), "partly": ("care", "With care")}
    kinds: dict[str, tuple[str, Mapping[str, tuple[str, str]], tuple[str, str]]] = {
        "usable": ("Is the log usable?", usable, ("bad", "No")),
        "click_rates": ("How often is each rank clicked?", {}, ("", "")),
        "position_bias": ("Is there position bias?", TOLD, NOTHING),
        "trust_bias": ("Is there trust bias?", TOLD, NOTHING),
        "identified": (
            "What can be known of how users click?",
            KNOWN,
            ("bad", "Not from this log"),
        ),
        "first_rank": (
            "What would a debiased ranking change at rank 1?",
            first_told,
            NOTHING,
        ),
    }
    return {
        name: (question, *told.get(about[name]["verdict"], otherwise))
        for name, (question, told, otherwise) in kinds.items()
    }


def _cards(answers: Mapping[str, tuple[str, str, str]]) -> str:
    cards = "".join(
        f'<a class="card {kind}" href="#section-{name}"><span>{escape(question)}</span>'
        f"<strong>{escape(answer)}</strong></a>"
        for name, (question, kind, answer) in answers.items()
        if answer
    )
    return f'<nav class="cards">{cards}</nav>'


def _section(
    name: str, answers: Mapping[str, tuple[str, str, str]], about: Mapping[str, Any]
) -> list[str]:
    question, _, _ = answers[name]
    head = f'<h2 id="section-{name}">{escape(question)}</h2>'
    return [head, *_paragraphs(about[name]["says"])]


def _paragraphs(says: Iterable[str]) -> list[str]:
    return [f'<p class="text">{escape(text)}</p>' for text in says]


def _words(text: str, mark: str = "") -> str:
    """A cell of words, which no narrow screen may squeeze."""
    return f'<div class="words">{mark}{escape(text)}</div>'


def _aside(text: str) -> str:
    """Small print beside a number, on one line."""
    return f'<small class="line">{escape(text)}</small>'


def _mark(kind: str, text: str) -> str:
    return f'<span class="mark {kind}">{escape(text)}</span>'


def _checks(checks: Sequence[Mapping[str, Any]]) -> str:
    if not checks:
        return ""
    words = {"good": "", "care": "with care: ", "bad": "unusable: "}
    rows = [
        [
            escape(check["what"]),
            "" if check["number"] is None else f"{check['number']:,}",
            _words(check["says"], _mark(check["verdict"], words[check["verdict"]])),
        ]
        for check in checks
    ]
    return html_table(("Counted", "Number", ""), rows)


def _findings(findings: Sequence[Mapping[str, Any]]) -> str:
    if not findings:
        return ""
    rows = [
        [
            _mark("bad", "fault") if found["fault"] else _mark("unknown", "note"),
            f"{found['number']:,} {escape(found['unit'])}",
            _words(found["what"]) + _code(found["examples"][:3]),
        ]
        for found in findings
    ]
    heads = ("", "How many", "Found in the log, for example")
    return "<h3>Faults and notes</h3>" + html_table(heads, rows)


def _code(examples: Iterable[Mapping[str, Any]]) -> str:
    lines = (escape(json.dumps(example, default=str)) for example in examples)
    return "".join(f"<div><code>{line}</code></div>" for line in lines)


def _rates(section: Mapping[str, Any]) -> str:
    listed = section.get("by_rank", [])
    if not listed:
        return ""
    same = any(row.get("same_documents") is not None for row in listed)
    rows = [
        [
            str(row["rank"]),
            f"{row['impressions']:,}",
            f"{row['clicks']:,}",
            f"{row['rate']:.4f} " + _aside(f"{row['low']:.4f} to {row['high']:.4f}"),
            *([_or_nothing(row.get("same_documents"))] if same else []),
        ]
        for row in listed[:RANKS_LISTED]
    ]
    heads = ["Rank", "Impressions", "Clicks", "Click rate, 95 % interval"]
    notes = []
    if same:
        heads.append("Same documents")
        notes.append(
            "Same documents: the click rate that a document of average relevance would "
            "have at the rank, by the estimate. Its fall is bias; the rest of the fall "
            "is that documents further down are less relevant."
        )
    if len(listed) > RANKS_LISTED:
        notes.append(
            f"The first {RANKS_LISTED} of {len(listed)} ranks; --json has all of them."
        )
    return html_table(heads, rows) + "".join(
        f'<p class="note">{escape(note)}</p>' for note in notes
    )


def _or_nothing(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _groups(
    key: str, section: Mapping[str, Any], figures: Mapping[str, Spec]
) -> list[str]:
    groups = section.get(f"by_{key}", [])
    if not groups:
        return []
    rows = [
        [
            escape(group["name"]) or "<small>(empty)</small>",
            f"{group['sessions']:,}",
            *(
                f"{row['rate']:.4f} " + _aside(f"rank {row['rank']}")
                for row in group["by_rank"][:3]
            ),
        ]
        for group in groups
    ]
    heads = (key.capitalize(), "Sessions", "Click rates", "", "")
    return [
        f"<h3>By {key}</h3>",
        _figure(key, figures),
        html_table(heads, [[*row, *[""] * (5 - len(row))] for row in rows]),
    ]


def _parameters(section: Mapping[str, Any]) -> str:
    if "parameters" not in section:
        return ""
    rows = [
        [
            _words(row["parameter"]),
            _mark(*STATUS[row["status"]]),
            _words(row["why"]),
        ]
        for row in section["parameters"]
    ]
    return html_table(("Parameter", "Identified", "Why"), rows)


def _bias(section: Mapping[str, Any], figures: Mapping[str, Spec]) -> list[str]:
    """Alpha and beta by rank, drawn and listed."""
    if "by_rank" not in section:
        return []
    rows = [
        [
            escape(row["ranks"]),
            f"{row['impressions']:,}",
            f"{row['clicks']:,}",
            _banded(row["display"], "alpha"),
            _banded(row["display"], "beta"),
        ]
        for row in section["by_rank"][:RANKS_LISTED]
    ]
    return [
        "<h3>Alpha and beta by rank</h3>",
        _figure("bias", figures),
        html_table(("Rank", "Impressions", "Clicks", "Alpha", "Beta"), rows),
        '<p class="note">Drawn with 95 % bands in the gauge where alpha is 1 and '
        "beta/alpha 0 on average over impressions; listed in the one where alpha is 1 "
        "and beta 0 at the first rank, with the reach of the 95 % band.</p>",
        *(f'<p class="note">{escape(note)}</p>' for note in section["notes"]),
    ]


def _banded(row: Mapping[str, float], name: str) -> str:
    if f"{name}_low" not in row:
        return f"{row[name]:.4f}"
    reach = (row[f"{name}_high"] - row[f"{name}_low"]) / 2
    return f"{row[name]:.4f} " + _aside(f"± {reach:.4f}")


def _examples(section: Mapping[str, Any]) -> str:
    if not section.get("examples"):
        return ""
    rows = [
        [
            escape(row["query_id"]),
            f"{escape(row['first'])} " + _aside(f"{row['first_rate']:.3f}"),
            f"{escape(row['challenger'])} " + _aside(f"{row['challenger_rate']:.3f}"),
            f"{row['challenger_rank']:.1f}",
            f"{row['challenger_rate'] - row['first_rate']:+.3f} "
            + _aside(f"± {1.96 * row['standard_error']:.3f}"),
        ]
        for row in section["examples"]
    ]
    heads = ("Query", "Shown first", "Better", "Its mean rank", "Difference")
    return (
        "<h3>Where most would change</h3>"
        + html_table(heads, rows)
        + '<p class="note">In small print the click rate that a document would have '
        "at rank 1, with the reach of the 95 % interval of the difference. It is "
        "estimated, so it may leave 0 to 1.</p>"
    )


def _steps(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    if not steps:
        return ['<p class="text">Nothing is missing.</p>']
    parts = []
    for i, step in enumerate(steps):
        parts.append(f"<h3>{i + 1}. {escape(step['title'])}</h3>")
        parts += _paragraphs(step["says"])
        if step.get("pairs"):
            parts.append(_pairs(step["pairs"]))
        if step.get("commands"):
            parts.append(f"<pre>{escape(chr(10).join(step['commands']))}</pre>")
    return parts


def _pairs(pairs: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            f"{escape(pair['upper'])} with {escape(pair['lower'])}",
            f"{pair['sessions']:,}" if pair["sessions"] else "",
            f"{pair['beta_error']:.3f}" if pair["sessions"] else "",
            f"{pair['documents']:,}",
            _words(pair["why_not"]) if pair["why_not"] else "",
        ]
        for pair in pairs[:RANKS_LISTED]
    ]
    heads = ("Ranks", "Swapped sessions", "Error of beta", "Documents", "")
    return html_table(heads, rows)


def _figure(name: str, figures: Mapping[str, Spec]) -> str:
    if name not in figures:
        return ""
    return f'<div class="scroll chart" data-figure="{name}"></div>'
