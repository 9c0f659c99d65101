"""Parquet: ``query_id, doc_id, [label], f1 .. fn``, one row per document.

Columns of other names are features too, and keep their names; those of text are
categories. Another column may take
the place of ``query_id``: whatever identifies lists with their features. A log that
holds features can be read as well: its own columns are not features.

Features are decoded a batch of rows at a time into one matrix, which lies in a
temporary file if it is large (:mod:`affinerank.support.large_arrays`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.data.categories import Values, codes, is_truth, values_of
from affinerank.data.dataset import RankingDataset
from affinerank.data.read_options import Missing, ReadOptions, how_to_read
from affinerank.support import limits
from affinerank.support.arrays import Ids, Ints, Matrix
from affinerank.support.arrow import (
    IDS_AT_ONCE,
    arrow_column,
    is_text,
    pa,
    parquet_errors,
    pc,
    pq,
    table_of,
)
from affinerank.support.errors import DataError, warn
from affinerank.support.files import PathLike, atomic_write, existing_file
from affinerank.support.large_arrays import ROWS_AT_ONCE, empty_matrix, release

BUFFER = 2**20
# What users did and saw is never a feature, whatever table it is found in.
OF_LOGS = "session_id query_id rank position clicked click ranker timestamp user_id"
_CACHE_KEY = b"affinerank.cache"


def read_parquet(
    path: PathLike,
    *,
    missing: Missing = "keep",
    list_id: str = "query_id",
    chosen: ReadOptions | None = None,
) -> RankingDataset:
    """Read ranking data from Parquet.

    Args:
        path: A file with ``query_id`` and ``doc_id`` (integers or strings), optionally
            ``label``, and a column per feature: numbers, or text, a category. A null
            feature is a missing value; a null id or label is an error.
        missing: What becomes of missing values: reject them (``"error"``), ``"keep"``
            them, or replace them by a number.
        list_id: Column that identifies lists: ``session_id`` where features are logged
            per session.
        chosen: Which columns are features.
    """
    source = existing_file(path)
    with parquet_errors(source):
        return read_open(source, how_to_read(missing, list_id, chosen))


def read_frame(frame: Any, **how: Any) -> RankingDataset:
    """Read ranking data from a frame that speaks Arrow, as from Parquet."""
    sink = pa.BufferOutputStream()
    pq.write_table(table_of(frame), sink)
    with parquet_errors("the frame"):
        return read_open(pa.BufferReader(sink.getvalue()), how_to_read(**how))


def read_through_cache(
    source: Path, how: str, read: Callable[[], RankingDataset]
) -> RankingDataset:
    """Return what ``read`` gives for ``source``, or a Parquet copy of it.

    The copy beside the source is used while size, modification time and ``how`` the
    source was read are the same.
    """
    cached = source.with_name(f"{source.name}.cache.parquet")
    status = source.stat()
    about = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "how": how}
    key = json.dumps(about).encode()
    # What is not a cache of this version of the source is written anew.
    with suppress(pa.ArrowException, OSError, DataError):
        if (pq.read_schema(cached).metadata or {}).get(_CACHE_KEY) == key:
            return read_parquet(cached)
    data = read()
    if data.n_docs:
        write_parquet(data, cached, metadata={_CACHE_KEY: key})
    return data


def read_open(source: Any, chosen: ReadOptions) -> RankingDataset:
    """Read Parquet as :func:`read_parquet`; errors leave it to callers to name it."""
    # Buffered ahead, all that is read of the file would be held to the end.
    with pq.ParquetFile(source, pre_buffer=False, buffer_size=BUFFER) as file:
        return _read(file, chosen)


def _read(file: pq.ParquetFile, chosen: ReadOptions) -> RankingDataset:
    schema, rows = file.schema_arrow, file.metadata.num_rows
    *ids, label = own = chosen.own
    names = _feature_names(schema, chosen)
    others = [name for name in own if name in schema.names]
    table = file.read(columns=others)
    table.validate(full=True)  # ids that are not UTF-8, among others
    for name in others:
        if is_text(table[name].type):
            longest = pc.max(pc.binary_length(table[name])).as_py() or 0
            if longest > limits.ID_BYTES:
                raise DataError(f"{name} must have at most {limits.ID_BYTES:,} bytes")
        if table[name].null_count:
            row = int(np.argmax(table[name].is_null().to_numpy()))
            raise DataError(f"row {row}: {name} is null, expected a value")
    if table.num_rows != rows:
        raise DataError(f"holds {table.num_rows} of the {rows} rows that it names")
    kinds = {name: schema.field(name).type for name in names}
    dictionaries = {n for n, kind in kinds.items() if pa.types.is_dictionary(kind)}
    declared = dictionaries.union(filter(chosen.declares, names))
    text = [name for name in names if is_text(kinds[name]) or name in declared]
    values: Values = {}
    if text:
        batches = file.iter_batches(batch_size=ROWS_AT_ONCE, columns=text)
        values = values_of(batches, rows, declared)
    queries = table[ids[0]].combine_chunks().dictionary_encode()
    return RankingDataset.from_groups(
        _features(file, names, chosen.missing, declared, values),
        queries.indices.to_numpy(),
        _ids(queries.dictionary),
        labels=table[label].to_numpy() if label in others else None,
        doc_ids=_ids(table[ids[1]].combine_chunks()),
        feature_names=names,
        categories={
            name: found
            for name, found in values.items()
            if found and (name in declared or not is_truth(found))
        },
    )


def _feature_names(schema: pa.Schema, chosen: ReadOptions) -> list[str]:
    """Check the columns; return those that are features."""
    *ids, label = own = chosen.own
    if len(set(schema.names)) != len(schema.names):
        raise DataError("two columns have the same name; give each a name of its own")
    for role, name in zip(("query_id", "doc_id"), ids, strict=False):
        if name not in schema.names:
            raise DataError(
                f"there is no column {name!r}; expected {', '.join(ids)}, optionally "
                f"{label}, and features; found {', '.join(schema.names[:8])}; name "
                f"another with --data-column {role}=NAME"
            )
    logged = [n for n in schema.names if n in OF_LOGS.split() and n not in ids]
    if logged:
        warn(
            f"{', '.join(logged)}: by their names columns of a log, so they are not "
            "taken for features"
        )
    used = [n for n in schema.names if n in own or (n not in logged and chosen(n))]
    for name in used:
        kind = schema.field(name).type
        if pa.types.is_dictionary(kind) and name not in own:
            kind = kind.value_type
        numeric = pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        numeric |= pa.types.is_decimal(kind) or pa.types.is_null(kind)
        fits = (is_text(kind) and name != label) or (numeric and name not in ids)
        if not (fits or pa.types.is_integer(kind)):
            right = "integers or strings" if name in ids else "numbers or text"
            raise DataError(
                f"column {name!r} must hold {right}, holds {kind}; if it is no "
                "feature, leave it out (--ignore)"
            )
    names = [name for name in used if name not in own]
    if not 0 < len(names) <= limits.FEATURES:
        raise DataError(
            f"expected columns of features, f1 .. fn, up to {limits.FEATURES:,}, "
            f"found {len(names)}"
        )
    return names


def _features(
    file: pq.ParquetFile,
    names: list[str],
    missing: Missing,
    declared: set[str],
    values: Values,
) -> Matrix:
    """Read the features a batch of rows at a time; a null is a missing value."""
    number = np.array([name not in values for name in names])
    features = empty_matrix(file.metadata.num_rows, len(names))
    start = 0
    for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=names):
        rows = features[start : start + len(batch)]
        for i, name in enumerate(names):
            column = batch.column(name)
            if name in values:
                rows[:, i] = codes(column, values[name], name in declared)
                continue
            column = column.cast(pa.float32(), safe=False)
            rows[:, i] = column.to_numpy(zero_copy_only=False)
        if missing != "keep":
            absent = np.isnan(rows)
            if not isinstance(missing, str):
                rows[absent & number] = missing
            elif absent.any():
                row, at = np.argwhere(absent)[0]
                raise DataError(
                    f"row {start + row}: {names[at]} has no value (null or nan); "
                    "choose what becomes of missing values: keep, or a number"
                )
        release(features)
        start += len(batch)
    if start < len(features):
        raise DataError(f"features are of {start} rows, ids of {len(features)}")
    return features


def _ids(column: pa.Array) -> Ids:
    if pa.types.is_integer(column.type):
        return np.asarray(column)
    ids = np.empty(len(column), dtype=np.dtypes.StringDType())
    for start in range(0, len(column), IDS_AT_ONCE):
        part = column.slice(start, IDS_AT_ONCE)
        ids[start : start + len(part)] = part.to_pylist()
    return ids


def write_parquet(
    data: RankingDataset,
    path: PathLike,
    *,
    metadata: Mapping[bytes, bytes] | None = None,
) -> None:
    """Write ranking data as Parquet, in the order of its source.

    Reading groups the rows again in the same way.
    """
    order = np.argsort(data.source_rows, kind="stable")
    others = {"query_id": data.query_ids[data.query_of_doc], "doc_id": data.doc_ids}
    if data.labels is not None:
        others["label"] = data.labels
    words = {n: pa.array(v, pa.string()) for n, v in data.categories.items()}

    def feature(name: str, values: Matrix) -> pa.Array:
        if name not in words:
            return pa.array(values)
        codes = pa.array(values, from_pandas=True).cast(pa.int32())
        return pa.DictionaryArray.from_arrays(codes, words[name])

    def table(rows: Ints) -> pa.Table:
        known = (arrow_column(values[rows]) for values in others.values())
        own = map(feature, data.feature_names, data.features[rows].T)
        names = [*others, *data.feature_names]
        return pa.table([*known, *own], names).replace_schema_metadata(metadata)

    schema = table(order[:0]).schema
    with (
        atomic_write(Path(path)) as aside,
        pq.ParquetWriter(aside, schema, compression="zstd") as writer,
    ):
        for start in range(0, data.n_docs, ROWS_AT_ONCE):
            writer.write_table(table(order[start : start + ROWS_AT_ONCE]))
