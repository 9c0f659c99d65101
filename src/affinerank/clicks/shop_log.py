"""Write the log of the built-in shop, with what a shop's own log has.

A row per product shown, in the order of time::

    session_id       s0000001, one search by one user
    timestamp        when the search began, within one month; most are in the evening
    user_id          a user has about three sessions, with the same taste
    query            what was typed
    product_id
    page, position   positions restart at 1 on each page of ten
    results_before   products on the pages before
    clicked          0 or 1
    purchased        0 or 1; clicks on relevant products end in more purchases
    ranker           v1, and from the 19th day on v2
    policy           the policies that changed lists at random, if any
    segment          of the users, if the click model tells segments apart

CSV or Parquet, by the name of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from affinerank.clicks.simulation import IMPRESSIONS_AT_ONCE, require_sessions
from affinerank.clicks.traffic import Block, Simulation
from affinerank.data.dataset import RankingDataset
from affinerank.support.arrays import Ints, Rng
from affinerank.support.files import atomic_write
from affinerank.support.progress import Progress, no_progress

PAGE = 10  # products
SECONDS_OF_DAY = 86_400
FIRST_DAY = datetime(2026, 3, 1, tzinfo=UTC)
DAYS = 30
DAYS_OF_V1 = 18
RANKERS = ("v1", "v2")
SESSIONS_OF_USER = 3
# How busy each hour of a day is.
HOUR_WEIGHTS = np.array(
    [1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 6, 6, 6, 6, 6, 6, 7, 8, 9, 10, 9, 7, 4, 2]
)
PURCHASE_RATE = np.array([0.01, 0.03, 0.06, 0.15, 0.3])  # of clicks, by label


@dataclass(frozen=True, slots=True)
class Audience:
    """Users who are shown lists of their own.

    Attributes:
        share: Share of the users.
        by_ranker: What each ranker shows them, and how they click.
    """

    share: float
    by_ranker: tuple[Simulation, ...]


@dataclass(frozen=True, slots=True)
class _Calendar:
    """When sessions begin, and whose they are.

    Attributes:
        seconds: ``[n_sessions]`` since the first day began, in order.
        user: ``[n_sessions]``
        audience: ``[n_sessions]`` that the user belongs to.
    """

    seconds: Ints
    user: Ints
    audience: Ints

    @classmethod
    def drawn(cls, n_sessions: int, shares: Sequence[float], rng: Rng) -> _Calendar:
        """Draw them: days are equally busy, hours are not."""
        day = rng.integers(DAYS, size=n_sessions)
        hour = rng.choice(24, size=n_sessions, p=HOUR_WEIGHTS / HOUR_WEIGHTS.sum())
        second = rng.integers(3600, size=n_sessions)
        seconds = np.sort(day * SECONDS_OF_DAY + hour * 3600 + second)
        n_users = max(1, n_sessions // SESSIONS_OF_USER)
        user = rng.integers(n_users, size=n_sessions)
        audience_of_user = rng.choice(len(shares), size=n_users, p=shares)
        return cls(seconds, user, audience_of_user[user])

    def sessions_of(self, audience: int, ranker: int, first: int, last: int) -> Ints:
        """Return the sessions from ``first``, before ``last``, that are of both."""
        is_v2 = self.seconds[first:last] >= DAYS_OF_V1 * SECONDS_OF_DAY
        ranker_of_session = is_v2.astype(np.int64)
        is_wanted = ranker_of_session == ranker
        is_wanted &= self.audience[first:last] == audience
        return first + np.flatnonzero(is_wanted)


def write_shop_log(
    audiences: Sequence[Audience],
    n_sessions: int,
    path: Path,
    *,
    rng: Rng,
    progress: Progress = no_progress,
) -> dict[str, int]:
    """Write the log; return the numbers of sessions, impressions, clicks, purchases.

    Args:
        audiences: Who searches, and what the two rankers show them.
        n_sessions: Sessions of all audiences together.
        path: The log, ``.csv`` or ``.parquet``; it appears whole or not at all.
        rng: Draws all of it.
        progress: Is told how many sessions are written.
    """
    require_sessions(n_sessions)
    shares = [audience.share for audience in audiences]
    calendar = _Calendar.drawn(n_sessions, shares, rng)

    # All show lists of the same length.
    simulation = audiences[0].by_ranker[0]
    mean_length = simulation.query_share @ simulation.shown
    at_once = max(1, int(IMPRESSIONS_AT_ONCE / mean_length))
    totals = Counter(sessions=n_sessions)
    with atomic_write(path) as unfinished, _TableWriter(unfinished, path) as writer:
        for first in range(0, n_sessions, at_once):
            progress("writing sessions", first, n_sessions)
            last = min(first + at_once, n_sessions)
            table = _block(audiences, calendar, first, last, rng)
            writer.write(table)
            totals["impressions"] += table.num_rows
            totals["clicks"] += pc.sum(table["clicked"]).as_py()
            totals["purchases"] += pc.sum(table["purchased"]).as_py()
    progress("writing sessions", n_sessions, n_sessions)
    return dict(totals)


def _block(
    audiences: Sequence[Audience], calendar: _Calendar, first: int, last: int, rng: Rng
) -> pa.Table:
    """Draw the sessions from ``first``, before ``last``, in the order of time."""
    tables = []
    sessions_of_rows = []
    for number, audience in enumerate(audiences):
        for ranker, simulation in enumerate(audience.by_ranker):
            sessions = calendar.sessions_of(number, ranker, first, last)
            if len(sessions) == 0:
                continue
            block = simulation.draw(len(sessions), rng)
            session = sessions[block["session_id"]]
            columns = _columns(simulation, block, session, calendar, rng)
            columns["ranker"] = pa.repeat(RANKERS[ranker], len(session))
            tables.append(pa.table(columns))
            sessions_of_rows.append(session)
    order = np.argsort(np.concatenate(sessions_of_rows), kind="stable")
    return pa.concat_tables(tables).take(order)


def _columns(
    simulation: Simulation, block: Block, session: Ints, calendar: _Calendar, rng: Rng
) -> dict[str, Any]:
    """Return the columns of the log; ``session`` is the one of each row."""
    data = simulation.data
    place = block["rank"].astype(np.int64) - 1
    page = place // PAGE

    # Who buys, of those who clicked.
    label = data.known_labels()[block["doc_id"]].astype(np.int64)
    buys = rng.random(len(session)) < PURCHASE_RATE[label]

    columns = {
        "session_id": _named("s", session + 1),
        "timestamp": _moments(calendar.seconds[session]),
        "user_id": _named("u", calendar.user[session] + 1),
        "query": pa.array(data.query_ids[block["query_id"]]),
        "product_id": pa.array(data.doc_ids[block["doc_id"]]),
        "page": (page + 1).astype(np.int32),
        "position": (place % PAGE + 1).astype(np.int32),
        "results_before": (page * PAGE).astype(np.int32),
        "clicked": block["clicked"].astype(np.int8),
        "purchased": (block["clicked"] & buys).astype(np.int8),
    }
    if simulation.segments:
        names = pa.array(simulation.segments)
        columns["segment"] = names.take(pa.array(block["segment"]))
    if simulation.policy:
        columns["policy"] = pa.repeat(simulation.policy, len(session))
    return columns


def _named(letter: str, numbers: Ints) -> pa.Array:
    """Return ids as text, such as ``s0000042``."""
    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width=7, padding="0")
    return pc.binary_join_element_wise(letter, digits, "")


def _moments(seconds: Ints) -> pa.Array:
    """Return moments as ISO text, such as ``2026-03-01T10:22:31Z``."""
    since_epoch = int(FIRST_DAY.timestamp()) + seconds
    moments = pa.array(since_epoch, pa.timestamp("s", "UTC"))
    return pc.strftime(moments, format="%Y-%m-%dT%H:%M:%SZ")


class _TableWriter:
    """Writes tables of one schema: CSV or Parquet, by the name the file will have."""

    def __init__(self, target: Path, final_path: Path) -> None:
        self._target = target
        self._is_csv = final_path.suffix == ".csv"
        self._writer: Any = None

    def __enter__(self) -> _TableWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, table: pa.Table) -> None:
        """Add rows."""
        if self._writer is None:
            make = pacsv.CSVWriter if self._is_csv else pq.ParquetWriter
            self._writer = make(self._target, table.schema)
        self._writer.write_table(table)


def write_product_table(data: RankingDataset, path: Path) -> None:
    """Write what the shop knows of each product found by each search; no labels."""
    columns: dict[str, Any] = {
        "query": pa.array(data.query_ids[data.query_of_doc]),
        "product_id": pa.array(data.doc_ids),
    }
    for name, values in zip(data.feature_names, data.features.T, strict=True):
        if name in data.categories:
            texts = pa.array(data.categories[name])
            columns[name] = texts.take(pa.array(values.astype(np.int64)))
            continue
        numbers = pa.array(values, from_pandas=True)  # NaN is a gap
        known = values[~np.isnan(values)]
        is_whole = bool(np.all(known == np.rint(known)))
        columns[name] = numbers.cast(pa.int64()) if is_whole else _short(numbers)
    table = pa.table(columns)
    with atomic_write(path) as unfinished, _TableWriter(unfinished, path) as writer:
        writer.write(table)


def _short(numbers: pa.Array) -> pa.Array:
    """Return 32-bit numbers as the shortest numbers that read back as the same."""
    return pc.cast(pc.cast(numbers, pa.string()), pa.float64())
