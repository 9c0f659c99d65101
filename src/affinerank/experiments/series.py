"""Results put into series: what figures draw, tables print and statements compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from affinerank.experiments.cells import Cell
from affinerank.experiments.plan import NO_CLIP, PRODUCTION, TRUE, Setting
from affinerank.experiments.results import Result
from affinerank.pipeline import FULL_INFORMATION

Floats = NDArray[np.float64]

METHODS = {
    PRODUCTION: "Production",
    "naive": "No correction",
    "ips": "IPS",
    "bayes-ips": "Bayes-IPS",
    "affine": "Affine",
    FULL_INFORMATION: "Full information",
}
USERS = {
    "true": "True values",
    "soft-min-max": "Soft-min-max",
    "softmax": "Softmax",
    "sigmoid": "Sigmoid",
    "default": "Our default",
}


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of one place in a figure.

    Attributes:
        data: Name of the data set.
        setting: How users click; ``None`` for what does not depend on it.
        clicks: Training clicks; ``None`` likewise.
        estimator: Correction, ``full-information`` or ``production``.
        users: Where alpha and beta come from.
        clip: Lower bound of alpha.
        values: nDCG@10 of each run.
        early: The same after the epoch that held-out clicks chose.
        queries: Training queries.
    """

    data: str
    setting: Setting | None
    clicks: float | None
    estimator: str
    users: str
    clip: str
    values: tuple[float, ...]
    early: tuple[float, ...]
    queries: int

    @property
    def mean(self) -> float:
        """Mean over runs."""
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float:
        """Standard deviation over runs; NaN for one run."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else np.nan

    @property
    def early_mean(self) -> float | None:
        """Mean over runs where held-out clicks chose the epoch."""
        return float(np.mean(self.early)) if self.early else None

    @property
    def per_query(self) -> float:
        """Training clicks for each training query."""
        return (self.clicks or 0.0) / self.queries

    @property
    def method(self) -> str:
        """What a reader calls it."""
        name = METHODS[self.estimator]
        if self.users != TRUE:
            name = f"{name}, {USERS[self.users].lower()}"
        return name if self.clip == NO_CLIP else f"{name}, clipped at {self.clip}"


def points_of(results: Sequence[Result]) -> list[Point]:
    """Put runs together, in the order in which cells first come."""
    places: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        c = result.cell
        key = (c.data, c.setting, c.clicks, c.estimator, c.users, c.clip)
        places.setdefault(key, []).append(result)
    return [_point(runs) for runs in places.values()]


def title_of(setting: Setting) -> str:
    """Name a setting as the paper's figures do."""
    return f"η = {setting.eta:g}, ε⁻₁ = {setting.eps_minus_1:g}"


def setting_of(cell: Cell) -> Setting | None:
    """How a cell's users click."""
    if cell.eta is None or cell.eps_minus_1 is None:
        return None
    return Setting(cell.eta, cell.eps_minus_1)


def _point(runs: Sequence[Result]) -> Point:
    cell = runs[0].cell
    return Point(
        cell.data,
        setting_of(cell),
        cell.clicks,
        cell.estimator,
        cell.users,
        cell.clip,
        tuple(r.ndcg for r in runs),
        tuple(r.early_ndcg for r in runs if r.early_ndcg is not None),
        runs[0].queries,
    )
