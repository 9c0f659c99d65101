"""Laws that hold for every row of ``METHODS``."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from affinerank.bias import METHODS, EstimationSettings, Method
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.sources import DataSource
from affinerank.defaults import EM, METHOD, METHOD_FROM_SWAPS
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.click_model import filled_features
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.support.progress import no_progress
from affinerank.support.seeds import stage_rng

# A network of one epoch has learnt nothing, and the EM says so.
pytestmark = pytest.mark.filterwarnings(
    "ignore:regression EM stopped", "ignore:zeta. fell to zeta-"
)

TINY = NetworkSettings(
    hidden=(4,), dropout=(0.0,), epochs=1, batch_queries=32, device="cpu"
)
SETTINGS = EstimationSettings(network=TINY, replicates=0, method=METHOD)
ROWS = pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))


@pytest.fixture(scope="module")
def log() -> tuple[ClickRows, np.ndarray]:
    """Five ranks, documents that move."""
    data = DataSource.parse("yahoo-like:60").read("train")
    simulation = prepare_simulation(
        data, traffic=Traffic(top_k=5, policies=("swap(share=0.6)",))
    )
    counts = simulate_counts(simulation, 20_000, rng=np.random.default_rng(0))
    return join_counts(counts, data), filled_features(data)


@ROWS
def test_a_fit_has_users_down_to_the_deepest_rank(
    method: Method, log: tuple[ClickRows, np.ndarray]
) -> None:
    rows, features = log
    found = method.fit(rows, features, SETTINGS, no_progress)
    assert found.click_model.depth == len(found.pools.of_rank) == 5
    assert np.all(found.click_model.alpha > 0)
    assert found.clicks.shape == found.display.alpha.shape == (found.pools.n_pools,)
    assert (found.ranker is not None) is method.ranks_too
    if not method.needs_features:
        assert method.fit(rows, None, SETTINGS, no_progress).click_model.depth == 5
    again = method.fit(rows, features, SETTINGS, no_progress)
    np.testing.assert_array_equal(again.click_model.alpha, found.click_model.alpha)


@ROWS
def test_refits_are_fits_without_the_rest(
    method: Method, log: tuple[ClickRows, np.ndarray]
) -> None:
    rows, features = log
    if method.refit is None:
        assert method.ranks_too
        return
    rng = stage_rng("estimation", SETTINGS.seed)
    first = method.refit(rows, features, SETTINGS, rng)
    whole = method.fit(rows, features, SETTINGS, no_progress)
    np.testing.assert_array_equal(first.click_model.alpha, whole.click_model.alpha)
    half = rows.select(rows.query % 2 == 0)
    fewer = replace(SETTINGS, min_clicks=SETTINGS.min_clicks / 2)
    again = method.refit(half, features, fewer, rng, first).click_model
    assert again.depth == 5
    np.testing.assert_allclose(again.alpha, whole.click_model.alpha, rtol=0.5)


@ROWS
def test_many_logs_at_once_are_each_as_alone(
    method: Method, log: tuple[ClickRows, np.ndarray]
) -> None:
    rows, features = log
    if method.fit_many is None:
        return
    logs = [rows, rows.select(rows.query % 3 > 0)]
    settings = [SETTINGS, replace(SETTINGS, seed=4, replicates=2)]
    together = method.fit_many(logs, features, settings, no_progress)
    for own, how, found in zip(logs, settings, together, strict=True):
        alone = method.fit(own, features, how, no_progress)
        np.testing.assert_allclose(
            found.click_model.alpha, alone.click_model.alpha, rtol=1e-5
        )
        assert found.display.known == (how.replicates > 0)
        np.testing.assert_allclose(
            found.display.alpha_error, alone.display.alpha_error, rtol=1e-3, atol=1e-6
        )


def test_defaults_are_rows() -> None:
    assert {METHOD, METHOD_FROM_SWAPS, EM} <= set(METHODS)
    assert METHODS[EM].ranks_too
    assert METHODS[METHOD].refit is not None


def test_the_table_loads_no_heavy_library() -> None:
    heavy = "torch", "lightgbm", "numba", "scipy"
    code = (
        f"import sys, affinerank.bias; print([n for n in {heavy} if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
