"""Counts beside features: what matches, what does not, what cannot."""

from typing import Any

import numpy as np
import pytest

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.errors import DataError


def dataset(query_ids: Any, doc_ids: Any) -> RankingDataset:
    rows = np.arange(len(doc_ids), dtype=np.float32)[:, None]
    return RankingDataset.from_rows(rows, query_ids, doc_ids=doc_ids)


def counts(query_id: Any, doc_id: Any) -> ClickCounts:
    n = len(doc_id)
    return ClickCounts.from_columns(
        query_id=query_id,
        doc_id=doc_id,
        rank=np.ones(n, dtype=int),
        impressions=np.arange(1, n + 1),
        clicks=np.ones(n, dtype=int),
        sessions=np.full(n, n),
    )


@pytest.mark.parametrize("as_text_data", [False, True])
@pytest.mark.parametrize("as_text_counts", [False, True])
def test_every_row_finds_its_document(as_text_data: bool, as_text_counts: bool) -> None:
    def ids(values: list[int], text: bool) -> Any:
        return [str(v) for v in values] if text else values

    data = dataset(ids([9, 9, 10, 10], as_text_data), ids([3, 1, 1, 20], as_text_data))
    joined = join_counts(
        counts(ids([10, 9, 9], as_text_counts), ids([20, 1, 3], as_text_counts)), data
    )
    for row, doc in zip(joined.counts.table.to_pylist(), joined.doc, strict=True):
        query = data.query_ids[data.query_of_doc[doc]]
        assert str(row["query_id"]) == str(query)
        assert str(row["doc_id"]) == str(data.doc_ids[doc])
    assert len(joined.doc) == 3
    assert joined.unmatched["groups"] == 0
    assert joined.unmatched["example"] == []


def test_what_has_no_features_is_left_out_and_reported() -> None:
    joined = join_counts(
        counts(["q", "q", "r", "s"], [1, 2, 1, 1]), dataset(["q", "q"], [1, 3])
    )
    assert joined.counts.table["doc_id"].to_pylist() == [1]
    assert joined.doc.tolist() == [0]
    assert joined.unmatched == {
        "groups": 3,
        "documents": 3,
        "queries": 3,
        "impressions": 2 + 3 + 4,
        "clicks": 3,
        "example": [{"query_id": "q", "doc_id": 2}],
    }


def test_the_same_document_of_another_query_is_another() -> None:
    joined = join_counts(counts([1, 2], [5, 5]), dataset([2, 1], [5, 5]))
    assert joined.doc.tolist() == [1, 0]


def test_documents_that_queries_share_in_another_order_are_found() -> None:
    data = dataset([1, 1, 2, 2, 2], [5, 6, 6, 7, 5])
    joined = join_counts(counts([1, 1, 2, 2, 2], [5, 6, 5, 6, 7]), data)
    assert joined.doc.tolist() == [0, 1, 4, 2, 3]


def test_a_document_at_several_ranks_is_found_for_each() -> None:
    several = ClickCounts.from_columns(
        query_id=[1, 1], doc_id=[5, 5], rank=[1, 2], impressions=[3, 4], clicks=[0, 1]
    )
    assert join_counts(several, dataset([1, 1], [4, 5])).doc.tolist() == [1, 1]


def test_nothing_shared_is_an_error_that_shows_both() -> None:
    with pytest.raises(
        DataError,
        match="share no document: counts have query 'x' with document 1, the data "
        "have query 7 with document 1",
    ):
        join_counts(counts(["x"], [1]), dataset([7], [1]))


def test_no_counts_at_all_is_said() -> None:
    none = counts([1], [1]).labelled("ranker", "a").select("ranker", "b")
    with pytest.raises(DataError, match="there are no counts"):
        join_counts(none, dataset([1], [1]))


def test_documents_of_one_id_in_one_query_are_refused() -> None:
    with pytest.raises(DataError, match="several documents of one id in one query"):
        join_counts(counts([1], [1]), dataset([1, 1], [1, 1]))
