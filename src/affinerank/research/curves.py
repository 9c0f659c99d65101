"""Results put together over runs: points, curves over clicks, estimates of users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from affinerank.bias.gauge import click_model_error
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators import affine
from affinerank.evaluation.significance import Comparison, compare_queries, compare_runs
from affinerank.pipeline.simulate import click_model_of
from affinerank.research.cells import PRODUCTION, TRUE, Cell
from affinerank.research.coordinates import UNNAMED, settings_of, title_of
from affinerank.research.results import Result
from affinerank.support.arrays import Floats
from affinerank.support.errors import AffineRankError, DataError
from affinerank.support.settings import EntrySpec

RANKS = 20  # of alpha and beta: below, the paper's users stay the same


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
        if not (cell.click_model and cell.policy and cell.ranker):
            return None
        return cls(cell.data, cell.click_model, cell.policy, cell.ranker)

    @property
    def title(self) -> str:
        """Its name for a reader."""
        return f"{self.data}, {setting_title(self)}"

    @property
    def settings(self) -> Any:
        """The parameters of its click model."""
        return settings_of("click_model", self.click_model)


def is_level(place: Cell, panel: Panel | Cell) -> bool:
    """Whether a place depends on no clicks, and is the same all over a panel."""
    same = place.data == panel.data and place.ranker in (None, panel.ranker)
    return place.clicks is None and same


def setting_title(
    place: Panel | Cell, columns: Sequence[str] = ("click_model", "policy", "ranker")
) -> str:
    """Name some coordinates of a place; those that are the default are left out."""
    texts = [(name, getattr(place, name)) for name in columns]
    kept = [(n, text) for n, text in texts if text not in (None, UNNAMED.get(n))]
    return ", ".join(title_of(name, text) for name, text in kept)


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of one place in a figure.

    Attributes:
        place: Coordinates, of run 0.
        runs: Results.
    """

    place: Cell
    runs: tuple[Result, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """nDCG@10 of each run."""
        return tuple(r.ndcg for r in self.runs)

    @property
    def early(self) -> tuple[float, ...]:
        """The same after the epoch that held-out clicks chose."""
        return tuple(r.held_out_ndcg for r in self.runs if r.held_out_ndcg is not None)

    @property
    def by_query(self) -> Floats:
        """``[n_queries]`` mean over runs, or all of folds; none if not kept."""
        values = [np.array(r.per_query) for r in self.runs]
        if len({len(own) for own in values}) > 1:  # of other queries: folds
            return np.concatenate(values)
        return np.asarray(np.mean(values, axis=0))

    @property
    def mean(self) -> float:
        """Mean over runs."""
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float:
        """Standard deviation over runs; NaN for one run."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else np.nan

    @property
    def held_out_mean(self) -> float | None:
        """Mean over runs where held-out clicks chose the epoch."""
        return float(np.mean(self.early)) if self.early else None

    @property
    def method(self) -> str:
        """What a reader calls it."""
        name = title_of("estimator", self.place.estimator)
        if self.place.click_model_from in (None, TRUE):
            return name
        source = title_of("click_model_from", self.place.click_model_from)
        return f"{name}, {source.lower()}"

    @property
    def whole_method(self) -> str:
        """The same with its ranker, unless that is the default."""
        ranker = setting_title(self.place, ["ranker"])
        return f"{self.method}; {ranker}" if ranker else self.method


def points_of(results: Sequence[Result]) -> list[Point]:
    """Put runs together, in the order in which cells first come."""
    places: dict[Cell, list[Result]] = {}
    for result in results:
        places.setdefault(replace(result.cell, run=0), []).append(result)
    return [Point(place, tuple(runs)) for place, runs in places.items()]


def at_held_out_epoch(results: Sequence[Result]) -> list[Result]:
    """Return results after the epoch that held-out clicks chose, where they did."""
    return [
        replace(
            r, ndcg=r.ndcg if r.held_out_ndcg is None else r.held_out_ndcg, per_query=()
        )
        for r in results
        if r.held_out_ndcg is not None or r.cell.estimator == PRODUCTION
    ]


def method_of(click_model_from: str) -> tuple[str, bool]:
    """Return how users were estimated, and whether new networks learnt by them."""
    spec = EntrySpec.parse(click_model_from)
    own = tuple((k, v) for k, v in spec.parameters if k != "fresh")
    return str(EntrySpec(spec.name, own)), "fresh=true" in str(spec)


@dataclass(frozen=True, slots=True, eq=False)
class EstimatesByMethod:
    """Users that one method estimated in one panel, at the most clicks it had.

    Attributes:
        panel: Where.
        method: The method.
        found: ``[2, runs, ranks]`` estimated alpha and beta.
        aligned: ``[2, runs, ranks]`` the same in the gauge of the truth; NaN where it
            has none.
        truth: ``[2, ranks]`` true alpha and beta.
    """

    panel: Panel
    method: str
    found: Floats
    aligned: Floats
    truth: Floats


def estimates_by_method(results: Sequence[Result]) -> list[EstimatesByMethod]:
    """Collect every estimate of users, at the most clicks of its panel."""
    places: dict[tuple[Panel, str], list[Result]] = {}
    for result in results:
        panel = Panel.of(result.cell)
        if (
            result.alpha
            and panel is not None
            and result.cell.click_model_from is not None
        ):
            method, _ = method_of(result.cell.click_model_from)
            places.setdefault((panel, method), []).append(result)
    collected = []
    for (panel, click_model_from), runs in places.items():
        most = max(run.cell.clicks or 0.0 for run in runs)
        # Several estimators may go by the same estimate: take it once per run.
        own = {r.cell.run: r for r in reversed(runs) if r.cell.clicks == most}
        truth = _truth(panel.click_model)
        each = [_shown(own[run]) for run in sorted(own)]
        found = np.stack(each, axis=1)
        aligned = np.stack([_aligned(one, truth) for one in each], axis=1)
        collected.append(
            EstimatesByMethod(panel, click_model_from, found, aligned, truth)
        )
    return collected


def _truth(click_model: str) -> Floats:
    """``[2, ranks]`` true alpha and beta; NaN for users who have none by rank."""
    try:
        return np.stack(
            click_model_of(click_model, RANKS).at(ClickRows.of_ranks(RANKS))
        )
    except AffineRankError:
        return np.full((2, RANKS), np.nan)


def _shown(result: Result) -> Floats:
    """``[2, ranks]`` the estimate at the ranks that are drawn; its last value stays."""
    rank = np.minimum(np.arange(RANKS), len(result.alpha) - 1)
    return np.array([result.alpha, result.beta])[:, rank]


def _aligned(found: Floats, truth: Floats) -> Floats:
    """``[2, ranks]`` an estimate in the gauge of the truth; all ranks count alike."""
    try:
        estimate, true = (
            TrustModel(alpha=a, beta=b, identified="relative")
            for a, b in (found, truth)
        )
        error = click_model_error(estimate, true, np.ones(RANKS))
    except DataError:  # an alpha of 0, or no truth
        return np.full_like(truth, np.nan)
    return np.stack([error.alpha, error.beta])


class Summary:
    """Results by panel: points, values as arrays, t-tests, estimated users.

    Attributes:
        points: The runs of each place.
        panels: Where curves were measured.
        counts: ``[n_counts]`` numbers of training clicks, the fewest first.
        per_query: ``[n_panels, n_counts]`` the same per training query.
        estimates: Every estimate of users.
        ranks: How many of alpha and beta are judged.
    """

    def __init__(self, results: Sequence[Result], ranks: int = RANKS) -> None:
        self.ranks = ranks
        self.points = points_of(results)
        self._curves: dict[Panel, list[Point]] = {}
        for point in self.points:
            if panel := Panel.of(point.place):
                self._curves.setdefault(panel, []).append(point)
        self.panels = list(self._curves)
        self.counts = sorted({p.place.clicks for p in self.points if p.place.clicks})
        queries = [own[0].runs[0].queries for own in self._curves.values()]
        self.per_query = np.array(self.counts) / np.array(queries)[:, None]
        self.estimates = estimates_by_method(results)
        self._runs = 1 + max((result.cell.run for result in results), default=0)

    def curves(self, panel: Panel) -> list[Point]:
        """Return the points of a panel, those of the fewest clicks first."""
        return sorted(self._curves[panel], key=lambda point: point.place.clicks or 0.0)

    def levels(self, panel: Panel) -> list[Point]:
        """Return what depends on no clicks, and is the same all over a panel."""
        return [p for p in self.points if is_level(p.place, panel)]

    def all_of(self, panel: Panel) -> list[Point]:
        """Return both: those of the fewest clicks first, then those of none."""
        return [*self.curves(panel), *self.levels(panel)]

    def runs(self, estimator: str, click_model_from: str | None = TRUE) -> Floats:
        """``[n_panels, n_counts, n_runs]`` values of a method; NaN if not measured."""
        values = np.full((len(self.panels), len(self.counts), self._runs), np.nan)
        for i, panel in enumerate(self.panels):
            for point in self.all_of(panel):
                if (point.place.estimator, point.place.click_model_from) == (
                    estimator,
                    click_model_from,
                ):
                    clicks = point.place.clicks
                    at = slice(None) if clicks is None else self.counts.index(clicks)
                    for run in point.runs:
                        values[i, at, run.cell.run] = run.ndcg
        return values

    def means(self, estimator: str, click_model_from: str | None = TRUE) -> Floats:
        """``[n_panels, n_counts]`` mean of a method; NaN where it was not measured."""
        return mean_of_known(self.runs(estimator, click_model_from))

    def tests(self, panel: Panel, kind: str = "student") -> dict[str, Comparison]:
        """Compare every estimator with affine at the most clicks; users are known.

        Args:
            panel: Where.
            kind: ``student``: over runs, as in the paper; ``welch``: the same without
                equal variances; ``queries``: paired over queries, of means over runs.

        Returns:
            By estimator; none where there are fewer than two runs, or queries.
        """
        known = [
            point
            for point in self.curves(panel)
            if point.place.click_model_from == TRUE
        ]
        lasts, name = {p.place.estimator: p for p in known}, affine.ROW.name
        try:
            if kind == "queries":
                found = compare_queries({k: p.by_query for k, p in lasts.items()}, name)
            else:
                runs = {key: point.values for key, point in lasts.items()}
                found = compare_runs(runs, name, equal_variances=kind == "student")
        except DataError:
            return {}
        return {test.first: test for test in found}


def mean_of_known(values: Floats) -> Floats:
    """Mean along the last axis of what is no NaN; NaN if all are."""
    known = np.isfinite(values)
    total, count = np.sum(values, axis=-1, where=known), known.sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
