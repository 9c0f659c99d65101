"""The default estimator: what it recovers from small logs, and what it rejects."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.bias.logs import click_rows

from affinerank.bias.gauge import click_model_error
from affinerank.bias.method import EstimationSettings
from affinerank.bias.mixture.estimate import Mixture, fit_mixture
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats, Matrix
from affinerank.support.errors import DataError

DrawLog = Callable[..., tuple[ClickRows, Floats]]

PLUS, MINUS = [0.8, 0.6, 0.5, 0.4], [0.4, 0.2, 0.1, 0.06]
TRUTH = TrustModel.from_zeta(PLUS, MINUS)


def fitted(
    rows: ClickRows,
    features: Matrix | None = None,
    *,
    min_clicks: float = 200,
    most_levels: int = 7,
    first: Mixture | None = None,
    seed: int = 0,
) -> Mixture:
    settings, rng = EstimationSettings(min_clicks=min_clicks), np.random.default_rng
    return fit_mixture(
        rows, features, settings, rng(seed), first, most_levels=most_levels
    )


def telling(relevance: Floats, noise: float = 0.5) -> Matrix:
    """Two features: relevance with noise, and noise."""
    rng = np.random.default_rng(5)
    each = rng.normal(size=(len(relevance), 2)) * noise
    each[:, 0] += relevance
    return each.astype(np.float32)


def error_of(click_model: TrustModel, depth: int = 4) -> float:
    return click_model_error(click_model, TRUTH, np.ones(depth)).error


@pytest.mark.parametrize("seed", range(3))
def test_clicks_alone_give_users_back(draw_log: DrawLog, seed: int) -> None:
    rows, _ = draw_log(PLUS, MINUS, queries=150, seed=seed)
    found = fitted(rows)
    assert error_of(found.click_model) < 0.05
    assert found.click_model.identified == "relative"
    assert found.about == {"features": False, "feature_correlation": 0}


@pytest.mark.parametrize("seed", range(3))
def test_features_give_users_back_where_clicks_alone_do_not(
    draw_log: DrawLog, seed: int
) -> None:
    """Two impressions a document: two binomials cannot be told apart by clicks."""
    rows, relevance = draw_log(PLUS, MINUS, queries=1500, impressions=2, seed=seed)
    with_features = fitted(rows, telling(relevance))
    assert error_of(with_features.click_model) < 0.08
    assert with_features.about["feature_correlation"] > 0.15


def test_swapped_ranks_give_users_back(draw_log: DrawLog) -> None:
    rows, _ = draw_log(PLUS, MINUS, queries=100, impressions=20, swapped=True)
    assert error_of(fitted(rows).click_model) < 0.05


def test_graded_relevance_gives_users_back(draw_log: DrawLog) -> None:
    levels = {"levels": (0.0, 0.4, 1.0), "shares": (0.5, 0.3, 0.2)}
    rows, _ = draw_log(PLUS, MINUS, queries=200, impressions=200, **levels)
    found = fitted(rows)
    assert len(found.fit.levels.levels) == 3
    assert error_of(found.click_model) < 0.05
    assert len(fitted(rows, most_levels=2).fit.levels.levels) == 2


def test_the_same_stream_gives_the_same_users(draw_log: DrawLog) -> None:
    rows, relevance = draw_log(PLUS, MINUS)
    a, b = (fitted(rows, telling(relevance)) for _ in range(2))
    np.testing.assert_array_equal(a.click_model.alpha, b.click_model.alpha)
    np.testing.assert_array_equal(a.click_model.beta, b.click_model.beta)
    np.testing.assert_array_equal(a.population.half, b.population.half)


def test_a_resample_is_fitted_as_if_it_were_fitted_afresh(draw_log: DrawLog) -> None:
    """Other clicks of the same users, from where the first fit ended, in its pools."""
    first_rows, relevance = draw_log(PLUS, MINUS, queries=150, seed=1)
    rows, _ = draw_log(PLUS, MINUS, queries=150, seed=2)
    first = fitted(first_rows, telling(relevance), min_clicks=50)
    found = fitted(rows, telling(relevance), first=first)
    afresh = fitted(rows, telling(relevance), min_clicks=50)
    assert found.pools is first.pools
    moved = click_model_error(first.click_model, afresh.click_model, np.ones(4)).error
    assert (
        click_model_error(found.click_model, afresh.click_model, np.ones(4)).error
        < 0.05 * moved
    )


def test_ranks_of_a_pool_have_its_values(draw_log: DrawLog) -> None:
    rows, _ = draw_log(PLUS, MINUS, impressions=20)
    clicks = np.bincount(rows.rank, rows.clicks)[1:]
    found = fitted(rows, min_clicks=float(clicks[2]) + 1)
    assert found.pools.ranks.names == ("1", "2", "3-4")
    assert found.click_model.depth == 4
    assert found.click_model.alpha[2] == found.click_model.alpha[3]
    expected = found.fit.levels.zeta_minus[[0, 1, 2, 2]]
    np.testing.assert_array_equal(found.click_model.beta, expected)


def test_documents_that_were_never_shown_change_nothing(draw_log: DrawLog) -> None:
    """Features are by number of the document, seen or not."""
    rows, relevance = draw_log(PLUS, MINUS)
    features = telling(relevance)
    spread = np.full((3 * len(features), 2), 9.0, dtype=np.float32)
    spread[::3] = features
    columns = rows.query, rows.rank, rows.impressions, rows.clicks
    more = click_rows(3 * rows.doc, *columns, n_docs=len(spread))
    np.testing.assert_allclose(
        fitted(more, spread).click_model.alpha, fitted(rows, features).click_model.alpha
    )


def test_queries_in_between_that_were_never_seen_do_no_harm(draw_log: DrawLog) -> None:
    """Twelve queries of 6,000: both halves have some of them, whatever the stream."""
    rows, relevance = draw_log(PLUS, MINUS, queries=12, impressions=60)
    sparse = replace(rows, query_of_doc=rows.query_of_doc * 500, sessions=np.ones(5501))
    for seed in range(3):
        found = fitted(sparse, telling(relevance), min_clicks=20, seed=seed)
        query, half = found.population.query, found.population.half
        assert len(set(query.tolist())) == 12
        assert len(set(query[half == 1].tolist())) == 6


def test_nothing_is_ever_nan(draw_log: DrawLog) -> None:
    """Ranks that are always clicked, hardly ever, or not at all; useless features."""
    rows, relevance = draw_log([1.0, 0.5, 0.02, 0.5], [1.0, 0.5, 0.0, 0.1], queries=30)
    constant = np.zeros((len(relevance), 3), dtype=np.float32)
    for features in (constant, telling(relevance)):
        for least in (0, 20):
            found = fitted(rows, features, min_clicks=least)
            assert np.all(np.isfinite(found.click_model.alpha))
            assert np.all(np.isfinite(found.click_model.beta))
            assert np.isfinite(found.about["feature_correlation"])
            assert np.all(found.click_model.alpha > 0)


def test_more_documents_than_are_needed_to_choose_are_sampled_by_query(
    draw_log: DrawLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affinerank.bias.mixture.estimate.CHOOSING_DOCS", 100)
    rows, _ = draw_log(PLUS, MINUS, queries=150)
    assert error_of(fitted(rows).click_model) < 0.05


def few_rows(**changed: Any) -> ClickRows:
    """Forty queries of two documents, 300 impressions each, half of them clicked."""
    doc = np.arange(80)
    columns: dict[str, Any] = {
        "doc": doc,
        "query": doc // 2,
        "rank": doc % 2 + 1,
        "impressions": np.full(80, 300.0),
        "clicks": np.full(80, 150.0),
    }
    return click_rows(**{**columns, **changed})


REFUSED: list[tuple[ClickRows, str]] = [
    (few_rows(clicks=np.zeros(80)), "hold no clicks"),
    (few_rows(clicks=np.full(80, 300.0)), "every impression was clicked"),
    (few_rows(rank=np.full(80, 3)), "all impressions are at rank 3"),
    (few_rows(clicks=np.r_[np.ones(60), np.zeros(20)]), r"60 clicks .*--min-clicks"),
    (few_rows(query=np.zeros(80, int)), "of 1 queries; .* 10 or more"),
    (few_rows(query=np.arange(80) % 9), "of 9 queries"),
    (few_rows(), r"80 documents 80 .* 3 times or more and 0 .*\(--data\)"),
    (few_rows(impressions=np.zeros(80), clicks=np.zeros(80)), "no impressions"),
]


@pytest.mark.parametrize(("rows", "why"), REFUSED)
def test_clicks_that_tell_nothing_are_rejected(rows: ClickRows, why: str) -> None:
    with pytest.raises(DataError, match=why):
        fitted(rows)


def test_documents_shown_once_tell_nothing_without_features(draw_log: DrawLog) -> None:
    rows, relevance = draw_log(PLUS, MINUS, queries=1500, impressions=1)
    with pytest.raises(DataError, match="of 6,000 documents 0 were shown 3 times"):
        fitted(rows)
    assert np.all(np.isfinite(fitted(rows, telling(relevance)).click_model.alpha))
