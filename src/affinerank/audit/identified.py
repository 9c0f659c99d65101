"""What can be known of how users click from a log, and what cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from affinerank.audit.assumption_tests import COUNT_CONTEXT, rank_status
from affinerank.audit.facts import Facts
from affinerank.audit.findings import Block, Column, Question, Section
from affinerank.audit.models import models_block, models_text
from affinerank.bias.overlap import Overlap
from affinerank.estimators import ESTIMATORS
from affinerank.logs.schema import CONTEXT
from affinerank.output.charts import bias_figure

# Something one would like to know, whether clicks determine it, and why.
Parameter = tuple[str, Literal["yes", "partly", "no", "never"], str]
QUESTION = Question("identified", "Can it be known how users click?", wanted=True)
PARAMETERS = (
    Column("Parameter", "{parameter}"),
    Column("Identified", mark="status"),
    Column("Why", "{why}"),
)
BY_RANK = (
    Column("Rank", "{ranks}"),
    Column("Impressions", "{impressions:,}"),
    Column("Clicks", "{clicks:,}"),
    *(
        Column(
            f"{name.capitalize()}, 95 % band",
            f"{{inference[{name}]:.4f}}",
            f"{{inference[{name}_low]:.4f}} to {{inference[{name}_high]:.4f}}",
        )
        for name in ("alpha", "beta")
    ),
    Column("Identified", mark="identified"),
)
GAUGE = (
    "The scale is arbitrary: alpha is 1 and beta/alpha 0 on average over impressions. "
    "Identified: alpha half or twice as large would be noticed; in part: at this rank "
    "alone, or because the rank leans on others."
)
ARBITRARY = "Their scale is arbitrary, and no ranking depends on it."
SHORT = {
    "yes": "Enough to correct the clicks at every rank.",
    "partly": "Enough to correct clicks; some ranks lean on others.",
    "no": "This log does not show it.",
}
AVERAGE = (
    "Users were estimated by more than the rank: these are averages over impressions."
)


def identified(facts: Facts) -> Section:
    """Say what clicks of this log determine of how users click."""
    keys = ("parameter", "status", "why")
    parameters = [dict(zip(keys, each, strict=True)) for each in _parameters(facts)]
    notes = list(facts.warned)
    numbers: dict[str, Any] = {"refused": facts.refused, "parameters": parameters}
    blocks = [Block(PARAMETERS, parameters)]
    says = [f"Alpha and beta were not estimated: {facts.refused}."]
    if facts.estimate is not None:
        method, why = facts.estimate.method, facts.estimate.why
        says = [f"Alpha and beta were estimated by {method}: {why}. {ARBITRARY}"]
        rows = facts.estimate.by_rank()
        for row, status in zip(rows, rank_status(facts.estimate) or (), strict=False):
            row["identified"] = status
        notes += facts.estimate.notes
        if facts.estimate.average is not None:
            notes.insert(0, AVERAGE)
        figure = ("bias", bias_figure(rows, None))
        title = "Alpha and beta by rank"
        blocks.append(Block(BY_RANK, rows, title, figure, (GAUGE, *notes)))
        numbers |= {"method": method, "why": why, "by_rank": rows}
        numbers["precision"] = facts.precision
        if facts.estimate.models:
            says.append(models_text(facts.estimate.models))
            blocks.append(models_block(facts.estimate))
            numbers["models"] = [row.to_dict() for row in facts.estimate.models]
    numbers["notes"] = notes
    verdict, parts = facts.identified, tuple(blocks)
    return Section(QUESTION, verdict, tuple(says), numbers, parts, SHORT[verdict])


def _parameters(facts: Facts) -> Iterator[Parameter]:
    yield _alpha_beta(facts)
    if "segment" in facts.counts.keys:
        why = "users are compared by segment, and kept apart where that predicts clicks"
        yield "alpha and beta of each segment", "partly", why
    yield _moved(facts.overlap)
    scale = "clicks and rankings are the same on any scale"
    yield "unit and zero of relevance (their scale)", "never", scale
    needy = [e.name for e in ESTIMATORS.values() if e.needs == "examination"]
    theta = f"clicks show alpha and beta only; {' and '.join(needy)} need theirs given"
    yield "examination (theta), eps+ and eps- by themselves", "never", theta
    unseen = "no one saw them: features may predict it, clicks cannot tell"
    yield "relevance of documents never shown", "no", unseen
    dependent = "clicks that depend on other clicks of the session, or on the user"
    if CONTEXT in facts.counts.keys:
        last = "on the last click above; counts add up everything else"
        yield dependent, "partly", last
    else:
        yield dependent, "no", f"counts add sessions up; {COUNT_CONTEXT}"


def _alpha_beta(facts: Facts) -> Parameter:
    estimate, why = facts.estimate, "refused, for the reason above"
    if estimate is not None and estimate.weak_ranks:
        weak = ", ".join(estimate.weak_ranks)
        why = f"clicks hardly determine ranks {weak}, which lean on the other ranks"
    elif estimate is not None:
        why = f"by {estimate.method}: {estimate.why}"
        if not estimate.inference.known:
            why += "; how precisely is not known"
    return "alpha and beta of each rank, relative to the others", facts.identified, why


def _moved(overlap: Overlap) -> Parameter:
    name = "the same from documents that changed rank, without assumptions on relevance"
    moved = f"{overlap.n_moved:,} of {overlap.n_docs:,} documents changed rank"
    if overlap.all_connected:
        return name, "yes", f"{moved}; that connects all ranks"
    if not overlap.connected:
        return name, "no", f"{moved}; that connects no ranks"
    return name, "partly", f"{moved}; that connects {'; '.join(overlap.connected)}"
