"""The built-in shop follows its law, which is written out here a second time."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from affinerank.data.dataset import RankingDataset
from affinerank.data.shop import FEATURES, SHOP, search_text
from affinerank.data.synthetic import generate_world
from affinerank.support.arrays import Bools, Floats

N_QUERIES = 1_000


@cache
def shop(seed: int = 0) -> RankingDataset:
    return generate_world("shop-like", n_queries=N_QUERIES, seed=seed)


def column(name: str, data: RankingDataset) -> Floats:
    return data.features[:, data.feature_names.index(name)].astype(np.float64)


def test_the_table_is_that_of_a_shop() -> None:
    data = shop()
    assert data.feature_names == FEATURES
    assert list(data.categories) == ["brand"]
    assert len(data.categories["brand"]) == 60
    assert data.query_ids[0] == "black camping backpack"
    assert all(str(name).startswith("P") for name in data.doc_ids[:100])
    # A product is found once by a search.
    pairs = set(zip(data.query_of_doc.tolist(), data.doc_ids.tolist(), strict=True))
    assert len(pairs) == data.n_docs


def test_a_product_has_the_same_price_in_every_search() -> None:
    data = shop()
    for name in ("price", "rating", "reviews", "brand", "stock"):
        seen: dict[str, set[float]] = {}
        for product, value in zip(data.doc_ids, column(name, data), strict=True):
            known = -1.0 if np.isnan(value) else float(value)
            seen.setdefault(str(product), set()).add(known)
        assert max(map(len, seen.values())) == 1
        assert max(len(values) for values in seen.values()) == 1
    scores = column("text_score", data)
    assert len(np.unique(scores[~np.isnan(scores)])) > 0.1 * data.n_docs


def test_what_is_missing_is_missing_for_a_reason() -> None:
    data = shop()
    missing = {name: np.isnan(column(name, data)) for name in FEATURES}
    # Ratings are missing where there are no reviews, and only there.
    np.testing.assert_array_equal(missing["rating"], column("reviews", data) == 0)
    n = data.n_docs
    for name, share in (("price", 1 / 30), ("text_score", 1 / 50)):
        # Products come up in many searches: count few of them as independent.
        error = np.sqrt(share / (n / 10))
        assert missing[name].mean() == pytest.approx(share, abs=4 * error)
    complete = [n for n in FEATURES if n not in ("price", "rating", "text_score")]
    assert not any(missing[name].any() for name in complete)


def test_one_product_in_ten_is_relevant_and_some_searches_have_none() -> None:
    relevant = np.concatenate([shop(seed).relevance(2) for seed in range(3)])
    assert relevant.mean() == pytest.approx(0.10, abs=0.01)
    data = shop()
    by_search = np.add.reduceat(data.relevance(2), data.offsets[:-1])
    assert 0.1 < np.mean(by_search == 0) < 0.4


def mean_label(data: RankingDataset, rows: Bools) -> float:
    return float(data.known_labels()[rows].mean())


def test_features_depend_on_each_other() -> None:
    """A good rating matters with many reviews, a low price with a match."""
    data = shop()
    share = within_list(column("text_score", data), data)
    matches, reviews = share > 0.7, column("reviews", data)
    high, low = column("rating", data) > 4.4, column("rating", data) < 3.6

    def worth(rows: Bools) -> float:
        return mean_label(data, rows & high) - mean_label(data, rows & low)

    assert worth(matches & (reviews > 30)) > worth(matches & (reviews < 4)) + 0.3
    assert worth(matches & (reviews > 30)) > worth((share < 0.3) & (reviews > 30)) + 0.3
    sold_out = column("stock", data) == 0
    assert mean_label(data, matches & sold_out) < mean_label(data, matches) - 0.5


def within_list(values: Floats, data: RankingDataset) -> Floats:
    """Place in the list, from 0 to 1; a missing value has none."""
    places = np.full(len(values), np.nan)
    for start, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        own = values[start:end]
        known = ~np.isnan(own)
        order = np.argsort(np.argsort(own[known]))
        places[start:end][known] = order / max(1, known.sum() - 1)
    return places


def test_every_search_has_its_own_text() -> None:
    texts = {search_text(number) for number in range(100_000)}
    assert len(texts) == 100_000


def test_brands_are_the_same_for_every_seed_and_products_are_not() -> None:
    one, other = shop(), shop(1)
    assert one.categories == other.categories
    assert not np.array_equal(column("price", one)[:50], column("price", other)[:50])
    assert SHOP.name == "shop-like"
