"""What an evaluation found: by labels, or by the clicks on another ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from affinerank.counts.movement import WHAT_TO_LOG, Movement
from affinerank.evaluation.baseline import Baseline
from affinerank.evaluation.click_value import (
    EVALUATORS_DISAGREE,
    LISTS_MOVED,
    Decision,
    Exposure,
    ValueEstimate,
    decide,
)
from affinerank.evaluation.metrics import MetricValues
from affinerank.evaluation.significance import Comparison, conclude
from affinerank.output.blocks import Summary

RELEVANCE = "relevance from 0 to 1"
# Names of the two differences that an evaluation by clicks reports.
LOGGED = "against_logged"
PRODUCTION = "against_production"


@dataclass(frozen=True, slots=True, repr=False)
class LabelEvaluation(Summary):
    """Rankers evaluated by labels, each compared with the first.

    Attributes:
        metric: Its name.
        queries: With a relevant document.
        relevant_above: Labels above this are relevant.
        rankers: Values of each query, by name.
        comparisons: Paired tests, p corrected for all of them (Holm).
        left_out: Number of queries that a ranker learned from; they do not count.
    """

    metric: str
    queries: int
    relevant_above: float
    rankers: Mapping[str, MetricValues]
    comparisons: Sequence[Comparison]
    left_out: int = 0

    def _line(self) -> str:
        means = ", ".join(f"{n}: {v.mean:.4f}" for n, v in self.rankers.items())
        return f"{self.metric.split(' (')[0]} by {self.queries:,} queries, {means}"

    def _rows(self) -> list[dict[str, Any]]:
        compared = {c.first: c for c in self.comparisons}
        rows = self.to_dict()["rankers"]
        for row in rows:
            if other := compared.get(row["ranker"]):
                names = ("difference", "low", "high", "p_corrected")
                row["second"] = other.second
                row["against"] = {name: getattr(other, name) for name in names}
        return list(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: mean, standard error and 95 % interval of each."""
        of = self.metric.split(" (")[0]
        named = self.rankers.items()
        return asdict(self) | {
            "rankers": [{"ranker": name, **own.summary()} for name, own in named],
            "conclusions": [
                conclude(c.first, c.second, (c.difference,) * 2, c.low, c.high, of)
                for c in self.comparisons
            ],
        }


@dataclass(frozen=True, slots=True)
class RankerClickEvaluation:
    """A ranker's value, and its difference from what was logged.

    Attributes:
        ranker: Its name.
        never_shown_share: Share of its rank weight on documents that were never shown.
        predicted: Whether their relevance was predicted; otherwise there are bounds.
        exposure: How evenly the estimate rests on impressions.
        found: By name: ``value`` of the ranker, and of the ``logged`` order, unless
            users are known up to gauge; the difference ``against_logged``; and that
            ``against_production``, the lists of one ranker that logged, where the
            counts have several; otherwise the logged order is production's.
        second: The same differences by an evaluator that does not use the click model,
            among the documents that were shown, in units of its own; empty if no click
            model is used.
        evaluator: Name of that evaluator.
    """

    ranker: str
    never_shown_share: float
    predicted: bool
    exposure: Exposure
    found: Mapping[str, ValueEstimate]
    second: Mapping[str, ValueEstimate] = field(default_factory=dict)
    evaluator: str = ""

    @property
    def difference(self) -> str:
        """Name of the difference from production, of those in ``found``."""
        return PRODUCTION if PRODUCTION in self.found else LOGGED

    def decide(self, difference: str, clicks: int, movement: Movement) -> Decision:
        """Decide about the difference of this name."""
        return decide(
            self.found[difference],
            clicks,
            self.second.get(difference),
            lists_moved=movement.unexplained,
        )

    def to_dict(self, clicks: int, movement: Movement) -> dict[str, Any]:
        """Return plain data; ``clicks`` there are decide whether more are needed."""
        about: dict[str, Any] = {
            "ranker": self.ranker,
            "never_shown_share": self.never_shown_share,
            "predicted": self.predicted,
            **asdict(self.exposure),
        }
        for name, value in self.found.items():
            about[name] = value.to_dict()
            if name in (LOGGED, PRODUCTION):
                about[name] |= asdict(self.decide(name, clicks, movement))
        if self.second:
            second = self.second[self.difference]
            decision = decide(second, clicks, lists_moved=movement.unexplained)
            about["second_evaluator"] = {
                "evaluator": self.evaluator,
                **second.to_dict(),
                "verdict": decision.verdict,
            }
        return about

    def conclude(self, baseline: Baseline, movement: Movement, metric: str) -> str:
        """Say in words whether the ranker is better than production."""
        production = baseline.name
        decision = self.decide(self.difference, 1, movement)
        if decision.obstacle == LISTS_MOVED:
            return (
                f"cannot tell if {self.ranker} is better than {production}: it cannot "
                f"be decided, since {movement.in_words()}, and the log does not say "
                f"why; {WHAT_TO_LOG}"
            )
        if decision.obstacle == EVALUATORS_DISAGREE:
            why = "two evaluators disagree, so the click model may be wrong"
            return f"cannot tell if {self.ranker} is better than {production}: {why}"
        lead = self.found[self.difference]
        low, high = lead.queries.low, lead.queries.high
        span = (lead.least, lead.most)
        return conclude(self.ranker, production, span, low, high, metric)


@dataclass(frozen=True, slots=True, repr=False)
class ClickEvaluation(Summary):
    """Rankers evaluated by clicks.

    Attributes:
        metric: Name of the rank weights.
        estimator: That corrected the clicks.
        queries: Issued.
        sessions: Of the held-out clicks.
        clicks: Held out.
        rankers: The rankers.
        among: Which documents were ranked: ``all``, or those ``shown``.
        left_out: Number of queries that a ranker learned from; they do not count.
        baseline: What rankers are compared with.
        movement: How far documents moved for unknown reasons: too far, and no
            comparison can be decided.
        user_buckets: Number of clusters of users that intervals rest on; ``None`` if
            sessions count as independent.
        units: Of values and differences, in words.
        refits: How the estimated click model was refitted, ``replicates`` and ``to``
            what; ``None`` if it is known, or not needed.
    """

    metric: str
    estimator: str
    queries: int
    sessions: int
    clicks: int
    rankers: Sequence[RankerClickEvaluation]
    baseline: Baseline
    movement: Movement
    among: str = "all"
    left_out: int = 0
    user_buckets: int | None = None
    units: str = RELEVANCE
    refits: Mapping[str, Any] | None = None

    def _line(self) -> str:
        names = ", ".join(row.ranker for row in self.rankers)
        return f"{self.metric} by {self.estimator}, {self.clicks:,} clicks: {names}"

    def _rows(self) -> list[dict[str, Any]]:
        return list(self.to_dict()["rankers"])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        metric = f"{self.metric} on future queries"
        movement, baseline = self.movement, self.baseline
        return asdict(self) | {
            "click_model_estimated": self.refits is not None,
            "production": baseline.ranker,
            "baseline": baseline.name,
            "movement": movement.to_dict(),
            "rankers": [row.to_dict(self.clicks, movement) for row in self.rankers],
            "conclusions": [
                row.conclude(baseline, movement, metric) for row in self.rankers
            ],
        }
