"""What the sections of an audit are written from."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from affinerank.audit.assumption_tests import DEPENDENT, Assumption, check_assumptions
from affinerank.audit.first_rank import FirstRank, evaluate_first_rank
from affinerank.bias import Estimate, EstimationSettings
from affinerank.bias.mixture.comparison import best_model
from affinerank.bias.overlap import Overlap, overlap_of
from affinerank.bias.pooling import RankPools, pool_ranks
from affinerank.counts.counts import ClickCounts
from affinerank.counts.movement import Movement, measure_movement
from affinerank.counts.rows import (
    ClickRows,
    codes,
    document_ids,
    join_counts,
    note_unmatched,
)
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import METHOD
from affinerank.pipeline.debias import debias
from affinerank.pipeline.steps.click_model import estimate_click_model
from affinerank.support.arrays import Floats, joint
from affinerank.support.errors import AffineRankWarning, DataError
from affinerank.support.progress import Progress

if TYPE_CHECKING:
    from affinerank.audit.survey import LogSurvey


DEEPEST = 10  # rank whose precision is looked at
Average = tuple[ClickRows, Floats, Floats]  # rows by rank, with their alpha and beta


@dataclass(slots=True, eq=False)
class Facts:
    """A log, and what was estimated from it; see :func:`facts_of`.

    Attributes:
        counts: As given.
        rows: The same by document and rank; all else added up.
        ids: ``query_id`` and ``doc_id`` of each document of the rows.
        pools: Which ranks have enough clicks to stand alone.
        overlap: How far documents were shown at several ranks.
        movement: How often they were away from their usual rank, undeclared.
        features: Whether features were given.
        survey: Of the log, where one was read.
        days: How many days it covers, where that is known.
        estimate: How users click; none if that was refused.
        rough_click_model: The same; if that was refused, a rough estimate, if there is
            any. It is enough to plan swaps by.
        refused: Why it was, in words.
        warned: What the estimation warned of.
        average: Rows of ranks that users have values for, with their alpha and beta
            there: see :func:`average_users`.
        first: Whether other documents should come first; none without an estimate that
            has bands.
        assumptions: What the model takes for granted, tested.
        labels: Debiased, by features if there are any, by rank without; none without
            an estimate.
    """

    counts: ClickCounts
    rows: ClickRows
    ids: pa.Table
    pools: RankPools
    overlap: Overlap
    movement: Movement
    features: bool
    survey: LogSurvey | None
    days: float | None
    estimate: Estimate | None = None
    rough_click_model: Any = None
    refused: str | None = None
    warned: tuple[str, ...] = ()
    average: Average | None = None
    first: FirstRank | None = None
    assumptions: tuple[Assumption, ...] = ()
    labels: pa.Table | None = None

    @property
    def repeated_sessions(self) -> int:
        """Sessions of queries that came again."""
        return int(self.rows.sessions[self.rows.sessions > 1].sum())

    @property
    def by_last_click(self) -> bool:
        """Whether users were estimated by rank and last click."""
        if self.estimate is None or not self.estimate.models:
            return False
        return best_model(self.estimate.models).view.context

    @property
    def misfit(self) -> bool:
        """Whether clicks depend on the clicks above, and users were estimated without.

        Then held-out clicks are predicted no better by the last click.
        """
        if self.estimate is None or self.by_last_click:
            return False
        return DEPENDENT in [each.name for each in self.assumptions if each.broken]

    @property
    def identified(self) -> Literal["yes", "partly", "no"]:
        """How far clicks determine alpha and beta of the ranks."""
        if self.estimate is None:
            return "no"
        bands = self.estimate.inference.known
        return "yes" if bands and not self.estimate.weak_ranks else "partly"

    @property
    def precision(self) -> dict[str, Any] | None:
        """The worst of the first ten ranks, and alpha's ``relative_error`` there."""
        if self.estimate is None or not self.estimate.inference.known:
            return None
        bands, pools = self.estimate.inference, self.estimate.pools
        relative = bands.alpha_error / np.abs(bands.alpha)
        worst = int(np.argmax(relative[: pools.of_rank[:DEEPEST][-1] + 1]))
        return {"ranks": pools.names[worst], "relative_error": float(relative[worst])}


