"""Trees for search engines, read back by each engine's own rule.

The readers share nothing with what writes the files.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
from numpy.typing import NDArray

from affinerank.data.dataset import RankingDataset
from affinerank.data.features import FeatureMapping
from affinerank.errors import ConfigError, DataError
from affinerank.rankers.export import export_ranker
from affinerank.rankers.ranker import Ranker
from affinerank.rankers.ranker import score as score_all
from affinerank.rankers.trees import TreeModel

NAMES = ("price", "rating", "age", "text")
F = np.float32


def data(missing: float, seed: int = 0, n: int = 3000) -> RankingDataset:
    rng = np.random.default_rng(seed)
    features = rng.lognormal(sigma=2.0, size=(n, len(NAMES))) * [1, -1, 1e-3, 1e6]
    features[:, 2] = np.round(features[:, 2], 4)
    features[rng.random(features.shape) < missing] = np.nan
    ids = np.repeat(np.arange(n // 10), 10)
    return RankingDataset.from_rows(
        features.astype(F), [str(i) for i in ids], feature_names=NAMES
    )


def forest(scaling: str, missing: float) -> Ranker:
    train = data(missing)
    mapping = FeatureMapping.fit(train, scaling=scaling)
    raw = np.nan_to_num(train.features.astype(np.float64))
    target = np.log1p(np.abs(raw)) @ [1.0, -0.5, 3.0, 0.2]
    made = lgb.Dataset(mapping.apply(train).features, label=target)
    asked = {"objective": "regression", "verbosity": -1, "num_threads": 1}
    booster = lgb.train({**asked, "num_leaves": 15, "min_data_in_leaf": 5}, made, 40)
    return Ranker("lightgbm", TreeModel(booster.model_to_string()), mapping, {})


def documents(ranker: Ranker, missing: float) -> RankingDataset:
    """Documents of which many lie on a threshold, just below or just above one."""
    new = data(missing, seed=1, n=10_000)
    features = new.features.copy()
    splits: list[tuple[int, float]] = []

    def collect(node: dict[str, Any]) -> None:
        if "split_feature" in node:
            splits.append((node["split_feature"], node["threshold"]))
            collect(node["left_child"])
            collect(node["right_child"])

    assert isinstance(ranker.model, TreeModel)
    for tree in ranker.model.booster().dump_model()["tree_info"]:
        collect(tree["tree_structure"])
    low, span = ranker.mapping.shift_and_span()
    rng = np.random.default_rng(2)
    for i, at in enumerate(rng.integers(0, len(splits), 600)):
        feature, threshold = splits[at]
        if abs(threshold) > 1e30:  # it tells missing values from all others
            continue
        near = F(
            threshold * float(span[feature]) + low[feature] if len(low) else threshold
        )
        steps = (near, np.nextafter(near, F(-np.inf)), np.nextafter(near, F(np.inf)))
        features[i, feature] = steps[i % 3]
    return RankingDataset.from_rows(
        features, new.query_ids.repeat(10), feature_names=NAMES
    )


Row = NDArray[np.float32]


def read_opensearch(content: bytes, row: Row) -> float:
    """The plugin: float32, ``threshold > x`` goes to yes."""
    total = 0.0
    values = dict(zip(NAMES, row, strict=True))
    for root in json.loads(content):
        node = root
        while "leaf" not in node:
            x, t = values[node["split"]], F(node["split_condition"])
            to = node["yes"] if t > x else node["no"]
            to = node["missing"] if np.isnan(x) else to
            node = next(child for child in node["children"] if child["nodeid"] == to)
        total += node["leaf"]
    return total


def read_elasticsearch(content: bytes, row: Row) -> float:
    model = json.loads(content)["definition"]["trained_model"]["ensemble"]
    total = 0.0
    for each, weight in zip(
        model["trained_models"],
        model["aggregate_output"]["weighted_sum"]["weights"],
        strict=True,
    ):
        nodes = {n["node_index"]: n for n in each["tree"]["tree_structure"]}
        node = nodes[0]
        while "leaf_value" not in node:
            x = float(row[node["split_feature"]])
            left = node["default_left"] if np.isnan(x) else x <= node["threshold"]
            node = nodes[node["left_child" if left else "right_child"]]
        total += weight * node["leaf_value"]
    return total


def read_solr(content: bytes, row: Row) -> float:
    model = json.loads(content)
    values = dict(zip((f["name"] for f in model["features"]), row, strict=True))
    total = 0.0
    for tree in model["params"]["trees"]:
        node = tree["root"]
        while "value" not in node:
            x = values[node["feature"]]
            side = "left" if x <= F(node["threshold"]) + F(1e-6) else "right"
            node = node[node["missing"] if np.isnan(x) else side]
        total += float(tree["weight"]) * float(node["value"])
    return total


def read_vespa(content: bytes, row: Row) -> float:
    model = json.loads(content)
    assert model["objective"]
    total = 0.0
    for tree in model["tree_info"]:
        node = tree["tree_structure"]
        while "leaf_value" not in node:
            x, t = float(row[node["split_feature"]]), node["threshold"]
            left = not x >= t if node["default_left"] else x < t
            node = node["left_child" if left else "right_child"]
        total += node["leaf_value"]
    return total


def read_ranklib(content: bytes, row: Row) -> float:
    text = content.decode().partition("<ensemble>")
    total = 0.0
    for tree in ET.fromstring(text[1] + text[2]):  # noqa: S314
        node = tree.find("split")
        assert node is not None
        while node.find("output") is None:
            x = np.nan_to_num(row[int(node.findtext("feature", "")) - 1])
            side = "left" if x <= F(node.findtext("threshold", "")) else "right"
            node = next(s for s in node.findall("split") if s.get("pos") == side)
        total += float(tree.get("weight", "")) * float(node.findtext("output", ""))
    return total


READERS = {
    "opensearch": read_opensearch,
    "elasticsearch": read_elasticsearch,
    "solr": read_solr,
    "vespa": read_vespa,
    "ranklib": read_ranklib,
}


@pytest.mark.parametrize("scaling", ["none", "data"])
@pytest.mark.parametrize("to", READERS)
def test_an_engine_scores_as_lightgbm_does(
    to: str, scaling: str, tmp_path: Path
) -> None:
    missing = 0.0 if to == "ranklib" else 0.05
    ranker = forest(scaling, missing)
    docs = documents(ranker, missing)
    path = tmp_path / "model"
    made = export_ranker(ranker, path, to=to)
    assert made.parity is None
    content, expected = path.read_bytes(), score_all(ranker, docs)
    some = 1000  # 600 of them on thresholds or beside
    found = np.array([READERS[to](content, row) for row in docs.features[:some]])
    away = np.abs(found - expected[:some]) > 1e-6
    about = json.loads(path.with_name("model.json").read_text())
    if to == "solr":
        inexact = about["thresholds"]["not_exact"] / about["thresholds"]["of"]
        assert inexact < 0.1
        assert away.mean() < 0.05
        assert not away[600:].any()
    else:
        assert not away.any()


def test_lists_that_are_scaled_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--scaling none"):
        export_ranker(forest("list", 0.0), tmp_path / "model", to="opensearch")
    assert not list(tmp_path.iterdir())


def test_ranklib_refuses_missing_values_that_matter(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="RankLib cannot"):
        export_ranker(forest("none", 0.3), tmp_path / "model", to="ranklib")


def test_lightgbm_text_names_an_objective(tmp_path: Path) -> None:
    ranker = forest("none", 0.0)
    assert isinstance(ranker.model, TreeModel)
    text = ranker.model.text.replace("objective=regression\n", "")
    assert "\nobjective" not in text
    path = tmp_path / "model.txt"
    export_ranker(
        Ranker("lightgbm", TreeModel(text), ranker.mapping, {}), path, to="lightgbm"
    )
    read = lgb.Booster(model_file=str(path))
    assert read.dump_model()["objective"] == "lambdarank"
