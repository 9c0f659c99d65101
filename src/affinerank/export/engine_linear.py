"""Linear models as search engines read them.

A score is a constant plus a weight times each feature. Scaling by the data is folded
into weights and constant where the engine adds up in double, and stays in the file
where it does not: there, large features of small spread would lose their digits.
Some engines hold no constant; it changes no order, and the description names it.

- OpenSearch and Elasticsearch LTR (``model/linear``): float32, no constant;
- Solr (``LinearModel``): float32, features scaled by the file, no constant;
- Vespa (a ranking expression): double, missing values filled by the file;
- RankLib (``Linear Regression``): double.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from affinerank.data.feature_mapping import FeatureMapping
from affinerank.export.engine_trees import require_vespa_names
from affinerank.support.arrays import Floats, Matrix


class LinearFile(NamedTuple):
    """What is written for an engine.

    Attributes:
        content: Of the file.
        description: More for the description beside it.
        constant: To add to the engine's scores: they are then the ranker's.
        fills_missing: Whether the file says what replaces a missing value.
    """

    content: bytes
    description: dict[str, Any]
    constant: float = 0.0
    fills_missing: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RawLinear:
    """A linear model, and what is done to each raw feature before.

    The score is ``constant + sum(weight * (feature - low) / span)``.

    Attributes:
        names: Of the features.
        weight: ``[n_features]`` of each scaled feature.
        low: ``[n_features]`` what becomes 0.
        span: ``[n_features]`` what is then divided by.
        fill: ``[n_features]`` raw value in place of a missing one, where there is one.
        constant: Added to each score.
        scales: Whether features are scaled at all.
    """

    names: tuple[str, ...]
    weight: Floats
    low: Matrix
    span: Matrix
    fill: Matrix | None
    constant: float
    scales: bool

    @classmethod
    def of(cls, model: Any, mapping: FeatureMapping) -> RawLinear:
        """Bring a model and what is done to its features together."""
        low = np.zeros(len(mapping.names), np.float32)
        span = np.ones(len(mapping.names), np.float32)
        if mapping.low is not None:
            low, span = mapping.shift_and_span()
        fill = None
        if mapping.fill is not None:
            fill = low + np.array(mapping.fill, np.float32) * span
        coefficients, constant = model.linear_terms()
        return cls(
            names=mapping.names,
            weight=np.asarray(coefficients, np.float64),
            low=low,
            span=span,
            fill=fill,
            constant=float(constant),
            scales=mapping.low is not None,
        )

    def folded(self) -> tuple[Floats, float]:
        """Return weights of raw features, and the constant that goes with them."""
        weight = self.weight / self.span
        constant = self.constant - float(weight @ self.low.astype(np.float64))
        return weight, constant


def opensearch_linear(model: RawLinear) -> LinearFile:
    """Write ``model/linear``: the weight of each feature by its name."""
    weight, constant = model.folded()
    body = dict(zip(model.names, weight.tolist(), strict=True))
    return LinearFile(_json(body), {"type": "model/linear"}, constant)


def solr_linear(model: RawLinear) -> LinearFile:
    """Write a ``LinearModel`` whose file scales the features."""
    features: list[dict[str, Any]] = []
    weights: dict[str, float] = {}
    constant = model.constant
    for i, name in enumerate(model.names):
        weights[name] = float(model.weight[i])
        low = float(model.low[i])
        high = float(model.low[i] + model.span[i])
        if not model.scales:
            features.append({"name": name})
        elif np.float32(high) - np.float32(low) == model.span[i]:
            ends = {"min": repr(low), "max": repr(high)}
            kind = "org.apache.solr.ltr.norm.MinMaxNormalizer"
            features.append({"name": name, "norm": {"class": kind, "params": ends}})
        else:
            # A feature of one value: its span is 1, and adding 1 may change nothing.
            features.append({"name": name})
            weights[name] = float(model.weight[i] / model.span[i])
            constant -= weights[name] * low
    body = {
        "class": "org.apache.solr.ltr.model.LinearModel",
        "name": "affinerank",
        "features": features,
        "params": {"weights": weights},
    }
    return LinearFile(_json(body), {}, constant)


def vespa_linear(model: RawLinear) -> LinearFile:
    """Write a ranking expression: a term per line, for ``expression: file:...``."""
    used = np.flatnonzero(model.weight)
    require_vespa_names(model.names[i] for i in used)
    terms = [repr(model.constant)]
    for i in used:
        value = model.names[i]
        if model.fill is not None:
            value = f"if (isNan({value}), {float(model.fill[i])!r}, {value})"
        if model.scales:
            value = f"({value} - {float(model.low[i])!r}) / {float(model.span[i])!r}"
        terms.append(f"{float(model.weight[i])!r} * {value}")
    content = " +\n".join(terms) + "\n"
    return LinearFile(content.encode(), {}, fills_missing=model.fill is not None)


def ranklib_linear(model: RawLinear) -> LinearFile:
    """Write RankLib's linear regression; 0 numbers the constant."""
    weight, constant = model.folded()
    # RankLib refuses documents that end before a feature of the model.
    used = np.flatnonzero(weight)
    numbers = [f"{i + 1}:{float(weight[i])!r}" for i in used]
    lines = ["## Linear Regression", " ".join([f"0:{constant!r}", *numbers]), ""]
    numbered = dict(enumerate(model.names, start=1))
    return LinearFile("\n".join(lines).encode(), {"feature_numbers": numbered})


LINEAR_ENGINES: Mapping[str, Callable[[RawLinear], LinearFile]] = {
    "opensearch": opensearch_linear,
    "solr": solr_linear,
    "vespa": vespa_linear,
    "ranklib": ranklib_linear,
}


def _json(body: Any) -> bytes:
    return (json.dumps(body, allow_nan=False) + "\n").encode()