def facts_of(
    counts: ClickCounts,
    data: RankingDataset | None,
    survey: LogSurvey | None,
    days: float | None,
    *,
    seed: int,
    progress: Progress,
) -> Facts:
    """Estimate how users click, or find out why that is refused."""
    merged = counts.merged(*(key for key in ("ranker", "split") if key in counts.keys))
    detailed, ids = join_counts(merged), document_ids(merged)
    rows = detailed.merged()
    pools = pool_ranks(rows)
    facts = Facts(
        counts=counts,
        rows=rows,
        ids=ids,
        pools=pools,
        overlap=overlap_of(rows, pools),
        movement=measure_movement(counts),
        features=data is not None,
        survey=survey,
        days=days,
    )
    how = EstimationSettings(seed=seed)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", AffineRankWarning)
        try:
            estimate = estimate_click_model(
                counts, data, settings=how, progress=progress
            )
        except DataError as error:
            if data is not None:  # data of other documents are a mistake, no finding
                note_unmatched(join_counts(merged, data))
            facts.refused = str(error)
            facts.rough_click_model = _rough_click_model(counts, data, seed)
        else:
            facts.estimate, bands = estimate, estimate.display
            facts.rough_click_model = estimate.click_model
            facts.average = average_click_model(estimate, detailed)
            if bands.covariance is not None:
                known = bands.covariance, estimate.pools
                facts.first = evaluate_first_rank(*facts.average, *known)
            facts.labels = debias(
                merged, estimate.click_model, data=data, seed=seed, progress=progress
            )
    facts.warned = tuple(dict.fromkeys(str(warning.message) for warning in warned))
    rankers = None
    if "ranker" in counts.keys:
        rankers = codes(counts.column("ranker"))[counts.impressions > 0]
    facts.assumptions = check_assumptions(join_counts(counts), rankers, facts.estimate)
    return facts


def _rough_click_model(
    counts: ClickCounts, data: RankingDataset | None, seed: int
) -> Any:
    """Estimate users although clicks identify too little; ``None`` if none can be."""
    settings = EstimationSettings(METHOD, seed=seed)
    try:
        return estimate_click_model(counts, data, settings=settings).click_model
    except DataError:
        return None


def average_click_model(estimate: Estimate, rows: ClickRows) -> Average:
    """Average alpha and beta of each document at each rank over its impressions.

    A document of relevance g has alpha g + beta clicks per impression there, whatever
    users go by besides the rank. Alpha is 1 and beta 0 at the first rank.
    """
    known = rows.select(rows.rank <= estimate.click_model.depth)
    values, shown = estimate.click_model.at(known), known.impressions
    _, at = np.unique(joint(known.doc, known.rank), return_inverse=True)
    alpha, beta = (np.bincount(at, v * shown) / np.bincount(at, shown) for v in values)
    top = estimate.average or estimate.click_model
    slope, intercept = top.alpha[0], top.beta[0]
    return known.merged(), alpha / slope, beta - alpha * intercept / slope


def same_documents(rows: ClickRows, alpha: Floats, beta: Floats) -> dict[int, float]:
    """Return click rates by rank of a document of mean relevance: bias alone.

    Estimates may leave 0 to 1; click rates cannot.
    """
    shown = rows.impressions
    mean = float(np.sum((rows.clicks - beta * shown) / alpha) / shown.sum())
    expected, seen = rows.by_rank((alpha * mean + beta) * shown), rows.by_rank(shown)
    at = np.flatnonzero(seen)
    rates = np.clip(expected[at] / seen[at], 0.0, 1.0)
    return dict(zip((at + 1).tolist(), rates.tolist(), strict=True))
