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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.arrays import Floats
from affinerank.data.dataset import RankingDataset
from affinerank.data.features import FeatureMapping
from affinerank.errors import ConfigError, DataError
from affinerank.files import PathLike, writable, written_whole
from affinerank.rankers import RANKERS, trees
from affinerank.rankers.engines import ENGINES, of_raw_features
from affinerank.rankers.onnx_graph import INPUT, OUTPUT, build_model
from affinerank.rankers.ranker import Ranker, score
from affinerank.tables import Table

TOLERANCE = 1e-4  # of the largest score
LISTS_COMPARED = 100
TREES = trees.ROW.name
OVER_LIST: Any = (
    "smallest and largest value of the feature among the documents of the query, "
    "missing values left out"
)


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
        parity: How far it is from the ranker; none where no library here reads it.
    """

    path: Path
    about: Path
    to: str
    n_features: int
    parity: Parity | None


@dataclass(frozen=True, slots=True)
class Format:
    """A row of ``FORMATS``.

    Attributes:
        name: Its key, and the library that reads it.
        title: What messages call it.
        offer: Attribute that a model must have to be written.
        mapped_by: Who scales features and fills missing values, in words.
        write: From a ranker to the file, and more of its description.
        scores: Of all documents of some lists, by ranker and file, where a library
            here reads it.
    """

    name: str
    title: str
    offer: str
    mapped_by: str
    write: Callable[[Ranker], tuple[bytes, dict[str, Any]]]
    scores: Callable[[Ranker, bytes, RankingDataset], Floats] | None = None


def export_ranker(
    ranker: Ranker, path: PathLike, *, to: str, data: RankingDataset | None = None
) -> Export:
    """Write a ranker for another system, with ``FILE.json`` beside it: both or none.

    Args:
        ranker: A ranker whose model offers what the format needs.
        path: The file to write.
        to: A row of ``FORMATS``.
        data: Lists to compare the file with the ranker on; made up where left out.

    Raises:
        DataError: The file does not score as the ranker does; nothing is written.
    """
    target, kind, mapping = Path(path), FORMATS[to], ranker.mapping
    if not hasattr(ranker.model, kind.offer):
        able = [f.name for f in FORMATS.values() if hasattr(ranker.model, f.offer)]
        raise ConfigError(
            f"a ranker of kind {ranker.kind} cannot be written as {kind.title}; it can "
            f"be exported to {', '.join(able) or 'nothing'}"
        )
    if mapping.codes and to != TREES:
        raise DataError(
            f"{mapping.codes[0]!r} is a category, which {kind.title} cannot hold; "
            f"train with --categories one-hot, or export to {TREES}"
        )
    beside = target.with_name(f"{target.name}.json")
    for name in (target, beside):
        writable(name)
    content, more = kind.write(ranker)
    parity = None
    if kind.scores is not None:
        lists = _lists(ranker, data)
        parity = _compare(ranker, lists, kind.scores(ranker, content, lists))
    about = {
        "format": "affinerank-export",
        "version": 1,
        "to": to,
        "file": target.name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "features": mapping.names,
        "input": _tensor(INPUT, "n_documents", len(mapping.names)),
        "output": _tensor(OUTPUT, "n_documents"),
        "normalisation": _normalisation(mapping, kind.mapped_by),
        "missing": _missing(ranker, kind.mapped_by),
        "categories": mapping.categories,
        **more,
        "parity": None if parity is None else asdict(parity),
    }
    with written_whole(beside) as aside_about, written_whole(target) as aside:
        aside.write_bytes(content)
        aside_about.write_text(json.dumps(about, indent=2) + "\n")
    return Export(target, beside, to, len(mapping.names), parity)


def _onnx(ranker: Ranker) -> tuple[bytes, dict[str, Any]]:
    for library in ("onnx", "onnxruntime"):
        if importlib.util.find_spec(library) is None:
            raise ConfigError(
                f"exporting to onnx needs {library}, which is not installed: "
                "pip install 'affinerank[export]'"
            )
    built = build_model(ranker.model, ranker.mapping)
    opsets = {opset.domain or "ai.onnx": opset.version for opset in built.opset_import}
    one_call = "all the documents of one query, 1 or more"
    versions = {**_versions("onnx"), "opset": opsets}
    content = built.SerializeToString(deterministic=True)
    return content, {"one_call": one_call, "versions": versions}


def _onnx_scores(ranker: Ranker, content: bytes, lists: RankingDataset) -> Floats:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would call home
    import onnxruntime

    del ranker
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"]
    )
    parts = [
        session.run([OUTPUT], {INPUT: np.ascontiguousarray(lists.features[i:j])})[0]
        for i, j in pairwise(lists.offsets)
    ]
    return np.concatenate(parts).astype(np.float64)


def _text(ranker: Ranker) -> tuple[bytes, dict[str, Any]]:
    """Write LightGBM's text; converters stop where it names no objective."""
    model: Any = ranker.model
    text: str = model.text
    if "\nobjective=" not in text:
        before = "\nfeature_names="
        text = text.replace(before, f"\nobjective=lambdarank{before}", 1)
    values = [ranker.mapping.categories[name] for name in ranker.mapping.codes]
    if values:  # frames of pandas are then given codes by LightGBM itself
        none = "\npandas_categorical:null"
        text = text.replace(none, none.replace("null", json.dumps(values)))
    return text.encode(), {"versions": _versions(TREES)}


