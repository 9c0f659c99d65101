"""Chances of levels of relevance, given clicks: by hand, and by simulation."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators import Evidence, mixture_based

from .conftest import CLICK_MODEL, Log, logs

TWO = TrustModel.from_zeta([0.9, 0.5], [0.4, 0.1])
LEVELS = (0.0, 0.3, 1.0)


def with_levels(click_model: TrustModel, levels: tuple[float, ...]) -> TrustModel:
    return replace(click_model, provenance={"levels": list(levels)})


def rows_of(
    doc: list[int], rank: list[int], n: list[int], c: list[int], n_docs: int
) -> ClickRows:
    """Documents of one query, and one of a query that was never issued."""
    return ClickRows(
        doc=np.array(doc),
        rank=np.array(rank),
        context=np.zeros(len(doc), dtype=np.int64),
        impressions=np.array(n, dtype=np.float64),
        clicks=np.array(c, dtype=np.float64),
        query_of_doc=np.array([0] * n_docs + [1]),
        sessions=np.array([10.0, 0.0]),
    )


@pytest.mark.parametrize("levels", [None, LEVELS])
def test_the_posterior_of_one_document_is_that_by_hand(
    levels: tuple[float, ...] | None,
) -> None:
    rows = rows_of([0, 0], [1, 2], [5, 3], [4, 1], 2)
    click_model = TWO if levels is None else with_levels(TWO, levels)
    g = np.array(levels or (0.0, 1.0))
    p_1, p_2 = 0.5 * g + 0.4, 0.4 * g + 0.1
    likelihood = p_1**4 * (1 - p_1) * p_2 * (1 - p_2) ** 2
    share = np.full(len(g), 1 / len(g))
    for _ in range(mixture_based.ROUNDS):  # one document, and one spread evenly
        chance = share * likelihood / (share @ likelihood)
        share = (chance + 1 / len(g)) / 2
    chance = share * likelihood / (share @ likelihood)
    mean, prior = chance @ g, share @ g
    variance, before = chance @ (g - mean) ** 2, share @ (g - prior) ** 2
    found = mixture_based.weigh(Evidence(rows, click_model))
    np.testing.assert_allclose(found.weight, [mean, prior, 0.0], atol=1e-12)
    np.testing.assert_allclose(found.variance, [variance, before, 0.0], atol=1e-12)
    assert found.own_click_share is not None
    expected = [max(1 - variance / before, 0), 0, 0]
    np.testing.assert_allclose(found.own_click_share, expected, atol=1e-12)
    assert found.known.tolist() == [True, True, False]
    assert found.slope is None


def test_shares_of_levels_are_found_for_each_rank() -> None:
    """Means over documents are those of relevance, at two ranks and for the unshown."""
    rng = np.random.default_rng(0)
    size, shown, share = 3000, 20, np.array([0.7, 0.2])
    rank = np.repeat([1, 2], size)
    relevance = rng.random(2 * size) < share[rank - 1]
    clicks = rng.binomial(shown, TWO.click_probability(rank, relevance))
    doc = np.arange(2 * size)
    rows = rows_of(
        doc.tolist(),
        rank.tolist(),
        [shown] * 2 * size,
        clicks.tolist(),
        2 * size + 1,
    )
    found = mixture_based.weigh(Evidence(rows, TWO))
    for k in (1, 2):
        true = relevance[rank == k]
        weight = found.weight[: 2 * size][rank == k]
        # Given the clicks, relevance varies around the weight as it says; that it
        # drew shares from the same clicks adds less than as much again.
        error = np.sqrt(found.variance[: 2 * size][rank == k].sum()) / size
        assert weight.mean() == pytest.approx(true.mean(), abs=4 * 2 * error)
    assert found.weight[2 * size] == pytest.approx(
        found.weight[size:-2].mean(), rel=2e-3
    )
    # Given the weight, relevance has that mean: calibrated.
    unsure = np.abs(found.weight[: 2 * size] - 0.5) < 0.3
    error = np.sqrt(found.variance[: 2 * size][unsure].sum()) / unsure.sum()
    away = relevance[unsure].mean() - found.weight[: 2 * size][unsure].mean()
    assert abs(away) < 4 * error


def test_ranks_are_pooled_until_there_are_enough_documents() -> None:
    size = {1: 120, 2: 60, 3: 30, 4: 30, 5: 70, 6: 40, 7: 10}
    rank = [k for k, n in size.items() for _ in range(n)]
    doc = list(range(len(rank)))
    rows = rows_of(doc, rank, [1] * len(rank), [0] * len(rank), len(rank) + 1)
    pool = mixture_based.rank_pools(rows)
    # 120; 60 + 30 + 30; 70 + 40, and 10 left over; the unshown with the deepest.
    by_rank = {1: 0, 2: 1, 3: 1, 4: 1, 5: 2, 6: 2, 7: 2}
    assert pool.tolist() == [by_rank[k] for k in rank] + [2, 2]


def test_many_clicks_leave_no_doubt_and_still_an_error() -> None:
    rows = rows_of([0, 1], [1, 1], [10**6] * 2, [900_000, 400_000], 2)
    found = mixture_based.weigh(Evidence(rows, TWO))
    np.testing.assert_allclose(found.weight[:2], [1, 0], atol=1e-9)
    assert np.all(found.variance[:2] > 0)


@given(log=logs(), a=st.floats(0.2, 5), t=st.floats(-2, 2))
def test_weights_move_with_the_gauge(log: Log, a: float, t: float) -> None:
    moved = TrustModel(
        alpha=a * CLICK_MODEL.alpha,
        beta=CLICK_MODEL.beta + t * CLICK_MODEL.alpha,
        identified="relative",
        span=((0 - t) / a, (1 - t) / a),
    )
    for levels in ((0.0, 1.0), LEVELS):
        plain, shifted = (
            mixture_based.weigh(Evidence(log.rows, with_levels(click_model, levels)))
            for click_model in (CLICK_MODEL, moved)
        )
        np.testing.assert_allclose(
            shifted.weight, (plain.weight - t) / a, rtol=1e-6, atol=1e-9
        )
