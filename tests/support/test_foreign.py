"""From the outside: a folder with one file, whose rows go through all commands.

The file adds a row to each table. It is named on the command line, by a plan, or by an
entry point, and every command is a process of its own, as a user starts it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support import foreign

pytestmark = pytest.mark.slow

WORLD = "yahoo-like:60"
MODULE = "my_rows"
ADD_ROWS = """

import affinerank as ar

ar.ESTIMATORS.add(ESTIMATOR)
ar.METHODS.add(METHOD)
ar.CLICK_MODELS.add(CLICK_MODEL)
ar.POLICIES.add(POLICY)
ar.RANKERS.add(RANKER)
ar.LOSSES.add(LOSS)
"""
PLAN = """
name = "foreign"
runs = 2
clicks = [2e3]
group_networks = 4
figures = ["figure1", "figure3"]
click_models = ["first-click(patience=0.7)", "trust"]
policies = ["reverse(share=0.2, top_k=6)"]

[[data]]
name = "small"
source = "yahoo-like:60"

[[rankers]]
name = "ridge"
penalty = 2.0

[[rankers]]
name = "mlp"
hidden = [4]
epochs = 2
loss = "hinge"

[[grids]]
estimators = ["production", "full-information", "naive", "mean-affine"]

[[grids]]
click_models = ["trust"]
estimators = ["affine"]
click_model_from = ["rates"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that holds a plug-in of one file."""
    rows = Path(str(foreign.__file__)).read_text()
    (tmp_path / f"{MODULE}.py").write_text(rows + ADD_ROWS)
    return tmp_path


def install(folder: Path, module: str) -> None:
    """Write what an installed package with an entry point leaves in a folder."""
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    metadata.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n"
    )
    metadata.joinpath("entry_points.txt").write_text(
        f"[affinerank.rows]\n{module} = {module}\n"
    )


def run(
    folder: Path, *words: str, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command as a process; ``path`` is where packages are installed besides."""
    paths = [str(path)] if path else []
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    return subprocess.run(
        # As the `affinerank` command does: the current folder is not on Python's path.
        [sys.executable, "-P", "-m", "affinerank", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )


def answer(folder: Path, *words: str, path: Path | None = None) -> Any:
    """Run a command, and return what it says as JSON."""
    done = run(folder, *words, "--json", path=path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr  # of a second process
    return json.loads(done.stdout)


def complaint(folder: Path, *words: str, path: Path | None = None) -> str:
    """Run a command that must fail, and return the one line that it says."""
    done = run(folder, *words, path=path)
    assert done.returncode == 2, done.stderr
    [line] = done.stderr.splitlines()
    return line


def test_all_of_them_through_the_commands(folder: Path) -> None:
    named = ("--plugin", MODULE)
    about = answer(
        folder,
        *(*named, "simulate", WORLD, "--clicks", "2e4", "--counts", "counts.parquet"),
        *("--click-model", "first-click(patience=0.8)"),
        *("--save-click-model", "true.json", "--policy", "reverse(share=0.3)"),
        *("--top-k", "8", "--seed", "0"),
    )
    assert abs(about["clicks"] / about["expected_clicks"] - 1) < 0.05
    assert about["clicks"] <= about["sessions"]  # one click per session at most

    known = ("--data", WORLD, "--click-model", "true.json")
    trained = answer(
        folder,
        *(*named, "train", "counts.parquet", *known, "-o", "model"),
        *("--estimator", "mean-affine", "--ranker", "ridge", "--set", "penalty=3"),
    )
    assert trained["rankers"][0]["penalty"] == 3
    estimated = answer(
        folder,
        *(*named, "estimate", "counts.parquet", "--data", WORLD),
        *("--method", "rates", "-o", "estimated.json"),
    )
    assert estimated["method"] == "rates"
    evaluated = answer(folder, *named, "evaluate", "model", "--data", WORLD)
    assert 0 < evaluated["rankers"][-1]["mean"] < 1

    answer(
        folder,
        *(*named, "simulate", WORLD, "--split", "test", "--sessions", "3000"),
        *("--counts", "held.parquet", "--click-model", "first-click"),
    )
    value = answer(
        folder,
        *(*named, "evaluate", "model", *known, "--counts", "held.parquet"),
        *("--estimator", "mean-affine", "--metric", "DCG@3", "--replicates", "2"),
    )
    assert value["estimator"] == "mean-affine"
    labels = answer(
        folder,
        *(*named, "debias", "counts.parquet", "--click-model", "true.json"),
        *("--estimator", "mean-affine", "-o", "labels.parquet"),
    )
    assert "trust bias is not" not in labels["gauge"]
    answer(folder, *named, "audit", "counts.parquet", "-o", "audit.html")
    assert (folder / "audit.html").stat().st_size

    # What was saved with a plug-in says that it is missing.
    needed = "if a plug-in adds it, name the plug-in (affinerank --plugin MODULE"
    said = complaint(folder, "evaluate", "model", "--data", WORLD)
    assert f"there is no ranker 'ridge'; {needed}" in said
    said = complaint(folder, "train", "counts.parquet", *known, "-o", "other")
    assert f"there is no click model 'first-click'; {needed}" in said


def test_a_loss_of_ones_own_trains_a_network(folder: Path, tmp_path: Path) -> None:
    """By an entry point: nobody names the plug-in; help and commands know its rows."""
    install(folder, MODULE)
    work = tmp_path / "work"
    work.mkdir()
    answer(work, "simulate", WORLD, "--clicks", "5e3", "--counts", "counts.parquet")
    about = answer(
        work,
        *("train", "counts.parquet", "--data", WORLD, "--estimator", "naive"),
        *("-o", "model", "--ranker", "mlp", "--set", "loss=hinge"),
        *("--set", "hidden=4", "--set", "epochs=2"),
        path=folder,
    )
    assert about["rankers"][0]["epochs"] == 2
    listed = " ".join(run(work, "train", "--help", path=folder).stdout.split())
    assert "mean-affine" in listed
    assert "ridge" in listed


def test_all_of_them_in_a_plan_and_its_report(folder: Path) -> None:
    """Two processes share the groups, and each imports what the plan names."""
    plan = folder / "plan.toml"
    plan.write_text(f'plugins = ["{MODULE}"]\n{PLAN}')
    about = answer(
        folder,
        *("reproduce", "plan.toml", "--out", "run"),
        *("--device", "cpu", "--processes", "2"),
    )
    assert about["cells"] == about["planned"]
    answer(folder, "report", "run", "-o", "again.html")
    text = (folder / "again.html").read_text()
    for title in ("Mean affine", "Ridge regression", "Click rates"):
        assert title in text

    # Without its line the plan names rows that nobody added.
    plan.write_text(PLAN)
    said = complaint(folder, "reproduce", "plan.toml", "--out", "other")
    assert "there is no estimator 'mean-affine'" in said


def test_a_plugin_that_cannot_be_imported_is_one_sentence(folder: Path) -> None:
    said = complaint(folder, "--plugin", "absent", "demo")
    assert said == (
        "affinerank: the plug-in 'absent' could not be imported: "
        "ModuleNotFoundError: No module named 'absent'"
    )
    said = complaint(folder, "--plugin", f"{MODULE}.py", "demo")
    assert said.endswith(f"name the module, without .py: {MODULE}")

    # A row that is there already; the plug-in named twice is imported once.
    (folder / "second.py").write_text(
        "import affinerank as ar\nar.ESTIMATORS.add(ar.ESTIMATORS['affine'])\n"
    )
    twice = ("--plugin", MODULE, "--plugin", MODULE, "--plugin", "second")
    said = complaint(folder, *twice, "demo")
    assert "the plug-in 'second'" in said
    assert said.endswith("there is a estimator 'affine' already")


def test_a_broken_installed_plugin_is_a_warning_where_it_is_missed(
    folder: Path, tmp_path: Path
) -> None:
    install(folder, "broken")
    (folder / "broken.py").write_text("raise ValueError('not today')\n")
    work = tmp_path / "work"
    work.mkdir()
    simulated = ("simulate", WORLD, "--clicks", "5e3", "--counts", "counts.parquet")
    done = run(work, *simulated, path=folder)
    assert (done.returncode, "broken" in done.stderr) == (0, False), done.stderr
    done = run(work, "train", "--help", path=folder)
    assert done.returncode == 0
    [line] = done.stderr.splitlines()
    assert line == (
        "note: the installed plug-in broken (broken) could not be imported, so its "
        "rows are not known: ValueError: not today"
    )
