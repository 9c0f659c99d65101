"""Checks of the arrays that ranking data are made of; run once, when data are built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from affinerank.support import limits
from affinerank.support.arrays import Ids, Ints, Matrix, reject_rows
from affinerank.support.errors import DataError
from affinerank.support.large_arrays import blocks, release


def as_matrix(features: ArrayLike) -> Matrix:
    """Return features as float32, finite or NaN."""
    matrix = np.asarray(features, dtype=np.float32)
    if matrix.ndim != 2:
        raise DataError(
            f"features must be a matrix [n_docs, n_features], got shape {matrix.shape}"
        )
    for part in blocks(len(matrix)):
        infinite = np.isinf(matrix[part])
        release(matrix)
        if infinite.any():
            row, column = np.argwhere(infinite)[0]
            raise DataError(
                f"row {part.start + row}, feature {column + 1}: a feature must be "
                "finite or NaN (missing), got an infinite value"
            )
    return matrix


def as_offsets(offsets: ArrayLike, n_docs: int) -> Ints:
    """Return where queries begin; each has one document or more."""
    array = np.asarray(offsets, dtype=np.int64)
    if array.ndim != 1 or len(array) == 0 or array[0] != 0 or array[-1] != n_docs:
        raise DataError(
            f"offsets must start at 0 and end at the number of documents, {n_docs}"
        )
    empty = np.flatnonzero(np.diff(array) < 1)
    if empty.size:
        raise DataError(
            f"query {empty[0]} has no documents ({empty.size} such queries); "
            "leave out queries without documents"
        )
    return array


def as_names(names: Sequence[str], n_features: int) -> tuple[str, ...]:
    """Return a different name for each feature, the default ones if none are given."""
    found = tuple(names) or default_feature_names(n_features)
    if len(found) != n_features or len(set(found)) != len(found):
        raise DataError(
            f"feature_names must be {n_features} different names, one per column, "
            f"got {len(found)} of which {len(set(found))} differ"
        )
    return found


def require_codes(
    features: Matrix, names: Sequence[str], categories: Mapping[str, Sequence[str]]
) -> None:
    """Reject categories that are no features, or hold what is no code of a value."""
    for name, values in categories.items():
        if name not in names:
            raise DataError(f"there is no feature {name!r}, and it has categories")
        column = features[:, names.index(name)]
        known = column[~np.isnan(column)]
        if np.any((known != np.floor(known)) | (known < 0) | (known >= len(values))):
            raise DataError(
                f"feature {name!r} must hold codes of its {len(values)} values, from 0"
            )


def default_feature_names(n_features: int) -> tuple[str, ...]:
    """Name features as LETOR numbers them: ``f1 .. fn``."""
    return tuple(f"f{i}" for i in range(1, n_features + 1))


def as_labels(labels: ArrayLike, n_docs: int) -> Matrix:
    """Return one label per document, 0 or more."""
    array = with_length("labels", np.asarray(labels, dtype=np.float32), n_docs)
    bad = ~(np.isfinite(array) & (array >= 0))
    reject_rows(bad, "a label must be a number that is 0 or more", array)
    return array


def as_ids(name: str, ids: ArrayLike, length: int) -> Ids:
    """Return int64 where all are integers, else numpy strings of any length."""
    array = with_length(name, np.asarray(ids), length)
    kind = array.dtype.kind
    if kind == "i" or (kind == "u" and array.max(initial=0) < 2**63):
        return array.astype(np.int64, copy=False)
    if kind in "uOUT" or length == 0:
        return array.astype(np.dtypes.StringDType(), copy=False)
    raise DataError(f"{name} must be integers or strings, got {array.dtype}")


def as_query_ids(ids: ArrayLike, offsets: Ints) -> Ids:
    """Return ids of queries, each once; reject queries of too many documents."""
    array = as_ids("query_ids", ids, len(offsets) - 1)
    if len(np.unique(array)) != len(array):
        raise DataError(
            "query_ids must name each query once; "
            "RankingDataset.from_rows groups rows that come in any order"
        )
    long = array[np.diff(offsets) > limits.DOCUMENTS_PER_QUERY]
    if long.size:
        raise DataError(
            f"query {str(long[0])!r:.60} has more documents than "
            f"{limits.DOCUMENTS_PER_QUERY:,}; give each list a query of its own"
        )
    return array


def with_length(name: str, array: Ids, length: int) -> Ids:
    """Return an array of one value for each row."""
    if array.shape != (length,):
        raise DataError(f"{name} must have shape [{length}], got {array.shape}")
    return array
