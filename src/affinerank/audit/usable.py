"""Whether a log is usable: what it holds, each number with what it means."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from textwrap import shorten
from typing import TYPE_CHECKING

import numpy as np

from affinerank.audit.facts import Facts
from affinerank.audit.findings import Block, Column, Mark, Question, Section
from affinerank.audit.words import days_text, times_text
from affinerank.bias.pooling import MIN_CLICKS
from affinerank.bias.requirements import DRAWS, MIN_DOCUMENTS
from affinerank.counts.movement import WHAT_TO_LOG, Movement

if TYPE_CHECKING:
    from affinerank.audit.survey import LogSurvey

MOST_FAULTY = 0.05
QUESTION = Question("usable", "Is the log usable?", wanted=True)
CHECKS = (
    Column("Counted", "{what}"),
    Column("Number", "{number:,}"),
    Column("", "{says}", mark="verdict"),
)
FINDINGS = (
    Column("", mark="fault"),
    Column("How many", "{number:,} {unit}"),
    Column("Found in the log, for example", "{what}", code="examples"),
)


@dataclass(frozen=True, slots=True)
class Check:
    """A number of a log, and what it means.

    Attributes:
        what: What is counted.
        number: How many there are; none where that is not known.
        verdict: Whether that is good, needs care, or makes the log unusable.
        says: Why.
    """

    what: str
    number: int | None
    verdict: Mark
    says: str


def usable(facts: Facts) -> Section:
    """Say whether the log can be used."""
    found = [_faults(facts.survey, facts.rows.n_sessions), *checks(facts)]
    marks = {check.verdict for check in found}
    says, verdict = "Yes.", "yes"
    if "bad" in marks:
        says, verdict = "Not as it is: see what is marked below.", "no"
    elif facts.refused:
        says, verdict = "It can be counted, but users cannot be estimated.", "partly"
    elif "care" in marks:
        says, verdict = "Yes, with care: see what is marked below.", "partly"
    counted, faults = [asdict(check) for check in found], _findings(facts.survey)
    numbers = {
        "checks": counted,
        "findings": faults.rows,
        "dropped": dict(facts.survey.dropped) if facts.survey else None,
        "days": facts.days,
        "sessions": facts.rows.n_sessions,
        "sessions_of_repeated_queries": facts.repeated_sessions,
    }
    clicks = int(facts.rows.clicks.sum())
    short = f"{facts.rows.n_sessions:,} searches, {clicks:,} clicks."
    for lacking in [check for check in found if check.verdict == "bad"][:1]:
        short += f" {lacking.what.capitalize()}: {lacking.says}."
    blocks = (Block(CHECKS, counted), faults)
    return Section(QUESTION, verdict, (says,), numbers, blocks, short)


def unusable(survey: LogSurvey | None) -> Section:
    """Say why nothing of a log could be counted."""
    why = "There are no impressions in it."
    if survey is not None and survey.report.rows:
        rows = f"{survey.report.rows:,} rows"
        why = f"Every session has a fault: none of {rows} could be counted."
    faults = _findings(survey)
    numbers = {"checks": [], "findings": faults.rows}
    return Section(QUESTION, "no", (why,), numbers, (faults,), why)


def _findings(survey: LogSurvey | None) -> Block:
    rows = [asdict(each) for each in survey.report.findings] if survey else []
    return Block(FINDINGS, rows, "Faults and notes")


def checks(facts: Facts) -> list[Check]:
    """Return what a log holds, each number with what it means."""
    rows, overlap = facts.rows, facts.overlap
    sessions, seen = rows.n_sessions, int(rows.impressions.sum())
    days = "over a time that is not known (give --days)"
    if facts.days is not None:
        days = f"over {days_text(facts.days)}: {sessions / facts.days:,.0f} per day"
    lists = Check("lists", None, "good", "counts do not hold whole lists")
    if facts.survey is not None:
        lists = _seen_once("lists", facts.survey.lists, facts.survey.lists_once)
    often = int(np.sum(rows.by_doc(rows.impressions) >= DRAWS))
    repeated = f"{often:,} were shown {DRAWS} times or more, as clicks alone need"
    moved, reach = overlap.n_moved, "; ".join(overlap.connected) or "no ranks"
    several = "documents seen at several ranks"
    return [
        Check("sessions", sessions, "good", days),
        Check("impressions", seen, "good", f"{seen / sessions:.1f} per session"),
        _clicks(int(rows.clicks.sum()), seen),
        _ranks(facts),
        _seen_once("queries", rows.n_queries, int(np.sum(rows.sessions == 1))),
        lists,
        _enough("documents", overlap.n_docs, often, repeated),
        _enough(several, moved, moved, f"that connects {reach}"),
        _moves(facts.movement),
    ]


def _moves(movement: Movement) -> Check:
    """Say whether documents moved so much that they may have moved for a reason."""
    what = "impressions away from the usual rank"
    if not movement.impressions:
        says = "no document was shown twice at places that no policy drew"
        return Check(what, None, "good", says)
    moved = round(movement.moved.share * movement.impressions)
    if movement.unexplained:
        why = "the log does not say why, so evaluate cannot decide by it"
        says = f"{movement.in_words()}; {why}; {WHAT_TO_LOG}"
        return Check(what, moved, "care", says)
    says = f"{movement.moved.share:.1%}, as an index moves that is updated"
    return Check(what, moved, "good", says)


def _faults(survey: LogSurvey | None, kept: int) -> Check:
    what = "faulty sessions"
    if survey is None:
        says = "these are counts; what was wrong with the log, count has reported"
        return Check(what, None, "good", says)
    lost, rows = survey.dropped["sessions"], survey.dropped["rows"]
    if not lost and not rows:
        return Check(what, 0, "good", "no fault was found")
    share = lost / max(lost + kept, 1)
    says = f"{share:.1%} of the sessions; left out whole, with {rows:,} rows"
    return Check(what, lost, "bad" if share > MOST_FAULTY else "care", says)


def _clicks(clicks: int, impressions: int) -> Check:
    says = f"{clicks / impressions:.2%} of the impressions"
    if not clicks:
        says = "without clicks nothing can be learnt"
    elif clicks == impressions:
        says = "every impression was clicked: log those without a click, too"
    verdict: Mark = "good" if 0 < clicks < impressions else "bad"
    return Check("clicks", clicks, verdict, says)


def _ranks(facts: Facts) -> Check:
    rows, pools = facts.rows, facts.pools
    seen = int(np.count_nonzero(pools.impressions))
    says = f"each with {MIN_CLICKS} clicks or more"
    if seen == 1:
        says = "with one rank there is nothing to compare: log more than one"
    elif pools.n_pools == 1:
        second = max(float(np.sort(rows.by_rank(rows.clicks))[-2]), 1.0)
        more = times_text(MIN_CLICKS / second, facts.days)
        says = f"two of them need {MIN_CLICKS} clicks each: collect {more}"
    elif pools.shared:
        pooled = shorten(", ".join(pools.shared), 40, placeholder=" and so on")
        says = f"those with fewer than {MIN_CLICKS} clicks are pooled: {pooled}"
    return Check("ranks", seen, "bad" if pools.n_pools == 1 else "good", says)


def _seen_once(what: str, number: int, once: int) -> Check:
    share = once / max(number, 1)
    says = f"{once:,} of them were seen once ({share:.0%})"
    return Check(what, number, "care" if share > 0.5 else "good", says)


def _enough(what: str, number: int, documents: int, says: str) -> Check:
    verdict: Mark = "good" if documents >= MIN_DOCUMENTS else "care"
    return Check(what, number, verdict, says)
