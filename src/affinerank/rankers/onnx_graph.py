"""Rankers as ONNX graphs that score one list of raw features at a time.

A graph takes ``features [n_documents, n_features]`` of one query, scales each feature
within the list and fills what is missing as
:class:`~affinerank.data.features.FeatureMapping` does, and gives
``scores [n_documents]``. It is written node by node; nothing is traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.data.features import FeatureMapping
from affinerank.errors import DataError
from affinerank.rankers.tree_nodes import Tree, rounded_down

if TYPE_CHECKING:
    from onnx import ModelProto

INPUT = "features"
OUTPUT = "scores"
# Old enough for the servers in use; each stands with the other.
OPSET = 17
TREES = "ai.onnx.ml"
TREES_OPSET = 3
IR_VERSION = 8


class Graph:
    """Nodes and constants, in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.opsets = {"": OPSET}

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


def build_model(model: Any, mapping: FeatureMapping) -> ModelProto:
    """Write a model, with what is done to its features, as one ONNX model.

    Args:
        model: Its ``add_to_onnx(graph, values)`` adds nodes that score
            ``values [n, n_features]``, and returns the name of the column of scores.
        mapping: What is done to raw features first.
    """
    from onnx import TensorProto, checker, helper

    graph = Graph()
    values = INPUT
    if mapping.by_list:
        values = _add_min_max(graph, values)
    elif mapping.low is not None:
        low, span = mapping.shift_and_span()
        above = graph.add("Sub", [values, graph.constant("low", low)], "above")
        values = graph.add("Div", [above, graph.constant("span", span)], "scaled")
    if mapping.fill is not None:
        fill = graph.constant("fill", np.array(mapping.fill, np.float32))
        missing = graph.add("IsNaN", [values], "missing_scaled")
        values = graph.add("Where", [missing, fill, values], "filled")
    column = model.add_to_onnx(graph, values)
    axis = graph.constant("column", np.array([1], np.int64))
    graph.add("Squeeze", [column, axis], OUTPUT)
    shape: list[str | int | None] = ["n_documents", len(mapping.names)]
    made = helper.make_graph(
        graph.nodes,
        "ranker",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, shape[:1])],
        graph.constants,
    )
    built = helper.make_model(
        made,
        producer_name="affinerank",
        opset_imports=[helper.make_opsetid(*pair) for pair in graph.opsets.items()],
        ir_version=IR_VERSION,
    )
    checker.check_model(built)
    return built


def _add_min_max(graph: Graph, values: str) -> str:
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


def add_trees(graph: Graph, values: str, trees: list[Tree]) -> str:
    """Add trees as one node of the machine learning domain."""
    if not trees:
        raise DataError("the ranker holds no trees, so there is nothing to export")
    every = [
        (t, i, node) for t, tree in enumerate(trees) for i, node in enumerate(tree)
    ]
    nodes = [node for _, _, node in every]
    leaves = [(t, i, node.value) for t, i, node in every if not node.left]
    of_tree, of_node, weights = zip(*leaves, strict=True)
    graph.opsets[TREES] = TREES_OPSET
    return graph.add(
        "TreeEnsembleRegressor",
        [values],
        "sum",
        domain=TREES,
        n_targets=1,
        aggregate_function="SUM",
        nodes_treeids=[t for t, _, _ in every],
        nodes_nodeids=[i for _, i, _ in every],
        nodes_modes=["BRANCH_LEQ" if node.left else "LEAF" for node in nodes],
        nodes_featureids=[node.feature for node in nodes],
        nodes_values=[rounded_down(node.value) if node.left else 0.0 for node in nodes],
        nodes_truenodeids=[node.left for node in nodes],
        nodes_falsenodeids=[node.right for node in nodes],
        nodes_missing_value_tracks_true=[int(node.missing_left) for node in nodes],
        target_treeids=of_tree,
        target_nodeids=of_node,
        target_ids=[0] * len(leaves),
        target_weights=weights,
    )
