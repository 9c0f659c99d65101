"""The compiled inner loop of the LETOR reader: bytes of whole lines to flat arrays.

It is kept apart because numba takes half a second to import and only readers of text
need it. A fault is a ``ValueError`` of what is wrong and a byte position;
:mod:`affinerank.data.letor` fills in what stands there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Function = TypeVar("Function", bound=Callable[..., Any])

_LF, _CR, _PLUS, _MINUS, _DOT = b"\n\r+-."
_ZERO, _NINE, _COLON, _EQUALS, _HASH, _LOWER_E = b"09:=#e"
_QID = np.frombuffer(b"qid:", dtype=np.uint8)
_DOCID = np.frombuffer(b"docid", dtype=np.uint8)
_NAN = np.frombuffer(b"nan", dtype=np.uint8)
_NULL = np.frombuffer(b"null", dtype=np.uint8)
# Kinds of bytes, to look for one of several.
_BLANK, _BREAK, _COMMENT, _OTHER = 1, 2, 4, 8
_WORD, _WORD_END = _BREAK | _COMMENT | _OTHER, _BLANK | _BREAK | _COMMENT
_KINDS = np.full(256, _OTHER, dtype=np.uint8)
_KINDS[[*b" \t"]], _KINDS[[*b"\n\r"]], _KINDS[_HASH] = _BLANK, _BREAK, _COMMENT
_ENOUGH = 10**17  # with one digit more, int64 holds it
_LARGEST = float(np.finfo(np.float32).max)
_POWERS = np.array([float(f"1e{power}") for power in range(309)])


def compiled(function: Function) -> Function:
    """Compile at the first call, keep the result on disk, run beside other threads."""
    return cast(Function, numba.njit(nogil=True, cache=True)(function))


class Rows(NamedTuple):
    """Room for what the lines hold; filled by :func:`parse_lines`.

    Attributes:
        labels: ``[rows]``.
        ends: ``[rows]`` end of the row's features in ``ids`` and ``values``.
        ids: ``[values]`` columns of the features, from 0.
        values: ``[values]``; NaN where the text has NULL or nan.
        queries: ``[runs, 3]`` of each run of rows of one query, the span of its id and
            its first row.
        docs: ``[rows, 2]`` span of the doc id in the comment; empty where none is.
    """

    labels: NDArray[np.float32]
    ends: NDArray[np.int64]
    ids: NDArray[np.int32]
    values: NDArray[np.float32]
    queries: NDArray[np.int64]
    docs: NDArray[np.int64]


@compiled
def count_tokens(text: Bytes) -> tuple[int, int]:
    """Return the lines of ``text``, and an upper bound on its values.

    A line ends with LF, CR LF or CR; ``text`` must end with LF.
    """
    lines, colons = 0, 0
    for i in range(len(text)):
        lines += text[i] == _LF or (text[i] == _CR and text[i + 1] != _LF)
        colons += text[i] == _COLON
    return lines, colons


@compiled
def parse_lines(
    text: Bytes, out: Rows, how: tuple[int, int, bool]
) -> tuple[int, int, int]:
    """Parse whole lines; ``text`` must end with a line feed.

    Args:
        text: Bytes of the lines.
        out: What is filled.
        how: The first and the last id of features, and whether values may be missing.
            Where features count from 0, lines have no query.

    Returns:
        rows, values, runs of queries.
    """
    at, row, filled, runs = 0, 0, 0, 0
    while at < len(text):
        at = _find(text, at, _WORD)
        if _KINDS[text[at]] != _OTHER:
            at = _find(text, at, _BREAK) + 1
            continue
        out.labels[row], query = _head(text, at, how[0])
        at = _find(text, query, _WORD_END)
        if runs == 0 or not _same(text, out.queries[runs - 1, 0], query, at):
            out.queries[runs] = query, at, row
            runs += 1
        at, filled = _features(text, at, out, filled, how)
        out.ends[row] = filled
        end = _find(text, at, _BREAK)
        out.docs[row] = _find_docid(text, at, end)
        at = end
        row += 1
    return row, filled, runs


@compiled
def fill_dense(features: NDArray[np.float32], rows: Rows) -> None:
    """Write the values of ``rows`` into ``features [n_rows, n_features]``."""
    first = 0
    for row in range(len(features)):
        for i in range(first, rows.ends[row]):
            features[row, rows.ids[i]] = rows.values[i]
        first = rows.ends[row]


@compiled
def _head(text: Bytes, at: int, first_id: int) -> tuple[float, int]:
    """Parse ``label qid:id``; return the label and the start of the id."""
    label, end, state = _number(text, at)
    if state != 0:
        raise ValueError("expected a label, a number, first, got {got}", at)
    if label < 0:
        raise ValueError("a label must be 0 or more, got {got}", at)
    if first_id == 0:
        return label, end
    at = _find(text, end, _WORD)
    if not _starts_with(text, at, _QID, 0):
        raise ValueError("expected qid:... after the label, got {got}", at)
    query = at + len(_QID)
    if _KINDS[text[query]] != _OTHER:
        raise ValueError("the query id is empty, expected qid:NAME", query)
    return label, query


@compiled
def _features(
    text: Bytes, at: int, out: Rows, filled: int, how: tuple[int, int, bool]
) -> tuple[int, int]:
    """Parse ``id:value`` pairs up to the comment or the end of the line."""
    first_id, max_id, may_lack = how
    first, start, previous, in_order = filled, at, -1, True
    while True:
        pair = _find(text, at, _WORD)
        if _KINDS[text[pair]] != _OTHER:
            break
        feature, at = _digits(text, pair)
        if text[at] != _COLON or at == pair or feature < first_id:
            _reject_pair(text, pair)
        if feature > max_id:
            raise ValueError(
                "a feature id must be at most {most} (the limit can be raised: "
                "max_features), got {got}",
                pair,
            )
        value, end, state = _number(text, at + 1)
        if state == 2:
            raise ValueError("expected a number after the colon, got {got}", at + 1)
        if state == 1 and not may_lack:
            raise ValueError(
                "feature {id} has no value (NULL or nan); "
                "choose what becomes of missing values: keep, or a number",
                pair,
            )
        at = end
        out.ids[filled] = feature - first_id
        out.values[filled] = value
        filled += 1
        in_order = in_order and feature > previous
        previous = feature
    if not in_order:
        ids = np.sort(out.ids[first:filled])
        if np.any(ids[1:] == ids[:-1]):
            raise ValueError("a feature id stands twice in this line", start)
    return pair, filled


@compiled
def _number(text: Bytes, at: int) -> tuple[float, int, int]:
    """Parse the token at ``at``; return its value, its end, and a state.

    The state is 0 for a number, 1 for a missing value (NULL, nan, or the largest
    float64, which Istella's sets write), 2 for anything else, other numbers beyond
    float32 among it.
    """
    start = at
    if text[at] in (_MINUS, _PLUS):
        at += 1
    mantissa, exponent, digits, after_point = 0, 0, 0, False
    while True:
        byte = text[at]
        if byte == _DOT and not after_point:
            after_point = True
        elif byte < _ZERO or byte > _NINE:
            break
        elif mantissa < _ENOUGH:
            mantissa = mantissa * 10 + (byte - _ZERO)
            exponent -= after_point
            digits += 1
        else:  # float32 does not notice digits that are dropped
            exponent += not after_point
        at += 1
    if digits and text[at] | 32 == _LOWER_E:
        sign = text[at + 1]
        first = at + (2 if sign in (_MINUS, _PLUS) else 1)
        power, at = _digits(text, first)
        digits = at - first
        exponent += -power if sign == _MINUS else power
    if digits == 0 or _KINDS[text[at]] == _OTHER:
        end = _find(text, start, _WORD_END)
        missing = end - start == len(_NAN) and _starts_with(text, start, _NAN, 32)
        missing |= end - start == len(_NULL) and _starts_with(text, start, _NULL, 32)
        return np.nan, end, (1 if missing else 2)
    value = float(mantissa)
    # Beyond these powers a value is 0 or infinite as float32.
    if exponent < 0:
        value /= _POWERS[min(-exponent, 308)]
    elif exponent > 0:
        value *= _POWERS[min(exponent, 308)]
    if value > _LARGEST:
        return np.nan, at, (1 if 1.79e308 < value < np.inf else 2)
    return (-value if text[start] == _MINUS else value), at, 0


@compiled
def _digits(text: Bytes, at: int) -> tuple[int, int]:
    """Read digits, if any; return the number, or a very large one, and their end."""
    number = 0
    while _ZERO <= text[at] <= _NINE:
        number = min(number * 10 + (text[at] - _ZERO), _ENOUGH)
        at += 1
    return number, at


@compiled
def _reject_pair(text: Bytes, at: int) -> None:
    """Say what is wrong with a token that is not ``id:value`` with such an id."""
    if _starts_with(text, at, _QID, 0):
        raise ValueError("expected feature:value, got a second query id, {got}", at)
    for i in range(at, _find(text, at, _WORD_END)):
        if text[i] == _COLON:
            raise ValueError(
                "a feature id must be a whole number from {first}, got {got}", at
            )
    raise ValueError("expected feature:value, got {got}", at)


@compiled
def _find_docid(text: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return the span of the word after ``docid =`` in a comment, or an empty one."""
    while at < end:
        if _starts_with(text, at, _DOCID, 0):
            equals = _find(text, at + len(_DOCID), _WORD)
            if text[equals] == _EQUALS:
                start = _find(text, equals + 1, _WORD)
                return start, _find(text, start, _BLANK | _BREAK)
        at += 1
    return 0, 0


@compiled
def _same(text: Bytes, before: int, start: int, end: int) -> bool:
    """Whether the token at ``before`` reads as the one at ``start:end``."""
    same = _starts_with(text, before, text[start:end], 0)
    return bool(same and _KINDS[text[before + end - start]] != _OTHER)


@compiled
def _starts_with(text: Bytes, at: int, word: Bytes, lower: int) -> bool:
    """Whether the word stands at ``at``; with a ``lower`` of 32 in any case."""
    if at + len(word) > len(text):
        return False
    for i in range(len(word)):
        if text[at + i] | lower != word[i]:
            return False
    return True


@compiled
def _find(text: Bytes, at: int, kinds: int) -> int:
    """Return the place of the next byte that is of one of the kinds."""
    while not _KINDS[text[at]] & kinds:
        at += 1
    return at
