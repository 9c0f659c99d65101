"""``affinerank export``: what it writes and prints, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from affinerank.cli import main
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.export.engine_trees import TREE_ENGINES
from affinerank.rankers.networks.model import Networks, initial_parameters
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.ranker import Ranker
from affinerank.rankers.trees.lightgbm import fit_lambdamart

pytestmark = pytest.mark.slow

pytest.importorskip("onnxruntime")
NAMES = tuple(f"f{i}" for i in range(1, 11))


@pytest.fixture
def network(tmp_path: Path) -> Path:
    settings = NetworkSettings(hidden=(8, 4), device="cpu")
    parameters = tuple(initial_parameters(len(NAMES), [3], settings))
    networks = Networks(parameters, len(NAMES), settings, (3,))
    Ranker("mlp", networks, FeatureMapping(NAMES), {}).save(tmp_path / "network")
    return tmp_path / "network"


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    features = np.random.default_rng(0).random((200, 10)).astype(np.float32)
    labels = (features[:, 4] > 0.6).astype(np.float32)
    model = fit_lambdamart(features, labels, np.arange(0, 201, 20))
    Ranker("lightgbm", model, FeatureMapping(NAMES), {}).save(tmp_path / "trees")
    return tmp_path / "trees"


def test_a_network_is_written_and_the_largest_difference_printed(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "ranker.onnx"
    assert main(["export", str(network), "--to", "onnx", "-o", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "max difference" in printed.splitlines()[-1]
    assert str(output) in printed
    about = json.loads((tmp_path / "ranker.onnx.json").read_text())
    assert about["features"] == list(NAMES)


def test_trees_of_raw_features_go_to_search_engines_and_scaled_ones_do_not(
    trees: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "model.json"
    words = ["export", str(trees), "--to", "opensearch", "-o", str(output)]
    assert main(words) == 2
    assert "train with --scaling none" in capsys.readouterr().err
    assert not output.exists()
    about = json.loads((trees / "ranker.json").read_text())
    (trees / "ranker.json").write_text(json.dumps({**about, "scaling": "none"}))
    assert main(words) == 0
    assert str(output) in capsys.readouterr().out
    used = {tree["split"] for tree in json.loads(output.read_text())}
    assert used <= set(NAMES)
    parity = json.loads((tmp_path / "model.json.json").read_text())["parity"]
    assert 0 < parity["relative"] < 1e-6
    assert parity["made_up"] > 1_000


def test_data_of_ones_own_are_compared_on(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", str(network), "--to", "onnx", "-o", str(tmp_path / "a.onnx")]
    assert main([*words, "--data", "yahoo-like:40", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["parity"]["lists"] == 14
    assert printed["parity"]["relative"] < 1e-5


@pytest.mark.parametrize("to", [*TREE_ENGINES])
def test_every_engine_s_file_is_compared(
    trees: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str
) -> None:
    about = json.loads((trees / "ranker.json").read_text())
    (trees / "ranker.json").write_text(json.dumps({**about, "scaling": "none"}))
    words = ["export", str(trees), "--to", to, "-o", str(tmp_path / "model")]
    assert main(words) == 0
    printed = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert printed[-1].startswith("max difference")
    assert "of the largest score" in printed[-1]
    assert any("1,850 documents of 100 lists, 3,000 made up" in x for x in printed)
    assert not any(x.startswith("left out") for x in printed)
    assert main([*words, "--json"]) == 0
    parity = json.loads(capsys.readouterr().out)["parity"]
    assert parity["relative"] < 1e-6
    assert json.loads((tmp_path / "model.json").read_text())["parity"] == parity


def test_the_share_that_solr_cannot_decide_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trees split at -1e-35, and Solr not below -1e-13; 1 of 4 values lies between."""
    features = np.repeat([[-1.0], [0.0]], 100, axis=0).astype(np.float32)
    labels = (features[:, 0] < 0).astype(np.float32)
    model = fit_lambdamart(features, labels, np.array([0, 200]))
    Ranker("lightgbm", model, FeatureMapping(("f1",), "none"), {}).save(tmp_path / "m")
    rows = [f"0 qid:{i // 4} 1:{(-1, -1e-20, 0, 1)[i % 4]}" for i in range(40)]
    (tmp_path / "few.txt").write_text("\n".join(rows) + "\n")
    words = ["export", str(tmp_path / "m"), "--to", "solr"]
    words += ["-o", str(tmp_path / "file"), "--data", str(tmp_path / "few.txt")]
    assert main(words) == 0
    assert "25.00% of the lists' documents" in capsys.readouterr().out


def test_a_file_that_scores_otherwise_is_one_sentence_and_leaves_nothing(
    trees: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    about = json.loads((trees / "ranker.json").read_text())
    (trees / "ranker.json").write_text(json.dumps({**about, "scaling": "none"}))
    sound = TREE_ENGINES["vespa"]
    faulty = replace(sound, write=lambda t, names: sound.write(t[:-1], names))
    monkeypatch.setitem(TREE_ENGINES, "vespa", faulty)
    before = sorted(tmp_path.iterdir())
    words = ["export", str(trees), "--to", "vespa", "-o", str(tmp_path / "model")]
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "not 1e-05" in said.err
    assert sorted(tmp_path.iterdir()) == before


def test_the_text_of_trees_is_the_ranker_s_own(trees: Path, tmp_path: Path) -> None:
    output = tmp_path / "ranker.txt"
    assert main(["export", str(trees), "--to", "lightgbm", "-o", str(output)]) == 0
    assert output.read_bytes() == (trees / "model.txt").read_bytes()
    about = json.loads((tmp_path / "ranker.txt.json").read_text())
    assert about["normalisation"]["done_by"] == "the caller"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["network", "--to", "pmml", "-o", "a"], "there is no export format 'pmml'"),
        (["network", "--to", "lightgbm", "-o", "a"], "mlp cannot be written as"),
        (["nothing", "--to", "onnx", "-o", "a"], "no ranker's folder"),
        (["network", "--to", "onnx", "-o", "no/a"], "there is no folder no"),
        (["network", "--to", "onnx", "-o", "network"], "this is a folder"),
        (["network", "--to", "onnx", "-o", "network/ranker.json"], "own folder"),
        (["network", "--to", "onnx"], "Missing option"),
        (
            ["network", "--to", "onnx", "-o", "a", "--data", "few.txt"],
            "neither a file",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_loses_nothing(
    network: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(network.parent)
    before = {p: p.read_bytes() for p in network.parent.rglob("*") if p.is_file()}
    assert main(["export", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert sentence in said.err
    after = {p: p.read_bytes() for p in network.parent.rglob("*") if p.is_file()}
    assert after == before
