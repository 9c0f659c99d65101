"""A log looked over for its owner: its faults, its counts, its lists, its days."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any

import ibis
import ibis.expr.types as ir

from affinerank.clicks.checks import LogReport, validate, without_bad_sessions
from affinerank.clicks.counting import count_log
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.engines import engine_errors, in_parts
from affinerank.clicks.log import LogOptions, normalised
from affinerank.errors import DataError
from affinerank.progress import Progress, quiet

DAY = 86_400.0


@dataclass(frozen=True, slots=True, eq=False)
class LogSurvey:
    """What there is to know of a log before anything is estimated from it.

    Attributes:
        rows: Rows read.
        findings: Faults and peculiarities, as plain data, faults first.
        dropped: ``sessions`` and ``rows`` left out for their faults.
        counts: Of what is left; none where nothing is.
        lists: Different lists that were shown: the same documents in the same order.
        lists_once: Those shown once.
        days: From the first moment to the last, where the log has dates.
    """

    rows: int
    findings: tuple[dict[str, Any], ...]
    dropped: dict[str, int]
    counts: ClickCounts | None
    lists: int
    lists_once: int
    days: float | None


def survey_log(
    table: ir.Table,
    target: str | os.PathLike[str],
    *,
    options: LogOptions | None = None,
    progress: Progress = quiet,
) -> LogSurvey:
    """Check and count a log; sessions with faults are left out, whole, and reported.

    Args:
        table: The log, as :func:`affinerank.clicks.counting.open_table` gives it.
        target: A file for its counts.
        options: How the log is to be read.
        progress: Told of each step.
    """
    asked = options or LogOptions()
    log = normalised(table, asked)
    try:
        counted = count_log(
            table, target, options=asked, bad_rows="drop", progress=progress
        )
    except DataError:
        report = validate(log)
        if report.rows and not report.faults:
            raise
        lost = {"sessions": report.sessions, "rows": report.rows}
        return LogSurvey(report.rows, _plain(report), lost, None, 0, 0, None)
    report = counted.report or validate(log)
    with engine_errors("the log"):
        if report.faults:
            log, _ = without_bad_sessions(log, report.rows)
        lists, once = _lists(log, report)
        days = _days(table, asked)
    return LogSurvey(
        report.rows,
        _plain(report),
        counted.summary["dropped"],
        ClickCounts.load(target),
        lists,
        once,
        days,
    )


def _plain(report: LogReport) -> tuple[dict[str, Any], ...]:
    return tuple(asdict(finding) for finding in report.findings)


def _lists(log: ir.Table, report: LogReport) -> tuple[int, int]:
    """How many different lists a log shows, and how many of them once.

    A list is known by the sum of hashes of its documents and their ranks.
    """
    lists = once = 0
    for part in in_parts(log, "query_id", report.rows):
        rank = part["rank"].cast("string")
        place = (part.doc_id.cast("string") + ibis.literal(" ") + rank).hash()
        shown = part.select("session_id", "query_id", place=place % (2**31 - 1))
        if report.repeats:
            shown = shown.distinct()
        sessions = shown.group_by(["query_id", "session_id"]).agg(
            mark=shown.place.sum()
        )
        by_list = sessions.group_by(["query_id", "mark"]).agg(times=sessions.count())
        found = by_list.agg(
            lists=by_list.count(), once=by_list.count(where=by_list.times == 1)
        )
        row = found.to_pyarrow().to_pylist()[0]
        lists, once = lists + int(row["lists"]), once + int(row["once"])
    return lists, once


def _days(table: ir.Table, options: LogOptions) -> float | None:
    """Days from the first row to the last; numbers do not tell what they count."""
    if options.name_of("timestamp") not in table.columns:
        return None
    log = normalised(table, options, timed=True)
    if log.timestamp.type().is_numeric():
        return None
    second = log.timestamp.epoch_seconds().cast("float64")
    ends = log.agg(first=second.min(), last=second.max())
    found = ends.to_pyarrow().to_pylist()[0]
    if found["first"] is None or found["last"] <= found["first"]:
        return None
    return float(found["last"] - found["first"]) / DAY
