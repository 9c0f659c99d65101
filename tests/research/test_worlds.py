"""Worlds: what a cell learns from, by whichever way it comes by its users."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from affinerank.bias import EstimationSettings
from affinerank.data.read_options import Split
from affinerank.defaults import NO_TUNING
from affinerank.pipeline.steps.click_model import estimate_from_rows
from affinerank.pipeline.steps.features import prepare_members
from affinerank.pipeline.steps.train_members import WeighedLists, fit_members
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.pipeline.steps.weighing import validation_estimator, weigh
from affinerank.rankers import RANKERS
from affinerank.research.cells import Cell, DataSet, trained_jointly
from affinerank.research.measure import CellTraining, Drawn, measure
from affinerank.research.worlds import World
from affinerank.support.errors import ConfigError, DataError

pytestmark = pytest.mark.slow

DATA = DataSet("tiny", "yahoo-like:40", validation_share=0.5)
CELL = Cell("tiny", "trust(eta=1)", "fixed", 1e4, "affine", "true", "mlp", 0)
NETWORK = TrainSettings(
    "mlp",
    RANKERS["mlp"].settings(hidden=(8,), epochs=2, device="cpu"),
    tuning=NO_TUNING,
)
TREES = TrainSettings(
    "lightgbm", RANKERS["lightgbm"].settings(trees=5), tuning=NO_TUNING
)


@pytest.fixture(scope="module")
def world() -> World:
    made = World(DATA, seed=3)
    made.rank([0, 1], held_out=True)
    return made


def test_cells_of_one_log_draw_the_same_clicks(world: World) -> None:
    rows, click_model = world.draw(CELL)
    same, _ = world.draw(replace(CELL, estimator="naive", ranker="lightgbm"))
    np.testing.assert_array_equal(rows.clicks, same.clicks)
    other, _ = world.draw(replace(CELL, run=1))
    assert rows.clicks.sum() == pytest.approx(1e4, rel=0.1)
    assert not np.array_equal(rows.clicks, other.clicks)
    assert click_model.depth == world.part("train").data.docs_per_query.max()


def test_held_out_clicks_are_on_other_queries_and_fewer(world: World) -> None:
    held, _ = world.draw(CELL, held_out=True)
    assert held.n_queries == world.part("validation").data.n_queries
    assert held.clicks.sum() == pytest.approx(5e3, rel=0.1)


def test_a_cutoff_shows_the_first_documents_alone(world: World) -> None:
    rows, _ = world.draw(replace(CELL, policy="fixed(top_k=3)"))
    assert rows.depth == 3
    moved, _ = world.draw(replace(CELL, policy="swap(share=1)"))
    assert len(moved) > len(world.draw(CELL)[0])


def test_held_out_clicks_are_never_clipped(world: World) -> None:
    clipped = replace(CELL, estimator="affine(clip=0.9)")
    training = CellTraining(world, NETWORK, early_stopping=True)
    drawn = training.draw([CELL, clipped])
    plain, cut = training.weigh(drawn).weights
    assert not np.allclose(plain.weight, cut.weight)
    assert validation_estimator(clipped.estimator) == validation_estimator(
        CELL.estimator
    )


def test_labels_are_learnt_from_without_clicks(world: World) -> None:
    full = Cell("tiny", None, None, None, "full-information", None, "mlp", 0)
    found = measure(world, [full], NETWORK, early_stopping=True)[0]
    assert (found.sessions, found.clicks_drawn, found.alpha) == (None, None, ())
    assert found.held_out_epoch in (1, 2)
    assert 0 < found.ndcg < 1


def test_a_method_that_ranks_gives_its_ranker_or_its_users(world: World) -> None:
    joint = replace(CELL, click_model_from="soft-min-max")
    assert trained_jointly(joint)
    first = measure(world, [joint], NETWORK, early_stopping=True)[0]
    assert first.held_out_epoch == 2  # it never rests
    assert first.held_out_ndcg == first.ndcg
    # Another estimator, or ranker, or new networks learn with the users it estimates.
    clipped = replace(joint, estimator="affine(clip=0.1)")
    fresh = replace(joint, click_model_from="soft-min-max(fresh=true)")
    cells = [clipped, fresh, replace(fresh, run=1)]
    assert not any(map(trained_jointly, cells))
    found = measure(world, cells, NETWORK, early_stopping=True)
    for other in found[:2]:
        assert other.held_out_ndcg is not None
        np.testing.assert_allclose(first.alpha, other.alpha, rtol=1e-5)
    assert found[1].alpha != found[2].alpha
    assert len({one.ndcg for one in (first, *found)}) == 4


def test_users_are_estimated_from_few_clicks_too(world: World) -> None:
    few = replace(CELL, clicks=150.0, click_model_from="mixture")
    rows, _ = world.draw(few)
    with pytest.raises(DataError, match="too few to tell ranks apart"):
        estimate_from_rows(rows, settings=EstimationSettings("mixture"))
    (found,) = measure(world, [few], NETWORK)
    assert len(set(found.alpha)) > 1


def test_new_networks_learn_from_affine_weights(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = replace(CELL, click_model_from="sigmoid(fresh=true)")
    seen: list[Drawn] = []
    weigh_drawn = CellTraining.weigh

    def noted(training: CellTraining, drawn: Sequence[Drawn]) -> WeighedLists:
        seen.extend(drawn)
        return weigh_drawn(training, drawn)

    monkeypatch.setattr(CellTraining, "weigh", noted)
    (found,) = measure(world, [fresh], NETWORK)
    assert tuple(seen[0].click_model.alpha.tolist()) == found.alpha
    weights = weigh(seen[0].rows, "affine", seen[0].click_model)
    source = world.part("train")
    members = fit_members(
        prepare_members(source, NETWORK),
        WeighedLists(source, [weights]),
        NETWORK,
        seeds=[3],
    )
    [value] = CellTraining(world, NETWORK).test_values(members)
    assert value.mean == pytest.approx(found.ndcg, abs=1e-9)


def test_runs_may_share_a_production_ranker(world: World) -> None:
    shared = World(DATA, seed=3, production="per-data-set")
    shared.rank([0, 1])
    first, second = shared.production(0), shared.production(1)
    assert first.digest == second.digest == world.production(0).digest
    assert world.production(1).digest != first.digest
    later = World(DATA, seed=3, production="per-data-set")
    later.rank([1])
    assert later.production(1).digest == first.digest
    # Clicks are still of their run.
    other = replace(CELL, run=1)
    one, two = shared.draw(CELL)[0], shared.draw(other)[0]
    np.testing.assert_array_equal(one.clicks, world.draw(CELL)[0].clicks)
    assert not np.array_equal(one.clicks, two.clicks)
    np.testing.assert_array_equal(np.unique(one.doc), np.unique(two.doc))


def test_a_file_is_dealt_into_folds_by_query(tmp_path: Path) -> None:
    lines = [f"{d % 3} qid:{q} 1:{q + d / 10}" for q in range(1, 24) for d in range(2)]
    path = tmp_path / "all.txt"
    path.write_text("\n".join(lines) + "\n")
    data = DataSet("x", str(path), folds=5)
    splits: tuple[Split, ...] = ("train", "validation", "test")
    dealt = []
    for run in range(5):
        fold = World(data, fold=data.fold(run))
        ids = [set(map(str, fold.part(split).data.query_ids)) for split in splits]
        assert sum(map(len, ids)) == len(set.union(*ids)) == 23
        assert [len(own) // 4 for own in ids] == [3, 1, 1]
        dealt.append(ids)
    for before, after in pairwise(dealt):  # as in LETOR, parts move up
        assert before[1] <= after[0]
        assert before[2] == after[1]
    assert len(set.union(*(ids[2] for ids in dealt))) == 23
    assert data.fold(5) == 1


def test_trees_learn_beside_each_other(world: World) -> None:
    cells = [
        replace(CELL, ranker="lightgbm", estimator=name) for name in ("naive", "affine")
    ]
    found = measure(world, cells, TREES, early_stopping=True)
    assert found[0].ndcg != found[1].ndcg
    assert all(one.held_out_epoch in range(1, 6) for one in found)


def test_production_alone_trains_nothing(world: World) -> None:
    cell = Cell("tiny", None, None, None, "production", None, None, 1)
    found = measure(world, [cell], NETWORK)[0]
    assert found.ndcg == world.production(1).value.mean
    assert len(found.digest) == 32


def test_data_that_cannot_be_used_are_rejected() -> None:
    with pytest.raises(ConfigError, match="validation_share must be above 0, got 0"):
        DataSet("x", "yahoo-like:40", validation_share=0)
    letor = World(DataSet("x", __file__))
    with pytest.raises(DataError, match="needs the split train"):
        letor.part("train")
