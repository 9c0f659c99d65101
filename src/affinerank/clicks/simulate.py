"""Clicks drawn from a user model, on rankings of labelled data.

Two ways draw from the same placements (:mod:`affinerank.clicks.traffic`):

- :func:`simulate_counts` draws the counts themselves: sessions per query are
  multinomial, and so are rankers and changed lists given those; clicks are binomial.
  Its cost does not depend on the number of sessions. Users who do not go by rank alone
  are simulated session by session, and counted.
- :func:`write_session_log` draws session by session and writes a Parquet log, a block
  of sessions at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.arrays import Ints
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.traffic import MOST, Block, Simulation
from affinerank.data.parquet import arrow_column
from affinerank.errors import ConfigError
from affinerank.files import written_whole
from affinerank.progress import Progress, quiet

Drawn = tuple[Ints, Ints, Ints, Ints, Ints]
IMPRESSIONS_AT_ONCE = 1_000_000  # bounds the memory that sessions take


def simulate_counts(
    simulation: Simulation, n_sessions: int, *, rng: np.random.Generator
) -> ClickCounts:
    """Draw the counts of ``n_sessions`` sessions."""
    _require_sessions(n_sessions)
    by_rank = simulation.users.click_probability(np.array([1]), np.array([0.0]))
    if by_rank is None:
        return _counted_sessions(simulation, n_sessions, rng)
    per_query = rng.multinomial(n_sessions, simulation.query_share)
    per_ranker = rng.multinomial(per_query, simulation.ranker_share)
    parts = []
    for ranker in range(len(simulation.names)):
        blocks = list(simulation.placed(ranker, per_ranker[:, ranker], rng))
        doc, rank, shown = (np.concatenate(c) for c in zip(*blocks, strict=True))
        rate = simulation.users.click_probability(rank, simulation.relevance[doc])
        clicked = rng.binomial(shown, np.clip(np.asarray(rate), 0.0, 1.0))
        parts.append((doc, rank, np.full(len(doc), ranker), shown, clicked))
    return _counts(simulation, parts, per_ranker)


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
    several = len(simulation.names) > 1
    with written_whole(Path(path)) as aside:
        writer = None
        for first, block in _blocks(simulation, n_sessions, rng):
            progress("writing sessions", first, n_sessions)
            totals["impressions"] += len(block["rank"])
            totals["clicks"] += int(np.count_nonzero(block["clicked"]))
            block["session_id"] += first + 1
            columns = {
                name: ids[name].take(pa.array(values)) if name in ids else values
                for name, values in block.items()
                if several or name != "ranker"
            }
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(aside, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
    progress("writing sessions", n_sessions, n_sessions)
    return totals


def _blocks(
    simulation: Simulation, n_sessions: int, rng: np.random.Generator
) -> Iterator[tuple[int, Block]]:
    """Blocks of sessions of about ``IMPRESSIONS_AT_ONCE`` impressions."""
    per_session = simulation.query_share @ simulation.shown
    at_once = max(1, int(IMPRESSIONS_AT_ONCE / per_session))
    for first in range(0, n_sessions, at_once):
        yield first, simulation.draw(min(at_once, n_sessions - first), rng)


def _counted_sessions(
    simulation: Simulation, n_sessions: int, rng: np.random.Generator
) -> ClickCounts:
    """Draw sessions, and count them block by block."""
    shape = (simulation.data.n_queries, len(simulation.names))
    per_ranker = np.zeros(shape, dtype=np.int64)
    parts = []
    for _, block in _blocks(simulation, n_sessions, rng):
        top = block["rank"] == 1  # every session has one
        np.add.at(per_ranker, (block["query_id"][top], block["ranker"][top]), 1)
        rank, one = block["rank"].astype(np.int64), np.ones(len(top), dtype=np.int64)
        clicked = block["clicked"].astype(np.int64)
        parts.append(_added_up(block["doc_id"], rank, block["ranker"], one, clicked))
    return _counts(simulation, parts, per_ranker)


def _counts(
    simulation: Simulation, parts: list[Drawn], per_ranker: Ints
) -> ClickCounts:
    data = simulation.data
    merged = (np.concatenate(column) for column in zip(*parts, strict=True))
    doc, rank, ranker, shown, clicked = _added_up(*merged)
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


def _added_up(doc: Ints, rank: Ints, ranker: Ints, shown: Ints, clicked: Ints) -> Drawn:
    """Add impressions and clicks of one document, rank and ranker, and sort by them.

    Two policies can bring a document to the same rank.
    """
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


def _require_sessions(n_sessions: int) -> None:
    if not 1 <= n_sessions <= MOST:
        raise ConfigError(
            f"sessions must be 1 or more, and at most 10^15, got {n_sessions}"
        )
