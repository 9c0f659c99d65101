"""Feature tables as text: CSV, TSV and JSON Lines; data with the sizes of queries.

Columns are ``query_id, doc_id, [label]``, and one per feature. In CSV ids are text,
whatever they look like; a feature whose every value is a number, or empty where it is
missing, is one, and any other is a category. The table becomes Parquet first, and is
read like that.

LightGBM and XGBoost keep the sizes of queries in a file beside the data, ``FILE.query``
or ``FILE.group``; the label is the first column there, and no column names the query.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from affinerank.data.categories import ABSENT, is_number, texts
from affinerank.data.dataset import RankingDataset
from affinerank.data.dataset_checks import default_feature_names
from affinerank.data.letor import queries_of, read_lines
from affinerank.data.parquet import OF_LOGS, read_open
from affinerank.data.read_options import ReadOptions
from affinerank.support.arrays import Ints
from affinerank.support.arrow import parquet_errors
from affinerank.support.errors import DataError
from affinerank.support.files import PathLike, existing_file, one_line, scratch_folder
from affinerank.support.limits import FEATURES, TEXT_DEPTH
from affinerank.support.text_files import COMPRESSIONS, SEPARATORS, lines_of, parse_json

JSON_LINES = (".jsonl", ".ndjson")
SIDES = (".query", ".group")
ROWS_AT_ONCE = 8192


def ending(path: Path) -> str:
    """Return the ending of a name, that of compression aside.

    >>> ending(Path("shop.csv.gz"))
    '.csv'
    """
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return plain.suffix.lower()


def is_table(path: Path) -> bool:
    """Whether the name is that of a table: Parquet, CSV, TSV or JSON Lines."""
    return path.suffix == ".parquet" or ending(path) in (*SEPARATORS, *JSON_LINES)


def side_of(path: Path, list_id: str = "query_id") -> Path | None:
    """Return the file beside it with the sizes of queries, if data name no queries."""
    names = (path.with_name(path.name + side) for side in SIDES)
    found = next(filter(Path.is_file, names), None)
    if found is None or path.suffix == ".parquet" or ending(path) in JSON_LINES:
        return None
    first = next(filter(str.strip, lines_of(path)), "").strip()
    named = " qid:" in first or list_id in re.split("[,\t]", first.replace('"', ""))
    return None if named else found


def read_table(
    path: PathLike,
    chosen: ReadOptions = ReadOptions(),  # noqa: B008
    side: Path | None = None,
) -> RankingDataset:
    """Read ranking data from CSV, TSV or JSON Lines, as from Parquet.

    With a ``side``, read data of LightGBM or XGBoost whose queries have the sizes in
    that file: SVMLight text without ``qid``, or CSV or TSV, with names in the first
    line or without. Queries are called 1, 2, ..., documents by their row from 0.
    Features without names are ``f1 .. fn``; of SVMLight text ``f`` and their number.
    """
    source = existing_file(path)
    kind = (ending(source)[1:] or "text").upper()
    with scratch_folder() as folder, parquet_errors(source, kind):
        file = folder / "features.parquet"
        if side is not None:
            sizes = _sizes(side)
            first = next(filter(str.strip, lines_of(source)), "")
            if re.match(r"\S+(\s+\d+:\S*)+\s*(#.*)?$", first):
                return read_lines(source, chosen.missing, sizes=sizes)
            chosen = _dense(source, file, first, sizes, chosen)
        elif ending(source) in SEPARATORS:
            separated = pyarrow.csv.ParseOptions(delimiter=SEPARATORS[ending(source)])
            _csv_to_parquet(source, file, chosen, parse_options=separated)
        else:
            _lines_to_parquet(source, file, chosen)
        return read_open(file, chosen)


def _csv_to_parquet(source: Path, file: Path, chosen: ReadOptions, **how: Any) -> None:
    """Write the columns taken as Parquet; what is not all numbers becomes text."""
    with pyarrow.csv.open_csv(source, **how) as reader:
        names = reader.schema.names  # of the header
    *ids, label = chosen.own
    words = {*ids, *OF_LOGS.split(), *filter(chosen.declares, names)}
    taken = [n for n in names if n in (*words, label) or chosen(n)]
    while True:
        types = {n: pa.string() if n in words else pa.float64() for n in names}
        convert = pyarrow.csv.ConvertOptions(
            column_types=types,
            include_columns=taken,
            null_values=ABSENT,
            strings_can_be_null=True,
        )
        try:
            with (
                pyarrow.csv.open_csv(source, convert_options=convert, **how) as reader,
                pq.ParquetWriter(file, reader.schema) as writer,
            ):
                for batch in reader:
                    writer.write_batch(batch)
            return
        except pa.ArrowInvalid as error:
            found = re.search(r"CSV column #(\d+): (.*?)conversion error", str(error))
            if found is None or (name := names[int(found[1])]) in words:
                raise
            if name == label:
                value = one_line(error).rpartition("value ")[2]
                raise DataError(
                    f"column {name!r} must hold numbers, got {value:.60}"
                ) from None
            words.add(name)


def _lines_to_parquet(source: Path, file: Path, chosen: ReadOptions) -> None:
    """Write the objects of JSON Lines as Parquet; a name that one lacks is missing."""
    parts = [pa.table({})]
    names: set[str] = set()
    *ids, label = chosen.own
    ids += OF_LOGS.split()
    objects = _objects(source)
    while rows := list(islice(objects, ROWS_AT_ONCE)):
        here = dict.fromkeys(name for _, row in rows for name in row)
        names.update(here)
        if len(names) > FEATURES:
            raise DataError(f"has more than {FEATURES:,} columns")
        taken = [n for n in here if n in (*ids, label) or chosen(n)]
        parts.append(pa.table({n: _column(n, rows, n in ids) for n in taken}))
    every = {(field.name, field.type) for part in parts for field in part.schema}
    kinds = Counter(name for name, _ in every)
    for i, part in enumerate(parts):
        for place, name in enumerate(part.column_names):
            if kinds[name] > 1:  # text in some parts
                parts[i] = parts[i].set_column(place, name, texts(part[name]))
    pq.write_table(pa.concat_tables(parts, promote_options="default"), file)


def _objects(source: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the number and the object of each line that is not blank."""
    for number, line in enumerate(lines_of(source), start=1):
        if not line.strip():
            continue
        try:
            if line.count("[") + line.count("{") > TEXT_DEPTH:
                raise ValueError("expected numbers, texts and null in an object")
            row = parse_json(line)
            if not isinstance(row, dict):
                raise ValueError(f"expected an object, got {row!r:.60}")
        except ValueError as error:
            reason = one_line(error)
            raise DataError(f"line {number}: not JSON: {reason}") from None
        yield number, row


