"""Rankers as ONNX graphs that score one list of raw features at a time.

The input is ``features [n_documents, n_features]`` of one query, the output is ``scores
[n_documents]``. The graph first maps features as ``FeatureMapping`` does: it scales
them and fills missing values. Then it applies the model. The graph of a blend does this
for each member and adds up their scores. The input has the code of a category, or NaN.
The graph is written node by node; nothing is traced.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.data.feature_mapping import FeatureMapping
from affinerank.rankers.trees.nodes import Node, Tree, rounded_down
from affinerank.support.errors import DataError

if TYPE_CHECKING:
    from onnx import ModelProto

    from affinerank.rankers.blend import AnyRanker
    from affinerank.rankers.ranker import Member

INPUT = "features"
OUTPUT = "scores"
# Versions that match each other, and that the servers in use can read.
OPSET = 17
TREES = "ai.onnx.ml"
TREES_OPSET = 3
IR_VERSION = 8
# ONNX's numbers of the data types float32 and int64.
FLOAT_TYPE = 1
INT_TYPE = 7

Codes = tuple[int, ...]  # of the categories that a split sends left


class Graph:
    """Nodes and constants, in the order in which they are added.

    Attributes:
        prefix: Start of every new name. It keeps the names of a blend's members apart.
        nodes: The nodes added so far.
        constants: The constant arrays added so far.
        opsets: Version of each operator set that the nodes use.
    """

    def __init__(self) -> None:
        self.prefix = ""
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.opsets = {"": OPSET}

    def constant(self, name: str, value: Any) -> str:
        """Add a constant array; return its name in the graph."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(value)
        full_name = self.prefix + name
        self.constants.append(numpy_helper.from_array(array, full_name))
        return full_name

    def add(
        self, operation: str, inputs: list[str], output: str, **attributes: Any
    ) -> str:
        """Add a node with one output; return the output's name in the graph."""
        from onnx import helper

        full_name = self.prefix + output
        node = helper.make_node(operation, inputs, [full_name], **attributes)
        self.nodes.append(node)
        return full_name

    def add_trees(self, values: str, n_features: int, trees: list[Tree]) -> str:
        """Add trees as one node; return the name of their scores."""
        return _add_trees(self, values, n_features, trees)


def build_model(ranker: AnyRanker) -> ModelProto:
    """Write a ranker, including its mapping of features, as one ONNX model.

    The ``add_to_onnx(graph, values)`` of each model adds nodes that score
    ``values [n, n_features]``, and returns the name of the column of scores.
    """
    from onnx import TensorProto, checker, helper

    # The weighted sum of the members' scores, as a column.
    graph = Graph()
    total = ""
    for member in ranker.members:
        graph.prefix = f"{member.name}_" if len(ranker.members) > 1 else ""
        scores = _add_member(graph, member, ranker.features)
        total = graph.add("Add", [total, scores], "total") if total else scores

    # The output is a vector.
    graph.prefix = ""
    axis = graph.constant("column", np.array([1], np.int64))
    graph.add("Squeeze", [total, axis], OUTPUT)

    # Nodes, input and output together make a graph, and a graph with versions a model.
    shape: list[str | int | None] = ["n_documents", len(ranker.features)]
    onnx_graph = helper.make_graph(
        graph.nodes,
        "ranker",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, shape[:1])],
        graph.constants,
    )
    onnx_model = helper.make_model(
        onnx_graph,
        producer_name="affinerank",
        opset_imports=[
            helper.make_opsetid(domain, version)
            for domain, version in graph.opsets.items()
        ],
        ir_version=IR_VERSION,
    )
    checker.check_model(onnx_model)
    return onnx_model


def _add_member(graph: Graph, member: Member, raw_names: tuple[str, ...]) -> str:
    """Add a member of a blend; return the column of its weighted scores."""
    values = _add_mapping(graph, member.ranker.mapping, raw_names)
    model: Any = member.ranker.model
    scores: str = model.add_to_onnx(graph, values)
    factor = np.float32(member.share / member.unit)
    if factor == 1.0:
        return scores
    factor_name = graph.constant("factor", factor)
    return graph.add("Mul", [scores, factor_name], "part")


