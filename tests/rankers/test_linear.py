"""Linear rankers: optima, the choice of the ridge, folders, and what is rejected."""

import json
import subprocess
import sys
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit

from affinerank.data.feature_mapping import FeatureMapping
from affinerank.export.export import export_ranker
from affinerank.rankers import Fitted, Ranker, Targets, Validation
from affinerank.rankers.likelihood import Clicks
from affinerank.rankers.linear import (
    ROW,
    LinearModel,
    LinearSettings,
    fit_linear,
)
from affinerank.rankers.loading import load_ranker
from affinerank.rankers.networks.held_out import evaluator_of
from affinerank.rankers.targets import ClickTargets
from affinerank.support.errors import ConfigError, DataError

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(2.0, [1.0, 3.0, 0.5], (400, 3)).astype(np.float32)
OFFSETS = np.arange(0, 401, 20)
TRUE = np.array([1.0, -0.3, 0.0])
SCORES = FEATURES @ TRUE - 2.0
WEIGHTS = SCORES + RNG.normal(size=400)
ALPHA, BETA = np.array([0.5, 0.3]), np.array([0.3, 0.05])
NAMES = ("a", "b", "c")
ONE = LinearSettings(ridge=(50.0,))


def clicks(shown: int, seed: int = 0) -> ClickTargets:
    """Each document ``shown`` times at each of two ranks, and an empty slot."""
    rate = ALPHA * expit(SCORES)[:, None] + BETA
    counts = np.random.default_rng(seed).binomial(shown, rate)
    parts = (np.full_like(rate, shown), counts, ALPHA + 0 * rate, BETA + 0 * rate)
    padded = (np.pad(part, ((0, 0), (0, 1))) for part in parts)
    return ClickTargets(*(part[None].astype(np.float32) for part in padded))


def targets(weights: np.ndarray = WEIGHTS, known: np.ndarray | None = None) -> Targets:
    mask = np.ones(len(weights), dtype=bool) if known is None else known
    return Targets(weights[None], mask[None])


def fitted(
    learnt: Targets | ClickTargets,
    settings: LinearSettings = ONE,
    features: np.ndarray = FEATURES,
    **more: Any,
) -> Fitted:
    (one,) = fit_linear(features, learnt, OFFSETS, seeds=[0], settings=settings, **more)
    return one


def numbers(model: Any) -> np.ndarray:
    return np.append(model.coefficients, model.constant)


def surprise(at: np.ndarray, learnt: ClickTargets, penalty: float) -> float:
    """Negative log-likelihood and penalty, written out for dense slots."""
    n, c, alpha, beta = (part[0, :, :2].astype(float) for part in astuple(learnt))
    p = alpha * expit(FEATURES.astype(float) @ at[:-1] + at[-1])[:, None] + beta
    fit = -np.sum(c * np.log(p) + (n - c) * np.log(1 - p))
    w = at[:-1] * FEATURES.std(axis=0, dtype=float)
    return float(fit + penalty / 2 * w @ w)


def curvature(learnt: ClickTargets) -> float:
    """Mean over features of the information at a score of -1."""
    n, _, alpha, beta = (part[0, :, :2].astype(float) for part in astuple(learnt))
    m = expit(-1.0)
    p = alpha * m + beta
    by_doc = np.sum(n * (alpha * m * (1 - m)) ** 2 / (p * (1 - p)), axis=1)
    x = FEATURES.astype(float)
    standard = (x - x.mean(axis=0)) / x.std(axis=0)
    return float(np.mean(by_doc @ standard**2))


def test_the_slope_of_the_surprise_is_that_of_finite_differences() -> None:
    own = Clicks.of(clicks(7), 0)
    at = np.random.default_rng(1).normal(size=400)
    _, slope = own.surprise(at)
    found = approx_fprime(at, lambda scores: own.surprise(scores)[0], 1e-6)
    np.testing.assert_allclose(slope, found, atol=1e-3)


