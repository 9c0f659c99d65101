"""Arrow, imported when it is first used: tables and their help do without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from affinerank.support.arrays import Ids
from affinerank.support.errors import DataError
from affinerank.support.files import one_line

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:

    class _Later:
        def __init__(self, name: str) -> None:
            self.__name__ = name

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self.__name__), name)

    pa, pc = _Later("pyarrow"), _Later("pyarrow.compute")
    pq = _Later("pyarrow.parquet")

IDS_AT_ONCE = 1_000_000  # in one conversion of texts

__all__ = [
    "IDS_AT_ONCE",
    "arrow_column",
    "is_text",
    "pa",
    "parquet_errors",
    "pc",
    "pq",
    "table_of",
]


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type is one of Arrow's for text."""
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def table_of(frame: Any) -> pa.Table:
    """Return a frame that speaks Arrow as a table, without the index of pandas."""
    try:
        table = pa.table(frame)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise DataError(
            "expected a frame that speaks Arrow (pandas, polars, pyarrow, DuckDB), got "
            f"{type(frame).__name__}: {one_line(error):.100}"
        ) from None
    index = [n for n in table.column_names if n.startswith("__index_level_")]
    if len({*table.column_names}) < table.num_columns:
        raise DataError("the frame: two columns have the same name")
    columns = {n: _plain(table[n]) for n in table.column_names if n not in index}
    return pa.table(columns)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without views of strings, which Parquet does not take."""
    view = pa.string_view()
    if column.type == view:
        return column.cast(pa.string())
    if not pa.types.is_dictionary(column.type) or column.type.value_type != view:
        return column
    parts = [
        pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(pa.string()))
        for part in column.chunks
    ]
    return pa.chunked_array(parts, pa.dictionary(column.type.index_type, pa.string()))


@contextmanager
def parquet_errors(source: object, kind: str = "Parquet") -> Iterator[None]:
    """Name the file, and what it is read as, in errors of reading it."""
    try:
        yield
    except DataError as error:
        text = str(error)
        comma = "," if text.startswith("line ") else ":"
        named = text.startswith(tuple(f"{source}{mark}" for mark in ":,."))
        raise DataError(text if named else f"{source}{comma} {text}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{source}: could not be read as {kind}: {one_line(error)}"
        ) from None


def arrow_column(values: Ids) -> pa.Array:
    """Return an array of ids or numbers as one of Arrow."""
    if values.dtype.kind not in "OTU":
        return pa.array(values)
    parts = range(0, max(len(values), 1), IDS_AT_ONCE)
    return pa.concat_arrays(
        pa.array(values[i : i + IDS_AT_ONCE].tolist(), pa.string()) for i in parts
    )
