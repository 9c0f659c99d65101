"""Faults that a writer of trees might have: each changes how a file decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from affinerank.rankers.trees.nodes import Tree

F = np.float32


def below_for_at_most(trees: list[Tree]) -> list[Tree]:
    """Write ``<`` for ``<=``: a value on a threshold goes right."""
    return [
        [
            node._replace(
                limit=float(np.nextafter(F(node.limit), F(-np.inf))),
                value=float(np.nextafter(node.limit, -np.inf)),
            )
            if node.left
            else node
            for node in tree
        ]
        for tree in trees
    ]


def swapped_children(trees: list[Tree]) -> list[Tree]:
    """Swap the children of one root."""
    first, *rest = trees
    root, *nodes = first
    return [[root._replace(left=root.right, right=root.left), *nodes], *rest]


def dropped_tree(trees: list[Tree]) -> list[Tree]:
    """Leave the last tree out."""
    return trees[:-1]


def wrong_leaf(trees: list[Tree]) -> list[Tree]:
    """Change a leaf of the last tree by a tenth of the largest."""
    *rest, last = trees
    largest = max(abs(node.value) for tree in trees for node in tree if not node.left)
    place = next(i for i, node in enumerate(last) if not node.left)
    changed = last[place]._replace(value=last[place].value + largest / 10)
    return [*rest, [*last[:place], changed, *last[place + 1 :]]]


def wrong_feature(trees: list[Tree]) -> list[Tree]:
    """Give the first root its left child's feature, or the next one's."""
    first, *rest = trees
    root, *nodes = first
    return [[root._replace(feature=(root.feature + 1) % 4), *nodes], *rest]


TREE_FAULTS: Mapping[str, Callable[[list[Tree]], list[Tree]]] = {
    "< for <=": below_for_at_most,
    "swapped children": swapped_children,
    "dropped tree": dropped_tree,
    "wrong leaf": wrong_leaf,
    "wrong feature": wrong_feature,
}
