"""The two worlds keep the statistics they were calibrated to; the shop its law."""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.read_options import SPLITS, Split
from affinerank.data.synthetic import CHUNK, WORLDS, generate_world
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.rankers.ranker import Ranker, score
from affinerank.rankers.trees.lightgbm import ROW, fit_lambdamart
from affinerank.support.arrays import Floats
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.lists import ranks_by_score

pytestmark = pytest.mark.slow

N_QUERIES = 2_000
DRAWS = 5
FULL_SIZE = {
    "yahoo-like": (19_944, 2_994, 6_983),
    "mslr-like": (18_919, 6_306, 6_306),
    "shop-like": (12_000, 2_000, 4_000),
}
# Documents per query, features, share of labels above 2.
STATISTICS = {"yahoo-like": (24, 501, 0.10), "mslr-like": (120, 131, 0.025)}
RELEVANT_BY_RANK = {
    "yahoo-like": [
        0.303,
        0.185,
        0.144,
        0.114,
        0.108,
        0.093,
        0.084,
        0.078,
        0.070,
        0.065,
    ],
    "mslr-like": [0.149, 0.091, 0.074, 0.060, 0.053, 0.050, 0.047, 0.041, 0.040, 0.037],
}
PRODUCTION_NDCG = {"yahoo-like": (0.50, 0.64), "mslr-like": (0.18, 0.32)}

calibrated = pytest.mark.parametrize("name", list(STATISTICS))
every_world = pytest.mark.parametrize("name", list(FULL_SIZE))


@cache
def world(name: str, split: Split) -> RankingDataset:
    return generate_world(name, n_queries=N_QUERIES, split=split)


@cache
def production(name: str) -> tuple[Ranker, ...]:
    train = world(name, "train")
    return tuple(train_production_ranker(train, seed=draw) for draw in range(DRAWS))


def mean_ndcg(ranker: Ranker, data: RankingDataset) -> float:
    return evaluate_scores(score(ranker, data), data, 2.0).mean


def relevant_share_by_rank(ranker: Ranker, data: RankingDataset) -> Floats:
    ranks, relevance = (
        ranks_by_score(score(ranker, data), data.offsets),
        data.relevance(2),
    )
    return np.array([relevance[ranks == rank].mean() for rank in range(1, 11)])


def full_information(train: RankingDataset) -> Ranker:
    mapping = FeatureMapping.fit(train)
    mapped = mapping.apply(train)
    model = fit_lambdamart(mapped.features, mapped.relevance(2), mapped.offsets, seed=0)
    return Ranker(ROW.name, model, mapping, {})


def same_bytes(one: RankingDataset, other: RankingDataset) -> bool:
    return (
        one.features.tobytes() == other.features.tobytes()
        and one.known_labels().tobytes() == other.known_labels().tobytes()
        and one.offsets.tobytes() == other.offsets.tobytes()
    )


@calibrated
@pytest.mark.parametrize("split", SPLITS)
def test_sizes_and_label_share_are_within_15_percent(name: str, split: Split) -> None:
    data = world(name, split)
    docs, features, share = STATISTICS[name]
    in_proportion = N_QUERIES * np.array(FULL_SIZE[name]) / FULL_SIZE[name][0]
    assert data.n_queries == round(in_proportion[SPLITS.index(split)])
    assert data.n_features == features
    if split != "train":  # a few hundred queries say too little about a mean
        return
    assert data.n_docs / data.n_queries == pytest.approx(docs, rel=0.15)
    assert data.relevance(2).mean() == pytest.approx(share, rel=0.15)
    assert set(data.known_labels()) == {0, 1, 2, 3, 4}


def test_worlds_have_the_full_sizes_of_their_models() -> None:
    assert {name: law.queries for name, law in WORLDS.items()} == FULL_SIZE


def test_yahoo_like_features_lie_in_the_unit_interval_and_half_are_zero() -> None:
    features = world("yahoo-like", "train").features
    assert features.min() == 0
    assert features.max() < 1
    assert np.mean(features == 0) == pytest.approx(0.5, abs=0.05)


def test_mslr_like_features_are_heavy_tailed_counted_or_signed() -> None:
    features = world("mslr-like", "train").features[:20_000]
    counts = (features == np.rint(features)).all(axis=0)
    signed = (features < 0).any(axis=0)
    tail = features.max(axis=0) / np.median(features, axis=0).clip(min=1)
    assert counts.sum() > 30
    assert 15 < signed.sum() < 30
    assert np.median(tail[~signed]) > 5


@calibrated
def test_relevant_share_by_rank_is_that_of_the_model(name: str) -> None:
    train = world(name, "train")
    share = np.mean(
        [relevant_share_by_rank(r, train) for r in production(name)], axis=0
    )
    error = share / np.array(RELEVANT_BY_RANK[name]) - 1
    assert np.sqrt(np.mean(error**2)) < 0.20
    assert np.abs(error).max() < 0.40


@calibrated
def test_production_is_in_range_and_full_information_far_ahead(name: str) -> None:
    test = world(name, "test")
    low, high = PRODUCTION_NDCG[name]
    reached = float(np.mean([mean_ndcg(ranker, test) for ranker in production(name)]))
    assert low < reached < high
    half = world(name, "train").select_queries(range(N_QUERIES // 2))  # is enough
    assert mean_ndcg(full_information(half), test) > reached + 0.08


@every_world
def test_number_of_threads_changes_no_byte(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    for cores in (1, 4):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        drawn.append(generate_world(name, n_queries=5 * CHUNK + 3, seed=7))
    assert same_bytes(*drawn)


@every_world
def test_smaller_split_is_the_beginning_of_a_larger_one(name: str) -> None:
    small = generate_world(name, n_queries=CHUNK + 5)
    large = world(name, "train").select_queries(range(CHUNK + 5))
    assert same_bytes(small, large)


@every_world
def test_seeds_and_splits_give_different_documents(name: str) -> None:
    first = [
        generate_world(name, n_queries=5, split=split, seed=seed).features[0]
        for split in SPLITS
        for seed in (0, 1)
    ]
    assert len(np.unique(first, axis=0)) == len(first)


@every_world
def test_query_ids_differ_between_splits(name: str) -> None:
    ids = np.concatenate([world(name, split).query_ids for split in SPLITS])
    assert len(np.unique(ids)) == len(ids)


@every_world
def test_every_split_has_at_least_one_query(name: str) -> None:
    for split in SPLITS:
        assert generate_world(name, n_queries=1, split=split).n_queries == 1


def test_unknown_world_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no built-in world 'yahoo'"):
        generate_world("yahoo")


@pytest.mark.parametrize("n_queries", [0, -3])
def test_fewer_than_one_query_is_rejected(n_queries: int) -> None:
    with pytest.raises(DataError, match=f"n_queries .*got {n_queries}"):
        generate_world("yahoo-like", n_queries=n_queries)


def test_negative_seed_is_rejected() -> None:
    with pytest.raises(DataError, match=r"seed .*got -1"):
        generate_world("yahoo-like", n_queries=1, seed=-1)


def test_unknown_split_is_rejected() -> None:
    with pytest.raises(ConfigError, match="train, validation or test"):
        generate_world("yahoo-like", n_queries=1, split="dev")  # type: ignore[arg-type]
