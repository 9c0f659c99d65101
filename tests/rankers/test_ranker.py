"""Rankers of any kind: saved, loaded, scoring; and a kind that only this test knows."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.evaluation.metrics import Metric, evaluate_scores
from affinerank.export.export import export_ranker
from affinerank.rankers import (
    RANKERS,
    Fitted,
    Model,
    Ranker,
    RankerKind,
    Targets,
    Validation,
    linear,
    predict_all,
    score,
)
from affinerank.rankers.loading import load_ranker
from affinerank.rankers.networks import settings as mlp
from affinerank.rankers.networks.model import Networks, initial_parameters
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.trees import lightgbm as trees
from affinerank.rankers.trees.lightgbm import fit_lambdamart
from affinerank.rivals import xgboost
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.settings import from_table

NAMES = ("a", "b", "c")
FEATURES = np.random.default_rng(0).random((60, 3)).astype(np.float32)
OFFSETS = np.arange(0, 61, 6)
SMALL = NetworkSettings(hidden=(16, 8), dropout=(0.0, 0.1), device="cpu")


@dataclass(frozen=True)
class RidgeSettings:
    """How far coefficients are drawn to 0."""

    strength: float = 0.1


@dataclass(frozen=True, eq=False)
class Ridge:
    """A linear model."""

    coefficients: np.ndarray
    settings: RidgeSettings

    def predict(self, features: np.ndarray) -> np.ndarray:
        return np.asarray(features @ self.coefficients)

    def files(self) -> Mapping[str, bytes]:
        return {"ridge.txt": " ".join(map(repr, self.coefficients.tolist())).encode()}

    def about(self) -> dict[str, Any]:
        return {"settings": asdict(self.settings)}


def fit_ridge(
    features: np.ndarray,
    targets: Targets,
    offsets: np.ndarray,
    *,
    seeds: Sequence[int],
    settings: RidgeSettings,
    **unused: Any,
) -> list[Fitted]:
    del unused
    share = targets.of_queries(offsets)
    fitted = []
    for i in range(len(seeds)):
        counts_for = np.repeat(share[i], np.diff(offsets)) * targets.known[i]
        square = (features.T * counts_for) @ features
        square += settings.strength * np.eye(features.shape[1])
        found = np.linalg.solve(square, features.T @ (counts_for * targets.weights[i]))
        fitted.append(
            Fitted(Ridge(found, settings), None, None, {"rows": len(features)})
        )
    return fitted


def load_ridge(folder: Path, about: dict[str, Any], n_features: int) -> Ridge:
    numbers = [float(text) for text in (folder / "ridge.txt").read_text().split()]
    if len(numbers) != n_features:
        raise ValueError(f"{len(numbers)} coefficients")
    settings = from_table(RidgeSettings, about["settings"], "settings")
    return Ridge(np.array(numbers), settings)


RIDGE = RankerKind("ridge", "Ridge regression", RidgeSettings, fit_ridge, load_ridge)


def network(*seeds: int, n_features: int = 3) -> Networks:
    tensors = initial_parameters(n_features, seeds, SMALL)
    return Networks(tuple(tensors), n_features, SMALL, seeds)


def forest() -> Model:
    labels = (FEATURES[:, 1] > 0.7).astype(np.float32)
    return fit_lambdamart(FEATURES, labels, OFFSETS)


def ridge() -> Model:
    return Ridge(np.array([0.5, -1.0, 2.0]), RidgeSettings(3.0))


MODELS = {mlp.ROW.name: network(6), trees.ROW.name: forest(), RIDGE.name: ridge()}


def ranker_of(kind: str, **changes: Any) -> Ranker:
    plain = Ranker(kind, MODELS[kind], FeatureMapping(NAMES), {"seed": 6}, ("q1", "q2"))
    return replace(plain, **changes)


@pytest.mark.parametrize("kind", MODELS)
def test_a_saved_ranker_is_the_same_when_loaded(tmp_path: Path, kind: str) -> None:
    ranker = ranker_of(kind)
    ranker.save(tmp_path / "model")
    with RANKERS.added(RIDGE):
        loaded: Any = load_ranker(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(FEATURES), ranker.predict(FEATURES))
    assert (loaded.kind, loaded.mapping) == (kind, ranker.mapping)
    assert (loaded.provenance, loaded.training_queries) == ({"seed": 6}, ("q1", "q2"))
    assert loaded.model.about() == ranker.model.about()
    assert loaded.model.files() == ranker.model.files()
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == sorted(["ranker.json", *ranker.model.files()])


def test_a_kind_of_ones_own_is_fitted_saved_loaded_and_scores(tmp_path: Path) -> None:
    weights = FEATURES[:, 0] - 2.0 * FEATURES[:, 2]
    known = np.ones((2, 60), dtype=bool)
    known[1, ::3] = False
    targets = Targets(np.where(known, weights, 1e6), known)
    data = RankingDataset.from_rows(
        FEATURES, np.repeat(np.arange(10), 6), feature_names=NAMES
    )
    with RANKERS.added(RIDGE):
        kind = RANKERS["ridge"]
        settings: Any = from_table(kind.settings, {"strength": 1e-6}, "ridge")
        fitted = kind.fit(FEATURES, targets, OFFSETS, seeds=[0, 1], settings=settings)
        scores = predict_all([one.kept for one in fitted], FEATURES)
        np.testing.assert_allclose(scores, [weights, weights], atol=1e-4)
        mapping = FeatureMapping(NAMES, scaling="none")
        ranker = Ranker("ridge", fitted[0].kept, mapping, {})
        ranker.save(tmp_path / "model")
        again = load_ranker(tmp_path / "model")
        np.testing.assert_array_equal(score(again, data), ranker.predict(FEATURES))
        with pytest.raises(ConfigError, match=r"kind ridge .* ONNX; .* to nothing"):
            export_ranker(again, tmp_path / "file", to="onnx")
    message = r"no ranker .ridge.; if a plug-in adds it, .*; known are blend, lightgbm"
    with pytest.raises(DataError, match=message):
        load_ranker(tmp_path / "model")


def test_scores_of_data_are_those_of_their_mapped_features() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, 60).astype(np.float32)
    data = RankingDataset.from_rows(
        rng.random((60, 4)).astype(np.float32),
        np.repeat(np.arange(10), 6),
        labels=labels,
        feature_names=("x", *NAMES),
    )
    ranker = ranker_of(mlp.ROW.name)
    scores = score(ranker, data)
    expected = ranker.predict(ranker.mapping.apply(data).features)
    np.testing.assert_allclose(scores, expected, rtol=1e-6)
    evaluated = evaluate_scores(scores, data, 2.0)
    binary = (labels > 2.0).astype(float)
    np.testing.assert_array_equal(
        evaluated.values, Metric("nDCG", 10)(scores, binary, data.offsets).values
    )


def test_models_are_scored_together_as_alone() -> None:
    one, other = network(1, 2).apart()
    wide = NetworkSettings(hidden=(4,), device="cpu")
    wider = Networks(tuple(initial_parameters(3, [1], wide)), 3, wide, (1,))
    models = [one, forest(), wider, other, ridge()]
    together = predict_all(models, FEATURES)
    for row, model in zip(together, models, strict=True):
        np.testing.assert_allclose(row, model.predict(FEATURES), atol=1e-6)


@pytest.mark.parametrize("kind", MODELS)
def test_other_numbers_of_features_are_rejected(kind: str) -> None:
    with pytest.raises(DataError, match="reads 3 features, got 2"):
        ranker_of(kind).predict(FEATURES[:, :2])
    assert ranker_of(kind).predict(FEATURES[:0]).shape == (0,)


def edited(folder: Path, **changes: Any) -> Path:
    """A saved network, some keys of whose ``ranker.json`` are other ones."""
    ranker_of(mlp.ROW.name).save(folder)
    path = folder / "ranker.json"
    about = {**json.loads(path.read_text()), **changes}
    kept = {key: value for key, value in about.items() if value is not ...}
    path.write_text(json.dumps(kept))
    return folder


def test_a_folder_must_say_all_that_its_format_has(tmp_path: Path) -> None:
    for i, (key, message) in enumerate(
        {
            "training_queries": "training_queries must be a list of queries",
            "scaling": "scaling must be one of list, data, none",
            "categories": "categories must be an object",
        }.items()
    ):
        changes: dict[str, Any] = {key: ...}
        folder = edited(tmp_path / str(i), **changes)
        with pytest.raises(DataError, match=message):
            load_ranker(folder)


def test_what_fills_missing_values_is_saved_with_the_ranker(tmp_path: Path) -> None:
    mapping = FeatureMapping(NAMES, fill=(0.5, 0.0, 0.125))
    ranker_of(mlp.ROW.name, mapping=mapping).save(tmp_path / "model")
    loaded: Any = load_ranker(tmp_path / "model")
    assert loaded.mapping == mapping
    folder = edited(tmp_path / "other", fill=[0.5, 0.0, float("nan")])
    with pytest.raises(DataError, match=r"not JSON: .* got NaN"):
        load_ranker(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 9}, "version 1, got 'affinerank-ranker' version 9"),
        ({"features": [*"abcdefghi"]}, "the tensors have shapes"),
        ({"features": [["a"], ["b"], ["c"]]}, "features must be a list of names"),
        ({"features": None}, "features must be a list of names"),
        ({"features": ["a", 2, "c"]}, "features must be a list of names"),
        ({"scaling": "mean"}, "scaling must be list, data or none"),
        ({"scaling": "data"}, "needs low and high"),
        ({"low": [1]}, "low must be 3 numbers"),
        ({"fill": [0.5, 0.5]}, "fill must be 3 numbers"),
        ({"fill": [0.5, [0.5], 0.5]}, "fill must be 3 numbers"),
        ({"kind": "forest"}, "no ranker 'forest'"),
        ({"kind": ["mlp"]}, "kind must be text"),
        ({"kind": ...}, "kind must be text"),
        ({"settings": 3}, "settings must be a table"),
        ({"settings": {"hidden": [10**9]}}, "hidden layers must take at most"),
        ({"settings": {"epochs": 10**18}}, "epochs must be 1 to 1000000"),
        ({"settings": {"learning_rate": 10**299}}, "not a ranker saved"),
        ({"settings": {"layers": [16, 8]}}, "no key 'layers'"),
        ({"settings": {"hidden": [16, 8], "loss": "hinge"}}, "no loss 'hinge'"),
        ({"seeds": []}, "seeds must be one whole number"),
        ({"seeds": [1.5]}, "seeds must be one whole number"),
        ({"provenance": 3}, "provenance must be an object"),
        ({"training_queries": 3}, "training_queries must be a list of queries"),
        ({"training_queries": [[]]}, "training_queries must be a list of queries"),
    ],
)
def test_a_changed_folder_is_rejected(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    folder = edited(tmp_path / "model", **changes)
    with pytest.raises(DataError) as caught:
        load_ranker(folder)
    assert str(folder) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("content", ["{", "[1]", "[" * 100_000, "\udcff"])
def test_a_broken_description_is_rejected(tmp_path: Path, content: str) -> None:
    ranker_of(mlp.ROW.name).save(tmp_path / "model")
    path = tmp_path / "model" / "ranker.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=r"ranker\.json: not (JSON|text|a ranker)"):
        load_ranker(tmp_path / "model")


HEADS = {
    "endless": (2**62).to_bytes(8, "little"),
    "nothing": (0).to_bytes(8, "little"),
    "huge": b'{"parameter.0":{"dtype":"F32","shape":[4294967296,4294967296],'
    b'"data_offsets":[0,4]}}',
    "empty": b'{"parameter.0":{"dtype":"F32","shape":[9223372036854775807,0],'
    b'"data_offsets":[0,0]}}',
    "strange": b'{"parameter.0":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}',
}


@pytest.mark.parametrize("name", HEADS)
def test_tensors_of_absurd_sizes_are_rejected(tmp_path: Path, name: str) -> None:
    ranker_of(mlp.ROW.name).save(tmp_path / "model")
    head = HEADS[name]
    if head.startswith(b"{"):
        head = len(head).to_bytes(8, "little") + head
    (tmp_path / "model" / "model.safetensors").write_bytes(head + b"\0" * 4)
    with pytest.raises(DataError, match="model: not a ranker saved") as caught:
        load_ranker(tmp_path / "model")
    assert "\n" not in str(caught.value)


def test_broken_and_lost_tensors_are_rejected(tmp_path: Path) -> None:
    ranker_of(mlp.ROW.name).save(tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match="model: not a ranker saved by AffineRank"):
        load_ranker(tmp_path / "model")
    endless = network(0)
    endless.parameters[0][0, 0, 0] = float("inf")
    replace(ranker_of(mlp.ROW.name), model=endless).save(tmp_path / "endless")
    with pytest.raises(DataError, match="the tensors must be finite"):
        load_ranker(tmp_path / "endless")
    path.unlink()
    with pytest.raises(DataError, match=r"model\.safetensors: there is no such file"):
        load_ranker(tmp_path / "model")


def test_every_kind_learns_from_what_is_known_and_says_what_was_chosen() -> None:
    features = np.random.default_rng(3).random((400, 3)).astype(np.float32)
    offsets = np.arange(0, 401, 20)
    weights = np.stack([features[:, 0], -features[:, 1]])
    targets = Targets(weights, np.ones((2, 400), dtype=bool))
    validation = Validation(features, targets, offsets)
    few = {"epochs": 4, "hidden": (8,), "device": "cpu"}
    small: dict[str, Any] = {
        mlp.ROW.name: NetworkSettings(**few),  # type: ignore[arg-type]
        trees.ROW.name: trees.TreeSettings(trees=4),
        xgboost.ROW.name: xgboost.XGBoostSettings(trees=4, min_documents=5),
        linear.ROW.name: linear.LinearSettings(ridge=(10.0, 30.0, 100.0, 300.0)),
    }
    for name, settings in small.items():  # rivals have tests of their own
        fitted = RANKERS[name].fit(
            features,
            targets,
            offsets,
            seeds=[0, 1],
            settings=settings,
            validation=validation,
        )
        assert len(fitted) == 2
        for one, wanted in zip(fitted, weights, strict=True):
            assert one.kept is one.chosen
            assert one.best_length is not None
            assert one.best_length in range(1, 5)
            assert one.trace[one.best_length - 1] == max(one.trace)
            assert all(np.isfinite(value) for value in one.report.values())
            assert np.corrcoef(one.kept.predict(features), wanted)[0, 1] > 0.3


def test_the_table_loads_neither_torch_nor_lightgbm() -> None:
    code = (
        "import sys; from affinerank.rankers import RANKERS, Targets, Validation; "
        "RANKERS['lightgbm'].settings(); "
        "print([m for m in ('torch', 'lightgbm', 'numba') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
