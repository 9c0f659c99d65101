"""Metrics against written-out sums, ir_measures, and laws that hold for all of them."""

import time
from itertools import pairwise
from math import log2
from typing import Any

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affinerank.evaluation.metrics import METRICS, Metric
from affinerank.support.arrays import Floats
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.lists import mean_by_rank, ranks_by_score

SCORES = np.array([0.2, 0.9, 0.5, 3.0, 1.0])  # ranks 3 1 2 | 1 2
LABELS = np.array([2.0, 0.0, 1.0, 0.0, 0.0])
OFFSETS = np.array([0, 3, 5])


def dcg(*given: Any, cutoff: int | None = None, **settings: Any) -> Any:
    return Metric("DCG", cutoff, **settings)(*given).values


def ndcg(*given: Any, cutoff: int | None = None, **settings: Any) -> Any:
    return Metric("nDCG", cutoff, **settings)(*given).values


def test_dcg_is_the_written_out_sum() -> None:
    expected = [1 / log2(2 + 1) + 2 / log2(3 + 1), 0.0]
    np.testing.assert_allclose(dcg(SCORES, LABELS, OFFSETS), expected)


def test_dcg_with_exponential_gain_is_the_written_out_sum() -> None:
    expected = [(2**1 - 1) / log2(2 + 1) + (2**2 - 1) / log2(3 + 1), 0.0]
    values = dcg(SCORES, LABELS, OFFSETS, gain="exponential")
    np.testing.assert_allclose(values, expected)


def test_a_cutoff_leaves_out_what_is_deeper() -> None:
    np.testing.assert_allclose(
        dcg(SCORES, LABELS, OFFSETS, cutoff=2), [1 / log2(3), 0.0]
    )


def test_ndcg_divides_by_the_best_order() -> None:
    best = 2 / log2(2) + 1 / log2(3)
    expected = (1 / log2(3) + 2 / log2(4)) / best
    np.testing.assert_allclose(ndcg(SCORES, LABELS, OFFSETS), [expected, np.nan])


@pytest.mark.parametrize(("empty", "value"), [("skip", np.nan), ("0", 0.0), ("1", 1.0)])
@pytest.mark.parametrize("name", ["nDCG", "P", "RR", "ARP"])
def test_a_query_without_relevance_gets_what_was_chosen(
    name: str, empty: str, value: float
) -> None:
    metric = Metric.parse(f"{name}(empty={empty})")
    np.testing.assert_equal(metric(SCORES, LABELS, OFFSETS).values[1], value)


def test_precision_mrr_and_arp_are_the_written_out_values() -> None:
    def values(metric: Metric) -> Floats:
        return metric(SCORES, LABELS, OFFSETS).values

    np.testing.assert_allclose(values(Metric("P", 2, empty="0")), [1 / 2, 0])
    np.testing.assert_allclose(values(Metric("P", 4, empty="0")), [2 / 4, 0])
    np.testing.assert_allclose(values(Metric("P", empty="0")), [2 / 3, 0])
    np.testing.assert_allclose(values(Metric("RR")), [1 / 2, np.nan])
    np.testing.assert_allclose(values(Metric("RR", 1)), [0.0, np.nan])
    expected = (2 * 3 + 1 * 2) / (2 + 1)
    np.testing.assert_allclose(values(Metric("ARP")), [expected, np.nan])


def test_ties_go_to_the_earlier_row() -> None:
    assert ranks_by_score([1.0, 1.0, 2.0, 1.0], [0, 4]).tolist() == [2, 3, 1, 4]
    assert ranks_by_score([-np.inf, -np.inf], [0, 2]).tolist() == [1, 2]


def test_mean_by_rank_counts_only_queries_that_deep() -> None:
    ranks = ranks_by_score(SCORES, OFFSETS)
    np.testing.assert_allclose(
        mean_by_rank(LABELS, ranks, depth=4), [0.0, 0.5, 2.0, np.nan]
    )


