"""The files of a log: which they are, whether they are whole, what columns they have.

Nothing is guessed: the ending of a name tells the format, the first line of CSV the
columns. What is left out of a folder is said. Engines read on where a file is damaged;
so all text is read to its end here first.
"""

from __future__ import annotations

import csv
import glob
import os
import re
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from affinerank.support.arrow import parquet_errors
from affinerank.support.errors import DataError, warn
from affinerank.support.limits import FEATURES, LINE_BYTES, TEXT_DEPTH
from affinerank.support.text_files import COMPRESSIONS, SEPARATORS, lines_of

JSON_LINES = (".jsonl", ".ndjson", ".json")
STRING = re.compile(r'"(?:[^"\\]++|\\.)*+\\?(?:"|\Z)', re.DOTALL)
STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


class Layout(NamedTuple):
    """What files have in common that are read as one.

    Attributes:
        format: ``parquet``, ``csv`` or ``json``.
        columns: Their names, in order; none for JSON, where every line has its own.
        types: The types of Parquet columns.
        compression: ``gzip`` or ``zstd``, of text.
        separator: What is between the fields of CSV.
        broken: Whether rows of CSV have line breaks, within quotes.
    """

    format: str
    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    compression: str | None = None
    separator: str = ","
    broken: bool = False


def layouts(source: str) -> dict[Layout, list[str]]:
    """Return the files of a log by their layout, once all are found to be whole."""
    found: dict[Layout, list[str]] = {}
    for path in _files(source):
        found.setdefault(_layout(path), []).append(str(path))
    return found


def require_distinct(names: Iterable[str], where: object) -> None:
    """Reject two columns of one name; engines do not tell upper from lower case."""
    known = list(names)
    if len(known) > FEATURES:
        raise DataError(f"{where}: has more than {FEATURES} columns")
    for name, times in Counter(map(str.lower, known)).items():
        if times > 1:
            same = ", ".join(repr(n) for n in known if n.lower() == name)
            raise DataError(
                f"{where}: {times} columns have one name, upper and lower case aside "
                f"({same:.200}); give each a name of its own"
            )


def is_whole(text: str) -> bool:
    """Whether a text has no half characters, which no file may hold."""
    return text == text.encode(errors="replace").decode()


def _files(source: str) -> list[Path]:
    """Return the files that ``source`` names, each once; say what is left out."""
    path = Path(source)
    if not path.exists() and not glob.has_magic(source):
        raise DataError(f"{source}: there is no such file")
    pattern = glob.escape(source) if path.exists() else source
    shown = set(glob.glob(pattern, recursive=True))
    taken: dict[str, Path] = {}
    left: set[Path] = set()
    for match in sorted(glob.glob(pattern, recursive=True, include_hidden=True)):
        folder = Path(match)
        for file in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
            names = file.relative_to(folder).parts
            log = file.suffix.lower() == ".parquet" or not names
            hidden = any(name.startswith((".", "_")) for name in names)
            if log and file.is_file() and not hidden and match in shown:
                taken.setdefault(os.path.realpath(file), file)
            elif not file.is_dir() or file.is_symlink():
                left.add(file)
    for file in left:
        if "_delta_log" in file.parts or file.name.endswith(".metadata.json"):
            raise DataError(
                f"{source}: has {file.name} of a Delta or Iceberg table, which keeps "
                "files of rows that were deleted; name the folder of the Delta table, "
                "or write the Iceberg table into Parquet files"
            )
    if not taken:
        raise DataError(
            f"{source}: no files found; of a folder Parquet files are read, and text "
            "by a pattern, as in 'logs/*.csv'"
        )
    if left:
        few = ", ".join(sorted({file.name for file in left})[:3])
        note = f"{source}: {len(left)} files left out, as {few}"
        warn(note)
    return list(taken.values())


def _layout(path: Path) -> Layout:
    if not is_whole(str(path)):
        raise DataError(f"{str(path)!a}: expected a name in UTF-8")
    compression = COMPRESSIONS.get(path.suffix.lower())
    ending = (path.with_suffix("") if compression else path).suffix.lower()
    if ending == ".parquet" and not compression:
        with parquet_errors(path):
            schema = pq.read_schema(path)
        require_distinct(schema.names, path)
        return Layout("parquet", tuple(schema.names), tuple(map(str, schema.types)))
    if ending in JSON_LINES:
        _require_shallow(path)
        return Layout("json", compression=compression)
    if ending in SEPARATORS:
        names, broken = _csv(path, SEPARATORS[ending])
        return Layout("csv", names, (), compression, SEPARATORS[ending], broken)
    raise DataError(
        f"{path}: expected a file that ends in .parquet, .csv, .tsv or .jsonl "
        "(text also .gz, .zst), or a folder of Parquet files"
    )


def _csv(path: Path, separator: str) -> tuple[tuple[str, ...], bool]:
    """Return the names in the first line, and whether a row has several lines.

    Check that all rows have as many fields. DuckDB leaves out what follows a quote that
    is never closed, and takes a second carriage return for a line.
    """
    lines = (line.replace("\r\r", "\r.") for line in lines_of(path))
    reader = csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=True)
    done, broken = 0, False
    csv.field_size_limit(LINE_BYTES)  # of columns that nobody asks for, too
    try:
        names = next(reader, [])
        if len(names) < 2:
            raise csv.Error(
                f"expected names with {separator!r} between, got {names!s:.60}"
            )
        done = reader.line_num
        for row in reader:
            if row and len(row) != len(names):
                raise csv.Error(f"expected {len(names)} fields, got {len(row)}")
            broken = broken or reader.line_num > done + 1
            done = reader.line_num
    except csv.Error as error:
        raise DataError(f"{path}, line {done + 1}: {error}") from None
    named = tuple(name or f"column{i}" for i, name in enumerate(names))
    require_distinct(named, path)
    return named, broken


def _require_shallow(path: Path) -> None:
    """Reject JSON nested so deep that DuckDB dies of it."""
    for number, line in enumerate(lines_of(path), start=1):
        if line.count("[") + line.count("{") > TEXT_DEPTH:
            steps = (STEPS.get(character, 0) for character in STRING.sub("", line))
            if max(accumulate(steps), default=0) > TEXT_DEPTH:
                right = f"expected JSON of {TEXT_DEPTH} levels at most"
                raise DataError(f"{path}, line {number}: {right}")
