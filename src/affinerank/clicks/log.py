"""Click logs: opening them where they lie, and finding out what is wrong with them.

A log has one row per impression: ``session_id, query_id, doc_id, rank, clicked``, and
optionally ``ranker``, ``timestamp``, ``user_id``. It may be a Parquet, CSV or JSON
Lines file, or any table that Ibis reaches. All work is done by the engine that has it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

import ibis
import ibis.expr.types as ir

from affinerank.errors import ConfigError, DataError

REQUIRED = ("session_id", "query_id", "doc_id", "rank", "clicked")
OPTIONAL = ("ranker", "timestamp", "user_id", "segment")
MAX_RANK = 10_000
EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How a log is to be read.

    Attributes:
        columns: Names in the log of our columns, as in ``{"rank": "position"}``.
        ranks_from: What the log calls the first rank: 1, or 0 where it says so.
        where: Condition in the engine's own SQL; rows that fail it are left out. It is
            run as it is: it must be the user's own.
        since: First moment counted, compared with ``timestamp``.
        until: First moment not counted any more.
        segment: Column that tells segments apart (device, layout).
        max_sessions_per_user: At most so many sessions of each ``user_id``, the first
            by ``timestamp``, or by ``session_id`` where there is none.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    ranks_from: int = 1
    where: str | None = None
    since: str | None = None
    until: str | None = None
    segment: str | None = None
    max_sessions_per_user: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings that cannot be meant."""
        if self.ranks_from not in (0, 1):
            raise ConfigError(f"ranks start at 0 or 1, got {self.ranks_from}")
        if self.max_sessions_per_user is not None and self.max_sessions_per_user < 1:
            raise ConfigError(
                f"max_sessions_per_user must be 1 or more, "
                f"got {self.max_sessions_per_user}"
            )
        unknown = set(self.columns) - {*REQUIRED, *OPTIONAL}
        if unknown:
            raise ConfigError(
                f"there is no column {sorted(unknown)[0]!r} to map; the columns of a "
                f"log are {', '.join((*REQUIRED, *OPTIONAL))}"
            )


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
    """

    rows: int
    sessions: int
    findings: tuple[Finding, ...]

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
        others = f", and {more} more kinds of fault" if more else ""
        super().__init__(
            f"the log has faults: {first.what} ({first.number} {first.unit}){others}; "
            "put them right, or drop the sessions they are in (--bad-rows drop)"
        )


def normalised(table: ir.Table, options: LogOptions) -> ir.Table:
    """Return the log under our column names and types, with the options applied.

    ``rank`` and ``clicked`` become integers, null where they cannot; ids become
    integers or strings.
    """
    if options.where:
        with engine_errors("--where"):
            condition = f"SELECT * FROM log WHERE ({options.where})"  # noqa: S608
            table = table.alias("log").sql(condition)
    named = _named(table, options)
    chosen = _between(named, options)
    return _limited(chosen, options)


def validate(log: ir.Table) -> tuple[LogReport, bool]:
    """Look for faults and peculiarities; also tell whether impressions repeat."""
    with engine_errors("the log"):
        rows, findings = _row_findings(log)
        good = log.filter(~_row_fault(log)) if findings else log
        of_lists, repeats = _list_findings(good)
        sessions, of_sessions = _session_findings(good, repeats)
    return LogReport(rows, sessions, (*findings, *of_lists, *of_sessions)), repeats


def without_bad_sessions(log: ir.Table) -> tuple[ir.Table, int]:
    """Leave out every session that has a fault, whole; tell how many there are.

    Rows without a session are left out too, and belong to none.
    """
    fault = _row_fault(log)
    bad_rows = log.filter(fault).select("session_id")
    good = log.filter(~fault)
    two_documents = _by_rank(good).filter(lambda t: t.low != t.high)
    two_ranks = _by_document(good).filter(lambda t: t.low != t.high)
    bad = ibis.union(
        bad_rows,
        two_documents.select("session_id"),
        two_ranks.select("session_id"),
        distinct=True,
    )
    found = log.get_backend().create_table(
        f"affinerank_{uuid.uuid4().hex}",
        bad.filter(bad.session_id.notnull()),
        temp=True,
    )
    number = _first(found.agg(sessions=found.count()))["sessions"]
    return good.anti_join(found, "session_id"), number


@contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Turn an engine's complaint into a sentence of ours."""
    try:
        yield
    except (DataError, ConfigError):
        raise
    except Exception as error:
        module = type(error).__module__.split(".")[0]
        if module not in ("duckdb", "_duckdb", "ibis", "pyspark", "py4j", "sqlglot"):
            raise
        reason = " ".join(str(error).split())[:300]
        raise DataError(f"{what}: the engine could not read it: {reason}") from None


