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
from affinerank.data.dataset import RankingDataset
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
    documents = pa.table(
        {
            "query_id": arrow_column(data.query_ids[data.query_of_doc]),
            "doc_id": arrow_column(data.doc_ids),
            "doc": pa.array(np.arange(data.n_docs)),
        }
    )
    table = counts.table.append_column("row", pa.array(np.arange(len(counts.rank))))
    for position, name in enumerate(("query_id", "doc_id")):
        if table[name].type != documents[name].type:
            documents = documents.set_column(
                position, name, documents[name].cast(pa.string())
            )
            table = table.set_column(
                table.column_names.index(name), name, table[name].cast(pa.string())
            )
    keys = ["query_id", "doc_id"]
    if documents.group_by(keys).aggregate([]).num_rows != documents.num_rows:
        raise DataError(
            "the data hold several documents of one id in one query, "
            "so counts cannot be told to belong to one of them"
        )
    pairs = table.select(["row", *keys]).join(documents, keys=keys, join_type="inner")
    doc = np.full(table.num_rows, -1, dtype=np.int64)
    doc[pairs["row"].to_numpy()] = pairs["doc"].to_numpy()
    known = doc >= 0
    if not known.any():
        raise DataError(
            "the counts and the data share no document: "
            f"counts have query {table['query_id'][0].as_py()!r} with document "
            f"{table['doc_id'][0].as_py()!r}, the data have query "
            f"{documents['query_id'][0].as_py()!r} with document "
            f"{documents['doc_id'][0].as_py()!r}"
            if table.num_rows and documents.num_rows
            else "there are no counts, or no data, to join"
        )
    kept = ClickCounts(counts.table.filter(pa.array(known)))
    return JoinedCounts(kept, doc[known], _unmatched(counts, known))


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
