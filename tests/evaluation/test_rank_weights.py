"""Rank weights against metrics, written-out sums, and what is rejected."""

import numpy as np
import pytest

from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.evaluation.metrics import Metric
from affinerank.evaluation.rank_weights import (
    RankWeights,
    centred,
    logged_weights,
    over_logged,
    parse_rank_weights,
    ranked_weights,
    shown_weights,
)
from affinerank.support.errors import ConfigError

DATA = RankingDataset.from_rows(
    np.zeros((5, 1)), ["q", "q", "q", "r", "r"], doc_ids=["a", "b", "c", "a", "b"]
)


def shown(doc: list[str], rank: list[int], impressions: list[int]) -> ClickRows:
    """Query q without a click; query r was not issued."""
    counts = ClickCounts.from_columns(
        query_id=["q"] * len(doc),
        doc_id=doc,
        rank=rank,
        impressions=impressions,
        clicks=[0] * len(doc),
    )
    return join_counts(counts, DATA)


@pytest.mark.parametrize("name", ["DCG", "DCG@2", "P(empty=0)@2"])
def test_rank_weights_give_the_metric_of_labels(name: str) -> None:
    metric = Metric.parse(name)
    scores, labels = np.array([1.0, 3.0, 2.0, 5.0, 4.0]), np.array([1.0, 0, 1, 0, 1])
    rows = shown(["a"], [1], [1])
    weights = ranked_weights(scores, rows, RankWeights.of_metric(metric))
    by_query = np.bincount(DATA.query_of_doc, labels * weights)
    np.testing.assert_allclose(
        by_query, metric(scores, labels, DATA.offsets).values, rtol=1e-12
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nDCG@10", "ideal ranking"),
        ("RR", "first relevant"),
        ("ARP", "relevance of all"),
        ("DCG(gain=exponential)@5", "the gain is linear"),
        ("P", "same for every ranking"),
    ],
)
def test_what_clicks_do_not_identify_is_rejected_with_the_reason(
    name: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        RankWeights.of_metric(Metric.parse(name))


@pytest.mark.parametrize("text", ["", "a,b", "1,-1", "0,0", "nan", "1,,2"])
def test_bad_rank_weights_are_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="rank weights"):
        parse_rank_weights(text)


def test_the_logged_ranking_gives_the_mean_over_sessions() -> None:
    """Of query q, a and b changed places in 1 of 4 sessions; c was shown in 3."""
    rows = shown(["a", "a", "b", "b", "c"], [1, 2, 1, 2, 3], [3, 1, 1, 3, 3])
    weights = RankWeights.listed([1.0, 0.5, 0.25])
    logged = logged_weights(rows, weights)
    np.testing.assert_allclose(
        logged, [(3 * 1 + 1 * 0.5) / 4, (1 * 1 + 3 * 0.5) / 4, 3 * 0.25 / 4, 0, 0]
    )
    scores = [1.0, 2.0, 3.0, 0.0, 0.0]
    there = shown_weights(scores, rows, weights)
    np.testing.assert_allclose(there, [0.25 * 3 / 4, 0.5, 1.0, 0, 0])
    assert there.sum() == pytest.approx(logged.sum())
    np.testing.assert_allclose(over_logged(scores, rows, weights), there - logged)


def test_ranks_among_the_shown_pass_over_what_nobody_saw() -> None:
    rows = shown(["a", "c"], [1, 2], [5, 5])
    there = shown_weights(
        [1.0, 9.0, 3.0, 0.0, 0.0], rows, RankWeights.listed([1.0, 0.5, 0.25])
    )
    np.testing.assert_allclose(there, [0.5, 0.0, 1.0, 0.0, 0.0])


def test_centred_weights_do_not_feel_a_shift_of_relevance() -> None:
    known = np.array([True, True, False, True, True])
    weights = centred(np.array([3.0, 1.0, 9.0, 0.5, 0.5]), known, DATA.query_of_doc)
    np.testing.assert_allclose(weights, [1.0, -1.0, 0.0, 0.0, 0.0])
