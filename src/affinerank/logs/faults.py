"""Faults of a log, found by the engine that has it.

Faults make rows unusable; peculiarities are reported, and counted as they are. The log
is one that :func:`affinerank.logs.options.normalised` has brought onto our columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import methodcaller, or_
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
from ibis import _

from affinerank.engines.engine import (
    engine_errors,
    hashed,
    in_parts,
    integer_totals,
    is_duckdb,
    materialised,
    union_all,
    with_progress,
)
from affinerank.logs.schema import session_keys
from affinerank.support.errors import DataError
from affinerank.support.limits import ID_BYTES, MAX_RANK, MOST_VALUE
from affinerank.support.progress import Progress, no_progress

# DuckDB's first pass keeps the ranks of a session as bits of two integers.
WORD = 63  # ranks to an integer; its highest bit is free for something else
REACH = 2 * WORD  # sessions of more rows are searched closely
# Other engines add the bits up, too.
BITS = 40  # ranks to an integer, with room to add up those of millions of rows
WORDS = 3  # integers: ranks 1 to 120
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
        plain: Whether every session has one query (ranker, segment, ...) and the ranks
            1, 2, ... up to 126 at most, each once: queries have as many sessions as
            impressions at rank 1.
        suspects: Ids of the only sessions that may have faults; ``None``: any may.
    """

    rows: int
    sessions: int
    findings: tuple[Finding, ...]
    repeats: bool = False
    plain: bool = False
    suspects: ir.Table | None = field(default=None, compare=False, repr=False)

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that make rows unusable."""
        return tuple(finding for finding in self.findings if finding.fault)

    def noting(self, *findings: Finding) -> LogReport:
        """Return the report with more findings."""
        return replace(self, findings=(*self.findings, *findings))


class LogFaultsError(DataError):
    """A log with faults; ``report`` has them all."""

    def __init__(self, report: LogReport) -> None:
        self.report = report
        first, *more = report.faults
        kinds = "kind" if len(more) == 1 else "kinds"
        others = f", and {len(more)} more {kinds} of fault" if more else ""
        super().__init__(
            f"the log has faults: {first.what} ({first.number} {first.unit}){others}; "
            "correct them, or drop the sessions they are in (--bad-rows drop)"
        )


@engine_errors("the log")
def validate(*log: ir.Table, progress: Progress = no_progress) -> LogReport:
    """Look for faults and peculiarities of a log, or of parts without common queries.

    DuckDB sees in one pass which kinds there may be, and in which sessions; only those
    are searched again. Other engines search for all of them.
    """
    seen = _Glance.at(log, progress)
    parts, rows, sessions = seen.parts, seen.rows, seen.sessions
    findings: list[Finding] = []
    if seen.odd:
        single = _Search.of(parts, lambda rows: rows, _row_rules(parts[0]))
        rows, findings = single.numbers["all"], single.findings()
        if any(finding.fault for finding in findings):
            parts = [part.filter(~_row_fault(part)) for part in parts]
    lists, crowded = None, False
    if seen.ragged:
        ragged = seen.only(parts, "ragged")
        lists = _Search.of(ragged, _by_session, SESSION_RULES)
        others = 0 if ragged is parts else seen.sessions - seen.ragged
        sessions = lists.numbers["all"] + others
        if lists.numbers["crowded"]:
            ranks = _Search.of(ragged, _by_rank, RANK_RULES).findings("rank")
            findings, crowded = findings + ranks, bool(ranks)
    if seen.alike:
        alike = seen.only(parts, "alike")
        findings += _Search.of(alike, _by_document, DOCUMENT_RULES).findings("doc_id")
    if crowded:  # repeated ranks would hide gaps
        findings += _Search.of(ragged, _extents, {"gaps": GAPS}).findings()
    if lists is not None:
        findings += lists.findings(without="gaps" if crowded else "")
    ordered = tuple(sorted(findings, key=lambda finding: not finding.fault))
    few = None if seen.mostly_ragged else seen.suspects
    return LogReport(rows, sessions, ordered, crowded, not seen.ragged, few)


def without_bad_sessions(
    parts: Sequence[ir.Table], report: LogReport
) -> tuple[list[ir.Table], int]:
    """Leave out every session that has a fault, whole; return how many there are.

    Rows without a session are left out too, and belong to none. Only the report's
    suspects are looked at, where they are known.
    """
    by_session = in_parts(union_all(parts), "session_id", report.rows)
    if (few := report.suspects) is not None:
        by_session = [part.semi_join(few, "session_id") for part in by_session]
    bad = materialised([_bad_sessions(part) for part in by_session])
    good = [p.filter(~_row_fault(p)).anti_join(bad, "session_id") for p in parts]
    return good, integer_totals(bad, n=bad.count())["n"]


def _bad_sessions(log: ir.Table) -> ir.Table:
    fault = _row_fault(log)
    good = log.filter(~fault)
    found = (
        log.filter(fault & _.session_id.notnull()),
        _by_rank(good).filter(SEVERAL),
        _by_document(good).filter(SEVERAL),
    )
    return ibis.union(*(part.select("session_id") for part in found), distinct=True)


@dataclass(frozen=True, slots=True)
class _Glance:
    """What one pass by session tells: numbers of sessions to look at more closely.

    Attributes:
        parts: The log, in parts that have sessions whole.
        rows: Rows of the log.
        sessions: Sessions of the log.
        odd: Sessions with a row that breaks or meets a rule on rows.
        alike: Sessions that may have a document twice; of up to 126 rows, that do.
        ragged: Sessions whose ranks are not 1, 2, ... up to 126 at most, which have a
            row that breaks a rule, or several queries (rankers, segments, ...).
        suspects: Ids of sessions that are alike or, unless most are, ragged, and which
            they are; ``None`` means that nothing is known: any session may be.
    """

    parts: Sequence[ir.Table]
    rows: int = 0
    sessions: int = 0
    odd: int = 1
    alike: int = 1
    ragged: int = 1
    suspects: ir.Table | None = None

    @classmethod
    def at(cls, parts: Sequence[ir.Table], progress: Progress) -> _Glance:
        """Look at every session once, if DuckDB has the log."""
        if not is_duckdb(parts[0]):
            return cls(parts)
        backend, seen, done = parts[0].get_backend(), [], 0
        rows = [integer_totals(part, n=_.count())["n"] for part in parts]
        for part, size in zip(parts, rows, strict=True):
            with with_progress(
                part, progress, "checking the log", size, done, sum(rows)
            ):
                seen.append(materialised([backend.sql(_glance(part))]))
            done += size
        table = union_all(seen)
        sums = {name: _[name].sum() for name in ("odd", "alike", "ragged")}
        found = integer_totals(table, sessions=_.count(), **sums)
        if len(parts) > 1:  # a session of several queries may be in several parts
            by_session = in_parts(table, "session_id", found["sessions"])
            n = sum(
                integer_totals(each, n=_.session_id.nunique())["n"]
                for each in by_session
            )
            if n < found["sessions"]:
                return cls(in_parts(union_all(parts), "session_id", done))
        if found["alike"]:
            table = _confirm_repeated_documents(parts, table)
            found |= integer_totals(table, alike=_.alike.sum())
        glance = cls(parts, done, **found)
        some = _.alike if glance.mostly_ragged else _.alike | _.ragged
        suspects = table.filter(some).select("session_id", "alike", "ragged")
        suspects = materialised([suspects])
        for each in seen:  # counting needs the memory
            backend.raw_sql(f"DROP TABLE {each.get_name()}")
        return replace(glance, suspects=suspects)

    @property
    def mostly_ragged(self) -> bool:
        """Whether it costs less to search all sessions than to pick the ragged ones."""
        return 2 * self.ragged > self.sessions

    def only(self, parts: Sequence[ir.Table], what: str) -> Sequence[ir.Table]:
        """Keep the rows of sessions that are ``alike`` or ``ragged``, where known."""
        if self.suspects is None or (what == "ragged" and self.mostly_ragged):
            return parts
        few = self.suspects.filter(_[what])
        return [part.semi_join(few, "session_id") for part in parts]


def _glance(log: ir.Table) -> str:
    """Return DuckDB's query for one row per session, of what is to be looked at.

    The ranks of a session are bits of two integers: 1 to 63, and 64 to 126. With n rows
    and the n lowest bits, no rank comes twice. A row that breaks a rule sets the
    highest bit of the second; a deeper rank sets none, so that a bit is missing.

    A document that comes twice leaves fewer bits than rows in each of four sets, by
    other parts of its hash. Ten different documents look so in 7 % of sessions, thirty
    in most; ``documents`` is then a fingerprint of the session's documents, in any
    order, by which :func:`_confirm_repeated_documents` tells.
    """
    rules = _row_rules(log, _bytes).values()
    fault = reduce(or_, (rule.holds for rule in rules if rule.fault))
    notes = [rule.holds for rule in rules if not rule.fault]
    marked = {"fault": fault} | ({"note": reduce(or_, notes)} if notes else {})
    rows = ibis.to_sql(log.mutate(**marked), dialect="duckdb")
    noted, note = ("OR bool_or(note)", "note,") if notes else ("", "")
    sets = [f"bit_or(1::UBIGINT << ((doc >> {8 * i}) & 63))" for i in range(4)]
    alike = " AND ".join(f"bit_count({bits}) < count(*)" for bits in sets)
    return f"""
        SELECT session_id, size, odd, alike,
            if(alike AND size <= {REACH}, hash(documents, size), NULL) AS documents,
            several_keys OR size > {REACH}
                OR low_ranks <> (1::UBIGINT << least(size, {WORD})) - 1
                OR high_ranks <> (1::UBIGINT << (greatest(least(size, {REACH}), {WORD})
                    - {WORD})) - 1 AS ragged
        FROM (
            SELECT session_id, count(*)::UBIGINT AS size,
                bit_or(low_rank) AS low_ranks, bit_or(high_rank) AS high_ranks,
                bit_or(high_rank) >> 63 = 1 {noted} AS odd,
                {alike} AS alike, bit_xor(doc) AS documents,
                min(key) < max(key) AS several_keys
            FROM (
                SELECT session_id, {note} hash(doc_id) AS doc,
                    hash({", ".join(session_keys(log.columns))}) AS key,
                    CASE WHEN fault OR rank > {WORD} THEN 0::UBIGINT
                        ELSE 1::UBIGINT << (rank - 1)::UBIGINT END AS low_rank,
                    CASE WHEN fault THEN 1::UBIGINT << 63
                        WHEN rank <= {WORD} OR rank > {REACH} THEN 0::UBIGINT
                        ELSE 1::UBIGINT << (rank - {WORD + 1})::UBIGINT END AS high_rank
                FROM ({rows})
            ) GROUP BY session_id
        )"""  # noqa: S608


def _confirm_repeated_documents(
    parts: Sequence[ir.Table], sessions: ir.Table
) -> ir.Table:
    """Keep the mark ``alike`` only where a session has a document twice.

    Sessions with the same fingerprint have the same documents, so one of them is looked
    at for all. Longer sessions have no fingerprint, and keep the mark.
    """
    fingerprinted = sessions.filter(_.documents.notnull())
    examined = fingerprinted.group_by("documents").agg(
        session_id=_.session_id.min(), size=_["size"].max()
    )
    examined = materialised([examined])

    # The list of a session's documents stays in memory, unlike other groups.
    rows = 4 * integer_totals(examined, n=_["size"].sum())["n"]
    repeated = materialised(
        [
            _fingerprints_with_repeats(part.join(few, "session_id"))
            for part in parts
            for few in in_parts(examined, "documents", rows)
        ]
    )
    is_repeated = _.documents.isnull() | _.documents.isin(repeated.documents)
    return sessions.mutate(alike=_.alike & is_repeated)


def _fingerprints_with_repeats(rows: ir.Table) -> ir.Table:
    """Return the fingerprints whose session has fewer different documents than rows."""
    lists = rows.select("documents", doc=hashed(rows.doc_id)).group_by("documents")
    lists = lists.agg(rows=_.count(), different=_list_unique(_.doc.collect()))
    return lists.filter(_.different < _.rows).select("documents")


@ibis.udf.scalar.builtin(name="list_unique")  # type: ignore[untyped-decorator]
def _list_unique(values: dt.Array[dt.int64]) -> int:  # type: ignore[empty-body]
    """DuckDB counts the different values of a list, and does not copy them."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A condition on groups of rows, and what a group that meets it means.

    Attributes:
        holds: The condition.
        what: In words; empty if it means nothing to the log's owner.
        unit: What such a group is.
        fault: Whether its rows are unusable.
    """

    holds: ibis.Deferred
    what: str = ""
    unit: str = "sessions"
    fault: bool = False


@dataclass(frozen=True, slots=True)
class _Search:
    """How many groups of a log there are, and how many meet each of some rules.

    Attributes:
        grouped: Makes the groups.
        rules: By name.
        numbers: Number of groups that meet each rule, and of ``all``.
        first: A part of the log that has such groups.
    """

    grouped: Callable[[ir.Table], ir.Table]
    rules: Mapping[str, _Rule]
    numbers: Mapping[str, int]
    first: Mapping[str, ir.Table]

    @classmethod
    def of(
        cls,
        parts: Sequence[ir.Table],
        grouped: Callable[[ir.Table], ir.Table],
        rules: Mapping[str, _Rule],
    ) -> _Search:
        """Search the log, part by part."""
        numbers, first = Counter[str](), dict[str, ir.Table]()
        sums = {name: rule.holds.sum() for name, rule in rules.items()}
        for part in parts:
            found = integer_totals(grouped(part), all=_.count(), **sums)
            numbers.update(found)
            first = {name: part for name in found if found[name]} | first
        return cls(grouped, rules, numbers, first)

    def findings(self, key: str | None = None, without: str = "") -> list[Finding]:
        """Report what was found; examples are rows of the log if a ``key`` is given."""
        found = []
        for name, rule in self.rules.items():
            if rule.what and self.numbers[name] and name != without:
                few = self.grouped(self.first[name]).filter(rule.holds)
                if key is not None:
                    keys = ["session_id", key]
                    few = few.select(*keys).limit(EXAMPLES)
                    few = self.first[name].semi_join(few, keys)
                elif rule.unit == "sessions":
                    few = few.select("session_id", "low", "high")
                rows = few.limit(2 * EXAMPLES).to_pyarrow().to_pylist()
                examples = tuple(shortened(row) for row in rows)
                about = (rule.what, rule.fault, self.numbers[name], rule.unit)
                found.append(Finding(*about, examples))
        return found


def shortened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Cut long texts of an example."""
    return {n: v[:200] if isinstance(v, str) else v for n, v in row.items()}


