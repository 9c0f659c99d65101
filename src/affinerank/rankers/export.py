"""Rankers as files that other systems serve, compared with the ranker they came from.

Features scaled within a query's list make a score depend on the list. An ONNX file
holds that and takes raw features of a whole list; LightGBM text cannot, and is given
features that were scaled before; search engines score one document at a time. Beside
each file stands ``FILE.json``, which says which features in which order, and what has
to be done to them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Mapping, Sequence
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
from affinerank.rankers.blend import AnyRanker, Blend
from affinerank.rankers.engine_readers import LINEAR_READERS, TREE_READERS, Reader
from affinerank.rankers.engines import (
    NONE_MISSING,
    TREE_ENGINES,
    TreeEngine,
    exactly,
    fold_features,
    require_document_scores,
)
from affinerank.rankers.linear_engines import LINEAR_ENGINES, LinearFile, RawLinear
from affinerank.rankers.onnx_graph import INPUT, OUTPUT, build_model
from affinerank.rankers.parity import (
    Cut,
    Parity,
    cuts_of,
    lists_at_splits,
    lists_far_out,
    measure_parity,
    ordinary_lists,
    with_features,
)
from affinerank.rankers.ranker import Ranker
from affinerank.rankers.tree_nodes import Tree
from affinerank.tables import Table

ONNX = "onnx"
TREES = trees.ROW.name
OVER_LIST: Any = (
    "smallest and largest value of the feature among the documents of the query, "
    "missing values left out"
)


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


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A file that is not written yet.

    Attributes:
        content: Its bytes.
        scores: What the system that reads it makes of the documents of some lists.
        description: More for ``FILE.json``.
        made_up: Lists to compare on, besides ordinary ones.
        cuts: Where its splits cut, if it has any.
        holds_missing: Whether it can score documents with missing values.
    """

    content: bytes
    scores: Callable[[RankingDataset], Floats]
    description: Mapping[str, Any]
    made_up: Sequence[RankingDataset] = ()
    cuts: Sequence[Cut] = ()
    holds_missing: bool = True


Writer = Callable[[Any], ExportFile]


@dataclass(frozen=True, slots=True)
class Format:
    """A row of ``FORMATS``.

    Attributes:
        name: Its key, and the library that reads it.
        title: What messages call it.
        mapped_by: Who scales features and fills missing values, in words.
        writers: What turns a ranker into a file, by the attribute that its models must
            have.
        holds_blends: Whether it can hold a blend.
    """

    name: str
    title: str
    mapped_by: str
    writers: Mapping[str, Writer]
    holds_blends: bool = False

    def writer(self, ranker: AnyRanker) -> Writer | None:
        """Return what writes such a ranker; ``None`` if nothing does."""
        if isinstance(ranker, Blend) and not self.holds_blends:
            return None
        models = [member.ranker.model for member in ranker.members]
        for attribute, writer in self.writers.items():
            if all(hasattr(model, attribute) for model in models):
                return writer
        return None


def export_ranker(
    ranker: AnyRanker, path: PathLike, *, to: str, data: RankingDataset | None = None
) -> Export:
    """Write a ranker for another system, with ``FILE.json`` beside it: both or none.

    Before, the file's scores are compared with the ranker's, on documents at and beside
    its thresholds, of extreme and of missing values, and on ordinary lists.

    Args:
        ranker: A ranker whose models offer what the format needs.
        path: The file to write.
        to: A row of ``FORMATS``.
        data: Ordinary lists to compare on; made up where left out.

    Raises:
        DataError: The file does not score as the ranker does; nothing is written.
    """
    target = Path(path)
    kind = FORMATS[to]
    write = _require_writer(kind, ranker)
    beside = target.with_name(f"{target.name}.json")
    for name in (target, beside):
        writable(name)

    file = write(ranker)
    missing = file.holds_missing and _reads_missing(ranker)
    parity = measure_parity(
        ranker,
        file.scores,
        ordinary_lists(ranker, _inputs(kind, ranker), data, missing=missing),
        file.made_up,
        file.cuts,
    )

    names = _inputs(kind, ranker)
    description = {
        "format": "affinerank-export",
        "version": 1,
        "to": to,
        "file": target.name,
        "sha256": hashlib.sha256(file.content).hexdigest(),
        "features": names,
        "input": _tensor(INPUT, "n_documents", len(names)),
        "output": _tensor(OUTPUT, "n_documents"),
        **_described(kind, ranker),
        **file.description,
        "parity": asdict(parity),
    }
    with written_whole(beside) as aside_about, written_whole(target) as aside:
        aside.write_bytes(file.content)
        aside_about.write_text(json.dumps(description, indent=2) + "\n")
    return Export(target, beside, to, len(names), parity)


