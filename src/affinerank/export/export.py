"""Export rankers as files that other systems serve, after a check of their scores.

An ONNX file takes the raw features of a whole list, and scales within the list itself.
LightGBM text takes features that the caller has scaled. Search engines score one
document at a time. Beside each file, ``FILE.json`` lists the features in their order
and describes how they are scaled and how missing values are filled.
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

from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.export.engine_linear import LINEAR_ENGINES, LinearFile, RawLinear
from affinerank.export.engine_readers import LINEAR_READERS, TREE_READERS, Reader
from affinerank.export.engine_trees import (
    NONE_MISSING,
    TREE_ENGINES,
    TreeEngine,
    exactly,
    fold_features,
    require_document_scores,
)
from affinerank.export.onnx import INPUT, OUTPUT, build_model
from affinerank.export.parity import (
    Cut,
    Parity,
    cuts_of,
    lists_at_splits,
    lists_far_out,
    measure_parity,
    ordinary_lists,
    with_features,
)
from affinerank.rankers import RANKERS
from affinerank.rankers.blend import AnyRanker, Blend
from affinerank.rankers.ranker import Ranker
from affinerank.rankers.trees import lightgbm as trees
from affinerank.rankers.trees.nodes import Tree
from affinerank.support.arrays import Floats
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import PathLike, atomic_write, writable
from affinerank.support.registry import Registry

ONNX = "onnx"
TREES = trees.ROW.name
OVER_LIST = (
    "smallest and largest value of the feature among the documents of the query, "
    "missing values left out"
)


@dataclass(frozen=True, slots=True)
class Export:
    """The files that an export wrote.

    Attributes:
        path: The exported file.
        about: The description beside it, ``FILE.json``.
        to: Format of the file, a row of ``FORMATS``.
        n_features: Number of features that the file reads.
        parity: How much its scores differ from those of the ranker.
    """

    path: Path
    about: Path
    to: str
    n_features: int
    parity: Parity


@dataclass(frozen=True, slots=True)
class ExportFile:
    """The content of a file before it is checked and written.

    Attributes:
        content: Bytes of the file.
        scores: Scores lists as the system that reads the file does.
        description: Entries of ``FILE.json`` that depend on the format.
        made_up: Constructed lists to compare scores on, besides ordinary lists.
        cuts: Cuts of the splits, if there are any.
        holds_missing: Whether the file can score documents with missing values.
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
        name: Key of the row.
        title: Name in messages.
        mapped_by: Who scales features and fills missing values, in words.
        writers: Functions that turn a ranker into a file, by the attribute that its
            models must have.
        holds_blends: Whether a file can hold a blend.
    """

    name: str
    title: str
    mapped_by: str
    writers: Mapping[str, Writer]
    holds_blends: bool = False

    def writer(self, ranker: AnyRanker) -> Writer | None:
        """Return the function that can write a ranker; ``None`` if there is none."""
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

    First, the file's scores are compared with the ranker's: on documents on and beside
    its thresholds, on extreme and missing values, and on ordinary lists.

    Args:
        ranker: A ranker whose models support the format.
        path: The file to write.
        to: A row of ``FORMATS``.
        data: Ordinary lists to compare scores on; constructed if ``None``.

    Raises:
        DataError: The file does not score as the ranker does. Nothing is written.
    """
    # Check that the format can hold the ranker, and that both files can be written.
    export_format = FORMATS[to]
    write = _require_writer(export_format, ranker)
    path_of_file = Path(path)
    path_of_description = path_of_file.with_name(f"{path_of_file.name}.json")
    writable(path_of_file)
    writable(path_of_description)

    # Build the file, and compare its scores with the ranker's.
    file = write(ranker)
    names = _input_names(export_format, ranker)
    may_be_missing = file.holds_missing and _reads_missing(ranker)
    parity = measure_parity(
        ranker,
        file.scores,
        ordinary_lists(ranker, names, data, missing=may_be_missing),
        file.made_up,
        file.cuts,
    )

    # Describe the file, and write both.
    description = {
        "format": "affinerank-export",
        "version": 1,
        "to": to,
        "file": path_of_file.name,
        "sha256": hashlib.sha256(file.content).hexdigest(),
        "features": names,
        "input": _tensor(INPUT, "n_documents", len(names)),
        "output": _tensor(OUTPUT, "n_documents"),
        **_describe_mapping(export_format, ranker),
        **file.description,
        "parity": asdict(parity),
    }
    text = json.dumps(description, indent=2) + "\n"
    with (
        atomic_write(path_of_description) as unfinished_description,
        atomic_write(path_of_file) as unfinished_file,
    ):
        unfinished_file.write_bytes(file.content)
        unfinished_description.write_text(text)
    return Export(path_of_file, path_of_description, to, len(names), parity)


