"""Counts and features in, users out: which method, and what is said about it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from affinerank.bias.gauge import gauge_error
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.simulate import Simulation, Traffic, simulate_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.data.catalog import DataSource
from affinerank.data.dataset import RankingDataset
from affinerank.errors import ConfigError, DataError
from affinerank.pipeline import (
    METHODS,
    Estimated,
    EstimationSettings,
    estimate_users,
    prepare_simulation,
)
from affinerank.rankers.mlp import NetworkSettings

# A network of one epoch has learnt nothing, and the EM says so.
pytestmark = pytest.mark.filterwarnings(
    "ignore:regression EM stopped", "ignore:zeta. fell to zeta-"
)

TINY = NetworkSettings(
    hidden=(4,), dropout=(0.0,), epochs=1, batch_queries=32, device="cpu"
)


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    return DataSource.parse("yahoo-like:100").read("train")


@pytest.fixture(scope="module")
def still(data: RankingDataset) -> tuple[Simulation, ClickCounts]:
    """Five ranks, documents that never move."""
    simulation = prepare_simulation(data, traffic=Traffic(top_k=5))
    rng = np.random.default_rng(0)
    return simulation, simulate_counts(
        simulation, simulation.sessions_for(3e4), rng=rng
    )


@pytest.fixture(scope="module")
def swapped(data: RankingDataset) -> tuple[Simulation, ClickCounts]:
    simulation = prepare_simulation(data, traffic=Traffic(top_k=5, swap=0.6))
    rng = np.random.default_rng(0)
    return simulation, simulate_counts(
        simulation, simulation.sessions_for(3e4), rng=rng
    )


def require_no_nan(found: Estimated, folder: Path) -> None:
    """The file loads again, and neither it nor the summary has a NaN."""

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} in JSON")

    path = folder / "users.json"
    found.users.save(path)
    json.loads(path.read_text(), parse_constant=refuse)
    again = UserModel.load(path)
    np.testing.assert_array_equal(again.alpha, found.users.alpha)
    assert dict(again.provenance) == dict(found.users.provenance)
    summary = found.summary()
    summary.get("against_truth", {}).pop("beta_relative", None)
    json.dumps(summary, allow_nan=False)


def test_features_are_used_where_there_are_some(
    data: RankingDataset, still: tuple[Simulation, ClickCounts], tmp_path: Path
) -> None:
    simulation, counts = still
    found = estimate_users(counts, data, truth=simulation.users)
    assert found.method == "mixture"
    assert found.why == "features tell which documents to expect relevant"
    assert found.error is not None
    assert found.error.error < 0.05
    assert found.test is not None
    assert found.test.found
    about = dict(found.users.provenance)
    assert about["estimated_by"] == "mixture"
    assert about["clicks"] == counts.clicks.sum()
    assert about["impressions"] == counts.impressions.sum()
    assert about["pooled_ranks"] == []
    assert about["levels"][0] == 0
    assert about["levels"][-1] == 1
    assert about["feature_correlation"] > 0.1
    assert found.notes[0].startswith("levels of relevance found: 0, ")
    require_no_nan(found, tmp_path)


def test_the_error_is_the_one_over_the_impressions_that_there_were(
    data: RankingDataset, still: tuple[Simulation, ClickCounts]
) -> None:
    simulation, counts = still
    found = estimate_users(counts, data, truth=simulation.users)
    seen = np.bincount(counts.rank, counts.impressions)[1:]
    expected = gauge_error(found.users, simulation.users, seen)
    assert found.error is not None
    assert found.error.error == expected.error
    assert found.summary()["against_truth"]["error"] == expected.error
    assert "against_truth" not in estimate_users(counts, data).summary()


def test_the_table_by_rank_has_bands_that_hold_the_estimate(
    data: RankingDataset, still: tuple[Simulation, ClickCounts]
) -> None:
    simulation, counts = still
    found = estimate_users(counts, data)
    rows = found.by_rank()
    assert [row["ranks"] for row in rows] == ["1", "2", "3", "4", "5"]
    for k, row in enumerate(rows, start=1):
        assert row["clicks"] == counts.clicks[counts.rank == k].sum()
        assert row["impressions"] == counts.impressions[counts.rank == k].sum()
        for gauge in ("display", "inference"):
            for name in ("alpha", "beta"):
                shown = row[gauge]
                low, high = shown[f"{name}_low"], shown[f"{name}_high"]
                assert low <= shown[name] <= high
    first = rows[0]["display"]
    assert (first["alpha"], first["beta"]) == pytest.approx((1, 0))
    truth = found.truth_by_rank(simulation.users)
    inside = [
        row["inference"][f"{name}_low"] <= value <= row["inference"][f"{name}_high"]
        for name in ("alpha", "beta")
        for row, value in zip(rows, truth[name], strict=True)
    ]
    assert sum(inside) >= 7  # of ten at 95 %


def test_moved_documents_are_used_where_there_are_no_features(
    swapped: tuple[Simulation, ClickCounts], tmp_path: Path
) -> None:
    simulation, counts = swapped
    found = estimate_users(counts, truth=simulation.users)
    assert found.method == "interventions"
    assert (
        found.why == f"{found.overlap.n_moved:,} documents were shown at several ranks"
    )
    assert found.overlap.connected == ("ranks 1-5",)
    assert found.error is not None
    assert found.error.error < 0.05
    about = found.users.provenance
    assert about["documents_at_several_ranks"] == found.overlap.n_moved > 200
    require_no_nan(found, tmp_path)


def test_without_either_the_mixture_of_clicks_is_left(
    still: tuple[Simulation, ClickCounts],
) -> None:
    simulation, counts = still
    found = estimate_users(counts, truth=simulation.users)
    assert found.method == "mixture"
    assert found.why == "no features, and documents hardly change rank"
    assert found.overlap.n_moved == 0
    assert found.error is not None
    assert found.error.error < 0.05


def test_two_ranks_are_enough(data: RankingDataset) -> None:
    simulation = prepare_simulation(data, traffic=Traffic(top_k=2))
    rng = np.random.default_rng(0)
    counts = simulate_counts(simulation, 20_000, rng=rng)
    found = estimate_users(counts, data, truth=simulation.users)
    assert found.pools.names == ("1", "2")
    assert found.error is not None
    assert found.error.error < 0.1


def test_ranks_with_few_clicks_share_their_values_and_that_is_said(
    data: RankingDataset, still: tuple[Simulation, ClickCounts]
) -> None:
    _, counts = still
    clicks = np.bincount(counts.rank, counts.clicks)[1:]
    settings = EstimationSettings(least_clicks=float(clicks[3] + 1))
    found = estimate_users(counts, data, settings=settings)
    assert found.pools.shared == ("4-5",)
    assert found.users.provenance["pooled_ranks"] == ["4-5"]
    assert found.notes[0] == "few clicks: ranks 4-5 share their values"
    assert found.users.depth == 5
    assert found.by_rank()[3]["clicks"] == clicks[3] + clicks[4]


def once(data: RankingDataset, users: UserModel, seed: int = 0) -> ClickCounts:
    """Every document shown once or twice, at one rank."""
    simulation = prepare_simulation(data, users, traffic=Traffic(top_k=5))
    return simulate_counts(simulation, 150, rng=np.random.default_rng(seed))


def test_too_little_is_refused_with_what_is_missing(data: RankingDataset) -> None:
    counts = once(data, UserModel.paper(depth=5))
    few = EstimationSettings(least_clicks=10)
    with pytest.raises(DataError, match="clicks alone cannot tell bias from"):
        estimate_users(counts, settings=few)
    with pytest.raises(DataError, match=r"clicks tell too little: |do not differ"):
        estimate_users(counts, data, settings=few)
    asked = EstimationSettings(method="mixture", least_clicks=10)
    found = estimate_users(counts, data, settings=asked)
    assert found.why == "asked for"
    assert any(
        note.startswith("clicks tell little about ranks") for note in found.notes
    )
    moved = EstimationSettings(method="interventions", least_clicks=10)
    with pytest.raises(DataError, match="no document was shown at several ranks"):
        estimate_users(counts, data, settings=moved)


def test_two_level_takes_relevance_for_binary(
    still: tuple[Simulation, ClickCounts], data: RankingDataset
) -> None:
    settings = EstimationSettings(method="two-level")
    found = estimate_users(still[1], data, settings=settings)
    assert found.users.provenance["levels"] == [0.0, 1.0]


@pytest.mark.parametrize("method", ["em", "em-three", "em-position"])
def test_the_regression_em_has_bands_of_resampled_queries(
    data: RankingDataset,
    still: tuple[Simulation, ClickCounts],
    method: str,
    tmp_path: Path,
) -> None:
    simulation, counts = still
    settings = EstimationSettings(method=method, network=TINY, replicates=2)
    found = estimate_users(counts, data, settings=settings, truth=simulation.users)
    assert found.method == found.users.provenance["estimated_by"] == method
    assert found.inference is not None
    assert found.display is not None
    assert np.any(found.inference.alpha_error > 0)
    assert found.test is None
    assert found.error is not None
    assert found.notes[0].split(", ")[1] in ("converged", "not converged")
    assert found.notes[1].startswith("bands from 2 resamples of the queries")
    assert len(found.by_rank()) == 5
    require_no_nan(found, tmp_path)


def test_without_replicates_the_em_has_no_bands(
    data: RankingDataset, still: tuple[Simulation, ClickCounts]
) -> None:
    settings = EstimationSettings(method="em", network=TINY, replicates=0)
    found = estimate_users(still[1], data, settings=settings)
    assert not found.inference.known
    assert not found.display.known
    for row in found.by_rank():
        assert set(row["display"]) == set(row["inference"]) == {"alpha", "beta"}
    assert found.by_rank()[0]["display"] == {"alpha": 1.0, "beta": 0.0}
    assert len(found.notes) == 1


def test_the_em_takes_a_log_that_lacks_a_rank(
    data: RankingDataset, still: tuple[Simulation, ClickCounts], tmp_path: Path
) -> None:
    simulation, counts = still
    gap = ClickCounts(counts.table.filter(counts.rank != 3))
    settings = EstimationSettings(method="em", network=TINY, replicates=2)
    found = estimate_users(gap, data, settings=settings, truth=simulation.users)
    row = found.by_rank()[2]
    assert (row["impressions"], row["clicks"], row["mean_rank"]) == (0, 0, 3.0)
    truth = found.truth_by_rank(simulation.users)
    assert np.all(np.isfinite(truth["alpha"] + truth["beta"]))
    require_no_nan(found, tmp_path)


def test_of_counts_with_a_split_the_training_part_is_used(
    data: RankingDataset, still: tuple[Simulation, ClickCounts]
) -> None:
    split = still[1].holdout(0.3)
    a = estimate_users(split, data)
    b = estimate_users(split.select("split", "train"), data)
    np.testing.assert_array_equal(a.users.alpha, b.users.alpha)
    assert a.users.provenance["clicks"] < still[1].clicks.sum()


def test_a_seed_repeats_an_estimate(
    data: RankingDataset, still: tuple[Simulation, ClickCounts]
) -> None:
    a, b = (estimate_users(still[1], data) for _ in range(2))
    np.testing.assert_array_equal(a.users.beta, b.users.beta)


def test_stages_are_reported(
    data: RankingDataset, still: tuple[Simulation, ClickCounts]
) -> None:
    told: list[tuple[str, int, int]] = []
    estimate_users(still[1], data, progress=lambda *about: told.append(about))
    assert told == [("estimating", 0, 1), ("estimating", 1, 1)]


def test_settings_that_mean_nothing_are_refused(
    still: tuple[Simulation, ClickCounts], data: RankingDataset
) -> None:
    with pytest.raises(ConfigError, match=f"one of {', '.join(METHODS)}, got 'magic'"):
        EstimationSettings(method="magic")
    with pytest.raises(ConfigError, match=r"activation must be .*, got 'tanh'"):
        EstimationSettings(activation="tanh")
    with pytest.raises(ConfigError, match="replicates must be 0, or 2 or more: 1"):
        EstimationSettings(replicates=1)
    with pytest.raises(ConfigError, match="the method em needs features: give --data"):
        estimate_users(still[1], settings=EstimationSettings(method="em"))
    with pytest.raises(ConfigError, match="least_clicks must be 0 or more"):
        estimate_users(still[1], data, settings=EstimationSettings(least_clicks=-1))


def test_counts_of_nothing_are_refused(still: tuple[Simulation, ClickCounts]) -> None:
    empty = ClickCounts(still[1].table.slice(0, 0))
    with pytest.raises(DataError, match="the counts are empty"):
        estimate_users(empty)


def test_missing_values_are_filled_and_reported(
    data: RankingDataset, still: tuple[Simulation, ClickCounts]
) -> None:
    features = np.array(data.features)
    features[::7, 3] = np.nan
    holes = replace(data, features=features)
    settings = EstimationSettings(method="two-level")
    found = estimate_users(still[1], holes, settings=settings)
    n = len(features[::7])
    assert found.notes[0] == (
        f"{n:,} missing values (f4) were filled with the median of their feature"
    )
    whole = estimate_users(still[1], data, settings=settings)
    # One of 501 features, a seventh of it: hardly anything changes.
    np.testing.assert_allclose(found.users.alpha, whole.users.alpha, rtol=0.1)
