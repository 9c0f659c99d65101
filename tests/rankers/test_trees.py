"""LightGBM rankers: they learn, they are saved and loaded, and reject what is wrong."""

import json
from dataclasses import replace
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

from affinerank.data.features import FeatureMapping
from affinerank.errors import ConfigError, DataError
from affinerank.metrics import Metric
from affinerank.rankers import Fitted, Ranker, Targets, Validation
from affinerank.rankers.held_out import HeldOut
from affinerank.rankers.loading import load_ranker
from affinerank.rankers.trees import (
    ROW,
    TreeModel,
    TreeSettings,
    fit_lambdamart,
    fit_trees,
)

RNG = np.random.default_rng(0)
FEATURES = RNG.random((400, 3)).astype(np.float32)
LABELS = (FEATURES[:, 1] > 0.7).astype(np.float32)
OFFSETS = np.arange(0, 401, 20)


def trained() -> Ranker:
    model = fit_lambdamart(FEATURES, LABELS, OFFSETS)
    return Ranker(ROW.name, model, FeatureMapping(("a", "b", "c")), {"seed": 0})


def text_of(model: object) -> str:
    assert isinstance(model, TreeModel)
    return model.text


def test_lambdamart_learns_the_feature_that_matters() -> None:
    scores = trained().predict(FEATURES)
    assert scores[LABELS == 1].min() > scores[LABELS == 0].max()


def test_training_twice_gives_the_same_model() -> None:
    assert text_of(trained().model) == text_of(trained().model)


def test_a_saved_ranker_scores_as_before(tmp_path: Path) -> None:
    ranker = trained()
    ranker.save(tmp_path / "model")
    loaded = load_ranker(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(FEATURES), ranker.predict(FEATURES))
    assert loaded.mapping == ranker.mapping
    assert loaded.provenance == {"seed": 0}
    plain = lgb.Booster(model_file=str(tmp_path / "model" / "model.txt"))
    np.testing.assert_array_equal(plain.predict(FEATURES), ranker.predict(FEATURES))


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(DataError, match="exists already"):
        trained().save(tmp_path / "model")


def test_labels_that_are_all_the_same_are_rejected() -> None:
    with pytest.raises(DataError, match="all 400 labels to learn from are the same"):
        fit_lambdamart(FEATURES, np.zeros(400, np.float32), OFFSETS)


