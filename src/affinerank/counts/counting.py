"""Count a click log: one Ibis expression, run by the engine that has the log.

The result goes into a Parquet file and is never held in memory: an engine in this
process writes it itself, the result of other engines is written batch by batch.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, get_args

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq
from ibis import _

from affinerank.counts.counts import HELD_OUT, KEPT, require_share, split_by_query
from affinerank.counts.ranker_times import MOST_RANKERS, RankerTimes, to_metadata
from affinerank.counts.sampled_test import findings_of, look_at_some_sessions
from affinerank.counts.table import EXPOSURE, NUMBERS, VALUES, row_keys, typed_column
from affinerank.engines.engine import Engine, integer_totals, union_all
from affinerank.engines.errors import engine_errors
from affinerank.engines.opening import engine_of, open_table
from affinerank.logs.faults import validate, without_bad_sessions
from affinerank.logs.last_click import Context, with_context
from affinerank.logs.options import LogOptions, normalised, parse_moment, unread
from affinerank.logs.report import Finding, LogFaultsError, LogReport, shortened
from affinerank.logs.schema import RANDOMISED, session_keys
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import PathLike, atomic_write
from affinerank.support.progress import Progress, no_progress
from affinerank.support.settings import require_choice

__all__ = ["Counted", "count_log", "counts_expression", "open_table", "write_counts"]

DOCUMENTS_COUNTED = 1_000_000  # one by one, about; of more, a share by hash


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted, and what was wrong with it.

    Attributes:
        report: Findings about the log as it was read; ``None`` if it was not checked.
        summary: Rows, sessions, queries, documents, ranks, impressions, clicks, groups,
            dropped, seconds. Beyond a million groups, documents are an estimate,
            rounded to three digits.
    """

    report: LogReport | None
    summary: dict[str, Any]

    def findings(self) -> list[dict[str, Any]]:
        """Return the findings as plain data."""
        return [asdict(found) for found in self.report.findings] if self.report else []


@engine_errors("the log")
def count_log(
    table: ir.Table,
    target: PathLike,
    *,
    options: LogOptions | None = None,
    bad_rows: str = "error",
    check: bool = True,
    context: Context = "none",
    holdout: float | None = None,
    holdout_by: str = "query",
    holdout_from: str | None = None,
    progress: Progress = no_progress,
) -> Counted:
    """Count a log into a Parquet file that :meth:`ClickCounts.load` reads.

    Args:
        table: The log, as :func:`open_table` gives it.
        target: The file to write; it appears whole or not at all.
        options: How the log is read.
        bad_rows: ``"error"`` rejects a log with faults; ``"drop"`` leaves out the
            sessions that have some, whole, and reports how many.
        check: Look for faults first. Unchecked, a faulty log is counted as it is, and
            a repeated impression counts twice.
        context: Whether to count by the rank of the last click above, too; ``"auto"``
            does where clicks depend on the clicks above, and a finding says so.
        holdout: Share to set aside as the split ``"holdout"``.
        holdout_by: Whether to set aside queries, by a hash of their ids, or the last
            sessions.
        holdout_from: Instead, set aside the sessions that began at this moment or
            later.
        progress: Called at each step.
    """
    started = time.perf_counter()
    by_time = _held_out_by_time(holdout, holdout_by, holdout_from)
    require_choice("context", context, get_args(Context))
    require_choice("bad_rows", bad_rows, ("error", "drop"))
    settings = options or LogOptions()
    normalised(table, settings, timed=by_time)  # wrong names are found before reading
    report, dropped = None, {"sessions": 0, "rows": 0}
    engine = engine_of(table)
    with engine.work_folder() as folder:
        table = engine.parsed_once(table, folder)
        log = normalised(table, settings, timed=by_time)
        rows = _rows(log)
        parts = engine.write_partitions(log, rows, folder, progress)
        if check:
            report = validate(*parts, progress=progress)
            left_out = _rows(table) - rows if settings.chooses else 0
            if left_out:
                what = (
                    "left out by --where, --since, --until or --max-sessions-per-user"
                )
                report = report.noting(Finding(what, False, left_out, "rows"))
            if report.faults:
                report = _as_given(report, table, settings)
                if bad_rows == "error":
                    raise LogFaultsError(report)
                parts, sessions = without_bad_sessions(parts, report)
                dropped = {"sessions": sessions, "rows": rows - _rows(union_all(parts))}
        if by_time:
            parts = _split_by_time(parts, holdout, holdout_from)
        plain = report is not None and report.plain
        if report is not None or context == "auto":
            repeats = report is None or report.repeats
            log = union_all(parts)
            test = look_at_some_sessions(log, rows, repeats=repeats, plain=plain)
            if context == "auto":
                context = "last-click" if test is not None and test.found else "none"
            if report is not None and test is not None:
                report = report.noting(*findings_of(test, context))
        if context == "last-click":
            parts = [with_context(part, plain=plain) for part in parts]
        known = {"repeats": report.repeats, "plain": report.plain} if report else {}
        counts = [counts_expression(part, **known) for part in parts]
        share = None if by_time else holdout
        files = write_counts(
            counts,
            target,
            folder,
            holdout=share,
            ranker_times=_times_of_rankers(table, settings),
            progress=progress,
        )
        about = {"rows": rows, **_sizes(files, engine, plain=plain), "dropped": dropped}
    return Counted(report, {**about, "seconds": time.perf_counter() - started})


