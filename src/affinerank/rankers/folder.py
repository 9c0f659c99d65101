"""The folder a ranker is saved in: ``ranker.json`` and the model beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from affinerank.data.features import FeatureMapping
from affinerank.errors import DataError
from affinerank.files import existing_file, new_folder

FORMAT = "affinerank-ranker"
VERSION = 1


def write_folder(
    folder: Path,
    *,
    kind: str,
    mapping: FeatureMapping,
    provenance: Mapping[str, Any],
    about: Mapping[str, Any],
    files: Mapping[str, bytes],
) -> None:
    """Write a ranker into a new folder, whole or not at all."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "features": list(mapping.names),
        "per_query_min_max": mapping.per_query_min_max,
        "fill": None if mapping.fill is None else list(mapping.fill),
        **about,
        "provenance": dict(provenance),
    }
    with new_folder(folder) as aside:
        for name, content in files.items():
            (aside / name).write_bytes(content)
        (aside / "ranker.json").write_text(json.dumps(head, indent=2) + "\n")


def read_about(
    folder: Path, *, kind: str | None = None
) -> tuple[dict[str, Any], FeatureMapping]:
    """Read ``ranker.json``; refuse other formats, versions and kinds."""
    path = existing_file(folder / "ranker.json")
    try:
        about = json.loads(path.read_text())
        found = (about["format"], about["version"])
        names, min_max = tuple(about["features"]), about["per_query_min_max"]
        fill = _fill(about.get("fill"), len(names))
        about["kind"], about["provenance"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder}: not a ranker saved by AffineRank ({error!r:.200})"
        ) from None
    if found != (FORMAT, VERSION):
        raise DataError(
            f"{path}: expected format {FORMAT!r} version {VERSION}, "
            f"got {found[0]!r} version {found[1]!r}"
        )
    if kind is not None and about["kind"] != kind:
        raise DataError(
            f"{path}: expected a ranker of kind {kind}, got {about['kind']!r}"
        )
    return about, FeatureMapping(names, bool(min_max), fill)


def _fill(values: Any, n_features: int) -> tuple[float, ...] | None:
    """What missing values become; rankers of before do not say, and take none."""
    if values is None:
        return None
    fill = tuple(float(value) for value in values)
    if len(fill) != n_features or not all(map(math.isfinite, fill)):
        raise ValueError(f"fill must be {n_features} numbers, got {values!r:.100}")
    return fill
