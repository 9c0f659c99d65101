"""Worlds: what a cell learns from, by whichever way it comes by its users."""

from dataclasses import replace

import numpy as np
import pytest

from affinerank.errors import ConfigError, DataError
from affinerank.pipeline.weighing import judging
from affinerank.pipeline.worlds import Cell, DataSet, World, method_that_ranks
from affinerank.rankers import RANKERS

DATA = DataSet("tiny", "yahoo-like:40", validation_share=0.5)
CELL = Cell("tiny", "trust(eta=1)", "fixed", 1e4, "affine", "true", "mlp", 0)
NETWORK = RANKERS["mlp"].settings(hidden=(8,), epochs=2, device="cpu")
TREES = RANKERS["lightgbm"].settings(trees=5)


@pytest.fixture(scope="module")
def world() -> World:
    made = World(DATA, seed=3)
    made.rank([0, 1], held_out=True)
    return made


def test_cells_of_one_log_draw_the_same_clicks(world: World) -> None:
    rows, users = world.draw(CELL)
    same, _ = world.draw(replace(CELL, estimator="naive", ranker="lightgbm"))
    np.testing.assert_array_equal(rows.clicks, same.clicks)
    other, _ = world.draw(replace(CELL, run=1))
    assert rows.clicks.sum() == pytest.approx(1e4, rel=0.1)
    assert not np.array_equal(rows.clicks, other.clicks)
    assert users.depth == world.part("train").raw.docs_per_query.max()


def test_held_out_clicks_are_on_other_queries_and_fewer(world: World) -> None:
    held, _ = world.draw(CELL, held_out=True)
    assert held.n_queries == world.part("validation").raw.n_queries
    assert held.clicks.sum() == pytest.approx(5e3, rel=0.1)


def test_a_cutoff_shows_the_first_documents_alone(world: World) -> None:
    rows, _ = world.draw(replace(CELL, policy="fixed(top_k=3)"))
    assert rows.depth == 3
    moved, _ = world.draw(replace(CELL, policy="swap(share=1)"))
    assert len(moved) > len(world.draw(CELL)[0])


def test_held_out_clicks_are_never_clipped(world: World) -> None:
    clipped = replace(CELL, estimator="affine(clip=0.9)")
    drawn = world._drawn([CELL, clipped], NETWORK, early=True)
    plain, cut = world._weighed([CELL, clipped], drawn, NETWORK)
    assert not np.allclose(plain.weight, cut.weight)
    assert judging(clipped.estimator) == judging(CELL.estimator)


def test_labels_are_learnt_from_without_clicks(world: World) -> None:
    full = Cell("tiny", None, None, None, "full-information", None, "mlp", 0)
    found = world.measure([full], NETWORK, early_stopping=True)[0]
    assert (found.sessions, found.clicks_drawn, found.alpha) == (None, None, ())
    assert found.early_epoch in (1, 2)
    assert 0 < found.ndcg < 1


def test_a_method_that_ranks_gives_its_ranker_or_its_users(world: World) -> None:
    joint = replace(CELL, users="soft-min-max")
    assert method_that_ranks(joint) is not None
    first = world.measure([joint], NETWORK, early_stopping=True)[0]
    assert first.early_ndcg is None
    # Another estimator, or ranker, learns with the users that it estimates.
    clipped = replace(joint, estimator="affine(clip=0.1)")
    assert method_that_ranks(clipped) is None
    second = world.measure([clipped], NETWORK, early_stopping=True)[0]
    assert second.early_ndcg is not None
    np.testing.assert_allclose(first.alpha, second.alpha)


def test_trees_learn_beside_each_other(world: World) -> None:
    cells = [
        replace(CELL, ranker="lightgbm", estimator=name) for name in ("naive", "affine")
    ]
    found = world.measure(cells, TREES, early_stopping=True)
    assert found[0].ndcg != found[1].ndcg
    assert all(one.early_epoch in range(1, 6) for one in found)


def test_production_alone_trains_nothing(world: World) -> None:
    cell = Cell("tiny", None, None, None, "production", None, None, 1)
    found = world.measure([cell], NETWORK)[0]
    assert found.ndcg == world.production(1).value.mean
    assert len(found.digest) == 32


def test_data_that_cannot_be_used_are_rejected() -> None:
    with pytest.raises(ConfigError, match="validation_share must be above 0, got 0"):
        DataSet("x", "yahoo-like:40", validation_share=0)
    letor = World(DataSet("x", __file__))
    with pytest.raises(DataError, match="needs the split train"):
        letor.part("train")
