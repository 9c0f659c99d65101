"""What the owner of a log can do next, in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from affinerank.audit.assumptions import contradictions
from affinerank.audit.facts import Facts
from affinerank.audit.findings import Block, Column, Step
from affinerank.audit.usable import checks
from affinerank.audit.words import times_text
from affinerank.bias import Estimate
from affinerank.bias.requirements import MIN_DOCUMENTS
from affinerank.counts.counts import ClickCounts
from affinerank.defaults import METHOD
from affinerank.pipeline.plan_swaps import SwapPlan, plan_swaps
from affinerank.support.arrow import pa, pc
from affinerank.support.errors import DataError

SWAPPED_SHARE = 0.1
WANTED_PRECISION = 0.1
PLANNED_QUERIES = 2_000
TOO_LONG = 100  # times this log
SURELY_UNKNOWN = 100  # times the error wanted, from which an error says nothing
PAIRS = (
    Column("Ranks", "{upper} with {lower}"),
    Column("Sessions with a swap", "{sessions:,}"),
    Column("Queries", "{queries:,}"),
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
        yield Step("longer", "Log for longer", (says,), {"times_this_log": factor})


def _swaps(facts: Facts) -> Iterator[Step]:
    """Say how many sessions with swaps it takes until alpha and beta are known."""
    says = [
        "In some sessions of queries that come again, chosen at random, exchange two "
        "documents, and log the list as shown: that determines alpha and beta without "
        "assumptions."
    ]
    numbers: dict[str, Any] = {}
    blocks: tuple[Block, ...] = ()
    plan, why_not = _plan_of_swaps(facts)
    if plan is None:
        says.append(
            f"How many sessions that takes cannot be planned: {why_not}. Begin with "
            f"{MIN_DOCUMENTS} documents of queries that come again."
        )
    else:
        numbers = plan.to_dict()
        if not numbers["sessions"]:
            return  # alpha and beta are known as well as a plan would make them
        numbers["times_this_log"] = _times_this_log(plan, facts)
        says.append(_plan_text(numbers, facts))
        blocks = (Block(PAIRS, numbers["pairs"]),)
    data = " --data DATA" if facts.features else ""
    method = f" --method {METHOD}" if facts.estimate is None else ""
    commands = (
        f"affinerank estimate COUNTS{data}{method} -o click-model.json",
        "affinerank plan-swaps COUNTS --click-model click-model.json -o swaps.parquet",
    )
    yield Step("swaps", "Swap documents", tuple(says), numbers, blocks, commands)


def _plan_of_swaps(facts: Facts) -> tuple[SwapPlan | None, str]:
    """Plan swaps as ``plan-swaps`` does; return why that is not possible, else."""
    if facts.rough_click_model is None:
        return None, "users cannot be estimated even roughly"
    try:
        return plan_swaps(_frequent_queries(facts.counts), facts.rough_click_model), ""
    except DataError as error:
        return None, str(error)


def _sessions_by_query(counts: ClickCounts) -> pa.Table:
    """``query_id`` and ``sessions`` of all rankers, segments and splits."""
    sessions = counts.sessions_per_query.select(["query_id", "sessions"])
    summed = sessions.group_by("query_id").aggregate([("sessions", "sum")])
    names = {"query_id": "query_id", "sessions_sum": "sessions"}
    return summed.select(list(names)).rename_columns(list(names.values()))


def _frequent_queries(counts: ClickCounts) -> ClickCounts:
    """Keep the queries with most sessions: a plan of more takes long to compute."""
    sessions = _sessions_by_query(counts)
    if sessions.num_rows <= PLANNED_QUERIES:
        return counts
    order = [("sessions", "descending"), ("query_id", "ascending")]
    frequent = sessions.sort_by(order)["query_id"].slice(0, PLANNED_QUERIES)
    tables = [
        part.table.filter(pc.is_in(part.table["query_id"], value_set=frequent))
        for part in counts.parts()
    ]
    return ClickCounts(pa.concat_tables(tables))


def _times_this_log(plan: SwapPlan, facts: Facts) -> float:
    """Return how long the plan takes where one session in ten is swapped.

    The query that comes too rarely for its swaps decides.
    """
    planned = plan.table.group_by("query_id").aggregate([("sessions", "sum")])
    both = planned.join(_sessions_by_query(facts.counts), "query_id")
    sessions_swapped = np.asarray(both["sessions_sum"])
    sessions_logged = np.asarray(both["sessions"])
    return float(np.max(sessions_swapped / sessions_logged)) / SWAPPED_SHARE


def _plan_text(plan: dict[str, Any], facts: Facts) -> str:
    """Say what a plan takes and what it gives."""
    now, error, times = plan["error_now"], plan["error"], plan["times_this_log"]
    known = "unknown" if now > SURELY_UNKNOWN * plan["target"] else f"{now:.2g}"
    text = (
        f"{plan['sessions']:,} sessions with one swap each make the standard error of "
        f"alpha {error:.2g} of alpha, on average over ranks; it is {known} now. "
    )
    if facts.rows.n_queries > PLANNED_QUERIES:
        text += f"They are of the {PLANNED_QUERIES:,} queries that come most often. "
    if times > TOO_LONG:
        return text + (
            f"In this log some of their queries come too rarely for that: it would "
            f"take {times:,.0f} times as long, with a swap in one session in ten. "
            "Count a longer log, and plan by its frequent queries."
        )
    return text + (
        "If one session in ten of their queries is swapped, that takes "
        f"{times_text(times, facts.days)}."
    )


def _use(facts: Facts, estimate: Estimate) -> Iterator[Step]:
    """Steps that use what is known."""
    says = "Estimate how users click, and learn from corrected clicks."
    if estimate.test is not None and estimate.test.found and not facts.misfit:
        says = "Use the affine correction: inverse propensity leaves trust bias in."
    data, use = "", "debias COUNTS --click-model click-model.json -o labels.parquet"
    if facts.features:
        data = " --data DATA"
        use = f"train COUNTS{data} --click-model click-model.json -o model"
    commands = (
        f"affinerank estimate COUNTS{data} -o click-model.json",
        f"affinerank {use}",
    )
    yield Step("correct", "Correct the clicks", (says,), commands=commands)
    if facts.first is not None and facts.first.better.any():
        says = (
            f"Look at the {facts.first.better.sum():,} queries where another document "
            "is clearly better; the table above has the largest differences."
        )
        yield Step("review", "Look at rank 1", (says,))
