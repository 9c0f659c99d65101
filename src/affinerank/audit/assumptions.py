"""Whether the log contradicts what the model takes for granted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from affinerank.audit.assumption_tests import DEPENDENT, UNIDENTIFIED, Assumption
from affinerank.audit.facts import Facts
from affinerank.audit.findings import Block, Column, Question, Section, Step
from affinerank.audit.words import p_text

QUESTION = Question("assumptions", "Do users click in ways we cannot correct?", False)
TESTS = (
    Column("Tested: whether", "{against}"),
    Column("", mark="verdict"),
    Column("Number", "{measured}", "{chance}"),
    Column("In words", "{says}"),
    Column("What to do", "{advice}"),
)
NOTE = "Each test errs once in twenty logs. Not found is no proof that there is none."
# What the owner of a log does about each; weak ranks have steps of their own.
ACTIONS = {
    "clicks_only": "Log impressions without a click",
    "clicked_lists": "Keep lists without a click",
    DEPENDENT: "Compare rankings by an A/B test",
    "moved_relevance": "Estimate from one ranker or period",
}
FOLLOWED = "users were estimated by rank and last click, so corrections follow this"
COUNTED = "counts keep the last click above, so users can be estimated by it"
NO_BETTER = (
    "users who go by their last click predict held-out clicks no better than users by "
    "rank, so no correction is known to fit: compare rankings by an A/B test"
)


def assumptions(facts: Facts) -> Section:
    """Say which assumptions of the model the log contradicts."""
    all_tests = [_with_advice(each, facts) for each in facts.assumptions]
    tested = [each for each in all_tests if each.verdict != "unknown"]
    broken = [each for each in tested if each.broken]
    uncorrected = [each for each in broken if not _is_corrected(each, facts)]
    made = f"{len(tested)} of {len(all_tests)} tests could be made"
    says = [_text(each) for each in broken]
    verdict = "partly"
    if any(each.name != UNIDENTIFIED for each in uncorrected):
        verdict = "yes"
    elif not uncorrected:
        verdict = "not found" if tested else "unknown"
        found = "found nothing that cannot be corrected" if broken else "found nothing"
        says.append(f"{made}, and {found}. That is no proof that nothing is broken.")
    rows = [asdict(each) for each in all_tests]
    block = Block(TESTS, [_row(each) for each in all_tests], notes=(NOTE,))
    short = f"{made}; {len(uncorrected)} found it."
    return Section(QUESTION, verdict, tuple(says), {"tests": rows}, (block,), short)


def contradictions(facts: Facts) -> Iterator[Step]:
    """Yield what to do about each that is not corrected."""
    for each in facts.assumptions:
        if each.broken and each.name in ACTIONS and not _is_corrected(each, facts):
            yield Step(
                each.name, ACTIONS[each.name], (_text(_with_advice(each, facts)),)
            )


def _is_corrected(each: Assumption, facts: Facts) -> bool:
    """Whether corrections follow what the test found."""
    return each.name == DEPENDENT and not facts.misfit


def _with_advice(each: Assumption, facts: Facts) -> Assumption:
    """Say of clicks that depend on the clicks above what the audit did about it."""
    if each.name != DEPENDENT or not each.broken:
        return each
    advice = FOLLOWED if facts.by_last_click else COUNTED
    return replace(each, advice=NO_BETTER if facts.misfit else advice)


def _text(each: Assumption) -> str:
    said = f"{each.against}: {each.says}", each.advice
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in said if text)


def _row(each: Assumption) -> dict[str, Any]:
    number, chance = each.number, None if each.p is None else p_text(each.p)
    form = ".2f" if isinstance(number, float) else ","
    measured = None if number is None else format(number, form)
    return {**asdict(each), "measured": measured, "chance": chance}
