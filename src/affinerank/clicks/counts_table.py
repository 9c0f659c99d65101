"""The table behind counts: its columns, their types, and what must hold in it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from affinerank.data.dataset import Ids
from affinerank.errors import DataError

KEYS = ("query_id", "doc_id", "rank")
EXTRA_KEYS = ("ranker", "segment", "split")
IDS_AT_ONCE = 1_000_000
NUMBERS = ("impressions", "clicks", "sessions")


def given_column(name: str, values: ArrayLike) -> pa.Array:
    """Turn what the caller gave for a column into one of Arrow."""
    try:
        return arrow_column(np.asarray(values))
    except (pa.ArrowException, TypeError, ValueError):
        kind = "strings or integers" if name.endswith("_id") else "numbers"
        kind = "strings" if name in EXTRA_KEYS else kind
        raise DataError(
            f"counts: {name} must be a flat array of {kind}, got {values!r:.60}"
        ) from None


def checked_table(table: pa.Table) -> pa.Table:
    """Check columns, types and values; sort by the keys."""
    expected = (*KEYS, *NUMBERS)
    absent = [name for name in expected if name not in table.column_names]
    if absent:
        raise DataError(
            f"counts have no column {absent[0]!r}; expected {', '.join(expected)}, "
            f"optionally {', '.join(EXTRA_KEYS)}; found {', '.join(table.column_names)}"
        )
    unknown = [n for n in table.column_names if n not in (*expected, *EXTRA_KEYS)]
    if unknown:
        raise DataError(f"counts have an unknown column {unknown[0]!r}")
    keys = (*KEYS, *(name for name in EXTRA_KEYS if name in table.column_names))
    columns = {name: _typed(name, table[name]) for name in (*keys, *NUMBERS)}
    for name, column in columns.items():
        if column.null_count:
            raise DataError(f"counts: {name} is null in {column.null_count} rows")
    ordered = pa.table(columns).combine_chunks()
    rising, repeated = _order(ordered, keys)
    if not rising:
        ordered = ordered.sort_by([(name, "ascending") for name in keys])
        repeated = _order(ordered, keys)[1]
    if repeated:
        raise DataError(f"counts hold several rows for one {', '.join(keys)}")
    _check_numbers(ordered)
    by_session = [name for name in keys if name not in ("doc_id", "rank")]
    spread = ordered.group_by(by_session).aggregate(
        [("sessions", "min"), ("sessions", "max")]
    )
    if not pc.all(
        pc.equal(spread["sessions_min"], spread["sessions_max"])
    ).as_py() and (spread.num_rows):
        raise DataError(f"counts give one {', '.join(by_session)} different sessions")
    return ordered


def _order(table: pa.Table, keys: tuple[str, ...]) -> tuple[bool, bool]:
    """Whether rows come in the order of ``keys``, and whether two have the same."""
    tied = np.ones(max(table.num_rows - 1, 0), dtype=bool)
    for name in keys:
        before = table[name].slice(0, len(tied))
        after = table[name].slice(1)
        falls = np.asarray(pc.greater(before, after))
        if (tied & falls).any():
            return False, False
        tied &= np.asarray(pc.equal(before, after))
    return True, bool(tied.any())


def _check_numbers(table: pa.Table) -> None:
    rank, shown, clicked, sessions = (
        np.asarray(table[name])
        for name in ("rank", "impressions", "clicks", "sessions")
    )
    rules = (
        (rank < 1, "rank", "must be 1 or more"),
        (shown < 0, "impressions", "must be 0 or more"),
        (clicked < 0, "clicks", "must be 0 or more"),
        (clicked > shown, "clicks", "cannot exceed impressions"),
        (shown > sessions, "impressions", "cannot exceed the query's sessions"),
    )
    for broken, name, rule in rules:
        if broken.any():
            row = int(np.argmax(broken))
            where = ", ".join(f"{k} {table[k][row].as_py()!r}" for k in KEYS)
            raise DataError(
                f"counts of {where}: {name} {rule}, got {table[name][row].as_py()} "
                f"({int(broken.sum())} such rows)"
            )


def _typed(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bring a column to int64 or string."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if name in NUMBERS or name == "rank":
        try:
            return column.cast(pa.int64())
        except pa.ArrowException:
            raise DataError(
                f"counts: {name} must hold whole numbers, holds {kind}"
            ) from None
    if pa.types.is_integer(kind) and name not in EXTRA_KEYS:
        wide = kind == pa.uint64() and (pc.max(column).as_py() or 0) >= 2**63
        return column.cast(pa.string() if wide else pa.int64())
    if kind in (pa.string(), pa.large_string(), pa.string_view()):
        return column.cast(pa.string())
    right = "strings" if name in EXTRA_KEYS else "integers or strings"
    raise DataError(f"counts: {name} must hold {right}, holds {kind}")


def arrow_column(values: Ids) -> pa.Array:
    """Turn an array of ids or numbers into one of Arrow."""
    if values.dtype.kind in "OTU":
        parts = range(0, max(len(values), 1), IDS_AT_ONCE)
        return pa.concat_arrays(
            pa.array(values[i : i + IDS_AT_ONCE].tolist(), pa.string()) for i in parts
        )
    return pa.array(values)
