"""Bands from resampled queries."""

import numpy as np
import pytest

from affinerank.bias.gauge import display_gauge, inference_gauge
from affinerank.bias.replicates import query_weights, replicate_bands
from affinerank.clicks.usermodel import UserModel
from affinerank.errors import ConfigError

USERS = UserModel.from_zeta([0.9, 0.5], [0.5, 0.1])
OTHERS = [
    UserModel.from_zeta([0.9, 0.6], [0.5, 0.2]),
    UserModel.from_zeta([0.9, 0.3], [0.5, 0.1]),
]


def test_a_bootstrap_draws_as_many_queries_as_there_are() -> None:
    clicks = np.ones(50)
    drawn = [
        query_weights(clicks, 50, np.random.default_rng(seed)) for seed in range(200)
    ]
    assert all(weights.sum() == 50 for weights in drawn)
    # A query is left out with probability (1 - 1/50)^50; its s.e. is 0.0048.
    left_out = np.mean(np.stack(drawn) == 0)
    assert abs(left_out - (1 - 1 / 50) ** 50) < 4 * 0.0048
    alone = query_weights(np.ones(1), 1, np.random.default_rng(0))
    assert alone.tolist() == [1.0]


def test_a_bootstrap_draws_queries_that_were_shown_and_some_that_were_clicked() -> None:
    clicks = np.array([np.nan, 0.0, 3.0, 0.0, np.nan])
    for seed in range(50):
        weights = query_weights(clicks, 5, np.random.default_rng(seed))
        assert weights[[0, 4]].tolist() == [0, 0]
        assert weights[2] > 0
        assert weights.sum() == 3


def test_without_replicates_there_are_values_and_no_bands() -> None:
    bands = replicate_bands(USERS, [], display_gauge)
    assert bands.alpha.tolist() == [1.0, 1.0]
    assert not bands.known
    with pytest.raises(ConfigError, match="no band"):
        bands.interval("alpha")


def test_bands_are_the_spread_over_replicates_in_the_gauge() -> None:
    """In units of rank 1, where alpha is 0.4: alpha_2 is 1 and 0.5, beta_2 as below."""
    bands = replicate_bands(USERS, OTHERS, display_gauge)
    np.testing.assert_allclose(bands.alpha, [1.0, 1.0])
    # beta - alpha beta_1 / alpha_1 = 0.1 - 0.4 * 0.5 / 0.4
    np.testing.assert_allclose(bands.beta, [0.0, -0.4])
    np.testing.assert_allclose(
        bands.alpha_error, [0.0, float(np.std([1.0, 0.5], ddof=1))]
    )
    betas = [0.2 - 0.4 * 1.25, 0.1 - 0.2 * 1.25]
    spread = float(np.std(betas, ddof=1))
    np.testing.assert_allclose(bands.beta_error, [0.0, spread], atol=1e-12)


def test_the_gauge_of_a_replicate_does_not_matter() -> None:
    moved = [
        UserModel(alpha=3 * o.alpha, beta=o.beta + 2 * o.alpha, identified="gauge")
        for o in OTHERS
    ]
    seen = [3.0, 1.0]
    a, b = (
        replicate_bands(USERS, others, lambda users: inference_gauge(users, seen))
        for others in (OTHERS, moved)
    )
    np.testing.assert_allclose(a.alpha_error, b.alpha_error)
    np.testing.assert_allclose(a.beta_error, b.beta_error)