def test_other_numbers_of_features_are_rejected() -> None:
    with pytest.raises(DataError, match="reads 3 features, got 2"):
        trained().predict(FEATURES[:, :2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "expected format 'affinerank-ranker' version 1, got"),
        ({"features": ["a"]}, "model.txt: reads 3 features, .* names 1"),
        ({"features": None}, "not a ranker saved by AffineRank"),
    ],
)
def test_a_changed_file_is_rejected(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    trained().save(tmp_path / "model")
    path = tmp_path / "model" / "ranker.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=message):
        load_ranker(tmp_path / "model")


@pytest.mark.parametrize("name", ["ranker.json", "model.txt"])
def test_a_broken_folder_is_rejected(tmp_path: Path, name: str) -> None:
    trained().save(tmp_path / "model")
    (tmp_path / "model" / name).write_text("{")
    with pytest.raises(DataError, match="not a ranker saved by AffineRank"):
        load_ranker(tmp_path / "model")


SMALL = TreeSettings(trees=5, leaves=4, learning_rate=0.3, threads=1)
WEIGHTS = RNG.normal(size=400) - 3 * FEATURES[:, 1]


def targets(weights: np.ndarray = WEIGHTS, known: np.ndarray | None = None) -> Targets:
    mask = np.ones(len(weights), dtype=bool) if known is None else known
    return Targets(weights[None], mask[None])


def fitted(
    learnt: Targets | None = None,
    features: np.ndarray = FEATURES,
    settings: TreeSettings = SMALL,
    validation: Validation | None = None,
) -> Fitted:
    learnt = learnt or targets()
    (trees,) = fit_trees(
        features, learnt, OFFSETS, seeds=[0], settings=settings, validation=validation
    )
    return trees


def scores_of(trees: Fitted, features: np.ndarray = FEATURES) -> np.ndarray:
    return trees.kept.predict(features)


def test_trees_learn_from_weights_that_are_negative() -> None:
    assert WEIGHTS.mean() < 0
    scores = scores_of(fitted())
    assert np.corrcoef(scores, FEATURES[:, 1])[0, 1] < -0.8


def test_trees_do_not_notice_the_gauge() -> None:
    plain, moved = scores_of(fitted()), scores_of(fitted(targets(7 * WEIGHTS + 2)))
    np.testing.assert_allclose(moved, plain, rtol=1e-4)


def test_nothing_about_documents_that_were_not_known_matters() -> None:
    known = RNG.random(400) < 0.7
    plain = fitted(targets(WEIGHTS, known))
    other = np.where(known, WEIGHTS, np.nan)
    changed = np.where(known[:, None], FEATURES, 9.0).astype(np.float32)
    again = fitted(targets(other, known), changed)
    assert text_of(again.model) == text_of(plain.model)


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
    known = np.stack([np.ones(400, bool), RNG.random(400) < 0.5, np.ones(400, bool)])
    stack = Targets(np.stack([WEIGHTS, WEIGHTS, -WEIGHTS]), known)
    together = fit_trees(FEATURES, stack, OFFSETS, seeds=[0, 0, 0], settings=SMALL)
    for i, trees in enumerate(together):
        alone = fitted(targets(stack.weights[i], known[i]))
        assert text_of(trees.model) == text_of(alone.model)


def test_seeds_draw_features() -> None:
    drawing = replace(SMALL, feature_share=0.5)
    both = Targets(np.stack([WEIGHTS, WEIGHTS]), np.ones((2, 400), bool))
    one, two = fit_trees(FEATURES, both, OFFSETS, seeds=[1, 2], settings=drawing)
    assert text_of(one.model) != text_of(two.model)


def test_early_stopping_keeps_the_trees_that_held_out_weights_like_best() -> None:
    known = RNG.random(400) < 0.8
    held = Validation(FEATURES, targets(WEIGHTS + RNG.normal(size=400), known), OFFSETS)
    patient = replace(SMALL, trees=60, patience=5)
    trees = fitted(settings=patient, validation=held)
    n = trees.chosen_at
    assert n is not None
    assert n == trees.report["trees"]
    assert lgb.Booster(model_str=text_of(trees.chosen)).num_trees() == n
    assert lgb.Booster(model_str=text_of(trees.model)).num_trees() == n + 5
    judge = HeldOut(held, "cpu")
    best = judge.value(0, scores_of(trees))
    assert best == pytest.approx(trees.report["best_held_out"])
    for fewer in range(1, n):
        part = fitted(settings=replace(SMALL, trees=fewer))
        assert judge.value(0, scores_of(part)) < best
    whole = fitted(settings=replace(SMALL, trees=n))
    np.testing.assert_array_equal(scores_of(whole), scores_of(trees))


def test_without_patience_all_trees_are_trained_and_the_best_is_still_chosen() -> None:
    held = Validation(FEATURES, targets(WEIGHTS + RNG.normal(size=400)), OFFSETS)
    long = replace(SMALL, trees=40)
    trees = fitted(settings=long, validation=held)
    assert text_of(trees.model) == text_of(fitted(settings=long).model)
    stopped = fitted(settings=replace(long, patience=39), validation=held)
    assert trees.chosen_at == stopped.chosen_at
    assert text_of(trees.chosen) == text_of(stopped.chosen)


def test_the_held_out_value_is_the_dcg_of_what_is_known() -> None:
    weights, scores = np.abs(WEIGHTS), RNG.normal(size=400)
    known = np.tile(np.arange(20) < 12, 20)
    offsets = np.arange(0, 241, 12)
    expected = Metric("DCG")(scores[known], weights[known], offsets).values.sum()
    for sign in (1.0, -1.0):
        held = Validation(FEATURES, targets(sign * weights, known), OFFSETS)
        found = HeldOut(held, "cpu").value(0, scores)
        assert found == pytest.approx(sign * expected)


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
def test_wrong_settings_are_rejected(change: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(SMALL, **change)  # type: ignore[arg-type]


def test_what_cannot_be_learnt_is_rejected() -> None:
    with pytest.raises(DataError, match="no order to learn"):
        fitted(targets(np.zeros(400)))
    few = np.arange(400) < 30
    with pytest.raises(DataError, match="30 documents are known, too few"):
        fitted(targets(WEIGHTS, few))
    with pytest.raises(ConfigError, match="needs validation weights"):
        fitted(settings=replace(SMALL, patience=3))
    with pytest.raises(DataError, match=r"\[2 seeds, 400 documents\], got \(1, 400\)"):
        fit_trees(FEATURES, targets(), OFFSETS, seeds=[0, 1], settings=SMALL)
    with pytest.raises(ConfigError, match="checkpoint"):
        fit_trees(
            FEATURES,
            targets(),
            OFFSETS,
            seeds=[0],
            settings=SMALL,
            checkpoint=Path("training"),
        )
