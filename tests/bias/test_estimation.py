"""Counts and features in, users out: which method, and what is said about it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from affinerank.bias import METHODS, EstimationSettings
from affinerank.bias.gauge import click_model_error
from affinerank.bias.method import Estimate
from affinerank.clicks.models.files import load_click_model
from affinerank.clicks.models.trust import EstimatedBy, TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.sources import DataSource
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.click_model import (
    estimate_click_model,
    estimate_from_rows,
    filled_features,
)
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError

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


def simulated(data: RankingDataset, *policies: str) -> tuple[TrustModel, ClickCounts]:
    """Five ranks, and who clicked there."""
    click_model = TrustModel.paper(depth=5)
    traffic = Traffic(top_k=5, policies=policies)
    simulation = prepare_simulation(data, click_model, traffic=traffic)
    sessions = simulation.sessions_for(3e4)
    return click_model, simulate_counts(
        simulation, sessions, rng=np.random.default_rng(0)
    )


@pytest.fixture(scope="module")
def still(data: RankingDataset) -> tuple[TrustModel, ClickCounts]:
    return simulated(data)


@pytest.fixture(scope="module")
def swapped(data: RankingDataset) -> tuple[TrustModel, ClickCounts]:
    return simulated(data, "swap(share=0.6)")


def require_no_nan(found: Estimate, folder: Path) -> None:
    """The file loads again, and neither it nor the summary has a NaN."""

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} in JSON")

    path = folder / "click-model.json"
    found.click_model.save(path)
    json.loads(path.read_text(), parse_constant=refuse)
    again = load_click_model(path)
    np.testing.assert_array_equal(again.alpha, found.click_model.alpha)
    assert dict(again.provenance) == dict(found.click_model.provenance)
    assert again.estimated == found.click_model.estimated
    summary = found.to_dict()
    summary.get("against_truth", {}).pop("beta_relative", None)
    json.dumps(summary, allow_nan=False)


def test_features_are_used_where_there_are_some(
    data: RankingDataset, still: tuple[TrustModel, ClickCounts], tmp_path: Path
) -> None:
    truth, counts = still
    found = estimate_click_model(counts, data, truth=truth)
    assert found.method == "mixture"
    assert found.why.startswith("features")
    assert found.error is not None
    assert found.error.error < 0.05
    assert found.test is not None
    assert found.test.found
    about = dict(found.click_model.provenance)
    assert about["estimated_by"] == "mixture"
    assert about["clicks"] == counts.clicks.sum()
    assert about["impressions"] == counts.impressions.sum()
    assert about["pooled_ranks"] == []
    assert about["levels"][0] == 0
    assert about["levels"][-1] == 1
    assert about["feature_correlation"] > 0.1
    assert found.click_model.estimated == EstimatedBy("mixture", features=True)
    assert found.share_identified is not None
    assert np.all(found.share_identified > 0.75)
    assert found.weak_ranks == ()
    assert found.notes[0].startswith("levels of relevance found: 0, ")
    require_no_nan(found, tmp_path)


def test_the_error_is_the_one_over_the_impressions_that_there_were(
    data: RankingDataset, still: tuple[TrustModel, ClickCounts]
) -> None:
    truth, counts = still
    found = estimate_click_model(counts, data, truth=truth)
    seen = np.bincount(counts.rank, counts.impressions)[1:]
    expected = click_model_error(found.click_model, truth, seen)
    assert found.error is not None
    assert found.error.error == expected.error
    assert found.to_dict()["against_truth"]["error"] == expected.error
    assert "against_truth" not in estimate_click_model(counts, data).to_dict()


def test_the_table_by_rank_has_bands_that_hold_the_estimate(
    data: RankingDataset, still: tuple[TrustModel, ClickCounts]
) -> None:
    truth, counts = still
    found = estimate_click_model(counts, data)
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
    true = found.truth_by_rank(truth)
    inside = [
        row["inference"][f"{name}_low"] <= value <= row["inference"][f"{name}_high"]
        for name in ("alpha", "beta")
        for row, value in zip(rows, true[name], strict=True)
    ]
    assert sum(inside) >= 7  # of ten at 95 %


def test_moved_documents_are_used_where_there_are_no_features(
    swapped: tuple[TrustModel, ClickCounts], tmp_path: Path
) -> None:
    truth, counts = swapped
    found = estimate_click_model(counts, truth=truth)
    assert found.method == "interventions"
    assert (
        found.why == f"{found.overlap.n_moved:,} documents were shown at several ranks"
    )
    assert found.overlap.connected == ("ranks 1-5",)
    assert found.error is not None
    assert found.error.error < 0.05
    about = found.click_model.provenance
    assert about["documents_at_several_ranks"] == found.overlap.n_moved > 200
    assert found.click_model.estimated == EstimatedBy("interventions")
    require_no_nan(found, tmp_path)


def test_without_either_the_mixture_of_clicks_is_left(
    still: tuple[TrustModel, ClickCounts],
) -> None:
    truth, counts = still
    found = estimate_click_model(counts, truth=truth)
    assert found.method == "mixture"
    assert found.why == "no features, and documents hardly change rank"
    assert found.overlap.n_moved == 0
    assert found.error is not None
    assert found.error.error < 0.05


def test_two_ranks_are_enough(data: RankingDataset) -> None:
    truth = TrustModel.paper(depth=2)
    simulation = prepare_simulation(data, truth, traffic=Traffic(top_k=2))
    rng = np.random.default_rng(0)
    counts = simulate_counts(simulation, 20_000, rng=rng)
    found = estimate_click_model(counts, data, truth=truth)
    assert found.pools.names == ("1", "2")
    assert found.error is not None
    assert found.error.error < 0.1


def test_ranks_with_few_clicks_share_their_values_which_is_noted(
    data: RankingDataset, still: tuple[TrustModel, ClickCounts]
) -> None:
    _, counts = still
    clicks = np.bincount(counts.rank, counts.clicks)[1:]
    settings = EstimationSettings(min_clicks=float(clicks[3] + 1))
    found = estimate_click_model(counts, data, settings=settings)
    assert found.pools.shared == ("4-5",)
    assert found.click_model.provenance["pooled_ranks"] == ["4-5"]
    assert found.notes[0] == "few clicks: ranks 4-5 share their values"
    assert found.click_model.depth == 5
    assert found.click_model.estimated is not None
    assert found.click_model.estimated.min_clicks == settings.min_clicks
    assert found.by_rank()[3]["clicks"] == clicks[3] + clicks[4]


def once(data: RankingDataset, click_model: TrustModel, seed: int = 0) -> ClickCounts:
    """Every document shown once or twice, at one rank."""
    simulation = prepare_simulation(data, click_model, traffic=Traffic(top_k=5))
    return simulate_counts(simulation, 150, rng=np.random.default_rng(seed))


def test_too_little_is_named_with_what_is_missing(data: RankingDataset) -> None:
    counts = once(data, TrustModel.paper(depth=5))
    few = EstimationSettings(min_clicks=10)
    with pytest.raises(DataError, match="clicks alone cannot separate"):
        estimate_click_model(counts, settings=few)
    # With features there is an estimate, and a warning of what it rests on.
    with pytest.warns(AffineRankWarning, match=r"identify too little: |do not differ"):
        assert estimate_click_model(counts, data, settings=few).weak_ranks
    asked = EstimationSettings(method="mixture", min_clicks=10)
    found = estimate_click_model(counts, data, settings=asked)
    assert found.why == "requested"
    assert found.weak_ranks
    assert any(", ".join(found.weak_ranks) in note for note in found.notes)
    moved = EstimationSettings(method="interventions", min_clicks=10)
    with pytest.raises(DataError, match=r"^0 of .* shown at several ranks"):
        estimate_click_model(counts, data, settings=moved)


def test_two_level_takes_relevance_for_binary(
    still: tuple[TrustModel, ClickCounts], data: RankingDataset
) -> None:
    settings = EstimationSettings(method="two-level")
    found = estimate_click_model(still[1], data, settings=settings)
    assert found.click_model.provenance["levels"] == [0.0, 1.0]


@pytest.mark.parametrize("method", [n for n, m in METHODS.items() if m.ranks_too])
def test_the_regression_em_has_bands_of_resampled_queries(
    data: RankingDataset,
    still: tuple[TrustModel, ClickCounts],
    method: str,
    tmp_path: Path,
) -> None:
    truth, counts = still
    settings = EstimationSettings(method=method, network=TINY, replicates=2)
    found = estimate_click_model(counts, data, settings=settings, truth=truth)
    assert found.method == found.click_model.provenance["estimated_by"] == method
    assert np.any(found.inference.alpha_error > 0)
    assert found.ranker is not None
    assert found.ranker.model.predict(filled_features(data)).shape == (data.n_docs,)
    assert found.test is None
    assert found.error is not None
    assert found.notes[0].split(", ")[1] in ("converged", "not converged")
    assert found.notes[1].startswith("bands from 2 resamples of the queries")
    assert len(found.by_rank()) == 5
    require_no_nan(found, tmp_path)


def test_without_replicates_the_em_has_no_bands(
    data: RankingDataset, still: tuple[TrustModel, ClickCounts]
) -> None:
    settings = EstimationSettings(method="softmax", network=TINY, replicates=0)
    found = estimate_click_model(still[1], data, settings=settings)
    assert not found.inference.known
    assert not found.display.known
    for row in found.by_rank():
        assert set(row["display"]) == set(row["inference"]) == {"alpha", "beta"}
    assert found.by_rank()[0]["display"] == {"alpha": 1.0, "beta": 0.0}
    assert len(found.notes) == 1


def test_the_em_takes_a_log_that_lacks_a_rank(
    data: RankingDataset, still: tuple[TrustModel, ClickCounts], tmp_path: Path
) -> None:
    truth, counts = still
    gap = ClickCounts(counts.table.filter(counts.rank != 3))
    settings = EstimationSettings(method="sigmoid", network=TINY, replicates=2)
    found = estimate_click_model(gap, data, settings=settings, truth=truth)
    row = found.by_rank()[2]
    assert (row["impressions"], row["clicks"], row["mean_rank"]) == (0, 0, 3.0)
    true = found.truth_by_rank(truth)
    assert np.all(np.isfinite(true["alpha"] + true["beta"]))
    require_no_nan(found, tmp_path)


def test_of_counts_with_a_split_the_training_part_is_used(
    data: RankingDataset, still: tuple[TrustModel, ClickCounts]
) -> None:
    split = still[1].holdout(0.3)
    a = estimate_click_model(split, data)
    b = estimate_click_model(split.select("split", "train"), data)
    np.testing.assert_array_equal(a.click_model.alpha, b.click_model.alpha)
    assert a.click_model.provenance["clicks"] < still[1].clicks.sum()


def test_a_seed_repeats_an_estimate(
    data: RankingDataset, still: tuple[TrustModel, ClickCounts]
) -> None:
    a, b = (estimate_click_model(still[1], data) for _ in range(2))
    np.testing.assert_array_equal(a.click_model.beta, b.click_model.beta)


def test_stages_are_reported(
    data: RankingDataset, still: tuple[TrustModel, ClickCounts]
) -> None:
    seen: list[tuple[str, int, int]] = []
    estimate_click_model(still[1], data, progress=lambda *about: seen.append(about))
    assert seen == [("estimating", 0, 1), ("estimating", 1, 1)]


def test_settings_that_mean_nothing_are_rejected(
    still: tuple[TrustModel, ClickCounts], data: RankingDataset
) -> None:
    with pytest.raises(ConfigError, match=f"'magic'; known are {METHODS.choices}"):
        estimate_click_model(still[1], settings=EstimationSettings(method="magic"))
    with pytest.raises(ConfigError, match="replicates must be 0, or 2 or more, got 1"):
        EstimationSettings(replicates=1)
    with pytest.raises(ConfigError, match="sigmoid needs features: give --data"):
        estimate_click_model(still[1], settings=EstimationSettings(method="sigmoid"))
    with pytest.raises(ConfigError, match="min_clicks must be 0 or more"):
        estimate_click_model(still[1], data, settings=EstimationSettings(min_clicks=-1))


def test_counts_of_nothing_are_rejected(still: tuple[TrustModel, ClickCounts]) -> None:
    empty = ClickCounts(still[1].table.slice(0, 0))
    with pytest.raises(DataError, match="the counts are empty"):
        estimate_click_model(empty)


def test_missing_values_are_filled_and_reported(
    data: RankingDataset, still: tuple[TrustModel, ClickCounts]
) -> None:
    features = np.array(data.features)
    features[::7, 3] = np.nan
    holes = replace(data, features=features)
    settings = EstimationSettings(method="two-level")
    found = estimate_click_model(still[1], holes, settings=settings)
    n = len(features[::7])
    assert found.notes[0] == (
        f"{n:,} missing values (f4) were filled with the median of their feature"
    )
    whole = estimate_click_model(still[1], data, settings=settings)
    # One of 501 features, a seventh of it: hardly anything changes.
    np.testing.assert_allclose(
        found.click_model.alpha, whole.click_model.alpha, rtol=0.1
    )


@pytest.mark.parametrize("method", ["mixture", "softmax"])
def test_rows_are_estimated_from_as_counts_are(
    data: RankingDataset, still: tuple[TrustModel, ClickCounts], method: str
) -> None:
    settings = EstimationSettings(method=method, network=TINY, replicates=0, seed=3)
    rows, features = join_counts(still[1], data), filled_features(data)
    a = estimate_click_model(still[1], data, settings=settings)
    b = estimate_from_rows(rows, features, data, settings=settings)
    np.testing.assert_array_equal(a.click_model.alpha, b.click_model.alpha)
    assert a.to_dict() == b.to_dict()
    assert a.click_model.to_dict() == b.click_model.to_dict()


def test_the_order_of_the_data_does_not_matter(
    data: RankingDataset, still: tuple[TrustModel, ClickCounts]
) -> None:
    """Queries and documents shuffled, features with them."""
    rng = np.random.default_rng(0)
    queries = rng.permutation(data.n_queries)
    docs = np.concatenate(
        [rng.permutation(np.arange(*data.offsets[q : q + 2])) for q in queries]
    )
    sizes = np.diff(data.offsets)[queries]
    shuffled = replace(
        data,
        features=data.features[docs],
        labels=None,
        offsets=np.append(0, np.cumsum(sizes)),
        query_ids=data.query_ids[queries],
        doc_ids=data.doc_ids[docs],
        source_rows=np.empty(0, np.int64),
    )
    settings = EstimationSettings(method="two-level")
    a, b = (
        estimate_click_model(still[1], d, settings=settings) for d in (data, shuffled)
    )
    np.testing.assert_allclose(b.click_model.alpha, a.click_model.alpha, rtol=1e-9)
    np.testing.assert_allclose(b.click_model.beta, a.click_model.beta, rtol=1e-9)
