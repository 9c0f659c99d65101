"""What can be known of how users click from a log, and what cannot."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from affinerank.audit.facts import Facts
from affinerank.audit.findings import Block, Column, Question, Section
from affinerank.audit.models import models_block, models_text
from affinerank.bias.assumptions import COUNT_CONTEXT, rank_status
from affinerank.bias.overlap import Overlap
from affinerank.charts import bias_figure
from affinerank.clicks.counts_table import CONTEXT
from affinerank.estimators import ESTIMATORS

Status = Literal["yes", "partly", "no", "never"]
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
    "Identified: alpha half or twice as large would be noticed."
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


@dataclass(frozen=True, slots=True)
class Parameter:
    """Something one would like to know, whether clicks determine it, and why."""

    parameter: str
    status: Status
    why: str


def identified(facts: Facts) -> Section:
    """Say what clicks of this log determine of how users click."""
    parameters = [asdict(each) for each in _parameters(facts)]
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


def _parameters(facts: Facts) -> list[Parameter]:
    found = [_alpha_beta(facts)]
    if "segment" in facts.counts.keys:
        why = "users are compared by segment, and kept apart where that predicts clicks"
        found.append(Parameter("alpha and beta of each segment", "partly", why))
    scale = "clicks and rankings are the same on any scale"
    needy = [e.name for e in ESTIMATORS.values() if e.needs == "examination"]
    theta = f"clicks show alpha and beta only; {' and '.join(needy)} need theirs given"
    unseen = "no one saw them: features may predict it, clicks cannot tell"
    dependent = "clicks that depend on other clicks of the session, or on the user"
    known = Parameter(dependent, "no", f"counts add sessions up; {COUNT_CONTEXT}")
    if CONTEXT in facts.counts.keys:
        why = "on the last click above; counts add up everything else"
        known = Parameter(dependent, "partly", why)
    return [
        *found,
        _moved(facts.overlap),
        Parameter("unit and zero of relevance (their scale)", "never", scale),
        Parameter("examination (theta), eps+ and eps- by themselves", "never", theta),
        Parameter("relevance of documents never shown", "no", unseen),
        known,
    ]


def _alpha_beta(facts: Facts) -> Parameter:
    estimate, why = facts.estimate, "refused, for the reason above"
    if estimate is not None and estimate.weak_ranks:
        weak = ", ".join(estimate.weak_ranks)
        why = f"clicks hardly determine ranks {weak}, which lean on the other ranks"
    elif estimate is not None:
        why = f"by {estimate.method}: {estimate.why}"
        if not estimate.inference.known:
            why += "; how precisely is not known"
    name = "alpha and beta of each rank, relative to the others"
    return Parameter(name, facts.identified, why)


def _moved(overlap: Overlap) -> Parameter:
    name = "the same from documents that changed rank, without assumptions on relevance"
    moved = f"{overlap.n_moved:,} of {overlap.n_docs:,} documents changed rank"
    status: Status = "partly" if overlap.connected else "no"
    reach = "; ".join(overlap.connected) or "no ranks"
    if overlap.all_connected:
        status, reach = "yes", "all ranks"
    return Parameter(name, status, f"{moved}; that connects {reach}")
