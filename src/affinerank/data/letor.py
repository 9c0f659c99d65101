"""LETOR / SVMLight text: ``label qid:id feature:value ... # docid = name``.

The file is read in blocks of whole lines, which threads parse in parallel into dense
rows (:mod:`affinerank.data.letor_kernel`), so memory stays near twice the result.
Features that a row leaves out are 0, as always with this format.
"""

from __future__ import annotations

import mmap
import os
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from affinerank import limits
from affinerank.arrays import Ids, Ints, Matrix
from affinerank.data.dataset import RankingDataset
from affinerank.data.reading import Missing, parse_missing
from affinerank.errors import DataError
from affinerank.files import PathLike, existing_file, one_line
from affinerank.threads import in_parallel

BLOCK_BYTES = 4 << 20
DENSE_BYTES = 1 << 30  # of the features of one block
SHORTEST = len("0 qid:a\n")


@dataclass(frozen=True, slots=True)
class _Block:
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
        from affinerank.data.parquet import read_through_cache

        read = partial(read_letor, source, missing=missing, max_features=max_features)
        return read_through_cache(source, f"letor missing={missing}", read)
    try:
        return _assemble(source, _parsed_blocks(source, missing, max_features))
    except MemoryError:
        raise DataError(
            f"{source}: the features do not fit into memory as a dense matrix; "
            "use fewer feature ids, or read the file in parts"
        ) from None


def _assemble(source: Path, blocks: Iterator[_Block]) -> RankingDataset:
    """Join the blocks; runs of rows with one query id become one query."""
    parts: list[_Block] = []
    sizes: Counter[str] = Counter()
    rows, width = 0, 0
    for part in blocks:
        parts.append(part)
        rows, width = rows + len(part.features), max(width, part.features.shape[1])
        if rows * width * 4 > os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE / 2:
            raise MemoryError
        for query, size in zip(part.query_ids, part.run_lengths.tolist(), strict=True):
            sizes[query] += size
            if sizes[query] > limits.DOCUMENTS_PER_QUERY:
                raise DataError(
                    f"{source}: query {query!r:.60} has more documents than "
                    f"{limits.DOCUMENTS_PER_QUERY:,}; give each list a query of its own"
                )
    number: dict[str, int] = {}
    runs = [number.setdefault(q, len(number)) for part in parts for q in part.query_ids]
    data = RankingDataset.from_groups(
        _stacked([part.features for part in parts]),
        np.repeat(runs, np.concatenate([part.run_lengths for part in parts])),
        compact_ids(list(number)),
        labels=np.concatenate([part.labels for part in parts]),
        doc_ids=_joined_doc_ids([part.doc_ids for part in parts]),
    )
    return replace(data, absent_is_zero=True)


def _stacked(blocks: list[Matrix]) -> Matrix:
    """Stack blocks of unequal width, on all cores."""
    ends = np.cumsum([len(block) for block in blocks])
    n_features = max(block.shape[1] for block in blocks)
    stacked = np.empty((ends[-1], n_features), dtype=np.float32)

    def copy(number: int) -> None:
        block = blocks[number]
        rows = stacked[ends[number] - len(block) : ends[number]]
        rows[:, : block.shape[1]] = block
        rows[:, block.shape[1] :] = 0.0

    in_parallel(copy, range(len(blocks)))
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