def _named(table: ir.Table, options: LogOptions) -> ir.Table:
    """Select the columns we know, by their names in the log, with our types."""
    names = {name: options.columns.get(name, name) for name in REQUIRED}
    for name, theirs in names.items():
        if theirs not in table.columns:
            raise DataError(
                f"the log has no column {theirs!r} for {name}; it has "
                f"{', '.join(table.columns[:12])}; map others with --column "
                f"{name}=NAME"
            )
    for name in OPTIONAL:
        theirs = options.columns.get(name, name)
        if name == "segment":
            theirs = options.segment or ""
        if theirs in table.columns:
            names[name] = theirs
        elif name in options.columns or (name == "segment" and theirs):
            raise DataError(f"the log has no column {theirs!r} for {name}")
    columns: dict[str, ir.Value] = {}
    for name, theirs in names.items():
        column = table[theirs]
        if name in ("session_id", "query_id", "doc_id"):
            columns[name] = _as_id(name, column)
        elif name == "rank":
            columns[name] = _as_whole(column) + (1 - options.ranks_from)
        elif name == "clicked":
            columns[name] = _as_click(column)
        elif name == "timestamp":
            columns[name] = column
        else:
            columns[name] = column.cast("string")
    return table.select(**columns)


def _as_id(name: str, column: ir.Value) -> ir.Value:
    kind = column.type()
    if kind.is_unsigned_integer() and kind.nbytes == 8:
        return column.cast("string")
    if kind.is_integer():
        return column.cast("int64")
    if kind.is_floating() or kind.is_nested():
        raise DataError(f"{name} must hold integers or strings, holds {kind}")
    return column.cast("string")


def _as_whole(column: ir.Value) -> ir.Value:
    """Whole numbers; null where the value is none."""
    kind = column.type()
    if kind.is_integer():
        return column.cast("int64")
    if kind.is_string():
        column = column.try_cast("float64")
    elif not (kind.is_floating() or kind.is_decimal()):
        raise DataError(f"rank must hold whole numbers, holds {kind}")
    whole = (column == column.floor()) & (column.abs() < 1e15)
    return ibis.ifelse(whole, column, ibis.null()).try_cast("int64")


def _as_click(column: ir.Value) -> ir.Value:
    """0 or 1; null where the value is neither."""
    kind = column.type()
    if kind.is_boolean():
        return column.cast("int64")
    if kind.is_string():
        text = column.strip().lower()
        return ibis.cases(
            (text.isin(["1", "1.0", "true"]), 1),
            (text.isin(["0", "0.0", "false"]), 0),
            else_=ibis.null("int64"),
        ).cast("int64")
    if kind.is_numeric():
        return ibis.cases(
            (column == 1, 1), (column == 0, 0), else_=ibis.null("int64")
        ).cast("int64")
    raise DataError(f"clicked must hold 0 and 1, or true and false, holds {kind}")


def _between(log: ir.Table, options: LogOptions) -> ir.Table:
    """Keep rows from ``since`` on and before ``until``."""
    if options.since is None and options.until is None:
        return log
    if "timestamp" not in log.columns:
        raise DataError(
            "--since and --until need a timestamp; name its column with "
            "--column timestamp=NAME"
        )
    moment = log.timestamp
    if moment.type().is_string():
        moment = moment.try_cast("timestamp")
    for text, keeps in ((options.since, "from"), (options.until, "before")):
        if text is not None:
            bound = _moment(text, moment)
            log = log.filter(moment >= bound if keeps == "from" else moment < bound)
    return log


def _moment(text: str, moment: ir.Value) -> ir.Value:
    """Read a moment as the timestamp column writes it: a number, or a date."""
    try:
        if moment.type().is_numeric():
            return ibis.literal(float(text))
        return ibis.timestamp(text)
    except ValueError:
        kind = "a number" if moment.type().is_numeric() else "a date, as in 2026-01-31"
        raise ConfigError(
            f"--since and --until take {kind} for this log, got {text!r}"
        ) from None


