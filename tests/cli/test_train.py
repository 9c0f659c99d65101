"""From clicks to rankers: the paper's result at small size, and the commands for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from affinerank.cli import main
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.sources import DataSource
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.steps.weighing import weigh
from affinerank.pipeline.train import train
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.ranker import score
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError

pytestmark = pytest.mark.slow

SMALL = NetworkSettings(
    hidden=(32, 16),
    dropout=(0.0, 0.1),
    epochs=6,
    learning_rate=0.01,
    device="cpu",
)
ESTIMATORS = ("naive", "ips", "bayes-ips", "affine", "full-information")


def test_affine_beats_the_others_and_nears_full_information() -> None:
    """The result of the benchmark at a size for tests: four runs, seeds 0 to 3."""
    source = DataSource.parse("yahoo-like:500")
    data, test = source.read("train"), source.read("test")
    means: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    for seed in range(4):
        ranker = train_production_ranker(data, seed=seed)
        simulation = prepare_simulation(data, rankers={"p": ranker}, seed=seed)
        counts = simulate_counts(
            simulation,
            simulation.sessions_for(1e6),
            rng=np.random.default_rng([seed, 2]),
        )
        trained = train(
            counts,
            data,
            simulation.click_model,
            estimators=ESTIMATORS,
            seeds=[seed],
            ranker="mlp",
            settings=SMALL,
            tuning="none",
        )
        for (name, _), fitted in trained.rankers.items():
            means[name].append(evaluate_scores(score(fitted, test), test, 2.0).mean)
    value = {name: float(np.mean(runs)) for name, runs in means.items()}
    assert value["naive"] + 0.02 < value["ips"]
    assert value["naive"] + 0.03 < value["affine"]
    assert value["ips"] < value["affine"]
    assert value["full-information"] - 0.015 < value["affine"]


@pytest.mark.skipif(
    "AFFINERANK_DATA" not in os.environ,
    reason="AFFINERANK_DATA does not name a folder with the real sets",
)
def test_affine_nears_full_information_on_mq2008() -> None:
    source = DataSource.parse(str(Path(os.environ["AFFINERANK_DATA"]) / "mq2008"))
    data, test = source.read("train"), source.read("test")
    gaps = []
    for seed in range(4):
        simulation = prepare_simulation(data, relevant_above=0, seed=seed)
        counts = simulate_counts(
            simulation, simulation.sessions_for(1e6), rng=np.random.default_rng(seed)
        )
        trained = train(
            counts,
            data,
            simulation.click_model,
            estimators=["affine", "full-information"],
            seeds=[seed],
            ranker="mlp",
            settings=SMALL,
            tuning="none",
            relevant_above=0,
        )
        affine, full = (
            evaluate_scores(score(r, test), test, 0).mean
            for r in trained.rankers.values()
        )
        gaps.append(full - affine)
    assert np.mean(gaps) < 0.01


def test_documents_below_the_cutoff_have_no_weight() -> None:
    data = DataSource.parse("yahoo-like:40").read("train")
    simulation = prepare_simulation(data, traffic=Traffic(top_k=5))
    counts = simulate_counts(simulation, 4000, rng=np.random.default_rng(0))
    weights = weigh(join_counts(counts, data), "affine", simulation.click_model)
    per_query = np.add.reduceat(weights.known.astype(int), data.offsets[:-1])
    np.testing.assert_array_equal(per_query, np.minimum(data.docs_per_query, 5))


NETWORK = [
    "--ranker",
    "mlp",
    "--set",
    "hidden=8,4",
    "--set",
    "epochs=2",
    "--set",
    "device=cpu",
]
PLAIN = ["--estimator", "affine", "--tuning", "none", *NETWORK]


def test_train_and_evaluate_from_the_command_line(
    small_log: tuple[str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts, click_model, world = small_log
    capsys.readouterr()
    arguments = [
        "train",
        counts,
        "--data",
        world,
        "--click-model",
        click_model,
        *NETWORK,
    ]
    assert main([*arguments, "-o", str(tmp_path / "one"), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    (row,) = about["rankers"]
    assert row["estimator"] == "posterior"
    assert row["learning_rate"] in (0.001, 0.004)
    assert 1 <= row["length"] <= 2
    fixed = ["--estimator", "affine", "--set", "learning_rate=0.01", "--json"]
    assert main([*arguments, *fixed, "-o", str(tmp_path / "fixed")]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rankers"]
    assert row["learning_rate"] == 0.01
    paper = ["--estimator", "affine", "--tuning", "none", "--json"]
    assert main([*arguments, *paper, "-o", str(tmp_path / "paper")]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rankers"]
    assert row["epochs"] == 2
    assert "learning_rate" not in row
    both = ["--estimator", "naive", "--estimator", "affine", "--clip", "10/sqrt(n)"]
    both += ["--tuning", "none"]
    assert main([*arguments, *both, "-o", str(tmp_path / "two")]) == 0
    assert "naive" in capsys.readouterr().out
    models = [str(tmp_path / "two" / "naive"), str(tmp_path / "two" / "affine")]
    assert main(["evaluate", *models, "--data", world, "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["metric"].startswith("nDCG@10 (linear gain")
    names = ["production", *models]
    assert [row["ranker"] for row in about["rankers"]] == names
    assert [row["first"] for row in about["comparisons"]] == models
    assert main(["evaluate", models[0], "--data", world, "--metric", "P@5"]) == 0
    assert "P@5" in capsys.readouterr().out


def test_torchrun_trains_in_two_processes_what_one_does_by_the_default_estimator(
    small_log: tuple[str, str, str], tmp_path: Path
) -> None:
    counts, click_model, world = small_log
    arguments = [
        "train",
        counts,
        "--data",
        world,
        "--click-model",
        click_model,
        *NETWORK,
        "-o",
    ]
    assert main([*arguments, str(tmp_path / "one")]) == 0
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    command = [sys.executable, "-m", *torchrun, "affinerank", *arguments]
    subprocess.run(
        [*command, str(tmp_path / "two")],
        check=True,
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    one, two = (load_file(tmp_path / n / "model.safetensors") for n in ("one", "two"))
    assert one.keys() == two.keys()
    for name, values in one.items():
        np.testing.assert_allclose(two[name], values, rtol=1e-4, atol=1e-5)


def test_early_stopping_from_the_command_line(
    small_log: tuple[str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts, click_model, world = small_log
    held = str(tmp_path / "held.parquet")
    simulate = ["simulate", world, "--split", "validation", "--sessions", "500"]
    assert main([*simulate, "--counts", held]) == 0
    arguments = [
        "train",
        counts,
        "--data",
        world,
        "--click-model",
        click_model,
        *NETWORK,
    ]
    arguments += ["--estimator", "affine"]
    target = str(tmp_path / "model")
    assert (
        main([*arguments, "--validation", held, "--patience", "1", "-o", target]) == 0
    )
    assert (tmp_path / "model" / "ranker.json").exists()
    ClickCounts.load(counts).holdout(0.3).save(tmp_path / "split.parquet")
    arguments[1] = str(tmp_path / "split.parquet")
    assert main([*arguments, "--patience", "1", "-o", str(tmp_path / "other")]) == 0
    arguments[1] = counts
    assert main([*arguments, "--patience", "1", "-o", str(tmp_path / "none")]) == 2
    assert "needs held-out clicks" in capsys.readouterr().err


def test_repeating_a_training_over_seeds_keeps_the_data(
    small_log: tuple[str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts, click_model, world = small_log
    arguments = ["train", counts, "--data", world, "--click-model", click_model, *PLAIN]
    assert main([*arguments, "--seed", "7", "-o", str(tmp_path / "seven")]) == 0
    assert "without features" not in capsys.readouterr().err
    elsewhere = [
        "train",
        counts,
        "--data",
        f"{world}@1",
        "--click-model",
        click_model,
        *PLAIN,
    ]
    assert main([*elsewhere, "-o", str(tmp_path / "other")]) == 2
    assert "are these the data that the log is about?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--estimator", "magic"], "there is no estimator 'magic'"),
        (["--clip", "ten"], "clip must be a number or a rule"),
        (["--clip", "0.1"], "posterior does not divide by alpha"),
        (["--tuning", "magic"], "tuning must be held-out or none"),
        (["--set", "hidden=many"], "hidden[0] must be a whole number, got 'many'"),
        (["--set", "loss=hinge"], "there is no loss 'hinge'"),
        (["--set", "loops=3"], "there is no key 'loops'"),
        (["--set", "epochs"], "expected KEY=VALUE, got 'epochs'"),
        (["--set", "device=cuda:99"], "there is no device cuda:99"),
        (["--set", "device=meta"], "device must be auto, cpu or cuda"),
        (["--seed", "99999999999999999999"], "Invalid value for '--seed'"),
        (["-o", "nowhere/model"], "there is no folder nowhere to write into"),
        (["--strict"], "the click model ends at rank 2"),
    ],
)
def test_wrong_training_input_is_one_sentence_and_leaves_nothing(
    small_log: tuple[str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    extra: list[str],
    message: str,
) -> None:
    counts, _, world = small_log
    click_model = tmp_path / "short.json"
    TrustModel.from_eps([1.0, 0.5], [0.9, 0.9], [0.1, 0.1]).save(click_model)
    capsys.readouterr()
    target = tmp_path / "model"
    arguments = [
        "train",
        counts,
        "--click-model",
        str(click_model),
        "-o",
        str(target),
        *NETWORK,
    ]
    assert main([*arguments, "--data", world, *extra]) == 2
    printed = capsys.readouterr()
    assert printed.err.splitlines()[-1].startswith("affinerank: ")
    assert message in printed.err
    assert not target.exists()


def test_an_existing_folder_is_refused_before_any_training(
    small_log: tuple[str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts, click_model, world = small_log
    (tmp_path / "model").mkdir()
    arguments = ["train", counts, "--data", world, "--click-model", click_model]
    assert main([*arguments, "-o", str(tmp_path / "model")]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_model_for_other_features_is_refused(
    small_log: tuple[str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts, click_model, world = small_log
    target = str(tmp_path / "model")
    arguments = ["train", counts, "--data", world, "--click-model", click_model, *PLAIN]
    assert main([*arguments, "-o", target]) == 0
    assert main(["evaluate", target, "--data", "mslr-like:20"]) == 2
    assert "the data lack" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path), "--data", world]) == 2
    assert "no ranker's folder, as train writes it" in capsys.readouterr().err
    nothing = ["evaluate", target, "--data", world, "--relevant-above", "9"]
    assert main(nothing) == 2
    assert "no query has a label above 9" in capsys.readouterr().err


def test_counts_that_share_no_document_with_the_data_are_refused() -> None:
    counts = ClickCounts.from_columns(
        query_id=["x"], doc_id=["y"], rank=[1], impressions=[1], clicks=[1]
    )
    data = RankingDataset.from_rows([[1.0], [2.0]], ["q", "q"])
    with pytest.raises(DataError, match="share no document"):
        train(counts, data, TrustModel.paper(), ranker="mlp", settings=SMALL)


def test_users_that_clicks_cannot_tell_are_rejected() -> None:
    data = RankingDataset.from_rows([[1.0], [2.0]], ["q", "q"])
    counts = ClickCounts.from_columns(
        query_id=["q", "q"],
        doc_id=[0, 1],
        rank=[1, 2],
        impressions=[4, 4],
        clicks=[1, 0],
    )
    with pytest.raises(ConfigError, match="ips has to know examination"):
        train(counts, data, None, estimators=["ips"], ranker="mlp", settings=SMALL)
    with pytest.raises(DataError, match="clicks"):
        train(counts, data, None, ranker="mlp", settings=SMALL)
    with pytest.warns(AffineRankWarning, match="1 queries were issued, too few"):
        trained = train(
            counts, data, None, estimators=["naive"], ranker="mlp", settings=SMALL
        )
    assert ("naive", 0) in trained.rankers
