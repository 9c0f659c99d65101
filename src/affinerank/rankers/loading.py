"""Rankers read from their folders, whatever their kind."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from affinerank.data.features import FeatureMapping
from affinerank.errors import DataError
from affinerank.files import existing_file
from affinerank.rankers import RANKERS
from affinerank.rankers.ranker import ABOUT, FORMAT, Ranker


def load_ranker(folder: str | os.PathLike[str]) -> Ranker:
    """Load what :meth:`Ranker.save` wrote; a model's files hold no code."""
    root = Path(folder)
    path = existing_file(root / ABOUT)
    try:
        about = json.loads(path.read_text())
        found = (about["format"], about["version"])
        if found != FORMAT:
            raise DataError(
                f"{path}: expected format {FORMAT[0]!r} version {FORMAT[1]}, "
                f"got {found[0]!r} version {found[1]!r}"
            )
        mapping = _mapping(about)
        provenance = dict(about["provenance"])
        # Folders of older versions name the queries in the provenance.
        queries = about.get("learnt_from", provenance.get("queries", ()))
        kind = RANKERS[about["kind"]]
        model = kind.load(root, about, len(mapping.names))
        return Ranker(kind.name, model, mapping, provenance, tuple(map(str, queries)))
    except DataError:
        raise
    except Exception as error:  # what a broken file raises depends on its library
        raise DataError(
            f"{root}: not a ranker saved by AffineRank "
            f"({type(error).__name__}: {error!s:.200})"
        ) from None


def _mapping(about: dict[str, Any]) -> FeatureMapping:
    """Read what is done to features; folders of older versions may name no fill."""
    names, fill = tuple(about["features"]), about.get("fill")
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"features must be names, got {names!r:.100}")
    if fill is not None:
        fill = tuple(float(value) for value in fill)
        if len(fill) != len(names) or not all(map(math.isfinite, fill)):
            raise ValueError(f"fill must be {len(names)} numbers, got {fill!r:.100}")
    return FeatureMapping(names, bool(about["per_query_min_max"]), fill)
