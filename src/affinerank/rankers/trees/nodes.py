"""Trees node by node, whatever library they are of: what is exported starts here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from affinerank.support.errors import DataError

FLOAT = np.float32
LARGEST = float(np.finfo(FLOAT).max)
# LightGBM reads values from minus this to this as 0.
LIGHTGBM_ZERO = float(FLOAT(1e-35))
BELOW_LIGHTGBM_ZERO = float(np.nextafter(FLOAT(-1e-35), FLOAT(-1)))


class Node(NamedTuple):
    """A split, or a leaf; the nodes of a tree are a list, the root first.

    Attributes:
        value: Of a leaf; or the threshold of a split: what is not above it goes left.
        feature: Number of the feature of a split.
        missing_left: Whether a missing value goes left.
        tells_missing: Whether there were missing values to learn from.
        left: Number of a split's left child, 0 for a leaf.
        right: Likewise.
        limit: Largest float32 that goes left, where features are raw.
        gain: What a split gained, where that is kept.
        codes: Of the categories that go left, where a split is by category; all others
            go right, what is missing among them.
    """

    value: float
    feature: int = 0
    missing_left: bool = False
    tells_missing: bool = False
    left: int = 0
    right: int = 0
    limit: float = 0.0
    gain: float = 0.0
    codes: tuple[int, ...] = ()


Tree = list[Node]


def from_lightgbm(dumped: Mapping[str, Any]) -> list[Tree]:
    """Read trees that LightGBM dumped; reject what only its own text can hold."""
    _require_plain(not dumped.get("average_output"), "averages in place of sums")
    trees: list[Tree] = []
    for found in dumped["tree_info"]:
        trees.append([])
        _add(trees[-1], found["tree_structure"])
    return trees


def _add(tree: Tree, found: Mapping[str, Any]) -> int:
    """Add a node, then all below it; return its number."""
    own = len(tree)
    tree.append(Node(float(found.get("leaf_value", 0.0))))
    if "leaf_value" in found:
        _require_plain(found.get("leaf_coeff", []) == [], "linear leaves")
        return own
    left = _add(tree, found["left_child"])
    right = _add(tree, found["right_child"])
    feature = int(found["split_feature"])
    if found["decision_type"] == "==":
        codes = tuple(int(code) for code in found["threshold"].split("||"))
        tree[own] = Node(0.0, feature, False, True, left, right, codes=codes)
        return own
    threshold, kind = float(found["threshold"]), found["missing_type"]
    threshold = _beside_zero(threshold)
    _require_plain(kind != "Zero", "zeros that count as missing")
    # Where no missing values were seen, LightGBM takes them for 0.
    missing = found["default_left"] if kind == "NaN" else threshold >= 0
    tree[own] = Node(threshold, feature, bool(missing), kind == "NaN", left, right)
    return own


def _beside_zero(threshold: float) -> float:
    """Return a threshold that decides alike for a reader that rounds nothing to 0.

    LightGBM reads float32 values from -1e-35 to 1e-35 as 0. So a threshold in that
    range sends all of them to the side of 0.
    """
    if -LIGHTGBM_ZERO <= threshold < 0:
        return BELOW_LIGHTGBM_ZERO
    if 0 <= threshold < LIGHTGBM_ZERO:
        return LIGHTGBM_ZERO
    return threshold


def numbered_breadth_first(tree: Tree) -> Tree:
    """Return the same tree with the children of each node next to each other."""
    # Old numbers in the new order: the root, its children, their children.
    order = [0]
    for number in order:
        node = tree[number]
        if node.left:
            order += [node.left, node.right]
    new_number = {old: new for new, old in enumerate(order)}

    renumbered = []
    for number in order:
        node = tree[number]
        if node.left:
            left = new_number[node.left]
            right = new_number[node.right]
            node = node._replace(left=left, right=right)
        renumbered.append(node)
    return renumbered


def require_numeric_splits(trees: Iterable[Tree]) -> None:
    """Reject trees that split by category, which search engines cannot hold."""
    _require_plain(not any(node.codes for tree in trees for node in tree), "categories")


def _require_plain(plain: bool, what: str) -> None:
    if not plain:
        raise DataError(f"trees with {what} are not written so; export to lightgbm")


def rounded_down(threshold: float) -> float:
    """Return the largest float32 that is not above: no float32 changes sides."""
    with np.errstate(over="ignore"):
        near = FLOAT(threshold)
    if float(near) > threshold:
        near = np.nextafter(near, FLOAT(-np.inf))
    return float(near)


def next_above(limits: Any) -> Any:
    """Return the smallest float32 above each, or the largest there is."""
    return np.nextafter(np.asarray(limits, FLOAT), FLOAT(LARGEST))
