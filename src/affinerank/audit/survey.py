"""A log looked over: its faults, its counts, its lists, its days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import ibis
import ibis.expr.types as ir

from affinerank.counts.counting import count_log
from affinerank.counts.counts import ClickCounts
from affinerank.engines.engine import integer_totals
from affinerank.engines.errors import engine_errors
from affinerank.engines.opening import engine_of
from affinerank.logs.faults import validate, without_bad_sessions
from affinerank.logs.options import LogOptions, normalised
from affinerank.logs.report import LogReport
from affinerank.support.errors import DataError
from affinerank.support.files import PathLike
from affinerank.support.progress import Progress

DAY = 86_400.0


@dataclass(frozen=True, slots=True, eq=False)
class LogSurvey:
    """What is known of a log before anything is estimated from it.

    Attributes:
        report: Rows read, with faults and peculiarities.
        dropped: ``sessions`` and ``rows`` left out for their faults.
        counts: Of what is left; none where nothing is.
        lists: Different lists that were shown: the same documents in the same order.
        lists_once: Those shown once.
        days: From the first moment to the last, where the log has dates.
    """

    report: LogReport
    dropped: Mapping[str, int]
    counts: ClickCounts | None = None
    lists: int = 0
    lists_once: int = 0
    days: float | None = None


def survey_log(
    table: ir.Table, target: PathLike, options: LogOptions, progress: Progress
) -> LogSurvey:
    """Check and count a log; sessions with faults are left out, whole, and reported.

    Args:
        table: The log, as ``open_table`` gives it.
        target: A file for its counts.
        options: How the log is to be read.
        progress: Called at each step.
    """
    normalised(table, options)  # wrong names are found before anything is read
    table = engine_of(table).parsed_once(table, Path(target).parent)
    log = normalised(table, options)
    try:
        counted = count_log(
            table,
            target,
            options=options,
            bad_rows="drop",
            context="last-click",
            progress=progress,
        )
    except DataError:
        report = validate(log)
        if report.rows and not report.faults:
            raise
        return LogSurvey(report, {"sessions": report.sessions, "rows": report.rows})
    report = counted.report or validate(log)
    with engine_errors("the log"):
        if report.faults:
            [log], _ = without_bad_sessions([log], report)
        lists, once = _lists(log, report)
        days = _days(table, options)
    dropped = counted.summary["dropped"]
    return LogSurvey(report, dropped, ClickCounts.load(target), lists, once, days)


def _lists(log: ir.Table, report: LogReport) -> tuple[int, int]:
    """Count the different lists of a log, and those shown once.

    A list is known by the sum of hashes of its documents and their ranks.
    """
    found: Counter[str] = Counter()
    for part in engine_of(log).in_parts(log, "query_id", report.rows):
        rank = part["rank"].cast("string")
        place = (part.doc_id.cast("string") + ibis.literal(" ") + rank).hash()
        shown = part.select("session_id", "query_id", place=place % (2**31 - 1))
        if report.repeats:
            shown = shown.distinct()
        by_session = shown.group_by(["query_id", "session_id"])
        sessions = by_session.agg(mark=shown.place.sum())
        by_list = sessions.group_by(["query_id", "mark"]).agg(times=sessions.count())
        once = by_list.count(where=by_list.times == 1)
        found.update(integer_totals(by_list, lists=by_list.count(), once=once))
    return found["lists"], found["once"]


def _days(table: ir.Table, options: LogOptions) -> float | None:
    """Return days from the first row to the last; plain numbers have no known unit."""
    if options.name_of("timestamp") not in table.columns:
        return None
    log = normalised(table, options, timed=True)
    if log.timestamp.type().is_numeric():
        return None
    second = log.timestamp.epoch_seconds().cast("float64")
    found = integer_totals(log, first=second.min(), last=second.max())
    return (found["last"] - found["first"]) / DAY or None
