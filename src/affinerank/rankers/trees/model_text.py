"""Check the text of trees before LightGBM reads it: it trusts every number there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from affinerank.support import limits
from affinerank.support.arrays import Floats
from affinerank.support.errors import DataError

Span = tuple[float, float]
FINITE: Span = (-1e300, 1e300)
END = "\n\n\nend of trees"  # what follows describes the training
FIRST, NEXT = "\n\nTree=", "\n\n\nTree="
FIXED: dict[str, tuple[str | None, ...]] = {
    "version": ("v4", "v3"),
    "num_class": ("1",),
    "num_tree_per_iteration": ("1",),
    "label_index": ("0",),
    "objective": ("lambdarank", "rank_xendcg", "regression", "custom", None),
}
HEADER = (*FIXED, "max_feature_idx", "feature_names", "feature_infos", "tree_sizes")
BESIDES = {"leaf_weight", "leaf_count", "split_gain"}  # scores do not depend on them
BESIDES |= {"internal_value", "internal_weight", "internal_count"}
TREE = {"num_leaves", "num_cat", "split_feature", "threshold", "decision_type"}
TREE |= {"left_child", "right_child", "leaf_value", "cat_boundaries", "cat_threshold"}
TREE |= {"is_linear", "shrinkage", *BESIDES}


def _list_of(item: str) -> re.Pattern[str]:
    return re.compile(f"(?:(?:{item})(?: (?=.)|$))*+")


INT = "-?(?:0|[1-9][0-9]{0,9})"
NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[+-][0-9]+)?"
WHOLE, DECIMAL = _list_of(INT), _list_of(NUMBER)
FEATURES = {
    "feature_names": _list_of(r"[^\s\0-\x1f\\\",:\[\]{}]+"),
    "feature_infos": _list_of(rf"none|\[{NUMBER}:{NUMBER}\]|{INT}(?::{INT})*"),
}


def trees_alone(text: str) -> str:
    """Leave out what follows the trees, which scores do not depend on."""
    return text.partition("\nend of trees")[0] + "\nend of trees\n"


def require_sound(text: str) -> int:
    """Reject text that is not as LightGBM writes it; return the number of features."""
    head, first, rest = text.partition(FIRST)
    body, end, after = rest.partition(END)
    whole = after.count("\nparameters:") == after.count("\nend of parameters")
    name, *lines = head.split("\n")
    _require(
        name == "tree" and whole and first and end, "a header, trees and their end"
    )
    header = _pairs(lines, HEADER)
    for key, values in FIXED.items():
        _require(header.get(key) in values, f"{key} to be {values[0]}")
    n = 1 + int(_numbers(header, "max_feature_idx", 1, (0, limits.FEATURES - 1))[0])
    for key, pattern in FEATURES.items():
        listed = header.get(key, "")
        right = pattern.fullmatch(listed) and len(listed.split()) == n
        _require(right, f"{n} {key}")
    trees = body.split(NEXT)
    _require(len(trees) <= limits.MODEL_TREES, f"at most {limits.MODEL_TREES} trees")
    sizes = " ".join(str(len("Tree=") + len(tree) + 3) for tree in trees)
    _require(header.get("tree_sizes") == sizes, f"tree_sizes to be {sizes:.60}")
    for i, tree in enumerate(trees):
        number, *lines = tree.split("\n")
        try:
            _require(number == str(i), f"its number, got {number!r:.20}")
            _require_tree(_pairs(lines, TREE), n)
        except DataError as error:
            raise DataError(f"tree {i}: {error}") from None
    return n


def _require_tree(tree: Mapping[str, str], n_features: int) -> None:
    """Reject a tree unless its nodes and leaves are whole, and numbered in order."""
    leaves = int(_numbers(tree, "num_leaves", 1, (1, limits.MODEL_LEAVES))[0])
    nodes = leaves - 1
    _require(tree.get("is_linear", "0") == "0", "is_linear to be 0")
    _numbers(tree, "shrinkage", 1)
    _numbers(tree, "leaf_value", leaves)
    for key in BESIDES:
        if tree.get(key):
            _numbers(tree, key, leaves if key.startswith("leaf") else nodes)
    # At inf a node tells missing values from all others.
    finite = re.sub(r"(?<!\S)-?inf(?!\S)", "0", tree.get("threshold", ""))
    threshold = _numbers({"threshold": finite}, "threshold", nodes)
    _numbers(tree, "split_feature", nodes, (0, n_features - 1))
    sides = ("left_child", "right_child")
    child = np.stack([_numbers(tree, k, nodes, (-leaves, nodes - 1)) for k in sides])
    every = [i for i in range(-leaves, nodes) if i] if nodes else []
    after = np.all((child < 0) | (child > np.arange(nodes)))
    whole = "left_child and right_child to name each leaf, each node after its parent"
    _require(after and sorted(child.ravel()) == every, whole)
    depth = np.ones(nodes + 1)
    for i, inner in enumerate(child.T if nodes > limits.MODEL_DEPTH else ()):
        depth[inner[inner > 0].astype(int)] = depth[i] + 1
    _require(depth.max() <= limits.MODEL_DEPTH, f"{limits.MODEL_DEPTH} levels at most")
    kinds = _numbers(tree, "decision_type", nodes, (0, 11))
    categories = int(_numbers(tree, "num_cat", 1, (0, nodes))[0])
    if categories:
        bounds = _numbers(tree, "cat_boundaries", categories + 1, (0, 2**31 - 1))
        rising = bounds[0] == 0 and np.all(np.diff(bounds) > 0)
        _require(rising, "cat_boundaries to rise from 0")
        _numbers(tree, "cat_threshold", int(bounds[-1]), (0, 2**32 - 1))
    known = np.isin(threshold[kinds % 2 == 1], np.arange(categories))
    _require(known.all(), f"a category's threshold below num_cat, {categories}")


def _pairs(lines: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Split lines ``key=value``, each of a known key, and each key once."""
    found: dict[str, str] = {}
    for line in lines:
        key, equals, value = line.partition("=")
        right = equals and key in known and key not in found
        _require(right, f"each known key once, got {line!r:.40}")
        found[key] = value
    return found


def _numbers(
    found: Mapping[str, str], key: str, size: int, span: Span = FINITE
) -> Floats:
    """Return so many numbers of a range; whole ones if its ends are."""
    text = found.get(key, "")
    pattern = WHOLE if isinstance(span[0], int) else DECIMAL
    plain = text.split() if pattern.fullmatch(text) else [np.nan]
    values = np.array(plain, dtype=np.float64)
    inside = np.all((values >= span[0]) & (values <= span[1]))
    right = inside and len(values) == size
    _require(right, f"{key} to be {size} numbers from {span[0]:g} to {span[1]:g}")
    return values


def _require(right: object, expected: str) -> None:
    if not right:
        raise DataError(f"expected {expected}")
