"""Stages composed: production rankers and descriptions."""

import numpy as np
import pytest

from affinerank.data.dataset import RankingDataset
from affinerank.data.sources import DataSource
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.pipeline.description import describe, profile_production
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.rankers.ranker import score
from affinerank.support.errors import DataError


@pytest.fixture(scope="module")
def world() -> RankingDataset:
    return DataSource.parse("yahoo-like:60").read("train")


def test_a_production_ranker_learns_from_twenty_queries(world: RankingDataset) -> None:
    ranker = train_production_ranker(world, seed=3)
    assert len(set(ranker.training_queries)) == 20
    again = train_production_ranker(world, seed=3)
    np.testing.assert_array_equal(score(ranker, world), score(again, world))
    other = train_production_ranker(world, seed=4)
    assert ranker.training_queries != other.training_queries


def test_it_scores_a_query_alike_alone_and_among_others(world: RankingDataset) -> None:
    ranker = train_production_ranker(world)
    alone = score(ranker, world.select_queries([5]))
    among = score(ranker, world)[world.offsets[5] : world.offsets[6]]
    np.testing.assert_array_equal(alone, among)


def test_it_scores_blocks_of_queries_as_it_scores_all_at_once(
    world: RankingDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = train_production_ranker(world)
    at_once = ranker.predict(ranker.mapping.apply(world).features)
    monkeypatch.setattr("affinerank.data.dataset.ROWS_AT_ONCE", 100)
    assert len(list(world.blocks())) > 5
    np.testing.assert_array_equal(score(ranker, world), at_once)


def test_judging_leaves_out_queries_without_relevance() -> None:
    data = RankingDataset.from_rows([[0], [1], [2]], [1, 1, 2], labels=[3, 0, 2])
    values = evaluate_scores(np.array([0.0, 1.0, 2.0]), data, 2.0)
    np.testing.assert_allclose(values.values, [1 / np.log2(3), np.nan])


def test_a_profile_averages_over_draws(world: RankingDataset) -> None:
    profile = profile_production(world, world, draws=2)
    one = profile_production(world, world, draws=1)
    assert profile["nDCG@10"][0] == one["nDCG@10"][0]
    assert len(profile["relevant_share_by_rank"]) == 10


def test_fewer_queries_than_the_production_ranker_needs_is_said() -> None:
    data = RankingDataset.from_rows([[0], [1]], [1, 1], labels=[3, 0])
    with pytest.raises(DataError, match="learns from 20 queries, and the data have 1"):
        train_production_ranker(data)


def test_a_description_of_a_world_is_complete() -> None:
    about = describe(DataSource.parse("mslr-like:40"))
    assert about["queries"] == 40
    assert about["features"] == 131
    assert sum(about["label_shares"].values()) == pytest.approx(1)
    assert len(about["production"]["relevant_share_by_rank"]) == 10
    assert about["production"]["judged_on"] == "test"
