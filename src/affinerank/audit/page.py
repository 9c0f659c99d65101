"""An audit as one HTML page that opens offline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from affinerank.audit.findings import Audit, Block, Column, Mark, Section, Step
from affinerank.output.html import html_page, html_table

ROWS_LISTED = 20
EXAMPLES = 3
PROSE = 30  # characters from which a cell is prose
MARKS: Mapping[Any, tuple[Mark, str]] = {
    "yes": ("good", "yes"),
    "partly": ("care", "in part"),
    "no": ("bad", "no"),
    "never": ("unknown", "never"),
    "care": ("care", "with care: "),
    "bad": ("bad", "unusable: "),
    "found": ("care", "found"),
    "not found": ("unknown", "not found"),
    "unknown": ("unknown", "unknown"),
    True: ("bad", "fault"),
    False: ("unknown", "note"),
}


def audit_page(found: Audit) -> str:
    """Return the page of an audit."""
    title = f"Click log: {found.source}"
    body = [f"<h1>{escape(title)}</h1>", _cards(found.told), *_outlook(found)]
    for section in found.sections:
        name, text = section.question.name, escape(section.question.text)
        body += [f'<h2 id="section-{name}">{text}</h2>', *_shown(section)]
    body.append('<h2 id="next">What to do next</h2>')
    for number, step in enumerate(found.next, 1):
        body += [f"<h3>{number}. {escape(step.title)}</h3>", *_shown(step)]
        if step.commands:
            body.append(f"<pre>{escape(chr(10).join(step.commands))}</pre>")
    if not found.next:
        body += _paragraphs("text", ["Nothing is missing."])
    blocks = (block for part in found.sections for block in part.blocks)
    figures = dict(block.figure for block in blocks if block.figure and block.rows)
    return html_page(title, body, figures)


def _cards(told: Iterable[Section]) -> str:
    cards = [
        f'<a class="card {part.mark}" href="#section-{part.question.name}">'
        f"<span>{escape(part.question.text)}</span>"
        f"<strong>{escape(part.answer.capitalize())}</strong>"
        f"<small>{escape(part.short)}</small></a>"
        for part in told
    ]
    return f'<nav class="cards">{"".join(cards)}</nav>'


def _outlook(found: Audit) -> list[str]:
    """Return what corrected clicks would be worth, and the first step."""
    parts = [("What it would be worth", found.worth)] if found.worth else []
    parts += [("Next step", f"{step.title}. {step.says[0]}") for step in found.next[:1]]
    shown = [f"<p><strong>{h}.</strong> {escape(text)}</p>" for h, text in parts]
    more = '<p><a href="#next">All steps, with commands</a></p>' if found.next else ""
    return [f'<div class="outlook">{"".join(shown)}{more}</div>']


def _paragraphs(kind: str, texts: Iterable[str]) -> list[str]:
    return [f'<p class="{kind}">{escape(text)}</p>' for text in texts]


def _shown(part: Section | Step) -> list[str]:
    """Return paragraphs, and blocks that have rows."""
    shown = _paragraphs("text", part.says)
    for block in (block for block in part.blocks if block.rows):
        notes = [*block.notes]
        if block.title:
            shown.append(f"<h3>{escape(block.title)}</h3>")
        if block.figure:
            name, _ = block.figure
            shown.append(f'<div class="scroll chart" data-figure="{name}"></div>')
        if len(block.rows) > ROWS_LISTED:
            listed = f"The first {ROWS_LISTED} of {len(block.rows):,} rows"
            notes.append(f"{listed}; --json has all of them.")
        shown += [_table(block), *_paragraphs("note", notes)]
    return shown


def _table(block: Block) -> str:
    listed = block.rows[:ROWS_LISTED]
    columns = [[_cell(column, row) for row in listed] for column in block.columns]
    kept = [i for i, cells in enumerate(columns) if any(cells)]
    rows = zip(*(columns[i] for i in kept), strict=True)
    return html_table([block.columns[i].head for i in kept], rows)


def _cell(column: Column, row: Mapping[str, Any]) -> str:
    """Return a cell as HTML; prose keeps its width on narrow screens."""
    plain, small = _filled(column.text, row), _filled(column.small, row)
    text = escape(plain)
    if column.mark and row.get(column.mark) in MARKS:
        kind, word = MARKS[row[column.mark]]
        text = f'<span class="mark {kind}">{escape(word)}</span>{text}'
    if small:
        text += f' <small class="line">{escape(small)}</small>'
    if len(plain) >= PROSE:
        text = f'<div class="words">{text}</div>'
    examples = row[column.code][:EXAMPLES] if column.code else ()
    lines = (json.dumps(row, default=str, ensure_ascii=False) for row in examples)
    return text + "".join(f"<div><code>{escape(line)}</code></div>" for line in lines)


def _filled(text: str, row: Mapping[str, Any]) -> str:
    """Fill values of a row into a format; nothing if it lacks one."""
    try:
        return text.format_map({k: v for k, v in row.items() if v is not None})
    except (IndexError, KeyError):
        return ""