def _require_writer(kind: Format, ranker: AnyRanker) -> Writer:
    """Return what writes the ranker; reject rankers that the format cannot hold."""
    writer = kind.writer(ranker)
    if writer is None:
        able = [other.name for other in FORMATS.values() if other.writer(ranker)]
        advice = ""
        if isinstance(ranker, Blend) and kind.name != TREES:
            advice = f"train what it can hold (train --for {kind.name}); "
        raise ConfigError(
            f"a ranker of kind {ranker.kind} cannot be written as {kind.title}; "
            f"{advice}it can be exported to {', '.join(able) or 'nothing'}"
        )
    codes = [name for m in ranker.members for name in m.ranker.mapping.codes]
    if codes and kind.name not in (TREES, ONNX):
        raise DataError(
            f"{codes[0]!r} is a category, which {kind.title} cannot hold; train with "
            f"--categories one-hot, or export to {ONNX} or {TREES}"
        )
    return writer


def _reads_missing(ranker: AnyRanker) -> bool:
    return all(_member_reads_missing(member.ranker) for member in ranker.members)


def _member_reads_missing(ranker: Ranker) -> bool:
    return RANKERS[ranker.kind].reads_missing or ranker.mapping.fill is not None


def _inputs(kind: Format, ranker: AnyRanker) -> tuple[str, ...]:
    """Return the names of the features that a file is given.

    ONNX takes a category as its code, and makes features of its values itself.
    """
    if kind.name == ONNX:
        return ranker.features
    [member] = ranker.members
    return member.ranker.mapping.names


def _described(kind: Format, ranker: AnyRanker) -> dict[str, Any]:
    """Describe what is done to features, member by member."""
    categories: dict[str, Any] = {}
    what_is_done = []
    for member in ranker.members:
        mapping = member.ranker.mapping
        categories |= mapping.categories
        what_is_done.append(
            {
                "normalisation": _normalisation(mapping, kind.mapped_by),
                "missing": _missing(member.ranker, kind.mapped_by),
            }
        )
    if not isinstance(ranker, Blend):
        return {**what_is_done[0], "categories": categories}
    members = [
        {
            "member": member.name,
            "kind": member.ranker.kind,
            "share": member.share,
            "unit": member.unit,
            "features": member.ranker.mapping.names,
            **done,
        }
        for member, done in zip(ranker.members, what_is_done, strict=True)
    ]
    return {"members": members, "missing": "NaN", "categories": categories}


def _onnx(ranker: AnyRanker) -> ExportFile:
    for library in ("onnx", "onnxruntime"):
        if importlib.util.find_spec(library) is None:
            raise ConfigError(
                f"exporting to onnx needs {library}, which is not installed: "
                "pip install 'affinerank[export]'"
            )
    built = build_model(ranker)
    opsets = {opset.domain or "ai.onnx": opset.version for opset in built.opset_import}
    content = built.SerializeToString(deterministic=True)
    return ExportFile(
        content,
        partial(_onnx_scores, content),
        {
            "one_call": "all the documents of one query, 1 or more",
            "versions": {**_versions("onnx"), "opset": opsets},
        },
        _lists_at_splits_of(ranker),
    )


def _onnx_scores(content: bytes, lists: RankingDataset) -> Floats:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it would call home
    import onnxruntime

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


def _text(whole: AnyRanker) -> ExportFile:
    """Write LightGBM's text; converters stop where it names no objective."""
    [(_, ranker, *_)] = whole.members
    model: Any = ranker.model
    text: str = model.text
    if "\nobjective=" not in text:
        before = "\nfeature_names="
        text = text.replace(before, f"\nobjective=lambdarank{before}", 1)
    values = [ranker.mapping.categories[name] for name in ranker.mapping.codes]
    if values:  # frames of pandas are then given codes by LightGBM itself
        none = "\npandas_categorical:null"
        text = text.replace(none, none.replace("null", json.dumps(values)))

    def scores(lists: RankingDataset) -> Floats:
        mapped = ranker.mapping.apply(lists).features
        return trees.TreeModel(text).predict(mapped)

    description = {"versions": _versions(TREES)}
    made_up = _lists_at_splits_of(ranker)
    return ExportFile(text.encode(), scores, description, made_up)


