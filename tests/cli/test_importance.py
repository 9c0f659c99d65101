"""Importance, and parameters of trees, from the command line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import affinerank as ar
from affinerank.cli import main

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(
    small_log: tuple[str, str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, tuple[str, str, str]]:
    """Trees on counts of queries of which some were held out by the tuning."""
    counts, click_model, world = small_log
    folder = tmp_path_factory.mktemp("importance") / "trees"
    asked = [
        "train",
        counts,
        "--data",
        world,
        "--click-model",
        click_model,
        "-o",
        str(folder),
    ]
    asked += ["--ranker", "lightgbm", "--estimator", "affine", "--importance"]
    more = ["--set", "trees=5", "--set", "num_leaves=7", "--set", "lambda_l2=0.5"]
    assert main([*asked, *more]) == 0
    return folder, small_log


def test_train_keeps_what_features_are_worth(trained: Any, capsys: Any) -> None:
    folder, _ = trained
    about = json.loads((folder / "ranker.json").read_text())["provenance"]
    assert about["settings"]["leaves"] == 7
    assert about["settings"]["params"] == ["lambda_l2=0.5"]
    rows = about["importance"]["features"]
    assert set(rows[0]) == {"feature", "gain", "loss", "standard_error"}
    assert sum(row["gain"] for row in rows) == pytest.approx(1.0)
    assert all(row["loss"] == 0.0 for row in rows if row["gain"] == 0.0)
    assert about["importance"]["queries"] > 0
    assert main(["importance", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == about["importance"]
    assert main(["importance", str(folder)]) == 0
    assert "share of gain" in capsys.readouterr().out


def test_other_clicks_say_what_features_are_worth(trained: Any, capsys: Any) -> None:
    folder, (counts, click_model, world) = trained
    asked = [
        "importance",
        str(folder),
        "--counts",
        counts,
        "--click-model",
        click_model,
    ]
    assert main(asked) == 2
    assert "--counts and --data go together" in capsys.readouterr().err
    assert main([*asked, "--data", world, "--split", "train"]) == 2
    assert "did not learn from; hold queries out" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::affinerank.support.errors.AffineRankWarning")
def test_validation_says_what_features_are_worth(
    small_log: tuple[str, str, str],
) -> None:
    counts, click_model, world = small_log
    data = ar.load(world)
    clicks, known = ar.ClickCounts.load(counts), ar.load_click_model(click_model)
    trained = ar.train(
        clicks,
        data.train,
        known,
        ranker="xgboost",
        settings=ar.ranker_settings("xgboost", ["trees=5", "patience=3"]),
        estimators=["affine"],
        validation=(clicks, data.train),
        importance=True,
    )
    (ranker,) = trained.rankers.values()
    rows = ranker.provenance["importance"]["features"]
    assert max(row["loss"] for row in rows) > 0
    with pytest.raises(ar.DataError, match="did not learn from"):
        ar.feature_importance(ranker, clicks, data.train, known)
    fresh = replace(ranker, training_queries=ranker.training_queries[:20])
    found = ar.feature_importance(fresh, clicks, data.train, known)
    assert 0 < found.queries <= len(ranker.training_queries) - 20
    assert found.frame().num_rows == len(ranker.features)


def test_nothing_held_out_is_refused(
    small_log: tuple[str, str, str], tmp_path: Path, capsys: Any
) -> None:
    counts, click_model, world = small_log
    asked = [
        "train",
        counts,
        "--data",
        world,
        "--click-model",
        click_model,
        "--importance",
    ]
    asked += ["--ranker", "lightgbm", "--tuning", "none", "-o", str(tmp_path / "m")]
    assert main(asked) == 2
    assert "importance needs held-out queries" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()
