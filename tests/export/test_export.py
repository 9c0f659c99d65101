"""Exported rankers score as the ranker does, on whole lists of raw features."""

import importlib.util
import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.scaling import scaled_in_lists

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.export import export
from affinerank.export.export import export_ranker
from affinerank.export.onnx import build_model
from affinerank.rankers import Ranker
from affinerank.rankers.blend import Blend, production_of
from affinerank.rankers.linear import LinearModel
from affinerank.rankers.networks import settings as mlp
from affinerank.rankers.networks.model import Networks, initial_parameters
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.ranker import Member
from affinerank.rankers.trees import lightgbm as trees
from affinerank.rankers.trees.lightgbm import TreeModel, fit_lambdamart
from affinerank.support.errors import ConfigError, DataError

onnxruntime = pytest.importorskip("onnxruntime")
NAMES = ("title", "body", "clicks")
NAN = float("nan")
LIST = np.array([[5, 1, 2], [7, 1, -4], [6, 1, 1e6], [5, 1, 0]], np.float32)


def network(*, seed: int = 0, mapping: FeatureMapping | None = None) -> Ranker:
    settings = NetworkSettings(hidden=(8, 4), device="cpu")
    parameters = initial_parameters(len(NAMES), [seed], settings)
    networks = Networks(tuple(parameters), len(NAMES), settings, (seed,))
    return Ranker(mlp.ROW.name, networks, mapping or FeatureMapping(NAMES), {})


def forest(*, missing: float = 0.1, min_max: bool = True) -> Ranker:
    rng = np.random.default_rng(1)
    features = rng.random((400, 3)).astype(np.float32)
    labels = (features[:, 1] + features[:, 2] > 1.1).astype(np.float32)
    features[rng.random(features.shape) < missing] = np.nan
    model = fit_lambdamart(features, labels, np.arange(0, 401, 20))
    return Ranker(
        trees.ROW.name, model, FeatureMapping(NAMES, "list" if min_max else "none"), {}
    )


def from_text(text: str) -> Ranker:
    return Ranker(trees.ROW.name, TreeModel(text), FeatureMapping(NAMES), {})


def layers_of(ranker: Ranker) -> tuple[torch.Tensor, ...]:
    assert isinstance(ranker.model, Networks)
    return ranker.model.parameters


def booster(settings: dict[str, Any], features: NDArray[Any], labels: Any) -> str:
    asked = {"objective": "regression", "verbosity": -1, "num_threads": 1, **settings}
    categories = asked.pop("categories", [])
    data = lgb.Dataset(features, label=labels, categorical_feature=categories)
    text: str = lgb.train(asked, data, 5).model_to_string()
    return text


def run(path: Path, features: NDArray[np.float32]) -> NDArray[Any]:
    session = onnxruntime.InferenceSession(path.read_bytes())
    return np.asarray(session.run(["scores"], {"features": features})[0])


def score(ranker: Ranker, features: NDArray[np.float32]) -> NDArray[np.float64]:
    """The package's own way, for one list."""
    ids = ["q"] * len(features)
    data = RankingDataset.from_rows(features, ids, feature_names=NAMES)
    return ranker.predict(ranker.mapping.apply(data).features)


