"""Documents that change rank: what they show without an estimate."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from affinerank.audit.rank_effect import rank_effect
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Ints

pytestmark = pytest.mark.slow


def rows_of(
    doc: Ints, query: Ints, rank: Ints, impressions: ArrayLike, clicks: ArrayLike
) -> ClickRows:
    query_of_doc = np.zeros(doc.max() + 1, dtype=np.int64)
    query_of_doc[doc] = query
    return ClickRows(
        doc=doc,
        rank=rank,
        context=np.zeros_like(doc),
        impressions=np.asarray(impressions, dtype=np.float64),
        clicks=np.asarray(clicks, dtype=np.float64),
        query_of_doc=query_of_doc,
        sessions=np.bincount(query, np.asarray(impressions)).astype(np.float64),
    )


def moved(rate: Any, rng: np.random.Generator | None = None) -> ClickRows:
    """30 queries of one document each at ranks 1, 2, 4 and 8, by its click rate."""
    doc = np.repeat(np.arange(30), 4)
    rank = np.tile([1, 2, 4, 8], 30)
    shown = np.tile([10, 20, 20, 40], 30)
    expected = shown * rate(doc, rank)
    clicks = expected if rng is None else rng.binomial(shown, expected / shown)
    return rows_of(doc, doc, rank, shown, clicks)


def test_the_rank_effect_is_the_slope_within_documents() -> None:
    found = rank_effect(moved(lambda d, k: 0.3 + 0.01 * d - 0.05 * np.log2(k)))
    assert found is not None
    assert found.slope == pytest.approx(-0.05)
    assert (found.n_docs, found.n_queries) == (30, 30)
    away = np.array([0, 1, 2, 3]) - (20 + 2 * 20 + 3 * 40) / 90
    assert found.rate == pytest.approx(0.445 - 0.05 * 2.0)
    assert np.sum([10, 20, 20, 40] * away) == pytest.approx(0)
    few = moved(lambda d, k: 0.2 + 0.0 * d * k)
    assert rank_effect(replace(few, query_of_doc=few.query_of_doc % 19)) is None
    assert rank_effect(replace(few, clicks=np.zeros(120))) is None


def test_the_rank_effect_keeps_its_level_without_bias() -> None:
    rng = np.random.default_rng(0)
    found = [
        rank_effect(moved(lambda d, k: 0.1 + 0.02 * d + 0.0 * k, rng))
        for _ in range(400)
    ]
    share = np.mean([each is not None and each.p < 0.05 for each in found])
    assert share == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / 400))