def _limited(log: ir.Table, options: LogOptions) -> ir.Table:
    """Keep at most so many sessions of each user; rows without a user stay."""
    if options.max_sessions_per_user is None:
        return log
    if "user_id" not in log.columns:
        raise DataError(
            "--max-sessions-per-user needs a user_id; name its column with "
            "--column user_id=NAME"
        )
    known = log.filter(log.user_id.notnull())
    when = known.timestamp if "timestamp" in log.columns else known.session_id
    sessions = known.group_by(["user_id", "session_id"]).agg(when=when.min())
    place = ibis.row_number().over(
        group_by="user_id", order_by=[sessions.when, sessions.session_id]
    )
    kept = sessions.mutate(place=place).filter(
        lambda t: t.place < options.max_sessions_per_user
    )
    chosen = known.semi_join(kept, ["user_id", "session_id"])
    return ibis.union(chosen, log.filter(log.user_id.isnull()))


def _row_rules(log: ir.Table) -> dict[str, ir.BooleanValue]:
    return {
        "session_id is null": log.session_id.isnull(),
        "query_id is null": log.query_id.isnull(),
        "doc_id is null": log.doc_id.isnull(),
        f"rank is not a whole number from 1 to {MAX_RANK} (does the log count from 0? "
        "then say so: --ranks-from 0)": log["rank"].isnull()
        | (log["rank"] < 1)
        | (log["rank"] > MAX_RANK),
        "clicked is neither 0 nor 1": log.clicked.isnull(),
    }


def _row_fault(log: ir.Table) -> ir.BooleanValue:
    return reduce(or_, _row_rules(log).values())


def _row_findings(log: ir.Table) -> tuple[int, tuple[Finding, ...]]:
    """Count rows and the faults that a row shows by itself, in one pass."""
    rules = list(_row_rules(log).items())
    sums = {f"fault_{i}": rule.sum() for i, (_, rule) in enumerate(rules)}
    counted = _first(log.agg(rows=log.count(), **sums))
    findings = [
        Finding(what, True, counted[f"fault_{i}"], "rows", _examples(log.filter(rule)))
        for i, (what, rule) in enumerate(rules)
        if counted[f"fault_{i}"]
    ]
    return counted["rows"], tuple(findings)


def _by_rank(log: ir.Table) -> ir.Table:
    return log.group_by(["session_id", "rank"]).agg(
        rows=log.count(), low=log.doc_id.min(), high=log.doc_id.max()
    )


def _by_document(log: ir.Table) -> ir.Table:
    return log.group_by(["session_id", "doc_id"]).agg(
        rows=log.count(), low=log["rank"].min(), high=log["rank"].max()
    )


def _list_findings(log: ir.Table) -> tuple[tuple[Finding, ...], bool]:
    """Documents that share a rank, or have two; repeats of one at its rank."""
    findings = []
    ranks = _by_rank(log)
    clash = ranks.low != ranks.high
    repeat = (ranks.low == ranks.high) & (ranks.rows > 1)
    counted = _first(ranks.agg(clashes=clash.sum(), repeats=repeat.sum()))
    if counted["clashes"]:
        what = "two documents at one rank of a session (is a session one query issued?)"
        examples = _examples(_beside(log, ranks.filter(clash), "rank"))
        findings.append(Finding(what, True, counted["clashes"], "ranks", examples))
    documents = _by_document(log)
    moved = documents.low != documents.high
    n_moved = _first(documents.agg(moved=moved.sum()))["moved"]
    if n_moved:
        examples = _examples(_beside(log, documents.filter(moved), "doc_id"))
        what = "one document at two ranks of a session"
        findings.append(Finding(what, True, n_moved, "documents", examples))
    if counted["repeats"]:
        what = "an impression is repeated (merged; clicked if one of them was)"
        examples = _examples(_beside(log, ranks.filter(repeat), "rank"))
        findings.append(
            Finding(what, False, counted["repeats"], "impressions", examples)
        )
    return tuple(findings), bool(counted["repeats"] or counted["clashes"])


def _session_findings(log: ir.Table, repeats: bool) -> tuple[int, tuple[Finding, ...]]:
    """Count sessions, lists with gaps, and lists that start below rank 1."""
    rows = log.select("session_id", "rank")
    shown = rows.distinct() if repeats else rows
    lists = shown.group_by("session_id").agg(
        rows=shown.count(), low=shown["rank"].min(), high=shown["rank"].max()
    )
    gap = lists.high - lists.low + 1 != lists.rows
    deep = lists.low > 1
    counted = _first(lists.agg(sessions=lists.count(), gaps=gap.sum(), deep=deep.sum()))
    findings = []
    for what, number, rule in (
        ("a list has gaps between its ranks", counted["gaps"], gap),
        ("a list starts deeper than rank 1", counted["deep"], deep),
    ):
        if number:
            examples = _examples(lists.filter(rule).drop("rows"))
            findings.append(Finding(what, False, number, "sessions", examples))
    return counted["sessions"], tuple(findings)


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
