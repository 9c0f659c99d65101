"""Logs as they are: features per session, and values that are missing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.scaling import scaled_in_lists

from affinerank.cli import main
from affinerank.counts.counts import ClickCounts
from affinerank.data.dataset import RankingDataset
from affinerank.data.parquet import read_parquet
from affinerank.pipeline.train import train
from affinerank.rankers.loading import load_ranker
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.trees.lightgbm import TreeSettings
from affinerank.support.errors import DataError

# Ibis asks DuckDB by a method that DuckDB has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

Capture = pytest.CaptureFixture[str]
SMALL = NetworkSettings(hidden=(4,), epochs=2, device="cpu")
TREES = TreeSettings(trees=2, leaves=3, min_documents=2, threads=1)


def log_with_features(n_sessions: int = 60) -> pa.Table:
    """Sessions of four documents; the price changes with each, and is not always known.

    In every third session the price of one document is null; stock is always known.
    """
    rng = np.random.default_rng(0)
    rows = []
    for session in range(n_sessions):
        good = rng.integers(4)
        for rank in range(1, 5):
            document = int(rng.integers(10**6)) * 4 + rank
            price: float | None = float(rng.normal() + 3 * (rank - 1 == good))
            if session % 3 == 0 and rank == 2:
                price = None
            rows.append(
                {
                    "session_id": f"s{session}",
                    "query_id": f"q{session % 5}",
                    "doc_id": document,
                    "rank": rank,
                    "clicked": rank - 1 == good,
                    "label": int(rank - 1 == good),
                    "price": price,
                    "stock": float(rng.random()),
                }
            )
    return pa.Table.from_pylist(rows)


def features_of(table: pa.Table, path: Path) -> RankingDataset:
    pq.write_table(table.select(["session_id", "doc_id", "price", "stock"]), path)
    return read_parquet(path, list_id="session_id")


def counts_of(table: pa.Table) -> ClickCounts:
    ones = np.ones(table.num_rows, dtype=np.int64)
    return ClickCounts.from_columns(
        query_id=table["session_id"].to_pylist(),
        doc_id=table["doc_id"].to_numpy(),
        rank=table["rank"].to_numpy(),
        impressions=ones,
        clicks=table["clicked"].to_numpy(zero_copy_only=False).astype(np.int64),
    )


def test_networks_fill_what_is_missing_and_report_it(tmp_path: Path) -> None:
    table = log_with_features()
    data = features_of(table, tmp_path / "features.parquet")
    trained = train(
        counts_of(table), data, ranker="mlp", estimators=["naive"], settings=SMALL
    )
    ranker: Any = trained.rankers["naive", 0]
    assert ranker.mapping.fill is not None
    filled = dict(zip(ranker.mapping.names, ranker.mapping.fill, strict=True))
    assert trained.imputed == [
        {
            "feature": "price",
            "missing": 20,
            "share": 20 / 240,
            "median": filled["price"],
            "member": "mlp",
        }
    ]
    scaled = scaled_in_lists(data).features[:, 0]
    assert filled["price"] == pytest.approx(np.nanmedian(scaled), abs=0.01)
    assert np.isfinite(ranker.predict(ranker.mapping.apply(data).features)).all()


def test_trees_are_given_what_is_missing_as_it_is(tmp_path: Path) -> None:
    table = log_with_features()
    data = features_of(table, tmp_path / "features.parquet")
    trained = train(
        counts_of(table),
        data,
        ranker="lightgbm",
        estimators=["naive"],
        settings=TREES,
    )
    ranker: Any = trained.rankers["naive", 0]
    mapping = ranker.mapping
    assert mapping.fill is None
    assert np.isnan(mapping.apply(data).features).sum() == 20


def answered(capsys: Capture, *arguments: str) -> Any:
    status = main([*arguments, "--json"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    return json.loads(printed.out)


def test_a_log_with_features_per_session_goes_from_count_to_evaluate(
    tmp_path: Path, capsys: Capture
) -> None:
    """The log itself is the feature table: its own columns are no features."""
    log, counts = tmp_path / "log.parquet", tmp_path / "counts.parquet"
    model, text = tmp_path / "model", tmp_path / "again"
    pq.write_table(log_with_features(), log)
    by_session = ["--list-id", "session_id"]
    command = ["count", str(log), "-o", str(counts), "--holdout", "0.3"]
    counted = answered(capsys, *command, *by_session)
    assert counted["queries"] == counted["sessions"] == 60
    learn = ["train", str(counts), "--data", str(log), *by_session]
    learn += ["--estimator", "naive", "--ranker", "mlp"]
    learn += ["--set", "epochs=1", "--set", "hidden=4"]
    about = answered(capsys, *learn, "-o", str(model))
    assert [row["feature"] for row in about["imputed"]] == ["price"]
    assert about["unmatched"]["documents"] == 0
    assert set(load_ranker(model).features) == {"price", "stock"}
    assert main([*learn, "-o", str(text)]) == 0
    assert "price is missing 20 times (8.3%)" in " ".join(
        capsys.readouterr().out.split()
    )
    evaluator = ["evaluate", str(model), "--data", str(log), "--relevant-above", "0"]
    evaluated = answered(capsys, *evaluator, *by_session)
    assert 0 < evaluated["rankers"][0]["mean"] <= 1
    assert evaluated["left_out"] + evaluated["queries"] == 60


def test_a_list_id_is_a_column_of_parquet(capsys: Capture, tmp_path: Path) -> None:
    counts = tmp_path / "counts.parquet"
    counts_of(log_with_features(20)).save(counts)
    command = ["train", str(counts), "--data", "yahoo-like:20", "-o", "m"]
    assert main([*command, "--estimator", "naive", "--list-id", "session_id"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "--list-id" in last
    assert "yahoo-like:20" in last


def test_counts_by_query_do_not_match_features_by_session(tmp_path: Path) -> None:
    table = log_with_features(20)
    data = features_of(table, tmp_path / "features.parquet")
    by_query = ClickCounts.from_columns(
        query_id=["q0"], doc_id=[1], rank=[1], impressions=[1], clicks=[1]
    )
    with pytest.raises(DataError, match="'q0', 1"):
        train(by_query, data, ranker="mlp", estimators=["naive"], settings=SMALL)
