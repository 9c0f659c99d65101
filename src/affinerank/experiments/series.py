"""Results put together over runs: points, curves over clicks, estimates of users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from affinerank.arrays import Floats
from affinerank.bias.gauge import gauge_error
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.rows import ClickRows
from affinerank.errors import AffineRankError, DataError
from affinerank.estimators import affine
from affinerank.evaluation.significance import Comparison, compare_runs
from affinerank.experiments.coordinates import UNNAMED, settings_of, title_of
from affinerank.experiments.results import Result
from affinerank.pipeline.description import RANKS_SHOWN
from affinerank.pipeline.simulation import users_of
from affinerank.pipeline.worlds import TRUE, Cell


@dataclass(frozen=True, slots=True)
class Panel:
    """Where curves are compared: coordinates that what is learnt from depends on."""

    data: str
    click_model: str
    policy: str
    ranker: str

    @classmethod
    def of(cls, cell: Cell) -> Panel | None:
        """Return the panel of a cell; none for one that depends on no clicks."""
        if cell.click_model and cell.policy and cell.ranker:
            return cls(cell.data, cell.click_model, cell.policy, cell.ranker)
        return None

    @property
    def title(self) -> str:
        """Its name for a reader."""
        return f"{self.data}, {setting_title(self)}"

    @property
    def users(self) -> Any:
        """The parameters of its click model."""
        return settings_of("click_model", self.click_model)


def setting_title(
    place: Panel | Cell, columns: Sequence[str] = ("click_model", "policy", "ranker")
) -> str:
    """Name some coordinates of a place; those that are the default are left out."""
    texts = {name: getattr(place, name) for name in columns}
    return ", ".join(
        title_of(name, text)
        for name, text in texts.items()
        if text is not None and text != UNNAMED.get(name)
    )


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of one place in a figure.

    Attributes:
        place: Coordinates, of run 0.
        values: nDCG@10 of each run.
        early: The same after the epoch that held-out clicks chose.
        queries: Training queries.
    """

    place: Cell
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
    def method(self) -> str:
        """What a reader calls it."""
        name = title_of("estimator", self.place.estimator)
        if self.place.users in (None, TRUE):
            return name
        return f"{name}, {title_of('users', self.place.users).lower()}"


def points_of(results: Sequence[Result]) -> list[Point]:
    """Put runs together, in the order in which cells first come."""
    places: dict[Cell, list[Result]] = {}
    for result in results:
        places.setdefault(replace(result.cell, run=0), []).append(result)
    return [
        Point(
            place,
            tuple(r.ndcg for r in runs),
            tuple(r.early_ndcg for r in runs if r.early_ndcg is not None),
            runs[0].queries,
        )
        for place, runs in places.items()
    ]


@dataclass(frozen=True, slots=True, eq=False)
class UsersFound:
    """Users that one method estimated in one panel, at the most clicks it had.

    Attributes:
        panel: Where.
        users: The method.
        found: ``[2, runs, ranks]`` estimated alpha and beta.
        aligned: ``[2, runs, ranks]`` the same in the gauge of the truth; NaN where it
            has none.
        truth: ``[2, ranks]`` true alpha and beta.
    """

    panel: Panel
    users: str
    found: Floats
    aligned: Floats
    truth: Floats


def users_found(results: Sequence[Result]) -> list[UsersFound]:
    """Collect every estimate of users, at the most clicks of its panel."""
    places: dict[tuple[Panel, str], list[Result]] = {}
    for result in results:
        panel = Panel.of(result.cell)
        if result.alpha and panel is not None and result.cell.users is not None:
            places.setdefault((panel, result.cell.users), []).append(result)
    collected = []
    for (panel, users), runs in places.items():
        most = max(run.cell.clicks or 0.0 for run in runs)
        # Several estimators may go by the same estimate: take it once per run.
        own = {r.cell.run: r for r in reversed(runs) if r.cell.clicks == most}
        truth = _truth(panel.click_model)
        found = np.stack([_shown(own[run]) for run in sorted(own)], axis=1)
        aligned = np.stack(
            [_aligned(one, truth) for one in found.swapaxes(0, 1)], axis=1
        )
        collected.append(UsersFound(panel, users, found, aligned, truth))
    return collected