def _require_writer(export_format: Format, ranker: AnyRanker) -> Writer:
    """Return the function that writes a ranker; reject what the format cannot hold."""
    writer = export_format.writer(ranker)
    if writer is None:
        possible_formats = [row.name for row in FORMATS.values() if row.writer(ranker)]
        advice = ""
        if isinstance(ranker, Blend) and export_format.name != TREES:
            advice = f"train what it can hold (train --for {export_format.name}); "
        raise ConfigError(
            f"a ranker of kind {ranker.kind} cannot be written as "
            f"{export_format.title}; {advice}it can be exported to "
            f"{', '.join(possible_formats) or 'nothing'}"
        )

    # Only ONNX and LightGBM text can split by category.
    codes = [name for member in ranker.members for name in member.ranker.mapping.codes]
    if codes and export_format.name not in (TREES, ONNX):
        raise DataError(
            f"{codes[0]!r} is a category, which {export_format.title} cannot hold; "
            f"train with --categories one-hot, or export to {ONNX} or {TREES}"
        )
    return writer


def _reads_missing(ranker: AnyRanker) -> bool:
    """Whether all members of a ranker can score documents with missing values."""
    return all(_member_reads_missing(member.ranker) for member in ranker.members)


def _member_reads_missing(ranker: Ranker) -> bool:
    return RANKERS[ranker.kind].reads_missing or ranker.mapping.fill is not None


def _input_names(export_format: Format, ranker: AnyRanker) -> tuple[str, ...]:
    """Return the names of the features that a file reads.

    ONNX takes the code of a category, and makes its one-hot features itself.
    """
    if export_format.name == ONNX:
        return ranker.features
    return _only_member(ranker).mapping.names


def _only_member(ranker: AnyRanker) -> Ranker:
    """Return a ranker that is not a blend: it has itself as its only member."""
    [member] = ranker.members
    return member.ranker


def _describe_mapping(export_format: Format, ranker: AnyRanker) -> dict[str, Any]:
    """Describe how features are scaled and filled; for a blend, member by member."""
    categories: dict[str, Any] = {}
    mapping_by_member = []
    for member in ranker.members:
        mapping = member.ranker.mapping
        categories |= mapping.categories
        mapping_by_member.append(
            {
                "normalisation": _normalisation(mapping, export_format.mapped_by),
                "missing": _missing(member.ranker, export_format.mapped_by),
            }
        )
    if not isinstance(ranker, Blend):
        return {**mapping_by_member[0], "categories": categories}

    members = []
    for member, mapping_entries in zip(ranker.members, mapping_by_member, strict=True):
        entries = {
            "member": member.name,
            "kind": member.ranker.kind,
            "share": member.share,
            "unit": member.unit,
            "features": member.ranker.mapping.names,
        }
        members.append(entries | mapping_entries)
    return {"members": members, "missing": "NaN", "categories": categories}


