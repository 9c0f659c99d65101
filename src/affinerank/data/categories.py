"""Categories: columns of text, held as codes of their values.

Codes are places in the sorted values, so they do not depend on the order of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from affinerank.support import limits
from affinerank.support.arrays import Matrix
from affinerank.support.arrow import pa, pc
from affinerank.support.errors import DataError

Values = Mapping[str, tuple[str, ...]]
ABSENT = ["", "NA", "N/A", "NULL", "null", "None", "nan", "NaN"]
TRUTH = {"false", "true"}
FEW_VALUES = 20  # are a category, however few the rows


def texts(column: Any) -> Any:
    """Return the values of a column as text, null where they are missing."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    text = column.cast(pa.string())
    if pa.types.is_floating(column.type):  # whole numbers beside missing ones
        text = pc.replace_substring_regex(text, r"\.0$", "")
    return pc.if_else(pc.is_in(text, pa.array(ABSENT)), None, text)


def values_of(batches: Iterable[Any], rows: int, declared: Iterable[str]) -> Values:
    """Return the values of each column, sorted; reject columns that hold free text.

    Columns of numbers or true and false, written as text, have to be ``declared``.
    """
    found: dict[str, set[str]] = {}
    for batch in batches:
        batch.validate(full=True)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            own = found.setdefault(name, set())
            own.update(pc.unique(texts(column)).drop_null().to_pylist())
            long = max(map(len, own), default=0) > limits.CATEGORY_LENGTH
            if long or len(own) > limits.CATEGORY_VALUES:
                _require_text(name, own, declared)
                most = f"more than {limits.CATEGORY_VALUES:,} different values"
                raise _free_text(name, most)
    for name, own in found.items():
        _require_text(name, own, declared)
        if len(own) > max(FEW_VALUES, rows / 2):
            raise _free_text(name, f"{len(own)} different values in {rows} rows")
    return {name: tuple(sorted(own)) for name, own in found.items()}


def _require_text(name: str, values: set[str], declared: Iterable[str]) -> None:
    """Reject a column of text most of whose values are numbers: one was mistyped."""
    numbers = sorted(filter(is_number, values))
    if 2 * len(numbers) <= len(values) or name in declared:
        return
    words = sorted(values.difference(numbers))
    also = f" and {words[0]!r:.60}" if words else " as text"
    raise DataError(
        f"column {name!r} must hold numbers or text, holds numbers{also}; if it is a "
        f"category, say so (--category {name}), else correct it, or leave it out "
        f"(--ignore {name})"
    )


def codes(column: Any, values: tuple[str, ...], declared: bool) -> Matrix:
    """Return the code of each row; NaN where it is missing; 0 and 1 for truth."""
    text = texts(column)
    if is_truth(values) and not declared:
        code = pc.equal(pc.utf8_lower(text), "true")
    else:
        code = pc.index_in(text, pa.array(values, pa.string()), skip_nulls=True)
    found: Matrix = code.cast(pa.float32()).to_numpy(zero_copy_only=False)
    return found


def is_truth(values: tuple[str, ...]) -> bool:
    """Whether all values are true or false: numbers then, 1 and 0."""
    return TRUTH.issuperset(map(str.lower, values))


def _free_text(name: str, what: str) -> DataError:
    return DataError(
        f"column {name!r} holds free text, {what} or very long ones, and is no "
        f"category; leave it out (--ignore {name})"
    )


def is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
