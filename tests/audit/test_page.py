"""The page shows any sections: cards, tables, figures and steps by their data."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from affinerank.audit.changes import worth
from affinerank.audit.findings import Audit, Block, Column, Question, Section, Step
from affinerank.audit.page import ROWS_LISTED, audit_page

pytestmark = pytest.mark.slow

COLUMNS = (
    Column("Name", "{name}"),
    Column("Rate", "{rate:.2f}", "{low:.1f} to {high:.1f}"),
    Column("Nested", "{deep[0][rank]}"),
    Column("Verdict", mark="verdict"),
    Column("Example", code="examples"),
    Column("Missing", "{nothing}"),
)
ROWS: list[dict[str, Any]] = [
    {
        "name": "<b>",
        "rate": 0.123,
        "low": 0.1,
        "high": 0.2,
        "deep": [{"rank": 7}],
        "verdict": "no",
        "examples": [{"id": "&"}],
    },
    {
        "name": "a name that is long enough to be prose",
        "rate": None,
        "deep": [],
        "verdict": "good",
        "examples": [],
        "nothing": None,
    },
]
QUESTION = Question("wine", "Is there <wine>?", wanted=True)


def page_of(section: Section, *steps: Step) -> str:
    return audit_page(Audit((section,), steps, "cellar"))


def test_a_table_is_made_from_rows_of_data() -> None:
    page = page_of(
        Section(QUESTION, "yes", ("Two & more.",), {}, (Block(COLUMNS, ROWS),))
    )
    heads = "".join(f"<th>{c.head}</th>" for c in COLUMNS[:-1])
    assert f"<tr>{heads}</tr>" in page  # what no row has is no column
    assert (
        '<tr><td>&lt;b&gt;</td><td>0.12 <small class="line">0.1 to 0.2</small></td>'
        '<td>7</td><td><span class="mark bad">no</span></td>'
        "<td><div><code>{&quot;id&quot;: &quot;&amp;&quot;}</code></div></td></tr>"
    ) in page
    prose = '<div class="words">a name that is long enough to be prose</div>'
    assert f"<tr><td>{prose}</td><td></td><td></td><td></td><td></td></tr>" in page
    assert '<p class="text">Two &amp; more.</p>' in page
    assert "Is there &lt;wine&gt;?" in page
    assert "Nothing is missing." in page


def test_cards_say_in_words_and_colour_what_was_found() -> None:
    wanted = {
        "yes": ("good", "Yes"),
        "partly": ("care", "In part"),
        "no": ("bad", "No"),
        "not found": ("unknown", "Not found"),
        "unknown": ("unknown", "Cannot be known"),
    }
    found = wanted | {"yes": ("care", "Found"), "partly": ("care", "Found in part")}
    for question, words in (
        (QUESTION, wanted),
        (replace(QUESTION, wanted=False), found),
    ):
        for verdict, (colour, answer) in words.items():
            page = page_of(Section(question, verdict, (), short="Red & white."))
            assert f'<a class="card {colour}" href="#section-wine">' in page
            assert f"<strong>{answer}</strong><small>Red &amp; white.</small>" in page
    silent = replace(QUESTION, wanted=None)
    assert 'class="card ' not in page_of(Section(silent, "measured", ()))


def test_the_first_screen_says_what_it_is_worth_and_what_to_do() -> None:
    section, step = Section(QUESTION, "yes", ()), Step("sow", "Sow", ("Soon.", "Now."))
    page = audit_page(Audit((section,), (step,), "cellar", "A barrel & more."))
    first = page[: page.index("<h2")]
    assert "<strong>What it would be worth.</strong> A barrel &amp; more." in first
    assert "<strong>Next step.</strong> Sow. Soon." in first
    assert 'href="#next"' in first
    assert '<h2 id="next">' in page


def test_long_tables_are_cut_and_empty_ones_left_out() -> None:
    many = [{"name": str(i)} for i in range(ROWS_LISTED + 5)]
    full = Block(COLUMNS[:1], many, "Full", notes=("A note.",))
    empty = Block(COLUMNS[:1], [], "Empty", ("figure", {}), ("Left out.",))
    page = page_of(Section(QUESTION, "yes", (), {}, (full, empty)))
    assert f"<td>{ROWS_LISTED - 1}</td>" in page
    assert f"<td>{ROWS_LISTED}</td>" not in page
    assert f"The first {ROWS_LISTED} of {len(many)} rows" in page
    assert "<h3>Full</h3>" in page
    assert "A note." in page
    assert "Empty" not in page
    assert "Left out." not in page


def test_steps_are_numbered_with_their_commands() -> None:
    first = Step("sow", "Sow", ("Soon.",), {"grains": 3})
    second = Step("reap", "Reap", ("Later.",), commands=("reap --all > barn",))
    section = Section(QUESTION, "no", ("None.",), {"bottles": 0})
    page = page_of(section, first, second)
    assert "<h3>1. Sow</h3>" in page
    assert "<h3>2. Reap</h3>" in page
    assert "<pre>reap --all &gt; barn</pre>" in page
    found = Audit((section,), (first, second), "cellar")
    assert found.to_dict() == {
        "source": "cellar",
        "wine": {"verdict": "no", "says": ["None."], "bottles": 0},
        "worth": "",
        "next": [
            {"step": "sow", "title": "Sow", "says": ["Soon."], "grains": 3},
            {
                "step": "reap",
                "title": "Reap",
                "says": ["Later."],
                "commands": ["reap --all > barn"],
            },
        ],
    }
    assert list(found.lines()) == [
        "wine: no",
        "  None.",
        "next: Sow",
        "  Soon.",
        "next: Reap",
        "  Later.",
    ]


def test_the_worth_is_the_gain_where_another_is_clearly_better() -> None:
    """Of 40 sessions 10 gain .2 clicks each: 50 in 1,000; the other is not clear."""
    first = SimpleNamespace(
        query=np.array([0, 1]),
        better=np.array([True, False]),
        gain=np.array([0.2, 0.5]),
    )
    facts: Any = SimpleNamespace(
        first=first, rows=SimpleNamespace(sessions=np.array([10.0, 30.0]))
    )
    assert "25% of the searches" in worth(facts)
    assert "about 50 more clicks at rank 1 in 1,000 searches" in worth(facts)
    first.better[:] = False
    assert worth(facts) == ""
