"""What the model takes for granted: each test against arithmetic."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks.assumptions import rankers
from scipy import stats

from affinerank.audit.assumption_tests import (
    clicked_lists,
    clicks_only,
    dependent_clicks,
    moved_relevance,
    rank_status,
    unidentified_ranks,
)
from affinerank.bias.bands import Bands
from affinerank.bias.method import Estimate
from affinerank.bias.pooling import RankPools
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.traffic import Traffic
from affinerank.counts.rows import ClickRows
from affinerank.data.sources import load
from affinerank.pipeline.simulate import prepare_simulation


def click_rows(
    *rows: tuple[int, int, int, int, int], sessions: float, **more: Any
) -> ClickRows:
    """Rows of document, rank, context, impressions and clicks, of one query."""
    doc, rank, context, shown, clicks = np.array(rows).T
    return ClickRows(
        doc=doc,
        rank=rank,
        context=context,
        impressions=shown.astype(float),
        clicks=clicks.astype(float),
        query_of_doc=np.zeros(doc.max() + 1, dtype=np.int64),
        sessions=np.array([sessions]),
        **{"has_context": True, **more},
    )


def estimate_of(error: list[float], weak: tuple[str, ...] = ()) -> Estimate:
    """An estimate with alpha 1 at every rank, and these standard errors."""
    n = len(error)
    click_model = TrustModel.position_bias(np.ones(n))
    bands = Bands(np.ones(n), np.zeros(n), np.array(error), np.zeros(n))
    pools = RankPools(np.arange(n), np.ones(n))
    return Estimate(click_model, pools, np.ones(n), bands, bands, weak_ranks=weak)


def test_a_log_of_clicks_only_is_found() -> None:
    rows = click_rows((0, 1, 0, 5, 5), (1, 3, 0, 7, 7), sessions=12)
    found = clicks_only(rows)
    assert (found.verdict, found.number) == ("found", 1.0)
    assert found.advice
    other = clicks_only(replace(rows, clicks=rows.clicks - 1))
    assert (other.verdict, other.number) == ("not found", 10 / 12)
    assert not other.advice


def test_lists_kept_for_their_click_are_found() -> None:
    # 100 lists of two: 60 have their first click at rank 1, 40 at rank 2.
    all_clicked = [(0, 1, 0, 100, 60), (1, 2, 0, 40, 40), (1, 2, 1, 60, 10)]
    found = clicked_lists(click_rows(*all_clicked, sessions=100))
    assert (found.verdict, found.number) == ("found", 0)
    expected = 100 * 0.4 * 0.5  # clicks of 60 and 50 lists
    assert f"some {expected:.0f};" in found.says
    assert found.p == pytest.approx(np.exp(-expected))
    # One list more, without a click.
    other = [(0, 1, 0, 101, 60), (1, 2, 0, 41, 40), (1, 2, 1, 60, 10)]
    found = clicked_lists(click_rows(*other, sessions=101))
    assert (found.verdict, found.number) == ("not found", 1)
    # Few lists may all be clicked by chance.
    found = clicked_lists(click_rows((0, 1, 0, 4, 3), (1, 2, 0, 1, 1), sessions=4))
    assert found.verdict == "unknown"


def test_without_context_more_lists_than_clicks_tell_of_lists_without_a_click() -> None:
    many = click_rows((0, 1, 0, 100, 30), (1, 2, 0, 100, 5), sessions=100)
    found = clicked_lists(replace(many, has_context=False))
    assert (found.verdict, found.number) == ("not found", 65)
    assert "at least" in found.says
    few = click_rows((0, 1, 0, 100, 70), (1, 2, 0, 100, 50), sessions=100)
    found = clicked_lists(replace(few, has_context=False))
    assert (found.verdict, found.number) == ("unknown", None)
    assert "--context last-click" in found.advice


def test_dependent_clicks_say_how_much_and_what_to_do() -> None:
    rows = click_rows(
        *[(0, 1, 0, 400, 200), (1, 2, 0, 200, 100), (1, 2, 1, 200, 50)], sessions=400
    )
    found = dependent_clicks(rows)
    assert (found.verdict, found.number) == ("found", 0.5)
    score, variance = 50 - 75, stats.hypergeom(400, 150, 200).var()
    assert found.p == pytest.approx(stats.chi2.sf(score**2 / variance, 1))
    assert "0.50 times as often as after none" in found.says
    assert "estimated by rank and last click" in found.advice
    alike = dependent_clicks(replace(rows, clicks=np.array([200.0, 75.0, 75.0])))
    assert (alike.verdict, alike.number) == ("not found", 1.0)
    assert not alike.advice
    blind = dependent_clicks(replace(rows, has_context=False))
    assert (blind.verdict, blind.number) == ("unknown", None)
    assert "--context last-click" in blind.advice


def test_a_document_clicked_more_where_it_is_placed_higher_has_changed() -> None:
    # Ranker 0 shows it mostly at rank 3, ranker 1 mostly at rank 1; both at rank 2.
    rows = click_rows(
        *[(0, 2, 0, 100, 20), (0, 3, 0, 300, 30)],
        *[(0, 2, 0, 100, 60), (0, 1, 0, 300, 250)],
        sessions=800,
    )
    ranker = np.array([0, 0, 1, 1])
    found = moved_relevance(rows, ranker)
    assert found.verdict == "found"
    assert found.number == pytest.approx(3)
    z = (60 - 40) / stats.hypergeom(200, 80, 100).std()
    assert found.p == pytest.approx(2 * stats.norm.sf(z))
    same = moved_relevance(replace(rows, clicks=np.array([40.0, 30, 40, 250])), ranker)
    assert (same.verdict, same.number) == ("not found", 1.0)
    # No rank in common.
    apart = moved_relevance(rows.select(rows.rank != 2), ranker[rows.rank != 2])
    assert (apart.verdict, apart.number) == ("unknown", None)
    assert moved_relevance(rows, None).verdict == "unknown"
    assert moved_relevance(rows, 0 * ranker).verdict == "unknown"


def test_rankers_are_told_from_changes() -> None:
    world = prepare_simulation(load("yahoo-like:300").train, traffic=Traffic(top_k=10))
    same = [rankers(world, seed, changed=False).verdict for seed in range(20)]
    assert same.count("found") <= 4  # binomial, 20 at 5 %: more have P = .003
    changed = [rankers(world, seed, changed=True).verdict for seed in range(10)]
    assert changed.count("found") >= 7  # 94 % each: fewer have P = .0002


def test_a_rank_is_identified_if_half_or_twice_its_alpha_would_be_noticed() -> None:
    # log 2 / s.e.: 6.9, 2.1, 1.4; limits 1.96 for one rank, 2.39 for three.
    estimate = estimate_of([0.1, 0.33, 0.5])
    assert stats.norm.isf(0.025) < np.log(2) / 0.33 < stats.norm.isf(0.025 / 3)
    assert rank_status(estimate) == ["yes", "partly", "no"]
    found = unidentified_ranks(estimate)
    assert (found.verdict, found.number) == ("found", 1)
    assert "at 3" in found.says
    # A rank that leans on others is known in part, unless its band says less.
    leaning = estimate_of([0.1, 0.1], weak=("2",))
    assert rank_status(leaning) == ["yes", "partly"]
    assert unidentified_ranks(leaning).verdict == "not found"
    assert "at 2 leans on the other ranks" in unidentified_ranks(leaning).says
    assert rank_status(estimate_of([0.1, 0.6], weak=("2",))) == ["yes", "no"]
    assert unidentified_ranks(estimate_of([0.1, 0.1])).verdict == "not found"


def test_without_bands_it_is_unknown_what_is_identified() -> None:
    blind = estimate_of([np.nan, np.nan])
    assert rank_status(blind) is None
    assert unidentified_ranks(blind).verdict == "unknown"
    assert unidentified_ranks(None).verdict == "unknown"
