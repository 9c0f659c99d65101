"""Ranking data as Parquet: ``query_id, doc_id, [label], f1 .. fn``, one row a document.

Columns of other names are features too, and keep their names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.data.dataset import (
    Floats,
    Ids,
    Missing,
    RankingDataset,
    require_missing,
)
from affinerank.errors import DataError
from affinerank.files import existing_file, written_whole

ROWS_AT_ONCE = 65_536
_CACHE_KEY = b"affinerank.cache"


def read_parquet(
    path: str | os.PathLike[str], *, missing: Missing = "keep"
) -> RankingDataset:
    """Read ranking data from Parquet.

    Args:
        path: A file with ``query_id`` and ``doc_id`` (integers or strings), optionally
            ``label``, and one numeric column per feature. A null feature is a missing
            value; a null id or label is an error.
        missing: What to do with missing values: refuse them (``"error"``), ``"keep"``
            them, or put a number in their place.
    """
    source = existing_file(path)
    require_missing(missing)
    try:
        with pq.ParquetFile(source) as file:
            return _read(file, missing)
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


def _read(file: pq.ParquetFile, missing: Missing) -> RankingDataset:
    schema = file.schema_arrow
    names = _feature_names(schema)
    table = file.read(columns=[n for n in schema.names if n not in names])
    queries = table["query_id"].combine_chunks().dictionary_encode()
    labels = None
    if "label" in table.column_names:
        labels = table["label"].to_numpy()
    for name in table.column_names:
        if table[name].null_count:
            row = int(np.argmax(table[name].is_null().to_numpy()))
            raise DataError(f"row {row}: {name} is null, expected a value")
    features = _features(file, names)
    absent = np.isnan(features)
    if missing == "error" and absent.any():
        row, column = np.argwhere(absent)[0]
        raise DataError(
            f"row {row}: {names[column]} has no value (null or nan); say what to do "
            "with missing values: keep them, or a number to put there"
        )
    if not isinstance(missing, str):
        features[absent] = missing
    return RankingDataset.from_groups(
        features,
        queries.indices.to_numpy(),
        _ids(queries.dictionary),
        labels=labels,
        doc_ids=_ids(table["doc_id"].combine_chunks()),
        feature_names=names,
    )


def _feature_names(schema: pa.Schema) -> list[str]:
    """Check the columns; return those that are features."""
    if len(set(schema.names)) != len(schema.names):
        raise DataError("two columns have the same name; give each a name of its own")
    for name in ("query_id", "doc_id"):
        if name not in schema.names:
            raise DataError(
                f"there is no column {name!r}; expected query_id, doc_id, "
                f"optionally label, and features; found {', '.join(schema.names[:8])}"
            )
        kind = schema.field(name).type
        if not (pa.types.is_integer(kind) or _is_string(kind)):
            raise DataError(
                f"column {name!r} must hold integers or strings, holds {kind}"
            )
    names = [n for n in schema.names if n not in ("query_id", "doc_id", "label")]
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


def _features(file: pq.ParquetFile, names: list[str]) -> Floats:
    """Read the features a batch of rows at a time; a null becomes NaN."""
    features = np.empty((file.metadata.num_rows, len(names)), dtype=np.float32)
    start = 0
    for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=names):
        rows = features[start : start + len(batch)]
        for i, name in enumerate(names):
            column = batch.column(name).cast(pa.float32(), safe=False)
            rows[:, i] = column.to_numpy(zero_copy_only=False)
        start += len(batch)
    return features


def _ids(column: pa.Array) -> Ids:
    if pa.types.is_integer(column.type):
        return np.asarray(column)
    return np.array(column.to_pylist(), dtype=np.dtypes.StringDType())


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