def _onnx(ranker: AnyRanker) -> ExportFile:
    """Write a ranker, or a blend, as an ONNX graph."""
    for library in ("onnx", "onnxruntime"):
        if importlib.util.find_spec(library) is None:
            raise ConfigError(
                f"exporting to onnx needs {library}, which is not installed: "
                "pip install 'affinerank[export]'"
            )
    model = build_model(ranker)
    opsets = {opset.domain or "ai.onnx": opset.version for opset in model.opset_import}
    content = model.SerializeToString(deterministic=True)
    return ExportFile(
        content,
        scores=partial(_onnx_scores, content),
        description={
            "one_call": "all the documents of one query, 1 or more",
            "versions": {**_versions("onnx"), "opset": opsets},
        },
        made_up=_lists_at_splits_of(ranker),
    )


def _onnx_scores(content: bytes, lists: RankingDataset) -> Floats:
    """Score lists by an ONNX file, one call for each list."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # no network calls
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"]
    )
    scores_by_list = []
    for start, end in pairwise(lists.offsets):
        features = np.ascontiguousarray(lists.features[start:end])
        [list_scores] = session.run([OUTPUT], {INPUT: features})
        scores_by_list.append(list_scores)
    return np.concatenate(scores_by_list).astype(np.float64)


def _text(ranker: AnyRanker) -> ExportFile:
    """Write the text of LightGBM."""
    tree_ranker = _only_member(ranker)
    mapping = tree_ranker.mapping
    model: Any = tree_ranker.model
    text: str = model.text

    # Converters fail if the text names no objective.
    if "\nobjective=" not in text:
        feature_names = "\nfeature_names="
        with_objective = f"\nobjective=lambdarank{feature_names}"
        text = text.replace(feature_names, with_objective, 1)

    # With the values of categories, LightGBM finds the codes of a pandas frame itself.
    values = [mapping.categories[name] for name in mapping.codes]
    if values:
        categories = "\npandas_categorical:"
        text = text.replace(f"{categories}null", f"{categories}{json.dumps(values)}")

    def scores(lists: RankingDataset) -> Floats:
        mapped_features = mapping.apply(lists).features
        return trees.TreeModel(text).predict(mapped_features)

    return ExportFile(
        text.encode(),
        scores=scores,
        description={"versions": _versions(TREES)},
        made_up=_lists_at_splits_of(tree_ranker),
    )


def _lists_at_splits_of(ranker: AnyRanker) -> list[RankingDataset]:
    """Construct lists at the thresholds of each tree member.

    There are none for models without trees, and for trees whose splits are not plain
    thresholds of raw features.
    """
    # If features are scaled within the list, extreme values overflow float32, and
    # libraries differ in what they make of that.
    scales_by_list = any(member.ranker.mapping.by_list for member in ranker.members)
    lists_by_member = []
    for member in ranker.members:
        mapping = member.ranker.mapping
        model: Any = member.ranker.model
        has_one_hot = mapping.raw_names != mapping.names
        if not hasattr(model, "nodes") or mapping.codes or has_one_hot:
            continue
        try:
            raw_trees = fold_features(model.nodes(), mapping)
        except DataError:
            continue  # LightGBM's text can hold other splits than thresholds
        lists = lists_at_splits(
            raw_trees,
            cuts_of(raw_trees, exactly),
            mapping.names,
            missing=_reads_missing(ranker),
            within_lists=mapping.by_list,
            extremes=not scales_by_list,
        )
        if lists is not None:
            lists_by_member.append(with_features(lists, ranker.features))
    return lists_by_member


def _trees_for_engine(name: str, ranker: AnyRanker) -> ExportFile:
    """Write trees for a search engine."""
    tree_ranker = _only_member(ranker)
    mapping = tree_ranker.mapping
    model: Any = tree_ranker.model
    require_document_scores(mapping)

    # The engine reads raw features, so scaling is folded into the thresholds.
    engine = TREE_ENGINES[name]
    raw_trees = fold_features(model.nodes(), mapping)
    content, description = engine.write(raw_trees, mapping.names)

    # Lists at the thresholds, to compare scores on.
    cuts = cuts_of(raw_trees, engine.reached)
    holds_missing = description.get("missing") != NONE_MISSING
    made_up = lists_at_splits(raw_trees, cuts, mapping.names, missing=holds_missing)
    return ExportFile(
        content,
        scores=partial(_scores_by, TREE_READERS[name], content),
        description={**description, "thresholds": _thresholds(raw_trees, engine)},
        made_up=[made_up] if made_up is not None else [],
        cuts=cuts,
        holds_missing=holds_missing,
    )


def _thresholds(raw_trees: Sequence[Tree], engine: TreeEngine) -> dict[str, int]:
    """Count the splits that an engine cannot cut exactly where the ranker does."""
    limits = [node.limit for tree in raw_trees for node in tree if node.left]
    not_exact = sum(engine.reached(limit) != limit for limit in limits)
    return {"not_exact": not_exact, "of": len(limits)}


def _linear_for_engine(name: str, ranker: AnyRanker) -> ExportFile:
    """Write a linear model for a search engine."""
    linear_ranker = _only_member(ranker)
    mapping = linear_ranker.mapping
    require_document_scores(mapping)

    # The engine reads raw features, so scaling is folded into the weights.
    model = RawLinear.of(linear_ranker.model, mapping)
    file = LINEAR_ENGINES[name](model)
    weights, _ = model.folded()
    made_up = lists_far_out(mapping.names, weights, missing=model.fill is not None)
    return ExportFile(
        file.content,
        scores=partial(_linear_scores, LINEAR_READERS[name], file, model),
        description={
            **file.description,
            "add_to_scores": file.constant,
            "missing": _missing_of_linear(model, file),
        },
        made_up=list(made_up),
    )


def _linear_scores(
    reader: Reader, file: LinearFile, model: RawLinear, lists: RankingDataset
) -> Floats:
    """Score lists as an engine does, with missing values filled as described."""
    features = lists.features
    if model.fill is not None and not file.fills_missing:
        features = np.where(np.isnan(features), model.fill, features)
    return reader(file.content, features, lists.feature_names) + file.constant


def _missing_of_linear(model: RawLinear, file: LinearFile) -> str | dict[str, Any]:
    """Describe how missing values are filled, in units of raw features."""
    if model.fill is None:
        return "no value may be missing"
    return {
        "value": "NaN",
        "filled_by": "the file" if file.fills_missing else "the caller",
        "before_scaling": dict(zip(model.names, model.fill.tolist(), strict=True)),
    }


def _scores_by(reader: Reader, content: bytes, lists: RankingDataset) -> Floats:
    """Score lists by an independent reader of an engine's file."""
    return reader(content, lists.features, lists.feature_names)


