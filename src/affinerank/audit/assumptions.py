"""Whether the log contradicts what the model takes for granted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from affinerank.audit.facts import Facts
from affinerank.audit.findings import Block, Column, Question, Section, Step
from affinerank.audit.words import p_text
from affinerank.bias.assumptions import UNIDENTIFIED, Assumption

QUESTION = Question("assumptions", "Do users click in ways we cannot correct?", False)
TESTS = (
    Column("Tested: whether", "{against}"),
    Column("", mark="verdict"),
    Column("Number", "{measured}", "{chance}"),
    Column("In words", "{says}"),
    Column("What to do", "{advice}"),
)
NOTE = "Each test errs once in twenty logs. Not found is no proof that there is none."


def assumptions(facts: Facts) -> Section:
    """Say which assumptions of the model the log contradicts."""
    tested = [each for each in facts.assumptions if each.verdict != "unknown"]
    broken = [each for each in tested if each.broken]
    says = [_text(each) for each in broken]
    verdict = "yes" if any(each.name != UNIDENTIFIED for each in broken) else "partly"
    if not broken:
        verdict = "not found" if tested else "unknown"
        made = f"{len(tested)} of {len(facts.assumptions)} tests could be made"
        says = [f"{made}, and found nothing. That is no proof that nothing is broken."]
    rows = [asdict(each) for each in facts.assumptions]
    block = Block(TESTS, [_row(each) for each in facts.assumptions], notes=(NOTE,))
    short = f"{len(tested)} of {len(rows)} tests could be made; {len(broken)} found it."
    return Section(QUESTION, verdict, tuple(says), {"tests": rows}, (block,), short)


def contradictions(facts: Facts) -> Iterator[Step]:
    """Yield what to do about each; weak ranks have steps of their own."""
    for each in facts.assumptions:
        if each.broken and each.name != UNIDENTIFIED:
            yield Step(each.name, f"Mind that {each.against}", (_text(each),))


def _text(each: Assumption) -> str:
    said = f"{each.against}: {each.says}", each.advice
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in said if text)


def _row(each: Assumption) -> dict[str, Any]:
    number, chance = each.number, None if each.p is None else p_text(each.p)
    form = ".2f" if isinstance(number, float) else ","
    measured = None if number is None else format(number, form)
    return {**asdict(each), "measured": measured, "chance": chance}
