"""What the owner of a log can do next, in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from affinerank.audit.assumptions import contradictions
from affinerank.audit.facts import Facts
from affinerank.audit.findings import Block, Column, Step
from affinerank.audit.usable import checks
from affinerank.audit.words import times_text
from affinerank.bias import Estimate
from affinerank.bias.requirements import LEAST_DOCUMENTS
from affinerank.bias.swaps import TARGET_ERROR, plan_swaps

SWAPPED_SHARE = 0.1
WANTED_PRECISION = 0.1
PAIRS = (
    Column("Ranks", "{upper} with {lower}"),
    Column("Swapped sessions", "{sessions:,}"),
    Column("Error of beta", "{beta_error:.3f}"),
    Column("Documents", "{documents:,}"),
    Column("", "{why_not}"),
)


def next_steps(facts: Facts) -> Iterator[Step]:
    """Yield the steps that the findings call for, the most urgent first."""
    survey = facts.survey
    if survey is not None and survey.dropped["rows"]:
        worst = max(survey.report.faults, key=lambda fault: fault.number)
        says = (
            f"{survey.dropped['sessions']:,} sessions with {survey.dropped['rows']:,} "
            f"rows were left out. Most frequent: {worst.what}."
        )
        yield Step("repair", "Repair the log", (says,))
    lacking = [check for check in checks(facts) if check.verdict == "bad"]
    if lacking:  # before that, nothing else helps
        says = f"{lacking[0].what}: {lacking[0].says}.".capitalize()
        yield Step("collect", "Collect clicks", (says,))
        return
    yield from contradictions(facts)
    more = list(_know_more(facts))
    used = [] if facts.estimate is None else list(_use(facts, facts.estimate))
    yield from used + more if facts.identified == "yes" else more + used


def _know_more(facts: Facts) -> Iterator[Step]:
    """Steps that show more of how users click."""
    if not facts.features and facts.identified != "yes":
        says = (
            "Audit again with --data: features show which documents to expect "
            "relevant, also where a document was shown once."
        )
        yield Step("features", "Give features", (says,))
    if not facts.overlap.all_connected or facts.identified != "yes":
        yield from _swaps(facts)
    worst = facts.precision
    if worst is not None and worst["relative_error"] > WANTED_PRECISION:
        factor = (worst["relative_error"] / WANTED_PRECISION) ** 2
        says = (
            f"Alpha at rank {worst['ranks']}, the worst of the first ten, has a "
            f"standard error of {worst['relative_error']:.1%}; "
            f"{WANTED_PRECISION:.0%} takes {times_text(factor, facts.days)}."
        )
        yield Step("longer", "Or log for longer", (says,), {"times_this_log": factor})


def _swaps(facts: Facts) -> Iterator[Step]:
    """How many swapped sessions would identify alpha and beta."""
    plan = plan_swaps(facts.rows, facts.pools)
    if not plan:
        return
    pairs = [asdict(pair) for pair in plan]
    total = sum(pair.sessions or 0 for pair in plan)
    unknown = sum(pair.sessions is None for pair in plan)
    numbers: dict[str, Any] = {"pairs": pairs, "sessions": total or None}
    says = [
        "In some sessions of queries that come again, chosen at random, exchange a "
        "document of one rank with one of the next, and log it as shown: that "
        "determines alpha and beta without assumptions."
    ]
    if total:
        again, sessions = facts.repeated_sessions, facts.rows.n_sessions
        factor = total / SWAPPED_SHARE / max(again, 1)
        numbers["times_this_log"] = factor
        says.append(
            f"{total:,} such sessions, divided as in the table, give alpha of each "
            f"rank, in units of the rank above, a standard error of {TARGET_ERROR:g}; "
            "half the error takes four times as many. If one session in ten is "
            f"swapped, that takes {times_text(factor, facts.days)}; {again:,} of its "
            f"{sessions:,} sessions are of queries that came again."
        )
    if unknown:
        says.append(
            f"For {unknown} of {len(plan)} pairs this log cannot tell how many it "
            f"takes; begin with {LEAST_DOCUMENTS} documents of queries that come again."
        )
    block = Block(PAIRS, pairs)
    says.append("With users, even roughly known, a plan takes far fewer sessions:")
    data = " --data DATA" if facts.features else ""
    commands = (
        f"affinerank estimate COUNTS{data} -o users.json",
        "affinerank plan-swaps COUNTS --users users.json -o swaps.parquet",
    )
    yield Step("swaps", "Swap documents", tuple(says), numbers, (block,), commands)


def _use(facts: Facts, estimate: Estimate) -> Iterator[Step]:
    """Steps that use what is known."""
    says = "Estimate how users click, and learn from corrected clicks."
    if estimate.test is not None and estimate.test.found and not facts.misfit:
        says = "Use the affine correction: inverse propensity leaves trust bias in."
    data, use = "", "debias COUNTS --users users.json -o labels.parquet"
    if facts.features:
        data = " --data DATA"
        use = f"train COUNTS{data} --users users.json -o model"
    commands = f"affinerank estimate COUNTS{data} -o users.json", f"affinerank {use}"
    yield Step("correct", "Correct the clicks", (says,), commands=commands)
    if facts.first is not None and facts.first.better.any():
        says = (
            f"Look at the {facts.first.better.sum():,} queries where another document "
            "is clearly better; the table above has the largest differences."
        )
        yield Step("review", "Look at rank 1", (says,))
