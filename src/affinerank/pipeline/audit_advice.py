"""What the owner of a log can do next, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from affinerank.bias.level_mixture import LEAST_TOLD
from affinerank.bias.pooling import LEAST_CLICKS
from affinerank.bias.swaps import TARGET_ERROR, SwapPlan

SWAPPED_SHARE = 0.1
WANTED_PRECISION = 0.1
Step = dict[str, Any]


def next_steps(
    sections: Mapping[str, Any], plan: Sequence[SwapPlan], features: bool
) -> list[Step]:
    """The steps that the findings ask for, the most urgent first.

    Args:
        sections: Of :func:`affinerank.pipeline.audit`.
        plan: Swaps between neighbouring ranks.
        features: Whether the audit had features.
    """
    usable, identified = sections["usable"], sections["identified"]
    collect = _collect(usable, sections["click_rates"])
    if collect is not None:  # before that, nothing else helps
        return [step for step in (_repair(usable), collect) if step is not None]
    steps = [
        _repair(usable),
        _features(identified, features),
        _swap(usable, identified, plan),
        _longer(usable, identified),
        _correct(sections, features),
        _review(sections["first_rank"]),
    ]
    return [step for step in steps if step is not None]


def _step(name: str, title: str, *says: str, **numbers: Any) -> Step:
    return {"step": name, "title": title, "says": list(says), **numbers}


def _repair(usable: Mapping[str, Any]) -> Step | None:
    dropped = usable["dropped"]
    if not dropped or not dropped["rows"]:
        return None
    faults = [f for f in usable["findings"] if f["fault"]]
    return _step(
        "repair",
        "Repair the log",
        f"{dropped['sessions']:,} sessions with {dropped['rows']:,} rows were left "
        f"out. Most frequent: {max(faults, key=lambda f: f['number'])['what']}.",
    )


def _collect(usable: Mapping[str, Any], rates: Mapping[str, Any]) -> Step | None:
    """More clicks, where they are too few for anything else."""
    bad = {c["what"] for c in usable["checks"] if c["verdict"] == "bad"}
    if not bad & {"clicks", "ranks"}:
        return None
    rows = rates["by_rank"]
    if len(rows) == 1:
        says = "Log more than one rank: bias is a difference between ranks."
    elif not sum(row["clicks"] for row in rows):
        says = f"Log clicks: each rank needs {LEAST_CLICKS} to be looked at by itself."
    elif "clicks" in bad:
        says = "Log impressions without a click too: without them there is no rate."
    else:
        second = sorted((row["clicks"] for row in rows), reverse=True)[1]
        more = LEAST_CLICKS / max(second, 1)
        says = (
            f"Two ranks need {LEAST_CLICKS} clicks each before they can be compared: "
            f"collect {times_text(more, usable['days'])}."
        )
    return _step("collect", "Collect clicks", says)


def _features(identified: Mapping[str, Any], given: bool) -> Step | None:
    if given or identified["verdict"] == "yes":
        return None
    return _step(
        "features",
        "Give features",
        "Audit again with --data: features tell which documents to expect relevant, "
        "also where a document was shown once.",
    )


def _swap(
    usable: Mapping[str, Any], identified: Mapping[str, Any], plan: Sequence[SwapPlan]
) -> Step | None:
    """How many swapped sessions would identify alpha and beta."""
    moved = next(
        p for p in identified["parameters"] if "changed rank" in p["parameter"]
    )
    if (moved["status"] == "yes" and identified["verdict"] == "yes") or not plan:
        return None
    pairs = [asdict(pair) for pair in plan]
    known = [pair for pair in plan if pair.sessions is not None]
    title = "Swap documents"
    if not known:
        return _step(
            "swap",
            title,
            f"Exchanging documents between neighbouring ranks, at random, tells alpha "
            f"and beta without assumptions. How many sessions that takes cannot be "
            f"told from this log: {plan[0].why_not}. Begin with {LEAST_TOLD} documents "
            "of queries that come again.",
            pairs=pairs,
            sessions=None,
        )
    total = sum(pair.sessions or 0 for pair in known)
    again = usable["sessions_of_repeated_queries"]
    factor = total / SWAPPED_SHARE / max(again, 1)
    unknown = len(plan) - len(known)
    says = [
        "In some sessions of queries that come again, chosen at random, exchange a "
        "document of one rank with one of the next, and log it as shown. "
        f"{total:,} such sessions in all, divided as in the table, are enough for "
        f"alpha of each rank, in units of the rank above, to a standard error of "
        f"{TARGET_ERROR:g}, with beta to the error in the table; half the error takes "
        "about four times as many.",
        f"With one session in ten swapped, that takes "
        f"{times_text(factor, usable['days'])}; {again:,} of its "
        f"{usable['sessions']:,} sessions are of queries that came again.",
    ]
    if unknown:
        says.append(f"For {unknown} of {len(plan)} pairs this log cannot tell.")
    return _step(
        "swap", title, *says, pairs=pairs, sessions=total, times_this_log=factor
    )


def _longer(usable: Mapping[str, Any], identified: Mapping[str, Any]) -> Step | None:
    precision = identified.get("precision")
    if precision is None or precision["relative_error"] <= WANTED_PRECISION:
        return None
    factor = (precision["relative_error"] / WANTED_PRECISION) ** 2
    return _step(
        "longer",
        "Or log for longer",
        f"Alpha at rank {precision['ranks']} is known to "
        f"{precision['relative_error']:.1%} (one standard error), the worst of the "
        f"first ten. Errors fall with the root of the clicks: "
        f"{WANTED_PRECISION:.0%} takes {times_text(factor, usable['days'])}.",
        times_this_log=factor,
    )


def _correct(sections: Mapping[str, Any], features: bool) -> Step | None:
    if sections["identified"]["verdict"] == "no":
        return None
    says = "Estimate how users click, and learn from corrected clicks."
    if sections["trust_bias"]["verdict"] == "yes":
        says = (
            "Learn with the affine correction; inverse propensity weights would leave "
            "trust bias in."
        )
    data = " --data DATA" if features else ""
    commands = [f"affinerank estimate COUNTS{data} -o users.json"]
    commands.append(
        "affinerank train COUNTS --data DATA --users users.json -o model"
        if features
        else "affinerank debias COUNTS --users users.json -o labels.parquet"
    )
    return _step("correct", "Correct the clicks", says, commands=commands)


def _review(first: Mapping[str, Any]) -> Step | None:
    better = first.get("another_first", 0)
    if not better:
        return None
    return _step(
        "review",
        "Look at rank 1",
        f"Look at the {better:,} queries where another document is clearly better than "
        "the first; the largest differences are in the table above.",
    )


def times_text(factor: float, days: float | None) -> str:
    """A length of time in units of the log, and in days where they are known.

    >>> times_text(1.04, 14.0), times_text(0.052, None)
    ('1.0 times this log (15 days)', '0.052 times this log')
    """
    text = f"{factor:,.0f}" if factor >= 10 else f"{factor:.1f}"
    if factor < 1:
        text = f"{factor:.2g}"
    told = f" ({_days(factor * days)})" if days is not None else ""
    return f"{text} times this log{told}"


def days_text(sizes: Mapping[str, int], days: float | None) -> str:
    """Sessions a day, where the log tells."""
    if days is None:
        return "over a time that is not known (--days tells)"
    return f"over {_days(days)}: {sizes['sessions'] / days:,.0f} a day"


def _days(days: float) -> str:
    text = f"{days:,.0f}" if days >= 10 else f"{days:.2g}"
    return f"{text} day" if text == "1" else f"{text} days"
