"""Trees as search engines read them, each by its own comparison.

Features are float32 and raw: what a ranker does to them is folded into thresholds, so
that an engine scores one document at a time. LightGBM goes left where ``x <= t``, in
double. For each split, ``limit`` is the largest float32 that goes left; what an engine
is given follows from it and from how the engine compares:

- OpenSearch and Elasticsearch LTR (``model/xgboost+json``): ``x < t`` in float32;
- Elasticsearch's own inference: ``x <= t`` in double;
- Solr: ``x <= t + 1e-6`` in float32;
- Vespa: ``x < t`` in double;
- RankLib: ``x <= t`` in float32, and no missing values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from affinerank.data.features import FeatureMapping
from affinerank.errors import ConfigError, DataError
from affinerank.rankers.xgboost_json import FlatTree, document

FLOAT = np.float32
LARGEST = float(np.finfo(FLOAT).max)
MOST = 1e300  # a threshold at infinity, as a number
SOLR_SLACK = FLOAT(1e-6)


@dataclass(frozen=True, slots=True)
class Split:
    """A node that is no leaf.

    Attributes:
        feature: Number of the feature.
        threshold: What LightGBM compares with, of the raw feature.
        limit: Largest float32 that goes left.
        missing_left: Whether a missing value does.
        tells_missing: Whether there were missing values to learn from.
        left: A leaf's value, or a split.
        right: Likewise.
    """

    feature: int
    threshold: float
    limit: float
    missing_left: bool
    tells_missing: bool
    left: Split | float
    right: Split | float


Tree = Split | float
Written = tuple[bytes, dict[str, Any]]


def trees_of(dumped: Mapping[str, Any], mapping: FeatureMapping) -> list[Tree]:
    """Read trees that LightGBM dumped; reject what search engines cannot express."""
    if mapping.by_list:
        raise ConfigError(
            "the ranker scales features within the list, and a search engine scores "
            "one document at a time; train with --scaling none"
        )
    if not dumped["tree_info"]:
        raise DataError("the ranker holds no trees, so there is nothing to export")
    return [_tree(tree["tree_structure"], mapping) for tree in dumped["tree_info"]]


def _tree(node: Mapping[str, Any], mapping: FeatureMapping) -> Tree:
    if "leaf_value" in node:
        return float(node["leaf_value"])
    if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
        raise DataError("trees with categories are not written for search engines")
    feature, threshold = int(node["split_feature"]), float(node["threshold"])
    limit = _limit(feature, threshold, mapping)
    seen = node["missing_type"] == "NaN"
    # Where no missing values were seen, LightGBM takes them for 0.
    missing = node["default_left"] if seen else threshold >= 0
    if mapping.fill is not None:
        missing = mapping.fill[feature] <= threshold
    return Split(
        feature,
        float(np.clip(threshold if mapping.low is None else limit, -MOST, MOST)),
        limit,
        bool(missing),
        seen or mapping.fill is not None,
        _tree(node["left_child"], mapping),
        _tree(node["right_child"], mapping),
    )


def _limit(feature: int, threshold: float, mapping: FeatureMapping) -> float:
    """Return the largest float32 whose mapped value is at most the threshold.

    By bisection over all float32, in the order of their bits.
    """
    low, span = mapping.shift_and_span()

    def goes_left(x: Any) -> bool:
        with np.errstate(over="ignore"):
            mapped = (x - low[feature]) / span[feature] if len(low) else x
        return bool(float(mapped) <= threshold)

    ends = (-LARGEST, LARGEST)
    if not goes_left(FLOAT(ends[0])):
        return -np.inf
    below, above = (_order(FLOAT(end)) for end in ends)
    if goes_left(FLOAT(ends[1])):
        return ends[1]
    while above - below > 1:
        middle = (below + above) // 2
        if goes_left(_number(middle)):
            below = middle
        else:
            above = middle
    return float(_number(below))


def _order(x: Any) -> int:
    """Number a float32 so that larger ones have larger numbers."""
    bits = int(np.asarray(x, FLOAT).view(np.int32))
    return bits if bits >= 0 else -(bits & 0x7FFFFFFF)


def _number(order: int) -> Any:
    size = np.array(abs(order), np.int32).view(FLOAT)
    return -size if order < 0 else size


def next_above(limit: float) -> float:
    """Return the smallest float32 above, or the largest there is."""
    if abs(limit) >= LARGEST:
        return float(np.copysign(LARGEST, limit))
    return float(np.nextafter(FLOAT(limit), FLOAT(np.inf)))


def solr_threshold(limit: float) -> float:
    """Return a float32 that comes to ``limit`` once Solr has added its 1e-6.

    Some limits cannot be hit; then the sum is the nearest below.
    """
    if abs(limit) >= LARGEST:
        return float(np.copysign(LARGEST, limit))
    near = FLOAT(limit) - SOLR_SLACK
    best = near
    for _ in range(4):
        if near + SOLR_SLACK <= FLOAT(limit):
            best = near
        near = np.nextafter(near, FLOAT(np.inf))
    while best + SOLR_SLACK > FLOAT(limit):
        best = np.nextafter(best, FLOAT(-np.inf))
    return float(best)


def opensearch(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write ``model/xgboost+json``: nested nodes that name features."""

    def written(tree: Tree, number: Iterator[int], depth: int) -> dict[str, Any]:
        own = next(number)
        if not isinstance(tree, Split):
            return {"nodeid": own, "leaf": tree}
        sides = [written(s, number, depth + 1) for s in (tree.left, tree.right)]
        yes, no = (side["nodeid"] for side in sides)
        return {
            "nodeid": own,
            "depth": depth,
            "split": names[tree.feature],
            "split_condition": next_above(tree.limit),
            "yes": yes,
            "no": no,
            "missing": yes if tree.missing_left else no,
            "children": sides,
        }

    return _json([written(tree, count(), 0) for tree in trees]), {
        "type": "model/xgboost+json"
    }


