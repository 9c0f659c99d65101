"""LETOR / SVMLight text: ``label qid:id feature:value ... # docid = name``.

The file is read in blocks of whole lines, which threads parse in parallel into dense
rows (:mod:`affinerank.data.letor_kernel`), so memory stays near twice the result.
Features that a row leaves out are 0, as always with this format.
"""

from __future__ import annotations

import mmap
import os
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from affinerank.data.dataset import RankingDataset
from affinerank.data.dataset_checks import default_feature_names
from affinerank.data.parquet import read_through_cache
from affinerank.data.read_options import Missing, parse_missing
from affinerank.support import limits
from affinerank.support.arrays import Ids, Ints, Matrix
from affinerank.support.arrow import parquet_errors
from affinerank.support.errors import DataError
from affinerank.support.files import PathLike, existing_file
from affinerank.support.text_files import text_stream
from affinerank.support.threads import in_parallel

BLOCK_BYTES = 4 << 20
DENSE_BYTES = 1 << 30  # of the features of one block
SHORTEST = {1: len("0 qid:a\n"), 0: len("0\n")}  # without a query


class _Block(NamedTuple):
    """The rows of one block of lines."""

    features: Matrix
    labels: Matrix
    query_ids: list[str]  # of each run of rows of one query
    run_lengths: Ints
    doc_ids: Ids  # empty where a row has none
    lines: int


def read_letor(
    path: PathLike,
    *,
    missing: Missing = "error",
    cache: bool = False,
    max_features: int = limits.FEATURES,
) -> RankingDataset:
    """Read LETOR / SVMLight text, plain or compressed with gzip or zstandard.

    Args:
        path: The file. Compression is recognised by its first bytes.
        missing: What becomes of ``NULL`` and ``nan``: reject them (``"error"``),
            ``"keep"`` them as missing values, or replace them by a number.
        cache: Keep a Parquet copy beside the file, and read that as long as the file's
            size and modification time stay the same.
        max_features: Largest feature id allowed; the matrix has columns up to the
            largest one that occurs.

    Returns:
        The rows of each query together. Doc ids are those of ``# docid = ...``
        comments; a row without one has its row number.
    """
    source = existing_file(path)
    missing = parse_missing(missing)
    if cache:
        read = partial(read_letor, source, missing=missing, max_features=max_features)
        found = read_through_cache(source, f"letor missing={missing}", read)
        return replace(found, absent_is_zero=True)  # Parquet does not say it
    with parquet_errors(source, "text"):
        return read_lines(source, missing, max_features)


def read_lines(
    source: Path,
    missing: Missing,
    max_features: int = limits.FEATURES,
    sizes: Ints | None = None,
) -> RankingDataset:
    """Read the text; errors leave it to the caller to name the file.

    With ``sizes`` of queries, lines have no ``qid``, and features may count from 0:
    their names are ``f`` and their number.
    """
    parse = partial(_parse, missing, int(sizes is None), max_features)
    try:
        return _assemble(_parsed_blocks(source, parse), sizes)
    except MemoryError:
        raise DataError(
            "the features do not fit into memory as a dense matrix; "
            "use fewer feature ids, or read the file in parts"
        ) from None


def _assemble(blocks: Iterator[_Block], sizes: Ints | None) -> RankingDataset:
    """Join the blocks; runs of rows with one query id become one query."""
    parts: list[_Block] = []
    rows, width = 0, 0
    for part in blocks:
        parts.append(part)
        rows, width = rows + len(part.features), max(width, part.features.shape[1])
        if rows * width * 4 > os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE / 2:
            raise MemoryError
    number: dict[str, int] = {}
    runs = [number.setdefault(q, len(number)) for part in parts for q in part.query_ids]
    features = _stacked([part.features for part in parts], rows, width)
    if sizes is None:
        query = np.repeat(runs, np.concatenate([part.run_lengths for part in parts]))
        query_ids, names = compact_ids(list(number)), default_feature_names(width)
    else:
        query, query_ids = queries_of(sizes, rows), np.arange(len(sizes)) + 1
        names = tuple(f"f{i}" for i in range(width))
        if not features[:, :1].any():  # they count from 1
            features, names = features[:, 1:], names[1:]
    data = RankingDataset.from_groups(
        features,
        query,
        query_ids,
        labels=np.concatenate([part.labels for part in parts]),
        doc_ids=_joined_doc_ids([part.doc_ids for part in parts]),
        feature_names=names,
    )
    return replace(data, absent_is_zero=True)


def queries_of(sizes: Ints, rows: int) -> Ints:
    """Number the query of each row, from 0."""
    if sizes.sum() != rows:
        raise DataError(
            f"has {rows:,} documents, and the queries by the file beside it have "
            f"{sizes.sum():,}"
        )
    return np.repeat(np.arange(len(sizes)), sizes)


def _stacked(blocks: list[Matrix], rows: int, width: int) -> Matrix:
    """Stack blocks of unequal width, on all cores."""
    stacked = np.zeros((rows, width), dtype=np.float32)
    ends = np.cumsum([len(block) for block in blocks])

    def copy(end: int, block: Matrix) -> None:
        stacked[end - len(block) : end, : block.shape[1]] = block

    in_parallel(copy, ends, blocks)
    return stacked


def _joined_doc_ids(blocks: list[Ids]) -> Ids:
    """Return the doc ids of all rows; row numbers where the source has none."""
    ids = np.concatenate(blocks)
    rows, unnamed = np.arange(len(ids)), ids == ""
    if unnamed.all():
        return rows
    ids[unnamed] = rows[unnamed].astype(ids.dtype)
    return compact_ids(ids)


