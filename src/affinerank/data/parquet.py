"""Ranking data as Parquet: ``query_id, doc_id, [label], f1 .. fn``, one row a document.

Columns of other names are features too, and keep their names. Another column may stand
for ``query_id``: whatever tells lists with their features apart. A log that has the
features in it can be read so too: the columns of the log are no features.

Features are decoded a batch of rows at a time into one matrix, which lies in a
temporary file where it is large (:mod:`affinerank.data.mapped`).
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.data.dataset import Floats, Ids, RankingDataset
from affinerank.data.mapped import ROWS_AT_ONCE, empty_matrix, release
from affinerank.data.reading import Missing, require_missing
from affinerank.errors import AffineRankWarning, DataError
from affinerank.files import existing_file, written_whole

BUFFER = 2**20
IDS_AT_ONCE = 1_000_000
# What users did and what they saw is never a feature, whatever table it is found in.
OF_LOGS = (
    "session_id",
    "query_id",
    "rank",
    "position",
    "clicked",
    "click",
    "ranker",
    "timestamp",
    "user_id",
)
_CACHE_KEY = b"affinerank.cache"


def read_parquet(
    path: str | os.PathLike[str],
    *,
    missing: Missing = "keep",
    list_id: str = "query_id",
) -> RankingDataset:
    """Read ranking data from Parquet.

    Args:
        path: A file with ``query_id`` and ``doc_id`` (integers or strings), optionally
            ``label``, and one numeric column per feature. A null feature is a missing
            value; a null id or label is an error.
        missing: What to do with missing values: refuse them (``"error"``), ``"keep"``
            them, or put a number in their place.
        list_id: The column that tells lists apart: ``session_id``, where features are
            logged per session.
    """
    source = existing_file(path)
    require_missing(missing)
    try:
        # Buffered ahead, all that is read of the file would be held to the end.
        with pq.ParquetFile(source, pre_buffer=False, buffer_size=BUFFER) as file:
            return _read(file, missing, list_id)
    except DataError as error:
        raise DataError(f"{source}: {error}") from None
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{source}: could not be read as Parquet: {reason}") from None


def write_parquet(data: RankingDataset, path: str | os.PathLike[str]) -> None:
    """Write ranking data as Parquet, in the order of its source."""
    _write(data, Path(path), {})


def read_through_cache(
    source: Path, how: str, read: Callable[[], RankingDataset]
) -> RankingDataset:
    """Return what ``read`` gives for ``source``, from a copy beside it if it can.

    The Parquet copy is used while size, modification time and ``how`` the source was
    read are the same.
    """
    cached = source.with_name(f"{source.name}.cache.parquet")
    status = source.stat()
    key = json.dumps(
        {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "how": how}
    ).encode()
    if cached.is_file() and _cache_key(cached) == key:
        return read_parquet(cached)
    data = read()
    if data.n_docs:
        _write(data, cached, {_CACHE_KEY: key})
    return data


def _cache_key(path: Path) -> bytes | None:
    try:
        return (pq.read_schema(path).metadata or {}).get(_CACHE_KEY)
    except (pa.ArrowException, OSError):
        return None  # not a cache we wrote: it is written anew


def _read(file: pq.ParquetFile, missing: Missing, list_id: str) -> RankingDataset:
    schema = file.schema_arrow
    names = _feature_names(schema, list_id)
    ids = [list_id, "doc_id", *(["label"] if "label" in schema.names else [])]
    table = file.read(columns=ids)
    queries = table[list_id].combine_chunks().dictionary_encode()
    labels = None
    if "label" in table.column_names:
        labels = table["label"].to_numpy()
    for name in table.column_names:
        if table[name].null_count:
            row = int(np.argmax(table[name].is_null().to_numpy()))
            raise DataError(f"row {row}: {name} is null, expected a value")
    return RankingDataset.from_groups(
        _features(file, names, missing),
        queries.indices.to_numpy(),
        _ids(queries.dictionary),
        labels=labels,
        doc_ids=_ids(table["doc_id"].combine_chunks()),
        feature_names=names,
    )


def _feature_names(schema: pa.Schema, list_id: str) -> list[str]:
    """Check the columns; return those that are features."""
    if len(set(schema.names)) != len(schema.names):
        raise DataError("two columns have the same name; give each a name of its own")
    for name in (list_id, "doc_id"):
        if name not in schema.names:
            raise DataError(
                f"there is no column {name!r}; expected {list_id}, doc_id, "
                f"optionally label, and features; found {', '.join(schema.names[:8])}"
            )
        kind = schema.field(name).type
        if not (pa.types.is_integer(kind) or _is_string(kind)):
            raise DataError(
                f"column {name!r} must hold integers or strings, holds {kind}"
            )
    names = [n for n in schema.names if n not in (list_id, "doc_id", "label")]
    logged = [name for name in names if name in OF_LOGS]
    if logged:
        names = [name for name in names if name not in logged]
        warnings.warn(
            f"{', '.join(logged)}: by their names columns of a log, so they are not "
            "taken for features",
            AffineRankWarning,
            stacklevel=4,
        )
    for name in [*names, *(["label"] if "label" in schema.names else [])]:
        kind = schema.field(name).type
        if not (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_boolean(kind)
        ):
            raise DataError(
                f"column {name!r} must hold numbers, holds {kind}; "
                "leave it out, or turn it into numbers"
            )
    if not names:
        raise DataError("there is no column of features, expected f1 .. fn")
    return names


def _is_string(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _features(file: pq.ParquetFile, names: list[str], missing: Missing) -> Floats:
    """Read the features a batch of rows at a time; a null is a missing value."""
    features = empty_matrix(file.metadata.num_rows, len(names))
    start = 0
    for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=names):
        rows = features[start : start + len(batch)]
        for i, name in enumerate(names):
            column = batch.column(name).cast(pa.float32(), safe=False)
            rows[:, i] = column.to_numpy(zero_copy_only=False)
        if missing != "keep":
            _without_missing(rows, start, names, missing)
        release(features)
        start += len(batch)
    return features


def _without_missing(
    rows: Floats, start: int, names: list[str], missing: Missing
) -> None:
    """Refuse missing values, or put a number in their place, in ``rows`` themselves."""
    absent = np.isnan(rows)
    if not isinstance(missing, str):
        rows[absent] = missing
    elif absent.any():
        row, column = np.argwhere(absent)[0]
        raise DataError(
            f"row {start + row}: {names[column]} has no value (null or nan); say what "
            "to do with missing values: keep them, or a number to put there"
        )


def _ids(column: pa.Array) -> Ids:
    if pa.types.is_integer(column.type):
        return np.asarray(column)
    ids = np.empty(len(column), dtype=np.dtypes.StringDType())
    for start in range(0, len(column), IDS_AT_ONCE):
        part = column.slice(start, IDS_AT_ONCE)
        ids[start : start + len(part)] = part.to_pylist()
    return ids


def _write(data: RankingDataset, path: Path, metadata: dict[bytes, bytes]) -> None:
    """Write rows in source order, so that reading groups them again in the same way."""
    order = np.argsort(data.source_rows, kind="stable")
    query_ids = data.query_ids[data.query_of_doc]
    id_types = [_arrow_type(ids) for ids in (query_ids, data.doc_ids)]
    fields = [
        pa.field("query_id", id_types[0]),
        pa.field("doc_id", id_types[1]),
        *([pa.field("label", pa.float32())] if data.labels is not None else []),
        *(pa.field(name, pa.float32()) for name in data.feature_names),
    ]
    schema = pa.schema(fields, metadata=metadata)
    with (
        written_whole(path) as aside,
        pq.ParquetWriter(aside, schema, compression="zstd") as writer,
    ):
        for start in range(0, data.n_docs, ROWS_AT_ONCE):
            rows = order[start : start + ROWS_AT_ONCE]
            block = data.features[rows]
            columns = [query_ids[rows], data.doc_ids[rows]]
            columns += [data.labels[rows]] if data.labels is not None else []
            columns += [block[:, i] for i in range(data.n_features)]
            writer.write_table(pa.table([_column(c) for c in columns], schema=schema))


def _arrow_type(ids: Ids) -> pa.DataType:
    return pa.int64() if ids.dtype.kind == "i" else pa.string()


def _column(values: Ids) -> pa.Array:
    if values.dtype.kind == "T":
        return pa.array(values.tolist(), type=pa.string())
    return pa.array(np.ascontiguousarray(values))
