"""Ids, names and paths on pages and plots are text: a browser finds no element of them.

Each hostile text would make an element with the attribute ``hostile``, or set a
variable of that name, wherever it were taken for HTML, a script or a template.
"""

from collections.abc import Callable
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.research.conftest import as_in_the_paper
from tests.research.test_report import plan_of

from affinerank.cli import main
from affinerank.output.html import html_page, html_table
from affinerank.research.report import report_page

pytestmark = pytest.mark.slow

ENDS = ("", '">', "'>", "</script>", "</title>", "</style>", "-->", "]]>", "</pre>")
ELEMENTS = (
    "<img hostile src=x onerror=window.hostile=1>",
    "<svg hostile onload=window.hostile=1>",
    "<script hostile>window.hostile=1</script>",
    '<iframe hostile srcdoc="<script>parent.hostile=1</script>"></iframe>',
    "<a hostile href=javascript:window.hostile=1>x</a>",
)
OTHERS = (
    "${window.hostile=1}",
    "{{constructor.constructor('window.hostile=1')()}}",
    "\\u003cimg hostile src=x onerror=window.hostile=1\\u003e",
    "&lt;img hostile src=x onerror=window.hostile=1&gt;",
    "<!--<script hostile>",
)
HOSTILE = [a + b for a, b in product(ENDS, ELEMENTS)] + list(OTHERS)
FOUND = "document.querySelectorAll('[hostile]').length + (window.hostile ? 1 : 0)"

Browse = Callable[[Path], Any]


def test_there_are_fifty_hostile_texts() -> None:
    assert len(set(HOSTILE)) == 50


def test_the_audit_of_a_log_full_of_them(tmp_path: Path, browse: Browse) -> None:
    rows = []
    for session in range(600):
        text = HOSTILE[session % 50]
        for rank in (1, 2, 3):
            clicked = (session * 7 + rank) % (2 + rank) == 0
            shown = (rank if session % 5 else 4 - rank, clicked, text, text)
            rows.append((f"{text}{session}", text, f"{text}{rank}", *shown))
    rows.append((f"{HOSTILE[0]}0", HOSTILE[0], "another", 1, True, "", ""))  # a fault
    heads = ("session_id", "query_id", "doc_id", "rank", "clicked", "ranker", "place")
    columns = dict(zip(heads, zip(*rows, strict=True), strict=True))
    name = "".join(text for text in HOSTILE if "/" not in text)[:200]
    log = tmp_path / f"{name}.parquet"
    pq.write_table(pa.table({k: list(v) for k, v in columns.items()}), log)
    target = tmp_path / "audit.html"
    words = ["audit", str(log), "--segment", "place", "-o", str(target), "--json"]
    assert main(words) == 0
    tab = browse(target)
    assert tab.evaluate(FOUND) == 0
    text = tab.inner_text("body")
    assert ELEMENTS[0] in text  # it is there, as text
    for point in tab.query_selector_all(".mark-symbol path")[:3]:
        point.hover(force=True)
        assert tab.evaluate(FOUND) == 0


def test_the_report_of_data_and_a_plan_named_so(tmp_path: Path, browse: Browse) -> None:
    name = " ".join(HOSTILE)
    page = tmp_path / "report.html"
    page.write_text(report_page(plan_of(name), as_in_the_paper(name)))
    tab = browse(page)
    assert tab.evaluate(FOUND) == 0
    assert ELEMENTS[0] in tab.inner_text("body")


def test_pages_of_figures_and_tables(tmp_path: Path, browse: Browse) -> None:
    for place in (0, 25):
        _check_page(HOSTILE[place : place + 25], tmp_path, browse)


def _check_page(texts: list[str], tmp_path: Path, browse: Browse) -> None:
    values = [{"name": text, "value": i} for i, text in enumerate(texts)]
    spec = {
        "data": {"values": values},
        "title": texts[0],
        "mark": {"type": "point", "tooltip": True},
        "encoding": {
            "x": {"field": "value", "type": "quantitative", "title": texts[1]},
            "y": {"field": "name", "type": "nominal"},
            "color": {"field": "name", "type": "nominal"},
        },
    }
    table = html_table(texts, [[escape(text) for text in texts]])
    body = [table, '<div data-figure="drawn"></div>']
    page = tmp_path / "page.html"
    page.write_text(html_page(texts[0], body, {"drawn": spec}))
    tab = browse(page)
    tab.wait_for_selector("svg.marks")
    tab.query_selector_all(".mark-symbol path")[0].hover(force=True)
    assert tab.evaluate(FOUND) == 0
    assert tab.title() == texts[0]