def _add_mapping(
    graph: Graph, mapping: FeatureMapping, raw_names: tuple[str, ...]
) -> str:
    """Add the mapping of raw features; return the mapped features."""
    values = _add_columns(graph, mapping, raw_names)

    # Scale, within the list or by stored ranges. Codes of categories are not scaled.
    if mapping.by_list:
        scaled = _add_min_max(graph, values)
        if mapping.codes:
            is_code = np.isin(mapping.names, mapping.codes)[None]
            is_code_name = graph.constant("is_code", is_code)
            scaled = graph.add("Where", [is_code_name, values, scaled], "with_codes")
        values = scaled
    elif mapping.low is not None:
        low, span = mapping.shift_and_span()
        above = graph.add("Sub", [values, graph.constant("low", low)], "above")
        values = graph.add("Div", [above, graph.constant("span", span)], "scaled")

    # Fill missing values.
    if mapping.fill is not None:
        fill = graph.constant("fill", np.array(mapping.fill, np.float32))
        missing = graph.add("IsNaN", [values], "missing_scaled")
        values = graph.add("Where", [missing, fill, values], "filled")
    return values


def _add_columns(
    graph: Graph, mapping: FeatureMapping, raw_names: tuple[str, ...]
) -> str:
    """Select the features that a model reads; make one-hot features of categories."""
    # The raw feature that each feature of the model comes from.
    values = INPUT
    sources = [mapping.source_of(name) for name in mapping.names]
    if tuple(sources) != raw_names:
        columns = np.array([raw_names.index(source) for source in sources])
        columns_name = graph.constant("places", columns)
        values = graph.add("Gather", [values, columns_name], "chosen", axis=1)

    # A feature such as brand=nike has another name than its source.
    is_one_hot = np.array(sources) != np.array(mapping.names)
    if not is_one_hot.any():
        return values

    # A one-hot feature is 1 where its source has this code; -1 is no code.
    code = np.full(len(sources), -1.0, np.float32)
    for i in np.flatnonzero(is_one_hot):
        value = mapping.names[i].removeprefix(f"{sources[i]}=")
        code[i] = mapping.categories[sources[i]].index(value)
    has_value = graph.add("Equal", [values, graph.constant("code", code)], "is_value")
    one_hot = graph.add("Cast", [has_value], "one_hot", to=FLOAT_TYPE)
    is_one_hot_name = graph.constant("is_made", is_one_hot[None])
    return graph.add("Where", [is_one_hot_name, one_hot, values], "with_one_hot")


def _add_min_max(graph: Graph, values: str) -> str:
    """Scale to [0, 1] over the list; a constant becomes 0, missing stays missing."""
    # Smallest and largest value of each feature; missing values must not decide them.
    missing = graph.add("IsNaN", [values], "missing")
    highest = graph.constant("highest", np.float32(np.inf))
    lowest = graph.constant("lowest", np.float32(-np.inf))
    for_low = graph.add("Where", [missing, highest, values], "for_low")
    for_high = graph.add("Where", [missing, lowest, values], "for_high")
    low = graph.add("ReduceMin", [for_low], "low", axes=[0], keepdims=1)
    high = graph.add("ReduceMax", [for_high], "high", axes=[0], keepdims=1)

    # Divide by their difference, or by 1 if it is 0.
    span = graph.add("Sub", [high, low], "span")
    zero = graph.constant("zero", np.float32(0))
    one = graph.constant("one", np.float32(1))
    is_constant = graph.add("Equal", [span, zero], "same")
    divisor = graph.add("Where", [is_constant, one, span], "divisor")
    above = graph.add("Sub", [values, low], "above")
    return graph.add("Div", [above, divisor], "scaled")


def _add_trees(graph: Graph, values: str, n_features: int, trees: list[Tree]) -> str:
    """Add trees as one node of the machine learning domain; return their scores."""
    if not trees:
        raise DataError("the ranker holds no trees, so there is nothing to export")
    values, trees = _add_category_splits(graph, values, n_features, trees)

    # All nodes of all trees, with the numbers of their tree and within it.
    numbered_nodes = [
        (tree_number, node_number, node)
        for tree_number, tree in enumerate(trees)
        for node_number, node in enumerate(tree)
    ]
    nodes = [node for _, _, node in numbered_nodes]
    leaves = [entry for entry in numbered_nodes if not entry[2].left]

    # float32 thresholds are rounded down, so that no float32 value changes sides.
    thresholds = [rounded_down(node.value) if node.left else 0.0 for node in nodes]
    graph.opsets[TREES] = TREES_OPSET
    return graph.add(
        "TreeEnsembleRegressor",
        [values],
        "sum",
        domain=TREES,
        n_targets=1,
        aggregate_function="SUM",
        nodes_treeids=[tree_number for tree_number, _, _ in numbered_nodes],
        nodes_nodeids=[node_number for _, node_number, _ in numbered_nodes],
        nodes_modes=["BRANCH_LEQ" if node.left else "LEAF" for node in nodes],
        nodes_featureids=[node.feature for node in nodes],
        nodes_values=thresholds,
        nodes_truenodeids=[node.left for node in nodes],
        nodes_falsenodeids=[node.right for node in nodes],
        nodes_missing_value_tracks_true=[int(node.missing_left) for node in nodes],
        target_treeids=[tree_number for tree_number, _, _ in leaves],
        target_nodeids=[node_number for _, node_number, _ in leaves],
        target_ids=[0] * len(leaves),
        target_weights=[leaf.value for _, _, leaf in leaves],
    )


