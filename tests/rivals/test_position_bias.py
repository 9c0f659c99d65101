"""Rivals' estimates of position bias, against their definitions."""

from dataclasses import replace
from math import exp, log1p
from typing import Any

import numpy as np
import pytest

from affinerank.bias import METHODS, EstimationSettings
from affinerank.bias.listwise import QueryLists
from affinerank.counts.rows import ClickRows
from affinerank.rivals.pairwise import Pairs
from affinerank.support.errors import DataError
from affinerank.support.progress import no_progress

THETA = np.array([1.0, 0.6, 0.35, 0.3, 0.1])
SETTINGS = EstimationSettings(replicates=0)


def expected_clicks(n_queries: int = 400) -> tuple[ClickRows, np.ndarray]:
    """Lists in a biased order; clicks are what theta times exp(x w) expects."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (5 * n_queries, 2))
    relevance = np.exp(0.7 * x[:, 0] - 0.4 * x[:, 1] - 1.5)
    # The production ranker knows x[0] with noise.
    noisy = (x[:, 0] + rng.normal(size=len(x))).reshape(-1, 5)
    rank = 1 + np.argsort(np.argsort(-noisy, axis=1), axis=1).ravel()
    n = np.full(len(x), 1e5)
    rows = ClickRows(
        doc=np.arange(len(x)),
        rank=rank,
        context=np.zeros(len(x), dtype=np.int64),
        impressions=n,
        clicks=n * THETA[rank - 1] * relevance,
        query_of_doc=np.repeat(np.arange(n_queries), 5),
        sessions=np.full(n_queries, 1e5),
    )
    return rows, x


def test_dual_learning_finds_examination_exactly_where_scores_can_be_right() -> None:
    """Theorem of Ai et al. 2018: both losses are unbiased at the truth, and stay."""
    rows, x = expected_clicks()
    found = METHODS["dual-learning"].fit(rows, x, SETTINGS, no_progress)
    np.testing.assert_allclose(found.click_model.alpha, THETA, rtol=0.01)
    rates = rows.by_rank(rows.clicks) / rows.by_rank(rows.impressions)
    assert np.abs(rates / rates[0] / THETA - 1).max() > 0.3  # what clicks alone say
    np.testing.assert_array_equal(found.click_model.beta, 0)


def small_lists() -> tuple[QueryLists, np.ndarray]:
    rows, x = expected_clicks(20)
    return QueryLists.of(rows, x, SETTINGS), x


def test_ratios_are_the_written_out_sums_of_hu_et_al() -> None:
    """Updates of t+ and t- of Hu et al. 2019 with p = 1, pair by pair."""
    lists, _ = small_lists()
    rows, rng = lists.rows, np.random.default_rng(1)
    scores = rng.normal(size=len(rows))
    plus, minus = rng.uniform(0.5, 1.0, (2, 5))
    top, bottom = np.zeros(5), np.zeros(5)
    for i in range(len(rows)):
        for j in range(len(rows)):
            if i == j or rows.query[i] != rows.query[j]:
                continue
            unclicked = rows.impressions[j] - rows.clicks[j]
            number = rows.clicks[i] * unclicked / rows.sessions[rows.query[i]]
            loss = number * log1p(exp(-(scores[i] - scores[j])))
            k, m = rows.rank[i] - 1, rows.rank[j] - 1
            top[k] += loss / minus[m]
            bottom[m] += loss / plus[k]
    found = Pairs.of(lists, rng).ratios(scores, plus, minus)
    np.testing.assert_allclose(found[0], np.sqrt(top / top[0]), rtol=1e-10)
    np.testing.assert_allclose(found[1], np.sqrt(bottom / bottom[0]), rtol=1e-10)


def test_pairwise_debiasing_ends_where_its_ratios_no_longer_move() -> None:
    rows, x = expected_clicks()
    found = METHODS["pairwise-debiasing"].fit(rows, x, SETTINGS, no_progress)
    plus = found.click_model.alpha
    assert plus[0] == 1
    assert np.all(np.diff(plus) < 0)
    minus = found.click_model.provenance["t_minus"]
    assert minus[0] == 1
    assert len(minus) == 5


def moved(theta: np.ndarray, seed: int, segment: int) -> ClickRows:
    """Documents that were seen at two ranks next to each other, in equal parts."""
    rng = np.random.default_rng(seed)
    upper = np.repeat(np.arange(1, 5), 1000)
    relevance = rng.uniform(0.05, 0.95, len(upper))
    doc = np.tile(np.arange(len(upper)), 2)
    rank = np.concatenate([upper, upper + 1])
    n = rng.integers(50, 500, len(doc)).astype(float)
    return ClickRows(
        doc=doc,
        rank=rank,
        context=0 * doc,
        impressions=n,
        clicks=n * theta[rank - 1] * relevance[doc],
        query_of_doc=np.arange(len(upper)) // 4,
        sessions=np.full(len(upper) // 4, 1000.0),
        segments=("phone", "desk"),
        segment=np.full(len(doc), segment),
    )


def test_contextual_bias_is_that_of_each_segment() -> None:
    """Expected clicks give theta of both segments, as Fang et al. 2019 say."""
    steep = THETA**2
    first, second = moved(THETA, 0, 0), moved(steep, 1, 1)
    joined = ("doc", "rank", "context", "impressions", "clicks", "segment")
    pairs: dict[str, Any] = {
        n: np.append(getattr(first, n), getattr(second, n)) for n in joined
    }
    found = METHODS["contextual"].fit(
        replace(first, **pairs), None, SETTINGS, no_progress
    )
    phone, desk = (found.click_model.models[name].alpha for name in ("phone", "desk"))
    np.testing.assert_allclose(phone, THETA, rtol=0.03)
    np.testing.assert_allclose(desk, steep, rtol=0.06)


def test_without_segments_it_is_all_pairs() -> None:
    """Agarwal et al. 2019: click rates of one document at two ranks give the ratio."""
    rows = replace(moved(THETA, 0, 0), segments=(), segment=None)
    found = METHODS["contextual"].fit(rows, None, SETTINGS, no_progress)
    np.testing.assert_allclose(found.click_model.alpha, THETA, rtol=0.01)


def test_documents_that_stay_where_they_are_tell_nothing() -> None:
    rows, x = expected_clicks()
    with pytest.raises(DataError, match="swap documents"):
        METHODS["contextual"].fit(rows, x, SETTINGS, no_progress)


def test_segments_within_which_nothing_moves_are_refused() -> None:
    rows = moved(THETA, 0, 0)
    apart = replace(rows, segment=(np.arange(len(rows)) >= len(rows) // 2) * 1)
    with pytest.raises(DataError, match="count without --segment"):
        METHODS["contextual"].fit(apart, None, SETTINGS, no_progress)
