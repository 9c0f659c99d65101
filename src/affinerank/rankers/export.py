"""Rankers as files that other systems serve, compared with the ranker they came from.

Features are scaled within a query's list, so a score depends on the list. An ONNX file
holds that and takes raw features of a whole list; LightGBM text cannot, and is given
features that were scaled before. Beside each file stands ``FILE.json``, which says
which features in which order, and what has to be done to them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from affinerank.data.dataset import RankingDataset
from affinerank.errors import ConfigError, DataError
from affinerank.files import writable, written_whole
from affinerank.rankers.gbdt import TreeRanker
from affinerank.rankers.mlp import MLPRanker
from affinerank.rankers.onnx_graph import (
    INPUT,
    OPSET,
    OUTPUT,
    TREES_OPSET,
    build_model,
)

Ranker = MLPRanker | TreeRanker
Scores = NDArray[np.float64]
Scorer = Callable[[NDArray[np.float32]], NDArray[Any]]

FORMAT = "affinerank-export"
VERSION = 1
TOLERANCE = 1e-4  # of the largest score
LISTS_COMPARED = 100
DOCS_COMPARED = 20_000
MIN_MAX = "(x - low) / (high - low); 0 where high == low"


@dataclass(frozen=True, slots=True)
class Parity:
    """How far an exported file is from its ranker.

    Attributes:
        lists: Lists that were scored by both.
        documents: Documents of these lists.
        max_difference: Largest absolute difference of two scores.
        relative: The same, as a share of the largest score.
    """

    lists: int
    documents: int
    max_difference: float
    relative: float


@dataclass(frozen=True, slots=True)
class Export:
    """What was written.

    Attributes:
        path: The file.
        about: The description beside it.
        to: Its format.
        n_features: Features that it reads.
        parity: How far it is from the ranker.
    """

    path: Path
    about: Path
    to: str
    n_features: int
    parity: Parity


def export_ranker(
    ranker: Ranker,
    path: str | os.PathLike[str],
    *,
    to: str,
    data: RankingDataset | None = None,
) -> Export:
    """Write a ranker for another system, with ``FILE.json`` beside it: both or none.

    Args:
        ranker: Networks go to ``onnx``, trees to ``onnx`` and ``lightgbm``.
        path: The file to write.
        to: ``onnx`` or ``lightgbm``.
        data: Lists to compare the file with the ranker on; made up where left out.

    Raises:
        DataError: The file scores otherwise than the ranker; nothing is written.
    """
    if to not in FORMATS:
        raise ConfigError(f"a ranker is exported to {_either()}, got {to!r}")
    target = Path(path)
    beside = target.with_name(f"{target.name}.json")
    for name in (target, beside):
        writable(name)
    content, about = FORMATS[to](ranker)
    lists = _made_up_lists(ranker) if data is None else _some_lists(ranker, data)
    with written_whole(beside) as aside_about, written_whole(target) as aside:
        aside.write_bytes(content)
        parity = _compare(ranker, _SCORERS[to](ranker, aside), lists)
        head = {
            "format": FORMAT,
            "version": VERSION,
            "to": to,
            "file": target.name,
            "sha256": hashlib.sha256(content).hexdigest(),
            "features": list(ranker.mapping.names),
            **about,
            "parity": asdict(parity),
        }
        aside_about.write_text(json.dumps(head, indent=2) + "\n")
    return Export(target, beside, to, len(ranker.mapping.names), parity)


def _onnx(ranker: Ranker) -> tuple[bytes, dict[str, Any]]:
    """The model as ONNX, and what its reader has to know."""
    for library in ("onnx", "onnxruntime"):
        if importlib.util.find_spec(library) is None:
            raise ConfigError(
                f"exporting to onnx needs {library}, which is not installed: "
                "pip install 'affinerank[export]'"
            )
    network = isinstance(ranker, MLPRanker)
    opsets = {"ai.onnx": OPSET} | ({} if network else {"ai.onnx.ml": TREES_OPSET})
    about = {
        "input": _tensor(INPUT, "n_documents", len(ranker.mapping.names)),
        "output": _tensor(OUTPUT, "n_documents"),
        "one_call": "all the documents of one query, 1 or more",
        "normalisation": _normalisation(ranker, done_by="the file"),
        "missing": _missing(ranker),
        "versions": {**_versions("affinerank", "onnx"), "opset": opsets},
    }
    return build_model(ranker).SerializeToString(deterministic=True), about


def _lightgbm(ranker: Ranker) -> tuple[bytes, dict[str, Any]]:
    """The model as LightGBM's text, and what has to be done before it."""
    if not isinstance(ranker, TreeRanker):
        raise ConfigError(
            "a network cannot be written as LightGBM trees; export it to onnx"
        )
    about = {
        "input": _tensor("features", "n_documents", len(ranker.mapping.names)),
        "output": _tensor("scores", "n_documents"),
        "normalisation": _normalisation(ranker, done_by="the caller"),
        "missing": "NaN",
        "versions": _versions("affinerank", "lightgbm"),
    }
    return ranker.model.encode(), about


