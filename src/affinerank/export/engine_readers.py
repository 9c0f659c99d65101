"""What search engines make of an exported file: the score of each document.

Each reader decides as the engine's own code does, and shares nothing with what writes
the files, so that a fault of a writer shows. A missing value is NaN here. Tests compare
the readers with the engines' own classes where these are at hand.

Trees are read into arrays, and documents walk down all at once.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affinerank.support.arrays import Bools, Floats, Matrix
from affinerank.support.errors import DataError

FLOAT = np.float32
SOLR_SLACK = FLOAT(1e-6)
NUMBER = r"-?[0-9][0-9.]*(?:e[+-]?[0-9]+)?"
# One line of a linear model for Vespa: weight, and a feature, filled and scaled or not.
VESPA_TERM = re.compile(
    rf"(?P<weight>{NUMBER}) \* (?P<scaled>\()?"
    rf"(?:if \(isNan\((?P<filled>.+)\), (?P<fill>{NUMBER}), (?P=filled)\)"
    r"|(?P<name>.+?))"
    rf"(?(scaled) - (?P<low>{NUMBER})\) / (?P<span>{NUMBER}))"
)
Array = NDArray[Any]
Compare = Callable[[Array, Array], Bools]
Reader = Callable[[bytes, Matrix, tuple[str, ...]], Floats]


@dataclass(slots=True)
class FileNode:
    """A node as a file says it; a leaf has no children.

    Attributes:
        value: Threshold of a split, or value of a leaf.
        feature: Number of the feature of a split.
        missing_left: Where a missing value goes.
        left: Number of the left child, -1 for a leaf.
        right: Likewise.
    """

    value: float
    feature: int = 0
    missing_left: bool = False
    left: int = -1
    right: int = -1


class FileTree:
    """A tree of a file as arrays, numbers in the engine's precision."""

    def __init__(self, nodes: Sequence[FileNode], precision: Any) -> None:
        with np.errstate(over="ignore"):  # a threshold beyond float32 is infinite
            self.value = np.array([node.value for node in nodes]).astype(precision)
        self.feature = np.array([node.feature for node in nodes])
        self.missing_left = np.array([node.missing_left for node in nodes])
        self.left = np.array([node.left for node in nodes])
        self.right = np.array([node.right for node in nodes])

    def leaves(self, features: Matrix, goes_left: Compare) -> Array:
        """Send documents down; return the value of the leaf that each ends in."""
        place = np.zeros(len(features), dtype=np.int64)
        walking = np.arange(len(features))
        while True:
            # Documents that have reached a leaf stop.
            walking = walking[self.left[place[walking]] >= 0]
            if not len(walking):
                return self.value[place]
            node = place[walking]
            values = features[walking, self.feature[node]]
            left = goes_left(values, self.value[node])
            left = np.where(np.isnan(values), self.missing_left[node], left)
            place[walking] = np.where(left, self.left[node], self.right[node])


def _sum_of_trees(
    trees: Iterable[FileTree], features: Matrix, goes_left: Compare, precision: Any
) -> Floats:
    """Add up leaves one tree after another, in the engine's precision."""
    total = np.zeros(len(features), dtype=precision)
    for tree in trees:
        total += tree.leaves(features, goes_left)
    return total.astype(np.float64)


def _below(values: Array, thresholds: Array) -> Bools:
    return np.asarray(values < thresholds)


def _at_most(values: Array, thresholds: Array) -> Bools:
    return np.asarray(values <= thresholds)


def _at_most_with_slack(values: Array, thresholds: Array) -> Bools:
    return np.asarray(values <= thresholds + SOLR_SLACK)


def _flat(
    root: Any, read_node: Callable[[Any], tuple[FileNode, Sequence[Any]]]
) -> list[FileNode]:
    """Number nested nodes, the root first.

    ``read_node`` returns a node, and its left and right child if it has children.
    """
    nodes: list[FileNode] = []

    def add(nested: Any) -> int:
        node, children = read_node(nested)
        number = len(nodes)
        nodes.append(node)
        if children:
            left, right = children
            node.left = add(left)
            node.right = add(right)
        return number

    add(root)
    return nodes


def opensearch_trees(
    content: bytes, features: Matrix, names: tuple[str, ...]
) -> Floats:
    """Read ``model/xgboost+json``: ``threshold > x`` goes to yes, in float32.

    A missing value goes as the file says (OpenSearch 3.8).
    """
    number_of = {name: i for i, name in enumerate(names)}

    def read_node(node: Any) -> tuple[FileNode, list[Any]]:
        if "leaf" in node:
            return FileNode(node["leaf"]), []
        child_of = {child["nodeid"]: child for child in node["children"]}
        split = FileNode(
            value=node["split_condition"],
            feature=number_of[node["split"]],
            missing_left=node["missing"] == node["yes"],
        )
        return split, [child_of[node["yes"]], child_of[node["no"]]]

    trees = (FileTree(_flat(root, read_node), FLOAT) for root in json.loads(content))
    return _sum_of_trees(trees, features, _below, FLOAT)


