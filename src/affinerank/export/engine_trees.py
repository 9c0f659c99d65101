"""Trees as search engines read them, each by its own comparison.

Features are float32 and raw: what a ranker does to them is folded into thresholds, so
that an engine scores one document at a time. LightGBM goes left where ``x <= t``, in
double. For each split, ``limit`` is the largest float32 that goes left; the threshold
in the file follows from it and from how the engine compares:

- OpenSearch and Elasticsearch LTR (``model/xgboost+json``): ``x < t`` in float32;
- Elasticsearch's own inference: ``x <= t`` in double;
- Solr: ``x <= t + 1e-6`` in float32;
- Vespa: ``x < t``, in double or with ``t`` rounded to float32;
- RankLib: ``x <= t`` in float32, and no missing values.

A few limits are out of an engine's reach. ``TreeEngine.reached`` says where the engine
cuts instead.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from affinerank.data.feature_mapping import FeatureMapping
from affinerank.rankers.trees.nodes import (
    FLOAT,
    LARGEST,
    Node,
    Tree,
    next_above,
    require_numeric_splits,
    rounded_down,
)
from affinerank.rankers.trees.xgboost_json import document
from affinerank.support.errors import ConfigError, DataError

MOST = 1e300  # a threshold at infinity, as a number
SOLR_SLACK = FLOAT(1e-6)
NUMBERS = int(np.array(LARGEST, FLOAT).view(np.int32))  # of float32 above 0
# A rank feature or function: price, attribute(price), fieldMatch(title).completeness.
VESPA_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)(\([\w., ]*\))?(\.\w+)*", re.ASCII)
VESPA_CONSTANTS = {"true", "false"}
# Called on a feature, these compute something.
VESPA_FUNCTIONS = (
    "abs acos asin atan ceil cos cosh elu erf exp fabs floor isNan log log10 relu "
    "round sigmoid sign sin sinh sqrt square tan tanh argmax argmin avg count if max "
    "median min prod sum unpack_bits atan2 bit fmod hamming ldexp pow"
)
MISSING_IS_ZERO = "a missing value counts as 0"
NONE_MISSING = "no value may be missing: the engine would take it for 0"
Written = tuple[bytes, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TreeEngine:
    """How trees are written for one engine.

    Attributes:
        title: What messages call the format.
        write: From trees of raw features and the features' names to the file, and what
            its description says besides.
        reached: The largest float32 that the engine sends left, by the limit.
    """

    title: str
    write: Callable[[list[Tree], tuple[str, ...]], Written]
    reached: Callable[[float], float]


def require_document_scores(mapping: FeatureMapping) -> None:
    """Reject rankers whose scores depend on the other documents of a list."""
    if mapping.by_list:
        raise ConfigError(
            "the ranker scales features within the list, and a search engine scores "
            "one document at a time; train with --scaling none or --scaling data"
        )


def fold_features(trees: list[Tree], mapping: FeatureMapping) -> list[Tree]:
    """Return trees of raw features: fold scaling and filling into the splits."""
    if not trees:
        raise DataError("the ranker holds no trees, so there is nothing to export")
    require_numeric_splits(trees)
    return [[_folded(node, mapping) for node in tree] for tree in trees]


def _folded(node: Node, mapping: FeatureMapping) -> Node:
    if not node.left:
        return node
    limit = _limit(node, mapping)
    threshold = node.value if mapping.low is None else limit
    missing_left = node.missing_left
    tells_missing = node.tells_missing
    if mapping.fill is not None:
        missing_left = mapping.fill[node.feature] <= node.value
        tells_missing = True
    return node._replace(
        value=float(np.clip(threshold, -MOST, MOST)),
        limit=limit,
        missing_left=missing_left,
        tells_missing=tells_missing,
    )


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


def zero_is_left(limit: float) -> bool:
    """Return whether a value of 0 goes left at this limit."""
    return limit >= 0


def _tells_missing_from_zero(trees: list[Tree]) -> bool:
    """Return whether some split sends a missing value elsewhere than 0."""
    return any(
        node.left and node.missing_left != zero_is_left(node.limit)
        for tree in trees
        for node in tree
    )


def exactly(limit: float) -> float:
    """Return the limit: the engine reaches all of them."""
    return limit


def reached_below(limit: float) -> float:
    """Return where ``x < t`` cuts in float32: the largest float32 never goes left."""
    return min(limit, float(np.nextafter(FLOAT(LARGEST), FLOAT(0))))


def reached_by_ranklib(limit: float) -> float:
    """Return where ``x <= t`` cuts with a finite ``t``: the least float32 goes left."""
    return max(limit, -LARGEST)


def reached_by_solr(limit: float) -> float:
    """Return where ``x <= t + 1e-6`` cuts."""
    return float(FLOAT(solr_threshold(limit)) + SOLR_SLACK)


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
    """Write the body that creates a trained model; feature extractors are yours.

    Elasticsearch takes names from the extractors, and refuses ``input`` beside them.
    """

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
        "inference_config": {"learning_to_rank": {"feature_extractors": []}},
        "definition": {"trained_model": {"ensemble": ensemble}},
    }
    return _json(body), {"send_to": "PUT _ml/trained_models/NAME"}


def solr(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write a ``MultipleAdditiveTreesModel``; numbers are texts there.

    Solr knows of missing values from 9.2 on, and older versions refuse the keys that
    say where these go. So the keys are left out where a missing value counts as 0.
    """
    says_missing = _tells_missing_from_zero(trees)

    def written(tree: Tree, number: int = 0) -> dict[str, Any]:
        node = tree[number]
        if not node.left:
            return {"value": repr(node.value)}
        split: dict[str, Any] = {
            "feature": names[node.feature],
            "threshold": repr(solr_threshold(node.limit)),
        }
        if says_missing:
            split["missing"] = "left" if node.missing_left else "right"
        split["left"] = written(tree, node.left)
        split["right"] = written(tree, node.right)
        return split

    params: dict[str, Any] = {
        "trees": [{"weight": "1", "root": written(tree)} for tree in trees]
    }
    description = {"missing": MISSING_IS_ZERO}
    if says_missing:
        params["isNullSameAsZero"] = False
        description = {"missing": "NaN", "needs": "Solr 9.2 or later"}
    body = {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "name": "affinerank",
        "features": [{"name": name} for name in names],
        "params": params,
    }
    return _json(body), description