def _truth(click_model: str) -> Floats:
    """``[2, ranks]`` true alpha and beta; NaN for users who have none by rank."""
    ranks, ones = np.arange(1, RANKS_SHOWN + 1), np.ones(RANKS_SHOWN)
    first = np.zeros_like(ranks)
    rows = ClickRows(first, ranks, first, ones, ones, first[:1], ones[:1])
    try:
        return np.stack(users_of(click_model, RANKS_SHOWN).at(rows))
    except AffineRankError:
        return np.full((2, RANKS_SHOWN), np.nan)


def _shown(result: Result) -> Floats:
    """``[2, ranks]`` the estimate at the ranks that are drawn; its last value stays."""
    rank = np.minimum(np.arange(RANKS_SHOWN), len(result.alpha) - 1)
    return np.stack([np.array(result.alpha)[rank], np.array(result.beta)[rank]])


def _aligned(found: Floats, truth: Floats) -> Floats:
    """``[2, ranks]`` an estimate in the gauge of the truth; all ranks count alike."""
    try:
        estimate, true = (
            TrustModel(alpha=alpha, beta=beta, identified="gauge")
            for alpha, beta in (found, truth)
        )
        error = gauge_error(estimate, true, np.ones(RANKS_SHOWN))
    except DataError:  # an alpha of 0, or no truth
        return np.full_like(truth, np.nan)
    return np.stack([error.alpha, error.beta])


class Summary:
    """Results by panel: points, means over runs as arrays, t-tests, estimated users.

    Attributes:
        points: The runs of each place.
        panels: Where curves were measured.
        counts: ``[n_counts]`` numbers of training clicks, the fewest first.
        per_query: ``[n_panels, n_counts]`` the same per training query.
        estimates: Every estimate of users.
    """

    def __init__(self, results: Sequence[Result]) -> None:
        self.points = points_of(results)
        self._curves: dict[Panel, list[Point]] = {}
        for point in self.points:
            if panel := Panel.of(point.place):
                self._curves.setdefault(panel, []).append(point)
        self.panels = list(self._curves)
        self.counts = sorted({p.place.clicks for p in self.points if p.place.clicks})
        queries = [own[0].queries for own in self._curves.values()]
        self.per_query = np.array(self.counts) / np.array(queries)[:, None]
        self.estimates = users_found(results)

    def curves(self, panel: Panel) -> list[Point]:
        """Return the points of a panel, those of the fewest clicks first."""
        return sorted(self._curves[panel], key=lambda point: point.place.clicks or 0.0)

    def levels(self, panel: Panel) -> list[Point]:
        """Return what depends on no clicks, and is the same all over a panel."""
        return [
            point
            for point in self.points
            if point.place.clicks is None
            and point.place.data == panel.data
            and point.place.ranker in (None, panel.ranker)
        ]

    def means(self, estimator: str, users: str | None = TRUE) -> Floats:
        """``[n_panels, n_counts]`` mean of a method; NaN where it was not measured."""
        means = np.full((len(self.panels), len(self.counts)), np.nan)
        for i, panel in enumerate(self.panels):
            for point in (*self.curves(panel), *self.levels(panel)):
                if (point.place.estimator, point.place.users) == (estimator, users):
                    clicks = point.place.clicks
                    at = slice(None) if clicks is None else self.counts.index(clicks)
                    means[i, at] = point.mean
        return means

    def tests(self, panel: Panel, *, welch: bool = False) -> list[Comparison]:
        """t-tests over runs of every estimator against affine, at the most clicks.

        Users are known. Student's, as in the paper, or Welch's, which does not assume
        equal variances. None where there are fewer than two runs.
        """
        known = [point for point in self.curves(panel) if point.place.users == TRUE]
        lasts = {point.place.estimator: point.values for point in known}
        try:
            return compare_runs(
                lasts, against=affine.ROW.name, equal_variances=not welch
            )
        except DataError:
            return []
