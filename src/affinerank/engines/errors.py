"""Errors of engines, in one sentence that says what the user can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from affinerank.support.errors import AffineRankError, DataError

# Top-level packages whose exceptions come from an engine.
LIBRARIES = frozenset(
    ("duckdb", "_duckdb", "ibis", "pyspark", "py4j", "psycopg", "sqlglot")
)
# What follows one of these is for developers of the engine.
DETAILS = ("\nPossible", "JVM stacktrace", "\n\tat ")


@contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Turn errors of an engine into a :class:`DataError` of one line."""
    try:
        yield
    except AffineRankError:
        raise
    except Exception as raised:
        error: BaseException = raised
        if type(error).__module__.split(".")[0] not in LIBRARIES:
            raise
        if type(error).__name__ == "InvalidCursorName" and error.__context__:
            error = error.__context__  # closing what the true error has closed
        raise DataError(f"{what}: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    """Say why the engine gave up, in one line."""
    name = type(error).__name__
    text = _without_details(str(error))
    one_line = " ".join(text.split())[:300]
    if "No space left" in text or "max_temp_directory_size" in text:
        return "the disk is full: the output's, or the one for spilling (TMPDIR)"
    if "temporary file size exceeds" in text or "DiskFull" in name:
        return "the server's disk is full, or what it lets a query take of it"
    if "disabled by configuration" in text or "disabled through conf" in text:
        return "a database may not read other files or load extensions"
    if name in ("OperationalError", "AdminShutdown"):
        return f"the connection failed: {one_line}"
    if "OutOfMemory" in name:
        return "the memory it may take is too little; give more (--memory)"
    return f"the engine could not read it: {one_line}"


def _without_details(text: str) -> str:
    """Cut what is for developers of the engine, and correct the number of a line."""
    # DuckDB counts the line that it could not read twice.
    line = re.search(r"(?<=Malformed JSON)(.* in line )(\d+)", text)
    if line is not None:
        text = text.replace(line[0], f"{line[1]}{int(line[2]) - 1}")
    for details in DETAILS:
        text = text.split(details, maxsplit=1)[0]
    return text
