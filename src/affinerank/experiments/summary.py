"""Results by place: panels of a data set and setting, curves over clicks in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from affinerank.errors import DataError
from affinerank.evaluation.significance import Comparison, compare_runs
from affinerank.experiments.parameters import estimates_of
from affinerank.experiments.plan import NO_CLIP, TRUE, Setting
from affinerank.experiments.results import Result
from affinerank.experiments.series import Point, points_of, title_of
from affinerank.pipeline import FULL_INFORMATION

OTHERS = ("naive", "ips", "bayes-ips")
MANY = 55.0  # clicks a query: a little more than 1e6 in the paper

Panel = tuple[str, Setting]


class Summary:
    """Results by place: panels of a data set and setting, curves over clicks."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.points = points_of(results)
        self.estimates = estimates_of(results)
        places = [(p.data, p.setting) for p in self.points]
        self.panels: list[Panel] = [
            (data, setting) for data, setting in dict.fromkeys(places) if setting
        ]

    def curve(
        self, panel: Panel, estimator: str, users: str = TRUE, clip: str = NO_CLIP
    ) -> dict[float, Point]:
        """Points of a method in a panel by clicks, the fewest first."""
        wanted = (*panel, estimator, users, clip)
        found = {
            p.clicks: p
            for p in self.points
            if p.clicks is not None
            and (p.data, p.setting, p.estimator, p.users, p.clip) == wanted
        }
        return dict(sorted(found.items()))

    def level(self, data: str, estimator: str) -> float | None:
        """Mean nDCG@10 of what does not depend on clicks."""
        for point in self.points:
            if (point.data, point.estimator) == (data, estimator):
                return point.mean
        return None

    def tests(self, panel: Panel, *, welch: bool = False) -> list[Comparison]:
        """t-tests over runs of affine against the others, at the most clicks.

        Student's, as in the paper, or Welch's, which does not take their spreads for
        the same. None where there are fewer than two runs.
        """
        runs = {}
        for name in ("affine", *OTHERS):
            curve = self.curve(panel, name)
            if curve:
                runs[name] = list(curve.values())[-1].values
        try:
            return compare_runs(runs, against="affine", equal_variances=not welch)
        except DataError:
            return []


def between(
    first: dict[float, Point], second: dict[float, Point]
) -> dict[float, float]:
    """How far the first is above the second, by clicks that both have."""
    return {c: p.mean - second[c].mean for c, p in first.items() if c in second}


def below_full(summary: Summary, estimator: str) -> Iterator[tuple[float, Panel]]:
    """How far an estimator is below full information at the most clicks.

    Only where those are many.
    """
    for panel in summary.panels:
        full = summary.level(panel[0], FULL_INFORMATION)
        curve = list(summary.curve(panel, estimator).values())
        if full is not None and curve and curve[-1].per_query > MANY:
            yield full - curve[-1].mean, panel


def affine_leads(summary: Summary) -> Iterator[tuple[float, Panel, Point]]:
    """How far affine is above the best of the others, the fewest clicks first.

    Only where all the others were measured too.
    """
    for panel in summary.panels:
        others = [summary.curve(panel, name) for name in OTHERS]
        for clicks, point in summary.curve(panel, "affine").items():
            if all(clicks in curve for curve in others):
                best = max(curve[clicks].mean for curve in others)
                yield point.mean - best, panel, point


def place_of(panel: Panel) -> str:
    """Name a panel."""
    return f"{panel[0]}, {title_of(panel[1])}"
