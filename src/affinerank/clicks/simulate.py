"""Clicks drawn from a user model, on rankings of labelled data.

Two ways give the same distribution of what :mod:`affinerank.clicks.traffic` shows,
clicked document by document:

- :func:`simulate_counts` draws the counts themselves: sessions per query are
  multinomial, and so are rankers and changed lists given those; clicks are binomial.
  Its cost does not depend on the number of sessions.
- :func:`write_session_log` draws session by session and writes a Parquet log, a block
  of sessions at a time.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.counts_table import arrow_column
from affinerank.clicks.traffic import MOST, Simulation, Traffic, placements, prepare
from affinerank.errors import ConfigError
from affinerank.files import written_whole
from affinerank.progress import Progress, quiet

__all__ = [
    "Simulation",
    "Traffic",
    "prepare",
    "simulate_counts",
    "write_session_log",
]

Ints = NDArray[np.int64]

IMPRESSIONS_AT_ONCE = 1_000_000  # bounds the memory that writing a log takes


def simulate_counts(
    simulation: Simulation, n_sessions: int, *, rng: np.random.Generator
) -> ClickCounts:
    """Draw the counts of ``n_sessions`` sessions."""
    _require_sessions(n_sessions)
    data = simulation.data
    per_query = rng.multinomial(n_sessions, simulation.query_share)
    per_ranker = rng.multinomial(per_query, simulation.ranker_share)
    parts = [
        _draw_ranker(simulation, i, per_ranker[:, i], rng)
        for i in range(len(simulation.names))
    ]
    drawn = [np.concatenate(column) for column in zip(*parts, strict=True)]
    doc, rank, ranker, shown, clicked = _added_up(drawn)
    query = np.searchsorted(data.offsets, doc, side="right") - 1
    several = len(simulation.names) > 1
    return ClickCounts.from_columns(
        query_id=data.query_ids[query],
        doc_id=data.doc_ids[doc],
        rank=rank,
        impressions=shown,
        clicks=clicked,
        sessions=per_ranker[query, ranker],
        ranker=np.array(simulation.names)[ranker] if several else None,
    )


def write_session_log(
    simulation: Simulation,
    n_sessions: int,
    path: str | os.PathLike[str],
    *,
    rng: np.random.Generator,
    progress: Progress = quiet,
) -> dict[str, int]:
    """Write a click log of ``n_sessions`` sessions as Parquet, in bounded memory.

    One row per impression: ``session_id`` (from 1), ``query_id``, ``doc_id``, ``rank``,
    ``clicked``, and ``ranker`` where there are several. Returns the number of sessions,
    impressions and clicks.
    """
    _require_sessions(n_sessions)
    ids = {
        "query_id": arrow_column(simulation.data.query_ids),
        "doc_id": arrow_column(simulation.data.doc_ids),
        "ranker": arrow_column(np.array(simulation.names)),
    }
    totals = {"sessions": n_sessions, "impressions": 0, "clicks": 0}
    per_session = float(simulation.query_share @ simulation.shown)
    at_once = max(1, int(IMPRESSIONS_AT_ONCE / per_session))
    with written_whole(Path(path)) as aside:
        writer = None
        for first in range(0, n_sessions, at_once):
            progress("writing sessions", first, n_sessions)
            size = min(at_once, n_sessions - first)
            block = _draw_sessions(simulation, first, size, rng)
            totals["impressions"] += len(block["rank"])
            totals["clicks"] += int(np.count_nonzero(block["clicked"]))
            table = _log_table(block, ids, with_ranker=len(simulation.names) > 1)
            writer = writer or pq.ParquetWriter(aside, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
    progress("writing sessions", n_sessions, n_sessions)
    return totals


def _require_sessions(n_sessions: int) -> None:
    if not 1 <= n_sessions <= MOST:
        raise ConfigError(
            "the number of sessions must be 1 or more, and at most 10^15, "
            f"got {n_sessions}"
        )


def _draw_ranker(
    simulation: Simulation, ranker: int, sessions: Ints, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Draw document, rank, ranker, impressions and clicks of one ranker's sessions."""
    starts = simulation.data.offsets[:-1]
    docs, ranks, counts = [], [], []
    for block in placements(simulation, sessions, rng):
        place = starts[block.query] + block.base - 1
        docs.append(simulation.order[ranker][place])
        ranks.append(block.rank)
        counts.append(block.sessions)
    doc, rank, shown = (np.concatenate(c) for c in (docs, ranks, counts))
    rate = simulation.users.click_probability(rank, simulation.relevance[doc])
    clicked = rng.binomial(shown, np.clip(rate, 0.0, 1.0))
    return doc, rank, np.full(len(doc), ranker, dtype=np.int64), shown, clicked


def _added_up(drawn: list[Ints]) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Add impressions and clicks of one document, rank and ranker, and sort by them.

    A swap and a rotation can bring a document to the same rank.
    """
    doc, rank, ranker, shown, clicked = drawn
    order = np.lexsort((ranker, rank, doc))
    doc, rank, ranker = doc[order], rank[order], ranker[order]
    new = np.ones(len(doc), dtype=bool)
    new[1:] = (np.diff(doc) != 0) | (np.diff(rank) != 0) | (np.diff(ranker) != 0)
    first = np.flatnonzero(new)
    return (
        doc[first],
        rank[first],
        ranker[first],
        np.add.reduceat(shown[order], first),
        np.add.reduceat(clicked[order], first),
    )


def _draw_sessions(
    simulation: Simulation, first: int, size: int, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Draw sessions one by one: flat arrays over their impressions."""
    traffic = simulation.traffic
    bounds = np.cumsum(simulation.query_share)
    query = np.searchsorted(bounds / bounds[-1], rng.random(size), side="right")
    ranker = rng.choice(len(simulation.names), size, p=simulation.ranker_share)
    shown = simulation.shown[query]
    session = np.repeat(np.arange(size), shown)
    rank = np.arange(len(session)) - np.repeat(
        np.cumsum(shown) - shown, shown
    )  # from 0
    base = rank
    kind = rng.random(size)
    if traffic.swap > 0:
        pair = (rng.random(size) * (shown - 1)).astype(np.int64)
        swaps = ((kind < traffic.swap) & (shown > 1))[session]
        base = base + (swaps & (rank == pair[session])).astype(np.int64)
        base = base - (swaps & (rank == pair[session] + 1)).astype(np.int64)
    if traffic.rotate > 0:
        length = np.minimum(shown, traffic.rotate_first)
        shift = 1 + (rng.random(size) * (length - 1)).astype(np.int64)
        turned = (kind >= traffic.swap) & (kind < traffic.swap + traffic.rotate)
        moved = (turned & (shown > 1))[session] & (rank < length[session])
        target = (rank - shift[session]) % length[session]
        base = np.where(moved, target, base)
    place = simulation.data.offsets[query[session]] + base
    doc = simulation.order[ranker[session], place]
    rate = simulation.users.click_probability(rank + 1, simulation.relevance[doc])
    return {
        "session_id": session + first + 1,
        "query_id": query[session],
        "doc_id": doc,
        "rank": (rank + 1).astype(np.int32),
        "clicked": rng.random(len(rate)) < rate,
        "ranker": ranker[session],
    }


def _log_table(
    block: dict[str, NDArray[Any]],
    ids: dict[str, pa.Array],
    *,
    with_ranker: bool,
) -> pa.Table:
    """Put ids in the place of numbers."""
    columns = {
        name: ids[name].take(pa.array(values)) if name in ids else pa.array(values)
        for name, values in block.items()
        if name != "ranker" or with_ranker
    }
    return pa.table(columns)