def xgboost_trees(content: bytes, features: Matrix, names: tuple[str, ...]) -> Floats:
    """Read XGBoost's own JSON, as XGBoost and the plugin do: ``x < t`` in float32.

    XGBoost takes the right child to stand next to the left one, and its leaves from
    ``split_conditions``; the plugin reads ``right_children`` and ``base_weights``. A
    file that would not be the same to both is rejected.
    """
    learner = json.loads(content)["learner"]
    number_of = {name: i for i, name in enumerate(names)}
    features = features[:, [number_of[name] for name in learner["feature_names"]]]

    def read_tree(tree: Any) -> FileTree:
        nodes = []
        for i, left in enumerate(tree["left_children"]):
            right = tree["right_children"][i]
            if left >= 0 and right != left + 1:
                raise DataError(
                    f"tree {tree['id']}, node {i}: XGBoost expects the right child at "
                    f"{left + 1}, got {right}"
                )
            if left < 0 and tree["base_weights"][i] != tree["split_conditions"][i]:
                raise DataError(f"tree {tree['id']}, leaf {i}: has two values")
            nodes.append(
                FileNode(
                    value=tree["split_conditions"][i],
                    feature=tree["split_indices"][i],
                    missing_left=tree["default_left"][i] == 1,
                    left=left,
                    right=right,
                )
            )
        return FileTree(nodes, FLOAT)

    trees = map(read_tree, learner["gradient_booster"]["model"]["trees"])
    return _sum_of_trees(trees, features, _below, FLOAT)


def elasticsearch_trees(
    content: bytes, features: Matrix, names: tuple[str, ...]
) -> Floats:
    """Read a trained model: ``x <= t`` in double.

    Elasticsearch refuses names of fields beside extractors of features.
    """
    body = json.loads(content)
    if "input" in body:
        raise DataError("Elasticsearch takes no input for learning to rank")
    ensemble = body["definition"]["trained_model"]["ensemble"]
    number_of = {name: i for i, name in enumerate(names)}
    features = features[:, [number_of[name] for name in ensemble["feature_names"]]]

    def read_tree(model: Any) -> FileTree:
        node_of = {node["node_index"]: node for node in model["tree"]["tree_structure"]}
        nodes = []
        for number in range(len(node_of)):
            node = node_of[number]
            if "leaf_value" in node:
                nodes.append(FileNode(node["leaf_value"]))
                continue
            nodes.append(
                FileNode(
                    value=node["threshold"],
                    feature=node["split_feature"],
                    missing_left=node["default_left"],
                    left=node["left_child"],
                    right=node["right_child"],
                )
            )
        return FileTree(nodes, np.float64)

    weights = ensemble["aggregate_output"]["weighted_sum"]["weights"]
    total = np.zeros(len(features))
    for weight, model in zip(weights, ensemble["trained_models"], strict=True):
        total += weight * read_tree(model).leaves(features, _at_most)
    return total


def solr_trees(content: bytes, features: Matrix, names: tuple[str, ...]) -> Floats:
    """Read ``MultipleAdditiveTreesModel``: ``x <= t + 1e-6`` in float32.

    Without ``isNullSameAsZero`` false, a missing value is 0.
    """
    model = json.loads(content)
    number_of = {name: i for i, name in enumerate(names)}
    if model["params"].get("isNullSameAsZero", True):
        features = np.nan_to_num(features, nan=0.0)

    def read_node(node: Any) -> tuple[FileNode, list[Any]]:
        if "value" in node:
            return FileNode(float(node["value"])), []
        split = FileNode(
            value=float(node["threshold"]),
            feature=number_of[node["feature"]],
            missing_left=node.get("missing") == "left",
        )
        return split, [node["left"], node["right"]]

    total = np.zeros(len(features), FLOAT)
    for tree in model["params"]["trees"]:
        leaves = FileTree(_flat(tree["root"], read_node), FLOAT)
        total += FLOAT(tree["weight"]) * leaves.leaves(features, _at_most_with_slack)
    return total.astype(np.float64)


def vespa_trees(content: bytes, features: Matrix, names: tuple[str, ...]) -> Floats:
    """Read LightGBM's dump: ``x < t``, or not ``x >= t`` by default.

    With thresholds as content nodes hold them, in float32; the server's Java holds
    doubles, which are the same in a sound file.
    """
    model = json.loads(content)
    number_of = {name: i for i, name in enumerate(names)}
    features = features[:, [number_of[name] for name in model["feature_names"]]]

    def read_node(node: Any) -> tuple[FileNode, list[Any]]:
        if "leaf_value" in node:
            return FileNode(node["leaf_value"]), []
        split = FileNode(
            value=node["threshold"],
            feature=node["split_feature"],
            missing_left=node["default_left"],
        )
        return split, [node["left_child"], node["right_child"]]

    trees = (
        FileTree(_flat(tree["tree_structure"], read_node), FLOAT)
        for tree in model["tree_info"]
    )
    return _sum_of_trees(trees, features, _below, np.float64)