@pytest.mark.parametrize("strength", [1.0, 50.0, 5000.0])
def test_clicks_are_fitted_to_the_optimum(strength: float) -> None:
    learnt = clicks(20)
    model = fitted(learnt, LinearSettings(ridge=(strength,))).kept
    penalty = strength / 100 * curvature(learnt)
    slope = approx_fprime(numbers(model), surprise, 1e-6, learnt, penalty)
    start = approx_fprime(np.array([0, 0, 0, -1.0]), surprise, 1e-6, learnt, penalty)
    assert np.linalg.norm(slope) < 2e-3 * np.linalg.norm(start)


def test_scores_from_many_clicks_are_logits_of_relevance() -> None:
    model = fitted(clicks(3000), LinearSettings(ridge=(1e-3,))).kept
    found, relevance = expit(model.predict(FEATURES)), expit(SCORES)
    rate = ALPHA * relevance[:, None] + BETA
    # Four numbers are learnt from 400 documents: 10 alone carry as much noise.
    error = 1 / np.sqrt(10 * 3000 * np.sum(ALPHA**2 / (rate * (1 - rate)), axis=1))
    assert np.all(np.abs(found - relevance) < 4 * error)


def test_nothing_about_clicks_that_nobody_could_make_matters() -> None:
    learnt = clicks(20)
    again = ClickTargets(*(part.copy() for part in astuple(learnt)))
    again.alpha[..., 2] = 9.0
    np.testing.assert_array_equal(
        numbers(fitted(again).kept), numbers(fitted(learnt).kept)
    )


def test_weights_are_fitted_by_the_normal_equations() -> None:
    known = RNG.random(400) < 0.7
    share = RNG.random((1, 20)) * (np.arange(20) > 2)
    found: Any = fitted(replace(targets(WEIGHTS, known), share=share)).kept
    deviation = FEATURES.std(axis=0, dtype=float)
    square, moment = np.zeros((3, 3)), np.zeros(3)
    for query in range(20):
        own = np.flatnonzero(known[20 * query : 20 * query + 20]) + 20 * query
        x = FEATURES[own].astype(float) / deviation
        x -= x.mean(axis=0)
        y = WEIGHTS[own] - WEIGHTS[own].mean()
        counts = share[0, query] / share.mean()
        square, moment = square + counts * x.T @ x, moment + counts * x.T @ y
    penalty = 0.5 * np.diag(square).mean()
    expected = np.linalg.solve(square + penalty * np.eye(3), moment) / deviation
    np.testing.assert_allclose(found.coefficients, expected, rtol=1e-5, atol=1e-6)