def _lists_at_splits_of(ranker: AnyRanker) -> list[RankingDataset]:
    """Make lists up at the thresholds of each member of trees; none for other kinds."""
    # Beyond float32, scaling within a list has no answer that all libraries share.
    scales = any(member.ranker.mapping.by_list for member in ranker.members)
    found = []
    for member in ranker.members:
        mapping = member.ranker.mapping
        model: Any = member.ranker.model
        made_of_categories = mapping.raw_names != mapping.names
        if not hasattr(model, "nodes") or mapping.codes or made_of_categories:
            continue
        try:
            folded = fold_features(model.nodes(), mapping)
        except DataError:
            # LightGBM's text also holds what is not plain thresholds.
            continue
        lists = lists_at_splits(
            folded,
            cuts_of(folded, exactly),
            mapping.names,
            missing=_reads_missing(ranker),
            within_lists=mapping.by_list,
            extremes=not scales,
        )
        if lists is not None:
            found.append(with_features(lists, ranker.features))
    return found


def _trees_for_engine(name: str, whole: AnyRanker) -> ExportFile:
    """Write trees for a search engine."""
    [(_, ranker, *_)] = whole.members
    engine = TREE_ENGINES[name]
    mapping = ranker.mapping
    require_document_scores(mapping)
    model: Any = ranker.model
    folded = fold_features(model.nodes(), mapping)
    content, description = engine.write(folded, mapping.names)
    cuts = cuts_of(folded, engine.reached)
    holds_missing = description.get("missing") != NONE_MISSING
    made_up = lists_at_splits(folded, cuts, mapping.names, missing=holds_missing)
    return ExportFile(
        content,
        partial(_scores_by, TREE_READERS[name], content),
        {**description, "thresholds": _thresholds(folded, engine)},
        [made_up] if made_up is not None else [],
        cuts,
        holds_missing,
    )


def _thresholds(folded: Sequence[Tree], engine: TreeEngine) -> dict[str, int]:
    """Count the splits that an engine cannot cut where the ranker does."""
    limits = [node.limit for tree in folded for node in tree if node.left]
    not_exact = sum(engine.reached(limit) != limit for limit in limits)
    return {"not_exact": not_exact, "of": len(limits)}


def _linear_for_engine(name: str, whole: AnyRanker) -> ExportFile:
    """Write a linear model for a search engine."""
    [(_, ranker, *_)] = whole.members
    mapping = ranker.mapping
    require_document_scores(mapping)
    model = RawLinear.of(ranker.model, mapping)
    file = LINEAR_ENGINES[name](model)
    description = {
        **file.description,
        "add_to_scores": file.constant,
        "missing": _missing_of_linear(model, file),
    }
    weights, _ = model.folded()
    made_up = lists_far_out(mapping.names, weights, missing=model.fill is not None)
    scores = partial(_linear_scores, LINEAR_READERS[name], file, model)
    return ExportFile(file.content, scores, description, list(made_up))


def _linear_scores(
    reader: Reader, file: LinearFile, model: RawLinear, lists: RankingDataset
) -> Floats:
    """Score lists as an engine does, missing values filled as the description says."""
    features = lists.features
    if model.fill is not None and not file.fills_missing:
        features = np.where(np.isnan(features), model.fill, features)
    return reader(file.content, features, lists.feature_names) + file.constant


def _missing_of_linear(model: RawLinear, file: LinearFile) -> str | dict[str, Any]:
    """Describe what becomes of missing values, in units of raw features."""
    if model.fill is None:
        return "no value may be missing"
    return {
        "value": "NaN",
        "filled_by": "the file" if file.fills_missing else "the caller",
        "before_scaling": dict(zip(model.names, model.fill.tolist(), strict=True)),
    }


def _scores_by(reader: Reader, content: bytes, lists: RankingDataset) -> Floats:
    return reader(content, lists.features, lists.feature_names)


def _engine_format(name: str, engine: TreeEngine) -> Format:
    writers = {"nodes": partial(_trees_for_engine, name)}
    if name in LINEAR_ENGINES:
        writers["linear_terms"] = partial(_linear_for_engine, name)
    return Format(name, engine.title, "the file", writers)


FORMATS: Table[Format] = Table(
    "export format",
    Format(ONNX, "ONNX", "the file", {"add_to_onnx": _onnx}, holds_blends=True),
    Format(TREES, "LightGBM text", "the caller", {"text": _text}),
    *(_engine_format(name, engine) for name, engine in TREE_ENGINES.items()),
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
    if _member_reads_missing(ranker):
        return "NaN"
    return "a document with a missing value (NaN) is scored NaN"
