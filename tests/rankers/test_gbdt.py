"""LightGBM rankers: they learn, they are saved and loaded, and refuse what is wrong."""

import json
from dataclasses import replace
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

from affinerank.data.features import FeatureMapping
from affinerank.errors import ConfigError, DataError
from affinerank.metrics import dcg
from affinerank.rankers.early_stopping import Validation
from affinerank.rankers.gbdt import (
    FittedTrees,
    TreeRanker,
    TreeSettings,
    fit_lambdamart,
    fit_trees,
)
from affinerank.rankers.targets import Targets

RNG = np.random.default_rng(0)
FEATURES = RNG.random((400, 3)).astype(np.float32)
LABELS = (FEATURES[:, 1] > 0.7).astype(np.float32)
OFFSETS = np.arange(0, 401, 20)


def trained() -> TreeRanker:
    model = fit_lambdamart(FEATURES, LABELS, OFFSETS)
    return TreeRanker(model, FeatureMapping(("a", "b", "c")), {"seed": 0})


def test_lambdamart_learns_the_feature_that_matters() -> None:
    scores = trained().predict(FEATURES)
    assert scores[LABELS == 1].min() > scores[LABELS == 0].max()


def test_training_twice_gives_the_same_model() -> None:
    assert trained().model == trained().model


def test_a_saved_ranker_scores_as_before(tmp_path: Path) -> None:
    ranker = trained()
    ranker.save(tmp_path / "model")
    loaded = TreeRanker.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(FEATURES), ranker.predict(FEATURES))
    assert loaded.mapping == ranker.mapping
    assert loaded.provenance == {"seed": 0}
    plain = lgb.Booster(model_file=str(tmp_path / "model" / "model.txt"))
    np.testing.assert_array_equal(plain.predict(FEATURES), ranker.predict(FEATURES))


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(DataError, match="exists already"):
        trained().save(tmp_path / "model")


def test_labels_that_are_all_the_same_are_refused() -> None:
    with pytest.raises(DataError, match="all 400 labels to learn from are the same"):
        fit_lambdamart(FEATURES, np.zeros(400, np.float32), OFFSETS)


def test_other_numbers_of_features_are_refused() -> None:
    with pytest.raises(DataError, match="reads 3 features, got 2"):
        trained().predict(FEATURES[:, :2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "expected format 'affinerank-ranker' version 1, got"),
        ({"features": ["a"]}, "names 1 features, and the model beside it reads 3"),
        ({"features": None}, "not a ranker saved by AffineRank"),
    ],
)
def test_a_changed_file_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    trained().save(tmp_path / "model")
    path = tmp_path / "model" / "ranker.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=message):
        TreeRanker.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["ranker.json", "model.txt"])
def test_a_broken_folder_is_refused(tmp_path: Path, name: str) -> None:
    trained().save(tmp_path / "model")
    (tmp_path / "model" / name).write_text("{")
    with pytest.raises(DataError, match="not a ranker saved by AffineRank"):
        TreeRanker.load(tmp_path / "model")


SMALL = TreeSettings(trees=5, leaves=4, learning_rate=0.3, threads=1)
WEIGHTS = RNG.normal(size=400) - 3 * FEATURES[:, 1]


def targets(weights: np.ndarray = WEIGHTS, shown: np.ndarray | None = None) -> Targets:
    mask = np.ones(len(weights), dtype=bool) if shown is None else shown
    return Targets(weights[None], mask[None])


def fitted(
    learnt: Targets | None = None,
    features: np.ndarray = FEATURES,
    settings: TreeSettings = SMALL,
    validation: Validation | None = None,
) -> FittedTrees:
    (trees,) = fit_trees(
        features, learnt or targets(), OFFSETS, settings=settings, validation=validation
    )
    return trees


def scores_of(trees: FittedTrees, features: np.ndarray = FEATURES) -> np.ndarray:
    return np.asarray(lgb.Booster(model_str=trees.model).predict(features))


def test_trees_learn_from_weights_that_are_negative() -> None:
    assert WEIGHTS.mean() < 0
    scores = scores_of(fitted())
    assert np.corrcoef(scores, FEATURES[:, 1])[0, 1] < -0.8


def test_trees_do_not_notice_the_gauge() -> None:
    plain, moved = scores_of(fitted()), scores_of(fitted(targets(7 * WEIGHTS + 2)))
    np.testing.assert_allclose(moved, plain, rtol=1e-4)


def test_nothing_about_documents_that_were_not_shown_matters() -> None:
    shown = RNG.random(400) < 0.7
    plain = fitted(targets(WEIGHTS, shown))
    other = np.where(shown, WEIGHTS, np.nan)
    changed = np.where(shown[:, None], FEATURES, 9.0).astype(np.float32)
    assert fitted(targets(other, shown), changed).model == plain.model


