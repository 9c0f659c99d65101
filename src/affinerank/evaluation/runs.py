"""Rankers judged by labels: one value per query, means over runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from affinerank.metrics import MetricValues


@dataclass(frozen=True, slots=True, eq=False)
class RunSummary:
    """Several runs of one method.

    Attributes:
        name: Of the method.
        runs: Values of each query, for each run.
    """

    name: str
    runs: Sequence[MetricValues]

    @property
    def means(self) -> NDArray[np.float64]:
        """``[n_runs]`` mean over queries of each run."""
        return np.array([run.mean for run in self.runs])

    @property
    def mean(self) -> float:
        """Mean over runs."""
        return float(self.means.mean())

    @property
    def standard_deviation(self) -> float:
        """Standard deviation over runs; NaN for one run."""
        return float(self.means.std(ddof=1)) if len(self.runs) > 1 else float("nan")

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over runs; NaN for one run."""
        return self.standard_deviation / float(np.sqrt(len(self.runs)))
