"""Click models on held-out sessions: which users, and whether given ones are right."""

from dataclasses import replace

import numpy as np
import pytest
from tests.bias.logs import population

from affinerank.bias import pooling
from affinerank.bias.method import EstimationSettings
from affinerank.bias.mixture.comparison import (
    best_model,
    compare_models,
    hold_against_log,
    predicted,
)
from affinerank.bias.mixture.estimate import fit_mixture
from affinerank.bias.mixture.levels import Levels
from affinerank.bias.pooling import pool_cells, pool_ranks
from affinerank.clicks.models.browsing import BrowsingModel
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats

DEPTH = 5
PAPER = TrustModel.paper(depth=DEPTH)


def rows_of_click_model(
    alpha: Floats, beta: Floats, *, seed: int, sessions: int = 60, queries: int = 150
) -> ClickRows:
    """Lists of five, a fixed one per query; ``alpha[rank, last click above]``."""
    rng = np.random.default_rng(seed)
    gamma = (rng.random((queries, 1, DEPTH)) < 0.3) * np.ones((1, sessions, 1))
    clicked = np.zeros((queries, sessions, DEPTH), dtype=bool)
    last = np.zeros((queries, sessions), dtype=int)
    context = np.zeros_like(clicked, dtype=int)
    for k in range(DEPTH):
        context[:, :, k] = last
        rate = alpha[k, last] * gamma[:, :, k] + beta[k, last]
        clicked[:, :, k] = rng.random(rate.shape) < rate
        last = np.where(clicked[:, :, k], k + 1, last)
    doc = np.arange(queries * DEPTH).reshape(queries, 1, DEPTH)
    key = (doc * (DEPTH + 1) + context).ravel()
    names, where, n = np.unique(key, return_inverse=True, return_counts=True)
    doc_of = names // (DEPTH + 1)
    return ClickRows(
        doc=doc_of,
        rank=doc_of % DEPTH + 1,
        context=names % (DEPTH + 1),
        impressions=n.astype(float),
        clicks=np.bincount(where, clicked.ravel()).astype(float),
        query_of_doc=np.arange(queries * DEPTH) // DEPTH,
        sessions=np.full(queries, float(sessions)),
        has_context=True,
    )


def by_rank(click_model: TrustModel) -> tuple[Floats, Floats]:
    """The same values after any click above."""
    return tuple(
        np.repeat(v[:, None], DEPTH, axis=1)
        for v in (click_model.alpha, click_model.beta)
    )  # type: ignore[return-value]


def chosen(rows: ClickRows, seed: int = 0) -> tuple[str, list[str]]:
    rng = np.random.default_rng(seed)
    fitted = fit_mixture(rows, None, EstimationSettings(), rng, most_levels=3)
    table = compare_models(fitted.population, fitted.pools, fitted.fit.levels, rng)
    return best_model(table).model, [row.model for row in table]


def test_users_by_rank_and_users_by_last_click_are_told_apart() -> None:
    alpha, beta = by_rank(PAPER)
    best, names = chosen(rows_of_click_model(alpha, beta, seed=1))
    assert best == "position and trust bias by rank"
    assert names == [
        "click rate by rank",
        "position bias by rank",
        "position and trust bias by rank",
        "position bias by rank and last click",
        "position and trust bias by rank and last click",
    ]
    # First-click cascade: nothing is clicked after a click.
    alpha, beta = np.full((DEPTH, DEPTH), 0.9), np.full((DEPTH, DEPTH), 0.05)
    alpha[:, 1:] = beta[:, 1:] = 0.0
    best, _ = chosen(rows_of_click_model(alpha, beta, seed=2))
    assert best == "position bias by rank and last click"


