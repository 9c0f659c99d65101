"""The rules that a log has to follow, whichever engine has it.

A rule is a condition on groups of rows: on single rows, on the rows of a session, on
those of a rank of a session, or on those of a document of a session. The groups have
columns of their own, which this module computes and the conditions name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import methodcaller, or_
from typing import Any

import ibis
import ibis.expr.types as ir
from ibis import _

from affinerank.engines.opening import engine_of
from affinerank.support.limits import ID_BYTES, MAX_RANK, MOST_VALUE

IDS = ("session_id", "query_id", "doc_id")
# The ranks of a session are bits of integers, and are added up, too.
BITS = 40  # ranks to an integer, with room to add up those of millions of rows
WORDS = 3  # integers: ranks 1 to 120


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on groups of rows, and what a group that meets it means.

    Attributes:
        holds: The condition.
        what: In words; empty if it means nothing to the log's owner.
        unit: What such a group is.
        fault: Whether its rows are unusable.
        column: The column whose values are at fault, if it is one.
    """

    holds: ibis.Deferred
    what: str = ""
    unit: str = "sessions"
    fault: bool = False
    column: str | None = None


# Single rows.


def row_rules(
    log: ir.Table, length: Callable[[Any], Any] = methodcaller("length")
) -> dict[str, Rule]:
    """Return the rules on a row by itself, of the columns that the log has.

    Args:
        log: The log, under our names.
        length: Returns the length of a text, or a bound on it.
    """
    rules = [*_row_faults(log, length), *_row_notes(log)]
    return {f"rule_{i}": rule for i, rule in enumerate(rules)}


def breaks_a_rule(log: ir.Table) -> ibis.Deferred:
    """Return whether a row has a fault by itself."""
    return reduce(or_, (rule.holds for rule in row_rules(log).values() if rule.fault))


def _row_faults(log: ir.Table, length: Callable[[Any], Any]) -> list[Rule]:
    """Return the rules whose rows are unusable."""
    fault = partial(Rule, unit="rows", fault=True)
    rules = [fault(_[name].isnull(), f"{name} is null", column=name) for name in IDS]
    rank = _["rank"]
    rules.append(
        fault(
            rank.isnull() | (rank < 1) | (rank > MAX_RANK),
            f"rank is not a whole number from 1 to {MAX_RANK} (if the log counts from "
            "0, give --ranks-from 0)",
            column="rank",
        )
    )
    rules.append(
        fault(_.clicked.isnull(), "clicked is neither 0 nor 1", column="clicked")
    )
    rules += [
        fault(
            length(_[name]) > ID_BYTES,
            f"{name} is longer than {ID_BYTES} characters",
            column=name,
        )
        for name in (*IDS, "ranker", "segment")
        if name in log.columns and log[name].type().is_string()
    ]
    if "timestamp" in log.columns:
        what = "timestamp is null, or not a moment"
        rules.append(fault(_.timestamp.isnull(), what, column="timestamp"))
    if "value" in log.columns:
        usable = (_.value >= 0) & (_.value < MOST_VALUE)  # NaN is not
        what = "the value of a click is not a number of 0 or more"
        rules.append(fault(_.value.isnull() | ~usable, what, column="value"))
    if "propensity" in log.columns:
        usable = (_.propensity > 0) & (_.propensity <= 1)
        what = "propensity is not a probability above 0"
        rules.append(fault(_.propensity.isnull() | ~usable, what, column="propensity"))
    return rules


def _row_notes(log: ir.Table) -> list[Rule]:
    """Return the rules whose rows are counted as they are."""
    return [
        Rule(
            _[name] == "",
            f"{name} is null or empty (counted as {name} '')",
            unit="rows",
            column=name,
        )
        for name in ("ranker", "segment")
        if name in log.columns
    ]


# Sessions, their ranks and their documents.


def by_session(log: ir.Table) -> ir.Table:
    """One row per session; ranks as bits show whether some rank comes twice.

    Powers of two add up to their bitwise or if and only if none comes twice. Ranks 1 to
    40 are bits of one integer, 41 to 80 of the next, 81 to 120 of the last.
    """
    engine = engine_of(log)
    bits = {f"bit_{word}": _rank_bit(log["rank"], word) for word in range(WORDS)}
    rows = log.select("session_id", "rank", "query_id", **bits)
    added = {f"added_{word}": rows[f"bit_{word}"].sum() for word in range(WORDS)}
    seen = {f"seen_{word}": engine.bit_or(rows[f"bit_{word}"]) for word in range(WORDS)}
    return rows.group_by("session_id").agg(
        rows=_.count(),
        low=_["rank"].min(),
        high=_["rank"].max(),
        query_low=_.query_id.min(),
        query_high=_.query_id.max(),
        **added,
        **seen,
    )


def _rank_bit(rank: ir.Value, word: int) -> ir.Value:
    """Return the rank's bit in one of the integers, 0 if it belongs to another."""
    shift = rank - BITS * word
    shift = ibis.ifelse((shift > 0) & (shift <= BITS), shift, 0)
    return ibis.ifelse(shift > 0, (shift * 0 + 1) << shift.cast("int32"), 0)


def by_rank(log: ir.Table) -> ir.Table:
    """One row per session and rank: its rows, the first and last of its documents."""
    return _extremes(log, key="rank", other="doc_id")


def by_document(log: ir.Table) -> ir.Table:
    """One row per session and document: its rows, the first and last of its ranks."""
    return _extremes(log, key="doc_id", other="rank")


def _extremes(log: ir.Table, *, key: str, other: str) -> ir.Table:
    """One row per session and ``key``: its rows, and the extremes of ``other``."""
    groups = log.group_by(["session_id", key])
    return groups.agg(rows=log.count(), low=log[other].min(), high=log[other].max())


def extents(log: ir.Table) -> ir.Table:
    """One row per session: how many ranks it has, the first and the last of them."""
    ranks = log.select("session_id", "rank").distinct()
    return ranks.group_by("session_id").agg(
        rows=ranks.count(), low=ranks["rank"].min(), high=ranks["rank"].max()
    )


SEVERAL = _.low != _.high
GAPS = Rule(_.high - _.low + 1 != _.rows, "a list has gaps between its ranks")
COMES_TWICE = [_[f"added_{word}"] != _[f"seen_{word}"] for word in range(WORDS)]
# Rules on the groups of by_session.
SESSION_RULES = {
    "crowded": Rule(reduce(or_, COMES_TWICE, _.high > BITS * WORDS)),
    "gaps": GAPS,
    "deep": Rule(_.low > 1, "a list starts deeper than rank 1"),
    "mixed": Rule(
        _.query_low != _.query_high,
        "a session has more than one query (it counts for each)",
    ),
}
# Rules on the groups of by_rank.
RANK_RULES = {
    "clashes": Rule(
        SEVERAL,
        "two documents at one rank of a session (is a session one query issued? if "
        "ranks begin anew on each page, give --page or --offset)",
        "ranks",
        fault=True,
    ),
    "repeats": Rule(
        (_.low == _.high) & (_.rows > 1),
        "an impression is repeated (merged; clicked if one of them was)",
        "impressions",
    ),
}
# Rules on the groups of by_document.
DOCUMENT_RULES = {
    "moved": Rule(
        SEVERAL, "one document at two ranks of a session", "documents", fault=True
    )
}
