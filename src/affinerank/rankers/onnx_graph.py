"""Rankers as ONNX graphs that score one list of raw features at a time.

A graph takes ``features [n_documents, n_features]`` of one query, scales each feature
within the list and fills what is missing as
:class:`~affinerank.data.features.FeatureMapping` does, and gives
``scores [n_documents]``. The members of a blend do so one after the other, and their
scores are added up. A category is given as its code, or as NaN. The graph is written
node by node; nothing is traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.data.features import FeatureMapping
from affinerank.errors import DataError
from affinerank.rankers.tree_nodes import Tree, rounded_down

if TYPE_CHECKING:
    from onnx import ModelProto

    from affinerank.rankers.blend import AnyRanker

INPUT = "features"
OUTPUT = "scores"
# Old enough for the servers in use; each stands with the other.
OPSET = 17
TREES = "ai.onnx.ml"
TREES_OPSET = 3
IR_VERSION = 8
FLOAT_TYPE, INT_TYPE = 1, 7  # numbers of ONNX for float32 and int64


class Graph:
    """Nodes and constants, in the order in which they are added.

    Attributes:
        prefix: Put before every name, so that members of a blend have names apart.
    """

    def __init__(self) -> None:
        self.prefix = ""
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.opsets = {"": OPSET}

    def constant(self, name: str, value: Any) -> str:
        """Add an array under a name of its own; return the name."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(value)
        own = self.prefix + name
        self.constants.append(numpy_helper.from_array(array, own))
        return own

    def add(self, operation: str, inputs: list[str], output: str, **about: Any) -> str:
        """Add a node with one output; return the output's name."""
        from onnx import helper

        own = self.prefix + output
        self.nodes.append(helper.make_node(operation, inputs, [own], **about))
        return own


def build_model(ranker: AnyRanker) -> ModelProto:
    """Write a ranker, with what is done to its features, as one ONNX model.

    The ``add_to_onnx(graph, values)`` of each model adds nodes that score
    ``values [n, n_features]``, and returns the name of the column of scores.
    """
    from onnx import TensorProto, checker, helper

    graph = Graph()
    total = None
    for member in ranker.members:
        graph.prefix = f"{member.name}_" if len(ranker.members) > 1 else ""
        mapping = member.ranker.mapping
        values = _add_mapping(graph, mapping, ranker.features)
        model: Any = member.ranker.model
        column = model.add_to_onnx(graph, values)
        factor = np.float32(member.share / member.unit)
        if factor != 1.0:
            by = graph.constant("factor", factor)
            column = graph.add("Mul", [column, by], "part")
        total = column if total is None else graph.add("Add", [total, column], "total")
    graph.prefix = ""
    axis = graph.constant("column", np.array([1], np.int64))
    graph.add("Squeeze", [str(total), axis], OUTPUT)

    shape: list[str | int | None] = ["n_documents", len(ranker.features)]
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


def _add_mapping(graph: Graph, mapping: FeatureMapping, raw: tuple[str, ...]) -> str:
    """Add what is done to raw features; return the mapped ones."""
    values = _add_columns(graph, mapping, raw)
    if mapping.by_list:
        scaled = _add_min_max(graph, values)
        if mapping.codes:
            is_code = np.isin(mapping.names, mapping.codes)[None]
            stays = graph.constant("is_code", is_code)
            scaled = graph.add("Where", [stays, values, scaled], "with_codes")
        values = scaled
    elif mapping.low is not None:
        low, span = mapping.shift_and_span()
        above = graph.add("Sub", [values, graph.constant("low", low)], "above")
        values = graph.add("Div", [above, graph.constant("span", span)], "scaled")
    if mapping.fill is not None:
        fill = graph.constant("fill", np.array(mapping.fill, np.float32))
        missing = graph.add("IsNaN", [values], "missing_scaled")
        values = graph.add("Where", [missing, fill, values], "filled")
    return values


def _add_columns(graph: Graph, mapping: FeatureMapping, raw: tuple[str, ...]) -> str:
    """Choose the features that a model reads; make those of 0 and 1 of categories."""
    values = INPUT
    sources = [mapping.source_of(name) for name in mapping.names]
    if tuple(sources) != raw:
        places = graph.constant("places", np.array([raw.index(s) for s in sources]))
        values = graph.add("Gather", [values, places], "chosen", axis=1)
    is_made = np.array(
        [source != name for source, name in zip(sources, mapping.names, strict=True)]
    )
    if not is_made.any():
        return values

    # The code at which each feature that is made of a category is 1.
    code = np.full(len(sources), -1.0, np.float32)
    for i in np.flatnonzero(is_made):
        value = mapping.names[i].removeprefix(f"{sources[i]}=")
        code[i] = mapping.categories[sources[i]].index(value)
    same = graph.add("Equal", [values, graph.constant("code", code)], "is_value")
    one = graph.add("Cast", [same], "one_hot", to=FLOAT_TYPE)
    made = graph.constant("is_made", is_made[None])
    return graph.add("Where", [made, one, values], "with_one_hot")


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


def add_trees(graph: Graph, values: str, n_features: int, trees: list[Tree]) -> str:
    """Add trees as one node of the machine learning domain."""
    if not trees:
        raise DataError("the ranker holds no trees, so there is nothing to export")
    values, trees = _add_category_splits(graph, values, n_features, trees)
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


def _add_category_splits(
    graph: Graph, values: str, n_features: int, trees: list[Tree]
) -> tuple[str, list[Tree]]:
    """Turn splits by category into splits of numbers, one for each set of categories.

    A split that sends some categories left reads a feature that is 0 for these, and 1
    for all others, what is missing among them. It is looked up by the code.
    """
    splits = (node for tree in trees for node in tree if node.codes)
    sets = list(dict.fromkeys((node.feature, node.codes) for node in splits))
    if not sets:
        return values, trees

    columns = [values]
    place: dict[tuple[int, tuple[int, ...]], int] = {}
    for feature in dict.fromkeys(feature for feature, _ in sets):
        own = [codes for of, codes in sets if of == feature]
        beyond = 1 + max(max(codes) for codes in own)
        goes_right = np.ones((beyond + 1, len(own)), np.float32)
        for column, codes in enumerate(own):
            goes_right[list(codes), column] = 0.0
            place[feature, codes] = n_features + len(place)

        # The code, or the last row of the table for all that no split names.
        named = f"category_{feature}"
        at = graph.constant(f"{named}_column", np.array([feature]))
        code = graph.add("Gather", [values, at], f"{named}_code", axis=1)
        least = graph.constant(f"{named}_least", np.float32(0))
        most = graph.constant(f"{named}_most", np.float32(beyond - 1))
        last = graph.constant(f"{named}_last", np.float32(beyond))
        above = graph.add("GreaterOrEqual", [code, least], f"{named}_above")
        below = graph.add("LessOrEqual", [code, most], f"{named}_below")
        known = graph.add("And", [above, below], f"{named}_known")
        row = graph.add("Where", [known, code, last], f"{named}_row")
        number = graph.add("Cast", [row], f"{named}_number", to=INT_TYPE)
        axis = graph.constant(f"{named}_axis", np.array([1], np.int64))
        number = graph.add("Squeeze", [number, axis], f"{named}_numbers")
        table = graph.constant(f"{named}_table", goes_right)
        columns.append(graph.add("Gather", [table, number], named, axis=0))
    wide = graph.add("Concat", columns, "with_categories", axis=1)
    changed = [
        [
            node._replace(value=0.5, feature=place[node.feature, node.codes])
            if node.codes
            else node
            for node in tree
        ]
        for tree in trees
    ]
    return wide, changed
