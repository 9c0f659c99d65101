"""A ranker mixed with the production ranker, whose score is one of its features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.arrays import Floats, Matrix

if TYPE_CHECKING:
    from affinerank.rankers.onnx_graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """Scores of a model and of the production ranker, added up.

    Attributes:
        model: What was learnt.
        column: Of the feature, among those mapped.
        share: Of the model, from 0 (production alone) to 1.
        units: What the feature and the model's scores are divided by.
    """

    model: Any
    column: int
    share: float
    units: tuple[float, float]

    def predict(self, features: Matrix) -> Floats:
        """Score documents from mapped features."""
        logged = features[:, self.column].astype(np.float64) / self.units[0]
        if not self.share:
            return logged
        learnt = self.model.predict(features) / self.units[1]
        return np.asarray((1.0 - self.share) * logged + self.share * learnt)

    def add_to_onnx(self, graph: Graph, values: str) -> str:
        """Add nodes that score documents; return the column of scores."""
        place = graph.constant("production", np.array([self.column]))
        logged = graph.add("Gather", [values, place], "logged", axis=1)
        unit = np.float32((1.0 - self.share) / self.units[0])
        scores = graph.add("Mul", [logged, graph.constant("keep", unit)], "kept")
        if not self.share:
            return scores
        learnt = self.model.add_to_onnx(graph, values)
        unit = np.float32(self.share / self.units[1])
        moved = graph.add("Mul", [learnt, graph.constant("move", unit)], "moved")
        return graph.add("Add", [scores, moved], "mixed")

    def files(self) -> Mapping[str, bytes]:
        """Return the model's files."""
        found: Mapping[str, bytes] = self.model.files()
        return found

    def about(self) -> dict[str, Any]:
        """Return what the model says, and how it is mixed."""
        names = ("column", "share", "units")
        return {**self.model.about(), "mixed": {n: getattr(self, n) for n in names}}

    @classmethod
    def of(cls, model: Any, about: Mapping[str, Any], n_features: int) -> Mixed:
        """Read how a model is mixed from a ranker's file."""
        column, share = int(about["column"]), float(about["share"])
        first, second = map(float, about["units"])
        if not (
            0 <= column < n_features and 0 <= share <= 1 and min(first, second) > 0
        ):
            raise ValueError("mixed: column, share or units are out of range")
        return cls(model, column, share, (first, second))