def _parsed_blocks(
    source: Path, missing: Missing, max_features: int
) -> Iterator[_Block]:
    """Parse blocks on all cores; yield them in order, a few ahead at most."""
    workers = os.cpu_count() or 1
    lines = 0
    waiting: deque[tuple[bytes, Future[_Block]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            texts = _blocks_of_lines(source)
            while (text := next(texts, None)) is not None or waiting:
                if text is not None:
                    parsed = pool.submit(_parse, text, missing, max_features)
                    waiting.append((text, parsed))
                if text is None or len(waiting) > workers + 1:
                    block = _taken(source, lines, *waiting.popleft())
                    lines += block.lines
                    yield block
        finally:
            for _, future in waiting:
                future.cancel()


def _taken(source: Path, lines: int, text: bytes, future: Future[_Block]) -> _Block:
    """Wait for a block; name file and line if it has a fault."""
    try:
        return future.result()
    except _LineError as error:
        fault, position = error.args
        before = text[:position]
        breaks = before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n")
        raise DataError(f"{source}, line {lines + breaks + 1}: {fault}") from None


def _blocks_of_lines(source: Path) -> Iterator[bytes]:
    """Yield the text, at least a line feed, in blocks that end with a line."""
    import pyarrow as pa

    rest = b""
    first, lines = True, 0
    try:
        with pa.input_stream(str(source), compression=_compression(source)) as stream:
            while chunk := stream.read(BLOCK_BYTES):
                if b"\0" in chunk:
                    raise DataError(
                        f"{source}: holds binary data (a NUL byte), "
                        "expected LETOR / SVMLight text, plain, .gz or .zst"
                    )
                if first:
                    chunk = chunk.removeprefix(b"\xef\xbb\xbf")
                    first = False
                cut = max(chunk.rfind(b"\n"), chunk.rfind(b"\r", 0, len(chunk) - 1)) + 1
                first_line = chunk.find(b"\n") if cut else len(chunk)
                if len(rest) + first_line > limits.LINE_BYTES:
                    raise DataError(
                        f"{source}, line {lines + 1}: is longer than "
                        f"{limits.LINE_BYTES >> 20} MiB, expected LETOR / SVMLight "
                        "text, one document per line"
                    )
                lines += chunk.count(b"\n")
                if cut:
                    end = b"" if chunk[cut - 1] == ord("\n") else b"\n"
                    yield b"".join((rest, memoryview(chunk)[:cut], end))
                    rest = chunk[cut:]
                else:
                    rest += chunk
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{source}: could not be read to its end ({one_line(error)}); "
            "is the file complete?"
        ) from None
    yield rest + b"\n"


def _compression(source: Path) -> str | None:
    """Recognise gzip and zstandard by their first bytes."""
    try:
        with source.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise DataError(f"{source}: could not be opened: {error.strerror}") from None
    if magic[:2] == b"\x1f\x8b":
        return "gzip"
    return "zstd" if magic == b"\x28\xb5\x2f\xfd" else None


def _parse(text: bytes, missing: Missing, max_features: int) -> _Block:
    """Parse a block of whole lines into dense rows."""
    from affinerank.data import letor_kernel as kernel

    array = np.frombuffer(text, dtype=np.uint8)
    lines, colons = kernel.count_tokens(array)
    room = min(lines, len(text) // SHORTEST + 1)
    out = kernel.Rows(
        starts=np.empty(room, np.int64),
        labels=np.empty(room, np.float64),
        ends=np.empty(room, np.int64),
        ids=np.empty(colons, np.int32),
        values=np.empty(colons, np.float32),
        queries=np.empty((room, 3), np.int64),
        docs=np.empty((room, 2), np.int64),
    )
    code, position, rows, filled, runs = kernel.parse_lines(array, out, max_features)
    if code != kernel.OK:
        raise _LineError(_fault(code, text, position, max_features), position)
    values = out.values[:filled]
    absent = np.isnan(values)
    if absent.any() and missing == "error":
        row = np.searchsorted(out.ends[:rows], np.argmax(absent), side="right")
        feature = out.ids[np.argmax(absent)]
        raise _LineError(
            f"feature {feature} has no value (NULL or nan); "
            "choose what becomes of missing values: keep, or a number",
            int(out.starts[row]),
        )
    if not isinstance(missing, str):
        values[absent] = missing
    width = int(out.ids[:filled].max()) if filled else 0
    if rows * width * 4 > DENSE_BYTES:
        raise MemoryError
    for name, spans in (("query", out.queries[:runs]), ("doc", out.docs[:rows])):
        long = np.flatnonzero(spans[:, 1] - spans[:, 0] > limits.ID_BYTES)
        if long.size:
            fault = f"a {name} id must have at most {limits.ID_BYTES:,} bytes"
            raise _LineError(fault, int(spans[long[0], 0]))
    features = np.zeros((rows, width), dtype=np.float32)
    kernel.fill_dense(features, out)
    return _Block(
        features=features,
        labels=out.labels[:rows].astype(np.float32),
        query_ids=_query_ids(text, out.queries[:runs]),
        run_lengths=np.diff(np.append(out.queries[:runs, 2], rows)),
        doc_ids=_doc_ids(text, out.docs[:rows]),
        lines=lines,
    )


def _query_ids(text: bytes, spans: Ints) -> list[str]:
    """Return the query ids; they must be UTF-8."""
    names = []
    for start, end in spans[:, :2].tolist():
        try:
            names.append(text[start:end].decode())
        except UnicodeDecodeError:
            raise _LineError("the query id is not UTF-8 text", start) from None
    return names


def _doc_ids(text: bytes, spans: Ints) -> Ids:
    """Return the doc ids, empty where a row has none."""
    ids = np.zeros(len(spans), dtype=np.dtypes.StringDType())
    named = np.flatnonzero(spans[:, 1])
    found = [text[a:b].decode(errors="replace") for a, b in spans[named].tolist()]
    ids[named] = np.array(found, dtype=ids.dtype)
    return ids


class _LineError(Exception):
    """A line that cannot be read: what is wrong with it, and at which byte."""


def _fault(code: int, text: bytes, position: int, max_features: int) -> str:
    """Describe a fault that the kernel reports as a code."""
    from affinerank.data import letor_kernel as kernel

    token = (text[position : position + 200].split(None, 1) or [b""])[0]
    got = repr(token[:40].decode(errors="backslashreplace"))
    return {
        kernel.NO_LABEL: f"expected a label, a number, first, got {got}",
        kernel.NEGATIVE_LABEL: f"a label must be 0 or more, got {got}",
        kernel.NO_QUERY: f"expected qid:... after the label, got {got}",
        kernel.EMPTY_QUERY: "the query id is empty, expected qid:NAME",
        kernel.NO_COLON: f"expected feature:value, got {got}",
        kernel.BAD_ID: f"a feature id must be a whole number from 1, got {got}",
        kernel.ID_TOO_LARGE: (
            f"a feature id must be at most {max_features} (the limit can be raised: "
            f"max_features), got {got}"
        ),
        kernel.BAD_VALUE: f"expected a number after the colon, got {got}",
        kernel.REPEATED: "a feature id stands twice in this line",
        kernel.LATE_QUERY: f"expected feature:value, got a second query id, {got}",
    }[code]
