"""A foreign row of each table goes through every command, a plan and its report."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support import foreign

from affinerank.bias import METHODS
from affinerank.cli import main
from affinerank.clicks.models import CLICK_MODELS
from affinerank.clicks.policies import POLICIES
from affinerank.estimators import ESTIMATORS
from affinerank.rankers import RANKERS
from affinerank.rankers.networks.losses import LOSSES, Loss

pytestmark = pytest.mark.slow

WORLD = "yahoo-like:60"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def rows() -> Iterator[None]:
    """Every table with a row that the package does not know."""

    def hinge(scores: Any, batch: Any) -> Any:
        gap = (1.0 - scores * batch.weights.sign()).clamp(min=0.0)
        return (gap * batch.known * batch.share).sum(dim=1)

    with ExitStack() as stack:
        stack.enter_context(ESTIMATORS.added(foreign.ESTIMATOR))
        stack.enter_context(METHODS.added(foreign.METHOD))
        stack.enter_context(CLICK_MODELS.added(foreign.CLICK_MODEL))
        stack.enter_context(POLICIES.added(foreign.POLICY))
        stack.enter_context(RANKERS.added(foreign.RANKER))
        stack.enter_context(LOSSES.added(Loss("hinge", "Hinge", hinge)))
        yield


def answered(capsys: Capture, *arguments: str) -> Any:
    capsys.readouterr()
    status = main([*arguments, "--json"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    return json.loads(printed.out)


@pytest.fixture
def log(tmp_path: Path, capsys: Capture) -> tuple[str, str]:
    """Counts and users drawn from the foreign click model and policy."""
    counts, click_model = (
        str(tmp_path / "counts.parquet"),
        str(tmp_path / "click-model.json"),
    )
    about = answered(
        capsys,
        *("simulate", WORLD, "--clicks", "2e4", "--counts", counts),
        *(
            "--click-model",
            "first-click(patience=0.8)",
            "--save-click-model",
            click_model,
        ),
        *("--policy", "reverse(share=0.3)", "--top-k", "8"),
    )
    assert abs(about["clicks"] / about["expected_clicks"] - 1) < 0.05
    assert about["clicks"] <= about["sessions"]  # one click per session at most
    return counts, click_model


def test_all_of_them_through_the_commands(
    log: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    counts, click_model = log
    model, estimated = str(tmp_path / "model"), str(tmp_path / "estimated.json")
    trained = answered(
        capsys,
        *("train", counts, "--data", WORLD, "--click-model", click_model, "-o", model),
        *("--estimator", "mean-affine", "--ranker", "ridge", "--set", "penalty=3"),
    )
    assert trained["rankers"][0]["penalty"] == 3
    found = answered(
        capsys,
        *("estimate", counts, "--data", WORLD, "--method", "rates", "-o", estimated),
    )
    assert found["method"] == "rates"
    evaluated = answered(capsys, "evaluate", model, "--data", WORLD)
    assert 0 < evaluated["rankers"][-1]["mean"] < 1
    held = str(tmp_path / "held.parquet")
    answered(
        capsys,
        *("simulate", WORLD, "--split", "test", "--sessions", "3000"),
        *("--counts", held, "--click-model", "first-click"),
    )
    value = answered(
        capsys,
        *(
            "evaluate",
            model,
            "--data",
            WORLD,
            "--counts",
            held,
            "--click-model",
            click_model,
        ),
        *("--estimator", "mean-affine", "--metric", "DCG@3", "--replicates", "2"),
    )
    assert value["estimator"] == "mean-affine"
    labels = answered(
        capsys,
        *("debias", counts, "--click-model", click_model, "--estimator", "mean-affine"),
        *("-o", str(tmp_path / "labels.parquet")),
    )
    assert "trust bias is not" not in labels["gauge"]
    page = tmp_path / "audit.html"
    answered(capsys, "audit", counts, "-o", str(page))
    assert page.stat().st_size


def test_a_loss_of_ones_own_trains_a_network(
    log: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    counts, click_model = log
    about = answered(
        capsys,
        *("train", counts, "--data", WORLD, "--click-model", click_model),
        *("-o", str(tmp_path / "model"), "--ranker", "mlp", "--set", "loss=hinge"),
        *("--set", "hidden=4", "--set", "epochs=2"),
    )
    assert about["rankers"][0]["epochs"] == 2


PLAN = """
name = "foreign"
runs = 2
clicks = [2e3, 8e3]
group_networks = 8
figures = ["figure1", "figure2", "figure3"]
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


def test_all_of_them_in_a_plan_and_its_report(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    out = str(tmp_path / "run")
    about = answered(capsys, "reproduce", str(path), "--out", out, "--device", "cpu")
    assert about["cells"] == about["planned"]
    text = (tmp_path / "run" / "report.html").read_text()
    for title in ("Mean affine", "Ridge regression", "Click rates"):
        assert title in text