@ibis.udf.scalar.builtin(name="strlen")  # type: ignore[untyped-decorator]
def _bytes(text: str) -> int:  # type: ignore[empty-body]
    """DuckDB knows the bytes of a text, and has to count its characters."""


def _row_rules(
    log: ir.Table, length: Callable[[Any], Any] = methodcaller("length")
) -> dict[str, _Rule]:
    """Return the rules on a row by itself, of the columns that the log has."""
    rank, ids = _["rank"], ("session_id", "query_id", "doc_id")
    faults = {f"{name} is null": _[name].isnull() for name in ids} | {
        f"rank is not a whole number from 1 to {MAX_RANK} (if the log counts from 0, "
        "give --ranks-from 0)": rank.isnull() | (rank < 1) | (rank > MAX_RANK),
        "clicked is neither 0 nor 1": _.clicked.isnull(),
    }
    faults |= {
        f"{name} is longer than {ID_BYTES} characters": length(_[name]) > ID_BYTES
        for name in (*ids, "ranker", "segment")
        if name in log.columns and log[name].type().is_string()
    }
    if "timestamp" in log.columns:
        faults["timestamp is null, or not a moment"] = _.timestamp.isnull()
    if "value" in log.columns:
        usable = (_.value >= 0) & (_.value < MOST_VALUE)  # NaN is not
        faults["the value of a click is not a number of 0 or more"] = (
            _.value.isnull() | ~usable
        )
    if "propensity" in log.columns:
        faults["propensity is not a probability above 0"] = _.propensity.isnull() | ~(
            (_.propensity > 0) & (_.propensity <= 1)
        )
    notes = {
        f"{name} is null or empty (counted as {name} '')": _[name] == ""
        for name in ("ranker", "segment")
        if name in log.columns
    }
    return {
        f"rule_{i}": _Rule(holds, what, "rows", fault=what in faults)
        for i, (what, holds) in enumerate((faults | notes).items())
    }


