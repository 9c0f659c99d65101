"""Read the lines of other systems' logs: JSON objects, ids, moments, lists of numbers.

A bad line raises an error that names the file and the line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from affinerank.engines.files import is_whole
from affinerank.support.errors import DataError
from affinerank.support.files import PathLike, existing_file
from affinerank.support.limits import ID_BYTES
from affinerank.support.text_files import lines_of

BULK_ACTIONS = ("index", "create")


def numbered_lines(path: PathLike) -> Iterator[tuple[int, str, str]]:
    """Yield number, place and text of each line that is not blank."""
    source = existing_file(path)
    for number, line in enumerate(lines_of(source), start=1):
        if line.strip():
            yield number, f"{source}, line {number}", line


def json_objects(path: PathLike, index: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield place and content of each line; ``_source`` is unpacked.

    A bulk file of a search engine may hold several indices: a header such as
    ``{"index": {"_index": "ubi_events"}}`` stands before each document. The documents
    of ``index`` are yielded, and those whose index nobody names.
    """
    found_any = False
    other_indices: set[str] = set()
    index_of_next: str | None = None  # as the header above says
    for _, place, line in numbered_lines(path):
        document = parse_json(line)
        if not isinstance(document, dict):
            raise DataError(f"{place}: expected one JSON object per line")
        header = _bulk_header(document)
        if header is not None:
            index_of_next = header.get("_index")
            continue

        if index_of_next is not None and index_of_next != index:
            other_indices.add(str(index_of_next))
            continue
        content = document.get("_source", document)
        if not isinstance(content, dict):
            raise DataError(
                f"{place}: expected one JSON object per line, or as _source"
            )
        found_any = True
        yield place, content
    if other_indices and not found_any:
        names = ", ".join(sorted(other_indices))
        raise DataError(f"{path}: expected documents of index {index}, got {names:.60}")


def _bulk_header(document: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a header of a bulk file says of the next line, if it is a header."""
    if len(document) != 1:
        return None
    [(action, about)] = document.items()
    is_header = action in BULK_ACTIONS and isinstance(about, dict)
    return about if is_header else None


def parse_json(text: str) -> Any:
    """Read JSON; ``None`` if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def value_at(document: dict[str, Any], path: str) -> Any:
    """Return the value at a path such as ``event_attributes.object``, or ``None``."""
    value: Any = document
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def read_id(value: Any, name: str, place: str, *, empty: bool = False) -> str:
    """Return an id as text; only text and whole numbers are ids."""
    text = str(value) if type(value) in (str, int) else None
    is_id = (
        text is not None
        and is_whole(text)
        and len(text) <= ID_BYTES
        and (empty or text != "")
    )
    if text is None or not is_id:
        right = f"a text of 1 to {ID_BYTES} characters"
        raise DataError(f"{place}: expected {name}, {right}, got {value!r:.60}")
    return text


def read_moment(value: Any, place: str) -> datetime | None:
    """Read a moment: ISO 8601, or milliseconds since 1970."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
        elif type(value) in (int, float):
            moment = datetime.fromtimestamp(value / 1000, UTC)
        elif value is None:
            return None
        else:
            raise ValueError
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        right = "a moment as in 2026-01-31T10:00:00Z, or milliseconds since 1970"
        raise DataError(
            f"{place}: expected timestamp, {right}, got {value!r:.60}"
        ) from None


def read_numbers(text: str, place: str, what: str) -> list[int]:
    """Read a list of whole numbers such as ``[1, 2, 3]``."""
    numbers = parse_json(text)
    if not isinstance(numbers, list) or {*map(type, numbers)} - {int}:
        raise DataError(f"{place}: expected {what} as in [1, 2], got {text[:60]!r}")
    return numbers
