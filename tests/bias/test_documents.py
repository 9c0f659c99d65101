"""Counts by document and pool, against a dictionary; thinning by its distribution."""

from collections import defaultdict

import numpy as np
import pytest

from affinerank.bias.documents import ClickRows, Documents, documents, numbered
from affinerank.bias.pooling import RankPools
from affinerank.clicks.counts import ClickCounts

POOLS = RankPools(np.array([0, 1, 1, 2]), np.ones(4))


def sample(seed: int = 0, n: int = 60) -> dict[str, np.ndarray]:
    """Rows in any order, some without impressions; documents 10 and 11 have none."""
    rng = np.random.default_rng(seed)
    doc = rng.integers(0, 10, n)
    impressions = rng.integers(0, 8, n).astype(float)
    return {
        "doc": doc,
        "query": doc // 3,
        "rank": rng.integers(1, 5, n),
        "impressions": impressions,
        "clicks": rng.binomial(impressions.astype(int), 0.4).astype(float),
    }


def rows_of(docs: Documents) -> dict[tuple[int, int], tuple[float, float]]:
    each = zip(docs.doc_of_row, docs.pool, docs.impressions, docs.clicks, strict=True)
    return {(int(d), int(k)): (float(n), float(c)) for d, k, n, c in each}


def test_rows_are_added_up_by_document_and_pool() -> None:
    rows = sample()
    expected: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    query = {}
    for d, q, k, n, c in zip(*rows.values(), strict=True):
        if n > 0:
            total = expected[d, {1: 0, 2: 1, 3: 1, 4: 2}[k]]
            total[0] += n
            total[1] += c
            query[d] = q
    docs = documents(ClickRows(**rows), POOLS)
    number = {d: i for i, d in enumerate(sorted(query))}
    assert rows_of(docs) == {(number[d], k): tuple(v) for (d, k), v in expected.items()}
    assert docs.query.tolist() == [query[d] for d in sorted(query)]
    assert docs.n_docs == len(query)
    assert docs.n_queries == max(query.values()) + 1
    by_doc: dict[int, float] = defaultdict(float)
    for (d, _), (n, _) in expected.items():
        by_doc[d] += n
    assert docs.n_impressions.tolist() == [by_doc[d] for d in sorted(by_doc)]


def test_the_order_of_rows_does_not_matter() -> None:
    rows = sample()
    other = np.random.default_rng(1).permutation(len(rows["doc"]))
    shuffled = {name: values[other] for name, values in rows.items()}
    assert rows_of(documents(ClickRows(**rows), POOLS)) == rows_of(
        documents(ClickRows(**shuffled), POOLS)
    )


def several() -> Documents:
    """Three documents: at pools 0 and 2 equally; at 1; at 0, 1 and 2."""
    return Documents(
        np.array([0, 0, 2]),
        np.array([0, 2, 3, 6]),
        np.array([0, 2, 1, 0, 1, 2]),
        np.array([10.0, 10.0, 40.0, 1.0, 2.0, 7.0]),
        np.array([4.0, 1.0, 10.0, 1.0, 0.0, 7.0]),
    )


def test_home_is_where_a_document_was_seen_most_and_the_upper_of_equals() -> None:
    assert several().home.tolist() == [0, 1, 2]


def test_select_keeps_whole_documents() -> None:
    chosen = several().select(np.array([True, False, True]))
    assert chosen.query.tolist() == [0, 2]
    assert chosen.first.tolist() == [0, 2, 5]
    assert chosen.pool.tolist() == [0, 2, 0, 1, 2]
    assert chosen.impressions.tolist() == [10, 10, 1, 2, 7]
    assert chosen.clicks.tolist() == [4, 1, 1, 0, 7]


def test_capped_keeps_click_rates_and_the_mixture_of_ranks() -> None:
    docs, capped = several(), several().capped(10.0)
    np.testing.assert_allclose(capped.n_impressions, [10, 10, 10])
    np.testing.assert_allclose(
        capped.clicks / capped.impressions, docs.clicks / docs.impressions
    )
    np.testing.assert_allclose(capped.impressions, [5, 5, 10, 1, 2, 7])


def test_thinned_draws_from_what_there_is() -> None:
    docs, rng = several(), np.random.default_rng(0)
    drawn = [docs.thinned(8.0, rng) for _ in range(400)]
    # 20 and 40 impressions of which 8 are kept, a rank's share rounded up; 10 likewise.
    kept = [4, 4, 8, 1, 2, 6]
    for one in drawn:
        assert one.impressions.tolist() == kept
        assert np.all(one.clicks <= np.minimum(one.impressions, docs.clicks))
        assert np.all(one.impressions - one.clicks <= docs.impressions - docs.clicks)
    clicks = np.stack([one.clicks for one in drawn])
    expected = docs.clicks / docs.impressions * np.array(kept)
    error = clicks.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(clicks.mean(axis=0) - expected) <= 4 * error + 1e-12)


def test_thinned_leaves_what_is_few_alone() -> None:
    docs = several()
    same = docs.thinned(1000.0, np.random.default_rng(0))
    np.testing.assert_array_equal(same.impressions, docs.impressions)
    np.testing.assert_array_equal(same.clicks, docs.clicks)


def test_thinned_takes_a_document_with_very_many_impressions() -> None:
    docs = Documents(*(np.array(v) for v in ([0], [0, 1], [0], [3e9], [1e9])))
    clicks = docs.thinned(400.0, np.random.default_rng(0)).clicks[0]
    assert clicks == pytest.approx(400 / 3, abs=5 * np.sqrt(400 * 2 / 9))


def test_documents_are_told_apart_by_query_and_name() -> None:
    """The same name in two queries is two documents; two ranks of one are one."""
    counts = ClickCounts.from_columns(
        query_id=["b", "a", "b", "a", "b"],
        doc_id=["x", "x", "y", "z", "x"],
        rank=[1, 1, 2, 2, 3],
        impressions=[5, 5, 5, 5, 5],
        clicks=[1, 1, 1, 1, 1],
    )
    doc, query = numbered(counts)
    names = counts.table.select(["query_id", "doc_id"]).to_pylist()
    key = [(row["query_id"], row["doc_id"]) for row in names]
    assert sorted(set(doc.tolist())) == [0, 1, 2, 3]
    assert len(set(zip(doc.tolist(), key, strict=True))) == len(set(key)) == 4
    assert len(set(zip(query.tolist(), [q for q, _ in key], strict=True))) == 2
    assert sorted(set(query.tolist())) == [0, 1]
