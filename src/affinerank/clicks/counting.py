"""From a click log to counts: one Ibis expression, run by the engine that has the log.

The result goes into a Parquet file and is never held in memory: DuckDB writes it
itself, the result of other engines is written batch by batch.
"""

from __future__ import annotations

import glob
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.clicks.checks import (
    Finding,
    LogFaultsError,
    LogReport,
    validate,
    without_bad_sessions,
)
from affinerank.clicks.counts import (
    EXTRA_KEYS,
    HELD_OUT,
    KEPT,
    KEYS,
    NUMBERS,
    checked_share,
    split_by_query,
)
from affinerank.clicks.engines import (
    engine_errors,
    in_parts,
    is_duckdb,
    open_table,
    quoted,
)
from affinerank.clicks.log import LogOptions, normalised, seconds_of
from affinerank.errors import ConfigError, DataError
from affinerank.files import written_whole
from affinerank.progress import Progress, quiet

__all__ = ["Counted", "count_log", "counts_expression", "open_table", "write_counts"]

ROWS_AT_ONCE = 250_000


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted, and what was wrong with it.

    Attributes:
        report: Findings about the log as it was read; ``None`` if it was not checked.
        summary: Rows, sessions, queries, documents, ranks, impressions, clicks,
            dropped, seconds.
    """

    report: LogReport | None
    summary: dict[str, Any]

    def findings(self) -> list[dict[str, Any]]:
        """What the report holds, as plain data."""
        return (
            [asdict(finding) for finding in self.report.findings] if self.report else []
        )


def count_log(
    table: ir.Table,
    target: str | os.PathLike[str],
    *,
    options: LogOptions | None = None,
    bad_rows: str = "error",
    check: bool = True,
    holdout: float | None = None,
    holdout_by: str = "query",
    holdout_from: str | None = None,
    progress: Progress = quiet,
) -> Counted:
    """Count a log into a Parquet file that :meth:`ClickCounts.load` reads.

    Args:
        table: The log, as :func:`open_table` gives it.
        target: The file to write; it appears whole or not at all.
        options: How the log is to be read.
        bad_rows: ``"error"`` refuses a log with faults; ``"drop"`` leaves out the
            sessions that have some, whole, and says how many.
        check: Look for faults first. Unchecked, a faulty log is counted as it is, and
            a repeated impression counts twice.
        holdout: Share to set aside as the split ``"holdout"``.
        holdout_by: Whether to set aside queries, by a hash of their ids, or the last
            sessions.
        holdout_from: Instead, set the sessions aside that began at this moment or
            later.
        progress: Told of each step.
    """
    started = time.perf_counter()
    _require_choice("bad_rows", bad_rows, "error", "drop")
    _require_choice("holdout_by", holdout_by, "query", "time")
    share = None if holdout is None else checked_share(holdout)
    if holdout_by == "time" and share is None and holdout_from is None:
        raise ConfigError(
            "--holdout-by time needs the share to set aside (--holdout 0.2) or the "
            "moment to split at (--holdout-from)"
        )
    if share is not None and holdout_from is not None:
        raise ConfigError("hold out a share, or from a moment on, not both")
    asked = options or LogOptions()
    by_time = holdout_from is not None or (share is not None and holdout_by == "time")
    log = normalised(table, asked, timed=by_time)
    report, dropped = None, {"sessions": 0, "rows": 0}
    if check:
        progress("checking the log", 0, 1)
        report = _with_left_out(validate(log), table, asked)
        if report.faults:
            if bad_rows == "error":
                raise LogFaultsError(report)
            log, dropped = _dropped(log, report)
        progress("checking the log", 1, 1)
    progress("counting", 0, 1)
    with engine_errors("the log"):
        if by_time:
            log = _split_by_time(log, share, holdout_from)
        rows = report.rows if report else int(log.count().to_pyarrow().as_py())
        repeats = report is not None and report.repeats
        parts = [
            counts_expression(part, repeats=repeats)
            for part in in_parts(log, "query_id", rows)
        ]
        write_counts(parts, target, holdout=None if by_time else share)
        summary = summarise(target, table)
    progress("counting", 1, 1)
    return Counted(
        report,
        {
            "rows": rows,
            **summary,
            "dropped": dropped,
            "seconds": time.perf_counter() - started,
        },
    )


def counts_expression(log: ir.Table, *, repeats: bool = False) -> ir.Table:
    """Impressions and clicks per key, with the sessions of the query beside them."""
    extra = [name for name in EXTRA_KEYS if name in log.columns]
    keys = [*KEYS, *extra]
    if repeats:
        log = log.group_by(["session_id", *keys]).agg(clicked=log.clicked.max())
    by = ["query_id", *extra]
    # Two selections, which engines read in two passes: DuckDB would keep one that is
    # used twice aside. Counting clicked rows is a sum that it does not widen.
    shown, issued = log.select(*keys, "clicked"), log.select(*by, "session_id")
    counts = shown.group_by(keys).agg(
        impressions=shown.count(), clicks=shown.count(where=shown.clicked == 1)
    )
    sessions = issued.group_by(by).agg(sessions=issued.session_id.nunique())
    return counts.join(sessions, by).select(*keys, *NUMBERS)


def write_counts(
    parts: Sequence[ir.Table],
    target: str | os.PathLike[str],
    *,
    holdout: float | None = None,
) -> None:
    """Write the results of :func:`counts_expression` into one Parquet file.

    Args:
        parts: The counts of a log, or of parts of it that have no query in common.
        target: The file; it appears whole or not at all.
        holdout: Share of queries to set aside.
    """
    with written_whole(Path(target)) as aside:
        if is_duckdb(parts[0]) and holdout is None:
            _copy(parts, aside)
        else:
            _write_batches(parts, aside, holdout)
        if not aside.exists() or pq.read_metadata(aside).num_rows == 0:
            raise DataError("there is nothing to count: no row is left of the log")


def _copy(parts: Sequence[ir.Table], path: Path) -> None:
    """Let DuckDB write the file; several parts are put together on its disk."""
    backend, whole = parts[0].get_backend(), parts[0]
    if len(parts) > 1:
        name = f"affinerank_{uuid.uuid4().hex}"
        whole = backend.create_table(name, schema=parts[0].schema(), temp=True)
        for part in parts:
            backend.insert(name, part)
    query = ibis.to_sql(whole, dialect="duckdb")
    backend.raw_sql(f"COPY ({query}) TO {quoted(path)} (FORMAT parquet)")
    if len(parts) > 1:
        backend.raw_sql(f"DROP TABLE {name}")


def _write_batches(
    parts: Sequence[ir.Table], path: Path, holdout: float | None
) -> None:
    writer = None
    for part in parts:
        for batch in part.to_pyarrow_batches(chunk_size=ROWS_AT_ONCE):
            table = _typed(pa.Table.from_batches([batch]))
            if holdout is not None:
                table = table.append_column("split", split_by_query(table, holdout))
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
    if writer is not None:
        writer.close()


def summarise(counts: str | os.PathLike[str], log: ir.Table) -> dict[str, Any]:
    """Sizes of a file of counts, without loading it.

    Where ``log`` is DuckDB's, so is this, within the same memory.
    """
    groups = pq.read_metadata(counts).num_rows
    if not is_duckdb(log):
        with open_table(str(counts)) as table:
            return _sizes(in_parts(table, "query_id", groups))
    table = log.get_backend().read_parquet(glob.escape(str(counts)))
    return _sizes(in_parts(table, "query_id", groups))


def _sizes(parts: Sequence[ir.Table]) -> dict[str, int]:
    """Add up the sizes of parts that have no query in common."""
    sizes = dict.fromkeys(
        ("sessions", "queries", "documents", "ranks", "impressions", "clicks"), 0
    )
    groups = 0
    for table in parts:
        by = [name for name in ("query_id", *EXTRA_KEYS) if name in table.columns]
        per_query = table.group_by(by).agg(sessions=table.sessions.max())
        documents = table.select("query_id", "doc_id").distinct()
        queries = documents.query_id.nunique()
        for found in (
            per_query.agg(sessions=per_query.sessions.sum()),
            documents.agg(documents=documents.count(), queries=queries),
            table.agg(impressions=table.impressions.sum(), clicks=table.clicks.sum()),
        ):
            for name, value in found.to_pyarrow().to_pylist()[0].items():
                sizes[name] += int(value or 0)
        deepest = table.agg(ranks=table["rank"].max(), groups=table.count())
        row = deepest.to_pyarrow().to_pylist()[0]
        sizes["ranks"] = max(sizes["ranks"], int(row["ranks"] or 0))
        groups += int(row["groups"])
    return {**sizes, "groups": groups}


def _with_left_out(report: LogReport, table: ir.Table, asked: LogOptions) -> LogReport:
    """Say how many rows the options left out, where some do."""
    if not asked.chooses:
        return report
    with engine_errors("the log"):
        left_out = int(table.count().to_pyarrow().as_py()) - report.rows
    if left_out == 0:
        return report
    what = "left out as asked (--where, --since, --until, --max-sessions-per-user)"
    return replace(
        report, findings=(*report.findings, Finding(what, False, left_out, "rows"))
    )


def _dropped(log: ir.Table, report: LogReport) -> tuple[ir.Table, dict[str, int]]:
    with engine_errors("the log"):
        kept, sessions = without_bad_sessions(log, report.rows)
        rows = int(kept.count().to_pyarrow().as_py())
    return kept, {"sessions": sessions, "rows": report.rows - rows}


def _split_by_time(log: ir.Table, share: float | None, since: str | None) -> ir.Table:
    """Set the last ``share`` of sessions aside, or those that began at ``since`` on."""
    moment = log.timestamp
    if not moment.type().is_numeric():
        moment = moment.epoch_seconds().cast("float64")
    begun = (
        log.select("session_id", moment=moment)
        .group_by("session_id")
        .agg(begun=lambda t: t.moment.min())
    )
    cut = _cut(begun.begun, share, since, numeric=log.timestamp.type().is_numeric())
    split = ibis.ifelse(begun.begun >= cut, HELD_OUT, KEPT)
    sides = begun.select("session_id", split=split)
    return log.join(sides, "session_id").drop("timestamp")


def _cut(
    times: ir.Column, share: float | None, since: str | None, *, numeric: bool
) -> float:
    """The moment from which on sessions are held out; some begin before, some later."""
    if since is not None:
        cut = seconds_of(since, "--holdout-from", numeric=numeric)
        sides = times.as_table().agg(before=(times < cut).sum(), all=times.count())
        row = sides.to_pyarrow().to_pylist()[0]
        before = int(row["before"] or 0)
        if before in (0, int(row["all"])):
            when = "from then on" if before else "before"
            raise DataError(
                f"--holdout-from {since}: no session began {when}, so there is nothing "
                f"to {'hold out' if before else 'learn from'}"
            )
        return cut
    kept = 1 - (share or 0.0)
    limits = times.as_table().agg(cut=times.quantile(kept), first=times.min())
    found = limits.to_pyarrow().to_pylist()[0]
    if found["cut"] is None or found["cut"] <= found["first"]:
        raise DataError(
            "holding out by time needs sessions that began at different moments; "
            f"the first {kept:.0%} of them began at one"
        )
    return float(found["cut"])


def _require_choice(name: str, value: str, *choices: str) -> None:
    if value not in choices:
        raise ConfigError(f"{name} must be {' or '.join(choices)}, got {value!r}")


def _typed(table: pa.Table) -> pa.Table:
    """Give every engine's result the same types."""
    columns = {}
    for name in table.column_names:
        column = table[name]
        whole = name in NUMBERS or name == "rank" or pa.types.is_integer(column.type)
        columns[name] = column.cast(pa.int64() if whole else pa.string())
    return pa.table(columns)
