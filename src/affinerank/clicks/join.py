"""Counts beside the features of the documents they are about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.counts_table import arrow_column
from affinerank.data.dataset import Ids, RankingDataset
from affinerank.errors import DataError

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class JoinedCounts:
    """Counts beside the rows of a dataset.

    Attributes:
        counts: The counts whose documents have features.
        doc: ``[n_rows]`` row of the dataset that each row of ``counts`` is about.
        unmatched: What was left out for want of features: groups, documents, queries,
            impressions and clicks, with an example.
    """

    counts: ClickCounts
    doc: Ints
    unmatched: dict[str, Any]


def join_counts(counts: ClickCounts, data: RankingDataset) -> JoinedCounts:
    """Find each row's document among those of ``data``, by query and document.

    Ids are compared as text where one side has integers and the other strings.
    """
    table = counts.table
    if not table.num_rows or not data.n_docs:
        raise DataError("there are no counts, or no data, to join")
    _, query = _numbered(data.query_ids, table["query_id"])
    code, within = _numbered(data.doc_ids, table["doc_id"])
    size = int(code.max()) + 1
    # One number a document, sorted: less memory than a join of tables.
    there = data.query_of_doc * size + code
    order = np.argsort(there, kind="stable")
    there = there[order]
    if np.any(there[1:] == there[:-1]):
        raise DataError(
            "the data hold several documents of one id in one query, "
            "so counts cannot be told to belong to one of them"
        )
    wanted = np.where((query < 0) | (within < 0), -1, query * size + within)
    place = np.minimum(np.searchsorted(there, wanted), len(there) - 1)
    known = there[place] == wanted
    if not known.any():
        raise DataError(
            "the counts and the data share no document: "
            f"counts have query {table['query_id'][0].as_py()!r} with document "
            f"{table['doc_id'][0].as_py()!r}, the data have query "
            f"{data.query_ids[:1].tolist()[0]!r} with document "
            f"{data.doc_ids[:1].tolist()[0]!r}"
        )
    unmatched = _unmatched(counts, known)
    if not known.all():
        counts = ClickCounts(table.filter(pa.array(known)))
    return JoinedCounts(counts, order[place[known]], unmatched)


def _numbered(ids: Ids, column: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """Number ids from 0, each differing one once, and say what number others have.

    Returns:
        The numbers of ``ids``, and those of ``column``; -1 where ``ids`` lack it.
    """
    ours = arrow_column(ids)
    if ours.type != column.type:
        ours, column = ours.cast(pa.string()), column.cast(pa.string())
    encoded = ours.dictionary_encode()
    found = pc.index_in(column, value_set=encoded.dictionary)
    number = np.asarray(encoded.indices, dtype=np.int64)
    return number, np.asarray(found.fill_null(-1), dtype=np.int64)


def _unmatched(counts: ClickCounts, known: NDArray[np.bool_]) -> dict[str, Any]:
    left = counts.table.filter(pa.array(~known))
    by_document = left.group_by(["query_id", "doc_id"]).aggregate([])
    return {
        "groups": left.num_rows,
        "documents": by_document.num_rows,
        "queries": len(pc.unique(left["query_id"])),
        "impressions": int(pc.sum(left["impressions"]).as_py() or 0),
        "clicks": int(pc.sum(left["clicks"]).as_py() or 0),
        "example": left.select(["query_id", "doc_id"]).slice(0, 1).to_pylist(),
    }
