"""Planned swaps: what is known by them, how few there are, and what logs then show."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from affinerank.bias.swap_design import (
    Board,
    design,
    errors_of,
    needed,
    of_difference,
    of_users,
    uniform,
)
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.defaults import EVALUATOR
from affinerank.pipeline.steps.weighing import weigh
from affinerank.support.arrays import Floats
from affinerank.support.lists import discount

LOGS, WITHIN, SIZE, LENGTH, DEPTH, SESSIONS = 100, 0.2, 100, 10, 5, 500
RANK = np.arange(1, LENGTH + 1)
CLICK_MODEL = TrustModel.from_eps(1 / RANK, 1 - (RANK + 1) / 100, 0.5 / RANK)
QUERY = np.repeat(np.arange(SIZE), LENGTH)
PLACE = np.tile(RANK, SIZE)


def rows_of(impressions: Floats, rng: np.random.Generator, true: Floats) -> ClickRows:
    """Draw clicks on documents shown so often at each rank, ``[n_docs, depth]``."""
    doc, place = np.nonzero(impressions)
    n = impressions[doc, place]
    rate = CLICK_MODEL.alpha[place] * true[doc] + CLICK_MODEL.beta[place]
    return ClickRows(
        doc=doc,
        rank=place + 1,
        context=np.zeros_like(doc),
        impressions=n,
        clicks=rng.binomial(n.astype(int), rate).astype(np.float64),
        query_of_doc=QUERY,
        sessions=np.full(SIZE, float(SESSIONS)),
    )


def logged(seed: int = 0) -> tuple[ClickRows, Floats, Floats]:
    """A log of one fixed ranking, true relevance, and as the log estimates it."""
    rng = np.random.default_rng(seed)
    true = rng.uniform(0.1, 0.9, len(QUERY))
    shown = np.zeros((len(QUERY), LENGTH))
    shown[np.arange(len(QUERY)), PLACE - 1] = SESSIONS
    rows = rows_of(shown, rng, true)
    return rows, true, np.clip(weigh(rows, EVALUATOR, CLICK_MODEL).weight, 0.0, 1.0)


def small_board() -> Board:
    """Two queries of three documents, with some swaps already."""
    rng = np.random.default_rng(3)
    query, rank = np.repeat([0, 1], 3), np.tile([1, 2, 3], 2)
    alpha, beta = np.array([0.5, 0.4, 0.3]), np.array([0.3, 0.2, 0.1])
    shown = rng.integers(1, 50, (6, 3)).astype(float)
    share = np.array([0.4, 0.6])
    return Board(np.arange(6), query, rank, rng.random(6), alpha, beta, shown, share)


def test_errors_are_those_of_the_whole_fisher_information() -> None:
    board = small_board()
    whole = np.zeros((4 + 6, 4 + 6))
    for d in range(6):
        for k in range(3):
            g = np.zeros(10)
            g[4 + d] = board.alpha[k]
            if k:
                g[k - 1], g[2 + k - 1] = board.relevance[d], 1.0
            p = board.alpha[k] * board.relevance[d] + board.beta[k]
            whole += board.impressions[d, k] / (p * (1 - p)) * np.outer(g, g)
    expected = np.sqrt(np.diag(np.linalg.inv(whole)))[:4]
    found = np.concatenate(errors_of(board, board.impressions))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    mean = np.mean((expected[:2] / board.alpha[1:]) ** 2)
    assert of_users(board)(board.impressions)[0] == pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize("goal", ["users", "difference"])
def test_gains_are_finite_differences(goal: str) -> None:
    board = small_board()
    difference = np.array([0.5, -0.2, 0.1, 0.3, -0.4, 0.2])
    variance = (
        of_users(board) if goal == "users" else of_difference(board, difference, 0.1)
    )
    swaps = board.swaps()
    assert len(swaps[0]) == 6
    now, slope = variance(board.impressions)
    gain = board.gain(swaps, slope())
    for i in range(6):
        one = np.where(np.arange(6) == i, 1e-4, 0.0)
        after, _ = variance(board.after(swaps, one))
        assert gain[i] == pytest.approx((now - after) / 1e-4, rel=1e-3)


def test_a_swap_shows_the_rest_of_the_list_where_it_was() -> None:
    board = replace(small_board(), impressions=np.zeros((6, 3)))
    upper, lower = board.swaps()
    first = (board.query[upper] == 0) & (board.rank[lower] - board.rank[upper] == 2)
    shown = board.after((upper, lower), 7.0 * first)
    expected = np.zeros((6, 3))
    expected[[0, 1, 2], [2, 1, 0]] = 7
    np.testing.assert_array_equal(shown, expected)


def test_logs_show_the_error_of_alpha_that_was_planned() -> None:
    rows, true, relevance = logged()
    alpha, beta = CLICK_MODEL.alpha[:DEPTH], CLICK_MODEL.beta[:DEPTH]
    board = Board.of(rows, alpha, beta, relevance)
    variance, target = of_users(board), 0.05
    plan = design(board, variance, target)
    assert plan is not None
    assert plan.error <= target * 1.001
    plain = needed(variance, uniform(board, np.full(SIZE, LENGTH)), target)
    assert plain is not None
    assert plan.sessions.sum() <= plain / 2
    shown = board.after(plan.swaps, plan.sessions)
    rate = alpha * true[board.doc][:, None] + beta
    rng = np.random.default_rng(1)
    clicks = [rng.binomial(shown.astype(int), rate) for _ in range(LOGS)]
    found = np.array([most_likely(board, shown, each) for each in clicks])
    spread = found[:, 1:].std(axis=0, ddof=1) / alpha[1:]
    error = np.sqrt(np.mean(spread**2))
    assert plan.error == pytest.approx(error, rel=WITHIN)


def most_likely(board: Board, shown: Floats, clicks: Any) -> Floats:
    """Alpha of largest likelihood, by Newton over alpha, beta and each relevance."""
    alpha, beta, own = board.alpha.copy(), board.beta.copy(), board.relevance.copy()
    size = len(alpha) - 1
    for _ in range(30):
        rate = np.clip(own[:, None] * alpha + beta, 0.005, 0.995)
        h = shown / (rate * (1 - rate))
        left = (clicks - shown * rate) / (rate * (1 - rate))
        by = np.concatenate([h[:, 1:] * own[:, None], h[:, 1:]], axis=1)
        c = (h * alpha**2).sum(axis=1)
        u = by * np.tile(alpha[1:], 2) / c[:, None]
        blocks = [np.diag((h[:, 1:] * own[:, None] ** p).sum(axis=0)) for p in range(3)]
        known = np.block([[blocks[2], blocks[1]], [blocks[1], blocks[0]]])
        known -= u.T @ (u * c[:, None])
        pulls = np.concatenate([left[:, 1:].T @ own, left[:, 1:].sum(axis=0)])
        pull = (left * alpha).sum(axis=1)
        step = np.linalg.solve(known, pulls - u.T @ pull)
        own = np.clip(own + pull / c - u @ step, -0.3, 1.3)
        alpha[1:] += step[:size]
        beta[1:] += step[size:]
        if np.abs(step).max() < 1e-6:
            break
    return alpha


def test_logs_show_the_error_of_a_difference_that_was_planned() -> None:
    rows, true, relevance = logged()
    rng = np.random.default_rng(2)
    noisy = (true + rng.normal(0, 0.3, len(true))).reshape(SIZE, LENGTH)
    new = (-noisy).argsort(axis=1).argsort(axis=1).ravel() + 1
    over = (discount(new) - discount(PLACE)) / SIZE
    board = Board.of(rows, CLICK_MODEL.alpha, CLICK_MODEL.beta, relevance)
    variance = of_difference(board, over[board.doc])
    target = np.sqrt(variance(board.impressions)[0]) / 2
    plan = design(board, variance, target)
    assert plan is not None
    plain = needed(variance, uniform(board, np.full(SIZE, LENGTH)), target)
    assert plain is not None
    assert plan.sessions.sum() <= plain / 2
    shown = np.zeros((len(QUERY), LENGTH))
    shown[board.doc] = board.after(plan.swaps, plan.sessions)
    drawn = (rows_of(shown, rng, true) for _ in range(LOGS))
    by = "affine(rows=information)"
    found = [float(over @ weigh(each, by, CLICK_MODEL).weight) for each in drawn]
    assert plan.error == pytest.approx(np.std(found, ddof=1), rel=WITHIN)
    assert np.mean(found) == pytest.approx(over @ true, abs=4 * target / 10)


def test_what_no_swaps_reach_has_no_plan() -> None:
    board = small_board()
    assert design(board, of_difference(board, np.ones(6), 1.0), 0.5) is None
