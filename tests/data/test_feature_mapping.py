"""Features as rankers read them: by list, by data, or as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.support.errors import ConfigError

NAN = np.nan


def lists(rows: Any) -> RankingDataset:
    """Two queries, of two documents and of three."""
    return RankingDataset.from_rows(
        np.array(rows, np.float32), list("aabbb"), feature_names=("x", "y")
    )


TRAIN = lists([[0, 5], [10, 5], [20, NAN], [40, 6], [30, 9]])


def test_data_scale_by_numbers_that_are_kept() -> None:
    mapping = FeatureMapping.fit(TRAIN, scaling="data")
    assert (mapping.low, mapping.high) == ((0.0, 5.0), (40.0, 9.0))
    other = lists([[20, 7], [80, 3], [0, NAN], [40, 9], [-40, 5]])
    expected: Any = [[0.5, 0.5], [2, -0.5], [0, NAN], [1, 1], [-1, 0]]
    np.testing.assert_allclose(mapping.apply(other).features, expected)
    # One document alone has the same features.
    alone = RankingDataset.from_rows(
        np.array([[20, 7]], np.float32), ["a"], feature_names=("x", "y")
    )
    np.testing.assert_allclose(mapping.apply(alone).features, expected[:1])


def test_features_may_stay_as_they_are() -> None:
    mapping = FeatureMapping.fit(TRAIN, scaling="none")
    np.testing.assert_array_equal(mapping.apply(TRAIN).features, TRAIN.features)


@pytest.mark.parametrize(
    ("scaling", "fill"), [("data", 0.25), ("none", 6.0), ("list", 0.0)]
)
def test_missing_values_are_filled_with_the_median_of_the_scaled_ones(
    scaling: str, fill: float
) -> None:
    """Of y: 6, 6, 5, 9; the lower median is 6, by data 1/4, by list 0, 0, 0, 1."""
    rows = [[0, 6], [10, 6], [20, NAN], [40, 5], [30, 9]]
    mapping = FeatureMapping.fit(lists(rows), scaling=scaling, impute=True)
    filled = mapping.apply(lists(rows)).features[2, 1]
    np.testing.assert_allclose(filled, fill, atol=1e-3)


def test_a_feature_that_never_differs_over_the_data_becomes_0() -> None:
    constant = FeatureMapping(("x",), "data", None, (3.0,), (3.0,))
    one = RankingDataset.from_rows(
        np.array([[3]], np.float32), ["a"], feature_names=("x",)
    )
    assert constant.apply(one).features.tolist() == [[0.0]]


def test_other_scalings_are_rejected() -> None:
    with pytest.raises(ConfigError, match="scaling must be list, data or none"):
        FeatureMapping.fit(TRAIN, scaling="mean")
