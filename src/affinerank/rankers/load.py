"""Loading a ranker of any kind from its folder."""

from __future__ import annotations

import os
from pathlib import Path

from affinerank.errors import DataError
from affinerank.rankers.folder import read_about
from affinerank.rankers.gbdt import TreeRanker
from affinerank.rankers.mlp import MLPRanker


def load_ranker(folder: str | os.PathLike[str]) -> TreeRanker | MLPRanker:
    """Load what ``save`` wrote: networks or trees, as ``ranker.json`` says."""
    about, _ = read_about(Path(folder))
    if about["kind"] == "lightgbm":
        return TreeRanker.load(folder)
    if about["kind"] == "mlp":
        return MLPRanker.load(folder)
    raise DataError(f"{folder}: there is no kind of ranker {about['kind']!r}")
