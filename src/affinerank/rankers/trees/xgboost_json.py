"""Trees as XGBoost's own JSON holds them, checked before XGBoost reads them.

XGBoost goes left where ``x < t``, in float32. It takes a right child to stand next to
the left one, so nodes are numbered breadth first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from affinerank.rankers.trees.nodes import (
    FLOAT,
    LARGEST,
    Node,
    Tree,
    next_above,
    numbered_breadth_first,
)
from affinerank.support import limits
from affinerank.support.errors import DataError

LARGEST_SPAN = (-LARGEST, LARGEST)
ROOT = 2**31 - 1  # what a root has for a parent
# Arrays of a tree, a value per node; children of a leaf are -1.
WHOLE = ("left_children", "right_children", "split_indices", "default_left")
REAL = ("split_conditions", "loss_changes")  # a leaf's value is its condition


def document(trees: Sequence[Tree], n_features: int, names: Sequence[str]) -> bytes:
    """Write trees as a model that XGBoost loads; a score is the sum of leaves.

    Thresholds are float32.
    """
    pairs = "lambdarank_num_pair_per_sample"
    ranking = {"lambdarank_pair_method": "topk", pairs: "32", "ndcg_exp_gain": "0"}
    model = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(len(trees) + 1)),
        "tree_info": [0] * len(trees),
        "trees": [
            _written(numbered_breadth_first(tree), i, n_features)
            for i, tree in enumerate(trees)
        ],
    }
    learner = {
        "attributes": {},
        "feature_names": list(names),
        "feature_types": ["float"] * len(names),
        "gradient_booster": {"name": "gbtree", "model": model},
        "learner_model_param": {
            "base_score": "0E0",
            "boost_from_average": "0",
            "num_class": "0",
            "num_feature": str(n_features),
            "num_target": "1",
        },
        "objective": {"name": "rank:ndcg", "lambdarank_param": ranking},
    }
    body = {"learner": learner, "version": [2, 1, 0]}
    return (json.dumps(body, allow_nan=False) + "\n").encode()


def _written(tree: Tree, number: int, n_features: int) -> dict[str, Any]:
    n = len(tree)
    value, feature, missing, _, left, right, _, gain, _ = zip(*tree, strict=True)
    parents = [ROOT] * n
    for i, node in enumerate(tree):
        if node.left:
            parents[node.left] = parents[node.right] = i
    above = next_above(value).astype(str)  # as short as float32 can be written
    conditions = [
        float(a) if le else v for a, le, v in zip(above, left, value, strict=True)
    ]
    size = {"num_deleted": "0", "size_leaf_vector": "1"}
    size |= {"num_feature": str(n_features), "num_nodes": str(n)}
    none: dict[str, list[int]] = {
        f"categories{of}": [] for of in ("", "_nodes", "_segments", "_sizes")
    }
    return {
        "left_children": [child or -1 for child in left],
        "right_children": [child or -1 for child in right],
        "split_indices": feature,
        "default_left": [int(side) for side in missing],
        "split_conditions": conditions,
        "loss_changes": gain,
        **none,
        "base_weights": conditions,  # where plugins look for leaves
        "id": number,
        "parents": parents,
        "split_type": [0] * n,
        "sum_hessian": [0.0] * n,
        "tree_param": size,
    }


def sound_trees(found: Any, n_features: int) -> list[Tree]:
    """Return the trees of a document that :func:`document` wrote, or reject them."""
    try:
        trees = found["learner"]["gradient_booster"]["model"]["trees"]
    except (TypeError, KeyError, IndexError):
        raise DataError("expected learner, gradient_booster, model, trees") from None
    if not isinstance(trees, list) or not 0 < len(trees) <= limits.MODEL_TREES:
        raise DataError(f"expected a list of 1 to {limits.MODEL_TREES:,} trees")
    return [_sound(tree, i, n_features) for i, tree in enumerate(trees)]


def _sound(tree: Any, number: int, n_features: int) -> Tree:
    """Check that nodes are whole: each but the root is the child of one before it."""
    where, most = f"tree {number}", 2 * limits.MODEL_LEAVES - 1
    if not isinstance(tree, dict):
        raise DataError(f"{where}: expected an object")
    left = tree.get("left_children")
    n = len(left) if isinstance(left, list) else 0
    if not 0 < n <= most:
        raise DataError(f"{where}: expected 1 to {most:,} left_children")
    spans = dict.fromkeys(WHOLE[:2], (-1, n - 1)) | dict.fromkeys(REAL, LARGEST_SPAN)
    spans |= {"split_indices": (0, n_features - 1), "default_left": (0, 1)}
    for key, (low, top) in spans.items():
        values: Any = tree.get(key)
        kinds = (int,) if key in WHOLE else (int, float)
        right = isinstance(values, list) and len(values) == n
        if not right or any(type(value) not in kinds for value in values):
            raise DataError(f"{where}: expected {n} numbers in {key}")
        if not low <= min(values) <= max(values) <= top:
            raise DataError(f"{where}: expected {key} from {low:g} to {top:g}")
    depth = [1] * n
    met: list[int] = []
    for i, pair in enumerate(zip(*(tree[key] for key in WHOLE[:2]), strict=True)):
        if pair == (-1, -1):
            continue
        if min(pair) <= i:
            raise DataError(f"{where}: node {i} needs two children after it, or none")
        for child in pair:
            depth[child] = depth[i] + 1
        met += pair
    if sorted(met) != list(range(1, n)) or max(depth) > limits.MODEL_DEPTH:
        raise DataError(
            f"{where}: expected each node but the first once among the children, "
            f"{limits.MODEL_DEPTH} levels at most"
        )
    return nodes_of(tree)


def nodes_of(tree: Mapping[str, Any]) -> Tree:
    """Read nodes, numbered so that children come after their parent."""
    order, place = [0], {}
    for number in order:
        for child in (tree[side][number] for side in WHOLE[:2]):
            if child >= 0:
                place[child] = len(order)
                order.append(child)
    with np.errstate(over="ignore"):
        below = np.nextafter(np.array(tree["split_conditions"], FLOAT), FLOAT(-np.inf))
    nodes = []
    for number in order:
        left, right, feature, missing = (tree[key][number] for key in WHOLE)
        value, gain = (tree[key][number] for key in REAL)
        if left >= 0:
            split = (feature, bool(missing), True, place[left], place[right])
            nodes.append(Node(float(below[number]), *split, gain=gain))
        else:
            nodes.append(Node(value))
    return nodes