def _row_fault(log: ir.Table) -> ibis.Deferred:
    return reduce(or_, (rule.holds for rule in _row_rules(log).values() if rule.fault))


@ibis.udf.agg.builtin(name="bit_or")  # type: ignore[untyped-decorator]
def _bit_or(bits: int) -> int:  # type: ignore[empty-body]
    """Spark has this aggregate, and Ibis does not know."""


def _by_session(log: ir.Table) -> ir.Table:
    """One row per session; ranks as bits show whether some rank comes twice.

    Powers of two add up to their bitwise or if and only if none comes twice. Ranks 1 to
    40 are bits of one integer, 41 to 80 of the next, 81 to 120 of the last.
    """
    bits = {f"bit_{word}": _rank_bit(log["rank"], word) for word in range(WORDS)}
    rows = log.select("session_id", "rank", "query_id", **bits)
    bit_or = _bit_or if log.get_backend().name == "pyspark" else methodcaller("bit_or")
    added = {f"added_{word}": rows[f"bit_{word}"].sum() for word in range(WORDS)}
    seen = {f"seen_{word}": bit_or(rows[f"bit_{word}"]) for word in range(WORDS)}
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


def _extremes(log: ir.Table, *, key: str, other: str) -> ir.Table:
    """One row per session and ``key``: its rows, and the extremes of ``other``."""
    groups = log.group_by(["session_id", key])
    return groups.agg(rows=log.count(), low=log[other].min(), high=log[other].max())