def _for_engine(
    write: Callable[..., tuple[bytes, dict[str, Any]]], ranker: Ranker
) -> tuple[bytes, dict[str, Any]]:
    model: Any = ranker.model
    raw = of_raw_features(model.nodes(), ranker.mapping)
    return write(raw, ranker.mapping.names)


def _text_scores(ranker: Ranker, content: bytes, lists: RankingDataset) -> Floats:
    mapped = ranker.mapping.apply(lists).features
    return trees.TreeModel(content.decode()).predict(mapped)


FORMATS: Table[Format] = Table(
    "export format",
    Format("onnx", "ONNX", "add_to_onnx", "the file", _onnx, _onnx_scores),
    Format(TREES, "LightGBM text", "text", "the caller", _text, _text_scores),
    *(
        Format(name, title, "nodes", "the file", partial(_for_engine, write))
        for name, (title, write) in ENGINES.items()
    ),
)


def _tensor(name: str, *shape: str | int) -> dict[str, Any]:
    return {"name": name, "type": "float32", "shape": shape}


def _versions(library: str) -> dict[str, Any]:
    return {name: metadata.version(name) for name in ("affinerank", library)}


def _normalisation(mapping: FeatureMapping, done_by: str) -> dict[str, Any] | None:
    """Describe what is done to each feature within a list, and where."""
    if mapping.scaling == "none":
        return None
    constant, ends = "0", OVER_LIST
    if mapping.low is not None and mapping.high is not None:
        rows = zip(mapping.names, mapping.low, mapping.high, strict=True)
        constant, ends = "x - low", {name: (low, high) for name, low, high in rows}
    return {
        "formula": f"(x - low) / (high - low); {constant} where high == low",
        "low, high": ends,
        "in": "float32",
        "done_by": done_by,
    }


def _missing(ranker: Ranker, filled_by: str) -> str | dict[str, Any]:
    """Describe what becomes of missing values."""
    mapping = ranker.mapping
    if mapping.fill is not None:
        fill = dict(zip(mapping.names, mapping.fill, strict=True))
        return {"value": "NaN", "filled_by": filled_by, "after_scaling": fill}
    if RANKERS[ranker.kind].reads_missing:
        return "NaN"
    return "a document with a missing value (NaN) is scored NaN"


def _compare(ranker: Ranker, lists: RankingDataset, got: Floats) -> Parity:
    """Compare a file's scores with the ranker's; reject one that scores otherwise."""
    wanted = score(ranker, lists)
    difference = float(np.max(np.abs(got - wanted)))
    largest = float(np.max(np.abs(wanted)))
    relative = difference / largest if largest else difference
    if not relative <= TOLERANCE:
        raise DataError(
            f"the exported file scores otherwise than the ranker, by up to "
            f"{difference:.3g} ({relative:.2g} of the largest score, not {TOLERANCE:g})"
        )
    return Parity(lists.n_queries, lists.n_docs, difference, relative)


def _lists(ranker: Ranker, data: RankingDataset | None) -> RankingDataset:
    """Return the first lists of the data, with the ranker's features, or made-up ones.

    Those are heavy-tailed, of 1 to 40 documents, the same each time. In each some
    features are constant; for rankers that read them, some values are missing.
    """
    raw = FeatureMapping(
        ranker.mapping.names, "none", categories=ranker.mapping.categories
    )
    names = raw.names
    if data is not None:
        if not data.n_queries:
            raise DataError("the data have no lists to compare file and ranker on")
        some = np.arange(min(data.n_queries, LISTS_COMPARED))
        return raw.apply(data.select_queries(some))
    rng = np.random.default_rng(0)
    query = np.repeat(np.arange(LISTS_COMPARED), 1 + np.arange(LISTS_COMPARED) % 40)
    shape = (len(query), len(names))
    features = rng.lognormal(sigma=2.0, size=shape) * rng.choice([-1, 1], shape[1])
    features[(rng.random((LISTS_COMPARED, shape[1])) < 0.2)[query]] = 3.0
    if RANKERS[ranker.kind].reads_missing or ranker.mapping.fill is not None:
        features[rng.random(shape) < 0.05] = np.nan
    own = {name: raw.categories[name] for name in raw.codes}
    for i, name in zip(raw.places(raw.codes), raw.codes, strict=True):
        features[:, i] = rng.integers(len(own[name]), size=len(query))
    return RankingDataset.from_groups(
        features, query, np.arange(LISTS_COMPARED), feature_names=names, categories=own
    )