def ranklib_trees(content: bytes, features: Matrix, names: tuple[str, ...]) -> Floats:
    """Read LambdaMART: ``x <= t`` in float32; a missing value is 0."""
    del names  # features go by their numbers
    comments, tag, trees = content.decode().partition("<ensemble>")
    if not comments.startswith("## LambdaMART"):
        raise DataError("RankLib expects LambdaMART in the first line")
    features = np.nan_to_num(features, nan=0.0)

    def read_node(node: Any) -> tuple[FileNode, list[Any]]:
        if node.find("output") is not None:
            return FileNode(float(node.findtext("output"))), []
        split = FileNode(
            value=float(node.findtext("threshold")),
            feature=int(node.findtext("feature")) - 1,
        )
        side_of = {child.get("pos"): child for child in node.findall("split")}
        return split, [side_of["left"], side_of["right"]]

    ensemble = ET.fromstring(tag + trees)  # noqa: S314 - we wrote it ourselves
    total = np.zeros(len(features), FLOAT)
    for tree in ensemble:
        leaves = FileTree(_flat(tree.find("split"), read_node), FLOAT)
        weight = FLOAT(tree.get("weight", "nan"))
        total += weight * leaves.leaves(features, _at_most)
    return total.astype(np.float64)


def opensearch_linear(
    content: bytes, features: Matrix, names: tuple[str, ...]
) -> Floats:
    """Read ``model/linear``: weights and sum in float32."""
    weights = json.loads(content)
    return _float32_sum(features, [weights.get(name, 0.0) for name in names])


def solr_linear(content: bytes, features: Matrix, names: tuple[str, ...]) -> Floats:
    """Read ``LinearModel``: features scaled by the file, all in float32."""
    model = json.loads(content)
    number_of = {name: i for i, name in enumerate(names)}
    weights = model["params"]["weights"]
    columns = []
    for feature in model["features"]:
        column = features[:, number_of[feature["name"]]]
        if "norm" in feature:
            low, high = (FLOAT(feature["norm"]["params"][k]) for k in ("min", "max"))
            column = (column - low) / (high - low)
        columns.append(column)
    order = [feature["name"] for feature in model["features"]]
    return _float32_sum(np.stack(columns, axis=1), [weights[name] for name in order])


def _float32_sum(features: Matrix, weights: Sequence[float]) -> Floats:
    """Add up features times weights from the first on, as an engine does."""
    with np.errstate(over="ignore", invalid="ignore"):
        weight_of = np.array(weights).astype(FLOAT)
        total = np.zeros(len(features), FLOAT)
        for i, weight in enumerate(weight_of):
            total += features[:, i] * weight
    return total.astype(np.float64)


def vespa_expression(
    content: bytes, features: Matrix, names: tuple[str, ...]
) -> Floats:
    """Evaluate a sum of a constant and terms, in double."""
    number_of = {name: i for i, name in enumerate(names)}
    constant, *terms = content.decode().rstrip("\n").split(" +\n")
    total = np.full(len(features), float(constant))
    for text in terms:
        term = VESPA_TERM.fullmatch(text)
        if term is None:
            raise DataError(
                f"expected weight * feature in the expression, got {text!r}"
            )
        name = term["filled"] or term["name"]
        value = features[:, number_of[name]].astype(np.float64)
        if term["filled"]:
            value = np.nan_to_num(value, nan=float(term["fill"]))
        if term["scaled"]:
            value = (value - float(term["low"])) / float(term["span"])
        total += float(term["weight"]) * value
    return total


def ranklib_linear(content: bytes, features: Matrix, names: tuple[str, ...]) -> Floats:
    """Read linear regression, in double; a missing value is 0, feature 0 is 1."""
    del names  # features go by their numbers
    heading, numbers, *_ = content.decode().split("\n")
    if heading != "## Linear Regression":
        raise DataError("RankLib expects Linear Regression in the first line")
    features = np.nan_to_num(features.astype(np.float64), nan=0.0)
    total = np.zeros(len(features))
    for number, weight in _pairs(numbers):
        total += weight * (features[:, number - 1] if number else 1.0)
    return total


def _pairs(text: str) -> Iterator[tuple[int, float]]:
    """Yield number and weight of ``1:0.5 2:-3``."""
    for pair in text.split():
        number, weight = pair.split(":")
        yield int(number), float(weight)


TREE_READERS: Mapping[str, Reader] = {
    "opensearch": opensearch_trees,
    "opensearch-raw": xgboost_trees,
    "elasticsearch": elasticsearch_trees,
    "solr": solr_trees,
    "vespa": vespa_trees,
    "ranklib": ranklib_trees,
}
LINEAR_READERS: Mapping[str, Reader] = {
    "opensearch": opensearch_linear,
    "solr": solr_linear,
    "vespa": vespa_expression,
    "ranklib": ranklib_linear,
}