@st.composite
def rankings(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    n = sum(sizes)
    labels = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    order = draw(st.permutations(range(n)))
    return (
        np.array(order, dtype=float),
        np.array(labels, dtype=float),
        np.concatenate([[0], np.cumsum(sizes)]),
    )


def _reference(
    measure: str, scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """The same values from ir_measures, 0 for a query without relevance."""
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    rows = list(zip(query, range(len(scores)), scores, labels, strict=True))
    run = [ir_measures.ScoredDoc(str(q), str(d), s) for q, d, s, _ in rows]
    qrels = [ir_measures.Qrel(str(q), str(d), int(y)) for q, d, _, y in rows]
    values = np.zeros(len(offsets) - 1)
    parsed = ir_measures.parse_measure(measure)
    for metric in ir_measures.iter_calc([parsed], qrels, run):
        values[int(metric.query_id)] = metric.value
    return values


@settings(max_examples=60)
@given(
    ranking=rankings(),
    measure=st.sampled_from(
        ["nDCG", "nDCG@1", "nDCG@3", "nDCG@10", "P@1", "P@5", "RR", "RR@2"]
    ),
)
def test_metrics_equal_ir_measures(
    ranking: tuple[np.ndarray, np.ndarray, np.ndarray], measure: str
) -> None:
    metric = Metric.parse(measure)
    ours = Metric(metric.name, metric.cutoff, empty="0")(*ranking).values
    np.testing.assert_allclose(ours, _reference(measure, *ranking), atol=1e-9)


@settings(max_examples=30)
@given(ranking=rankings())
def test_exponential_gain_equals_ir_measures_on_gains(
    ranking: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    scores, labels, offsets = ranking
    ours = ndcg(scores, labels, offsets, cutoff=10, gain="exponential", empty="0")
    theirs = _reference("nDCG@10", scores, 2**labels - 1, offsets)
    np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("name", sorted(METRICS))
@settings(max_examples=20)
@given(ranking=rankings())
def test_a_query_does_not_depend_on_its_neighbours_and_inputs_stay(
    name: str, ranking: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> None:
    scores, labels, offsets = ranking
    copies = [a.copy() for a in ranking]
    whole = Metric(name)(scores, labels, offsets).values
    for q, (a, b) in enumerate(pairwise(offsets)):
        alone = Metric(name)(scores[a:b], labels[a:b], np.array([0, b - a]))
        np.testing.assert_allclose(alone.values, whole[q : q + 1])
    for before, after in zip(copies, ranking, strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_no_queries_give_no_values(name: str) -> None:
    assert Metric(name)([], [], [0]).values.shape == (0,)


@pytest.mark.parametrize("name", sorted(METRICS.keys() - {"eDCG"}))  # it integrates
def test_thirty_thousand_queries_take_less_than_a_second(name: str) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 48, 30_000)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    scores = rng.random(offsets[-1])
    labels = rng.integers(0, 5, offsets[-1])
    started = time.process_time()  # others may use the cores too
    Metric(name)(scores, labels, offsets)
    assert time.process_time() - started < 1.0


def test_the_name_of_a_result_says_what_became_of_empty_queries() -> None:
    values = Metric.parse("nDCG@10")(SCORES, LABELS, OFFSETS)
    assert values.name == (
        "nDCG@10 (linear gain, 1 of 2 queries skipped for want of a relevant document)"
    )
    assert values.n_skipped == 1
    zero = Metric.parse("RR(empty=0)")(SCORES, LABELS, OFFSETS)
    assert zero.name == (
        "RR(empty=0) (queries counted as 0 for want of a relevant document)"
    )


@pytest.mark.parametrize(
    "text", ["nDCG@10", "nDCG(gain=exponential)@5", "ARP", "P(empty=1)@3", "DCG"]
)
def test_a_metric_is_written_as_it_is_read(text: str) -> None:
    assert str(Metric.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NDCG@10", "'NDCG' is not a metric; known are DCG, eDCG, nDCG, P, RR, ARP"),
        ("nDCG@0", "'nDCG@0'"),
        ("nDCG(gain=log)@3", "nDCG(gain=log)@3: gain "),
        ("nDCG(depth=3)", "depth=3"),
        ("P(gain=exponential)@3", "P(gain=exponential)@3: "),
        ("ARP@3", "ARP@3: "),
        ("RR(empty=2)", "RR(empty=2): empty "),
    ],
)
def test_what_is_not_a_metric_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Metric.parse(text)
    assert message in str(caught.value)


def test_settings_that_a_metric_lacks_are_rejected_wherever_they_come_from() -> None:
    with pytest.raises(ConfigError, match="'XCG'"):
        Metric("XCG")
    with pytest.raises(ConfigError, match="cutoff"):
        Metric("nDCG", 0)
    with pytest.raises(ConfigError, match="gain=log"):
        ndcg(SCORES, LABELS, OFFSETS, gain="log")


@pytest.mark.parametrize(
    ("scores", "labels", "offsets", "message"),
    [
        ([1.0], [1.0, 2.0], [0, 2], "one number per document"),
        ([1.0, 2.0], [1.0, 2.0], [0, 1], "end at the number of scores, 2"),
        ([1.0, 2.0], [1.0, 2.0], [0, 2, 2], "every query must have a document"),
        ([1.0, np.nan], [1.0, 2.0], [0, 2], "document 1 has the score NaN"),
        ([1.0, 2.0], [1.0, -2.0], [0, 2], "labels must be numbers that are 0 or more"),
    ],
)
def test_wrong_arrays_are_rejected(
    scores: list[float], labels: list[float], offsets: list[int], message: str
) -> None:
    with pytest.raises(DataError) as caught:
        ndcg(scores, labels, offsets)
    assert message in str(caught.value)
