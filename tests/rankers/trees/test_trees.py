"""LightGBM rankers: they learn, they are saved and loaded, and reject what is wrong."""

import json
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit

from affinerank.data.feature_mapping import FeatureMapping
from affinerank.evaluation.metrics import Metric
from affinerank.rankers import Fitted, Ranker, Targets, Validation
from affinerank.rankers.loading import load_ranker
from affinerank.rankers.networks.held_out import HeldOut, evaluator_of
from affinerank.rankers.targets import ClickTargets
from affinerank.rankers.trees.lightgbm import (
    ROW,
    TreeModel,
    TreeSettings,
    fit_lambdamart,
    fit_trees,
)
from affinerank.support import threads
from affinerank.support.errors import ConfigError, DataError

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
    loaded: Any = load_ranker(tmp_path / "model")
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
        ({"features": None}, "features must be a list of names"),
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
    with pytest.raises(DataError, match=rf"{name}: not (JSON|trees)"):
        load_ranker(tmp_path / "model")


@pytest.mark.parametrize(
    "changes",
    [{"trees": 10**12}, {"leaves": 10**9}, {"threads": 10**9}, {"truncation": 2**31}],
)
def test_settings_beyond_limits_are_rejected(changes: dict[str, int]) -> None:
    [(name, value)] = changes.items()
    with pytest.raises(ConfigError, match=f"{name} must be .*, got {value}"):
        TreeSettings(**changes)  # type: ignore[arg-type]


SMALL = TreeSettings(trees=5, leaves=4, learning_rate=0.3, threads=1, bins=255)
WEIGHTS = RNG.normal(size=400) - 3 * FEATURES[:, 1]


def targets(weights: np.ndarray = WEIGHTS, known: np.ndarray | None = None) -> Targets:
    mask = np.ones(len(weights), dtype=bool) if known is None else known
    return Targets(weights[None], mask[None])


