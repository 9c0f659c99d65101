"""What features are worth: written-out arithmetic, and what must not matter."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
import pytest

from affinerank.errors import DataError
from affinerank.rankers import Targets
from affinerank.rankers.importance import by_gain, by_permutation

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


def pairs() -> tuple[Any, Targets, Any]:
    """Lists of two documents worth 1 and 0, the first feature in that order."""
    features = np.tile(np.array([[1, 5], [0, 3]], np.float32), (QUERIES, 1))
    weights = np.tile([1.0, 0.0], QUERIES)[None]
    return features, Targets(weights, weights > -1), np.arange(0, 2 * QUERIES + 1, 2)


def worth(model: Any, features: Any, targets: Targets, offsets: Any, **how: Any) -> Any:
    rng = np.random.default_rng(0)
    names = ("a", "b")
    return by_permutation(model, names, features, targets, offsets, rng=rng, **how)


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
    features, targets, offsets = pairs()
    known = targets.known.copy()
    known[0, : 2 * 500] = False
    weights = np.where(known, targets.weights, 1e9)
    found = worth(Sum(), features, Targets(weights, known), offsets)
    assert found.queries == QUERIES - 500
    assert found.loss[0] == pytest.approx((1.0 - 1.0 / log2(3)) / 2, rel=0.05)


def test_queries_count_by_their_share() -> None:
    """Half of the queries are worth nothing, and have three quarters of the share."""
    features, targets, offsets = pairs()
    weights = targets.weights.copy()
    weights[0, :QUERIES] = 0.0
    share = np.where(np.arange(QUERIES) < QUERIES // 2, 3.0, 1.0)[None]
    found = worth(Sum(), features, Targets(weights, targets.known, share), offsets)
    expected = (1.0 - 1.0 / log2(3)) / 2 / 4
    assert abs(found.loss[0] - expected) < 5 * found.standard_error[0]


def test_many_documents_are_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("affinerank.rankers.importance.DOCUMENTS", 1000)
    found = worth(Sum(), *pairs())
    assert 490 <= found.queries <= 500


def test_lists_without_a_pair_are_refused() -> None:
    features, targets, offsets = pairs()
    none = Targets(targets.weights, targets.weights > 0)
    with pytest.raises(DataError, match="two known documents"):
        worth(Sum(), features, none, offsets)


def test_rows_and_frame_have_the_most_important_first() -> None:
    rows = by_gain(Sum(gain=[1.0, 3.0]), ("a", "b")).rows()
    assert rows == [{"feature": "b", "gain": 0.75}, {"feature": "a", "gain": 0.25}]
    frame = worth(Sum(), *pairs()).frame()
    assert frame.column_names == ["feature", "loss", "standard_error"]
    assert frame["feature"].to_pylist() == ["a", "b"]
