"""Rank weights against metrics, written-out sums, and what is refused."""

import numpy as np
import pytest

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.errors import ConfigError, DataError
from affinerank.evaluation.rank_weights import (
    RankWeights,
    centred,
    logged_weights,
    never_shown_share,
    parse_rank_weights,
    ranked_weights,
    shown_weights,
)
from affinerank.metrics import Metric

DATA = RankingDataset.from_rows(
    np.zeros((5, 1)), ["q", "q", "q", "r", "r"], doc_ids=["a", "b", "c", "a", "b"]
)


@pytest.mark.parametrize("name", ["DCG", "DCG@2", "P(empty=0)@2"])
def test_rank_weights_give_the_metric_of_labels(name: str) -> None:
    metric = Metric.parse(name)
    scores, labels = np.array([1.0, 3.0, 2.0, 5.0, 4.0]), np.array([1.0, 0, 1, 0, 1])
    weights = ranked_weights(scores, DATA, RankWeights.of_metric(metric))
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
def test_what_clicks_cannot_tell_is_refused_with_the_reason(
    name: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        RankWeights.of_metric(Metric.parse(name))


@pytest.mark.parametrize("text", ["", "a,b", "1,-1", "0,0", "nan", "1,,2"])
def test_bad_rank_weights_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="rank weights"):
        parse_rank_weights(text)


def test_the_logged_ranking_gives_the_mean_over_sessions() -> None:
    """Of query q, a and b changed places in 1 of 4 sessions; c was shown in 3."""
    counts = ClickCounts.from_columns(
        query_id=["q"] * 5,
        doc_id=["a", "a", "b", "b", "c"],
        rank=[1, 2, 1, 2, 3],
        impressions=[3, 1, 1, 3, 3],
        clicks=[0] * 5,
        sessions=[4] * 5,
    )
    joined = join_counts(counts, DATA)
    weights = RankWeights.listed([1.0, 0.5, 0.25])
    sessions = np.array([4.0, 0.0])
    logged = logged_weights(joined, sessions, DATA, weights)
    np.testing.assert_allclose(
        logged, [(3 * 1 + 1 * 0.5) / 4, (1 * 1 + 3 * 0.5) / 4, 3 * 0.25 / 4, 0, 0]
    )
    there = shown_weights([1.0, 2.0, 3.0, 0.0, 0.0], joined, sessions, DATA, weights)
    np.testing.assert_allclose(there, [0.25 * 3 / 4, 0.5, 1.0, 0, 0])
    assert there.sum() == pytest.approx(logged.sum())


def test_ranks_among_the_shown_pass_over_what_nobody_saw() -> None:
    counts = ClickCounts.from_columns(
        query_id=["q", "q"], doc_id=["a", "c"], rank=[1, 2], impressions=[5, 5],
        clicks=[0, 0],
    )  # fmt: skip
    joined = join_counts(counts, DATA)
    weights = RankWeights.listed([1.0, 0.5, 0.25])
    there = shown_weights(
        [1.0, 9.0, 3.0, 0.0, 0.0], joined, np.array([5.0, 0.0]), DATA, weights
    )
    np.testing.assert_allclose(there, [0.5, 0.0, 1.0, 0.0, 0.0])


def test_centred_weights_do_not_feel_a_shift_of_relevance() -> None:
    shown = np.array([True, True, False, True, True])
    weights = centred(np.array([3.0, 1.0, 9.0, 0.5, 0.5]), shown, DATA.query_of_doc)
    np.testing.assert_allclose(weights, [1.0, -1.0, 0.0, 0.0, 0.0])


def test_weight_on_documents_never_shown_is_counted_by_sessions() -> None:
    shown = np.array([True, True, False, True, True])
    share = never_shown_share(
        np.array([1.0, 0.0, 1.0, 1.0, 0.0]),
        shown,
        np.array([0.25, 0.75]),
        DATA.query_of_doc,
    )
    assert share == pytest.approx(0.25 / (0.25 * 2 + 0.75))
    with pytest.raises(DataError, match="no weight to any document"):
        never_shown_share(np.zeros(5), shown, np.ones(2), DATA.query_of_doc)