@pytest.mark.parametrize("min_max", [True, False])
def test_the_graph_of_a_network_is_the_written_out_formula(
    tmp_path: Path, min_max: bool
) -> None:
    ranker = network(mapping=FeatureMapping(NAMES, "list" if min_max else "none"))
    path = tmp_path / "ranker.onnx"
    export_ranker(ranker, path, to="onnx")
    values = LIST.astype(np.float64)
    if min_max:  # 5..7, a constant, -4..1e6
        values = (values - [5, 1, -4]) / [2, 1, 1e6 + 4]
    layers = [p[0].double().numpy() for p in layers_of(ranker)]
    for weight, bias in ((layers[0][:3], layers[1]), (layers[2], layers[3])):
        values = values @ weight + bias
        values = np.where(values > 0, values, np.expm1(np.minimum(values, 0)))
    expected = (values @ layers[4] + layers[5])[:, 0]
    np.testing.assert_allclose(run(path, LIST), expected, rtol=1e-5)
    np.testing.assert_allclose(run(path, LIST), score(ranker, LIST), rtol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_blend_with_production_goes_to_onnx(tmp_path: Path, share: float) -> None:
    plain, path = network(mapping=FeatureMapping(NAMES, "none")), tmp_path / "a.onnx"
    members = (
        Member("production", production_of("title"), 1 - share, 2.0),
        Member("mlp", plain, share, 0.5),
    )
    blend = Blend("blend", members, {})
    export_ranker(blend, path, to="onnx")
    expected = (1 - share) * LIST[:, 0] / 2.0 + share * score(plain, LIST) / 0.5
    assert blend.features == NAMES
    np.testing.assert_allclose(run(path, LIST), expected, rtol=1e-5)
    with pytest.raises(ConfigError, match=r"written as .*train --for solr.* to onnx"):
        export_ranker(blend, tmp_path / "a.json", to="solr")


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("to", ["onnx", "lightgbm"])
def test_trees_go_to_both_formats(tmp_path: Path, to: str, missing: float) -> None:
    made = export_ranker(forest(missing=missing), tmp_path / "ranker", to=to)
    assert made.parity is not None
    assert made.parity.relative < 1e-6
    assert made.parity.lists == 100


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_trees_take_missing_values_as_lightgbm_does(
    tmp_path: Path, missing: float
) -> None:
    ranker = forest(missing=missing)
    path = tmp_path / "ranker.onnx"
    export_ranker(ranker, path, to="onnx")
    holes = np.array([[NAN, 1, 2], [7, NAN, NAN], [6, 3, NAN], [5, 2, NAN]], np.float32)
    np.testing.assert_allclose(run(path, holes), score(ranker, holes), atol=1e-6)
    nothing = np.full((2, 3), NAN, np.float32)
    np.testing.assert_allclose(run(path, nothing), score(ranker, nothing), atol=1e-6)


def test_values_beside_a_threshold_stay_on_their_side(tmp_path: Path) -> None:
    ranker = forest(missing=0.0, min_max=False)
    path = tmp_path / "ranker.onnx"
    export_ranker(ranker, path, to="onnx")

    def numbers(name: str) -> NDArray[np.float64]:
        assert isinstance(ranker.model, TreeModel)
        lines = ranker.model.text.splitlines()
        lines = [x for x in lines if x.startswith(f"{name}=")]
        return np.array(" ".join(x.partition("=")[2] for x in lines).split(), float)

    columns = numbers("split_feature").astype(np.int64)
    near = numbers("threshold").astype(np.float32)
    low, high = np.nextafter(near, np.float32(-1)), np.nextafter(near, np.float32(2))
    rows = np.full((3 * len(near), 3), 0.5, np.float32)
    rows[np.arange(len(rows)), np.tile(columns, 3)] = np.concatenate([near, low, high])
    np.testing.assert_allclose(run(path, rows), ranker.predict(rows), atol=1e-5)


def test_a_tree_of_one_leaf_is_exported(tmp_path: Path) -> None:
    features, labels = LIST, np.array([1.0, 2.0, 3.0, 4.0])
    text = booster({}, features, labels)
    ranker = from_text(text)
    export_ranker(ranker, tmp_path / "ranker.onnx", to="onnx")
    np.testing.assert_allclose(run(tmp_path / "ranker.onnx", LIST), [2.5] * 4)


def test_a_ranker_without_trees_is_rejected(tmp_path: Path) -> None:
    data = lgb.Dataset(LIST, label=np.arange(4.0), params={"verbosity": -1})
    text = lgb.Booster({"verbosity": -1}, data).model_to_string()
    empty = from_text(text)
    with pytest.raises(DataError, match="holds no trees"):
        export_ranker(empty, tmp_path / "ranker.onnx", to="onnx")


def test_a_missing_value_costs_a_network_one_document(tmp_path: Path) -> None:
    path = tmp_path / "ranker.onnx"
    ranker = network()
    export_ranker(ranker, path, to="onnx")
    with_hole = LIST.copy()
    with_hole[0, 0] = NAN
    got = run(path, with_hole)
    assert np.isnan(got[0])
    mapped = scaled_in_lists(RankingDataset.from_rows(with_hole, ["q"] * 4)).features
    np.testing.assert_allclose(got[1:], ranker.predict(mapped[1:]), rtol=1e-5)


def test_a_list_of_one_document_is_scored(tmp_path: Path) -> None:
    export_ranker(network(), tmp_path / "ranker.onnx", to="onnx")
    one = run(tmp_path / "ranker.onnx", LIST[:1])
    np.testing.assert_allclose(one, network().predict(np.zeros((1, 3), np.float32)))


@pytest.mark.parametrize(
    ("to", "done_by"), [("onnx", "the file"), ("lightgbm", "the caller")]
)
def test_the_description_says_what_the_file_reads(
    tmp_path: Path, to: str, done_by: str
) -> None:
    path = tmp_path / "ranker"
    made = export_ranker(forest(), path, to=to)
    about = json.loads((tmp_path / "ranker.json").read_text())
    assert made.about == tmp_path / "ranker.json"
    assert about["features"] == list(NAMES)
    assert about["input"]["shape"] == ["n_documents", 3]
    assert about["normalisation"]["done_by"] == done_by
    assert about["normalisation"]["formula"].startswith("(x - low) / (high - low)")
    assert about["sha256"] == sha256(path.read_bytes()).hexdigest()
    assert made.parity is not None
    assert about["parity"]["max_difference"] == made.parity.max_difference
    assert "affinerank" in about["versions"]


def test_the_text_scores_features_that_are_scaled_as_the_description_says(
    tmp_path: Path,
) -> None:
    ranker = forest()
    export_ranker(ranker, tmp_path / "ranker", to="lightgbm")
    low, high = LIST.min(axis=0), LIST.max(axis=0)
    scaled = (LIST - low) / np.where(high == low, np.float32(1), high - low)
    plain = lgb.Booster(model_file=str(tmp_path / "ranker"))
    np.testing.assert_allclose(plain.predict(scaled), score(ranker, LIST), atol=1e-9)


def test_features_made_of_a_category_are_compared_without_a_range_of_their_own(
    tmp_path: Path,
) -> None:
    """The file is given two features, the model three: 0.5 price + 2 nike - 1 puma."""
    mapping = FeatureMapping(
        ("price", "brand=nike", "brand=puma"),
        "data",
        low=(1.0, 0.0, 0.0),
        high=(3.0, 1.0, 1.0),
        fill=(0.5, 0.0, 0.0),
        categories={"brand": ("nike", "puma")},
    )
    model = LinearModel(np.array([1.0, 2.0, -1.0]), 0.0)
    ranker = Ranker("linear-model", model, mapping, {})
    export_ranker(ranker, tmp_path / "model.onnx", to="onnx")
    scores = run(tmp_path / "model.onnx", np.array([[2, 0], [3, 1]], np.float32))
    np.testing.assert_allclose(scores, [0.5 + 2, 1 - 1], atol=1e-6)


def test_no_normalisation_is_described_where_there_is_none(tmp_path: Path) -> None:
    export_ranker(forest(min_max=False), tmp_path / "ranker", to="lightgbm")
    about = json.loads((tmp_path / "ranker.json").read_text())
    assert about["normalisation"] is None


def test_exporting_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        export_ranker(network(), tmp_path / name, to="onnx")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_comparison_takes_given_lists_and_picks_their_features(
    tmp_path: Path,
) -> None:
    features = np.hstack([LIST, np.ones((4, 1), np.float32)])[:, ::-1]
    data = RankingDataset.from_rows(
        features, ["a", "a", "b", "b"], feature_names=("other", *NAMES[::-1])
    )
    made = export_ranker(network(), tmp_path / "ranker.onnx", to="onnx", data=data)
    assert made.parity is not None
    assert (made.parity.lists, made.parity.documents) == (2, 4)
    with pytest.raises(DataError, match="lack 1 of 3 features, 'clicks'"):
        export_ranker(
            network(),
            tmp_path / "ranker.onnx",
            to="onnx",
            data=data.select_features(["title", "body"]),
        )


def test_a_file_that_scores_otherwise_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = network()
    *layers, last = layers_of(ranker)
    shifted = (*layers, last + torch.tensor(0.01))
    model: Any = ranker.model
    off = replace(ranker, model=replace(model, parameters=shifted))
    before = (tmp_path / "ranker.onnx", tmp_path / "ranker.onnx.json")
    for path in before:
        path.write_text("as it was")
    monkeypatch.setattr(export, "build_model", lambda _: build_model(off))
    with pytest.raises(DataError, match=r"differ from .* by up to 0\.01 "):
        export_ranker(ranker, before[0], to="onnx")
    assert [path.read_text() for path in before] == ["as it was"] * 2
    assert sorted(tmp_path.iterdir()) == sorted(before)


def test_what_cannot_be_exported_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "ranker"
    with pytest.raises(ConfigError, match=r"mlp cannot .* LightGBM .* to onnx"):
        export_ranker(network(), path, to="lightgbm")
    with pytest.raises(ConfigError, match="'pmml'; known are onnx, lightgbm"):
        export_ranker(network(), path, to="pmml")
    (tmp_path / "ranker.json").mkdir()
    with pytest.raises(DataError, match=r"ranker\.json: expected the name of a file"):
        export_ranker(network(), path, to="onnx")
    assert not path.exists()


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"zero_as_missing": True}, "zeros that count as missing"),
        ({"linear_tree": True}, "linear leaves"),
        ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, "averages"),
    ],
)
def test_trees_that_onnx_would_not_get_right_are_rejected(
    tmp_path: Path, settings: dict[str, Any], what: str
) -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 5, (500, 3)).astype(np.float64)
    labels = (features[:, 0] % 2) + features[:, 1] + features[:, 2]
    text = booster(settings, features, labels)
    ranker = from_text(text)
    with pytest.raises(DataError, match=f"{what}.*export to lightgbm"):
        export_ranker(ranker, tmp_path / "ranker.onnx", to="onnx")
    assert not list(tmp_path.iterdir())


