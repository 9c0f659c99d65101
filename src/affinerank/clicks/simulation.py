"""Clicks drawn from a click model, on rankings of labelled data.

Two ways draw from the same placements (:mod:`affinerank.clicks.traffic`):

- :func:`simulate_counts` draws the counts themselves: sessions per query are
  multinomial, and so are rankers and changed lists given those; clicks are binomial.
  Its cost does not depend on the number of sessions. Users who do not go by rank alone
  are simulated session by session, and counted; so are all to count the context.
- :func:`write_session_log` draws session by session and writes a Parquet log, a block
  of sessions at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.clicks.traffic import MOST, Block, Simulation
from affinerank.counts.counts import ClickCounts
from affinerank.support.arrays import Ints, Rng, runs
from affinerank.support.arrow import arrow_column
from affinerank.support.errors import ConfigError
from affinerank.support.files import PathLike, atomic_write
from affinerank.support.progress import Progress, no_progress

IMPRESSIONS_AT_ONCE = 1_000_000  # bounds the memory that sessions take


def simulate_counts(
    simulation: Simulation, n_sessions: int, *, rng: Rng, context: bool = False
) -> ClickCounts:
    """Draw the counts of ``n_sessions`` sessions, by the last click above if asked."""
    require_sessions(n_sessions)
    by_rank = simulation.click_model.click_probability(np.array([1]), np.array([0.0]))
    if by_rank is None or context:
        return _counted_sessions(simulation, n_sessions, rng, context)
    per_query = rng.multinomial(n_sessions, simulation.query_share)
    per_ranker = rng.multinomial(per_query, simulation.ranker_share)
    parts = []
    for ranker in range(len(simulation.names)):
        blocks = list(simulation.placed(ranker, per_ranker[:, ranker], rng))
        doc, rank, shown = (np.concatenate(c) for c in zip(*blocks, strict=True))
        rate = simulation.click_model.click_probability(rank, simulation.relevance[doc])
        clicked = rng.binomial(shown, np.clip(np.asarray(rate), 0.0, 1.0))
        none = np.zeros_like(doc)  # neither segment nor context
        parts.append(np.stack([doc, rank, none + ranker, none, none, shown, clicked]))
    return _counts(simulation, parts, per_ranker[:, :, None], context)


def write_session_log(
    simulation: Simulation,
    n_sessions: int,
    path: PathLike,
    *,
    rng: Rng,
    progress: Progress = no_progress,
) -> dict[str, int]:
    """Write a click log of ``n_sessions`` sessions as Parquet, in bounded memory.

    One row per impression: ``session_id`` (from 1), ``query_id``, ``doc_id``, ``rank``,
    ``clicked``, and ``ranker`` and ``segment`` where there are several; where policies
    change lists at random, the ``policy``; where one draws which documents are shown,
    the ``propensity``: how likely it is to show this one at this rank. Returns the
    number of sessions, impressions and clicks.
    """
    require_sessions(n_sessions)
    ids = {
        "query_id": arrow_column(simulation.data.query_ids),
        "doc_id": arrow_column(simulation.data.doc_ids),
        "ranker": arrow_column(np.array(simulation.names)),
        "segment": arrow_column(np.array(simulation.segments, dtype=str)),
    }
    totals = {"sessions": n_sessions, "impressions": 0, "clicks": 0}
    told = {"ranker": len(simulation.names) > 1, "segment": bool(simulation.segments)}
    propensity = simulation.propensity() if simulation.selects else None
    with atomic_write(Path(path)) as aside:
        writer = None
        for first, block in _blocks(simulation, n_sessions, rng):
            progress("writing sessions", first, n_sessions)
            totals["impressions"] += len(block["rank"])
            totals["clicks"] += int(np.count_nonzero(block["clicked"]))
            block["session_id"] += first + 1
            if propensity is not None:
                at = (block["ranker"], block["doc_id"], block["rank"] - 1)
                block["propensity"] = propensity[at]
            columns = {
                name: ids[name].take(pa.array(values)) if name in ids else values
                for name, values in block.items()
                if told.get(name, True)
            }
            if simulation.policy:
                columns["policy"] = pa.repeat(simulation.policy, len(block["rank"]))
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(aside, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
    progress("writing sessions", n_sessions, n_sessions)
    return totals


def _blocks(
    simulation: Simulation, n_sessions: int, rng: Rng
) -> Iterator[tuple[int, Block]]:
    """Blocks of sessions of about ``IMPRESSIONS_AT_ONCE`` impressions."""
    per_session = simulation.query_share @ simulation.shown
    at_once = max(1, int(IMPRESSIONS_AT_ONCE / per_session))
    for first in range(0, n_sessions, at_once):
        yield first, simulation.draw(min(at_once, n_sessions - first), rng)


def _counted_sessions(
    simulation: Simulation, n_sessions: int, rng: Rng, context: bool
) -> ClickCounts:
    """Draw sessions, and count them block by block."""
    n_segments = max(1, len(simulation.segments))
    shape = (simulation.data.n_queries, len(simulation.names), n_segments)
    sessions = np.zeros(shape, dtype=np.int64)
    parts = []
    for _, block in _blocks(simulation, n_sessions, rng):
        top = block["rank"] == 1  # every session has one
        names = ("query_id", "ranker", "segment")
        np.add.at(sessions, tuple(block[name][top] for name in names), 1)
        above = last_click_above(block) if context else np.zeros_like(block["doc_id"])
        keys = [block[name] for name in ("doc_id", "rank", "ranker", "segment")]
        one, clicked = np.ones_like(above), block["clicked"].astype(np.int64)
        parts.append(_added_up(np.stack([*keys, above, one, clicked])))
    return _counts(simulation, parts, sessions, context)


def last_click_above(block: Block) -> Ints:
    """``[n]`` rank of the last click above in the session; 0 for none.

    >>> sessions = {"session_id": [0, 0, 0, 1], "rank": [1, 2, 3, 1]}
    >>> clicked = {"clicked": [True, False, True, False]}
    >>> last_click_above({k: np.array(v) for k, v in (sessions | clicked).items()})
    array([0, 1, 1, 0])
    """
    session, rank = block["session_id"], block["rank"].astype(np.int64)
    # Sessions follow each other: each has a range of numbers of its own.
    base = session * (rank.max(initial=0) + 1)
    last = np.maximum.accumulate(base + np.where(block["clicked"], rank, 0))
    above = np.zeros_like(last)
    above[1:] = last[:-1]
    return np.asarray(np.maximum(above - base, 0), dtype=np.int64)


def _counts(
    simulation: Simulation, parts: list[Ints], sessions: Ints, context: bool
) -> ClickCounts:
    """Put together parts ``[7, n]``, and sessions by query, ranker and segment."""
    data, segments = simulation.data, simulation.segments
    keeps = simulation.selects and not context
    propensity = simulation.propensity() if keeps else np.zeros((0, 0, 0))
    for segment in range(sessions.shape[2]):  # documents that could have been shown
        ranker, doc, place = np.nonzero(propensity)
        none = np.zeros_like(doc)
        cells = [doc, place + 1, ranker, none + segment, none, none, none]
        issued = sessions[data.query_of_doc[doc], ranker, segment] > 0
        parts.append(np.stack(cells)[:, issued])
    added = _added_up(np.concatenate(parts, axis=1))
    doc, rank, ranker, segment, above, shown, clicked = added
    query = np.searchsorted(data.offsets, doc, side="right") - 1
    several, issued = len(simulation.names) > 1, sessions[query, ranker, segment]
    return ClickCounts.from_columns(
        query_id=data.query_ids[query],
        doc_id=data.doc_ids[doc],
        rank=rank,
        impressions=shown,
        clicks=clicked,
        sessions=issued,
        context=above if context else None,
        ranker=np.array(simulation.names)[ranker] if several else None,
        segment=np.array(segments)[segment] if segments else None,
        exposure=issued * propensity[ranker, doc, rank - 1] if keeps else None,
        randomised=shown if simulation.policy else None,
    )


def _added_up(rows: Ints) -> Ints:
    """Add up impressions and clicks, the last two of ``rows [7, n]``, by the others.

    Two policies can bring a document to the same rank.
    """
    order, first = runs(*rows[-3::-1])
    sums = np.add.reduceat(rows[-2:, order], first, axis=1)
    return np.concatenate([rows[:-2, order[first]], sums])


def require_sessions(n_sessions: int) -> None:
    """Reject a number of sessions that cannot be drawn."""
    if not 1 <= n_sessions <= MOST:
        raise ConfigError(
            f"sessions must be 1 or more, and at most 10^15, got {n_sessions}"
        )
