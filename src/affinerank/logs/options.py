"""Bring click logs onto one schema, by the engine that has them.

A log has one row per impression: ``session_id, query_id, doc_id, rank, clicked``, and
optionally ``ranker``, ``timestamp``, ``user_id``, ``segment``, ``propensity`` and
``policy``. Other names are mapped. Faults of a log are found by
:mod:`affinerank.logs.faults`.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import ibis
import ibis.expr.types as ir

from affinerank.defaults import POLICY
from affinerank.engines.errors import engine_errors
from affinerank.engines.opening import engine_of
from affinerank.logs.schema import RANDOMISED
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.settings import require_at_least

IDS = ("session_id", "query_id", "doc_id")
REQUIRED = (*IDS, "rank", "clicked")
OPTIONAL = ("ranker", "timestamp", "user_id", "segment", "propensity", "policy")
LOG_COLUMNS = ("session_id", "rank", "clicked")  # and of no table of features
NO_POLICY = ("", POLICY, "none")  # what a log calls the ranker's own list


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How a log is to be read.

    Attributes:
        columns: Names in the log of our columns, as in ``{"rank": "position"}``.
        list_id: Column that identifies lists, instead of ``query_id``: ``session_id``
            where features are logged per session.
        ranks_from: The first rank of the log, 1 or 0.
        page: Column with the number of the page, where ranks begin anew on each.
        page_size: Ranks of a page; needed with ``page``.
        pages_from: The first page of the log, 1 or 0.
        offset: Column with the number of results before the page, instead.
        where: Condition in the engine's own SQL; rows that fail it are left out. It is
            run unchecked: it must be the user's own.
        since: First moment counted, compared with ``timestamp``.
        until: First moment no longer counted.
        segment: Column that names the segment (device, layout).
        value: Column of what clicks are worth (a purchase, a dwell time), 0 or more.
        user_buckets: Count by so many buckets of ``user_id``, for intervals that are
            clustered by user; sessions without a user are spread over them.
        max_sessions_per_user: Most sessions per ``user_id``; the first are kept, by
            ``timestamp`` or, without one, by ``session_id``.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    list_id: str | None = None
    ranks_from: int = 1
    page: str | None = None
    page_size: int | None = None
    pages_from: int = 1
    offset: str | None = None
    where: str | None = None
    since: str | None = None
    until: str | None = None
    segment: str | None = None
    value: str | None = None
    user_buckets: int | None = None
    max_sessions_per_user: int | None = None

    def __post_init__(self) -> None:
        """Reject settings that cannot be meant."""
        for what in ("ranks", "pages"):
            first = getattr(self, f"{what}_from")
            if first not in (0, 1):
                raise ConfigError(f"{what} start at 0 or 1, got {first}")
        if (self.page is None) != (self.page_size is None):
            raise ConfigError("--page and --page-size are given together, or neither")
        if self.page is not None and self.offset is not None:
            raise ConfigError("give --page or --offset, not both")
        least = {"page_size": 1, "max_sessions_per_user": 1, "user_buckets": 10}
        require_at_least(self, least=least, most={"user_buckets": 1024})
        unknown = set(self.columns) - {*REQUIRED, *OPTIONAL}
        if unknown:
            raise ConfigError(
                f"there is no column {sorted(unknown)[0]!r} to map; the columns of a "
                f"log are {', '.join((*REQUIRED, *OPTIONAL))}"
            )
        if self.list_id is not None and "query_id" in self.columns:
            raise ConfigError(
                f"--list-id {self.list_id} replaces query_id, so that cannot be mapped "
                f"to {self.columns['query_id']!r} too; give one of the two"
            )

    @property
    def chooses(self) -> bool:
        """Whether some options leave rows out."""
        options = (self.where, self.since, self.until, self.max_sessions_per_user)
        return any(option is not None for option in options)

    def name_of(self, column: str) -> str | None:
        """Return the name in the log of one of our columns; ``None`` if unused."""
        if column == "value":
            return self.value
        if column == "segment":
            return self.segment or self.columns.get("segment")
        if column == "query_id" and self.list_id is not None:
            return self.columns.get(self.list_id, self.list_id)
        return self.columns.get(column, column)


def normalised(
    table: ir.Table, options: LogOptions, *, timed: bool = False
) -> ir.Table:
    """Return the log under our column names and types, with the options applied.

    ``rank`` and ``clicked`` become integers, null where they cannot; ids become
    integers or strings; ``ranker`` and ``segment`` strings, empty where null.
    ``timestamp`` is kept, null where it is no moment, if an option needs it or the
    caller does (``timed``): rows without one are faults then. ``policy`` and
    ``propensity`` become ``randomised``: 1 where a policy drew the place, else 0.
    """
    if options.where is not None:
        with engine_errors("--where"):
            table = engine_of(table).filter_by_sql(table, options.where)
    log = _named(table, options)
    between = options.since is not None or options.until is not None
    if between:
        log = _between(log, options)
    if options.max_sessions_per_user is not None:
        log = _limited(log, options.max_sessions_per_user)
    if options.user_buckets is not None:
        _require(log, "user_id", "--user-buckets needs a user_id")
        user = log.user_id.fill_null(log.session_id.cast("string"))
        log = log.mutate(user_bucket=_bucket(user, options.user_buckets))
    if timed:
        _require(log, "timestamp", "holding out by time needs a timestamp")
    needed = between or timed or options.max_sessions_per_user is not None
    unused = {"user_id"} if needed else {"user_id", "timestamp"}
    return log.drop(*(name for name in log.columns if name in unused))


def unread(
    table: ir.Table, options: LogOptions, name: str, most: int
) -> tuple[dict[str, Any], ...]:
    """Return rows whose column ``name`` could not be read, as the log has them."""
    theirs = {own: options.name_of(own) for own in (*REQUIRED, name)}
    rows = table.select(**{own: table[column] for own, column in theirs.items()})
    is_unread = _converted(name, rows[name], options).isnull()
    if name == "value":  # what was not clicked needs none
        is_unread &= _as_click(rows.clicked) == 1
    few = rows.filter(is_unread).limit(most)
    return tuple(few.to_pyarrow().to_pylist())


def _require(log: ir.Table, column: str, needs: str) -> None:
    if column not in log.columns:
        raise DataError(f"{needs}; name its column with --column {column}=NAME")


def _named(table: ir.Table, options: LogOptions) -> ir.Table:
    """Select the columns we know, by their names in the log, with our types."""
    columns: dict[str, ir.Value] = {}
    for name in (*REQUIRED, *OPTIONAL, "value"):
        theirs, chosen = options.name_of(name), name in ("segment", "value")
        if theirs in table.columns:
            columns[name] = _converted(name, table[theirs], options)
        elif name in (*REQUIRED, *options.columns) or (chosen and theirs):
            remedy = "--value" if name == "value" else f"--column {name}=NAME"
            if {"impressions", "clicks", "sessions"} <= set(table.columns):
                raise DataError(
                    "these are counts already; audit, estimate, debias and train read "
                    "them as they are"
                )
            if not any(options.name_of(n) in table.columns for n in LOG_COLUMNS):
                raise DataError(
                    f"there is none of a log's columns ({', '.join(LOG_COLUMNS)}), "
                    "only "
                    f"{', '.join(table.columns[:12])}; name them with --column "
                    "rank=NAME, or, if this is a table of features, count the log and "
                    "give this one to train as --data"
                )
            raise DataError(
                f"the log has no column {theirs!r} for {name}; it has "
                f"{', '.join(table.columns[:12])}; name another with {remedy}"
            )
    if "value" in columns:  # of what was not clicked, none
        columns["value"] = ibis.ifelse(columns["clicked"] == 1, columns["value"], 0.0)
    columns["rank"] = _in_list(columns["rank"], table, options)
    policy = columns.pop("policy", None)
    if policy is not None or "propensity" in columns:
        columns[RANDOMISED] = _randomised(policy, columns.get("propensity"))
    return table.select(**columns)


def _randomised(policy: ir.Value | None, propensity: ir.Value | None) -> ir.Value:
    """1 where the log declares that a policy drew the place at random, else 0.

    A place of propensity 1 was not drawn: the list could not have been another.
    """
    declared = ibis.literal(value=False)
    if policy is not None:
        declared = ~policy.strip().lower().isin(NO_POLICY)
    if propensity is not None:
        declared |= propensity < 1
    return ibis.ifelse(declared, 1, 0).cast("int64")


@ibis.udf.scalar.builtin(name="md5")  # type: ignore[untyped-decorator]
def _md5(text: str) -> str:  # type: ignore[empty-body]
    """Every engine has this function; Ibis does not know that of all."""


def _bucket(user: ir.Value, buckets: int) -> ir.Value:
    """Return a number below ``buckets`` as text, the same by every engine."""
    digest, digits = _md5(user), ibis.literal("0123456789abcdef")
    place = sum(16**i * digits.find(digest.substr(i, 1)) for i in range(4))
    return (place % buckets).cast("string")


def _in_list(rank: ir.Value, table: ir.Table, options: LogOptions) -> ir.Value:
    """Return ranks in the whole list, where those of the log are within a page.

    A rank beyond the page is no rank within it, and becomes null.
    """
    name, option = options.page or options.offset, "page" if options.page else "offset"
    if name is None:
        return rank
    if name not in table.columns:
        raise DataError(
            f"the log has no column {name!r} for --{option}; it has "
            f"{', '.join(table.columns[:12])}"
        )
    before = _as_whole(name, table[name])
    if options.page_size is not None:
        rank = ibis.ifelse(rank <= options.page_size, rank, ibis.null())
        before = (before - options.pages_from) * options.page_size
    return ibis.ifelse(before >= 0, before, ibis.null()) + rank


def _converted(name: str, column: ir.Value, options: LogOptions) -> ir.Value:
    if name in IDS:
        return _as_id(name, column)
    if name == "rank":
        rank = _as_whole(name, column)
        return rank if options.ranks_from == 1 else rank + 1
    if name == "clicked":
        return _as_click(column)
    if name == "timestamp":
        return _as_moment(column)
    if name in ("value", "propensity"):
        return _as_number(name, column)
    text = column.cast("string")
    return text if name == "user_id" else text.fill_null("")


def _as_id(name: str, column: ir.Value) -> ir.Value:
    kind = column.type()
    parts = kind.is_decimal() and kind.scale != 0
    if kind.is_floating() or kind.is_nested() or kind.is_boolean() or parts:
        raise DataError(f"{name} must hold integers or strings, holds {kind}")
    too_wide = kind.is_unsigned_integer() and kind.nbytes == 8
    return column.cast("int64" if kind.is_integer() and not too_wide else "string")


def _as_whole(name: str, column: ir.Value) -> ir.Value:
    """Whole numbers; null where the value is none."""
    kind = column.type()
    if kind.is_integer():
        return column.cast("int64")
    if kind.is_string():
        column = _from_text(column)
    elif not (kind.is_floating() or kind.is_decimal()):
        raise DataError(f"{name} must hold whole numbers, holds {kind}")
    # Rounding what is infinite or no number is an error of the engine.
    finite = ibis.ifelse(column.abs() < 1e15, column, ibis.null())
    return ibis.ifelse(finite == finite.floor(), finite, ibis.null()).cast("int64")


def _as_number(name: str, column: ir.Value) -> ir.Value:
    """A number, 0 where there is none; null where the text is something else."""
    kind = column.type()
    if kind.is_string():
        return _from_text(column.fill_null("0"))  # a click that nothing was joined to
    if not kind.is_numeric() or kind.is_boolean():
        what = "the value of clicks" if name == "value" else name
        raise DataError(f"{what} must hold numbers, holds {kind}")
    return column.cast("float64").fill_null(0.0)


def _from_text(text: ir.Value) -> ir.Value:
    """Read a number; some engines take 1_000 for a thousand, and others do not."""
    number = ibis.ifelse(text.contains("_"), ibis.null(), text)
    return engine_of(text).read_as("float64", number)


def _as_click(column: ir.Value) -> ir.Value:
    """0 or 1; null where the value is neither."""
    kind = column.type()
    if kind.is_boolean():
        return column.cast("int32").cast("int64")  # not all know a shorter way
    if kind.is_string():
        text = column.strip().lower()
        yes = text.isin(["1", "1.0", "true", "t", "yes", "y"])
        no = text.isin(["0", "0.0", "false", "f", "no", "n"])
    elif kind.is_numeric():
        yes, no = column == 1, column == 0
    else:
        raise DataError(f"clicked must hold 0 and 1, or true and false, holds {kind}")
    return ibis.cases((yes, 1), (no, 0), else_=ibis.null("int64")).cast("int64")


def _as_moment(column: ir.Value) -> ir.Value:
    """A timestamp, or a number as it is; null where the text is no moment."""
    kind = column.type()
    if kind.is_numeric() and not kind.is_boolean():
        return column
    if kind.is_string():
        return engine_of(column).read_as("timestamp", column)
    if kind.is_timestamp() and kind.timezone is None:
        return column.cast("timestamp")  # by way of a time zone it takes far longer
    if kind.is_timestamp() or kind.is_date():
        return column.cast("timestamp('UTC')").cast("timestamp")
    raise DataError(f"timestamp must hold dates, numbers or text, holds {kind}")


def _between(log: ir.Table, options: LogOptions) -> ir.Table:
    """Keep rows from ``since`` on and before ``until``, and those without a moment."""
    _require(log, "timestamp", "--since and --until need a timestamp")
    for text, keeps in ((options.since, operator.ge), (options.until, operator.lt)):
        if text is not None:
            moment = parse_moment(text, "--since and --until take", log)
            inside = keeps(log.timestamp, ibis.literal(moment))
            log = log.filter(log.timestamp.isnull() | inside)
    return log


def parse_moment(text: str, takes: str, log: ir.Table) -> float | datetime:
    """Read a moment as the log's ``timestamp`` has it: a number, or a date (UTC)."""
    numeric = log.timestamp.type().is_numeric()
    try:
        if numeric:
            return float(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        kind = "a number" if numeric else "a date, as in 2026-01-31"
        raise ConfigError(f"{takes} {kind} for this log, got {text!r}") from None
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment


def _limited(log: ir.Table, most: int) -> ir.Table:
    """Keep the first sessions of each user; rows without a user stay."""
    _require(log, "user_id", "--max-sessions-per-user needs a user_id")
    named = log.user_id.notnull() & log.session_id.notnull()
    known = log.filter(named)
    when = known.timestamp if "timestamp" in log.columns else known.session_id
    sessions = known.group_by(["user_id", "session_id"]).agg(when=when.min())
    engine = engine_of(log)
    order = [
        engine.in_byte_order(sessions.when),
        engine.in_byte_order(sessions.session_id),
    ]
    place = ibis.row_number().over(group_by="user_id", order_by=order)
    kept = sessions.mutate(place=place).filter(lambda t: t.place < most)
    chosen = known.semi_join(kept, ["user_id", "session_id"])
    return ibis.union(chosen, log.filter(~named))