def _as_given(report: LogReport, table: ir.Table, options: LogOptions) -> LogReport:
    """Show what could not be read as the log has it, in examples of faults."""
    findings = []
    for found in report.findings:
        name = found.column
        if name and any(row.get(name, "") is None for row in found.examples):
            rows = unread(table, options, name, len(found.examples))
            findings.append(replace(found, examples=tuple(map(shortened, rows))))
        else:
            findings.append(found)
    return replace(report, findings=tuple(findings))


def counts_expression(
    log: ir.Table, *, repeats: bool = False, plain: bool | None = None
) -> ir.Table:
    """Count impressions and clicks per key, with the sessions of the query.

    Where sessions are ``plain``, each has one impression at rank 1, and those are
    counted; else the sessions are. Where the engine can, that is done at once: joining
    the result is faster then.
    Unchecked, a query has as many sessions as impressions at rank 1, or as its most
    frequent row if larger.

    Where the log declares which places a policy drew, impressions there are counted as
    ``randomised``. Where the log has propensities, the exposure of a document at a rank
    is the number of impressions that its query had at the rank, times the harmonic mean
    of the document's propensities there: they are known where it was shown alone.

    Args:
        log: The log, under our names.
        repeats: Whether impressions may be there more than once; they are merged.
        plain: Whether sessions are, as :class:`LogReport` says; unchecked, none.
    """
    engine = engine_of(log)
    by, keys = session_keys(log.columns), list(row_keys(log.columns))
    valued = ["value"] if "value" in log.columns else []
    known = ["propensity"] if "propensity" in log.columns else []
    declared = [RANDOMISED] if RANDOMISED in log.columns else []
    if "context" in keys:
        known = []  # propensities go by rank alone
    if repeats:
        columns = ("clicked", *valued, *known, *declared)
        once = {name: _[name].max() for name in columns}
        log = log.group_by(["session_id", *keys]).agg(**once)
    # Two selections, which engines read in two passes: one that is used twice might be
    # kept aside. Counting clicked rows is a sum that no engine widens.
    shown = log.select(*keys, "clicked", *valued, *known, *declared)
    sums = {"impressions": _.count(), "clicks": _.count(where=_.clicked == 1)}
    if valued:
        sums |= {"value": _.value.sum(), "value_squares": (_.value * _.value).sum()}
    if declared:
        sums[RANDOMISED] = _.count(where=_[RANDOMISED] == 1)
    if known:
        sums["harmonic"] = _.count() / (1 / _.propensity).sum()
    counts = shown.group_by(keys).agg(**sums)
    if known:
        at_rank = shown.group_by([*by, "rank"]).agg(at_rank=_.count())
        counts = counts.join(at_rank, [*by, "rank"])
        counts = counts.mutate(exposure=_.harmonic * _.at_rank)
    if plain is None:
        first = _.impressions.sum(where=_["rank"] == 1)
        most = ibis.greatest(_.impressions.max(), first.fill_null(0))
        sessions = counts.group_by(by).agg(sessions=most.cast("decimal(38, 0)"))
        sessions = sessions.cast({"sessions": "int64"})  # sums may be wider
    elif plain:
        tops = log.filter(_["rank"] == 1).select(*by)
        sessions = engine.materialised([tops.group_by(by).agg(sessions=_.count())])
    else:
        issued = log.select(*by, "session_id")
        number = _.session_id.nunique()
        sessions = engine.materialised([issued.group_by(by).agg(sessions=number)])
    exposure = [EXPOSURE] if known else []
    values = VALUES if valued else ()
    return counts.join(sessions, by).select(
        *keys, *NUMBERS, *values, *exposure, *declared
    )