def test_a_query_without_share_teaches_nothing() -> None:
    share = np.ones((1, 20))
    share[0, :5] = 0
    learnt = replace(targets(), share=share)
    other = np.where(np.arange(400) < 100, -WEIGHTS, WEIGHTS)
    again = replace(targets(other), share=share)
    np.testing.assert_array_equal(scores_of(fitted(learnt)), scores_of(fitted(again)))


def test_missing_values_are_read() -> None:
    features = np.where(FEATURES > 0.7, np.nan, FEATURES)
    scores = scores_of(fitted(features=features), features)
    missing = np.isnan(features[:, 1])
    assert scores[missing].mean() < scores[~missing].mean()


def test_rankers_do_not_depend_on_those_beside_them() -> None:
    shown = np.stack([np.ones(400, bool), RNG.random(400) < 0.5, np.ones(400, bool)])
    stack = Targets(np.stack([WEIGHTS, WEIGHTS, -WEIGHTS]), shown)
    together = fit_trees(FEATURES, stack, OFFSETS, seeds=[0, 0, 0], settings=SMALL)
    for i, trees in enumerate(together):
        alone = fitted(targets(stack.weights[i], shown[i]))
        assert trees.model == alone.model


def test_seeds_draw_features() -> None:
    drawing = replace(SMALL, feature_share=0.5)
    both = Targets(np.stack([WEIGHTS, WEIGHTS]), np.ones((2, 400), bool))
    one, two = fit_trees(FEATURES, both, OFFSETS, seeds=[1, 2], settings=drawing)
    assert one.model != two.model


def test_early_stopping_keeps_the_trees_that_held_out_weights_like_best() -> None:
    shown = RNG.random(400) < 0.8
    held = Validation(FEATURES, targets(WEIGHTS + RNG.normal(size=400), shown), OFFSETS)
    patient = replace(SMALL, trees=60, patience=5)
    trees = fitted(settings=patient, validation=held)
    assert trees.trees == int(np.argmax(trees.held_out)) + 1
    assert len(trees.held_out) == trees.trees + 5
    assert lgb.Booster(model_str=trees.model).num_trees() == trees.trees
    best = held.value(0, scores_of(trees))
    assert best == pytest.approx(max(trees.held_out))
    whole = fitted(settings=replace(patient, trees=trees.trees, patience=None))
    np.testing.assert_array_equal(scores_of(whole), scores_of(trees))


def test_the_held_out_value_is_the_dcg_of_what_was_shown() -> None:
    weights, scores = np.abs(WEIGHTS), RNG.normal(size=400)
    shown = np.tile(np.arange(20) < 12, 20)
    offsets = np.arange(0, 241, 12)
    expected = dcg(scores[shown], weights[shown], offsets).sum()
    held = Validation(FEATURES, targets(weights, shown), OFFSETS)
    assert held.value(0, scores) == pytest.approx(expected)
    negative = Validation(FEATURES, targets(-weights, shown), OFFSETS)
    assert negative.value(0, scores) == pytest.approx(-expected)


def test_progress_tells_of_each_tree_of_each_ranker() -> None:
    both = Targets(np.stack([WEIGHTS, WEIGHTS]), np.ones((2, 400), bool))
    told: list[tuple[str, int, int]] = []
    fit_trees(
        FEATURES,
        both,
        OFFSETS,
        seeds=[0, 0],
        settings=SMALL,
        progress=lambda *step: told.append(step),
    )
    assert told == [("training trees", done, 10) for done in range(1, 11)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trees": 0}, "trees must be 1 or more, got 0"),
        ({"leaves": 1}, "leaves must be 2 or more, got 1"),
        ({"truncation": 0}, "truncation must be 1 or more, got 0"),
        ({"patience": 0}, "patience must be 1 or more, got 0"),
        ({"learning_rate": 0.0}, r"learning_rate must be above 0, got 0\.0"),
        (
            {"feature_share": 1.5},
            r"feature_share must be above 0 and up to 1, got 1\.5",
        ),
    ],
)
def test_wrong_settings_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(SMALL, **change)  # type: ignore[arg-type]


def test_what_cannot_be_learnt_is_refused() -> None:
    with pytest.raises(DataError, match="no order to learn"):
        fitted(targets(np.zeros(400)))
    few = np.arange(400) < 30
    with pytest.raises(DataError, match="30 documents were shown, too few"):
        fitted(targets(WEIGHTS, few))
    with pytest.raises(ConfigError, match="needs validation weights"):
        fitted(settings=replace(SMALL, patience=3))
    with pytest.raises(DataError, match="a seed for each of 1 rankers, got 2"):
        fit_trees(FEATURES, targets(), OFFSETS, seeds=[0, 1], settings=SMALL)
