"""What the arrays of ranking data must be; checked once, when data are built."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from affinerank.data.mapped import blocks, release
from affinerank.errors import AffineRankWarning, DataError

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Ids = NDArray[Any]


def as_matrix(features: ArrayLike) -> Floats:
    """Return features as float32, finite or NaN."""
    matrix = np.asarray(features, dtype=np.float32)
    if matrix.ndim != 2:
        raise DataError(
            f"features must be a matrix [n_docs, n_features], got shape {matrix.shape}"
        )
    for part in blocks(len(matrix)):
        block = np.isinf(matrix[part])
        release(matrix)
        if block.any():
            row, column = np.argwhere(block)[0]
            raise DataError(
                f"row {part.start + row}, feature {column + 1}: a feature must be "
                "finite or NaN (missing), got an infinite value"
            )
    return matrix


def as_offsets(offsets: ArrayLike, n_docs: int) -> Ints:
    """Return where queries begin; each has a document or more."""
    array = np.asarray(offsets, dtype=np.int64)
    if array.ndim != 1 or len(array) == 0 or array[0] != 0 or array[-1] != n_docs:
        raise DataError(
            f"offsets must start at 0 and end at the number of documents, {n_docs}"
        )
    bad = np.flatnonzero(np.diff(array) < 1)
    if bad.size:
        raise DataError(
            f"query {bad[0]} has no documents ({bad.size} such queries); "
            "leave out queries without documents"
        )
    return array


def as_names(names: Sequence[str], n_features: int) -> tuple[str, ...]:
    """Return a different name for each feature, the default ones if there are none."""
    given = tuple(names) or default_feature_names(n_features)
    if len(given) != n_features or len(set(given)) != len(given):
        raise DataError(
            f"feature_names must be {n_features} different names, one per column, "
            f"got {len(given)} of which {len(set(given))} differ"
        )
    return given


def default_feature_names(n_features: int) -> tuple[str, ...]:
    """Name features as LETOR numbers them: ``f1 .. fn``."""
    return tuple(f"f{i}" for i in range(1, n_features + 1))


def as_labels(labels: ArrayLike, n_docs: int) -> Floats:
    """Return one label per document, 0 or more."""
    array = np.asarray(labels, dtype=np.float32)
    if array.shape != (n_docs,):
        raise DataError(
            f"labels must be one number per document, [{n_docs}], got {array.shape}"
        )
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if bad.size:
        raise DataError(
            f"row {bad[0]}: a label must be a number that is 0 or more, "
            f"got {array[bad[0]]:g} ({bad.size} such rows)"
        )
    return array


def as_ids(name: str, ids: ArrayLike, length: int) -> Ids:
    """Return int64 where all are integers, else numpy strings of any length."""
    array = np.asarray(ids)
    if array.shape != (length,):
        raise DataError(f"{name} must be [{length}], got shape {array.shape}")
    unsigned = array.dtype.kind == "u"
    if array.dtype.kind == "i" or (unsigned and array.max(initial=0) < 2**63):
        return array.astype(np.int64, copy=False)
    if unsigned:
        return array.astype(np.dtypes.StringDType())
    if array.dtype.kind in "OUT" or length == 0:
        return array.astype(np.dtypes.StringDType(), copy=False)
    raise DataError(f"{name} must be integers or strings, got {array.dtype}")


def as_source_rows(rows: Ints, n_docs: int) -> Ints:
    """Return one row per document, in order where there are none."""
    array = np.asarray(rows, dtype=np.int64) if len(rows) else np.arange(n_docs)
    if array.shape != (n_docs,):
        raise DataError(f"source_rows must be [{n_docs}], got shape {array.shape}")
    return array


def read_only(value: Any) -> Any:
    """Return a view that cannot be written to; what is no array as it is."""
    if isinstance(value, np.ndarray):
        value = value.view()
        value.setflags(write=False)
    return value


def note_scattered(n_returns: int) -> None:
    """Warn that query ids came back after other queries, and were grouped."""
    times = "time" if n_returns == 1 else "times"
    warnings.warn(
        f"rows of one query were not together: a query id came back {n_returns} "
        f"{times} after another query; its rows were grouped, in their order",
        AffineRankWarning,
        stacklevel=3,
    )
