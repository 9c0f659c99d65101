"""The table behind counts: its columns, their types, and what must hold in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from affinerank.counts.ranker_times import from_metadata, to_metadata
from affinerank.logs.schema import CONTEXT, EXTRA_KEYS, KEYS, RANDOMISED, session_keys
from affinerank.support.arrow import arrow_column, is_text, pa, parquet_errors, pc, pq
from affinerank.support.errors import DataError
from affinerank.support.files import PathLike, existing_file
from affinerank.support.limits import ID_BYTES, MAX_COUNT, MAX_RANK

NUMBERS = ("impressions", "clicks", "sessions")
VALUES = ("value", "value_squares")  # of clicks, added up
EXPOSURE = "exposure"  # sessions expected to show the document at the rank
REALS = (*VALUES, EXPOSURE)
SUMMED = (*REALS, RANDOMISED)
COLUMNS = (*KEYS, CONTEXT, *EXTRA_KEYS, *NUMBERS, *SUMMED)


def counts_metadata(path: PathLike) -> pq.FileMetaData:
    """Return what a file of counts says of itself; reject a file that is none."""
    source = existing_file(path)
    with source.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    with parquet_errors(source):
        metadata = pq.read_metadata(source) if is_parquet else None
        if metadata is None or "clicked" in metadata.schema.names:
            raise DataError(
                "holds no counts; run count first, as in affinerank count "
                f"{source} -o counts.parquet"
            )
    return metadata


def given_column(name: str, values: ArrayLike) -> pa.Array:
    """Return a column given by the caller as one of Arrow."""
    try:
        return arrow_column(np.asarray(values))
    except (pa.ArrowException, TypeError, ValueError):
        raise DataError(
            f"counts: {name} must be a flat array of {_kind(name)}, got {values!r:.60}"
        ) from None


def checked_table(table: pa.Table) -> pa.Table:
    """Check columns, types and values; sort by the keys."""
    expected, found = (*KEYS, *NUMBERS), table.column_names
    absent = [name for name in expected if name not in found]
    if absent:
        raise DataError(
            f"counts have no column {absent[0]!r}; expected {', '.join(expected)}, "
            f"optionally {CONTEXT}, {', '.join((*EXTRA_KEYS, *SUMMED))}; found "
            f"{', '.join(found)}"
        )
    unknown = [n for n in found if n not in COLUMNS or found.count(n) > 1]
    if unknown:
        raise DataError(f"counts have a column unknown or there twice: {unknown[0]!r}")
    if (VALUES[0] in found) != (VALUES[1] in found):
        raise DataError(f"counts have one of {' and '.join(VALUES)}; expected both")
    if EXPOSURE in found and RANDOMISED not in found:
        raise DataError(
            f"counts have {EXPOSURE} and no column {RANDOMISED!r}; expected both; "
            "count the log again (affinerank count)"
        )
    by_session = session_keys(found)
    keys = row_keys(found)
    names = (*keys, *NUMBERS, *(name for name in SUMMED if name in found))
    columns = {name: typed_column(name, table[name]) for name in names}
    for name, column in columns.items():
        if column.null_count:
            raise DataError(f"counts: {name} is null in {column.null_count} rows")
        text = column.type == pa.string()
        if text and (pc.max(pc.utf8_length(column)).as_py() or 0) > ID_BYTES:
            raise DataError(f"counts: {name} has more than {ID_BYTES} characters")
    ordered = pa.table(columns).combine_chunks()
    rising, repeated = _order(ordered, keys)
    if not rising:
        ordered = ordered.sort_by([(name, "ascending") for name in keys])
        _, repeated = _order(ordered, keys)
    if repeated:
        raise DataError(f"counts hold several rows for one {', '.join(keys)}")
    _check_numbers(ordered)
    spread = grouped(ordered, by_session, ("sessions", "min"), ("sessions", "max"))
    if np.any(np.asarray(spread[-2]) != np.asarray(spread[-1])):
        raise DataError(f"counts give one {', '.join(by_session)} different sessions")
    shown = ordered["impressions"]
    for name, column in (("impressions", shown), ("sessions", spread[-1])):
        if np.asarray(column).sum(dtype=float) > MAX_COUNT:
            raise DataError(f"counts: all {name} together must be 2^53 at most")
    return ordered.replace_schema_metadata(_known_metadata(table))


def randomised_impressions(table: pa.Table) -> pa.ChunkedArray:
    """Return how many impressions of each row stood where a policy drew them.

    Counts have no such column if their log declares no policy: then it is 0.
    """
    if RANDOMISED in table.column_names:
        return table[RANDOMISED]
    return pc.multiply(table["impressions"], 0)


def _known_metadata(table: pa.Table) -> dict[bytes, bytes]:
    """Keep what counts know of rankers, and nothing that other tools wrote."""
    return to_metadata(from_metadata(table.schema.metadata))


def row_keys(columns: Sequence[str]) -> tuple[str, ...]:
    """Columns that rows of counts are known by, of those that are there."""
    return tuple(n for n in (*KEYS, CONTEXT, *EXTRA_KEYS) if n in (*KEYS, *columns))


def grouped(
    table: pa.Table, by: Sequence[str], *sums: tuple[str, str], threads: bool = True
) -> pa.Table:
    """Aggregate columns by keys, under their own names: the keys come first."""
    found = table.group_by(list(by), use_threads=threads).aggregate(list(sums))
    ordered = found.select([*by, *(f"{name}_{how}" for name, how in sums)])
    return ordered.rename_columns([*by, *(name for name, _ in sums)])


def typed_column(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of counts as int64 or string."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind, values = column.type, name in REALS
    if values or name in (*NUMBERS, "rank", CONTEXT, RANDOMISED):
        try:
            return column.cast(pa.float64() if values else pa.int64())
        except pa.ArrowException:
            whole = "numbers" if values else "whole numbers"
            raise DataError(f"counts: {name} must hold {whole}, holds {kind}") from None
    if pa.types.is_integer(kind) and name not in EXTRA_KEYS:
        wide = kind == pa.uint64() and (pc.max(column).as_py() or 0) >= 2**63
        return column.cast(pa.string() if wide else pa.int64())
    if is_text(kind):
        try:
            column.validate(full=True)
        except pa.ArrowException:
            raise DataError(f"counts: {name} must be text in UTF-8") from None
        return column.cast(pa.string())
    raise DataError(f"counts: {name} must hold {_kind(name)}, holds {kind}")


def _kind(name: str) -> str:
    if name in EXTRA_KEYS:
        return "strings"
    return "integers or strings" if name.endswith("_id") else "numbers"


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
    numbers = (np.asarray(table[name]) for name in ("rank", *NUMBERS))
    rank, shown, clicked, sessions = numbers
    above = np.asarray(table[CONTEXT]) if CONTEXT in table.column_names else 0 * rank
    rules = [
        (rank < 1, "rank", "must be 1 or more"),
        (rank > MAX_RANK, "rank", f"must be {MAX_RANK} at most"),
        ((above < 0) | (above >= rank), CONTEXT, "must be a rank above, or 0"),
        (sessions > MAX_COUNT, "sessions", "must be 2^53 at most"),
        (shown < 0, "impressions", "must be 0 or more"),
        (clicked < 0, "clicks", "must be 0 or more"),
        (clicked > shown, "clicks", "cannot exceed impressions"),
        (shown > sessions, "impressions", "cannot exceed the query's sessions"),
    ]
    for name in VALUES if VALUES[0] in table.column_names else ():
        value = np.asarray(table[name])
        usable = np.isfinite(value) & (value >= 0) & ((value == 0) | (clicked > 0))
        rules.append((~usable, name, "must be 0 or more, and 0 without a click"))
    if EXPOSURE in table.column_names:
        seen = np.asarray(table[EXPOSURE])
        usable = (
            (seen >= 0) & (seen <= sessions * (1 + 1e-6)) & ((seen > 0) | (shown < 1))
        )
        limits = "must be 0 to the query's sessions, and above 0 if shown"
        rules.append((~usable, EXPOSURE, limits))
    if RANDOMISED in table.column_names:
        drawn = np.asarray(table[RANDOMISED])
        rules.append(
            ((drawn < 0) | (drawn > shown), RANDOMISED, "must be 0 to the impressions")
        )
    for broken, name, rule in rules:
        if broken.any():
            row = int(np.argmax(broken))
            where = ", ".join(f"{k} {table[k][row].as_py()!r}" for k in KEYS)
            raise DataError(
                f"counts of {where}: {name} {rule}, got {table[name][row].as_py()} "
                f"({int(broken.sum())} such rows)"
            )
