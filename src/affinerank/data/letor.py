"""LETOR / SVMLight text: ``label qid:id feature:value ... # docid = name``.

The file is read in blocks of whole lines, which threads parse side by side into dense
rows (:mod:`affinerank.data.letor_kernel`), so memory stays near twice the result.
Features that a row leaves out are 0, as everywhere with this format.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from affinerank.data.dataset import Floats, Ids, Ints, RankingDataset
from affinerank.data.reading import Missing, require_missing
from affinerank.errors import DataError
from affinerank.files import existing_file

BLOCK_BYTES = 4 << 20
LONGEST_LINE = 256 << 20
MAX_FEATURES = 100_000


@dataclass(frozen=True, slots=True)
class _Block:
    """The rows of one block of lines."""

    features: Floats
    labels: Floats
    query_ids: list[bytes]  # of each run of rows of one query
    run_lengths: Ints
    doc_ids: Ids | None  # None: no row has one
    lines: int


def read_letor(
    path: str | os.PathLike[str],
    *,
    missing: Missing = "error",
    cache: bool = False,
    max_features: int = MAX_FEATURES,
) -> RankingDataset:
    """Read LETOR / SVMLight text, plain or compressed with gzip or zstandard.

    Args:
        path: The file. Compression is recognised by its first bytes.
        missing: What to do with ``NULL`` and ``nan``: refuse them, ``"keep"`` them as
            missing values, or put a number in their place.
        cache: Keep a Parquet copy beside the file, and read that as long as the file's
            size and modification time stay the same.
        max_features: Largest feature id taken; the matrix has a column up to the
            largest one that occurs.

    Returns:
        The rows of each query together. Doc ids are those of ``# docid = ...``
        comments; a row without one has its row number.
    """
    source = existing_file(path)
    require_missing(missing)
    if cache:
        from affinerank.data.parquet import read_through_cache

        def read() -> RankingDataset:
            return read_letor(source, missing=missing, max_features=max_features)

        return read_through_cache(source, f"letor missing={missing}", read)
    return _assemble(_parsed_blocks(source, missing, max_features))


def _assemble(blocks: Iterator[_Block]) -> RankingDataset:
    """Join the blocks; runs of rows with one query id become one query."""
    features: list[Floats] = []
    labels: list[Floats] = []
    doc_ids: list[Ids | None] = []
    number: dict[bytes, int] = {}
    runs: list[int] = []
    lengths: list[Ints] = []
    for block in blocks:
        features.append(block.features)
        labels.append(block.labels)
        doc_ids.append(block.doc_ids)
        runs += [number.setdefault(name, len(number)) for name in block.query_ids]
        lengths.append(block.run_lengths)
    if not features:
        empty = RankingDataset.from_groups(np.zeros((0, 0)), [], [], labels=[])
        return replace(empty, absent_is_zero=True)
    sizes = [len(rows) for rows in labels]
    data = RankingDataset.from_groups(
        _stacked(features),
        np.repeat(runs, np.concatenate(lengths)),
        compact_ids([name.decode() for name in number]),
        labels=np.concatenate(labels),
        doc_ids=_joined_doc_ids(doc_ids, sizes),
    )
    return replace(data, absent_is_zero=True)


def _stacked(blocks: list[Floats]) -> Floats:
    """Stack blocks of unequal width, on all cores."""
    starts = np.cumsum([0, *(len(block) for block in blocks)])
    n_features = max(block.shape[1] for block in blocks)
    stacked = np.empty((starts[-1], n_features), dtype=np.float32)

    def copy(start: int, block: Floats) -> None:
        rows = stacked[start : start + len(block)]
        rows[:, : block.shape[1]] = block
        rows[:, block.shape[1] :] = 0.0

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(copy, starts[:-1], blocks))
    return stacked


def _joined_doc_ids(blocks: list[Ids | None], sizes: list[int]) -> Ids:
    """Doc ids of all rows; row numbers where the source has none."""
    n_rows = sum(sizes)
    if all(ids is None for ids in blocks):
        return np.arange(n_rows)
    joined = np.arange(n_rows).astype(np.dtypes.StringDType())
    start = 0
    for ids, size in zip(blocks, sizes, strict=True):
        if ids is not None:
            rows = joined[start : start + size]
            joined[start : start + size] = np.where(ids == "", rows, ids)
        start += size
    return compact_ids(joined)


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
            for text in _blocks_of_lines(source):
                waiting.append((text, pool.submit(_parse, text, missing, max_features)))
                if len(waiting) > workers + 1:
                    block = _taken(source, lines, *waiting.popleft())
                    lines += block.lines
                    yield block
            while waiting:
                block = _taken(source, lines, *waiting.popleft())
                lines += block.lines
                yield block
        finally:
            for _, future in waiting:
                future.cancel()


def _taken(source: Path, lines: int, text: bytes, future: Future[_Block]) -> _Block:
    """Wait for a block; name file and line where it has a fault."""
    try:
        return future.result()
    except _LineError as fault:
        line = lines + _count_lines(text[: fault.position]) + 1
        raise DataError(f"{source}, line {line}: {fault.text}") from None
    except MemoryError:
        raise DataError(
            f"{source}: the features do not fit into memory as a dense matrix; "
            "use fewer feature ids, or read the file in parts"
        ) from None


def _blocks_of_lines(source: Path) -> Iterator[bytes]:
    """Yield the text in blocks that end at the end of a line, with a line feed."""
    import pyarrow as pa

    rest = b""
    first = True
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
                if cut:
                    end = b"" if chunk[cut - 1] == ord("\n") else b"\n"
                    yield b"".join((rest, memoryview(chunk)[:cut], end))
                    rest = chunk[cut:]
                else:
                    rest += chunk
                if len(rest) > LONGEST_LINE:
                    raise DataError(
                        f"{source}: a line is longer than {LONGEST_LINE >> 20} MiB, "
                        "expected LETOR / SVMLight text, one document a line"
                    )
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{source}: could not be read to its end "
            f"({_reason(error)}); is the file complete?"
        ) from None
    if rest:
        yield rest + b"\n"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


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
    out = kernel.Rows(
        starts=np.empty(lines, np.int64),
        labels=np.empty(lines, np.float64),
        ends=np.empty(lines, np.int64),
        ids=np.empty(colons, np.int32),
        values=np.empty(colons, np.float32),
        queries=np.empty((lines, 3), np.int64),
        docs=np.empty((lines, 2), np.int64),
    )
    code, position, rows, filled, runs = kernel.parse_lines(array, out, max_features)
    if code != kernel.OK:
        raise _LineError.of(code, text, position, max_features)
    values = out.values[:filled]
    absent = np.isnan(values)
    if absent.any() and missing == "error":
        row = np.searchsorted(out.ends[:rows], np.argmax(absent), side="right")
        feature = out.ids[np.argmax(absent)]
        raise _LineError(
            f"feature {feature} has no value (NULL or nan); "
            "say what to do with missing values: keep them, or a number to put there",
            int(out.starts[row]),
        )
    if missing != "keep":
        values[absent] = missing if not isinstance(missing, str) else np.nan
    width = int(out.ids[:filled].max()) if filled else 0
    features = np.zeros((rows, width), dtype=np.float32)
    kernel.fill_dense(features, out)
    return _Block(
        features=features,
        labels=out.labels[:rows].astype(np.float32),
        query_ids=_tokens(text, out.queries[:runs]),
        run_lengths=np.diff(np.append(out.queries[:runs, 2], rows)),
        doc_ids=_doc_ids(text, out.docs[:rows]),
        lines=lines,
    )


def _tokens(text: bytes, spans: Ints) -> list[bytes]:
    """Cut out the query ids; they must be UTF-8."""
    names = [text[start:end] for start, end in spans[:, :2].tolist()]
    for name, start in zip(names, spans[:, 0].tolist(), strict=True):
        try:
            name.decode()
        except UnicodeDecodeError:
            raise _LineError("the query id is not UTF-8 text", start) from None
    return names


def _doc_ids(text: bytes, spans: Ints) -> Ids | None:
    """Cut out the doc ids, empty where a row has none; None where no row has one."""
    if not spans[:, 1].any():
        return None
    ids = np.zeros(len(spans), dtype=np.dtypes.StringDType())
    named = np.flatnonzero(spans[:, 1])
    ids[named] = [text[a:b].decode(errors="replace") for a, b in spans[named].tolist()]
    return ids


def _count_lines(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


class _LineError(Exception):
    """A line that cannot be read: what is wrong with it, and at which byte."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.text = text
        self.position = position

    @classmethod
    def of(cls, code: int, text: bytes, position: int, max_features: int) -> _LineError:
        """Put a code of the kernel into words."""
        from affinerank.data import letor_kernel as kernel

        token = (text[position : position + 200].split(None, 1) or [b""])[0]
        got = repr(token[:40].decode(errors="backslashreplace"))
        words = {
            kernel.NO_LABEL: f"expected a label, a number, first, got {got}",
            kernel.NEGATIVE_LABEL: f"a label must be 0 or more, got {got}",
            kernel.NO_QUERY: f"expected qid:... after the label, got {got}",
            kernel.EMPTY_QUERY: "the query id is empty, expected qid:NAME",
            kernel.NO_COLON: f"expected feature:value, got {got}",
            kernel.BAD_ID: f"a feature id must be a whole number from 1, got {got}",
            kernel.ID_TOO_LARGE: (
                f"a feature id must be at most {max_features} (the limit can be "
                f"raised: max_features), got {got}"
            ),
            kernel.BAD_VALUE: f"expected a number after the colon, got {got}",
            kernel.REPEATED: "a feature id stands twice in this line",
            kernel.LATE_QUERY: f"expected feature:value, got a second query id, {got}",
        }
        return cls(words[code], position)
