"""The compiled inner loop of the LETOR reader: bytes of whole lines to flat arrays.

It is kept apart because numba takes half a second to import and only readers of text
need it. A fault is returned as a code and a byte position;
:mod:`affinerank.data.letor` describes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Function = TypeVar("Function", bound=Callable[..., Any])

OK, NO_LABEL, NEGATIVE_LABEL, NO_QUERY, EMPTY_QUERY, NO_COLON = range(6)
BAD_ID, ID_TOO_LARGE, BAD_VALUE, REPEATED, LATE_QUERY = range(6, 11)

_TAB, _LF, _CR, _SPACE, _HASH, _PLUS, _MINUS, _DOT = 9, 10, 13, 32, 35, 43, 45, 46
_ZERO, _NINE, _COLON, _EQUALS, _UPPER_E, _LOWER_E = 48, 57, 58, 61, 69, 101
_QID = np.frombuffer(b"qid:", dtype=np.uint8)
_DOCID = np.frombuffer(b"docid", dtype=np.uint8)
_NAN = np.frombuffer(b"nan", dtype=np.uint8)
_NULL = np.frombuffer(b"null", dtype=np.uint8)
_EXACT_DIGITS = 18  # as many as int64 holds
_ENOUGH = 10 ** (_EXACT_DIGITS - 1)
_LARGEST = float(np.finfo(np.float32).max)
_POWERS = 10.0 ** np.arange(23)  # each exact in float64


def compiled(function: Function) -> Function:
    """Compile at the first call, keep the result on disk, run beside other threads."""
    return cast(Function, numba.njit(nogil=True, cache=True)(function))


class Rows(NamedTuple):
    """Room for what the lines hold; filled by :func:`parse_lines`.

    Attributes:
        starts: ``[rows]`` byte position of the row.
        labels: ``[rows]``.
        ends: ``[rows]`` end of the row's features in ``ids`` and ``values``.
        ids: ``[values]`` feature ids, from 1.
        values: ``[values]``; NaN where the text has NULL or nan.
        queries: ``[runs, 3]`` of each run of rows of one query, the span of its id and
            its first row.
        docs: ``[rows, 2]`` span of the doc id in the comment; empty where none is.
    """

    starts: NDArray[np.int64]
    labels: NDArray[np.float64]
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
    lines = 0
    colons = 0
    for i in range(len(text)):
        lines += text[i] == _LF or (text[i] == _CR and text[i + 1] != _LF)
        colons += text[i] == _COLON
    return lines, colons


@compiled
def parse_lines(text: Bytes, out: Rows, max_id: int) -> tuple[int, int, int, int, int]:
    """Parse whole lines; ``text`` must end with a line feed.

    Returns:
        code, byte position of the fault, rows, values, runs of queries.
    """
    at = 0
    row = 0
    filled = 0
    runs = 0
    while at < len(text):
        at = _skip_blanks(text, at)
        if _ends_line(text[at]):
            at += 1
            continue
        if text[at] == _HASH:
            at = _line_end(text, at)
            continue
        out.starts[row] = at
        code, at, label, query = _head(text, at)
        if code != OK:
            return code, at, row, filled, runs
        if runs == 0 or not _same(text, out.queries[runs - 1, 0], query, at):
            out.queries[runs, 0] = query
            out.queries[runs, 1] = at
            out.queries[runs, 2] = row
            runs += 1
        code, at, filled = _features(text, at, out, filled, max_id)
        if code != OK:
            return code, at, row, filled, runs
        out.labels[row] = label
        out.ends[row] = filled
        end = _line_end(text, at)
        out.docs[row, 0], out.docs[row, 1] = _find_docid(text, at, end)
        at = end
        row += 1
    return OK, 0, row, filled, runs


@compiled
def fill_dense(features: NDArray[np.float32], rows: Rows) -> None:
    """Write the values of ``rows`` into ``features [n_rows, n_features]``."""
    first = 0
    for row in range(len(features)):
        for i in range(first, rows.ends[row]):
            features[row, rows.ids[i] - 1] = rows.values[i]
        first = rows.ends[row]


@compiled
def _head(text: Bytes, at: int) -> tuple[int, int, float, int]:
    """Parse ``label qid:id``; return code, end or fault, label, start of the id."""
    label, end, state = _number(text, at)
    if state != 0:
        return NO_LABEL, at, 0.0, 0
    if label < 0:
        return NEGATIVE_LABEL, at, 0.0, 0
    at = _skip_blanks(text, end)
    if not _starts_with(text, at, _QID):
        return NO_QUERY, at, 0.0, 0
    query = at + len(_QID)
    at = _token_end(text, query)
    if at == query:
        return EMPTY_QUERY, at, 0.0, 0
    return OK, at, label, query


@compiled
def _features(
    text: Bytes, at: int, out: Rows, filled: int, max_id: int
) -> tuple[int, int, int]:
    """Parse ``id:value`` pairs up to the comment or the end of the line."""
    first = filled
    previous = 0
    in_order = True
    start = at
    while True:
        at = _skip_blanks(text, at)
        if _ends_line(text[at]) or text[at] == _HASH:
            break
        pair = at
        feature = 0
        while _ZERO <= text[at] <= _NINE:
            feature = feature * 10 + (text[at] - _ZERO)
            at += 1
        if (
            text[at] != _COLON
            or at == pair
            or (feature == 0 and at - pair <= _EXACT_DIGITS)
        ):
            return _pair_fault(text, pair), pair, filled
        if at - pair > _EXACT_DIGITS or feature > max_id:
            return ID_TOO_LARGE, pair, filled
        value, end, state = _number(text, at + 1)
        if state == 2:
            return BAD_VALUE, at + 1, filled
        at = end
        out.ids[filled] = feature
        out.values[filled] = value
        filled += 1
        in_order = in_order and feature > previous
        previous = feature
    if not in_order and _has_repeat(out.ids[first:filled]):
        return REPEATED, start, filled
    return OK, at, filled


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
    if digits and (text[at] == _LOWER_E or text[at] == _UPPER_E):
        power, digits, at = _power(text, at + 1)
        exponent += power
    if digits == 0 or not _ends_token(text[at]):
        end = _token_end(text, start)
        return np.nan, end, (1 if _is_missing(text, start, end) else 2)
    value = float(mantissa)
    if exponent != 0:
        value = _scaled(value, exponent)
    if value > _LARGEST:
        return np.nan, at, (1 if 1.79e308 < value < np.inf else 2)
    return (-value if text[start] == _MINUS else value), at, 0


@compiled
def _power(text: Bytes, at: int) -> tuple[int, int, int]:
    """Parse what follows the ``e`` of a number; return power, digits and end."""
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    first = at
    power = 0
    while _ZERO <= text[at] <= _NINE:
        power = min(power * 10 + (text[at] - _ZERO), 100_000)
        at += 1
    return (-power if negative else power), at - first, at


@compiled
def _scaled(value: float, exponent: int) -> float:
    """Return value * 10^exponent, by powers that float64 holds exactly."""
    if -22 <= exponent <= 0:
        return value / float(_POWERS[-exponent])
    if value == 0.0:
        return 0.0
    while exponent > 0 and value < np.inf:
        step = min(exponent, 22)
        value *= _POWERS[step]
        exponent -= step
    while exponent < 0 and value > 0.0:
        step = min(-exponent, 22)
        value /= _POWERS[step]
        exponent += step
    return value


@compiled
def _pair_fault(text: Bytes, at: int) -> int:
    """Return the fault of a token that is not ``id:value`` with an id from 1."""
    if _starts_with(text, at, _QID):
        return LATE_QUERY
    for i in range(at, _token_end(text, at)):
        if text[i] == _COLON:
            return BAD_ID
    return NO_COLON


@compiled
def _has_repeat(ids: NDArray[np.int32]) -> bool:
    ordered = np.sort(ids)
    for i in range(1, len(ordered)):
        if ordered[i] == ordered[i - 1]:
            return True
    return False


@compiled
def _find_docid(text: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return the span of the word after ``docid =`` in a comment, or an empty one."""
    while at < end:
        if _starts_with(text, at, _DOCID):
            equals = _skip_blanks(text, at + len(_DOCID))
            if text[equals] == _EQUALS:
                start = _skip_blanks(text, equals + 1)
                stop = start
                while not (_is_blank(text[stop]) or _ends_line(text[stop])):
                    stop += 1
                return start, stop
        at += 1
    return 0, 0


