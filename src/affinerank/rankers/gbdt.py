"""Gradient boosted trees by LightGBM: LambdaMART, as production systems run it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from affinerank.data.dataset import FeatureMapping
from affinerank.errors import DataError
from affinerank.files import existing_file
from affinerank.rankers.folder import read_about, write_folder

SMALL = 20_000


@dataclass(frozen=True, slots=True)
class TreeRanker:
    """A trained LightGBM model and the features it reads.

    Attributes:
        model: The model in LightGBM's own text format.
        mapping: What is done to raw features first.
        provenance: How it was trained, for the reader of its file.
    """

    model: str
    mapping: FeatureMapping
    provenance: dict[str, Any]

    def predict(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Score documents from mapped features ``[n_docs, n_features]``."""
        if features.shape[1] != len(self.mapping.names):
            raise DataError(
                f"this ranker reads {len(self.mapping.names)} features, "
                f"got {features.shape[1]}"
            )
        if not len(features):
            return np.zeros(0)
        booster = lgb.Booster(model_str=self.model)
        return np.asarray(booster.predict(features), dtype=np.float64)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``ranker.json`` and ``model.txt`` into a new folder."""
        write_folder(
            Path(folder),
            kind="lightgbm",
            mapping=self.mapping,
            provenance=self.provenance,
            about={},
            files={"model.txt": self.model.encode()},
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TreeRanker:
        """Read a folder that :meth:`save` wrote."""
        about, mapping = read_about(Path(folder), kind="lightgbm")
        path = existing_file(Path(folder) / "model.txt")
        try:
            model = path.read_text()
            n_features = lgb.Booster(model_str=model).num_feature()
        except (ValueError, lgb.basic.LightGBMError) as error:
            raise DataError(
                f"{path.parent}: not a ranker saved by AffineRank ({error!r:.200})"
            ) from None
        if n_features != len(mapping.names):
            raise DataError(
                f"{path.parent / 'ranker.json'}: names {len(mapping.names)} features, "
                f"and the model beside it reads {n_features}"
            )
        return cls(model, mapping, about["provenance"])


def fit_lambdamart(
    features: NDArray[np.float32],
    labels: NDArray[np.float32],
    offsets: NDArray[np.int64],
    *,
    seed: int = 0,
) -> str:
    """Train LambdaMART with LightGBM's defaults; return the model as text.

    Args:
        features: ``[n_docs, n_features]``; NaN is missing.
        labels: ``[n_docs]`` whole numbers, 0 or more.
        offsets: ``[n_queries + 1]`` query boundaries.
        seed: LightGBM's seed. The result does not depend on the number of threads.
    """
    if labels.size == 0 or labels.min() == labels.max():
        value = f"{labels[0]:g}" if labels.size else "none"
        raise DataError(
            f"all {labels.size} labels to learn from are the same ({value}), so there "
            "is no order to learn; choose which labels count as relevant "
            "(--relevant-above), or more queries"
        )
    data = lgb.Dataset(features, label=labels, group=np.diff(offsets))
    settings = {
        "objective": "lambdarank",
        # On little data threads wait for each other longer than they work.
        "num_threads": 1 if len(features) < SMALL else 0,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }
    return lgb.train(settings, data, num_boost_round=100).model_to_string()
