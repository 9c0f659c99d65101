"""Users recovered from documents at several ranks, without features."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.bias.logs import added, click_rows, shown_at

from affinerank.bias.gauge import click_model_error
from affinerank.bias.method import EstimationSettings
from affinerank.bias.mixture.estimate import Mixture
from affinerank.bias.mixture.interventions import fit_interventions
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats
from affinerank.support.errors import DataError

DrawLog = Callable[..., tuple[ClickRows, Floats]]

PLUS, MINUS = [0.8, 0.6, 0.5, 0.4], [0.4, 0.2, 0.1, 0.06]
TRUTH = TrustModel.from_zeta(PLUS, MINUS)


def fitted(rows: ClickRows, min_clicks: float = 200) -> Mixture:
    settings, rng = EstimationSettings(min_clicks=min_clicks), np.random.default_rng
    return fit_interventions(rows, None, settings, rng(0), most_levels=7)


@pytest.mark.parametrize("seed", range(3))
def test_swapped_documents_give_users_back(draw_log: DrawLog, seed: int) -> None:
    rows, _ = draw_log(
        PLUS, MINUS, queries=150, impressions=20, swapped=True, seed=seed
    )
    found = fitted(rows)
    assert click_model_error(found.click_model, TRUTH, np.ones(4)).error < 0.05
    assert found.about == {"documents_at_several_ranks": 600}


def test_one_impression_at_each_of_two_ranks_says_something(draw_log: DrawLog) -> None:
    """As a share of what a useless estimate misses, 0.5, not much: but something."""
    rows, _ = draw_log(PLUS, MINUS, queries=3000, impressions=2, swapped=True)
    found = fitted(rows)
    assert click_model_error(found.click_model, TRUTH, np.ones(4)).error < 0.15


def test_documents_at_one_rank_are_left_out(draw_log: DrawLog) -> None:
    rows, _ = draw_log(PLUS, MINUS, queries=60, impressions=20, swapped=True)
    n = int(rows.doc.max()) + 1
    # More documents that never moved, with clicks that fit nothing.
    more = np.arange(50)
    still = click_rows(n + more, more, more % 4 + 1, [100] * 50, [99] * 50)
    found = fitted(added(rows, still))
    np.testing.assert_allclose(found.click_model.alpha, fitted(rows).click_model.alpha)
    assert found.about == {"documents_at_several_ranks": n}


def test_the_same_stream_gives_the_same_users(draw_log: DrawLog) -> None:
    rows, _ = draw_log(PLUS, MINUS, swapped=True)
    a, b = fitted(rows), fitted(rows)
    np.testing.assert_array_equal(a.click_model.alpha, b.click_model.alpha)
    np.testing.assert_array_equal(a.click_model.beta, b.click_model.beta)


@pytest.mark.parametrize(
    ("places", "why"),
    [
        (
            ((1, 2), (3, 4)),
            "^60 of 60 documents .* connects ranks 1-2; ranks 3-4; .* by 30 documents",
        ),
        (
            ((1,), (2,)),
            "^0 of 60 documents were shown at several ranks, .* nothing",
        ),
        (((1, 2), (3,)), "^30 of 60 documents .* connects ranks 1-2;"),
    ],
)
def test_ranks_that_nothing_connects_are_named(
    places: tuple[tuple[int, ...], ...], why: str
) -> None:
    with pytest.raises(DataError, match=why):
        fitted(shown_at(*places))


def test_documents_that_moved_in_one_query_only_are_rejected() -> None:
    """They cannot be told apart from what is special about that query."""
    rows = shown_at((1, 2), (1,), (2,))
    query = np.where(np.arange(len(rows)) < 60, 0, rows.query)
    clicks = np.random.default_rng(0).binomial(40, 0.3, len(query))
    with pytest.raises(DataError, match="shown at several ranks are of 1 queries"):
        fitted(click_rows(rows.doc, query, rows.rank, rows.impressions, clicks))


def test_what_no_method_can_use_is_rejected_here_too() -> None:
    rows = shown_at((1, 2))
    with pytest.raises(DataError, match="hold no clicks"):
        fitted(replace(rows, clicks=0 * rows.clicks))
    with pytest.raises(DataError, match="too few to tell ranks apart"):
        fitted(rows, min_clicks=1e6)


def test_a_rank_that_few_moved_documents_reached_is_pooled(draw_log: DrawLog) -> None:
    """All other documents' clicks at that rank say nothing here."""
    rows, _ = draw_log(PLUS, MINUS, queries=150, impressions=20, swapped=True)
    n = int(rows.doc.max()) + 1
    some, many = np.arange(150), np.arange(600)
    few = click_rows(some, rows.query_of_doc[some], [5] * 150, [1] * 150, [0] * 150)
    others = click_rows(n + many, many // 4, [5] * 600, [100] * 600, [5] * 600)
    found = fitted(added(added(rows, few), others))
    assert found.pools.ranks.names == ("1", "2", "3", "4-5")
    assert found.click_model.alpha[4] == found.click_model.alpha[3]
