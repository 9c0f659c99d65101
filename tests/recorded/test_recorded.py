"""What version 0.1 computed, computed again; README.md says what each name is."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.recorded import of_clicks, of_rankers, of_users
from tests.recorded.inputs import data_of, many_counts
from tests.recorded.of_clicks import Pairs
from threadpoolctl import threadpool_limits

import affinerank as ar
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.research.cells import PRODUCTION
from affinerank.research.measure import measure
from affinerank.research.plan import shipped_plan
from affinerank.research.results import read_results
from affinerank.research.worlds import World

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::affinerank.support.errors.AffineRankWarning"),
]

HERE = Path(__file__).parent
VALUES: dict[str, list[float | None]] = json.loads((HERE / "values.json").read_text())
STEPS: dict[str, list[float]] = json.loads((HERE / "steps.json").read_text())
TEXTS: dict[str, str | list[str]] = json.loads((HERE / "texts.json").read_text())

# A name belongs to the longest prefix of it.
GROUPS: dict[str, Callable[[], Pairs]] = {
    "seeds/": of_clicks.seeds,
    "world/": of_clicks.worlds,
    "production/": of_clicks.production_scores,
    "logs/": of_clicks.logs,
    "sessions/": of_clicks.session_logs,
    "users/": of_clicks.click_model,
    "gauge/": of_clicks.gauges,
    "weights/": of_clicks.weights,
    "debias/": of_clicks.debiased,
    "losses/": of_rankers.losses,
    "targets/": of_rankers.targets,
    "step/": of_rankers.step,
    "networks/": of_rankers.networks,
    "networks/train_rankers/": of_rankers.trained_networks,
    "trees/": of_rankers.trees,
    "sklearn/": of_rankers.sklearn,
    "em/": of_users.em_parts,
    "em/fit/": of_users.em_fits,
    "em/estimate_click_model/": of_users.em_estimate,
    "mixture/": of_users.mixtures,
    "offpolicy/": of_users.off_policy,
    "offpolicy/estimated/": of_users.off_policy_estimated,
    "judged/": of_users.evaluated,
    "audit/": of_users.audits,
    "swaps/": of_users.swaps,
}
# Relative to each value, and to the largest of its name; the longest prefix counts.
TOLERANCES = {
    "": 1e-12,
    # Intervals: the quantiles of SciPy differ by 6.4e-12 between versions.
    "judged/": 1e-10,
    # One step in float32, and trainings that start from the same numbers.
    "losses/float32/": 1e-6,
    "targets/": 1e-6,
    "step/": 1e-6,
    "networks/": 1e-6,
    "networks/patience/": 1e-5,
    "trees/": 1e-6,
    "sklearn/": 1e-6,
    "em/fit/": 1e-6,
    "em/estimate_click_model/": 1e-6,
    # A fit ends where the likelihood hardly rises, and sums of BLAS depend on threads
    # and processor: version 0.1 differed from itself by 1e-4 on another number of
    # threads, and this one differs by 2.4e-4 on another processor.
    "mixture/": 3e-4,
    "audit/": 3e-4,
    # Fits go on until nothing moves.
    "mixture/rotate10-features/display/covariance": 2e-3,
    "sklearn/mlp/estimated/": 3e-4,
    "sklearn/lightgbm/estimated/": 3e-4,
    "offpolicy/estimated/": 3e-4,
    "offpolicy/gain/one/estimated": 3e-4,
    "offpolicy/gain/two/estimated": 3e-4,
    # Clicks hardly determine this one: 7e-4 and 1.2e-3; covariances 0.011 and 0.019.
    "mixture/weak/": 2e-3,
    "mixture/weak/inference/covariance": 0.03,
    "mixture/weak/display/covariance": 0.03,
}


def longest_prefix(name: str, prefixes: dict[str, Any]) -> str:
    return max((p for p in prefixes if name.startswith(p)), key=len)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Small matrices are slower on two; and the number of cores must not matter."""
    with threadpool_limits(limits=1):
        yield


@pytest.mark.parametrize("group", GROUPS)
def test_values_are_as_they_were(group: str) -> None:
    left = {name for name in VALUES | TEXTS if longest_prefix(name, GROUPS) == group}
    assert left
    faults = []
    for name, found in GROUPS[group]():
        if name in TEXTS:
            if found != TEXTS[name]:
                faults.append(f"{name}: {found!r}, not {TEXTS[name]!r}")
        elif name in VALUES:  # some numbers are new
            faults += differences(name, found)
        left.discard(name)
    assert not faults
    assert not left


def differences(name: str, found: Any) -> Iterator[str]:
    """Where a value is not what it was; long arrays by every so many, and their sum."""
    step, total = STEPS.get(name, (1, 0.0))
    flat = np.asarray(found, dtype=np.float64).ravel()
    now, was = flat[:: int(step)], np.array(VALUES[name], dtype=np.float64)
    whole = np.array_equal(was, np.round(was), equal_nan=True)
    tolerance = TOLERANCES["" if whole else longest_prefix(name, TOLERANCES)]
    reach = tolerance * np.nanmax(np.abs(was), initial=0.0)
    if now.shape != was.shape:
        yield f"{name}: {now.shape} values, not {was.shape}"
    elif not np.allclose(now, was, rtol=tolerance, atol=reach, equal_nan=True):
        off = np.nanmax(np.abs(now - was), initial=0.0)
        yield f"{name}: {now}, not {was} ({off:.2g} apart)"
    if name in STEPS:
        now_total, reach = np.nansum(flat), tolerance * np.nansum(np.abs(flat))
        if not abs(now_total - total) <= reach:
            yield f"{name}: the sum is {now_total}, not {total}"


def test_a_log_that_hardly_tells_users_is_named() -> None:
    with pytest.warns(ar.AffineRankWarning, match="poor estimate: .* do not differ"):
        ar.estimate_click_model(many_counts("fixed"), data_of("fixed"))


def test_a_run_has_the_same_rankings_and_clicks() -> None:
    """Production rankers and logs of the plan ``all`` at the size ``smoke``."""
    rows = {row.cell: row for row in read_results(HERE / "smoke.parquet")}
    world = World(shipped_plan("all", "smoke").data[0])
    cells = [cell for cell in rows if cell.estimator == PRODUCTION]
    for cell, now in zip(cells, measure(world, cells, TrainSettings()), strict=True):
        was = rows[cell]
        assert now.digest == was.digest
        assert now.ndcg == pytest.approx(was.ndcg, rel=1e-12)
        np.testing.assert_allclose(now.per_query, was.per_query, rtol=1e-6)
    naive = [cell for cell in rows if cell.estimator == "naive"]
    assert len({cell.log for cell in naive}) == 8
    for cell in naive:
        clicks, _ = world.draw(cell)
        assert clicks.n_sessions == rows[cell].sessions
        assert clicks.clicks.sum() == rows[cell].clicks_drawn
