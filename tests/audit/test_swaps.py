"""Documents that change rank: what they show, and how many swaps are enough."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from affinerank.arrays import Floats, Ints
from affinerank.bias import METHODS, EstimationSettings
from affinerank.bias.gauge import display_gauge
from affinerank.bias.pooling import RankPools
from affinerank.bias.swaps import (
    Spread,
    plan_swaps,
    rank_effect,
    spread_of,
    swaps_needed,
)
from affinerank.clicks.rows import ClickRows
from affinerank.progress import quiet

TARGET = 0.1


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


def test_the_spread_of_documents_is_the_written_out_sum() -> None:
    found = spread_of(np.array([2.0, 4.0, 1.0]), np.array([2.0, 1.0, 1.0]))
    assert found is not None
    rate = (2 + 1) / (2 + 4)  # the document shown once says nothing
    square = (2 * (2 * 1 / (2 * 1)) + 4 * (1 * 0 / (4 * 3))) / 6
    variance = square - rate**2
    noise = rate * (1 - rate) - variance
    known = variance / (variance + noise / np.array([2, 4]))
    assert found.documents == 2
    assert found.rate == pytest.approx(rate)
    assert found.variance == pytest.approx(variance)
    assert found.reliability == pytest.approx((2 * known[0] + 4 * known[1]) / 6)
    assert found.effective == pytest.approx(6**2 / (2**2 + 4**2))
    assert spread_of(np.array([1.0, 5.0]), np.array([1.0, 1.0])) is None


def test_swaps_needed_are_the_written_out_formula() -> None:
    spread = Spread(300, 0.4, 0.05, 0.01, 0.8, 250.0)
    found = swaps_needed(spread, 0.2, TARGET)
    assert found is not None
    noise = 0.4 * 0.6  # the larger of .4 * .6 and .2 * .8
    gap = (1 - 0.8) / (0.8 * 250)
    sessions = np.ceil(noise / (0.8 * 0.05 * (TARGET**2 - gap)))
    beta = noise / sessions + 0.2 * 0.05 / 250 + 0.4**2 * TARGET**2
    assert found == pytest.approx((sessions, np.sqrt(beta)))
    assert swaps_needed(replace(spread, rate=0.7), 0.2, TARGET) == pytest.approx(
        (np.ceil(0.25 / (0.04 * (TARGET**2 - gap))), found[1]), rel=0.9
    )
    few = replace(spread, effective=20.0)  # .25 / 20 is more than .1 squared
    assert swaps_needed(few, 0.2, TARGET) is None


def two_ranks(
    rng: np.random.Generator, sessions: int | None
) -> tuple[ClickRows, dict[str, Floats], int]:
    """Two documents a query, relevance of any size; swapped as planned."""
    alpha, beta = np.array([0.5, 0.4]), np.array([0.2, 0.1])
    n = rng.poisson(60, 400) + 1
    gamma = np.stack([rng.beta(1.0, 1.5, 400), rng.beta(1.0, 3.0, 400)])
    stayed = rng.binomial(n, alpha[:, None] * gamma + beta[:, None])
    doc = np.arange(400)
    rows = rows_of(
        np.concatenate([doc, doc + 400]),
        np.concatenate([doc, doc]),
        np.repeat([1, 2], 400),
        np.concatenate([n, n]).astype(float),
        np.concatenate(stayed).astype(float),
    )
    if sessions is None:
        pools = RankPools(np.array([0, 1]), np.full(2, float(n.sum())))
        [plan] = plan_swaps(rows, pools, TARGET)
        assert plan.sessions is not None
        sessions = plan.sessions
    swapped = rng.multinomial(sessions, n / n.sum())
    down = rng.binomial(swapped, alpha[1] * gamma[0] + beta[1])
    up = rng.binomial(swapped, alpha[0] * gamma[1] + beta[0])
    moved = rows_of(
        np.concatenate([rows.doc, rows.doc]),
        np.concatenate([rows.query, rows.query]),
        np.concatenate([rows.rank, np.repeat([2, 1], 400)]),
        np.concatenate([rows.impressions, swapped, swapped]),
        np.concatenate([rows.clicks, down, up]),
    )
    regression = {
        "n": n.astype(float),
        "clicks": stayed[0].astype(float),
        "swapped": swapped.astype(float),
        "down": down.astype(float),
    }
    return moved, regression, sessions


def regressed(n: Floats, clicks: Floats, swapped: Floats, down: Floats) -> Floats:
    """Slope and intercept by regression on the rate at the upper rank, shrunken."""
    spread = spread_of(n, clicks)
    assert spread is not None
    noise = (spread.rate * (1 - spread.rate) - spread.variance) / n
    known = spread.variance / (spread.variance + noise)
    x = spread.rate + known * (clicks / n - spread.rate)
    mean = swapped @ x / swapped.sum()
    slope = (x - mean) @ down / ((x - mean) ** 2 @ swapped)
    return np.array([slope, down.sum() / swapped.sum() - slope * mean])


def test_planned_swaps_give_the_standard_error_they_are_planned_for() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        _, drawn, _ = two_ranks(rng, None)
        found.append(regressed(**drawn))
    slope, intercept = np.array(found).T
    # A deviation from 200 draws is known to 5 %; R is the larger of two, by up to a
    # third here, so that the error may come out smaller.
    assert 0.75 * TARGET < slope.std() < 1.1 * TARGET
    off = 3 * slope.std() / np.sqrt(200)
    assert slope.mean() == pytest.approx(0.4 / 0.5, abs=off + 0.02)
    rows, drawn, _ = two_ranks(rng, None)
    spread = spread_of(drawn["n"], drawn["clicks"])
    assert spread is not None
    lower = float(
        rows.clicks[rows.rank == 2].sum() / rows.impressions[rows.rank == 2].sum()
    )
    needed = swaps_needed(spread, lower, TARGET)
    assert needed is not None
    assert 0.7 * needed[1] < intercept.std() < 1.15 * needed[1]


def test_planned_swaps_are_enough_for_the_estimate_itself() -> None:
    rng = np.random.default_rng(1)
    found = []
    for seed in range(16):
        rows, _, _ = two_ranks(rng, None)
        settings = EstimationSettings(seed=seed)
        fit = METHODS["interventions"].fit
        users = display_gauge(fit(rows, None, settings, quiet).users)
        found.append(users.alpha[1])
    off = np.array(found) - 0.4 / 0.5
    assert np.sqrt(np.mean(off**2)) < TARGET
    # It also uses the lower document, and levels: which vary less, and lean a little
    # where relevance is of any size, as here.
    assert np.std(found, ddof=1) < TARGET / 2


def test_a_pair_of_ranks_that_swaps_cannot_help_says_why() -> None:
    n = 40
    rows = rows_of(
        np.arange(2 * n),
        np.tile(np.arange(n), 2),
        np.repeat([1, 2], n),
        np.full(2 * n, 10.0),
        np.full(2 * n, 3.0),
    )
    pools = RankPools(np.array([0, 1]), np.full(2, 400.0))
    [alike] = plan_swaps(rows, pools)
    assert alike.sessions is None
    assert alike.why_not is not None
    assert "do not differ clearly" in alike.why_not
    once = replace(rows, impressions=np.ones(2 * n), clicks=np.zeros(2 * n))
    [unknown] = plan_swaps(once, pools)
    assert unknown.why_not == (
        "0 documents were shown twice or more there, and 30 are needed"
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
