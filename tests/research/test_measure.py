"""A cell of a plan and ``train`` on the same log give the same ranker."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affinerank.counts.rows import join_counts
from affinerank.defaults import NO_TUNING, TUNING
from affinerank.pipeline.steps.features import FeatureSource
from affinerank.pipeline.steps.train_members import FittedMember, score_all
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.pipeline.train import train
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import score
from affinerank.research import measure as module
from affinerank.research.cells import Cell, DataSet
from affinerank.research.measure import CellTraining, measure
from affinerank.research.plan import Grid, Plan
from affinerank.research.report import write_report
from affinerank.research.results import load_results
from affinerank.research.runner import run_plan
from affinerank.research.worlds import World
from affinerank.support.arrays import Floats
from affinerank.support.errors import ConfigError
from affinerank.support.settings import EntrySpec

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::affinerank.support.errors.AffineRankWarning"),
]

PLAIN = DataSet("plain", "yahoo-like:40")
SHOP = DataSet("shop", "shop-like:60")  # text, and gaps
SETTINGS: dict[str, Any] = {
    "mlp": RANKERS["mlp"].settings(hidden=(8,), epochs=2, device="cpu", data_seed=3),
    "lightgbm": RANKERS["lightgbm"].settings(trees=8, leaves=4, threads=1),
    "xgboost": RANKERS["xgboost"].settings(trees=8, leaves=4, threads=1),
    "linear-model": RANKERS["linear-model"].settings(),
    "blend": RANKERS["blend"].settings(trees=8, leaves=4, threads=1),
}


@pytest.fixture(scope="module")
def worlds() -> dict[str, World]:
    made = {data.name: World(data, seed=3) for data in (PLAIN, SHOP)}
    for world in made.values():
        world.rank([0], held_out=True)
    return made


def settings_for(ranker: str, **options: Any) -> TrainSettings:
    return TrainSettings(ranker, SETTINGS[ranker], **{"tuning": NO_TUNING, **options})


def cell_of(data: str, ranker: str, estimator: str, known: str = "true") -> Cell:
    return Cell(data, "trust(eta=1)", "fixed", 8e3, estimator, known, ranker, 0)


def scores_of_cells(
    world: World,
    cells: Sequence[Cell],
    settings: TrainSettings,
    monkeypatch: pytest.MonkeyPatch,
    **options: Any,
) -> Floats:
    """Score the test split by the rankers of cells."""
    scored: list[Floats] = []

    def noted(members: Sequence[FittedMember], source: FeatureSource) -> Floats:
        scored.append(score_all(members, source))
        return scored[-1]

    monkeypatch.setattr(module, "score_all", noted)
    measure(world, cells, settings, **options)
    return scored[0]


def scores_of_train(
    world: World, cell: Cell, settings: TrainSettings, **options: Any
) -> Floats:
    """Score the test split by the ranker that ``train`` makes of a cell's log."""
    counts, click_model = world.simulate(cell)
    data = world.part("train").data
    categories = CellTraining.of(world, settings).settings.categories
    trained = train(
        counts,
        data,
        click_model if cell.click_model_from == "true" else None,
        settings,
        estimators=[cell.estimator],
        seeds=[world.seed],
        categories=categories,
        **options,
    )
    [ranker] = trained.rankers.values()
    return score(ranker, world.part("test").data)


@pytest.mark.parametrize("estimator", ["affine(clip=0.1)", "posterior"])
@pytest.mark.parametrize("ranker", SETTINGS)
@pytest.mark.parametrize("data", ["plain", "shop"])
def test_a_cell_and_train_give_the_same_ranker(
    worlds: dict[str, World],
    data: str,
    ranker: str,
    estimator: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = worlds[data]
    settings = settings_for(ranker)
    cell = cell_of(data, ranker, estimator)
    beside = cell_of(data, ranker, "naive")
    scores = scores_of_cells(world, [beside, cell], settings, monkeypatch)
    expected = scores_of_train(world, cell, settings)
    np.testing.assert_allclose(scores[1], expected, rtol=1e-6, atol=1e-6)
    assert not np.allclose(scores[0], expected)


@pytest.mark.parametrize("ranker", ["mlp", "lightgbm", "blend"])
def test_tuning_means_the_same_in_a_cell(
    worlds: dict[str, World], ranker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(ranker, tuning=TUNING, learning_rates=[0.05, 0.2])
    cell = cell_of("shop", ranker, "affine")
    scores = scores_of_cells(worlds["shop"], [cell], settings, monkeypatch)
    expected = scores_of_train(worlds["shop"], cell, settings)
    np.testing.assert_allclose(scores[0], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("ranker", ["mlp", "lightgbm"])
def test_early_stopping_is_training_with_validation(
    worlds: dict[str, World], ranker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds["shop"]
    settings = settings_for(ranker)
    cell = cell_of("shop", ranker, "affine")
    scores = scores_of_cells(world, [cell], settings, monkeypatch, early_stopping=True)
    held_counts, _ = world.simulate(cell, held_out=True)
    validation = (held_counts, world.part("validation").data)
    expected = scores_of_train(world, cell, settings, validation=validation)
    np.testing.assert_allclose(scores[0], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("data", ["plain", "shop"])
def test_an_estimated_click_model_is_the_same_in_a_cell(
    worlds: dict[str, World], data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for("linear-model")
    cell = cell_of(data, "linear-model", "affine", "mixture")
    scores = scores_of_cells(worlds[data], [cell], settings, monkeypatch)
    expected = scores_of_train(worlds[data], cell, settings)
    np.testing.assert_allclose(scores[0], expected, rtol=1e-6, atol=1e-6)


def test_scaling_is_heeded_in_a_cell(
    worlds: dict[str, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of("plain", "lightgbm", "affine")
    scores = [
        scores_of_cells(
            worlds["plain"], [cell], settings_for("lightgbm", scaling=how), monkeypatch
        )
        for how in (None, "none", "list")
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.allclose(scores[0], scores[2])


def test_a_simulated_log_is_the_one_that_cells_learn_from(
    worlds: dict[str, World],
) -> None:
    cell = cell_of("shop", "mlp", "affine")
    counts, _ = worlds["shop"].simulate(cell)
    rows, _ = worlds["shop"].draw(cell)
    joined = join_counts(counts, worlds["shop"].part("train").data)
    np.testing.assert_array_equal(rows.clicks, joined.clicks)


def test_a_blend_is_not_stopped_early(worlds: dict[str, World]) -> None:
    cell = cell_of("plain", "blend", "affine")
    with pytest.raises(ConfigError, match="cannot be stopped early"):
        measure(worlds["plain"], [cell], settings_for("blend"), early_stopping=True)


def test_an_own_plan_with_gaps_and_text_runs_without_figures(tmp_path: Path) -> None:
    plan = Plan(
        name="own",
        data=(SHOP,),
        click_models=("trust",),
        clicks=(2e3,),
        grids=(
            Grid(("production", "naive", "posterior")),
            Grid(("affine",), click_model_from=("mixture",)),
        ),
        rankers=(
            EntrySpec("linear-model", ()),
            EntrySpec("blend", (("trees", 4),)),
            EntrySpec("mlp", (("hidden", (4,)), ("epochs", 1))),
        ),
        runs=1,
    )
    folder = run_plan(plan, tmp_path / "run", device="cpu")
    results = load_results(folder)
    assert len(results) == 1 + 3 * 3
    assert all(0 < result.ndcg < 1 for result in results)
    assert write_report(folder).exists()