def test_scores_from_weights_follow_the_gauge() -> None:
    plain = fitted(targets()).kept.predict(FEATURES)
    moved = fitted(targets(7 * WEIGHTS + 2)).kept.predict(FEATURES)
    np.testing.assert_allclose(moved, 7 * plain + 2, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("by", ["clicks", "weights"])
def test_held_out_queries_choose_the_ridge(by: str) -> None:
    noisy = WEIGHTS + RNG.normal(0, 3, size=(2, 400))
    learnt: list[Any] = [clicks(1, seed) for seed in (0, 1)]
    if by == "weights":
        learnt = [targets(some) for some in noisy]
    held = Validation(FEATURES, learnt[1], OFFSETS)
    evaluator = evaluator_of(held, "cpu")
    tried = LinearSettings(ridge=(1.0, 1e5, 100.0, 1e3), patience=9)
    found = fitted(learnt[0], tried, validation=held)
    alone = [
        fitted(learnt[0], LinearSettings(ridge=(ridge,))).model
        for ridge in (1e5, 1e3, 100.0, 1.0)
    ]
    values = [evaluator.value(0, one.predict(FEATURES)) for one in alone]
    np.testing.assert_allclose(found.trace, values, rtol=1e-4)
    assert found.best_length == int(np.argmax(found.trace)) + 1
    assert found.report["best_held_out"] == max(found.trace)
    assert found.report["ridge"] == (1e5, 1e3, 100.0, 1.0)[found.best_length - 1]
    assert found.kept is found.chosen
    np.testing.assert_allclose(numbers(found.model), numbers(alone[-1]), atol=2e-2)


def test_strengths_after_one_without_gain_are_not_tried() -> None:
    opposite = Validation(FEATURES, targets(-WEIGHTS), OFFSETS)
    strengths = (1e9, 1e3, 10.0, 1.0)
    worse = fitted(targets(), LinearSettings(ridge=strengths), validation=opposite)
    more = LinearSettings(ridge=strengths, patience=2)
    patient = fitted(targets(), more, validation=opposite)
    assert len(worse.trace) == worse.best_length + 1  # type: ignore[operator]
    assert len(patient.trace) > len(worse.trace)


def test_without_validation_the_third_of_six_is_taken() -> None:
    plain = fitted(targets(), LinearSettings())
    assert (plain.chosen, plain.best_length, plain.report) == (
        None,
        None,
        {"ridge": 300},
    )


def test_a_constant_feature_has_no_coefficient() -> None:
    features = FEATURES.copy()
    features[:, 1] = 0.1
    for learnt in (targets(), clicks(20)):
        model: Any = fitted(learnt, features=features).kept
        assert model.coefficients[1] == 0
        assert np.all(model.coefficients[[0, 2]] != 0)


def test_a_ranker_is_the_same_in_its_folder_and_as_onnx(tmp_path: Path) -> None:
    ranker = Ranker(ROW.name, fitted(clicks(20)).kept, FeatureMapping(NAMES), {})
    ranker.save(tmp_path / "model")
    again: Any = load_ranker(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(FEATURES), ranker.predict(FEATURES))
    pytest.importorskip("onnxruntime")
    made = export_ranker(ranker, tmp_path / "ranker.onnx", to="onnx")
    assert made.parity is not None
    assert made.parity.relative < 1e-5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coefficients": [1.0, 2.0]}, "2 coefficients, .* names 3 features"),
        ({"constant": float("nan")}, r"model\.json: .* finite"),
        ({"constant": 10**308}, r"model\.json: not JSON: .* 300 digits"),
        ({"coefficients": None}, r"model\.json: .* finite"),
        ({"coefficients": ["x", 1, 2]}, r"model\.json: .* finite"),
    ],
)
def test_a_changed_file_is_rejected(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    model = LinearModel(TRUE, 0.5)
    Ranker(ROW.name, model, FeatureMapping(NAMES), {}).save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=message):
        load_ranker(tmp_path / "model")


def test_missing_values_are_rejected() -> None:
    hole = FEATURES.copy()
    hole[7, 1] = np.nan
    for call in (
        lambda: fitted(targets(), features=hole),
        lambda: LinearModel(TRUE, 0.0).predict(hole),
        lambda: fitted(targets(), validation=Validation(hole, targets(), OFFSETS)),
    ):
        with pytest.raises(DataError, match=r"document 7, feature 2: .* missing"):
            call()


def test_what_cannot_be_fitted_is_rejected() -> None:
    with pytest.raises(DataError, match=r"ranker 0: .* no order to learn"):
        fitted(targets(np.ones(400)))
    with pytest.raises(DataError, match="no order to learn"):
        fitted(targets(WEIGHTS, np.zeros(400, dtype=bool)))
    with pytest.raises(DataError, match="finite"):
        fitted(targets(np.where(np.arange(400) == 3, np.nan, WEIGHTS)))
    with pytest.raises(ConfigError, match="checkpoint"):
        fitted(targets(), checkpoint=Path("training"))
    with pytest.raises(ConfigError, match="needs validation"):
        fitted(targets(), LinearSettings(patience=2))
    for wrong in ({"ridge": ()}, {"ridge": (1.0, 0.0)}, {"steps": 0}, {"patience": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            LinearSettings(**wrong)


def test_fitting_loads_neither_torch_nor_lightgbm() -> None:
    code = """
import sys
import numpy as np
from affinerank.rankers import RANKERS, Targets, Validation
from affinerank.rankers.targets import ClickTargets
kind = RANKERS["linear-model"]
x = np.random.default_rng(0).random((40, 2)).astype(np.float32)
n = np.ones((1, 40, 1), np.float32)
weights = Targets(x[:, :1].T, np.ones((1, 40), bool))
clicks = ClickTargets(n, n * (x[:, :1] > 0.5), 0.5 * n, 0.1 * n)
at = np.arange(0, 41, 10)
for learnt in (weights, clicks):
    kind.fit(x, learnt, at, seeds=[0], settings=kind.settings(),
             validation=Validation(x, learnt, at))
print([m for m in ("torch", "lightgbm") if m in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
