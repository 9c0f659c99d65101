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
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from affinerank.data.features import FeatureMapping
from affinerank.errors import ConfigError, DataError
from affinerank.rankers.tree_nodes import (
    FLOAT,
    LARGEST,
    Node,
    Tree,
    next_above,
    rounded_down,
)
from affinerank.rankers.xgboost_json import document

MOST = 1e300  # a threshold at infinity, as a number
SOLR_SLACK = FLOAT(1e-6)
NUMBERS = int(np.array(LARGEST, FLOAT).view(np.int32))  # of float32 above 0
Written = tuple[bytes, dict[str, Any]]


def of_raw_features(trees: list[Tree], mapping: FeatureMapping) -> list[Tree]:
    """Fold what is done to features into splits; reject what cannot be."""
    if mapping.by_list:
        raise ConfigError(
            "the ranker scales features within the list, and a search engine scores "
            "one document at a time; train with --scaling none"
        )
    if not trees:
        raise DataError("the ranker holds no trees, so there is nothing to export")
    return [[_folded(node, mapping) for node in tree] for tree in trees]


def _folded(node: Node, mapping: FeatureMapping) -> Node:
    if not node.left:
        return node
    limit = _limit(node, mapping)
    missing, tells = node.missing_left, node.tells_missing
    if mapping.fill is not None:
        missing, tells = mapping.fill[node.feature] <= node.value, True
    at = node.value if mapping.low is None else limit
    value = float(np.clip(at, -MOST, MOST))
    node = node._replace(value=value, limit=limit)
    return node._replace(missing_left=missing, tells_missing=tells)


def _limit(node: Node, mapping: FeatureMapping) -> float:
    """Return the largest float32 whose mapped value is at most the threshold.

    By bisection over all float32, in the order of their bits.
    """
    if mapping.low is None:
        return min(rounded_down(node.value), LARGEST)
    low, span = (each[node.feature] for each in mapping.shift_and_span())

    def goes_right(number: int) -> bool:
        with np.errstate(over="ignore"):
            return not float((_numbered(number) - low) / span) <= node.value

    every = range(-NUMBERS, NUMBERS + 1)
    above = bisect_left(every, True, key=goes_right)
    return float(_numbered(every[above - 1])) if above else -np.inf


def _numbered(number: int) -> Any:
    """Return a float32 by its number: larger ones have larger numbers."""
    return np.copysign(np.array(abs(number), np.int32).view(FLOAT), FLOAT(number))


def solr_threshold(limit: float) -> float:
    """Return a float32 that comes to ``limit`` once Solr has added its 1e-6.

    Some limits cannot be hit; then the sum is the nearest below.
    """
    if abs(limit) >= LARGEST:
        return float(np.copysign(LARGEST, limit))
    near = FLOAT(limit) - SOLR_SLACK
    for _ in range(3):
        near = np.nextafter(near, FLOAT(np.inf))
    while near + SOLR_SLACK > FLOAT(limit):
        near = np.nextafter(near, FLOAT(-np.inf))
    return float(near)


