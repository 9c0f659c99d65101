"""What features are worth: written-out arithmetic, and what must not matter."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
import pytest

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.rankers import Ranker, Targets
from affinerank.rankers.blend import Blend
from affinerank.rankers.importance import by_gain, by_permutation
from affinerank.rankers.ranker import Member
from affinerank.support.errors import DataError

QUERIES = 2000


class Sum:
    """Scores by the first feature; with ``gain`` it says which are read."""

    def __init__(self, gain: Any = None) -> None:
        if gain is not None:
            self.gain = lambda: np.array(gain)

    def predict(self, features: Any) -> Any:
        return features[:, 0].astype(np.float64)

    def files(self) -> dict[str, bytes]:
        return {}

    def about(self) -> dict[str, Any]:
        return {}


def ranker_of(model: Any, names: tuple[str, ...] = ("a", "b")) -> Ranker:
    """A ranker that reads raw features by this model."""
    return Ranker("lightgbm", model, FeatureMapping(names, "none"), {})


def pairs() -> tuple[RankingDataset, Targets]:
    """Lists of two documents worth 1 and 0, the first feature in that order."""
    features = np.tile(np.array([[1, 5], [0, 3]], np.float32), (QUERIES, 1))
    query = np.arange(QUERIES).repeat(2)
    data = RankingDataset.from_rows(features, query, feature_names=("a", "b"))
    weights = np.tile([1.0, 0.0], QUERIES)[None]
    return data, Targets(weights, weights > -1)


def worth(model: Any, data: RankingDataset, targets: Targets, **how: Any) -> Any:
    rng = np.random.default_rng(0)
    return by_permutation(ranker_of(model), data, targets, rng=rng, **how)


def test_a_feature_is_worth_what_its_exchange_costs() -> None:
    """Of two documents half of the permutations exchange them."""
    found = worth(Sum(), *pairs())
    lost = 1.0 - 1.0 / log2(3)
    assert abs(found.loss[0] - lost / 2) < 5 * found.standard_error[0]
    assert found.loss[1] == found.standard_error[1] == 0.0
    # Five permutations of a query: the variance of a share of 1/2 over 5.
    expected = lost * np.sqrt(0.25 / 5 / QUERIES)
    assert found.standard_error[0] == pytest.approx(expected, rel=0.1)
    assert (found.queries, found.gain) == (QUERIES, None)


def test_what_no_split_reads_costs_nothing_and_is_not_tried() -> None:
    found = worth(Sum(gain=[0.0, 4.0]), *pairs())
    assert found.loss.tolist() == [0.0, 0.0]
    assert found.gain.tolist() == [0.0, 1.0]
    assert worth(Sum(gain=[3.0, 1.0]), *pairs()).gain.tolist() == [0.75, 0.25]


def test_what_is_not_known_does_not_matter() -> None:
    data, targets = pairs()
    known = targets.known.copy()
    known[0, : 2 * 500] = False
    weights = np.where(known, targets.weights, 1e9)
    found = worth(Sum(), data, Targets(weights, known))
    assert found.queries == QUERIES - 500
    assert found.loss[0] == pytest.approx((1.0 - 1.0 / log2(3)) / 2, rel=0.05)


def test_queries_count_by_their_share() -> None:
    """Half of the queries are worth nothing, and have three quarters of the share."""
    data, targets = pairs()
    weights = targets.weights.copy()
    weights[0, :QUERIES] = 0.0
    share = np.where(np.arange(QUERIES) < QUERIES // 2, 3.0, 1.0)[None]
    found = worth(Sum(), data, Targets(weights, targets.known, share))
    expected = (1.0 - 1.0 / log2(3)) / 2 / 4
    assert abs(found.loss[0] - expected) < 5 * found.standard_error[0]


def test_many_documents_are_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("affinerank.rankers.importance.DOCUMENTS", 1000)
    found = worth(Sum(), *pairs())
    assert 490 <= found.queries <= 500


def test_lists_without_a_pair_are_refused() -> None:
    data, targets = pairs()
    none = Targets(targets.weights, targets.weights > 0)
    with pytest.raises(DataError, match="two known documents"):
        worth(Sum(), data, none)


def test_rows_and_frame_have_the_most_important_first() -> None:
    rows = by_gain(ranker_of(Sum(gain=[1.0, 3.0]))).rows()
    assert rows == [{"feature": "b", "gain": 0.75}, {"feature": "a", "gain": 0.25}]
    frame = worth(Sum(), *pairs()).frame()
    assert frame.column_names == ["feature", "loss", "standard_error"]
    assert frame["feature"].to_pylist() == ["a", "b"]


def test_a_blend_gains_by_the_shares_of_its_trees() -> None:
    """Trees of share .6 read a and b alike, those of .2 read b alone: .3 to .5."""
    members = (
        Member("one", ranker_of(Sum(gain=[2.0, 2.0])), 0.6),
        Member("other", ranker_of(Sum(gain=[5.0]), ("b",)), 0.2),
        Member("linear", ranker_of(Sum()), 0.2),
    )
    blend = Blend("blend", members, {})
    gain: Any = by_gain(blend).gain
    assert gain.tolist() == pytest.approx([3 / 8, 5 / 8])


def test_a_category_is_permuted_as_a_whole() -> None:
    """The ranker reads a feature of each value; what is lost is lost by the brand."""
    values = ("nike", "puma")
    data = RankingDataset.from_groups(
        np.tile(np.array([[1], [0]], np.float32), (QUERIES, 1)),
        np.arange(QUERIES).repeat(2),
        np.arange(QUERIES),
        feature_names=("brand",),
        categories={"brand": values},
    )
    weights = np.tile([1.0, 0.0], QUERIES)[None]
    names = ("brand=puma", "brand=nike")
    mapping = FeatureMapping(names, "none", categories={"brand": values})
    found: Any = by_permutation(
        Ranker("mlp", Sum(), mapping, {}),
        data,
        Targets(weights, weights > -1),
        rng=np.random.default_rng(0),
    )
    assert found.features == ("brand",)
    assert found.loss[0] == pytest.approx((1.0 - 1.0 / log2(3)) / 2, rel=0.05)
