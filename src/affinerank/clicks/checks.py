"""What is wrong with a log, found by the engine that has it.

Faults make rows unusable; peculiarities are reported, and counted as they are. The log
is one that :func:`affinerank.clicks.log.normalised` has brought onto our columns.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import ibis
import ibis.expr.types as ir

from affinerank.clicks.engines import engine_errors, in_parts, is_duckdb
from affinerank.errors import DataError

MAX_RANK = 10_000
BITS = 40  # ranks that fit into one integer, a bit each, with room to add them up
EXAMPLES = 3

Grouping = Callable[[ir.Table], ir.Table]
Rule = Callable[[ir.Table], ir.BooleanValue]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a log that its owner should know.

    Attributes:
        what: In words.
        fault: Whether it makes the rows unusable.
        number: How many rows, sessions or pairs it concerns.
        unit: What ``number`` counts.
        examples: A few of them.
    """

    what: str
    fault: bool
    number: int
    unit: str
    examples: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class LogReport:
    """What was found in a log.

    Attributes:
        rows: Rows read.
        sessions: Sessions among them.
        findings: Faults first.
        repeats: Whether some impressions are there more than once.
    """

    rows: int
    sessions: int
    findings: tuple[Finding, ...]
    repeats: bool = False

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that make rows unusable."""
        return tuple(finding for finding in self.findings if finding.fault)


class LogFaultsError(DataError):
    """A log with faults; ``report`` has them all."""

    def __init__(self, report: LogReport) -> None:
        self.report = report
        first = report.faults[0]
        more = len(report.faults) - 1
        kinds = "kind" if more == 1 else "kinds"
        others = f", and {more} more {kinds} of fault" if more else ""
        super().__init__(
            f"the log has faults: {first.what} ({first.number} {first.unit}){others}; "
            "put them right, or drop the sessions they are in (--bad-rows drop)"
        )


def validate(log: ir.Table) -> LogReport:
    """Look for faults and peculiarities."""
    with engine_errors("the log"):
        rows, of_rows = _row_findings(log)
        bad = any(finding.fault for finding in of_rows)
        good = log.filter(~_row_fault(log)) if bad else log
        parts = in_parts(good, "session_id", rows)
        lists = _Groups.search(parts, _by_session, SESSION_RULES)
        crowded = lists.number("crowded") > 0
        if not crowded and lists.number("beyond"):
            ranks = _Groups.search(parts, _by_rank, {"several": lambda t: t.rows > 1})
            crowded = ranks.number("several") > 0
        findings = [*of_rows, *_list_findings(parts, crowded)]
        if crowded:  # only different ranks tell of gaps
            findings += _of_sessions(_Groups.search(parts, _extents, {"gaps": _gap}))
        findings += _of_sessions(lists, without=("gaps",) if crowded else ())
    return LogReport(
        rows,
        lists.number("sessions"),
        tuple(sorted(findings, key=lambda finding: not finding.fault)),
        repeats=crowded,
    )


def without_bad_sessions(log: ir.Table, rows: int) -> tuple[ir.Table, int]:
    """Leave out every session that has a fault, whole; tell how many there are.

    Rows without a session are left out too, and belong to none.
    """
    good = log.filter(~_row_fault(log))
    if is_duckdb(log):  # found once, and kept beside the log
        backend, name = log.get_backend(), f"affinerank_{uuid.uuid4().hex}"
        schema = ibis.schema({"session_id": log.session_id.type()})
        bad = backend.create_table(name, schema=schema, temp=True)
        for part in in_parts(log, "session_id", rows):
            backend.insert(name, _bad_sessions(part))
    else:
        bad = _bad_sessions(log)
    number = _first(bad.agg(sessions=bad.count()))["sessions"]
    return good.anti_join(bad, "session_id"), number


def _bad_sessions(log: ir.Table) -> ir.Table:
    fault = _row_fault(log)
    good = log.filter(~fault)
    found = (
        log.filter(fault & log.session_id.notnull()),
        _by_rank(good).filter(lambda t: t.low != t.high),
        _by_document(good).filter(lambda t: t.low != t.high),
    )
    return ibis.union(*(part.select("session_id") for part in found), distinct=True)


def _row_rules(log: ir.Table) -> dict[str, ir.BooleanValue]:
    rules = {
        "session_id is null": log.session_id.isnull(),
        "query_id is null": log.query_id.isnull(),
        "doc_id is null": log.doc_id.isnull(),
        f"rank is not a whole number from 1 to {MAX_RANK} (does the log count from 0? "
        "then say so: --ranks-from 0)": log["rank"].isnull()
        | (log["rank"] < 1)
        | (log["rank"] > MAX_RANK),
        "clicked is neither 0 nor 1": log.clicked.isnull(),
    }
    if "timestamp" in log.columns:
        rules["timestamp is null, or not a moment"] = log.timestamp.isnull()
    return rules


def _row_notes(log: ir.Table) -> dict[str, ir.BooleanValue]:
    """Rules that are no faults: what is null becomes the empty text."""
    return {
        f"{name} is null or empty (counted as {name} '')": log[name] == ""
        for name in ("ranker", "segment")
        if name in log.columns
    }


def _row_fault(log: ir.Table) -> ir.BooleanValue:
    return reduce(or_, _row_rules(log).values())


def _row_findings(log: ir.Table) -> tuple[int, tuple[Finding, ...]]:
    """Count rows and what a row shows by itself, in one pass."""
    rules = [(what, True, rule) for what, rule in _row_rules(log).items()]
    rules += [(what, False, rule) for what, rule in _row_notes(log).items()]
    sums = {f"rule_{i}": rule.sum() for i, (_, _, rule) in enumerate(rules)}
    counted = _first(log.agg(rows=log.count(), **sums))
    findings = [
        Finding(what, fault, counted[f"rule_{i}"], "rows", _examples(log.filter(rule)))
        for i, (what, fault, rule) in enumerate(rules)
        if counted[f"rule_{i}"]
    ]
    return counted["rows"], tuple(findings)


@dataclass(frozen=True, slots=True)
class _Groups:
    """How many groups of a log meet each of some rules, and where the first do.

    Attributes:
        grouped: What makes groups of rows.
        rules: What is asked of a group, by name.
        numbers: Groups that meet a rule, by its name.
        first: A part of the log that holds some of them.
    """

    grouped: Grouping
    rules: Mapping[str, Rule]
    numbers: Mapping[str, int]
    first: Mapping[str, ir.Table]

    @classmethod
    def search(
        cls, parts: Sequence[ir.Table], grouped: Grouping, rules: Mapping[str, Rule]
    ) -> _Groups:
        """Look through the log, part by part."""
        numbers = dict.fromkeys(rules, 0)
        first: dict[str, ir.Table] = {}
        for part in parts:
            groups = grouped(part)
            sums = {name: rule(groups).sum() for name, rule in rules.items()}
            for name, number in _first(groups.agg(**sums)).items():
                numbers[name] += number
                if number:
                    first.setdefault(name, part)
        return cls(grouped, rules, numbers, first)

    def number(self, name: str) -> int:
        return self.numbers.get(name, 0)

    def examples(self, name: str) -> ir.Table:
        """The groups of one part that meet a rule."""
        return self.grouped(self.first[name]).filter(self.rules[name])

    def rows(self, name: str, column: str) -> tuple[dict[str, Any], ...]:
        """The rows of the log that a few such groups were made of."""
        few = self.examples(name).select("session_id", column).limit(EXAMPLES)
        return _examples(self.first[name].semi_join(few, ["session_id", column]))


@ibis.udf.agg.builtin(name="bit_or")  # type: ignore[untyped-decorator]
def _bit_or(bits: int) -> int:  # type: ignore[empty-body]
    """Spark has this aggregate, and Ibis does not know."""


def _by_session(log: ir.Table) -> ir.Table:
    """One row per session; ranks as bits tell whether some rank comes twice.

    Powers of two add up to their bitwise or if and only if none comes twice.
    """
    shift = ibis.ifelse(log["rank"] <= BITS, log["rank"], 0)
    bit = ibis.ifelse(shift > 0, ibis.literal(1, "int64") << shift, 0)
    spark = log.get_backend().name == "pyspark"
    return (
        log.select("session_id", "rank", "query_id", bit=bit)
        .group_by("session_id")
        .agg(
            rows=lambda t: t.count(),
            low=lambda t: t["rank"].min(),
            high=lambda t: t["rank"].max(),
            query_low=lambda t: t.query_id.min(),
            query_high=lambda t: t.query_id.max(),
            added=lambda t: t.bit.sum(),
            seen=lambda t: _bit_or(t.bit) if spark else t.bit.bit_or(),
        )
    )


def _by_rank(log: ir.Table) -> ir.Table:
    return log.group_by(["session_id", "rank"]).agg(
        rows=log.count(), low=log.doc_id.min(), high=log.doc_id.max()
    )


def _by_document(log: ir.Table) -> ir.Table:
    return log.group_by(["session_id", "doc_id"]).agg(
        low=log["rank"].min(), high=log["rank"].max()
    )


def _list_findings(parts: Sequence[ir.Table], crowded: bool) -> Iterator[Finding]:
    """Documents that share a rank, or have two; repeats of one at its rank."""
    if crowded:
        ranks = _Groups.search(parts, _by_rank, RANK_RULES)
        if ranks.number("clashes"):
            yield Finding(
                "two documents at one rank of a session (is a session one query "
                "issued?)",
                True,
                ranks.number("clashes"),
                "ranks",
                ranks.rows("clashes", "rank"),
            )
        if ranks.number("repeats"):
            yield Finding(
                "an impression is repeated (merged; clicked if one of them was)",
                False,
                ranks.number("repeats"),
                "impressions",
                ranks.rows("repeats", "rank"),
            )
    rule = {"moved": lambda t: t.low != t.high}
    documents = _Groups.search(parts, _by_document, rule)
    if documents.number("moved"):
        yield Finding(
            "one document at two ranks of a session",
            True,
            documents.number("moved"),
            "documents",
            documents.rows("moved", "doc_id"),
        )


def _of_sessions(sessions: _Groups, without: Sequence[str] = ()) -> Iterator[Finding]:
    """Lists with gaps, lists that start below rank 1, sessions of several queries."""
    for name, what in PECULIAR_SESSIONS.items():
        if name not in without and sessions.number(name):
            few = sessions.examples(name).select("session_id", "low", "high")
            yield Finding(
                what, False, sessions.number(name), "sessions", _examples(few)
            )


def _extents(log: ir.Table) -> ir.Table:
    """One row per session: how many ranks it has, the first and the last of them."""
    ranks = log.select("session_id", "rank").distinct()
    return ranks.group_by("session_id").agg(
        rows=ranks.count(), low=ranks["rank"].min(), high=ranks["rank"].max()
    )


def _gap(lists: ir.Table) -> ir.BooleanValue:
    return lists.high - lists.low + 1 != lists.rows


SESSION_RULES: Mapping[str, Rule] = {
    "sessions": lambda t: t.rows > 0,
    "crowded": lambda t: t.added != t.seen,
    "beyond": lambda t: t.high > BITS,
    "gaps": _gap,
    "deep": lambda t: t.low > 1,
    "mixed": lambda t: t.query_low != t.query_high,
}
PECULIAR_SESSIONS = {
    "gaps": "a list has gaps between its ranks",
    "deep": "a list starts deeper than rank 1",
    "mixed": "a session has more than one query (it counts for each)",
}
RANK_RULES: Mapping[str, Rule] = {
    "clashes": lambda t: t.low != t.high,
    "repeats": lambda t: (t.low == t.high) & (t.rows > 1),
}


def _examples(table: ir.Table) -> tuple[dict[str, Any], ...]:
    return tuple(table.limit(2 * EXAMPLES).to_pyarrow().to_pylist())


def _first(table: ir.Table) -> dict[str, int]:
    """The only row of ``table``; sums over no rows are 0."""
    row = table.to_pyarrow().to_pylist()[0]
    return {name: int(value or 0) for name, value in row.items()}
