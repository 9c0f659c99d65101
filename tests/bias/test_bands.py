"""Bands, and those of replicates."""

import numpy as np
import pytest

from affinerank.bias.bands import Bands, replicate_bands
from affinerank.bias.gauge import display_gauge, inference_gauge
from affinerank.clicks.models.trust import TrustModel
from affinerank.support.errors import ConfigError

CLICK_MODEL = TrustModel.from_zeta([0.9, 0.5], [0.5, 0.1])
OTHERS = [
    TrustModel.from_zeta([0.9, 0.6], [0.5, 0.2]),
    TrustModel.from_zeta([0.9, 0.3], [0.5, 0.1]),
]


def test_an_interval_is_the_written_out_one() -> None:
    bands = Bands(*(np.array([v]) for v in (1.0, 0.5, 0.1, 0.2)))
    low, high = bands.interval("alpha")
    np.testing.assert_allclose([low[0], high[0]], [1 - 0.196, 1 + 0.196], atol=1e-4)
    low, high = bands.interval("beta", 0.5)
    np.testing.assert_allclose([low[0], high[0]], [0.5 - 0.1349, 0.5 + 0.1349], 1e-3)


def test_without_replicates_there_are_values_and_no_bands() -> None:
    bands = replicate_bands(CLICK_MODEL, [], display_gauge)
    assert bands.alpha.tolist() == [1.0, 1.0]
    assert not bands.known
    with pytest.raises(ConfigError, match="no band"):
        bands.interval("alpha")


def test_bands_are_the_spread_over_replicates_in_the_gauge() -> None:
    """In units of rank 1, where alpha is 0.4: alpha_2 is 1 and 0.5, beta_2 as below."""
    bands = replicate_bands(CLICK_MODEL, OTHERS, display_gauge)
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
        TrustModel(alpha=3 * o.alpha, beta=o.beta + 2 * o.alpha, identified="relative")
        for o in OTHERS
    ]
    seen = [3.0, 1.0]
    a, b = (
        replicate_bands(
            CLICK_MODEL, others, lambda click_model: inference_gauge(click_model, seen)
        )
        for others in (OTHERS, moved)
    )
    np.testing.assert_allclose(a.alpha_error, b.alpha_error)
    np.testing.assert_allclose(a.beta_error, b.beta_error)