def opensearch(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write ``model/xgboost+json``: nested nodes that name features."""

    def written(tree: Tree, number: int = 0, depth: int = 0) -> dict[str, Any]:
        node = tree[number]
        if not node.left:
            return {"nodeid": number, "leaf": node.value}
        sides = (node.left, node.right)
        return {
            "nodeid": number,
            "depth": depth,
            "split": names[node.feature],
            "split_condition": float(next_above(node.limit)),
            "yes": node.left,
            "no": node.right,
            "missing": node.left if node.missing_left else node.right,
            "children": [written(tree, side, depth + 1) for side in sides],
        }

    return _json([written(tree) for tree in trees]), {"type": "model/xgboost+json"}


def opensearch_raw(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write ``model/xgboost+json+raw``, which XGBoost itself loads too."""
    limited = [[n._replace(value=n.limit) if n.left else n for n in t] for t in trees]
    about = {"type": "model/xgboost+json+raw", "feature_set": list(names)}
    return document(limited, len(names), names), about


def elasticsearch(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write the body that creates a trained model; feature extractors are yours."""

    def written(number: int, node: Node) -> dict[str, Any]:
        if not node.left:
            return {"node_index": number, "leaf_value": node.value}
        return {
            "node_index": number,
            "split_feature": node.feature,
            "threshold": node.value,
            "decision_type": "lte",
            "default_left": node.missing_left,
            "left_child": node.left,
            "right_child": node.right,
        }

    about = {"feature_names": names, "target_type": "regression"}
    models = [
        {"tree": {**about, "tree_structure": [written(*each) for each in enumerate(t)]}}
        for t in trees
    ]
    weights = {"weighted_sum": {"weights": [1.0] * len(models)}}
    ensemble = {**about, "trained_models": models, "aggregate_output": weights}
    body = {
        "input": {"field_names": names},
        "inference_config": {"learning_to_rank": {"feature_extractors": []}},
        "definition": {"trained_model": {"ensemble": ensemble}},
    }
    return _json(body), {"send_to": "PUT _ml/trained_models/NAME"}


def solr(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write a ``MultipleAdditiveTreesModel``; numbers are texts there."""
    missed: list[bool] = []

    def written(tree: Tree, number: int = 0) -> dict[str, Any]:
        node = tree[number]
        if not node.left:
            return {"value": repr(node.value)}
        threshold = solr_threshold(node.limit)
        missed.append(bool(FLOAT(threshold) + SOLR_SLACK != FLOAT(node.limit)))
        return {
            "feature": names[node.feature],
            "threshold": repr(threshold),
            "missing": "left" if node.missing_left else "right",
            "left": written(tree, node.left),
            "right": written(tree, node.right),
        }

    roots = [{"weight": "1", "root": written(tree)} for tree in trees]
    body = {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "name": "affinerank",
        "features": [{"name": name} for name in names],
        "params": {"trees": roots, "isNullSameAsZero": False},
    }
    return _json(body), {"thresholds": {"not_exact": sum(missed), "of": len(missed)}}


def vespa(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write LightGBM's dump as Vespa imports it."""

    def written(tree: Tree, number: int = 0) -> dict[str, Any]:
        node = tree[number]
        if not node.left:
            return {"leaf_value": node.value}
        return {
            "split_feature": node.feature,
            "threshold": float(np.nextafter(node.value, np.inf)),
            "decision_type": "<=",
            "default_left": node.missing_left,
            "left_child": written(tree, node.left),
            "right_child": written(tree, node.right),
        }

    roots = enumerate(written(tree) for tree in trees)
    body = {
        "objective": "lambdarank",
        "feature_names": names,
        "pandas_categorical": [],
        "tree_info": [{"tree_index": i, "tree_structure": root} for i, root in roots],
    }
    return _json(body), {}


def ranklib(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write RankLib's LambdaMART; features are numbered from 1."""

    def written(tree: Tree, number: int, indent: str) -> Iterator[str]:
        node = tree[number]
        if not node.left:
            yield f"{indent}<output> {node.value!r} </output>"
            return
        if node.tells_missing and node.missing_left != (node.limit >= 0):
            raise DataError(
                f"a missing {names[node.feature]!r} is told from 0, and RankLib cannot "
                "do that; train LightGBM's trees with --missing 0, or export to "
                "another format"
            )
        yield f"{indent}<feature> {node.feature + 1} </feature>"
        yield f"{indent}<threshold> {max(node.limit, -LARGEST)!r} </threshold>"
        for side, child in (("left", node.left), ("right", node.right)):
            yield f'{indent}<split pos="{side}">'
            yield from written(tree, child, indent + " ")
            yield f"{indent}</split>"

    lines = ["## LambdaMART", f"## No. of trees = {len(trees)}", "", "<ensemble>"]
    for i, tree in enumerate(trees, start=1):
        lines += [f' <tree id="{i}" weight="1.0">', "  <split>"]
        lines += [*written(tree, 0, "   "), "  </split>", " </tree>"]
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
