r"""Intervals where how users click was estimated: the model is fitted to resamples.

An estimated click model adds its own error to every value, and is known only up to
gauge. So only differences of rankings of the same documents are estimated, in the gauge
where alpha is 1 and beta / alpha is 0 on average over the impressions: in units of
clicks at an average rank. Two resamples give the two intervals, each with a refit:

- *over sessions*: clicks are drawn again, with the click rates of this log;
- *over queries*: half of the queries is drawn, without replacement. Half-samples vary
  around the whole as the whole varies around the truth
  (:math:`S^2 / m \, (1 - m / n) = S^2 / n` for :math:`m = n / 2`), and no query enters
  twice, which would make features look better than they are.

The cost is two fits per replicate, one to half of the queries. A resample that holds
too little to be fitted is drawn again, a few times.

Relevance of documents that were never shown is predicted anew from each resample, by
its users. Clicks drawn again do not draw relevance again, so what that leaves open is
added over sessions (:mod:`affinerank.evaluation.never_shown`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from affinerank.bias import METHODS, EstimationSettings
from affinerank.clicks.models import ClickModel
from affinerank.clicks.models.trust import EstimatedBy
from affinerank.counts.rows import ClickRows
from affinerank.estimators import Weights
from affinerank.estimators.correction import mean_click_rate
from affinerank.evaluation.click_value import Interval, ValueEstimate, by_query
from affinerank.evaluation.never_shown import Predicted
from affinerank.support.arrays import Bools, Floats, Matrix, Rng
from affinerank.support.errors import (
    AffineRankError,
    AffineRankWarning,
    ConfigError,
    DataError,
)
from affinerank.support.progress import Progress, no_progress
from affinerank.support.threads import one_blas_thread, usable_cores

REPLICATES = 20
TRIES = 5

Weigh = Callable[[ClickRows, ClickModel], Weights]
Predict = Callable[..., Predicted]  # of rows and users; groups=0 leaves none out


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """Held-out clicks, and differences of rank weights to estimate from them.

    Attributes:
        rows: The clicks.
        rank_weights: ``[n_differences, n_docs]``; each adds up to 0 over the known
            documents of a query, so that a shift of relevance does not matter.
        weigh: The estimator.
        predict: What predicts documents that are not known, for each difference; none
            if they count for nothing.
    """

    rows: ClickRows
    rank_weights: Floats
    weigh: Weigh
    predict: Sequence[Predict] = ()

    def by_query(self, click_model: ClickModel, among: Bools | None = None) -> Floats:
        """``[n_differences, n_queries]`` in clicks at an average rank.

        Relevance times the mean alpha over impressions; the shift that would make the
        mean of beta / alpha 0 cancels. Predictions rest on the queries ``among``.
        """
        rows = self.rows if among is None else self.rows.select(among[self.rows.query])
        weights, query = self.weigh(self.rows, click_model), self.rows.query_of_doc
        unknown = [each(rows, click_model, groups=0).relevance for each in self.predict]
        values = [
            by_query(weights, each, query, unknown[i] if unknown else 0.0)
            for i, each in enumerate(self.rank_weights)
        ]
        return np.stack(values) * mean_alpha(self.rows, click_model)

    def errors(self, click_model: ClickModel) -> Floats:
        """``[n_differences]`` variance by what predictions leave open."""
        if not self.predict:
            return np.zeros(len(self.rank_weights))
        rows, known = self.rows, self.weigh(self.rows, click_model).known
        unseen = np.where(known, 0.0, self.rank_weights * rows.share[rows.query_of_doc])
        errors = [
            each(rows, click_model).error(given)
            for each, given in zip(self.predict, unseen, strict=True)
        ]
        return np.array(errors) * mean_alpha(rows, click_model) ** 2


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The clicks that users were estimated from, and how.

    Attributes:
        rows: The clicks.
        how: By which method.
        features: ``[n_docs, n_features]``, if features took part.
        held_out: Whether these are the held-out clicks, row by row.
    """

    rows: ClickRows
    how: EstimatedBy
    features: Matrix | None = None
    held_out: bool = False

    def __post_init__(self) -> None:
        """Reject a method that is not refitted."""
        if METHODS[self.how.method].refit is None:
            able = ", ".join(name for name, row in METHODS.items() if row.refit)
            raise ConfigError(
                f"these users were estimated by {self.how.method}, which is too slow "
                f"to repeat for an interval; estimate them by {able}"
            )

    def fit(
        self, rows: ClickRows, rng: Rng, first: Any = None, part: float = 1.0
    ) -> Any:
        """Estimate users from ``part`` of the clicks, starting from a ``first`` fit."""
        # As many fewer clicks are enough, so that ranks pool alike.
        settings = EstimationSettings(self.how.method, part * self.how.min_clicks)
        refit: Any = METHODS[self.how.method].refit
        return refit(rows, self.features, settings, rng, first)