def vespa(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write LightGBM's dump as Vespa imports it.

    Thresholds are float32, because content nodes round them to that.
    """
    used = {node.feature for tree in trees for node in tree if node.left}
    require_vespa_names(names[feature] for feature in sorted(used))

    def written(tree: Tree, number: int = 0) -> dict[str, Any]:
        node = tree[number]
        if not node.left:
            return {"leaf_value": node.value}
        reaches_all = node.limit >= LARGEST
        threshold = MOST if reaches_all else float(next_above(node.limit))
        return {
            "split_feature": node.feature,
            "threshold": threshold,
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


def require_vespa_names(names: Iterator[str]) -> None:
    """Reject names that Vespa would not read as a rank feature or function."""
    for name in names:
        match = VESPA_NAME.fullmatch(name)
        is_called = "(" in name
        if (
            match is None
            or name in VESPA_CONSTANTS
            or (is_called and match["name"] in VESPA_FUNCTIONS.split())
        ):
            raise DataError(
                f"Vespa cannot read {name!r} as the name of a rank feature or "
                "function; train on data with a name such as price or attribute(price)"
            )


def ranklib(trees: list[Tree], names: tuple[str, ...]) -> Written:
    """Write RankLib's LambdaMART; features are numbered from 1."""

    def written(tree: Tree, number: int, indent: str) -> Iterator[str]:
        node = tree[number]
        if not node.left:
            yield f"{indent}<output> {node.value!r} </output>"
            return
        if node.tells_missing and node.missing_left != zero_is_left(node.limit):
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
    missing = MISSING_IS_ZERO
    if _tells_missing_from_zero(trees):
        missing = NONE_MISSING
    numbers = dict(enumerate(names, start=1))
    return text.encode(), {"feature_numbers": numbers, "missing": missing}


TREE_ENGINES: Mapping[str, TreeEngine] = {
    "opensearch": TreeEngine(
        "OpenSearch or Elasticsearch LTR (xgboost+json)", opensearch, reached_below
    ),
    "opensearch-raw": TreeEngine(
        "XGBoost's own JSON (xgboost+json+raw)", opensearch_raw, reached_below
    ),
    "elasticsearch": TreeEngine(
        "Elasticsearch's own inference", elasticsearch, exactly
    ),
    "solr": TreeEngine("Solr", solr, reached_by_solr),
    "vespa": TreeEngine("Vespa", vespa, exactly),
    "ranklib": TreeEngine("RankLib", ranklib, reached_by_ranklib),
}


def _json(body: Any) -> bytes:
    return (json.dumps(body, allow_nan=False) + "\n").encode()