def test_browsing_users_are_estimated_by_rank_and_distance() -> None:
    """A click halves what comes right after it, and doubles what comes later."""
    alpha, beta = by_rank(PAPER)
    for k in range(1, DEPTH):
        for last in range(1, k + 1):
            scale = 0.5 if last == k else 1.6
            alpha[k, last], beta[k, last] = (
                scale * alpha[k, last],
                scale * beta[k, last],
            )
    rows = rows_of_click_model(alpha, beta, seed=3, sessions=400)
    rng = np.random.default_rng(0)
    fitted = fit_mixture(rows, None, EstimationSettings(), rng, most_levels=2)
    click_model = fitted.click_model
    assert isinstance(click_model, BrowsingModel)
    found, _ = click_model.at(rows)
    truth = alpha[rows.rank - 1, rows.context]
    many = rows.impressions > 100
    scale = np.median(found[many] / truth[many])
    np.testing.assert_allclose(found[many] / scale, truth[many], rtol=0.35, atol=0.02)
    after = found[many & (rows.rank == 3) & (rows.context == 2)].mean()
    later = found[many & (rows.rank == 3) & (rows.context == 1)].mean()
    assert later / after == pytest.approx(3.2, rel=0.25)


def test_given_users_are_doubted_where_they_are_wrong() -> None:
    alpha, beta = by_rank(PAPER)
    for seed in range(3):
        rows = rows_of_click_model(alpha, beta, seed=seed).merged()
        wrong = TrustModel.paper(eta=2.0, depth=DEPTH)
        doubts = [
            hold_against_log(rows, click_model, 200, np.random.default_rng(seed))
            for click_model in (PAPER, wrong)
        ]
        assert [doubt is not None and doubt.clear for doubt in doubts] == [False, True]


def test_a_prediction_is_the_expected_level_through_slope_and_intercept() -> None:
    """Two levels, equally likely: 1 of 1 clicked is relevant with .8 / (.8 + .2)."""
    people = population([0], [0, 1], [0], [1], [1], [1.0], rank_of=np.array([0]))
    levels = Levels(
        np.array([0.8]),
        np.log([4.0]),
        np.array([0.0, 1.0]),
        np.zeros(2),
        np.zeros(people.basis.shape[1]),
        np.zeros(1),
        0.0,
    )
    assert predicted(people, levels) == pytest.approx([0.6 * 0.8 + 0.2])


def test_cells_are_never_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of_click_model(*by_rank(PAPER), seed=4)
    ranks = pool_ranks(rows, 0)
    assert len(pool_cells(rows, ranks, 0).rank_of) > 20
    for most in (20, 14, 0):
        monkeypatch.setattr(pooling, "MOST_CELLS", most)
        cells = pool_cells(rows, ranks, 0)
        assert len(cells.rank_of) <= max(most, 2 * DEPTH)
        # Lists without a click above stay by themselves, and no row is lost.
        assert np.all(cells.table[1:, 0] != cells.table[1:, 1])
        assert cells.impressions.sum() == rows.impressions.sum()


def test_cells_pool_distances_with_few_clicks_and_keep_lists_without_a_click() -> None:
    alpha, beta = by_rank(PAPER)
    rows = rows_of_click_model(alpha, beta, seed=4)
    ranks = pool_ranks(rows, 100)
    cells = pool_cells(rows, ranks, 100)
    assert cells.table.shape == (DEPTH, DEPTH)
    assert np.all(cells.table[1:, 0] != cells.table[1:, 1])
    clicks = np.bincount(cells.of(rows), rows.clicks)
    alone = cells.table[:, 0]
    assert np.all(np.delete(clicks, alone) >= 20)
    np.testing.assert_allclose(cells.mean_by_rank().sum(axis=1), 1.0)
    plain = pool_cells(rows, ranks, 100, context=False)
    assert plain.table.shape == (DEPTH, 1)
    assert not plain.by_context
    two = replace(rows, segments=("a", "b"), segment=rows.doc % 2)
    both = pool_cells(two, ranks, 100)
    assert len(both.rank_of) == 2 * len(cells.rank_of)
    assert [view.name for view in both.views()] == [
        "by rank",
        "by rank and last click",
        "by rank and last click, by segment",
    ]
