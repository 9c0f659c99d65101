"""Clicks with a value: relevance times value per click, by exact enumeration."""

from itertools import product
from math import comb

import numpy as np
import pytest

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import Values, join_counts
from affinerank.defaults import BASELINE, CORRECTION, EVALUATOR, LABELS
from affinerank.export.judgments import save_judgments
from affinerank.pipeline.steps.weighing import weigh
from affinerank.support.errors import ConfigError, DataError

N, RELEVANCE = 3, 0.4
WORTH = (1.0, 5.0)  # a click is worth one of these, each half of the time
OTHER = (4, 10.0, 28.0)  # clicks on another document: their value, and its squares


def found(
    clicks: int, value: float, squares: float, beta: float
) -> tuple[float, float]:
    """Worth of a document at rank 2, and its variance; in the log's own unit."""
    counts = ClickCounts.from_columns(
        query_id=["q", "q"],
        doc_id=["a", "b"],
        rank=[1, 2],
        impressions=[9, N],
        clicks=[OTHER[0], clicks],
        value=[OTHER[1], value],
        value_squares=[OTHER[2], squares],
        sessions=[9, 9],
    )
    click_model = TrustModel(
        alpha=np.array([0.6, 0.5]), beta=np.array([0.2, beta]), identified="click-rates"
    )
    rows = join_counts(counts)
    assert rows.values is not None
    weights = weigh(rows, CORRECTION, click_model)
    unit = rows.values.unit
    return float(weights.weight[1] * unit), float(weights.variance[1] * unit**2)


def expected(beta: float) -> tuple[float, float, float]:
    """Mean of the worth, its variance, and the mean of the variance that is told."""
    rate, all_ = 0.5 * RELEVANCE + beta, []
    for clicks in range(N + 1):
        chance = comb(N, clicks) * rate**clicks * (1 - rate) ** (N - clicks)
        for worth in product(WORTH, repeat=clicks):
            squares = sum(v * v for v in worth)
            all_.append((chance / 2**clicks, *found(clicks, sum(worth), squares, beta)))
    p, worth, told = np.array(all_).T
    mean = float(p @ worth)
    return mean, float(p @ (worth - mean) ** 2), float(p @ told)


def test_the_worth_is_unbiased_but_for_documents_without_a_click() -> None:
    v = float(np.mean(WORTH))
    mean, _, _ = expected(beta=0.0)
    assert mean == pytest.approx(v * RELEVANCE)  # without trust, exactly
    beta = 0.1
    rate = 0.5 * RELEVANCE + beta
    none, at_none = (1 - rate) ** N, -beta / 0.5
    mean, _, _ = expected(beta)
    others = OTHER[1] / OTHER[0]
    assert mean == pytest.approx(v * RELEVANCE + none * (others - v) * at_none)
    # Subtracting beta alone, as if trust's clicks were worth nothing, is far off.
    assert abs(mean - v * RELEVANCE) < 0.05
    assert (v * rate - beta) / 0.5 - v * RELEVANCE > 0.3


def test_the_variance_that_is_told_is_about_the_variance() -> None:
    _, true, told = expected(beta=0.0)
    assert told == pytest.approx(true, rel=0.35)  # three impressions, exact sums


def test_values_of_documents_are_means_with_their_variance() -> None:
    values = Values.of(
        np.array([2.0, 1, 0]), np.array([6.0, 2, 0]), np.array([20.0, 4, 0])
    )
    np.testing.assert_allclose(values.mean, [3, 2, 8 / 3])
    assert values.unit == pytest.approx(8 / 3)
    # Own variance of clicks worth 2 and 4, halved; pooled for one click; of all.
    np.testing.assert_allclose(values.variance, [1, 2, 8 - (8 / 3) ** 2])
    with pytest.raises(DataError, match="no click has a value"):
        Values.of(*np.zeros((3, 2)))


@pytest.mark.parametrize("estimator", [BASELINE, CORRECTION, EVALUATOR])
@pytest.mark.parametrize("gauge", [(1.0, 0.0), (2.0, 0.3)])
def test_ten_times_the_value_is_ten_times_the_worth_in_every_gauge(
    estimator: str, gauge: tuple[float, float]
) -> None:
    rng, size = np.random.default_rng(0), 30
    clicks = rng.integers(1, 40, size)
    price = np.where(np.arange(size) % 2, 10.0, 1.0)
    columns = {
        "query_id": np.arange(size) // 10,
        "doc_id": np.arange(size),
        "rank": np.arange(size) % 10 + 1,
        "impressions": np.full(size, 50),
        "clicks": clicks,
    }
    counts = ClickCounts.from_columns(
        **columns, value=price * clicks, value_squares=price**2 * clicks
    )
    alpha, beta = np.linspace(0.6, 0.1, 10), np.linspace(0.3, 0.01, 10)
    a, shift = gauge
    click_model = TrustModel(alpha=alpha, beta=beta, identified="click-rates")
    other = TrustModel(
        alpha=a * alpha,
        beta=beta + shift * alpha,
        identified="relative",
        span=(-shift / a, (1 - shift) / a),
    )
    plain = weigh(
        join_counts(ClickCounts.from_columns(**columns)), estimator, click_model
    )
    worth = weigh(join_counts(counts), estimator, other)
    unit = (price @ clicks) / clicks.sum()
    scale = 1.0 if estimator == BASELINE else a
    np.testing.assert_allclose(scale * worth.weight, plain.weight * price / unit)


def test_what_cannot_use_values_says_so() -> None:
    counts = ClickCounts.from_columns(
        query_id=["q"], doc_id=["d"], rank=[1], impressions=[3], clicks=[1],
        value=[2.0], value_squares=[4.0],
    )  # fmt: skip
    with pytest.raises(ConfigError, match="learns labels, which have no value"):
        weigh(join_counts(counts), LABELS, labels=np.ones(1))
    from affinerank.pipeline.debias import debias

    labels = debias(counts, estimator=BASELINE)
    assert labels["value"].to_pylist() == pytest.approx([1 / 3])
    with pytest.raises(DataError, match="judgments grade relevance"):
        save_judgments(labels, "x", to="qrels")
    for value, squares in (([-1.0], [1.0]), ([np.inf], [1.0])):
        with pytest.raises(DataError, match="value must be 0 or more"):
            ClickCounts.from_columns(
                query_id=["q"], doc_id=["d"], rank=[1], impressions=[3], clicks=[1],
                value=value, value_squares=squares,
            )  # fmt: skip