def write_counts(
    parts: Sequence[ir.Table],
    target: PathLike,
    folder: Path,
    *,
    holdout: float | None = None,
    ranker_times: RankerTimes | None = None,
    progress: Progress = no_progress,
) -> list[Path]:
    """Write the results of :func:`counts_expression` into one Parquet file.

    Args:
        parts: The counts of a log, or of parts of it that have no query in common.
        target: The file; it appears whole or not at all.
        folder: Where each of several parts is counted into, first; also the only part,
            if the engine may not write the target.
        holdout: Share of queries to set aside.
        ranker_times: When each ranker logged, noted in the file's metadata.
        progress: Called as parts are counted.

    Returns:
        Files with the counts of each part; the target, if that was written at once.
    """
    engine = engine_of(parts[0])
    every = parts[0]
    files = [Path(target)]
    confined = engine.is_confined
    with atomic_write(Path(target)) as unfinished:
        # Several parts are counted one after another, then put together.
        if len(parts) > 1 or confined:
            files = [folder / f"counts-{i}.parquet" for i in range(len(parts))]
            for i, (part, file) in enumerate(zip(parts, files, strict=True)):
                progress("counting", i, len(parts))
                engine.write(part, file)
            every = engine.read_parquet(*files)

        # An engine that may write the target does so by itself, unless queries are held
        # out: that goes by a hash of Python.
        metadata = to_metadata(ranker_times or {})
        edited: Callable[[pa.Table], pa.Table] | None = partial(_typed, holdout=holdout)
        if engine.in_process and not confined and holdout is None:
            edited = None
        with engine.with_progress(progress, "counting", 100):
            engine.write(every, unfinished, metadata, edited)
        if not unfinished.exists() or pq.read_metadata(unfinished).num_rows == 0:
            raise DataError("there is nothing to count: no row is left of the log")
    return files


def _typed(rows: pa.Table, *, holdout: float | None) -> pa.Table:
    """Give columns the types of counts; where queries are held out, add the split."""
    table = pa.table({n: typed_column(n, rows[n]) for n in rows.column_names})
    if holdout is not None:
        table = table.append_column("split", split_by_query(table, holdout))
    return table


