r"""Intervals where how users click was estimated: the model is fitted again and again.

An estimated user model adds its own error to every value, and is known only up to
gauge. So only differences of rankings of the same documents are estimated, in the gauge
where alpha is 1 and beta / alpha is 0 on average over the impressions: in units of
clicks at an average rank. Two resamples give the two intervals, each with a refit:

- *over sessions*: clicks are drawn again, with the click rates of this log;
- *over queries*: half of the queries is drawn, without replacement. Half-samples vary
  around the whole as the whole varies around the truth
  (:math:`S^2 / m \, (1 - m / n) = S^2 / n` for :math:`m = n / 2`), and no query enters
  twice, which would make features look better than they are.

The cost is two fits a replicate, one to half of the queries. They keep the pools of
ranks and the number of levels of a first fit, and start from it. A resample that tells
too little to be fitted is drawn again, a few times.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.documents import ClickRows
from affinerank.bias.gauge import inference_gauge
from affinerank.bias.interventions import fit_interventions
from affinerank.bias.level_mixture import (
    LevelMixture,
    MixtureSettings,
    fit_mixture,
)
from affinerank.bias.levels import MOST_LEVELS
from affinerank.bias.pooling import LEAST_CLICKS
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import JoinedCounts
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import affine
from affinerank.data.dataset import RankingDataset
from affinerank.errors import AffineRankError, AffineRankWarning, ConfigError, DataError
from affinerank.evaluation.labels import label_documents, mean_click_rate
from affinerank.evaluation.offpolicy import Estimate, Interval
from affinerank.progress import Progress, quiet

Floats = NDArray[np.float64]

REFITTED = ("mixture", "two-level", "interventions")
REPLICATES = 20
TRIES = 5


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Held-out clicks, and differences of rank weights to estimate from them.

    Attributes:
        joined: The counts.
        data: The queries and documents.
        rank_weights: ``[n_differences, n_docs]``; each adds up to 0 over the shown
            documents of a query, so that a shift of relevance does not matter.
    """

    joined: JoinedCounts
    data: RankingDataset
    rank_weights: Floats

    def by_query(self, users: UserModel) -> tuple[Floats, Floats]:
        """Differences ``[n_differences, n_queries]``, and shares ``[n_queries]``."""
        counts = self.joined.counts
        seen = np.bincount(counts.rank, counts.impressions)[1:]
        gauged = inference_gauge(users.to_depth(len(seen)), seen)
        labels = label_documents(self.joined, affine(counts, gauged), self.data)
        query = self.data.query_of_doc
        values = [labels.by_query(each, query) for each in self.rank_weights]
        return np.stack(values), labels.share

    def clicked_again(self, rng: np.random.Generator) -> Held:
        """The same lists, with clicks drawn again."""
        counts = self.joined.counts
        drawn = _clicks_again(
            counts.impressions, counts.clicks, mean_click_rate(counts), rng
        )
        table = counts.table
        table = table.set_column(
            table.column_names.index("clicks"), "clicks", [drawn.astype(np.int64)]
        )
        return replace(self, joined=replace(self.joined, counts=ClickCounts(table)))


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """The clicks that a user model was estimated from, and how.

    Attributes:
        rows: The counts.
        features: ``[n_docs, n_features]`` by number of the document, if there are any.
        method: Of ``REFITTED``.
        least_clicks: Ranks with fewer were pooled with the next.
        first: A fit to these clicks, which refits to resamples start from;
            interventions need none.
    """

    rows: ClickRows
    features: NDArray[np.float32] | None
    method: str
    least_clicks: float = LEAST_CLICKS
    first: LevelMixture | None = None

    def __post_init__(self) -> None:
        """Refuse a method that is not refitted."""
        if self.method not in REFITTED:
            raise ConfigError(
                f"these users were estimated by {self.method}, which is too slow to "
                f"repeat for an interval; estimate them by {', '.join(REFITTED)}"
            )

    def fitted(self, rng: np.random.Generator) -> Learnt:
        """The same, with a first fit."""
        if self.method == "interventions":
            return self
        most = 2 if self.method == "two-level" else MOST_LEVELS
        how = MixtureSettings(self.least_clicks, most)
        first = fit_mixture(self.rows, self.features, rng=rng, settings=how)
        return replace(self, first=first)

    def refit(self, rng: np.random.Generator, *, part: float = 1.0) -> UserModel:
        """Estimate the users from a resample, ``part`` of the clicks."""
        if self.first is not None:
            return fit_mixture(self.rows, self.features, rng=rng, like=self.first).users
        how = MixtureSettings(part * self.least_clicks)  # so that ranks pool alike
        return fit_interventions(self.rows, rng=rng, settings=how).users

    def half(self, chosen: NDArray[np.bool_]) -> Learnt:
        """The queries ``chosen [n_queries]``."""
        kept = chosen[self.rows.query]
        rows = ClickRows(
            *(
                getattr(self.rows, name)[kept]
                for name in ("doc", "query", "rank", "impressions", "clicks")
            )
        )
        return replace(self, rows=rows)

    def clicked_again(self, rng: np.random.Generator) -> Learnt:
        """The same lists, with clicks drawn again."""
        rows = self.rows
        shown = np.bincount(rows.rank, rows.impressions)
        rate = np.bincount(rows.rank, rows.clicks) / np.maximum(shown, 1.0)
        drawn = _clicks_again(rows.impressions, rows.clicks, rate[rows.rank], rng)
        return replace(self, rows=replace(rows, clicks=drawn))


