"""Rows of counts: numbered by the data or as they come, and what is left out."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import (
    ClickRows,
    Unmatched,
    document_ids,
    join_counts,
    note_unmatched,
)
from affinerank.data.dataset import RankingDataset
from affinerank.support.errors import AffineRankWarning, DataError

pytestmark = pytest.mark.slow


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


def example() -> ClickCounts:
    """Two queries; document 5 of query 1 at two ranks, one row never shown."""
    return ClickCounts.from_columns(
        query_id=[1, 1, 1, 2, 2],
        doc_id=[5, 5, 6, 5, 7],
        rank=[1, 2, 2, 1, 3],
        impressions=[3, 1, 2, 4, 0],
        clicks=[2, 0, 1, 4, 0],
        sessions=[4, 4, 4, 6, 6],
    )


def as_text(values: list[int], text: bool) -> Any:
    return [str(v) for v in values] if text else values


@pytest.mark.parametrize("text_in_data", [False, True])
@pytest.mark.parametrize("text_in_counts", [False, True])
def test_every_row_finds_its_document(text_in_data: bool, text_in_counts: bool) -> None:
    data = dataset(
        as_text([9, 9, 10, 10], text_in_data), as_text([3, 1, 1, 20], text_in_data)
    )
    shown = counts(
        as_text([10, 9, 9], text_in_counts), as_text([20, 1, 3], text_in_counts)
    )
    rows = join_counts(shown, data)
    assert len(rows) == 3
    for row, doc, query in zip(
        shown.table.to_pylist(), rows.doc, rows.query, strict=True
    ):
        assert str(row["query_id"]) == str(data.query_ids[query])
        assert str(row["doc_id"]) == str(data.doc_ids[doc])
    assert rows.unmatched == Unmatched()
    np.testing.assert_array_equal(rows.impressions, shown.impressions)
    np.testing.assert_array_equal(rows.clicks, shown.clicks)


def test_what_has_no_features_is_left_out_and_counted() -> None:
    shown = counts(["q", "q", "r", "s"], [1, 2, 1, 1])
    rows = join_counts(shown, dataset(["q", "q"], [1, 3]))
    assert rows.doc.tolist() == [0]
    assert rows.unmatched == Unmatched(
        groups=3,
        documents=3,
        queries=3,
        impressions=2 + 3 + 4,
        clicks=3,
        example=({"query_id": "q", "doc_id": 2},),
    )


def test_the_same_document_of_another_query_is_another() -> None:
    rows = join_counts(counts([1, 2], [5, 5]), dataset([2, 1], [5, 5]))
    assert rows.doc.tolist() == [1, 0]
    assert join_counts(counts([1, 2], [5, 5])).doc.tolist() == [0, 1]


def test_documents_that_queries_share_in_another_order_are_found() -> None:
    data = dataset([1, 1, 2, 2, 2], [5, 6, 6, 7, 5])
    rows = join_counts(counts([1, 1, 2, 2, 2], [5, 6, 5, 6, 7]), data)
    assert rows.doc.tolist() == [0, 1, 4, 2, 3]


def test_rows_without_impressions_keep_their_sessions_only() -> None:
    for data in (None, dataset([1, 1, 2, 2], [5, 6, 5, 7])):
        rows = join_counts(example(), data)
        assert rows.rank.tolist() == [1, 2, 2, 1]
        assert rows.impressions.tolist() == [3, 1, 2, 4]
        assert rows.clicks.tolist() == [2, 0, 1, 4]
        assert rows.context.tolist() == [0, 0, 0, 0]
        assert rows.sessions.tolist() == [4, 6]
        assert (rows.n_docs, rows.n_queries, rows.n_sessions) == (4, 2, 10)
        assert rows.depth == 2
        assert rows.share.tolist() == [0.4, 0.6]


def test_a_query_that_was_only_issued_counts_its_sessions() -> None:
    none = ClickCounts.from_columns(
        query_id=[1, 2],
        doc_id=[5, 5],
        rank=[1, 1],
        impressions=[0, 2],
        clicks=[0, 1],
        sessions=[3, 2],
    )
    rows = join_counts(none)
    assert rows.sessions.tolist() == [3, 2]
    assert rows.query.tolist() == [1]


def test_queries_of_the_data_that_nobody_issued_have_no_sessions() -> None:
    rows = join_counts(counts([1], [5]), dataset([0, 1, 2], [5, 5, 5]))
    assert rows.sessions.tolist() == [0, 1, 0]
    assert (rows.n_docs, rows.n_queries) == (3, 3)


def test_sessions_add_up_over_rankers_segments_and_splits() -> None:
    parts = [
        example().labelled("ranker", ranker).labelled("segment", segment)
        for ranker, segment in (("a", "x"), ("a", "y"), ("b", "x"))
    ]
    several = (parts[0] + parts[1] + parts[2]).holdout(0.5)
    data = dataset([1, 1, 2, 2], [5, 6, 5, 7])
    for rows in (join_counts(several), join_counts(several, data)):
        assert rows.sessions.tolist() == [3 * 4, 3 * 6]
        assert rows.by_rank(rows.impressions).tolist() == [3 * 7, 3 * 3]
    # As they are without the keys.
    merged = join_counts(several.merged("ranker", "segment", "split"), data)
    rows = join_counts(several, data)
    np.testing.assert_array_equal(
        rows.by_doc(rows.clicks), merged.by_doc(merged.clicks)
    )
    assert merged.sessions.tolist() == rows.sessions.tolist()


def test_sums_by_document_and_rank_are_the_written_out_ones() -> None:
    rows = join_counts(example(), dataset([1, 1, 2, 2], [5, 6, 5, 7]))
    assert rows.by_doc(rows.impressions).tolist() == [3 + 1, 2, 4, 0]
    assert rows.by_rank(rows.clicks).tolist() == [2 + 4, 0 + 1]


def test_some_rows_can_be_selected() -> None:
    rows = join_counts(example())
    top = rows.select(rows.rank == 1)
    assert top.impressions.tolist() == [3, 4]
    assert (top.n_docs, top.n_sessions) == (rows.n_docs, rows.n_sessions)
    assert rows.select(np.array([2, 0])).impressions.tolist() == [2, 3]


def test_documents_and_queries_can_be_renumbered() -> None:
    rows = join_counts(example(), dataset([1, 1, 2, 2], [5, 6, 5, 7]))
    order, queries = np.array([3, 2, 0, 1]), np.array([1, 0])
    turned = rows.renumbered(order, queries)
    assert turned.sessions.tolist() == [6, 4]
    assert turned.query_of_doc.tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(order[turned.doc], rows.doc)
    np.testing.assert_array_equal(queries[turned.query], rows.query)
    clicks = rows.by_doc(rows.clicks)
    np.testing.assert_array_equal(turned.by_doc(turned.clicks), clicks[order])


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(1, 3)),
        min_size=1,
        max_size=30,
        unique=True,
    ),
    st.booleans(),
)
def test_documents_are_numbered_alike_with_their_ids(
    keys: list[tuple[int, int, int]], text: bool
) -> None:
    queries, documents, ranks = (list(column) for column in zip(*keys, strict=True))
    shown = ClickCounts.from_columns(
        query_id=as_text(queries, text),
        doc_id=as_text(documents, text),
        rank=ranks,
        impressions=[1] * len(keys),
        clicks=[0] * len(keys),
        sessions=[99] * len(keys),
    )
    rows, ids = join_counts(shown), document_ids(shown).to_pylist()
    assert len(ids) == rows.n_docs
    assert rows.n_docs == len({(q, d) for q, d, _ in keys})
    assert rows.n_queries == len(set(queries))
    for row, doc in zip(shown.table.to_pylist(), rows.doc, strict=True):
        assert {name: row[name] for name in ("query_id", "doc_id")} == ids[doc]
    of_query: dict[Any, set[int]] = {}
    for place, about in enumerate(ids):
        of_query.setdefault(about["query_id"], set()).add(rows.query_of_doc[place])
    assert all(len(numbers) == 1 for numbers in of_query.values())


def unmatched(impressions: int) -> ClickRows:
    rows = join_counts(counts([1], [1]), dataset([1], [1]))
    return ClickRows(
        rows.doc,
        rows.rank,
        rows.context,
        rows.impressions,
        rows.clicks,
        rows.query_of_doc,
        rows.sessions,
        Unmatched(impressions=impressions),
    )


def test_impressions_without_features_are_noted_and_most_of_them_rejected() -> None:
    note_unmatched(unmatched(0))  # a warning would be an error here
    with pytest.warns(AffineRankWarning, match=r"50\.0%"):
        note_unmatched(unmatched(1))
    with pytest.raises(DataError, match="67%"):
        note_unmatched(unmatched(2))


def test_nothing_shared_is_an_error_that_shows_both() -> None:
    with pytest.raises(DataError, match=r"\['x', 1\] .*\[7, 1\]"):
        join_counts(counts(["x"], [1]), dataset([7], [1]))


def test_no_counts_and_no_data_are_rejected() -> None:
    none = counts([1], [1]).labelled("ranker", "a").select("ranker", "b")
    with pytest.raises(DataError, match="counts are empty"):
        join_counts(none, dataset([1], [1]))
    with pytest.raises(DataError, match="counts are empty"):
        join_counts(none)
    empty = RankingDataset.from_rows(np.zeros((0, 1)), [])
    with pytest.raises(DataError, match="data are empty"):
        join_counts(counts([1], [1]), empty)


def test_documents_of_one_id_in_one_query_are_rejected() -> None:
    with pytest.raises(DataError, match="several documents of one id"):
        join_counts(counts([1], [1]), dataset([1, 1], [1, 1]))
