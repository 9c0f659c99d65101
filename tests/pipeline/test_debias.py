"""Debiased labels: any estimator, sorted by document, with what 0 and 1 mean."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.halves import halves

from affinerank.clicks.models.trust import EstimatedBy, TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.sources import DataSource
from affinerank.defaults import CORRECTION, ESTIMATOR
from affinerank.estimators import ESTIMATORS, Estimator, Evidence, Weights
from affinerank.estimators.correction import standard_error
from affinerank.pipeline.debias import debias, save_labels
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.weighing import learns_of, weigh
from affinerank.support.errors import ConfigError, DataError

CLICK_MODEL = TrustModel.paper(depth=3)
COUNTS = ClickCounts.from_columns(
    query_id=["b", "b", "b", "a", "a", "a"],
    doc_id=[10, 9, 10, 2, 11, 3],
    rank=[1, 2, 3, 1, 2, 3],
    impressions=[8, 8, 8, 5, 5, 0],
    clicks=[6, 3, 1, 4, 0, 0],
    sessions=[8, 8, 8, 5, 5, 5],
)
GAUGE = b"affinerank.gauge"


BY_OWN_OR_RANK = [
    name
    for name, row in ESTIMATORS.items()
    if row.needs != "labels" and (name == ESTIMATOR or not learns_of(name))
]


@pytest.mark.parametrize("name", BY_OWN_OR_RANK)
def test_labels_are_the_weights_of_documents_sorted_by_id(name: str) -> None:
    labels = debias(COUNTS, CLICK_MODEL, estimator=name)
    assert labels["query_id"].to_pylist()[-2:] == ["b", "b"]
    data = RankingDataset.from_rows(
        np.zeros((5, 1)), ["a", "a", "a", "b", "b"], doc_ids=[2, 3, 11, 9, 10]
    )
    rows = join_counts(COUNTS, data)
    weights = weigh(rows, name, CLICK_MODEL)
    seen = np.flatnonzero(weights.known)  # 3 was never shown
    assert labels["doc_id"].to_pylist() == data.doc_ids[seen].tolist()
    assert labels["impressions"].to_pylist() == [[5, 0, 5, 8, 16][i] for i in seen]
    assert labels["clicks"].to_pylist() == [[4, 0, 0, 3, 7][i] for i in seen]
    np.testing.assert_allclose(labels["relevance"], weights.weight[seen])
    if weights.own_click_share is None:
        error = standard_error(weights, rows)[seen]
        np.testing.assert_allclose(labels["standard_error"], error)
    else:
        np.testing.assert_allclose(labels["own_clicks"], weights.own_click_share[seen])
        deviation = np.sqrt(weights.variance[seen])
        np.testing.assert_allclose(labels["standard_deviation"], deviation)
    assert labels.schema.metadata[b"affinerank.estimator"].decode() == name


def test_labels_keep_the_split_and_are_debiased_by_part() -> None:
    first, second = halves(COUNTS, rng=np.random.default_rng(0))
    both = first.labelled("split", "train").table, second.labelled("split", "holdout")
    split = ClickCounts(pa.concat_tables([both[0], both[1].table]))
    labels = debias(split, CLICK_MODEL)
    assert labels.column_names[:3] == ["query_id", "doc_id", "split"]
    kept = labels.filter(pc.equal(labels["split"], "train")).drop_columns("split")
    assert kept.equals(debias(first, CLICK_MODEL))


def test_the_gauge_says_what_zero_and_one_mean() -> None:
    row = ESTIMATORS[ESTIMATOR]
    gauge = TrustModel(
        alpha=CLICK_MODEL.alpha, beta=CLICK_MODEL.beta, identified="relative"
    )
    estimated = replace(CLICK_MODEL, estimated=EstimatedBy("two-level"))
    texts = [
        debias(COUNTS, click_model).schema.metadata[GAUGE].decode()
        for click_model in (CLICK_MODEL, gauge, estimated)
    ]
    assert texts[0] == row.meaning
    assert "up to a factor and a shift" in texts[1]
    assert texts[2].startswith(row.meaning)
    assert "as far as users are known" in texts[2]
    for name, other in ESTIMATORS.items():
        if other.needs == "nothing":
            labels = debias(COUNTS, gauge, estimator=name)
            assert labels.schema.metadata[GAUGE].decode() == other.meaning


def test_an_estimator_of_ones_own_labels_what_it_knows(tmp_path: Path) -> None:
    def weigh(evidence: Evidence) -> Weights:
        n = evidence.rows.n_docs
        known = np.arange(n) % 2 == 0
        weight = np.where(known, 0.5, 0.0)
        return Weights(weight, known, evidence.rows.share, np.full(n, 0.04))

    own = Estimator("own", "Our own", "nothing", weigh, meaning="half of the truth")
    with ESTIMATORS.added(own):
        about = save_labels(debias(COUNTS, estimator="own"), tmp_path / "own.parquet")
        labels = debias(COUNTS, estimator="own", clip="0.1")
    assert labels.num_rows == about["documents"] == 3
    np.testing.assert_allclose(labels["standard_error"], 0.2)
    assert (about["estimator"], about["gauge"]) == ("own", "half of the truth")


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ["weight", "variance"])
def test_what_is_not_finite_is_never_written(
    wrong: float, name: str, tmp_path: Path
) -> None:
    def weigh(evidence: Evidence) -> Weights:
        n = evidence.rows.n_docs
        values: dict[str, Any] = {"weight": np.ones(n), "variance": np.ones(n)}
        values[name][2] = wrong
        known = np.ones(n, dtype=bool)
        return Weights(known=known, share=evidence.rows.share, **values)

    own = Estimator("own", "Our own", "nothing", weigh)
    with ESTIMATORS.added(own), np.errstate(invalid="ignore"):
        labels = debias(COUNTS, estimator="own")
    with pytest.raises(DataError, match=r"labels\.parquet: .* not be finite"):
        save_labels(labels, tmp_path / "labels.parquet")
    assert not list(tmp_path.iterdir())


def test_an_alpha_that_only_just_is_gives_no_labels(tmp_path: Path) -> None:
    click_model = TrustModel(
        alpha=np.array([0.3, 5e-324, 0.1]), beta=np.full(3, 0.1), identified="relative"
    )
    with np.errstate(over="ignore", invalid="ignore"):
        labels = debias(COUNTS, click_model, estimator=CORRECTION, clip="0")
    with pytest.raises(DataError, match="not be finite"):
        save_labels(labels, tmp_path / "labels.parquet")


def test_what_cannot_be_labelled_is_rejected() -> None:
    gauge = TrustModel(
        alpha=CLICK_MODEL.alpha, beta=CLICK_MODEL.beta, identified="relative"
    )
    for name, row in ESTIMATORS.items():
        if row.needs == "examination":
            with pytest.raises(ConfigError, match="up to gauge"):
                debias(COUNTS, gauge, estimator=name)
        if row.needs == "labels":
            with pytest.raises(DataError, match="labels"):
                debias(COUNTS, CLICK_MODEL, estimator=name)
    with pytest.raises(ConfigError, match="needs a click model"):
        debias(COUNTS)
    with pytest.raises(ConfigError, match="clip must be"):
        debias(COUNTS, CLICK_MODEL, estimator=CORRECTION, clip="x")
    for name in ESTIMATORS:
        if name != ESTIMATOR and learns_of(name):
            with pytest.raises(ConfigError, match=f"{name} needs features.*--data"):
                debias(COUNTS, CLICK_MODEL, estimator=name)
    nothing = ClickCounts(COUNTS.table.filter(pc.equal(COUNTS.table["doc_id"], 3)))
    with pytest.raises(DataError, match="no impressions"):
        debias(nothing, CLICK_MODEL)


def test_features_label_what_was_never_shown_and_improve_the_others() -> None:
    data = DataSource.parse("yahoo-like:150@3").read("train")
    simulation = prepare_simulation(data, traffic=Traffic(top_k=6))
    click_model = TrustModel.paper(depth=6)
    few, many = (
        simulate_counts(
            simulation, simulation.sessions_for(n), rng=np.random.default_rng(0)
        )
        for n in (2e3, 2e4)
    )
    true = dict(zip(data.doc_ids.tolist(), data.relevance().tolist(), strict=True))

    def error(labels: pa.Table) -> float:
        shown = labels.filter(pc.greater(labels["impressions"], 0))
        relevance = [true[doc] for doc in shown["doc_id"].to_pylist()]
        return float(np.mean((shown["relevance"].to_numpy() - relevance) ** 2))

    by_rank, by_features = debias(few, click_model), debias(few, click_model, data=data)
    by_clicks = debias(few, click_model, estimator=CORRECTION)
    assert by_rank.num_rows == by_clicks.num_rows < by_features.num_rows == data.n_docs
    assert error(by_features) < error(by_rank) < 0.5 * error(by_clicks)
    unseen = pc.equal(by_features["impressions"], 0)
    assert pc.max(by_features.filter(unseen)["own_clicks"]).as_py() == 0
    found = debias(many, click_model, data=data)
    shown = found.filter(pc.greater(found["impressions"], 0))
    squares = shown["standard_deviation"].to_numpy() ** 2
    assert error(found) == pytest.approx(squares.mean(), rel=0.25)