def fitted(
    learnt: Targets | ClickTargets | None = None,
    features: np.ndarray = FEATURES,
    settings: TreeSettings = SMALL,
    validation: Validation | None = None,
    lengths: list[int] | None = None,
) -> Fitted:
    (trees,) = fit_trees(
        features,
        learnt or targets(),
        OFFSETS,
        seeds=[0],
        settings=settings,
        validation=validation,
        lengths=lengths,
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
    known = np.ones((5, 400), bool)
    known[1] = RNG.random(400) < 0.5
    weights = np.stack([WEIGHTS, WEIGHTS, -WEIGHTS, np.abs(WEIGHTS), WEIGHTS])
    share = RNG.random((5, 20))
    share[2:] = 1.0
    stack = Targets(weights, known, share)
    together = fit_trees(FEATURES, stack, OFFSETS, seeds=[0] * 5, settings=SMALL)
    for i, trees in enumerate(together):
        own = targets(weights[i], known[i])
        alone = fitted(replace(own, share=share[i : i + 1]))
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
    n = trees.best_length
    assert n is not None
    assert n == trees.report["trees"]
    assert lgb.Booster(model_str=text_of(trees.chosen)).num_trees() == n
    assert lgb.Booster(model_str=text_of(trees.model)).num_trees() == n + 5
    evaluator = HeldOut(held, "cpu")
    best = evaluator.value(0, scores_of(trees))
    assert best == pytest.approx(trees.report["best_held_out"])
    assert trees.trace[n - 1] == max(trees.trace) == trees.report["best_held_out"]
    assert len(trees.trace) == n + 5
    for fewer in range(1, n):
        part = fitted(settings=replace(SMALL, trees=fewer))
        assert evaluator.value(0, scores_of(part)) < best
    whole = fitted(settings=replace(SMALL, trees=n))
    np.testing.assert_array_equal(scores_of(whole), scores_of(trees))


def test_without_patience_all_trees_are_trained_and_the_best_is_still_chosen() -> None:
    held = Validation(FEATURES, targets(WEIGHTS + RNG.normal(size=400)), OFFSETS)
    long = replace(SMALL, trees=40)
    trees = fitted(settings=long, validation=held)
    assert text_of(trees.model) == text_of(fitted(settings=long).model)
    stopped = fitted(settings=replace(long, patience=39), validation=held)
    assert trees.best_length == stopped.best_length
    assert text_of(trees.chosen) == text_of(stopped.chosen)


def test_lengths_are_the_trees_of_each_ranker() -> None:
    both = Targets(np.stack([WEIGHTS, -WEIGHTS]), np.ones((2, 400), bool))
    told: list[tuple[str, int, int]] = []
    planned = fit_trees(
        FEATURES,
        both,
        OFFSETS,
        seeds=[0, 0],
        settings=SMALL,
        lengths=[2, 7],
        progress=lambda *step: told.append(step),
    )
    assert told == [("training trees", done, 9) for done in range(1, 10)]
    for i, n in enumerate([2, 7]):
        asked = replace(SMALL, trees=n)
        alone = fitted(targets(both.weights[i]), settings=asked)
        assert (planned[i].best_length, planned[i].trace) == (n, [])
        assert planned[i].report["trees"] == n
        assert planned[i].chosen == planned[i].model == alone.model


def by_lightgbm(features: np.ndarray, **fields: Any) -> np.ndarray:
    """Scores of LightGBM's own lambdarank, trained directly with linear gains."""
    data = lgb.Dataset(features, **fields)
    asked = {
        "objective": "lambdarank",
        "label_gain": [step / 255 for step in range(256)],
        "num_leaves": SMALL.leaves,
        "learning_rate": SMALL.learning_rate,
        "num_threads": 1,
        "verbosity": -1,
    }
    return np.asarray(lgb.train(asked, data, SMALL.trees).predict(FEATURES))


def test_native_trees_of_labels_are_those_of_lightgbm() -> None:
    native = fitted(targets(LABELS), settings=replace(SMALL, objective="native"))
    expected = by_lightgbm(FEATURES, label=255 * LABELS, group=np.diff(OFFSETS))
    np.testing.assert_array_equal(scores_of(native), expected)
    assert "\nobjective=lambdarank\n" in text_of(native.model)


def test_native_trees_read_weights_in_steps_and_shares_as_weights() -> None:
    known = (RNG.random(400) < 0.7) & (np.arange(400) >= 20)  # the first query is lost
    share = RNG.random((1, 20))
    learnt = replace(targets(WEIGHTS, known), share=share)
    native = fitted(learnt, settings=replace(SMALL, objective="native"))
    weights = WEIGHTS[known].clip(0)
    expected = by_lightgbm(
        FEATURES[known],
        label=np.rint(weights / weights.max() * 255),
        group=np.add.reduceat(known, OFFSETS[:-1], dtype=int)[1:],
        weight=np.repeat(share[0] / share.mean(), 20)[known],
    )
    np.testing.assert_array_equal(scores_of(native), expected)


@pytest.mark.parametrize(
    ("weights", "native"),
    [
        (LABELS, True),
        (np.where(LABELS > 0, LABELS, -0.09 * LABELS.mean()), True),
        (np.where(LABELS > 0, LABELS, -0.3 * LABELS.mean()), False),
        (0.2 * (LABELS - 1), False),
    ],
)
def test_the_objective_goes_by_the_sign(weights: np.ndarray, native: bool) -> None:
    same = replace(SMALL, objective="native" if native else "any-sign")
    found, expected = fitted(targets(weights)), fitted(targets(weights), settings=same)
    assert found.model == expected.model
    assert ("objective=lambdarank" in text_of(found.model)) == native


@pytest.mark.parametrize("noisy", [True, False])
def test_corrected_clicks_are_not_read_as_relevance(noisy: bool) -> None:
    found = fitted(replace(targets(LABELS), noisy=[noisy]))
    assert ("objective=lambdarank" in text_of(found.model)) != noisy


def test_no_more_values_of_a_feature_are_told_apart_than_bins() -> None:
    thresholds = {
        bins: len(
            {
                float(value)
                for line in text_of(
                    fitted(settings=replace(SMALL, trees=40, bins=bins)).model
                ).splitlines()
                if line.startswith("threshold=")
                for value in line.removeprefix("threshold=").split()
            }
        )
        for bins in (4, 63)
    }
    assert thresholds[4] <= 3 * FEATURES.shape[1] < thresholds[63]


ALPHA, BETA = np.array([0.5, 0.3]), np.array([0.3, 0.05])
RELEVANCE = np.where(LABELS, 0.8, 0.1)


def clicks(shown: int, seed: int = 0) -> ClickTargets:
    """Each document ``shown`` times at each of two ranks."""
    rate = ALPHA * RELEVANCE[:, None] + BETA
    counts = np.random.default_rng(seed).binomial(shown, rate)
    parts = (np.full_like(rate, shown), counts, ALPHA + 0 * rate, BETA + 0 * rate)
    return ClickTargets(*(part[None].astype(np.float32) for part in parts))


def standard_error(relevance: float, impressions: float) -> float:
    """Of relevance, from so many impressions at each rank."""
    rate = ALPHA * relevance + BETA
    return float(1 / np.sqrt(impressions * np.sum(ALPHA**2 / (rate * (1 - rate)))))


def test_scores_from_clicks_are_logits_of_relevance(tmp_path: Path) -> None:
    stumps = replace(SMALL, trees=60, leaves=2)
    model = fitted(clicks(500), settings=stumps).kept
    Ranker(ROW.name, model, FeatureMapping(("a", "b", "c")), {}).save(tmp_path / "m")
    loaded: Any = load_ranker(tmp_path / "m")
    found = expit(loaded.predict(FEATURES))
    for level in (0.1, 0.8):
        own = np.isclose(RELEVANCE, level)
        error = standard_error(level, 500 * own.sum())
        assert abs(found[own].mean() - level) < 4 * error


def test_scores_from_clicks_start_at_the_mean_relevance() -> None:
    slow = replace(SMALL, trees=1, learning_rate=1e-9)
    (n, counts, _, _) = (part[0].sum(axis=0) for part in astuple(clicks(500)))
    scores = scores_of(fitted(clicks(500), settings=slow))

    def surprise(score: float) -> float:
        rate = ALPHA * expit(score) + BETA
        return -float(np.sum(counts * np.log(rate) + (n - counts) * np.log(1 - rate)))

    best = minimize_scalar(surprise, bounds=(-6, 6), method="bounded").x
    np.testing.assert_allclose(scores, best, atol=1e-3)


def test_clicks_stop_where_held_out_clicks_are_likeliest() -> None:
    held = Validation(FEATURES, clicks(3, seed=1), OFFSETS)
    patient = replace(SMALL, trees=60, patience=5)
    trees = fitted(clicks(3), settings=patient, validation=held)
    evaluator, n = evaluator_of(held, "cpu"), trees.best_length
    assert n is not None
    assert lgb.Booster(model_str=text_of(trees.model)).num_trees() == n + 5
    assert evaluator.value(0, scores_of(trees)) == pytest.approx(trees.trace[n - 1])
    for other in (1, n - 1, n + 1, n + 4):
        part = fitted(clicks(3), lengths=[other])
        assert evaluator.value(0, scores_of(part)) < evaluator.value(
            0, scores_of(trees)
        )


def test_nothing_about_documents_that_were_never_shown_matters() -> None:
    learnt = clicks(20)
    learnt.impressions[:, :150] = learnt.clicks[:, :150] = 0
    changed = np.where(np.arange(400)[:, None] < 150, 9.0, FEATURES)
    again = fitted(learnt, changed.astype(np.float32))
    assert again.model == fitted(learnt).model


def test_a_tree_moves_a_score_by_the_rate_at_most_where_there_are_no_clicks() -> None:
    learnt = clicks(50)
    learnt.clicks[:, LABELS == 0] = 0
    booster = lgb.Booster(model_str=text_of(fitted(learnt).model))
    after = [booster.predict(FEATURES, num_iteration=n) for n in range(1, 6)]
    assert np.abs(np.diff(after, axis=0)).max() <= SMALL.learning_rate + 1e-9


@pytest.mark.parametrize("learnt", [targets(), targets(LABELS), clicks(20)])
def test_threads_make_no_difference(
    learnt: Targets | ClickTargets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "FEW_DOCUMENTS", 0)
    one, two = (
        scores_of(fitted(learnt, settings=replace(SMALL, threads=number)))
        for number in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


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
        ({"objective": "own"}, "auto or native or any-sign, got 'own'"),
        ({"learning_rate": 0.0}, r"learning_rate must be above 0, got 0\.0"),
        (
            {"feature_share": 1.5},
            r"feature_share must be above 0 and up to 1, got 1\.5",
        ),
    ],
)
def test_wrong_settings_are_rejected(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(SMALL, **change)  # type: ignore[arg-type]


def test_what_cannot_be_learnt_is_rejected() -> None:
    with pytest.raises(DataError, match="no order to learn"):
        fitted(targets(np.zeros(400)))
    few = np.arange(400) < 30
    with pytest.raises(DataError, match="30 documents are known, too few"):
        fitted(targets(WEIGHTS, few))
    native = replace(SMALL, objective="native")
    with pytest.raises(DataError, match=r"weight above 0, got -0\.1"):
        fitted(targets(WEIGHTS - WEIGHTS.max() - 0.1), settings=native)
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
