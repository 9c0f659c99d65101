"""Faults of a log, found by the engine that has it.

Faults make rows unusable; peculiarities are reported, and counted as they are. The log
is one that :func:`affinerank.logs.options.normalised` has brought onto our columns. The
rules are those of :mod:`affinerank.logs.rules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
from ibis import _

from affinerank.engines.engine import integer_totals, union_all
from affinerank.engines.errors import engine_errors
from affinerank.engines.opening import engine_of
from affinerank.logs.report import Finding, LogReport, shortened
from affinerank.logs.rules import (
    DOCUMENT_RULES,
    GAPS,
    RANK_RULES,
    SESSION_RULES,
    SEVERAL,
    Rule,
    breaks_a_rule,
    by_document,
    by_rank,
    by_session,
    extents,
    row_rules,
)
from affinerank.logs.session_scan import SessionScan
from affinerank.support.progress import Progress, no_progress

EXAMPLES = 3


@engine_errors("the log")
def validate(*log: ir.Table, progress: Progress = no_progress) -> LogReport:
    """Look for faults and peculiarities of a log, or of parts without common queries.

    Some engines see in one pass which kinds there may be, and in which sessions; only
    those are searched again. Other engines search for all of them.
    """
    scan = SessionScan.of(log, progress)
    parts = scan.parts
    rows = scan.rows
    sessions = scan.sessions
    findings: list[Finding] = []

    # Single rows. Those with a fault are left out of the groups below.
    if scan.odd:
        single = Search.of(parts, lambda rows: rows, row_rules(parts[0]))
        rows = single.numbers["all"]
        findings = single.findings()
        if any(finding.fault for finding in findings):
            parts = [part.filter(~breaks_a_rule(part)) for part in parts]

    # Sessions, and where a rank may come twice in one, their ranks.
    lists = None
    crowded = False
    if scan.ragged:
        ragged = scan.only(parts, "ragged")
        lists = Search.of(ragged, by_session, SESSION_RULES)
        others = 0 if ragged is parts else scan.sessions - scan.ragged
        sessions = lists.numbers["all"] + others
        if lists.numbers["crowded"]:
            ranks = Search.of(ragged, by_rank, RANK_RULES).findings("rank")
            findings += ranks
            crowded = bool(ranks)

    # Documents that may come twice in a session.
    if scan.alike:
        alike = scan.only(parts, "alike")
        findings += Search.of(alike, by_document, DOCUMENT_RULES).findings("doc_id")

    # Ranks that come twice would hide gaps, so those are searched without repeats.
    if crowded:
        findings += Search.of(ragged, extents, {"gaps": GAPS}).findings()
    if lists is not None:
        findings += lists.findings(without="gaps" if crowded else "")

    return LogReport(
        rows,
        sessions,
        findings=tuple(sorted(findings, key=lambda finding: not finding.fault)),
        repeats=crowded,
        plain=not scan.ragged,
        suspects=None if scan.mostly_ragged else scan.suspects,
    )


def without_bad_sessions(
    parts: Sequence[ir.Table], report: LogReport
) -> tuple[list[ir.Table], int]:
    """Leave out every session that has a fault, whole; return how many there are.

    Rows without a session are left out too, and belong to none. Only the report's
    suspects are looked at, where they are known.
    """
    engine = engine_of(parts[0])
    searched = engine.in_parts(union_all(parts), "session_id", report.rows)
    if report.suspects is not None:
        searched = [part.semi_join(report.suspects, "session_id") for part in searched]
    bad = engine.materialised([_bad_sessions(part) for part in searched])
    good = [
        part.filter(~breaks_a_rule(part)).anti_join(bad, "session_id") for part in parts
    ]
    return good, integer_totals(bad, n=bad.count())["n"]


def _bad_sessions(log: ir.Table) -> ir.Table:
    """Return the ids of sessions with a fault, each once."""
    fault = breaks_a_rule(log)
    good = log.filter(~fault)
    bad_groups = (
        log.filter(fault & _.session_id.notnull()),
        by_rank(good).filter(SEVERAL),
        by_document(good).filter(SEVERAL),
    )
    ids = [groups.select("session_id") for groups in bad_groups]
    return ibis.union(*ids, distinct=True)


@dataclass(frozen=True, slots=True)
class Search:
    """How many groups of a log there are, and how many meet each of some rules.

    Attributes:
        grouped: Makes the groups.
        rules: By name.
        numbers: Number of groups that meet each rule, and of ``all``.
        first: A part of the log that has such groups.
    """

    grouped: Callable[[ir.Table], ir.Table]
    rules: Mapping[str, Rule]
    numbers: Mapping[str, int]
    first: Mapping[str, ir.Table]

    @classmethod
    def of(
        cls,
        parts: Sequence[ir.Table],
        grouped: Callable[[ir.Table], ir.Table],
        rules: Mapping[str, Rule],
    ) -> Search:
        """Search the log, part by part."""
        numbers: Counter[str] = Counter()
        first: dict[str, ir.Table] = {}
        sums = {name: rule.holds.sum() for name, rule in rules.items()}
        for part in parts:
            totals = integer_totals(grouped(part), all=_.count(), **sums)
            numbers.update(totals)
            for name, number in totals.items():
                if number:
                    first.setdefault(name, part)
        return cls(grouped, rules, numbers, first)

    def findings(self, key: str | None = None, without: str = "") -> list[Finding]:
        """Report what was found, but for one rule.

        Args:
            key: With ``session_id``, the column that tells groups apart; examples are
                then rows of the log. ``None``: examples are groups.
            without: The name of the rule that is left out.
        """
        return [
            Finding(
                rule.what,
                rule.fault,
                self.numbers[name],
                rule.unit,
                self._examples(name, rule, key),
                rule.column,
            )
            for name, rule in self.rules.items()
            if rule.what and self.numbers[name] and name != without
        ]

    def _examples(
        self, name: str, rule: Rule, key: str | None
    ) -> tuple[dict[str, object], ...]:
        """Return a few groups that meet a rule, or the rows in them."""
        few = self.grouped(self.first[name]).filter(rule.holds)
        if key is not None:
            keys = ["session_id", key]
            groups = few.select(*keys).limit(EXAMPLES)
            few = self.first[name].semi_join(groups, keys)
        elif rule.unit == "sessions":
            few = few.select("session_id", "low", "high")
        rows = few.limit(2 * EXAMPLES).to_pyarrow().to_pylist()
        return tuple(shortened(row) for row in rows)