def test_a_library_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"needs onnx, .*'affinerank\[export\]'"):
        export_ranker(network(), tmp_path / "ranker.onnx", to="onnx")


def test_a_network_fills_missing_values_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ranker.onnx"
    ranker = network(mapping=FeatureMapping(NAMES, fill=(0.5, 0.25, 1.0)))
    made = export_ranker(ranker, path, to="onnx")
    assert made.parity is not None
    assert made.parity.relative < 1e-5
    holes = np.array([[NAN, 1, 2], [7, NAN, NAN], [5, 2, NAN]], np.float32)
    scaled = [[0.5, 0, 0], [1, 0.25, 1.0], [0, 1, 1.0]]
    expected = ranker.predict(np.array(scaled, np.float32))
    np.testing.assert_allclose(run(path, holes), expected, rtol=1e-5)
    np.testing.assert_allclose(score(ranker, holes), expected, rtol=1e-6)
    nothing = np.full((2, 3), NAN, np.float32)
    np.testing.assert_allclose(run(path, nothing), score(ranker, nothing), rtol=1e-5)
    about = json.loads((tmp_path / "ranker.onnx.json").read_text())
    assert about["missing"] == {
        "value": "NaN",
        "filled_by": "the file",
        "after_scaling": {"title": 0.5, "body": 0.25, "clicks": 1.0},
    }