def _sizes(files: Sequence[Path], engine: Engine, *, plain: bool) -> dict[str, int]:
    """Return the sizes of counts in files without common queries, not loading them.

    An engine that runs in this process reads them, within its memory. If sessions are
    ``plain``, every query has rows at rank 1.
    """
    if not engine.in_process:
        with open_table(str(files[0])) as table:
            return _sizes(files, engine_of(table), plain=plain)
    sizes: Counter[str] = Counter()
    deepest = 0
    groups = [pq.read_metadata(file).num_rows for file in files]
    every = -(-sum(groups) // DOCUMENTS_COUNTED)
    for file, size in zip(files, groups, strict=True):
        for part in engine.in_parts(engine.read_parquet(file), "query_id", size):
            summed = ["impressions", "clicks"]
            summed += [RANDOMISED] if RANDOMISED in part.columns else []
            sums = {name: _[name].sum() for name in summed}
            found = integer_totals(part, ranks=_["rank"].max(), **sums)
            deepest = max(deepest, found.pop("ranks"))
            by = session_keys(part.columns)
            issued = part.filter(_["rank"] == 1) if plain else part
            issued = issued.group_by(by).agg(sessions=_.sessions.max())
            queries = _.count() if by == ["query_id"] else _.query_id.nunique()
            found |= integer_totals(issued, queries=queries, sessions=_.sessions.sum())
            pairs = part.select(pair=engine.hashed_pair(part.query_id, part.doc_id))
            pairs = pairs.filter(_.pair % every == 0).distinct()
            sizes.update(found | integer_totals(pairs, documents=_.count() * every))
    if every > 1:
        sizes["documents"] = round(sizes["documents"], 3 - len(str(sizes["documents"])))
    return {**sizes, "groups": sum(groups), "ranks": deepest}


def _times_of_rankers(table: ir.Table, options: LogOptions) -> RankerTimes:
    """Return the first and last moment of each ranker, where the log has moments."""
    columns = (options.name_of("ranker"), options.name_of("timestamp"))
    if not set(columns) <= set(table.columns):
        return {}
    # Whose sessions they are does not matter here, and costs time.
    plain = replace(options, user_buckets=None, max_sessions_per_user=None)
    log = normalised(table, plain, timed=True)
    moment = log.timestamp
    if not moment.type().is_numeric():
        moment = moment.epoch_seconds()
    moments = log.select("ranker", moment=moment.cast("float64"))
    moments = moments.filter(_.moment.abs() < float("inf"))
    by_ranker = moments.group_by("ranker").agg(
        first=_.moment.min(), last=_.moment.max()
    )
    rows = by_ranker.limit(MOST_RANKERS + 1).to_pyarrow().to_pylist()
    if len(rows) > MOST_RANKERS:
        return {}
    return {row["ranker"]: (row["first"], row["last"]) for row in rows}


def _rows(table: ir.Table) -> int:
    return integer_totals(table, rows=_.count())["rows"]


def _held_out_by_time(share: float | None, by: str, since: str | None) -> bool:
    """Check what is held out; return whether that goes by time."""
    require_choice("holdout_by", by, ("query", "time"))
    if share is not None:
        require_share(share)
        if since is not None:
            raise ConfigError("hold out a share, or from a moment on, not both")
    elif by == "time" and since is None:
        raise ConfigError(
            "--holdout-by time needs a share (--holdout) or a moment (--holdout-from)"
        )
    return by == "time" or since is not None


def _split_by_time(
    parts: Sequence[ir.Table], share: float | None, since: str | None
) -> list[ir.Table]:
    """Set the last ``share`` of sessions aside, or those that began at ``since`` on."""
    log = union_all(parts)
    moment = log.timestamp
    if not moment.type().is_numeric():
        moment = moment.epoch_seconds().cast("float64")
    begun = log.group_by("session_id").agg(begun=moment.min())
    cut = (
        _cut_by_share(begun.begun, share or 0.0)
        if since is None
        else _cut_at(begun.begun, since, log)
    )
    split = ibis.ifelse(begun.begun >= cut, HELD_OUT, KEPT)
    sides = begun.select("session_id", split=split)
    if len(parts) > 1:
        sides = engine_of(sides).materialised([sides])
    return [part.join(sides, "session_id").drop("timestamp") for part in parts]


def _cut_at(times: ir.Column, since: str, log: ir.Table) -> float:
    """Read the moment to split at; reject one with all sessions on one side."""
    moment = parse_moment(since, "--holdout-from takes", log)
    if isinstance(moment, datetime):
        moment = moment.replace(tzinfo=UTC).timestamp()
    found = integer_totals(
        times.as_table(), before=(times < moment).sum(), all=times.count()
    )
    if found["before"] in (0, found["all"]):
        when = "from then on" if found["before"] else "before"
        raise DataError(f"--holdout-from {since}: no session began {when}")
    return moment


def _cut_by_share(times: ir.Column, share: float) -> float:
    """Return the moment after which the last ``share`` of sessions begin."""
    limits = times.as_table().agg(cut=times.quantile(1 - share), first=times.min())
    [found] = limits.to_pyarrow().to_pylist()
    if found["cut"] is None or found["cut"] <= found["first"]:
        raise DataError(
            "holding out by time needs sessions that began at different moments, got "
            f"one moment for the first {1 - share:.0%} of them"
        )
    return float(found["cut"])
