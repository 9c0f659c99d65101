"""What most users need runs where torch is not installed; the rest says what to do."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_whole_path import LOG_COLUMNS, PRODUCTS, SHOP

from affinerank.support.errors import MissingLibraryError
from affinerank.support.extras import missing_library_named

# A process that has neither torch, nor what came with it.
WITHOUT_TORCH = """
import importlib.abc, importlib.util, sys

class NotInstalled(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "safetensors"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "torch" else found(name)
sys.meta_path.insert(0, NotInstalled())
from affinerank.cli import main

for words in COMMANDS:
    status = main(words)
    print("status", status, flush=True)
"""
SIMULATE = [
    *("simulate", SHOP, "--clicks", "4000", "--log", "log.csv"),
    *("--features", "products.csv"),
]
ON_THE_LOG = ["log.csv", *LOG_COLUMNS]
ON_COUNTS = ["counts.parquet", *PRODUCTS]
CLICK_MODEL = ["--click-model", "click-model.json"]
QUICK = ["--set", "trees=20"]


def run_without_torch(
    folder: Path, commands: list[list[str]]
) -> tuple[list[int], list[str]]:
    """Run commands in one process; return their statuses, and the lines on stderr."""
    code = WITHOUT_TORCH.replace("COMMANDS", repr(commands))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    statuses = [int(line.split()[1]) for line in lines if line.startswith("status ")]
    return statuses, done.stderr.splitlines()


def test_the_whole_path_needs_no_torch(tmp_path: Path) -> None:
    commands = [
        SIMULATE,
        ["count", *ON_THE_LOG, "--holdout", "0.2"],
        ["audit", *ON_THE_LOG],
        ["estimate", *ON_COUNTS, "-o", "click-model.json"],
        ["estimate", *ON_COUNTS, "--method", "interventions", "-o", "moved.json"],
        ["debias", *ON_COUNTS, *CLICK_MODEL, "-o", "labels.parquet"],
        ["train", *ON_COUNTS, *CLICK_MODEL, *QUICK, "-o", "blend"],
        ["train", *ON_COUNTS, *CLICK_MODEL, *QUICK, "--for", "solr", "-o", "trees"],
        ["train", *ON_COUNTS, *CLICK_MODEL, "--auto", "--budget", "5s", "-o", "auto"],
        ["evaluate", "blend", "--data", SHOP],
        ["evaluate", "blend", *PRODUCTS, "--counts", "counts.parquet", *CLICK_MODEL],
        ["importance", "blend"],
        ["rank", "blend", *PRODUCTS, "-o", "ranked.parquet"],
        ["export", "blend", "--to", "onnx", "-o", "blend.onnx"],
        ["export", "trees", "--to", "solr", "-o", "trees.json"],
    ]
    statuses, said = run_without_torch(tmp_path, commands)
    assert statuses == [0] * len(commands), said


def test_what_needs_torch_says_so_in_one_sentence(tmp_path: Path) -> None:
    commands = [
        SIMULATE,
        ["count", *ON_THE_LOG],
        ["train", *ON_COUNTS, "--ranker", "mlp", "-o", "network"],
        ["estimate", *ON_COUNTS, "--method", "em-three", "-o", "click-model.json"],
        ["reproduce", "figure1", "--profile", "smoke", "--out", "run"],
    ]
    statuses, said = run_without_torch(tmp_path, commands)
    assert statuses == [0, 0, 2, 2, 2], said
    errors = [line for line in said if line.startswith("affinerank: ")]
    assert len(errors) == 3
    for line in errors:
        assert "need torch, which is not installed" in line
        assert line.endswith("pip install 'affinerank[networks]'")
    assert not {"network", "click-model.json", "run"} & {
        p.name for p in tmp_path.iterdir()
    }


def test_only_libraries_of_an_extra_are_explained() -> None:
    extra = r"affinerank\[networks\]"
    with pytest.raises(MissingLibraryError, match=extra), missing_library_named():
        raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")
    with pytest.raises(ModuleNotFoundError, match="nothing"), missing_library_named():
        raise ModuleNotFoundError("No module named 'nothing'", name="nothing")