def _column(
    name: str, rows: list[tuple[int, Mapping[str, Any]]], identifies: bool
) -> pa.Array:
    """Return a column of some rows: numbers, or text where some value is text."""
    values = [row.get(name) for _, row in rows]
    kinds = {*map(type, values)} - {type(None)}
    if kinds - {str, int, float, bool}:
        number = next(n for n, row in rows if isinstance(row.get(name), dict | list))
        raise DataError(
            f"line {number}: {name!r:.60} must hold a number, a text or null"
        )
    if identifies and kinds <= {int} and all(abs(v or 0) < 2**63 for v in values):
        return pa.array(values, pa.int64())
    if str in kinds or identifies:
        plain = (str, type(None))
        words = [v if isinstance(v, plain) else json.dumps(v) for v in values]
        return pa.array(words, pa.string())
    try:
        return pa.array([v if v is None else float(v) for v in values], pa.float64())
    except OverflowError:
        raise DataError(f"{name!r:.60} holds a number beyond all limits") from None


def _sizes(side: Path) -> Ints:
    """Read the number of documents of each query, one per line."""
    found = []
    for number, line in enumerate(lines_of(side), start=1):
        if not re.fullmatch(r"[1-9]\d{0,8}\s*", line):
            raise DataError(
                f"{side}, line {number}: expected the number of documents of a query, "
                f"1 or more, got {line.strip()!r:.60}"
            )
        found.append(int(line))
    return np.array(found, dtype=np.int64)


def _dense(
    source: Path, file: Path, first: str, sizes: Ints, chosen: ReadOptions
) -> ReadOptions:
    """Write a table whose first column is the label; return how to read it."""
    separator = "\t" if "\t" in first else ","
    cells = [cell.strip('" ') for cell in first.strip("\r\n").split(separator)]
    named = not all(is_number(cell) or cell in ABSENT for cell in cells)
    names = cells if named else ["label", *default_feature_names(len(cells) - 1)]
    own = replace(chosen, columns=(("label", names[0]),), list_id="query_id")
    _csv_to_parquet(
        source,
        file,
        own,
        parse_options=pyarrow.csv.ParseOptions(delimiter=separator),
        read_options=pyarrow.csv.ReadOptions(column_names=names, skip_rows=int(named)),
    )
    table = pq.read_table(file)
    query = queries_of(sizes, table.num_rows)
    table = table.append_column("query_id", pa.array(query + 1))
    pq.write_table(table.append_column("doc_id", pa.array(np.arange(len(query)))), file)
    return own