@compiled
def _same(text: Bytes, before: int, start: int, end: int) -> bool:
    """Whether the token at ``before`` reads as the one at ``start:end``."""
    same = _starts_with(text, before, text[start:end])
    return bool(same and _ends_token(text[before + end - start]))


@compiled
def _starts_with(text: Bytes, at: int, word: Bytes) -> bool:
    if at + len(word) > len(text):
        return False
    for i in range(len(word)):
        if text[at + i] != word[i]:
            return False
    return True


@compiled
def _is_missing(text: Bytes, start: int, end: int) -> bool:
    for word in (_NAN, _NULL):
        if end - start == len(word):
            same = True
            for i in range(len(word)):
                same = same and (text[start + i] | 32) == word[i]  # any case
            if same:
                return True
    return False


@compiled
def _is_blank(byte: int) -> bool:
    return byte in (_SPACE, _TAB)


@compiled
def _ends_line(byte: int) -> bool:
    return byte in (_LF, _CR)


@compiled
def _ends_token(byte: int) -> bool:
    return _is_blank(byte) or _ends_line(byte) or byte == _HASH


@compiled
def _skip_blanks(text: Bytes, at: int) -> int:
    while _is_blank(text[at]):
        at += 1
    return at


@compiled
def _token_end(text: Bytes, at: int) -> int:
    while not _ends_token(text[at]):
        at += 1
    return at


@compiled
def _line_end(text: Bytes, at: int) -> int:
    while not _ends_line(text[at]):
        at += 1
    return at