def mean_alpha(rows: ClickRows, click_model: ClickModel) -> float:
    """Mean slope over impressions: clicks at an average rank per relevance."""
    alpha, _ = click_model.at(rows)
    return float(np.average(alpha, weights=rows.impressions))


def is_estimated(click_model: ClickModel) -> bool:
    """Whether users were estimated from clicks."""
    return click_model.estimated is not None or click_model.identified == "relative"


def estimate_differences(
    held: Differences,
    click_model: ClickModel,
    source: Source,
    *,
    replicates: int = REPLICATES,
    rng: Rng,
    progress: Progress = no_progress,
) -> list[ValueEstimate]:
    """Estimate differences of rankings with users that were estimated.

    Args:
        held: Held-out clicks, and the differences of rank weights.
        click_model: The estimated users.
        source: What they were estimated from, and are refitted to.
        replicates: Refits for each of the two intervals.
        rng: Draws the resamples.
        progress: Called after each replicate.
    """
    if replicates < 2:
        raise ConfigError(f"an interval needs 2 replicates or more, got {replicates}")
    # Every refit would repeat the same warnings. It has many small steps, on which
    # threads of BLAS would wait for each other.
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", AffineRankWarning)
        values = held.by_query(click_model) @ held.rows.share
        drawn = _replicates(held, source, rng.spawn(replicates), progress)
        variances = drawn.var(axis=0, ddof=1)
        variances[0] += held.errors(click_model)
    found = []
    for value, *spread in zip(values.tolist(), *variances.tolist(), strict=True):
        intervals = [Interval.around(value, v, replicates - 1) for v in spread]
        found.append(ValueEstimate(value, value, *intervals))
    return found


def _replicates(
    held: Differences, source: Source, rngs: Sequence[Rng], progress: Progress
) -> Floats:
    """Differences of resamples ``[n, sessions or queries, n_differences]``."""
    progress("refitting users", 0, len(rngs))
    first = _fitted(partial(source.fit, source.rows, rngs[0].spawn(1)[0]), tries=1)

    def both(rng: Rng) -> list[Floats]:
        return [
            _fitted(partial(resample, held, source, first, rng))
            for resample in (_sessions_again, _half_of_queries)
        ]

    drawn = []
    with ThreadPoolExecutor(usable_cores()) as pool:
        for found in pool.map(both, rngs):
            drawn.append(found)
            progress("refitting users", len(drawn), len(rngs))
    return np.array(drawn)


def _fitted(fit: Callable[[], Any], tries: int = TRIES) -> Any:
    """Fit users; draw a resample that holds too little again."""
    try:
        return fit()
    except AffineRankError as error:
        if tries > 1:
            return _fitted(fit, tries - 1)
        raise DataError(
            f"users cannot be refitted to resamples of the clicks ({error}); give more "
            "of those they were estimated from (--estimated-from)"
        ) from None


def _sessions_again(held: Differences, source: Source, first: Any, rng: Rng) -> Floats:
    """Draw all clicks again."""
    again = clicked_again(held.rows, mean_click_rate(held.rows), rng)
    learnt = again
    if not source.held_out:
        rows = source.rows
        rate = rows.by_rank(rows.clicks) / np.maximum(rows.by_rank(rows.impressions), 1)
        learnt = clicked_again(rows, rate[rows.rank - 1], rng)
    click_model = source.fit(learnt, rng, first).click_model
    return replace(held, rows=again).by_query(click_model) @ again.share


def _half_of_queries(held: Differences, source: Source, first: Any, rng: Rng) -> Floats:
    """Draw half of the queries."""
    chosen = _half(source.rows, rng)
    half = source.rows.select(chosen[source.rows.query])
    click_model = source.fit(half, rng, first, part=0.5).click_model
    kept = chosen if source.held_out else _half(held.rows, rng)
    values = held.by_query(click_model, kept)
    share = np.where(kept, held.rows.share, 0.0)
    return np.asarray(values @ share / share.sum())


def _half(rows: ClickRows, rng: Rng) -> Bools:
    """``[n_queries]`` half of the queries that were shown."""
    there = np.unique(rows.query)
    chosen = np.zeros(rows.n_queries, dtype=bool)
    chosen[rng.permutation(there)[: len(there) // 2]] = True
    return chosen


def clicked_again(rows: ClickRows, mean_rate: Floats, rng: Rng) -> ClickRows:
    """Draw binomial clicks, of rates drawn a little towards ``mean_rate [n_rows]``."""
    shown = rows.impressions.astype(np.int64)
    rate = (rows.clicks + mean_rate) / (shown + 1.0)
    drawn = rng.binomial(shown, np.clip(rate, 0.0, 1.0))
    values = rows.values.again(rng) if rows.values is not None else None
    return replace(rows, clicks=drawn.astype(np.float64), values=values)