FORMATS: Mapping[str, Callable[[Ranker], tuple[bytes, dict[str, Any]]]] = (
    MappingProxyType({"onnx": _onnx, "lightgbm": _lightgbm})
)


def _either() -> str:
    return " or ".join(FORMATS)


def _tensor(name: str, *shape: str | int) -> dict[str, Any]:
    return {"name": name, "type": "float32", "shape": list(shape)}


def _normalisation(ranker: Ranker, *, done_by: str) -> dict[str, Any] | None:
    """Say what is done to each feature within a list, and where."""
    if not ranker.mapping.per_query_min_max:
        return None
    return {
        "formula": MIN_MAX,
        "low, high": "smallest and largest value of the feature among the documents "
        "of the query, missing values left out",
        "in": "float32",
        "done_by": done_by,
    }


def _missing(ranker: Ranker) -> str | dict[str, Any]:
    """Say what becomes of missing values."""
    if ranker.mapping.fill is not None:
        fill = dict(zip(ranker.mapping.names, ranker.mapping.fill, strict=True))
        return {"value": "NaN", "filled_by": "the file", "after_scaling": fill}
    if isinstance(ranker, MLPRanker):
        return "a document with a missing value (NaN) is scored NaN"
    return "NaN"


def _versions(*names: str) -> dict[str, str]:
    return {name: metadata.version(name) for name in names}


def _onnx_scorer(ranker: Ranker, path: Path) -> Scorer:
    """Score one list of raw features by the ONNX file."""
    del ranker
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        path.read_bytes(), options, providers=["CPUExecutionProvider"]
    )

    def score(features: NDArray[np.float32]) -> NDArray[Any]:
        inputs = {INPUT: np.ascontiguousarray(features)}
        return np.asarray(session.run([OUTPUT], inputs)[0])

    return score


def _lightgbm_scorer(ranker: Ranker, path: Path) -> Scorer:
    """Score one list of raw features by the text, scaled as ``FILE.json`` says."""
    booster = lgb.Booster(model_str=path.read_text())

    def score(features: NDArray[np.float32]) -> NDArray[Any]:
        if ranker.mapping.per_query_min_max:
            low = np.fmin.reduce(features, axis=0)
            span = np.fmax.reduce(features, axis=0) - low
            features = (features - low) / np.where(span == 0, np.float32(1), span)
        return np.asarray(booster.predict(features))

    return score


_SCORERS: Mapping[str, Callable[[Ranker, Path], Scorer]] = MappingProxyType(
    {"onnx": _onnx_scorer, "lightgbm": _lightgbm_scorer}
)


def _compare(ranker: Ranker, scorer: Scorer, lists: RankingDataset) -> Parity:
    """Score lists by ranker and file; refuse a file that scores otherwise."""
    wanted = ranker.predict(ranker.mapping.apply(lists).features)
    got = np.concatenate(
        [
            np.asarray(scorer(lists.features[start:end]), dtype=np.float64)
            for start, end in zip(lists.offsets[:-1], lists.offsets[1:], strict=True)
        ]
    )
    difference = float(np.max(np.abs(got - wanted)))
    largest = float(np.max(np.abs(wanted)))
    relative = difference / largest if largest else difference
    if not relative <= TOLERANCE:
        raise DataError(
            f"the exported file scores otherwise than the ranker, by up to "
            f"{difference:.3g} ({relative:.2g} of the largest score, "
            f"{TOLERANCE:g} is allowed), so nothing was written"
        )
    return Parity(lists.n_queries, lists.n_docs, difference, relative)


def _some_lists(ranker: Ranker, data: RankingDataset) -> RankingDataset:
    """The first lists of the data, with the features that the ranker reads."""
    if not data.n_queries:
        raise DataError("the data have no lists to compare file and ranker on")
    ends = data.offsets[1 : LISTS_COMPARED + 1]
    n_lists = max(1, int(np.count_nonzero(ends <= DOCS_COMPARED)))
    few = data.select_queries(np.arange(n_lists))
    return few.select_features(ranker.mapping.names)


def _made_up_lists(ranker: Ranker) -> RankingDataset:
    """Heavy-tailed lists of 1 to 40 documents, the same each time.

    In each list some features are constant; for rankers that read them, some values are
    missing.
    """
    rng = np.random.default_rng(0)
    sizes = 1 + np.arange(LISTS_COMPARED) % 40
    n_features = len(ranker.mapping.names)
    features = rng.lognormal(sigma=2.0, size=(sizes.sum(), n_features))
    signs = rng.choice([-1.0, 1.0], size=n_features)
    constant = rng.random((len(sizes), n_features)) < 0.2
    features = np.where(np.repeat(constant, sizes, axis=0), 3.0, features * signs)
    if isinstance(ranker, TreeRanker) or ranker.mapping.fill is not None:
        features[rng.random(features.shape) < 0.05] = np.nan
    return RankingDataset(
        features=features.astype(np.float32),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        query_ids=np.arange(len(sizes)),
        doc_ids=np.arange(sizes.sum()),
        feature_names=ranker.mapping.names,
    )