def opensearch_raw(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write ``model/xgboost+json+raw``, which XGBoost itself loads too."""

    def flat(tree: Tree, into: FlatTree) -> int:
        own = len(into["left_children"])
        split = tree if isinstance(tree, Split) else None
        node = {
            "left_children": -1,
            "right_children": -1,
            "split_indices": split.feature if split else 0,
            "default_left": int(split.missing_left) if split else 0,
            "split_conditions": next_above(split.limit) if split else tree,
            "loss_changes": 0.0,
        }
        for key, value in node.items():
            into.setdefault(key, []).append(value)
        if split:
            into["left_children"][own] = flat(split.left, into)
            into["right_children"][own] = flat(split.right, into)
        return own

    made: list[FlatTree] = []
    for tree in trees:
        made.append({"left_children": []})
        flat(tree, made[-1])
    about = {"type": "model/xgboost+json+raw", "feature_set": list(names)}
    return document(made, len(names), names), about


def elasticsearch(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write the body that creates a trained model; feature extractors are yours."""

    def flat(tree: Tree, nodes: list[dict[str, Any]]) -> int:
        own = len(nodes)
        nodes.append({"node_index": own})
        if isinstance(tree, Split):
            nodes[own] |= {
                "split_feature": tree.feature,
                "threshold": tree.threshold,
                "decision_type": "lte",
                "default_left": tree.missing_left,
                "left_child": flat(tree.left, nodes),
                "right_child": flat(tree.right, nodes),
            }
        else:
            nodes[own]["leaf_value"] = tree
        return own

    models = []
    for tree in trees:
        nodes: list[dict[str, Any]] = []
        flat(tree, nodes)
        about = {"feature_names": names, "target_type": "regression"}
        models.append({"tree": {**about, "tree_structure": nodes}})
    ensemble = {
        "feature_names": names,
        "trained_models": models,
        "aggregate_output": {"weighted_sum": {"weights": [1.0] * len(models)}},
        "target_type": "regression",
    }
    body = {
        "input": {"field_names": names},
        "inference_config": {"learning_to_rank": {"feature_extractors": []}},
        "definition": {"trained_model": {"ensemble": ensemble}},
    }
    return _json(body), {"send_to": "PUT _ml/trained_models/NAME"}


def solr(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write a ``MultipleAdditiveTreesModel``; numbers are texts there."""
    missed = [0, 0]

    def written(tree: Tree) -> dict[str, Any]:
        if not isinstance(tree, Split):
            return {"value": repr(tree)}
        threshold = solr_threshold(tree.limit)
        missed[0] += bool(FLOAT(threshold) + SOLR_SLACK != FLOAT(tree.limit))
        missed[1] += 1
        return {
            "feature": names[tree.feature],
            "threshold": repr(threshold),
            "missing": "left" if tree.missing_left else "right",
            "left": written(tree.left),
            "right": written(tree.right),
        }

    roots = [{"weight": "1", "root": written(tree)} for tree in trees]
    body = {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "name": "affinerank",
        "features": [{"name": name} for name in names],
        "params": {"trees": roots, "isNullSameAsZero": False},
    }
    about = dict(zip(("not_exact", "of"), missed, strict=True))
    return _json(body), {"thresholds": about}


def vespa(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write LightGBM's dump as Vespa imports it."""

    def written(tree: Tree) -> dict[str, Any]:
        if not isinstance(tree, Split):
            return {"leaf_value": tree}
        return {
            "split_feature": tree.feature,
            "threshold": float(np.nextafter(tree.threshold, np.inf)),
            "decision_type": "<=",
            "default_left": tree.missing_left,
            "left_child": written(tree.left),
            "right_child": written(tree.right),
        }

    body = {
        "objective": "lambdarank",
        "feature_names": names,
        "pandas_categorical": [],
        "tree_info": [
            {"tree_index": i, "tree_structure": written(tree)}
            for i, tree in enumerate(trees)
        ],
    }
    return _json(body), {}


def ranklib(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write RankLib's LambdaMART; features are numbered from 1."""

    def written(tree: Tree, indent: str) -> Iterator[str]:
        if not isinstance(tree, Split):
            yield f"{indent}<output> {tree!r} </output>"
            return
        if tree.tells_missing and tree.missing_left != (tree.limit >= 0):
            raise DataError(
                f"a missing {names[tree.feature]!r} is told from 0, and RankLib cannot "
                "do that; train LightGBM's trees with --missing 0, or export to "
                "another format"
            )
        limit = max(tree.limit, -LARGEST)
        yield f"{indent}<feature> {tree.feature + 1} </feature>"
        yield f"{indent}<threshold> {limit!r} </threshold>"
        for side, child in (("left", tree.left), ("right", tree.right)):
            yield f'{indent}<split pos="{side}">'
            yield from written(child, indent + " ")
            yield f"{indent}</split>"

    lines = ["## LambdaMART", f"## No. of trees = {len(trees)}", "", "<ensemble>"]
    for i, tree in enumerate(trees, start=1):
        lines += [f' <tree id="{i}" weight="1.0">', "  <split>"]
        lines += [*written(tree, "   "), "  </split>", " </tree>"]
    text = "\n".join([*lines, "</ensemble>", ""])
    return text.encode(), {"feature_numbers": dict(enumerate(names, start=1))}


ENGINES: Mapping[str, tuple[str, Callable[[list[Tree], tuple[str, ...]], Written]]] = {
    "opensearch": ("OpenSearch or Elasticsearch LTR (xgboost+json)", opensearch),
    "opensearch-raw": ("XGBoost's own JSON (xgboost+json+raw)", opensearch_raw),
    "elasticsearch": ("Elasticsearch's own inference", elasticsearch),
    "solr": ("Solr", solr),
    "vespa": ("Vespa", vespa),
    "ranklib": ("RankLib", ranklib),
}


def _json(body: Any) -> bytes:
    return (json.dumps(body, allow_nan=False) + "\n").encode()
