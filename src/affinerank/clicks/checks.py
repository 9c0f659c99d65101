"""What is wrong with a log, found by the engine that has it.

Faults make rows unusable; peculiarities are reported, and counted as they are. The log
is one that :func:`affinerank.clicks.log.normalised` has brought onto our columns.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import ibis
import ibis.expr.types as ir

from affinerank.clicks.engines import engine_errors, is_duckdb
from affinerank.errors import DataError

MAX_RANK = 10_000
BITS = 40  # ranks that fit into one integer, a bit each, with room to add them up
EXAMPLES = 3


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
        lists = _Lists.read(good)
        of_lists = tuple(_list_findings(good, lists))
        of_sessions = tuple(_session_findings(good, lists))
    findings = (*of_rows, *of_lists, *of_sessions)
    return LogReport(
        rows,
        lists.sessions,
        tuple(sorted(findings, key=lambda finding: not finding.fault)),
        repeats=lists.crowded,
    )


def without_bad_sessions(log: ir.Table) -> tuple[ir.Table, int]:
    """Leave out every session that has a fault, whole; tell how many there are.

    Rows without a session are left out too, and belong to none.
    """
    fault = _row_fault(log)
    good = log.filter(~fault)
    parts = (
        log.filter(fault),
        _by_rank(good).filter(lambda t: t.low != t.high),
        _by_document(good).filter(lambda t: t.low != t.high),
    )
    bad = ibis.union(*(part.select("session_id") for part in parts), distinct=True)
    bad = bad.filter(bad.session_id.notnull())
    if is_duckdb(log):  # found once, and kept beside the log
        name = f"affinerank_{uuid.uuid4().hex}"
        bad = log.get_backend().create_table(name, bad, temp=True)
    number = _first(bad.agg(sessions=bad.count()))["sessions"]
    return good.anti_join(bad, "session_id"), number


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
class _Lists:
    """What the sessions' lists look like.

    Attributes:
        sessions: Number of sessions.
        crowded: Whether some rank of a session has several rows.
        gaps: Sessions whose list leaves out ranks.
        deep: Sessions whose list starts below rank 1.
        mixed: Sessions with more than one query.
    """

    sessions: int
    crowded: bool
    gaps: int
    deep: int
    mixed: int

    @classmethod
    def read(cls, log: ir.Table) -> _Lists:
        lists = _by_session(log)
        counted = _first(
            lists.agg(
                sessions=lists.count(),
                crowded=(lists.added != lists.seen).sum(),
                gaps=_gap(lists).sum(),
                deep=(lists.low > 1).sum(),
                mixed=(lists.query_low != lists.query_high).sum(),
                deepest=lists.high.max(),
            )
        )
        crowded, gaps = counted["crowded"] > 0, counted["gaps"]
        if not crowded and counted["deepest"] > BITS:
            ranks = _by_rank(log)
            crowded = _first(ranks.agg(n=(ranks.rows > 1).sum()))["n"] > 0
        if crowded:
            extents = _extents(log)
            gaps = _first(extents.agg(gaps=_gap(extents).sum()))["gaps"]
        return cls(
            counted["sessions"], crowded, gaps, counted["deep"], counted["mixed"]
        )


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


def _list_findings(log: ir.Table, lists: _Lists) -> Iterator[Finding]:
    """Documents that share a rank, or have two; repeats of one at its rank."""
    if lists.crowded:
        ranks = _by_rank(log)
        clash = ranks.low != ranks.high
        repeat = (ranks.low == ranks.high) & (ranks.rows > 1)
        counted = _first(ranks.agg(clashes=clash.sum(), repeats=repeat.sum()))
        for what, fault, name, unit, rule in (
            (
                "two documents at one rank of a session (is a session one query "
                "issued?)",
                True,
                "clashes",
                "ranks",
                clash,
            ),
            (
                "an impression is repeated (merged; clicked if one of them was)",
                False,
                "repeats",
                "impressions",
                repeat,
            ),
        ):
            if counted[name]:
                examples = _examples(_beside(log, ranks.filter(rule), "rank"))
                yield Finding(what, fault, counted[name], unit, examples)
    documents = _by_document(log)
    moved = documents.low != documents.high
    number = _first(documents.agg(moved=moved.sum()))["moved"]
    if number:
        examples = _examples(_beside(log, documents.filter(moved), "doc_id"))
        what = "one document at two ranks of a session"
        yield Finding(what, True, number, "documents", examples)


def _session_findings(log: ir.Table, lists: _Lists) -> Iterator[Finding]:
    """Lists with gaps, lists that start below rank 1, sessions of several queries."""
    extents, sessions = _extents(log), _by_session(log)
    for what, number, found in (
        ("a list has gaps between its ranks", lists.gaps, extents.filter(_gap)),
        (
            "a list starts deeper than rank 1",
            lists.deep,
            extents.filter(extents.low > 1),
        ),
        (
            "a session has more than one query (it counts for each)",
            lists.mixed,
            sessions.filter(sessions.query_low != sessions.query_high),
        ),
    ):
        if number:
            chosen = found.select("session_id", "low", "high")
            yield Finding(what, False, number, "sessions", _examples(chosen))


def _extents(log: ir.Table) -> ir.Table:
    """One row per session: how many ranks it has, the first and the last of them."""
    ranks = log.select("session_id", "rank").distinct()
    return ranks.group_by("session_id").agg(
        rows=ranks.count(), low=ranks["rank"].min(), high=ranks["rank"].max()
    )


def _gap(lists: ir.Table) -> ir.BooleanValue:
    return lists.high - lists.low + 1 != lists.rows


def _beside(log: ir.Table, groups: ir.Table, column: str) -> ir.Table:
    """The rows of ``log`` that the first of ``groups`` were made of."""
    first = groups.select("session_id", column).limit(EXAMPLES)
    return log.semi_join(first, ["session_id", column])


def _examples(table: ir.Table) -> tuple[dict[str, Any], ...]:
    return tuple(table.limit(2 * EXAMPLES).to_pyarrow().to_pylist())


def _first(table: ir.Table) -> dict[str, int]:
    """The only row of ``table``; sums over no rows are 0."""
    row = table.to_pyarrow().to_pylist()[0]
    return {name: int(value or 0) for name, value in row.items()}