def estimate_differences(
    held: Held,
    users: UserModel,
    learnt: Learnt,
    *,
    same: bool = False,
    replicates: int = REPLICATES,
    rng: np.random.Generator,
    progress: Progress = quiet,
) -> list[Estimate]:
    """Estimate differences of rankings with users that were estimated.

    Args:
        held: Held-out clicks, and the differences of rank weights.
        users: The estimated users.
        learnt: What they were estimated from, and are refitted to.
        same: Whether ``learnt`` are the held-out clicks, row by row.
        replicates: Refits for each of the two intervals.
        rng: Draws the resamples.
        progress: Told of each replicate.
    """
    if replicates < 2:
        raise ConfigError(f"an interval needs 2 replicates or more, got {replicates}")
    with warnings.catch_warnings():  # what there is to warn of holds for all refits
        warnings.simplefilter("ignore", AffineRankWarning)
        by_query, share = held.by_query(users)
        drawn = _replicates(held, learnt, same, rng.spawn(replicates), progress)
    values = by_query @ share
    variances = drawn.var(axis=0, ddof=1)
    found = []
    for value, *spread in zip(values.tolist(), *variances.tolist(), strict=True):
        intervals = [Interval.around(value, v, replicates - 1) for v in spread]
        found.append(Estimate(value, value, *intervals))
    return found


def _replicates(
    held: Held,
    learnt: Learnt,
    same: bool,
    rngs: Sequence[np.random.Generator],
    progress: Progress,
) -> Floats:
    """Differences of resamples ``[n, sessions or queries, n_differences]``."""
    progress("refitting users", 0, len(rngs))
    try:
        source = learnt.fitted(rngs[0].spawn(1)[0])
    except AffineRankError as error:
        raise _too_little(str(error)) from None

    def both(rng: np.random.Generator) -> list[Floats]:
        return [
            _refitted(resample, held, source, same, rng)
            for resample in (_sessions_again, _half_of_queries)
        ]

    drawn = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(both, rngs):
            drawn.append(found)
            progress("refitting users", len(drawn), len(rngs))
    return np.array(drawn)


Resample = Callable[[Held, Learnt, bool, np.random.Generator], Floats]


def _refitted(
    resample: Resample,
    held: Held,
    learnt: Learnt,
    same: bool,
    rng: np.random.Generator,
) -> Floats:
    """The differences of a resample; one that tells too little is drawn again."""
    fault = ""
    for _ in range(TRIES):
        try:
            return resample(held, learnt, same, rng)
        except AffineRankError as error:
            fault = str(error)
    raise _too_little(fault)


def _too_little(fault: str) -> DataError:
    return DataError(
        f"users cannot be refitted to resamples of the clicks ({fault}); give more of "
        "those they were estimated from (--estimated-from)"
    )


def _sessions_again(
    held: Held, learnt: Learnt, same: bool, rng: np.random.Generator
) -> Floats:
    again = held.clicked_again(rng)
    if same:
        clicks = again.joined.counts.clicks.astype(np.float64)
        source = replace(learnt, rows=replace(learnt.rows, clicks=clicks))
    else:
        source = learnt.clicked_again(rng)
    by_query, share = again.by_query(source.refit(rng))
    return np.asarray(by_query @ share)


def _half_of_queries(
    held: Held, learnt: Learnt, same: bool, rng: np.random.Generator
) -> Floats:
    chosen = _half(learnt.rows.query, rng)
    by_query, share = held.by_query(learnt.half(chosen).refit(rng, part=0.5))
    asked = chosen if same else _half(held.data.query_of_doc[held.joined.doc], rng)
    kept = np.flatnonzero(asked)
    return np.asarray(by_query[:, kept] @ share[kept] / share[kept].sum())


def _half(query: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Half of the queries that occur: ``[largest number + 1]``."""
    there = np.unique(query)
    chosen = np.zeros(int(there.max()) + 1, dtype=bool)
    chosen[rng.permutation(there)[: len(there) // 2]] = True
    return chosen


def _clicks_again(
    impressions: NDArray[np.generic],
    clicks: NDArray[np.generic],
    mean_rate: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Binomial clicks, of rates drawn a little to the mean of their rank."""
    shown = np.asarray(impressions, dtype=np.int64)
    rate = (np.asarray(clicks, dtype=np.float64) + mean_rate) / (shown + 1.0)
    return rng.binomial(shown, np.clip(rate, 0.0, 1.0)).astype(np.float64)
