"""One pass over a log that tells which sessions may have faults.

Only those are searched again, where the engine has such a pass; else all are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

import ibis.expr.types as ir
from ibis import _

from affinerank.engines.engine import integer_totals, union_all
from affinerank.engines.opening import engine_of
from affinerank.logs.rules import row_rules
from affinerank.logs.schema import session_keys
from affinerank.support.progress import Progress


@dataclass(frozen=True, slots=True)
class SessionScan:
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
    def of(cls, parts: Sequence[ir.Table], progress: Progress) -> SessionScan:
        """Look at every session once, if the engine has such a pass."""
        engine = engine_of(parts[0])
        queries = [_scan(part) for part in parts]
        if any(query is None for query in queries):
            return cls(parts)

        # One row per session, part by part.
        tables: list[ir.Table] = []
        rows_before = 0
        rows = [integer_totals(part, n=_.count())["n"] for part in parts]
        for query, size in zip(queries, rows, strict=True):
            with engine.with_progress(
                progress, "checking the log", size, rows_before, sum(rows)
            ):
                tables.append(engine.materialised([query]))
            rows_before += size
        sessions = union_all(tables)
        sums = {name: _[name].sum() for name in ("odd", "alike", "ragged")}
        totals = integer_totals(sessions, sessions=_.count(), **sums)

        # A session of several queries may be in several parts.
        if len(parts) > 1:
            n_sessions = _distinct_sessions(sessions, totals["sessions"])
            if n_sessions < totals["sessions"]:
                return cls(engine.in_parts(union_all(parts), "session_id", sum(rows)))

        if totals["alike"]:
            sessions = _confirm_repeated_documents(parts, sessions)
            totals |= integer_totals(sessions, alike=_.alike.sum())
        scan = cls(parts, sum(rows), **totals)
        is_suspect = _.alike if scan.mostly_ragged else _.alike | _.ragged
        suspects = sessions.filter(is_suspect).select("session_id", "alike", "ragged")
        suspects = engine.materialised([suspects])
        for table in tables:  # counting needs the memory
            engine.drop(table)
        return replace(scan, suspects=suspects)

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


def _scan(log: ir.Table) -> ir.Table | None:
    """Return a query for one row per session, of what is to be looked at."""
    engine = engine_of(log)
    rules = row_rules(log, engine.length_bound).values()
    marked = {"fault": reduce(or_, (rule.holds for rule in rules if rule.fault))}
    notes = [rule.holds for rule in rules if not rule.fault]
    if notes:
        marked["note"] = reduce(or_, notes)
    return engine.scan_sessions(log.mutate(**marked), session_keys(log.columns))


def _distinct_sessions(sessions: ir.Table, n_rows: int) -> int:
    """Count the different sessions in a table of ``n_rows``."""
    parts = engine_of(sessions).in_parts(sessions, "session_id", n_rows)
    return sum(integer_totals(part, n=_.session_id.nunique())["n"] for part in parts)


def _confirm_repeated_documents(
    parts: Sequence[ir.Table], sessions: ir.Table
) -> ir.Table:
    """Keep the mark ``alike`` only where a session has a document twice.

    Sessions with the same fingerprint have the same documents, so one of them is looked
    at for all. Longer sessions have no fingerprint, and keep the mark.
    """
    engine = engine_of(sessions)
    fingerprinted = sessions.filter(_.documents.notnull())
    examined = fingerprinted.group_by("documents").agg(
        session_id=_.session_id.min(), size=_["size"].max()
    )
    examined = engine.materialised([examined])

    # The list of a session's documents stays in memory, unlike other groups.
    rows = 4 * integer_totals(examined, n=_["size"].sum())["n"]
    repeated = engine.materialised(
        [
            _fingerprints_with_repeats(part.join(few, "session_id"))
            for part in parts
            for few in engine.in_parts(examined, "documents", rows)
        ]
    )
    is_repeated = _.documents.isnull() | _.documents.isin(repeated.documents)
    return sessions.mutate(alike=_.alike & is_repeated)


def _fingerprints_with_repeats(rows: ir.Table) -> ir.Table:
    """Return the fingerprints whose session has fewer different documents than rows."""
    engine = engine_of(rows)
    hashes = rows.select("documents", doc=engine.hashed(rows.doc_id))
    lists = hashes.group_by("documents").agg(
        rows=_.count(), different=engine.count_different(_.doc)
    )
    return lists.filter(_.different < _.rows).select("documents")
