"""What the sections of an audit are written from."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from affinerank.audit.first_rank import FirstRank, judge_first_rank
from affinerank.bias import Estimate, EstimationSettings
from affinerank.bias.gauge import display_gauge
from affinerank.bias.overlap import Overlap, overlap_of
from affinerank.bias.pooling import RankPools, pool_ranks
from affinerank.bias.swaps import DEEPEST
from affinerank.clicks.counts import EXTRA_KEYS, ClickCounts
from affinerank.clicks.rows import ClickRows, document_ids, note_unmatched, rows_of
from affinerank.data.dataset import RankingDataset
from affinerank.errors import AffineRankWarning, DataError
from affinerank.pipeline.debiasing import debias
from affinerank.pipeline.estimation import estimate_users
from affinerank.progress import Progress

if TYPE_CHECKING:
    from affinerank.audit.survey import LogSurvey


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """A log, and what was estimated from it.

    Attributes:
        counts: As given.
        rows: The same by document and rank; rankers, segments and splits added up.
        ids: ``query_id`` and ``doc_id`` of each document of the rows.
        pools: Which ranks have enough clicks to stand alone.
        overlap: How far documents were shown at several ranks.
        estimate: How users click; none if that was refused.
        refused: Why it was, in words.
        warned: What the estimation warned of.
        first: Whether other documents should come first; none without an estimate.
        labels: Debiased, by features if there are any, by rank without; none without
            an estimate.
        features: Whether features were given.
        survey: Of the log, where one was read.
        days: How many days it covers, where that is known.
    """

    counts: ClickCounts
    rows: ClickRows
    ids: pa.Table
    pools: RankPools
    overlap: Overlap
    estimate: Estimate | None
    refused: str | None
    warned: tuple[str, ...]
    first: FirstRank | None
    labels: pa.Table | None
    features: bool
    survey: LogSurvey | None
    days: float | None

    @property
    def repeated_sessions(self) -> int:
        """Sessions of queries that came again."""
        return int(self.rows.sessions[self.rows.sessions > 1].sum())

    @property
    def identified(self) -> Literal["yes", "partly", "no"]:
        """How far clicks determine alpha and beta of the ranks."""
        if self.estimate is None:
            return "no"
        return "partly" if self.estimate.weak_ranks else "yes"

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
    merged = counts.merged(*(key for key in EXTRA_KEYS if key in counts.keys))
    rows = rows_of(merged)
    pools = pool_ranks(rows)
    how = EstimationSettings(seed=seed)
    estimate, refused, first, labels = None, None, None, None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", AffineRankWarning)
        try:
            estimate = estimate_users(counts, data, settings=how, progress=progress)
        except DataError as error:
            if data is not None:  # data of other documents are a mistake, no finding
                note_unmatched(rows_of(merged, data))
            refused = str(error)
        else:
            users = display_gauge(estimate.users)
            known = rows.select(rows.rank <= users.depth)
            first = judge_first_rank(known, users, estimate.display, estimate.pools)
            labels = debias(
                merged, estimate.users, data=data, seed=seed, progress=progress
            )
    return Facts(
        counts,
        rows,
        document_ids(merged),
        pools,
        overlap_of(rows, pools),
        estimate,
        refused,
        tuple(dict.fromkeys(str(warning.message) for warning in warned)),
        first,
        labels,
        data is not None,
        survey,
        days,
    )