def compact_ids(ids: list[str] | Ids) -> Ids:
    """Return int64 where every id is written as an integer, else strings.

    >>> compact_ids(["7", "12"]).tolist(), compact_ids(["7", "012"]).tolist()
    ([7, 12], ['7', '012'])
    """
    strings = np.asarray(ids, dtype=np.dtypes.StringDType())
    longest = np.strings.str_len(strings).max(initial=0)
    if longest == 0 or longest > 18 or not np.strings.isdecimal(strings).all():
        return strings
    numbers = strings.astype(np.int64)
    return numbers if (numbers.astype(strings.dtype) == strings).all() else strings


def _parsed_blocks(source: Path, parse: Callable[[bytes], _Block]) -> Iterator[_Block]:
    """Parse blocks on all cores; yield them in order, a few ahead at most."""
    workers, lines = os.cpu_count() or 1, 0
    waiting: deque[Future[_Block]] = deque()
    texts = _blocks_of_lines(source)
    with ThreadPoolExecutor(workers) as pool:
        while (text := next(texts, None)) is not None or waiting:
            if text is not None:
                waiting.append(pool.submit(parse, text))
            if text is None or len(waiting) > workers + 1:
                try:
                    block = waiting.popleft().result()
                except _LineError as error:
                    fault, line = error.args
                    raise DataError(f"line {lines + line}: {fault}") from None
                lines += block.lines
                yield block


def _blocks_of_lines(source: Path) -> Iterator[bytes]:
    """Yield the text, at least a line feed, in blocks that end with a line."""
    rest, lines = b"", 0
    with text_stream(source, by_content=True) as stream:
        while chunk := stream.read(BLOCK_BYTES):
            if b"\0" in chunk:
                raise DataError(
                    "holds binary data (a NUL byte), "
                    "expected LETOR / SVMLight text, plain, .gz or .zst"
                )
            text = rest + chunk
            if not lines:
                text = text.removeprefix(BOM_UTF8)
            cut = max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1
            if (text.find(b"\n") if cut else len(text)) > limits.LINE_BYTES:
                raise DataError(
                    f"line {lines + 1}: is longer than {limits.LINE_BYTES >> 20} MiB, "
                    "expected LETOR / SVMLight text, one document per line"
                )
            lines += chunk.count(b"\n")
            if cut:
                whole = text[:cut]
                yield whole if whole.endswith(b"\n") else whole + b"\n"
            rest = text[cut:]
    yield rest + b"\n"


def _parse(missing: Missing, first: int, most: int, text: bytes) -> _Block:
    """Parse a block of whole lines into dense rows."""
    from affinerank.data import letor_kernel as kernel

    array = np.frombuffer(text, dtype=np.uint8)
    lines, colons = kernel.count_tokens(array)
    room = min(lines, len(text) // SHORTEST[first] + 1)
    out = kernel.Rows(
        labels=np.empty(room, np.float32),
        ends=np.empty(room, np.int64),
        ids=np.empty(colons, np.int32),
        values=np.empty(colons, np.float32),
        queries=np.empty((room, 3), np.int64),
        docs=np.empty((room, 2), np.int64),
    )
    how = (first, most, missing != "error")
    try:
        rows, filled, runs = kernel.parse_lines(array, out, how)
    except ValueError as error:
        fault, position = error.args
        token = (text[position : position + 200].split(None, 1) or [b""])[0]
        got = token[:40].decode(errors="backslashreplace")
        own = {"id": got.partition(":")[0], "first": first, "most": most}
        raise _LineError(fault.format(got=repr(got), **own), text, position) from None
    queries, docs = out.queries[:runs], out.docs[:rows]
    if not isinstance(missing, str):
        values = out.values[:filled]
        values[np.isnan(values)] = missing
    width = int(out.ids[:filled].max(initial=-1)) + 1
    if rows * width * 4 > DENSE_BYTES:
        raise MemoryError
    for name, spans in (("query", queries), ("doc", docs)):
        long = np.flatnonzero(spans[:, 1] - spans[:, 0] > limits.ID_BYTES)
        if long.size:
            fault = f"a {name} id must have at most {limits.ID_BYTES:,} bytes"
            raise _LineError(fault, text, int(spans[long[0], 0]))
    features = np.zeros((rows, width), dtype=np.float32)
    kernel.fill_dense(features, out)
    return _Block(
        features=features,
        labels=out.labels[:rows],
        query_ids=_query_ids(text, queries),
        run_lengths=np.diff(np.append(queries[:, 2], rows)),
        doc_ids=_doc_ids(text, docs),
        lines=lines,
    )


def _query_ids(text: bytes, spans: Ints) -> list[str]:
    """Return the query ids; they must be UTF-8."""
    names = []
    for start, end in spans[:, :2].tolist():
        try:
            names.append(text[start:end].decode())
        except UnicodeDecodeError:
            fault = "the query id is not UTF-8 text"
            raise _LineError(fault, text, start) from None
    return names


def _doc_ids(text: bytes, spans: Ints) -> Ids:
    """Return the doc ids, empty where a row has none."""
    ids = np.zeros(len(spans), dtype=np.dtypes.StringDType())
    named = np.flatnonzero(spans[:, 1])
    found = [text[a:b].decode(errors="replace") for a, b in spans[named].tolist()]
    ids[named] = np.array(found, dtype=ids.dtype)
    return ids


class _LineError(Exception):
    """A line that cannot be read: what is wrong with it, and its number in a block."""

    def __init__(self, fault: str, text: bytes, position: int) -> None:
        before = text[:position]
        breaks = before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n")
        super().__init__(fault, breaks + 1)
