"""Rankers as ONNX graphs that score one list of raw features at a time.

A graph takes ``features [n_documents, n_features]`` of one query, scales each feature
within the list and fills what is missing as
:class:`~affinerank.data.features.FeatureMapping` does, and gives
``scores [n_documents]``. It is written node by node; nothing is traced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import lightgbm as lgb
import numpy as np

from affinerank.errors import DataError
from affinerank.rankers.gbdt import TreeRanker
from affinerank.rankers.mlp import MLPRanker

if TYPE_CHECKING:
    from onnx import ModelProto

INPUT = "features"
OUTPUT = "scores"
# Old enough for the servers that are out there; each stands with the other.
OPSET = 17
TREES_OPSET = 3
IR_VERSION = 8


class _Graph:
    """Nodes and constants, in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        """Add an array under a name of its own; return the name."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(value)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, operation: str, inputs: list[str], output: str, **about: Any) -> str:
        """Add a node with one output; return the output's name."""
        from onnx import helper

        self.nodes.append(helper.make_node(operation, inputs, [output], **about))
        return output


def build_model(ranker: MLPRanker | TreeRanker) -> ModelProto:
    """Write a ranker, with what is done to its features, as one ONNX model."""
    from onnx import TensorProto, checker, helper

    graph = _Graph()
    values = INPUT
    if ranker.mapping.per_query_min_max:
        values = _add_min_max(graph, values)
    if ranker.mapping.fill is not None:
        fill = graph.constant("fill", np.array(ranker.mapping.fill, np.float32))
        missing = graph.add("IsNaN", [values], "missing_scaled")
        values = graph.add("Where", [missing, fill, values], "filled")
    if isinstance(ranker, MLPRanker):
        column = _add_network(graph, values, ranker)
    else:
        column = _add_trees(graph, values, ranker)
    axis = graph.constant("column", np.array([1], np.int64))
    graph.add("Squeeze", [column, axis], OUTPUT)
    shape: list[str | int | None] = ["n_documents", len(ranker.mapping.names)]
    made = helper.make_graph(
        graph.nodes,
        "ranker",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, shape[:1])],
        graph.constants,
    )
    versions = [helper.make_opsetid("", OPSET)]
    if isinstance(ranker, TreeRanker):
        versions.append(helper.make_opsetid("ai.onnx.ml", TREES_OPSET))
    model = helper.make_model(
        made,
        producer_name="affinerank",
        opset_imports=versions,
        ir_version=IR_VERSION,
    )
    checker.check_model(model)
    return model


def _add_min_max(graph: _Graph, values: str) -> str:
    """Scale to [0, 1] over the list; a constant becomes 0, missing stays missing."""
    missing = graph.add("IsNaN", [values], "missing")
    highest = graph.constant("highest", np.float32(np.inf))
    lowest = graph.constant("lowest", np.float32(-np.inf))
    for_low = graph.add("Where", [missing, highest, values], "for_low")
    for_high = graph.add("Where", [missing, lowest, values], "for_high")
    low = graph.add("ReduceMin", [for_low], "low", axes=[0], keepdims=1)
    high = graph.add("ReduceMax", [for_high], "high", axes=[0], keepdims=1)
    span = graph.add("Sub", [high, low], "span")
    zero = graph.constant("zero", np.float32(0))
    one = graph.constant("one", np.float32(1))
    same = graph.add("Equal", [span, zero], "same")
    divisor = graph.add("Where", [same, one, span], "divisor")
    above = graph.add("Sub", [values, low], "above")
    return graph.add("Div", [above, divisor], "scaled")


def _add_network(graph: _Graph, values: str, ranker: MLPRanker) -> str:
    """Add the layers, elu between them; columns that only fill up are left out."""
    tensors = [p[0].cpu().numpy() for p in ranker.networks.parameters]
    tensors[0] = tensors[0][: len(ranker.mapping.names)]
    layers = len(tensors) // 2
    for layer in range(layers):
        weight = graph.constant(f"weight.{layer}", tensors[2 * layer])
        bias = graph.constant(f"bias.{layer}", tensors[2 * layer + 1])
        values = graph.add("MatMul", [values, weight], f"product.{layer}")
        values = graph.add("Add", [values, bias], f"sum.{layer}")
        if layer < layers - 1:
            values = graph.add("Elu", [values], f"layer.{layer}", alpha=1.0)
    return values


def _add_trees(graph: _Graph, values: str, ranker: TreeRanker) -> str:
    """Add the trees as one node of the machine learning domain."""
    dumped = lgb.Booster(model_str=ranker.model).dump_model()
    if not dumped["tree_info"]:
        raise DataError("the ranker holds no trees, so there is nothing to export")
    if dumped.get("average_output"):
        raise DataError(
            "these trees are averaged and not summed, which is not exported to ONNX; "
            "export to lightgbm"
        )
    splits = [split for tree in dumped["tree_info"] for split in _tree_nodes(tree)]
    leaves = [split for split in splits if split["mode"] == "LEAF"]
    names = {
        "nodes_treeids": "tree",
        "nodes_nodeids": "node",
        "nodes_featureids": "feature",
        "nodes_values": "threshold",
        "nodes_modes": "mode",
        "nodes_truenodeids": "left",
        "nodes_falsenodeids": "right",
        "nodes_missing_value_tracks_true": "missing_left",
    }
    return graph.add(
        "TreeEnsembleRegressor",
        [values],
        "sum",
        domain="ai.onnx.ml",
        n_targets=1,
        aggregate_function="SUM",
        **{theirs: [split[ours] for split in splits] for theirs, ours in names.items()},
        target_treeids=[leaf["tree"] for leaf in leaves],
        target_nodeids=[leaf["node"] for leaf in leaves],
        target_ids=[0] * len(leaves),
        target_weights=[leaf["weight"] for leaf in leaves],
    )


def _tree_nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of one tree, numbered in the order in which they are met."""
    last = 0
    waiting = [(0, tree["tree_structure"])]
    while waiting:
        number, found = waiting.pop()
        node = {"tree": tree["tree_index"], "node": number, "mode": "LEAF"}
        if "leaf_value" in found:
            _require_plain(found.get("leaf_coeff", []) == [], "linear leaves")
            nothing = {"feature": 0, "threshold": 0.0, "left": 0, "right": 0}
            weight = float(found["leaf_value"])
            yield {**node, **nothing, "missing_left": 0, "weight": weight}
            continue
        _require_plain(found["decision_type"] == "<=", "categories")
        _require_plain(found["missing_type"] != "Zero", "zeros that count as missing")
        node |= {"feature": found["split_feature"], "mode": "BRANCH_LEQ"}
        node |= {"left": last + 1, "right": last + 2}
        # Where no missing values were seen, LightGBM takes them for 0.
        zero_left = found["threshold"] >= 0
        seen = found["missing_type"] == "NaN"
        missing_left = found["default_left"] if seen else zero_left
        threshold = _rounded_down(found["threshold"])
        yield {**node, "threshold": threshold, "missing_left": int(missing_left)}
        waiting.append((last + 1, found["left_child"]))
        waiting.append((last + 2, found["right_child"]))
        last += 2


def _require_plain(plain: bool, what: str) -> None:
    if not plain:
        raise DataError(
            f"these trees have {what}, which are not exported to ONNX; "
            "export to lightgbm"
        )


def _rounded_down(threshold: float) -> float:
    """The largest float32 that is not above: no float32 changes sides."""
    with np.errstate(over="ignore"):
        near = np.float32(threshold)
    if float(near) > threshold:
        near = np.nextafter(near, np.float32(-np.inf))
    return float(near)
