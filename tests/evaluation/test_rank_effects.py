"""Users as clicks show them by rank alone."""

import numpy as np

from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.evaluation.rank_effects import DEPTH, POWER, rank_effects

SHOWN = 10**9  # so many that half a click is nothing


def lists(rates: np.ndarray) -> ClickRows:
    """One query a line, one document a column, shown in that order; clicks expected."""
    n_queries, size = rates.shape
    columns = {
        "query_id": np.repeat(np.arange(n_queries), size),
        "doc_id": np.tile(np.arange(size), n_queries),
        "rank": np.tile(np.arange(1, size + 1), n_queries),
        "impressions": np.full(rates.size, SHOWN),
        "clicks": np.round(SHOWN * rates.ravel()).astype(np.int64),
    }
    return join_counts(ClickCounts.from_columns(**columns))


def test_without_rankings_effects_are_click_rates_by_rank() -> None:
    rates = np.array([[0.6, 0.2, 0.1], [0.2, 0.2, 0.0]])
    click_model = rank_effects(lists(rates), [])
    expected = (np.array([0.4, 0.2, 0.05]) / 0.4) ** POWER
    np.testing.assert_allclose(
        click_model.alpha / click_model.alpha[0], expected, rtol=1e-6
    )
    assert click_model.identified == "relative"
    assert not click_model.beta.any()


def test_what_rankings_explain_is_not_taken_for_position() -> None:
    """Every order of three documents by the ranking, some of them more often.

    The rank shown has the effects 1, 1/2, 1/4; that of the ranking 0.8, 0.4, 0.1.
    The ranking agrees with the logged order mostly, so that click rates by rank would
    fall faster than position bias does.
    """
    shown, ranked = np.array([1.0, 0.5, 0.25]), np.array([0.8, 0.4, 0.1])
    orders = np.array([[1, 2, 3]] * 3 + [[2, 1, 3]] * 2 + [[1, 3, 2], [3, 2, 1]])
    rows = lists(shown * ranked[orders - 1])
    by_rank = (shown * ranked[orders - 1]).mean(axis=0)
    assert by_rank[1] / by_rank[0] < 0.43
    click_model = rank_effects(rows, [-orders.ravel().astype(float)])
    np.testing.assert_allclose(
        click_model.alpha / click_model.alpha[0], shown**POWER, rtol=1e-4
    )


def test_deep_ranks_share_an_effect_and_none_is_zero() -> None:
    rates = np.zeros((2, DEPTH + 3))
    rates[:, 0] = 0.5
    rates[0, DEPTH + 2] = 0.2
    click_model = rank_effects(lists(rates), [])
    deep = (0.2 / 8 / 0.5) ** POWER  # 0.2 over four ranks of two queries
    np.testing.assert_allclose(
        click_model.alpha[DEPTH - 1 :] / click_model.alpha[0], deep
    )
    assert click_model.depth == DEPTH + 3
    assert (click_model.alpha > 0).all()


def test_contexts_add_up() -> None:
    ids = {"query_id": [0, 0, 0], "doc_id": [0, 1, 1], "rank": [1, 2, 2]}
    numbers = {"impressions": [10, 4, 6], "clicks": [4, 1, 1]}
    counts = ClickCounts.from_columns(**ids, context=[0, 0, 1], **numbers)
    by_context = rank_effects(join_counts(counts), [])
    merged = rank_effects(join_counts(counts).merged(), [])
    np.testing.assert_allclose(by_context.alpha, merged.alpha)
