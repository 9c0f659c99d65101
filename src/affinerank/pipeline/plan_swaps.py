"""A plan of swaps, from counts and users: until users or a comparison are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.bias.swap_design import (
    Board,
    design,
    errors_of,
    needed,
    of_difference,
    of_users,
    uniform,
)
from affinerank.clicks.models import ClickModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.holdout import ids_of, train_part
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import CORRECTION, EVALUATOR
from affinerank.evaluation.rank_weights import DCG_10, logged_weights, shown_weights
from affinerank.pipeline.steps.weighing import weigh
from affinerank.rankers.blend import AnyRanker
from affinerank.rankers.ranker import score
from affinerank.support.arrays import Floats
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import atomic_write
from affinerank.support.lists import discount

TARGET = 0.1
DEEPEST = 10  # rank, for users
DEEPEST_COMPARED = 50
DECIDED = 1.96  # standard errors


@dataclass(frozen=True, slots=True, eq=False)
class SwapPlan:
    """Which documents to exchange, in how many sessions.

    Attributes:
        goal: What it is for, in words.
        error_now: Standard error without swaps.
        target: Standard error wanted.
        error: Standard error that the plan comes to.
        sessions_of_uniform_swaps: Adjacent ones that come to the target; ``None`` if
            none do.
        table: ``query_id, upper_doc, lower_doc, upper_rank, lower_rank, sessions, loss
            of DCG``, one row per swap.
        by_rank: Standard error of alpha and beta, where users are the goal.
        difference: Estimated, where a comparison is.
    """

    goal: str
    error_now: float
    target: float
    error: float
    sessions_of_uniform_swaps: float | None
    table: pa.Table
    by_rank: Sequence[dict[str, float]] = ()
    difference: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return totals and ranks as plain data."""
        ranks = ["upper_rank", "lower_rank"]
        sums = [("sessions", "sum"), ("loss", "sum"), ("query_id", "count_distinct")]
        names = ["upper", "lower", "sessions", "dcg_lost", "queries"]
        pairs = self.table.group_by(ranks).aggregate(sums).rename_columns(names)
        plain = [f.name for f in fields(self) if f.name != "table"]
        return {name: getattr(self, name) for name in plain} | {
            "sessions": int(np.sum(self.table["sessions"].to_numpy())),
            "swaps": self.table.num_rows,
            "dcg_lost": float(np.sum(self.table["loss"].to_numpy())),
            "pairs": pairs.sort_by("sessions").to_pylist()[::-1],
        }

    def save(self, path: Path) -> None:
        """Write the swaps as Parquet, whole or not at all."""
        with atomic_write(path) as aside:
            pq.write_table(self.table, aside, compression="zstd")


