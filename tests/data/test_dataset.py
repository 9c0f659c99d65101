"""The dataset type: what it rejects, how it groups, selects and scales."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scaling import scaled_in_lists

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.read_options import parse_split
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError


def small() -> RankingDataset:
    return RankingDataset.from_rows(
        [[1, 5, 0], [3, 5, 1], [2, 7, 0], [2, 7, 8]],
        ["a", "a", "b", "b"],
        labels=[0, 3, 1, 4],
        doc_ids=["w", "x", "y", "z"],
    )


def test_rows_become_queries_in_order_of_appearance() -> None:
    data = small()
    assert data.query_ids.tolist() == ["a", "b"]
    assert data.offsets.tolist() == [0, 2, 4]
    assert data.docs_per_query.tolist() == [2, 2]
    assert data.query_of_doc.tolist() == [0, 0, 1, 1]
    assert data.feature_names == ("f1", "f2", "f3")


def test_scattered_rows_are_grouped_stably_with_a_note_and_can_be_restored() -> None:
    rows = np.arange(5.0)[:, None]
    with pytest.warns(AffineRankWarning, match="came back 2 times"):
        data = RankingDataset.from_rows(rows, [7, 3, 7, 3, 9], labels=range(5))
    assert data.query_ids.tolist() == [7, 3, 9]
    assert data.features[:, 0].tolist() == [0, 2, 1, 3, 4]
    assert data.known_labels().tolist() == [0, 2, 1, 3, 4]
    assert data.source_rows.tolist() == [0, 2, 1, 3, 4]


@pytest.mark.filterwarnings("ignore::affinerank.support.errors.AffineRankWarning")
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_any_order_of_query_ids_can_be_restored(query_ids: list[int]) -> None:
    rows = np.arange(len(query_ids), dtype=float)[:, None]
    data = RankingDataset.from_rows(rows, query_ids)
    back = np.argsort(data.source_rows)
    assert data.query_ids[data.query_of_doc][back].tolist() == query_ids
    assert data.features[back, 0].tolist() == rows[:, 0].tolist()
    for query in range(data.n_queries):
        docs = data.source_rows[data.offsets[query] : data.offsets[query + 1]]
        assert np.all(np.diff(docs) > 0)  # stable


def test_arrays_cannot_be_written_and_the_callers_can() -> None:
    features = np.zeros((2, 1), dtype=np.float32)
    data = RankingDataset.from_rows(features, [1, 1])
    with pytest.raises(ValueError, match="read-only"):
        data.features[0, 0] = 1.0
    features[0, 0] = 1.0


def test_select_queries_keeps_each_document_with_its_query() -> None:
    chosen = small().select_queries([1, 0])
    assert chosen.query_ids.tolist() == ["b", "a"]
    assert chosen.doc_ids.tolist() == ["y", "z", "w", "x"]
    assert chosen.known_labels().tolist() == [1, 4, 0, 3]
    assert chosen.features[:, 0].tolist() == [2, 2, 1, 3]


def test_min_max_is_taken_within_each_query_and_a_constant_becomes_zero() -> None:
    expected = [[0, 0, 0], [1, 0, 1], [0, 0, 0], [0, 0, 1]]
    np.testing.assert_array_equal(scaled_in_lists(small()).features, expected)


def test_min_max_leaves_missing_values_missing() -> None:
    data = RankingDataset.from_rows([[np.nan], [2.0], [4.0], [np.nan]], [1, 1, 1, 2])
    scaled = scaled_in_lists(data).features[:, 0]
    np.testing.assert_array_equal(scaled, [np.nan, 0, 1, np.nan])


def test_min_max_in_blocks_equals_min_max_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50, 3))
    data = RankingDataset.from_rows(features, np.sort(rng.integers(0, 9, 50)))
    at_once = scaled_in_lists(data).features
    monkeypatch.setattr("affinerank.data.dataset.ROWS_AT_ONCE", 4)
    np.testing.assert_array_equal(scaled_in_lists(data).features, at_once)
    assert data.varying_features() == ("f1", "f2", "f3")


def test_the_mapping_of_train_is_applied_to_other_splits() -> None:
    train = small()  # f2 is constant within both queries
    mapping = FeatureMapping.fit(train)
    assert mapping.names == ("f1", "f3")
    test = RankingDataset.from_rows([[1, 2, 3], [3, 9, 4]], [1, 1])
    np.testing.assert_array_equal(mapping.apply(test).features, [[0, 0], [1, 1]])


def test_features_that_are_sometimes_missing_vary() -> None:
    data = RankingDataset.from_rows([[np.nan, 1.0], [2.0, 1.0]], [1, 1])
    assert data.varying_features() == ("f1",)


def test_data_that_cannot_rank_are_rejected() -> None:
    with pytest.raises(DataError, match="every feature is constant"):
        FeatureMapping.fit(RankingDataset.from_rows([[1], [1]], [1, 1]))


def test_relevance_is_the_label_above_the_threshold() -> None:
    assert small().relevance().tolist() == [0, 1, 0, 1]
    assert small().relevance(0).tolist() == [0, 1, 1, 1]


def test_summary_counts_what_is_there() -> None:
    data = RankingDataset.from_rows(
        [[np.nan], [1.0], [2.0]], [4, 4, 5], labels=[0, 0, 2]
    )
    assert data.summary() == {
        "queries": 2,
        "documents": 3,
        "features": 1,
        "categories": {},
        "documents_per_query": {"min": 1, "median": 1.5, "mean": 1.5, "max": 2},
        "label_shares": {"0": 2 / 3, "2": 1 / 3},
        "missing_values": 1,
    }


def test_ids_are_integers_or_strings_of_any_length() -> None:
    large = np.array([2**63 + 1, 5], dtype=np.uint64)
    data = RankingDataset.from_rows([[1], [2]], large)
    assert data.query_ids.tolist() == [str(2**63 + 1), "5"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros(3)}, "features must be a matrix"),
        ({"features": [[np.inf], [0], [0]]}, "row 0, feature 1: "),
        ({"offsets": [0, 2]}, "offsets must start at 0 and end at"),
        ({"offsets": [0, 2, 2, 3]}, "query 1 has no documents (1 "),
        ({"labels": [1, 2]}, "labels must have shape [3], got (2,)"),
        ({"labels": [1, -2, 0]}, "row 1: a label"),
        ({"labels": [1, np.nan, 0]}, "got nan"),
        ({"query_ids": [1]}, "query_ids must have shape [2], got (1,)"),
        ({"query_ids": [1, 1]}, "must name each query once"),
        (
            {"query_ids": [1.5, 2.5]},
            "query_ids must be integers or str",
        ),
        ({"doc_ids": [1, 2]}, "doc_ids must have shape [3], got (2,)"),
        ({"feature_names": ("a", "b")}, "feature_names must be 1 different names"),
        ({"source_rows": [1, 2]}, "source_rows must have shape [3], got (2,)"),
    ],
)
def test_what_does_not_fit_together_is_rejected(
    change: dict[str, object], message: str
) -> None:
    fields: dict[str, object] = {
        "features": [[1.0], [2.0], [3.0]],
        "offsets": [0, 2, 3],
        "query_ids": [1, 2],
        "doc_ids": [1, 2, 3],
    }
    with pytest.raises(DataError) as caught:
        RankingDataset(**{**fields, **change})  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_missing_columns_are_named() -> None:
    with pytest.raises(DataError, match=r"1 of 2 features, 'f9' .*f1, f2, f3"):
        small().select_features(["f1", "f9"])


def test_features_that_a_text_leaves_out_are_zero_before_scaling() -> None:
    few = RankingDataset.from_rows([[1.0], [3.0], [np.nan]], [1, 1, 1])
    sparse = replace(few, feature_names=("f2",), absent_is_zero=True)
    chosen = sparse.select_features(["f3", "f2", "f1"]).features
    np.testing.assert_array_equal(chosen[:, 1], [1, 3, np.nan])
    np.testing.assert_array_equal(chosen[:, [0, 2]], np.zeros((3, 2)))
    scaled = FeatureMapping(("f3", "f2")).apply(sparse).features
    np.testing.assert_array_equal(scaled, [[0, 0], [0, 1], [0, np.nan]])
    none = RankingDataset.from_rows(np.zeros((2, 0)), [1, 1])
    zeros = replace(none, absent_is_zero=True).select_features(["f1"])
    np.testing.assert_array_equal(zeros.features, [[0], [0]])
    with pytest.raises(DataError, match=r"1 of 1 features, 'f1' .*none"):
        none.select_features(["f1"])


def test_data_are_printed_on_one_line_with_their_sizes() -> None:
    assert repr(small()) == (
        "RankingDataset(2 queries, 4 documents, 3 features, labelled)"
    )
    many = RankingDataset.from_rows(np.zeros((5000, 2)), np.arange(5000))
    assert repr(many) == (
        "RankingDataset(5,000 queries, 5,000 documents, 2 features, without labels)"
    )


def test_positions_beyond_the_queries_are_rejected() -> None:
    with pytest.raises(DataError, match="0 to 1, got 2"):
        small().select_queries([0, 2])


def test_labels_are_required_where_they_are_used() -> None:
    with pytest.raises(DataError, match="labels are needed"):
        RankingDataset.from_rows([[1]], [1]).relevance()


def test_split_names_are_checked() -> None:
    with pytest.raises(ConfigError, match="got 'vali'"):
        parse_split("vali")


def with_holes() -> RankingDataset:
    """Scaled, f1 has 0, 1, 0.25, 0 and 1, whose median is 0.25; f2 lacks nothing."""
    nan = np.nan
    first, second = [0, nan, 4, 1, 5, 9, nan], [1, 2, 2, 2, 7, 7, 8]
    return RankingDataset.from_rows(
        np.column_stack([first, second]), [1, 1, 1, 1, 2, 2, 2]
    )


def test_missing_values_are_filled_with_the_median_of_the_scaled_known_ones() -> None:
    data = with_holes()
    mapping = FeatureMapping.fit(data, impute=True)
    assert mapping.fill == (0.25, 1.0)
    filled = mapping.apply(data).features
    np.testing.assert_array_equal(filled[:, 0], [0, 0.25, 1, 0.25, 0, 1, 0.25])
    np.testing.assert_array_equal(filled[:, 1], [0, 1, 1, 1, 0, 0, 1])
    assert data.missing_values() == {"f1": 2}


def test_what_was_learnt_on_train_fills_other_splits() -> None:
    mapping = FeatureMapping.fit(with_holes(), impute=True)
    features = np.array([[np.nan, np.nan], [np.nan, 3], [7, 5]])
    other = RankingDataset.from_rows(features, [1, 1, 2])
    filled = mapping.apply(other).features
    np.testing.assert_array_equal(filled, [[0.25, 1], [0.25, 0], [0, 0]])


def test_without_imputation_missing_values_stay_missing() -> None:
    data = with_holes()
    mapping = FeatureMapping.fit(data)
    assert mapping.fill is None
    scaled = mapping.apply(data).features
    np.testing.assert_array_equal(np.isnan(scaled), np.isnan(data.features))


def test_medians_of_many_values_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    features = rng.exponential(size=(999, 3)) ** [1, 2, 3]
    features[rng.random(features.shape) < 0.3] = np.nan
    data = RankingDataset.from_rows(features, np.arange(999) // 9)
    known = np.nanmedian(scaled_in_lists(data).features, axis=0)
    found = np.array(FeatureMapping.fit(data, impute=True).fill)
    np.testing.assert_allclose(found, known, atol=0.01)  # lower median, of many values
