"""Rows as scikit-learn has them, read as ranking data and counts of clicks."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from affinerank.counts.counts import ClickCounts
from affinerank.data.dataset import RankingDataset
from affinerank.support.arrays import Bools, Ids, Ints, Matrix, joint, reject_rows
from affinerank.support.errors import DataError


def read_rows(
    features: Matrix,
    names: tuple[str, ...],
    clicks: ArrayLike,
    qid: ArrayLike,
    position: ArrayLike,
    impressions: ArrayLike | None,
    doc: ArrayLike | None,
) -> tuple[RankingDataset, ClickCounts]:
    """Find the documents of rows, ordered by query and document, and add up counts.

    For the arguments see :meth:`affinerank.sklearn.AffineRanker.fit`; ``names`` are
    those of the features.
    """
    n = len(features)
    shown = _whole("impressions", np.ones(n) if impressions is None else impressions, n)
    clicked, seen = _whole("clicks", clicks, n), shown > 0
    bad = np.flatnonzero(clicked > shown)
    if bad.size:
        i = bad[0]
        each = "" if impressions is not None else ", as each row is one without them"
        raise DataError(
            f"row {i}: clicks cannot exceed impressions{each}, got {clicked[i]} of "
            f"{shown[i]} ({bad.size} such rows)"
        )
    if not seen.any():
        raise DataError("no row has impressions, so there is nothing to learn from")
    rank = _whole("position", position, n, least=1, where=seen)
    query_ids, query = numbered("qid", qid, n)
    ids: Ids | None = None
    if doc is None:
        kind = _equal_rows(features)
    else:
        ids, kind = numbered("doc", doc, n)
    pair = joint(query, kind)
    _, first, row_doc = np.unique(pair, return_index=True, return_inverse=True)
    if ids is not None:
        _require_one_document(features, first[row_doc])
        ids = ids[kind[first]]
    data = RankingDataset.from_groups(
        features[first], query[first], query_ids, doc_ids=ids, feature_names=names
    )
    cell = joint(row_doc[seen], rank[seen])
    _, first_of, inverse = np.unique(cell, return_index=True, return_inverse=True)
    of = row_doc[seen][first_of]
    return data, ClickCounts.from_columns(
        query_id=data.query_ids[data.query_of_doc[of]],
        doc_id=data.doc_ids[of],
        rank=rank[seen][first_of],
        impressions=np.bincount(inverse, shown[seen]),
        clicks=np.bincount(inverse, clicked[seen]),
    )


def _equal_rows(features: Matrix) -> Ints:
    """Number rows so that equal ones have the same number; NaN equals NaN."""
    plain = features + np.float32(0.0)  # -0 becomes 0
    plain[np.isnan(plain)] = np.nan
    whole = np.ascontiguousarray(plain).view(f"V{plain.itemsize * plain.shape[1]}")
    return np.unique(whole.ravel(), return_inverse=True)[1]


def _require_one_document(features: Matrix, first: Ints) -> None:
    """Refuse a document whose features differ from those on its ``first`` row."""
    other = features[first]
    same = (features == other) | (np.isnan(features) & np.isnan(other))
    bad = np.flatnonzero(~same.all(axis=1))
    if bad.size:
        raise DataError(
            f"rows {first[bad[0]]} and {bad[0]} are of one document of one query and "
            f"differ in their features ({bad.size} such rows); where features change "
            "from list to list, let qid name the list"
        )


def numbered(name: str, values: ArrayLike, n_rows: int) -> tuple[Ids, Ints]:
    """The different ids, sorted, and the number of each row's id among them."""
    column = _column(name, values, n_rows)
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null())))
        raise DataError(f"row {row}: {name} is missing ({column.null_count} such rows)")
    if pa.types.is_floating(column.type):
        with suppress(pa.ArrowInvalid):  # fractions stay, and are rejected below
            column = column.cast(pa.int64())
    if pa.types.is_string(column.type):
        array = np.array(column.to_pylist(), dtype=np.dtypes.StringDType())
    elif pa.types.is_integer(column.type):
        array = column.to_numpy()
    else:
        raise DataError(f"{name} must be strings or whole numbers, got {column.type}")
    return np.unique(array, return_inverse=True)


def _whole(
    name: str, values: ArrayLike, n: int, least: int = 0, where: Bools | bool = True
) -> Ints:
    """Whole numbers of ``least`` or more on the rows ``where``, and 0 elsewhere."""
    column = _column(name, values, n)
    try:
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise DataError(f"{name} must be numbers, got {column.type}") from None
    right = (numbers >= least) & (numbers == np.floor(numbers)) & (numbers < 2**53)
    rule = f"{name} must be a whole number of {least} or more"
    reject_rows(~right & where, rule, numbers)
    return np.where(right, numbers, 0).astype(np.int64)


def _column(name: str, values: ArrayLike, n_rows: int) -> pa.Array:
    """A column of numpy, pandas, polars or Arrow, checked to have a value per row."""
    array = np.asarray(values)
    if array.shape != (n_rows,):
        raise DataError(
            f"{name} must have one value for each of the {n_rows} rows of X, got shape "
            f"{array.shape}"
        )
    try:
        plain = array.tolist() if array.dtype.kind in "OT" else array
        return pa.array(plain, from_pandas=True)
    except pa.ArrowException:
        raise DataError(f"{name} must hold values of one type") from None
