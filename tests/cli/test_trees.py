"""LightGBM rankers from clicks: the paper's result with trees, and the command."""

import json
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

from affinerank.cli import main
from affinerank.clicks.simulation import simulate_counts
from affinerank.counts.counts import ClickCounts
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.sources import DataSource
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.train import train
from affinerank.rankers.ranker import score
from affinerank.rankers.trees.lightgbm import TreeSettings

pytestmark = pytest.mark.slow

TREES = ["--ranker", "lightgbm", "--set", "trees=4", "--set", "leaves=4"]


def test_trees_on_affine_weights_beat_naive_ones_and_production() -> None:
    """Means of four runs, seeds 0 to 3."""
    source = DataSource.parse("yahoo-like:200")
    data, test = source.read("train"), source.read("test")
    runs: dict[str, list[float]] = {"production": [], "naive": [], "affine": []}
    for seed in range(4):
        production = train_production_ranker(data, seed=seed)
        simulation = prepare_simulation(data, rankers={"p": production}, seed=seed)
        n_sessions = simulation.sessions_for(1e6)
        counts = simulate_counts(
            simulation, n_sessions, rng=np.random.default_rng(seed)
        )
        trained = train(
            counts,
            data,
            simulation.click_model,
            ranker="lightgbm",
            estimators=["naive", "affine"],
            settings=TreeSettings(trees=60, leaves=8, learning_rate=0.1, threads=1),
        )
        rankers = {name: ranker for (name, _), ranker in trained.rankers.items()}
        for name, ranker in {"production": production, **rankers}.items():
            runs[name].append(evaluate_scores(score(ranker, test), test, 2.0).mean)
    value = {name: float(np.mean(means)) for name, means in runs.items()}
    assert value["affine"] > value["naive"] + 0.03
    assert value["affine"] > value["production"] + 0.01


def test_trees_are_trained_evaluated_and_read_by_any_lightgbm(
    small_log: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts, click_model, world = small_log
    target = tmp_path / "models"
    both = ["--estimator", "naive", "--estimator", "affine", "--clip", "0.05"]
    arguments = ["train", counts, "--data", world, "--click-model", click_model, *TREES]
    assert main([*arguments, *both, "-o", str(target), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert [row["estimator"] for row in about["rankers"]] == ["naive", "affine"]
    assert {row["trees"] for row in about["rankers"]} <= {1, 2, 3, 4}  # chosen
    models = [row["written"] for row in about["rankers"]]
    assert main(["evaluate", *models, "--data", world, "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)["rankers"]
    assert [row["ranker"] for row in evaluated] == ["production", *models]
    written = json.loads((target / "affine" / "ranker.json").read_text())
    assert written["kind"] == "lightgbm"
    assert written["provenance"]["estimator"] == "affine"
    assert written["provenance"]["clip"] == "0.05"
    assert written["provenance"]["settings"]["learning_rate"] == 0.1
    plain = lgb.Booster(model_file=str(target / "affine" / "model.txt"))
    data = DataSource.parse(world).read("test")
    mapping = FeatureMapping(tuple(written["features"]), written["scaling"])
    assert np.ptp(plain.predict(mapping.apply(data).features)) > 0


def test_trees_stop_early_on_held_out_clicks(
    small_log: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts, click_model, world = small_log
    split = tmp_path / "split.parquet"
    ClickCounts.load(counts).holdout(0.3).save(split)
    arguments = [
        "--data",
        world,
        "--click-model",
        click_model,
        *TREES,
        "--patience",
        "1",
    ]
    target = str(tmp_path / "model")
    assert main(["train", str(split), *arguments, "-o", target]) == 0
    assert "best held out" in capsys.readouterr().out
    assert main(["train", counts, *arguments, "-o", str(tmp_path / "none")]) == 2
    assert "needs held-out clicks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--ranker", "forest"], "there is no ranker 'forest'"),
        ([*TREES, "--set", "hidden=8"], "there is no key 'hidden'"),
        ([*TREES, "--checkpoint", "x"], "checkpoint"),
        (["--set", "trees=0"], "trees must be 1"),
        ([*TREES, "--set", "learning_rate=0"], "learning_rate must be above 0, got 0"),
        ([*TREES, "--estimator", "magic"], "there is no estimator 'magic'"),
    ],
)
def test_wrong_input_is_one_sentence_and_leaves_nothing(
    small_log: tuple[str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    extra: list[str],
    message: str,
) -> None:
    counts, click_model, world = small_log
    target = tmp_path / "model"
    arguments = ["train", counts, "--data", world, "--click-model", click_model, *extra]
    assert main([*arguments, "-o", str(target)]) == 2
    assert message in capsys.readouterr().err
    assert not target.exists()
