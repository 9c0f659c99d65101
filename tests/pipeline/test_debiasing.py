"""Debiased labels: any estimator, sorted by document, with what 0 and 1 mean."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.models.trust import EstimatedBy, TrustModel
from affinerank.clicks.rows import rows_of
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import ESTIMATOR
from affinerank.errors import ConfigError, DataError
from affinerank.estimators import ESTIMATORS, Estimator, Evidence, Weights
from affinerank.estimators.correction import standard_error
from affinerank.pipeline import debias, save_labels, weigh

USERS = TrustModel.paper(depth=3)
COUNTS = ClickCounts.from_columns(
    query_id=["b", "b", "b", "a", "a", "a"],
    doc_id=[10, 9, 10, 2, 11, 3],
    rank=[1, 2, 3, 1, 2, 3],
    impressions=[8, 8, 8, 5, 5, 0],
    clicks=[6, 3, 1, 4, 0, 0],
    sessions=[8, 8, 8, 5, 5, 5],
)
GAUGE = b"affinerank.gauge"


@pytest.mark.parametrize(
    "name", [name for name, row in ESTIMATORS.items() if row.needs != "labels"]
)
def test_labels_are_the_weights_of_documents_sorted_by_id(name: str) -> None:
    labels = debias(COUNTS, USERS, estimator=name)
    assert labels["query_id"].to_pylist() == ["a", "a", "b", "b"]
    assert labels["doc_id"].to_pylist() == [2, 11, 9, 10]  # 3 was never shown
    assert labels["impressions"].to_pylist() == [5, 5, 8, 16]
    assert labels["clicks"].to_pylist() == [4, 0, 3, 7]
    data = RankingDataset.from_rows(
        np.zeros((4, 1)), ["a", "a", "b", "b"], doc_ids=[2, 11, 9, 10]
    )
    rows = rows_of(COUNTS, data)
    weights = weigh(rows, name, USERS)
    np.testing.assert_allclose(labels["relevance"], weights.weight)
    np.testing.assert_allclose(labels["standard_error"], standard_error(weights, rows))
    assert labels.schema.metadata[b"affinerank.estimator"].decode() == name


def test_labels_keep_the_split_and_are_debiased_by_part() -> None:
    first, second = COUNTS.halves(rng=np.random.default_rng(0))
    both = first.labelled("split", "train").table, second.labelled("split", "holdout")
    split = ClickCounts(pa.concat_tables([both[0], both[1].table]))
    labels = debias(split, USERS)
    assert labels.column_names[:3] == ["query_id", "doc_id", "split"]
    kept = labels.filter(pc.equal(labels["split"], "train")).drop_columns("split")
    assert kept.equals(debias(first, USERS))


def test_the_gauge_says_what_zero_and_one_mean() -> None:
    row = ESTIMATORS[ESTIMATOR]
    gauge = TrustModel(alpha=USERS.alpha, beta=USERS.beta, identified="gauge")
    estimated = replace(USERS, estimated=EstimatedBy("two-level"))
    texts = [
        debias(COUNTS, users).schema.metadata[GAUGE].decode()
        for users in (USERS, gauge, estimated)
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


def test_what_cannot_be_labelled_is_rejected() -> None:
    gauge = TrustModel(alpha=USERS.alpha, beta=USERS.beta, identified="gauge")
    for name, row in ESTIMATORS.items():
        if row.needs == "examination":
            with pytest.raises(ConfigError, match="up to gauge"):
                debias(COUNTS, gauge, estimator=name)
        if row.needs == "labels":
            with pytest.raises(DataError, match="labels"):
                debias(COUNTS, USERS, estimator=name)
    with pytest.raises(ConfigError, match="needs a user model"):
        debias(COUNTS)
    with pytest.raises(ConfigError, match="clip must be"):
        debias(COUNTS, USERS, clip="x")
    nothing = ClickCounts(COUNTS.table.filter(pc.equal(COUNTS.table["doc_id"], 3)))
    with pytest.raises(DataError, match="no impressions"):
        debias(nothing, USERS)