_by_rank = partial(_extremes, key="rank", other="doc_id")
_by_document = partial(_extremes, key="doc_id", other="rank")


def _extents(log: ir.Table) -> ir.Table:
    """One row per session: how many ranks it has, the first and the last of them."""
    ranks = log.select("session_id", "rank").distinct()
    return ranks.group_by("session_id").agg(
        rows=ranks.count(), low=ranks["rank"].min(), high=ranks["rank"].max()
    )


SEVERAL = _.low != _.high
GAPS = _Rule(_.high - _.low + 1 != _.rows, "a list has gaps between its ranks")
COMES_TWICE = [_[f"added_{word}"] != _[f"seen_{word}"] for word in range(WORDS)]
SESSION_RULES = {
    "crowded": _Rule(reduce(or_, COMES_TWICE, _.high > BITS * WORDS)),
    "gaps": GAPS,
    "deep": _Rule(_.low > 1, "a list starts deeper than rank 1"),
    "mixed": _Rule(
        _.query_low != _.query_high,
        "a session has more than one query (it counts for each)",
    ),
}
RANK_RULES = {
    "clashes": _Rule(
        SEVERAL,
        "two documents at one rank of a session (is a session one query issued? if "
        "ranks begin anew on each page, give --page or --offset)",
        "ranks",
        fault=True,
    ),
    "repeats": _Rule(
        (_.low == _.high) & (_.rows > 1),
        "an impression is repeated (merged; clicked if one of them was)",
        "impressions",
    ),
}
DOCUMENT_RULES = {
    "moved": _Rule(
        SEVERAL, "one document at two ranks of a session", "documents", fault=True
    )
}
