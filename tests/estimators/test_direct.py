"""What rankers of other queries predict, taken at its word."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators import Evidence, Fold, direct
from affinerank.estimators.estimator import CLICKS
from affinerank.estimators.prior import RHO_GUESS
from affinerank.support.errors import ConfigError

CLICK_MODEL = TrustModel.from_zeta([0.9, 0.5], [0.4, 0.1])
SCORES = (np.array([0.0, 1.0, 0.2, 0.2]), np.array([0.2, 0.2, -1.0, 2.0]))


def rows_of(impressions: float = 1.0, clicks: float = 1.0) -> ClickRows:
    """Two queries of two documents, one shown; a third query was never issued."""
    return ClickRows(
        doc=np.array([0, 2]),
        rank=np.array([1, 2]),
        context=np.zeros(2, dtype=np.int64),
        impressions=np.full(2, impressions),
        clicks=np.full(2, clicks),
        query_of_doc=np.array([0, 0, 1, 1, 2]),
        sessions=np.array([impressions, impressions, 0.0]),
    )


def folds() -> list[Fold]:
    """The first query is predicted by one ranker, the others by another."""
    first = np.array([True, False, False])
    scores = [np.append(some, 0.0) for some in SCORES]
    return [
        Fold(~first, first, {CLICKS: scores[0]}),
        Fold(first, ~first, {CLICKS: scores[1]}),
    ]


def test_weights_are_the_scores_of_each_querys_own_fold_as_chances() -> None:
    found = direct.weigh(Evidence(rows_of(), CLICK_MODEL, folds=folds()))
    mean = expit([0.0, 1.0, -1.0, 2.0])
    np.testing.assert_allclose(found.weight, [*mean, 0.0])
    assert found.known.tolist() == [True] * 4 + [False]
    # One impression does not tell how far relevance varies.
    np.testing.assert_allclose(found.variance[:4], RHO_GUESS * mean * (1 - mean))
    assert found.slope is None
    assert found.own_click_share is not None
    assert not found.own_click_share.any()


def test_own_clicks_change_nothing() -> None:
    rows, click_model = rows_of(50, 20), CLICK_MODEL
    plain = direct.weigh(Evidence(rows, click_model, folds=folds()))
    more = replace(rows, clicks=np.array([35.0, 20.0]))
    changed = direct.weigh(Evidence(more, click_model, folds=folds()))
    np.testing.assert_array_equal(changed.weight, plain.weight)
    np.testing.assert_array_equal(changed.variance[:2], plain.variance[:2])
    assert changed.variance[2] != plain.variance[2]


def test_the_variance_is_that_of_relevance_around_the_prediction() -> None:
    """Relevance .5 +- .15 of 4,000 documents, 30 impressions each."""
    rng = np.random.default_rng(0)
    size, shown = 4000, 30
    relevance = 0.5 + 0.15 * rng.choice([-1, 1], size)
    rank = rng.integers(1, 3, size)
    doc = np.arange(size)
    clicks = rng.binomial(shown, CLICK_MODEL.click_probability(rank, relevance))
    rows = ClickRows(
        doc=doc,
        rank=rank,
        context=np.zeros(size, dtype=np.int64),
        impressions=np.full(size, float(shown)),
        clicks=clicks.astype(np.float64),
        query_of_doc=doc % 2,
        sessions=np.full(2, float(shown)),
    )
    odd = np.array([False, True])
    score = {CLICKS: np.zeros(size)}
    halves = [Fold(odd, ~odd, score), Fold(~odd, odd, score)]
    found = direct.weigh(Evidence(rows, CLICK_MODEL, folds=halves))
    # E z^2 = n p (1 - p) + n (n - 1) alpha^2 u for z = c - n p, with the deviation
    # sqrt(2) E z^2; taken at rank 2, where it is more. 2,000 documents weigh.
    chance, unit = shown * 0.3 * 0.7, shown * (shown - 1) * 0.4**2
    error = np.sqrt(2) * (chance / unit + 0.15**2) / np.sqrt(2000)
    assert found.variance[0] == pytest.approx(0.15**2, abs=4 * error)


def test_weights_move_with_the_gauge() -> None:
    a, t = 2.5, 0.3
    moved = TrustModel(
        alpha=a * CLICK_MODEL.alpha,
        beta=CLICK_MODEL.beta + t * CLICK_MODEL.alpha,
        identified="relative",
        span=((0 - t) / a, (1 - t) / a),
    )
    rows = rows_of(20, 12)
    plain = direct.weigh(Evidence(rows, CLICK_MODEL, folds=folds()))
    shifted = direct.weigh(Evidence(rows, moved, folds=folds()))
    np.testing.assert_allclose(shifted.weight[:4], (plain.weight[:4] - t) / a)
    np.testing.assert_allclose(shifted.variance, plain.variance / a**2)


def test_it_asks_for_users_and_for_features() -> None:
    assert direct.ROW.learns(direct.ROW.options()) == (CLICKS,)
    with pytest.raises(ConfigError, match="click model"):
        direct.weigh(Evidence(rows_of()))
    with pytest.raises(ConfigError, match="direct needs features: give --data"):
        direct.weigh(Evidence(rows_of(), CLICK_MODEL))
