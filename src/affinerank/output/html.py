"""HTML pages in one file that open offline.

Nothing in them comes from elsewhere, and their policy forbids the browser to fetch or
evaluate anything. Texts are escaped where they enter a page, figures travel as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources

from affinerank.output.charts import Spec

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:"
)


def html_page(title: str, body: Iterable[str], figures: Mapping[str, Spec]) -> str:
    """Return a whole page.

    Args:
        title: As text.
        body: As HTML; ``<div data-figure="name">`` is where a figure goes.
        figures: By name.
    """
    own = resources.files("affinerank")
    scripts = [
        f'<script type="application/json" id="{name}">{_inert(spec)}</script>'
        for name, spec in figures.items()
    ]
    if figures:
        import vl_convert

        draw = vl_convert.javascript_bundle((own / "page.js").read_text())
        scripts.append(f"<script>{draw}</script>")
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{(own / 'page.css').read_text()}</style></head><body>",
            *body,
            *scripts,
            "</body></html>\n",
        ]
    )


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are HTML, heads are text."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _inert(spec: Spec) -> str:
    """Return JSON that cannot end the element it stands in."""
    return json.dumps(spec).replace("<", "\\u003c")