def _add_category_splits(
    graph: Graph, values: str, n_features: int, trees: list[Tree]
) -> tuple[str, list[Tree]]:
    """Turn splits by category into splits of numbers.

    A split that sends some categories left becomes a split of an extra feature. This
    feature is 0 for these categories and 1 for all others, including missing values.

    Args:
        graph: The graph to add to.
        values: Name of the features ``[n_documents, n_features]``.
        n_features: Number of features.
        trees: The trees.

    Returns:
        The name of the features followed by the extra ones; the changed trees.
    """
    # The sets of categories that splits send left, by feature. Each set needs one extra
    # feature, however many splits use it.
    sets_by_feature: dict[int, list[Codes]] = {}
    for node in chain.from_iterable(trees):
        if node.codes:
            sets = sets_by_feature.setdefault(node.feature, [])
            if node.codes not in sets:
                sets.append(node.codes)
    if not sets_by_feature:
        return values, trees

    # Add the extra features, and number them after the features there are.
    columns = [values]
    extra_features: dict[tuple[int, Codes], int] = {}
    for feature, sets in sets_by_feature.items():
        columns.append(_add_category_lookup(graph, values, feature, sets))
        for codes in sets:
            extra_features[feature, codes] = n_features + len(extra_features)
    with_extra_features = graph.add("Concat", columns, "with_categories", axis=1)

    # Let the splits by category read them.
    changed_trees = [
        [_split_by_number(node, extra_features) for node in tree] for tree in trees
    ]
    return with_extra_features, changed_trees


def _add_category_lookup(
    graph: Graph, values: str, feature: int, sets: list[Codes]
) -> str:
    """Add one extra feature for each set of categories: 0 for its members, else 1.

    Args:
        graph: The graph to add to.
        values: Name of the features.
        feature: Number of the feature that holds the category's code, or NaN.
        sets: Codes of the categories of each set.

    Returns:
        The name of the extra features ``[n_documents, n_sets]``.
    """
    # The table has a row for each code up to the largest that a split names, and a last
    # row for all other values, which go right.
    largest_code = max(max(codes) for codes in sets)
    other_row = largest_code + 1
    table = np.ones((other_row + 1, len(sets)), np.float32)
    for column, codes in enumerate(sets):
        table[list(codes), column] = 0.0

    # The row of each document: its code, or the last row if the table lacks the code.
    prefix = f"category_{feature}"
    column_name = graph.constant(f"{prefix}_column", np.array([feature]))
    code = graph.add("Gather", [values, column_name], f"{prefix}_code", axis=1)
    first_row_name = graph.constant(f"{prefix}_least", np.float32(0))
    largest_code_name = graph.constant(f"{prefix}_most", np.float32(largest_code))
    other_row_name = graph.constant(f"{prefix}_last", np.float32(other_row))
    is_above = graph.add("GreaterOrEqual", [code, first_row_name], f"{prefix}_above")
    is_below = graph.add("LessOrEqual", [code, largest_code_name], f"{prefix}_below")
    is_in_table = graph.add("And", [is_above, is_below], f"{prefix}_known")
    row = graph.add("Where", [is_in_table, code, other_row_name], f"{prefix}_row")

    # Look the row up: as an integer, and without the axis of the single column.
    row_number = graph.add("Cast", [row], f"{prefix}_number", to=INT_TYPE)
    axis = graph.constant(f"{prefix}_axis", np.array([1], np.int64))
    row_number = graph.add("Squeeze", [row_number, axis], f"{prefix}_numbers")
    table_name = graph.constant(f"{prefix}_table", table)
    return graph.add("Gather", [table_name, row_number], prefix, axis=0)


def _split_by_number(node: Node, extra_features: dict[tuple[int, Codes], int]) -> Node:
    """Return a split by category as a split of its extra feature; others unchanged.

    A value of 0 is below the threshold and goes left, a value of 1 goes right.
    """
    if not node.codes:
        return node
    extra_feature = extra_features[node.feature, node.codes]
    return node._replace(value=0.5, feature=extra_feature)