def _engine_format(name: str, engine: TreeEngine) -> Format:
    """Return the row of a search engine, which serves trees and maybe linear models."""
    writers = {"nodes": partial(_trees_for_engine, name)}
    if name in LINEAR_ENGINES:
        writers["linear_terms"] = partial(_linear_for_engine, name)
    return Format(name, engine.title, "the file", writers)


FORMATS: Registry[Format] = Registry(
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
    """Describe how each feature is scaled, and by whom."""
    if mapping.scaling == "none":
        return None
    if mapping.low is not None and mapping.high is not None:
        ranges = zip(mapping.low, mapping.high, strict=True)
        low_and_high: Any = dict(zip(mapping.names, ranges, strict=True))
        if_constant = "x - low"
    else:
        low_and_high = OVER_LIST
        if_constant = "0"
    return {
        "formula": f"(x - low) / (high - low); {if_constant} where high == low",
        "low, high": low_and_high,
        "in": "float32",
        "done_by": done_by,
    }


def _missing(ranker: Ranker, filled_by: str) -> str | dict[str, Any]:
    """Describe how missing values are filled, and by whom."""
    mapping = ranker.mapping
    if mapping.fill is not None:
        fill = dict(zip(mapping.names, mapping.fill, strict=True))
        return {"value": "NaN", "filled_by": filled_by, "after_scaling": fill}
    if _member_reads_missing(ranker):
        return "NaN"
    return "a document with a missing value (NaN) is scored NaN"