def plan_swaps(
    counts: ClickCounts,
    click_model: ClickModel,
    *,
    data: RankingDataset | None = None,
    rankers: tuple[AnyRanker, ...] = (),
    target: float | None = None,
    deepest: int | None = None,
) -> SwapPlan:
    """Plan the fewest sessions with swaps until something is known.

    Args:
        counts: Clicks so far.
        click_model: How users click, as far as it is known.
        data: Features, for rankers.
        rankers: None: alpha and beta are to be known. One or two: whether the DCG@10 of
            the first differs from that of the second, or of the logged ranking.
        target: Standard error wanted: of alpha, in units of alpha, in root mean square
            over ranks (0.1); or of the difference (a 95 % interval then leaves out 0).
        deepest: Rank down to which documents are exchanged.
    """
    if len(rankers) > 2 or (rankers and data is None):
        raise ConfigError("compare one or two rankers, with their data (--data)")
    if target is not None and not target > 0:
        raise ConfigError(f"the target is a standard error above 0, got {target:g}")
    part = train_part(counts)
    # Relevance is estimated from rows with all that users go by; the plan goes by rank.
    detailed_rows = join_counts(part, data)
    rows = detailed_rows.merged()
    depth = min(deepest or (DEEPEST_COMPARED if rankers else DEEPEST), rows.depth)
    if depth < 2:
        raise DataError("swaps need lists of two documents or more")
    alpha, beta = average_by_rank(click_model, detailed_rows, depth)
    if not np.all(alpha > 0):
        raise DataError("swaps are planned for users whose alpha is above 0")
    found = weigh(detailed_rows, EVALUATOR, click_model)
    relevance = np.where(found.known, np.clip(found.weight, 0.0, 1.0), 0.0)
    board = Board.of(rows, alpha, beta, relevance)
    difference = None
    if rankers:
        of: Any = data
        ranked = [shown_weights(score(each, of), rows, DCG_10) for each in rankers]
        first, second = (*ranked, logged_weights(rows, DCG_10))[:2]
        over = rows.share[rows.query_of_doc] * (first - second)
        affine = weigh(detailed_rows, f"{CORRECTION}(rows=information)", click_model)
        difference = float(np.sum(over * np.where(affine.known, affine.weight, 0.0)))
        off = np.ones(rows.n_docs, dtype=bool)
        off[board.doc] = False
        rest = np.sum((over**2 * affine.variance)[off & affine.known])
        variance = of_difference(board, over[board.doc], float(rest))
        goal = "whether the DCG@10 of two rankings differs"
        wanted = target or abs(difference) / DECIDED
    else:
        variance, wanted = of_users(board), target or TARGET
        goal = f"alpha and beta of ranks 2 to {depth}"
    now = float(np.sqrt(variance(board.impressions)[0]))
    plan = design(board, variance, wanted) if wanted else None
    if plan is None:
        raise DataError(
            f"no number of swaps down to rank {depth} brings the standard error to "
            f"{wanted:.2g}; allow a larger one (--target), or log for longer"
        )
    lengths = np.zeros(rows.n_queries, dtype=np.int64)
    np.maximum.at(lengths, rows.query, rows.rank)
    by_rank = []
    if not rankers:
        errors = errors_of(board, board.after(plan.swaps, plan.sessions))
        columns = (range(2, depth + 1), alpha[1:].tolist(), beta[1:].tolist(), *errors)
        names = ("rank", "alpha", "beta", "alpha_error", "beta_error")
        by_rank = pa.table(dict(zip(names, columns, strict=True))).to_pylist()
    by_uniform = needed(variance, uniform(board, lengths), wanted)
    table = _table(board, plan, ids_of(part, data))
    told = (goal, now, wanted, plan.error, by_uniform, table)
    return SwapPlan(*told, by_rank, difference)


def average_by_rank(
    click_model: ClickModel, rows: ClickRows, depth: int
) -> tuple[Floats, Floats]:
    """Return alpha and beta of ranks 1 to ``depth``, as means over impressions.

    Users may go by their last click or by their segment, too. A rank without
    impressions lies on the line between its neighbours.
    """
    impressions = rows.by_rank(rows.impressions)
    shown = np.flatnonzero(impressions)
    alpha_of_row, beta_of_row = click_model.at(rows)
    alpha_at_shown = rows.by_rank(alpha_of_row * rows.impressions)[shown]
    beta_at_shown = rows.by_rank(beta_of_row * rows.impressions)[shown]
    ranks = np.arange(depth)
    alpha = np.interp(ranks, shown, alpha_at_shown / impressions[shown])
    beta = np.interp(ranks, shown, beta_at_shown / impressions[shown])
    return alpha, beta


def _table(board: Board, plan: Any, ids: pa.Table) -> pa.Table:
    """One row for each swap, with the ids of its documents."""
    used = np.flatnonzero(plan.sessions)
    upper, lower = (each[used] for each in plan.swaps)
    first, second = (ids.take(pa.array(board.doc[each])) for each in (upper, lower))
    sessions = plan.sessions[used]
    worth = discount(board.rank[upper]) - discount(board.rank[lower])
    loss = sessions * worth * (board.relevance[upper] - board.relevance[lower])
    return pa.table(
        {
            "query_id": first["query_id"],
            "upper_doc": first["doc_id"],
            "lower_doc": second["doc_id"],
            "upper_rank": board.rank[upper],
            "lower_rank": board.rank[lower],
            "sessions": sessions.astype(np.int64),
            "loss": loss,
        }
    )
