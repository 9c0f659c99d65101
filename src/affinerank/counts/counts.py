"""Impressions and clicks per query, document and rank: all that later stages see.

Corrections are linear in clicks, so counts lose nothing for rank-based models. They
add up: logs can be counted in parts, where they are, and put together afterwards.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from affinerank.counts.days import days_in
from affinerank.counts.ranker_times import (
    RankerTimes,
    add_times,
    from_metadata,
    to_metadata,
)
from affinerank.counts.table import (
    COLUMNS,
    EXPOSURE,
    NUMBERS,
    SUMMED,
    VALUES,
    checked_table,
    counts_metadata,
    given_column,
    grouped,
    randomised_impressions,
)
from affinerank.engines.parquet_parts import split_parquet
from affinerank.logs.schema import CONTEXT, EXTRA_KEYS, KEYS, RANDOMISED, session_keys
from affinerank.output.blocks import Summary
from affinerank.support.arrays import Ints
from affinerank.support.arrow import pa, parquet_errors, pc, pq
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import PathLike, atomic_write, scratch_of

__all__ = ["EXTRA_KEYS", "HELD_OUT", "KEPT", "ClickCounts"]

HELD_OUT = "holdout"
KEPT = "train"
MEASURED = (*NUMBERS, *SUMMED)
SUMS = (("impressions", "sum"), ("clicks", "sum"))
ROWS_AT_ONCE = 5_000_000  # of counts; held at once, they take a gigabyte


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClickCounts(Summary):
    """How often each document was shown and clicked at each rank.

    Attributes:
        table: One row per query, document and rank (and ``context``, ``ranker``,
            ``segment``, ``split``, ``user_bucket`` if those are keys too), sorted by
            them, with ``impressions``, ``clicks``, and the ``sessions`` of its query
            (and ranker, segment, split, user bucket). The context is the rank of the
            last click above in the session, 0 for none. Where clicks have a value, its
            sum and that of its squares are ``value`` and ``value_squares``. Where the
            policy is known, ``exposure`` is the number of sessions expected to show the
            document there, above 0 also for some that were never shown. Where the log
            says which lists a policy drew at random, ``randomised`` is the number of
            impressions in those. Metadata hold when each ranker logged.
    """

    table: pa.Table

    def __post_init__(self) -> None:
        """Check the columns and bring them into one order and one type each."""
        object.__setattr__(self, "table", checked_table(self.table))

    def parts(self) -> Iterator[ClickCounts]:
        """Yield parts that have no query in common: all at once, if they fit."""
        yield self

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.table.column_names)

    @property
    def ranker_times(self) -> RankerTimes:
        """First and last moment of each ranker's sessions; empty if not known."""
        return from_metadata(self.table.schema.metadata)

    def with_ranker_times(self, times: RankerTimes) -> ClickCounts:
        """Note when each ranker logged."""
        return ClickCounts(self.table.replace_schema_metadata(to_metadata(times)))

    @classmethod
    def from_columns(
        cls,
        *,
        query_id: ArrayLike,
        doc_id: ArrayLike,
        rank: ArrayLike,
        impressions: ArrayLike,
        clicks: ArrayLike,
        sessions: ArrayLike | None = None,
        context: ArrayLike | None = None,
        ranker: ArrayLike | None = None,
        segment: ArrayLike | None = None,
        split: ArrayLike | None = None,
        user_bucket: ArrayLike | None = None,
        value: ArrayLike | None = None,
        value_squares: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        randomised: ArrayLike | None = None,
    ) -> ClickCounts:
        """Build from one array per column.

        Without ``sessions``, a query has as many as its rank with most impressions.

        >>> ClickCounts.from_columns(
        ...     query_id=["q", "q"], doc_id=[7, 8], rank=[1, 2], impressions=[5, 5],
        ...     clicks=[2, 0],
        ... ).n_sessions
        5
        """
        extra = (context, ranker, segment, split, user_bucket)
        numbers = (impressions, clicks, sessions)
        summed = (value, value_squares, exposure, randomised)
        given = (query_id, doc_id, rank, *extra, *numbers, *summed)
        arrays = {
            name: given_column(name, values)
            for name, values in zip(COLUMNS, given, strict=True)
            if values is not None
        }
        sizes = {name: len(array) for name, array in arrays.items()}
        if len(set(sizes.values())) > 1:
            raise DataError(f"the columns of counts differ in length: {sizes}")
        table = pa.table(arrays)
        return cls(table if sessions is not None else _with_sessions(table))

    def _line(self) -> str:
        return (
            f"{self.table.num_rows:,} rows by {', '.join(self.keys)}: "
            f"{self.impressions.sum():,} impressions, {self.clicks.sum():,} clicks"
        )

    def _rows(self) -> list[dict[str, Any]]:
        return self.click_rate_by_rank()

    def column(self, name: str) -> pa.ChunkedArray:
        """Return one column, by part."""
        parts = [part.table.select([name]) for part in self.parts()]
        return pa.concat_tables(parts)[name]

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return tuple(n for n in self.columns if n not in MEASURED)

    @property
    def session_keys(self) -> tuple[str, ...]:
        """The columns that sessions are counted by: query, ranker, segment, split."""
        return tuple(session_keys(self.columns))

    @property
    def rank(self) -> Ints:
        """``[n_rows]`` ranks, from 1."""
        return self._numbers("rank")

    @property
    def impressions(self) -> Ints:
        """``[n_rows]`` impressions of the document at the rank."""
        return self._numbers("impressions")

    @property
    def clicks(self) -> Ints:
        """``[n_rows]`` clicks on it there."""
        return self._numbers("clicks")

    @property
    def sessions(self) -> Ints:
        """``[n_rows]`` sessions of its query."""
        return self._numbers("sessions")

    @property
    def sessions_per_query(self) -> pa.Table:
        """One row per query (and ranker, segment, split), with its ``sessions``."""
        # One thread keeps the order of the table, on which random halves rest.
        how: Any = (self.session_keys, ("sessions", "max"))
        parts = [grouped(one.table, *how, threads=False) for one in self.parts()]
        return pa.concat_tables(parts)

    @property
    def n_sessions(self) -> int:
        """Number of sessions."""
        return int(pc.sum(self.sessions_per_query["sessions"]).as_py() or 0)

    def summary(self) -> dict[str, Any]:
        """Return sizes as plain data."""
        sizes = Counter[str]()
        for part in self.parts():
            sizes["groups"] += part.table.num_rows
            sizes["sessions"] += part.n_sessions
            sizes["queries"] += len(pc.unique(part.table["query_id"]))
            sizes["documents"] += grouped(part.table, KEYS[:2]).num_rows
        by_rank = self.by("rank").to_pylist()
        return {
            **sizes,
            "ranks": max((row["rank"] for row in by_rank), default=0),
            "impressions": sum(row["impressions"] for row in by_rank),
            "clicks": sum(row["clicks"] for row in by_rank),
        }

    def by(self, key: str) -> pa.Table:
        """Return the impressions and clicks of each value of a key, in their order."""
        parts = [grouped(part.table, [key], *SUMS) for part in self.parts()]
        return grouped(pa.concat_tables(parts), [key], *SUMS).sort_by(key)

    def click_rate_by_rank(self) -> list[dict[str, Any]]:
        """Return impressions, clicks and click-through rate of each rank shown."""
        return [
            {**row, "rate": row["clicks"] / row["impressions"]}
            for row in self.by("rank").to_pylist()
            if row["impressions"]
        ]

    def __add__(self, other: ClickCounts) -> ClickCounts:
        """Count what both counted: rows with equal keys are added."""
        if self._about() != other._about():
            raise DataError(
                f"{self._about()} cannot be added to {other._about()}; both must have "
                "the same keys and types of ids"
            )
        return _together([self, other])

    def merged(self, *keys: str) -> ClickCounts:
        """Forget keys after the rank, as ``ranker`` or ``segment``: add up the rows."""
        for key in keys:
            self._require_key(key)
        within = [key for key in keys if key != "ranker"]
        if EXPOSURE in self.table.column_names and 0 < len(within) < len(keys):
            return self.merged(*within).merged("ranker")  # each has its own policy
        sessions = self.sessions_per_query
        added_up = _added_up(
            self.table.drop_columns(list(keys)),
            sessions.drop_columns([k for k in keys if k in sessions.column_names]),
            rankers="ranker" in keys,
        )
        times = {} if "ranker" in keys else self.ranker_times
        return added_up.with_ranker_times(times) if times else added_up

    def labelled(self, key: str, value: str) -> ClickCounts:
        """Add a key (``ranker``, ``segment``, ``split``) of one value to every row."""
        return self._with_key(key, pa.repeat(value, self.table.num_rows))

    def select(self, key: str, value: str) -> ClickCounts:
        """Return the rows where ``ranker``, ``segment`` or ``split`` has this value.

        The key itself is left out of the result.
        """
        self._require_key(key)
        chosen = self.table.filter(pc.equal(self.table[key], value))
        return ClickCounts(chosen.drop_columns(key))

    def holdout(self, share: float = 0.2) -> ClickCounts:
        """Set about this share of queries aside, chosen by a hash of their ids.

        Returns counts with ``split`` ``"train"`` or ``"holdout"``: the same query is on
        the same side in every log and on every machine.
        """
        require_share(share)
        return self._with_key("split", split_by_query(self.table, share))

    def save(self, path: PathLike) -> None:
        """Write the counts as Parquet."""
        with atomic_write(Path(path)) as aside:
            pq.write_table(self.table, aside, compression="zstd")

    @classmethod
    def load(
        cls, path: PathLike, *, since: str | None = None, until: str | None = None
    ) -> ClickCounts:
        """Read counts written by :meth:`save` or by the counting engine.

        Of a folder, all its days are added up: from ``since`` on and before ``until``.
        Counts too many to hold at once are read part by part, whenever they are needed.
        """
        files = [Path(path)]
        if Path(path).is_dir():
            files = list(days_in(path, since, until).values())
            if not files:
                raise DataError(
                    f"{path}: holds no counts of those days; see count --into"
                )
        elif since or until:
            raise ConfigError(
                f"{path}: --since and --until choose days of a folder of counts, and "
                "this is a file; give them to count"
            )
        n = -(-sum(map(n_rows, files)) // ROWS_AT_ONCE)
        if n > 1:
            return CountsInParts(_Spread(files, n), n)
        return _sum_of_files(files, [_read(file) for file in files])

    def equals(self, other: ClickCounts) -> bool:
        """Whether both hold the same rows."""
        pairs = zip(self.parts(), other.parts(), strict=True)
        return all(one.table.equals(two.table) for one, two in pairs)

    def _require_key(self, key: str, *, there: bool = True) -> None:
        allowed = (CONTEXT, *EXTRA_KEYS) if there else EXTRA_KEYS
        if key not in allowed or (key in self.keys) != there:
            raise ConfigError(
                f"the key {key!r} cannot be {'taken from' if there else 'added to'} "
                f"counts by {', '.join(self.keys)}"
            )

    def _with_key(self, key: str, column: pa.Array) -> ClickCounts:
        self._require_key(key, there=False)
        return ClickCounts(self.table.append_column(key, column))

    def _numbers(self, name: str) -> Ints:
        return np.asarray(self.column(name), dtype=np.int64)

    def _about(self) -> str:
        """Describe the keys, with the types of ids."""
        ids = ", ".join(f"{n} {self.table[n].type}" for n in KEYS[:2])
        values = " with values" if VALUES[0] in self.columns else ""
        values += " with exposure" if EXPOSURE in self.columns else ""
        return f"counts by {', '.join(self.keys)} ({ids}){values}"


def _with_sessions(table: pa.Table) -> pa.Table:
    """Add sessions: the most impressions that one rank of the query had."""
    by = session_keys(table.column_names)
    by_rank = grouped(table, [*by, "rank"], ("impressions", "sum"))
    most = grouped(by_rank, by, ("impressions", "max"))
    return table.join(most.rename_columns([*by, "sessions"]), by, join_type="inner")


def _added_up(
    rows: pa.Table, sessions: pa.Table, *, rankers: bool = False
) -> ClickCounts:
    """Add up rows with equal keys, and sessions, and put them together.

    Sessions of one policy have one share of exposure, those without a row as well; over
    ``rankers``, which are policies of their own, exposure adds up.
    """
    keys = [name for name in rows.column_names if name not in MEASURED]
    sums = [*SUMS, *((name, "sum") for name in SUMMED if name in rows.column_names)]
    by = session_keys(rows.column_names)
    total = grouped(sessions, by, ("sessions", "sum"))
    if EXPOSURE not in rows.column_names or rankers:
        found = grouped(rows, keys, *sums).join(total, by, join_type="inner")
        return ClickCounts(found)
    rows = rows.rename_columns({"sessions": "part"})
    found = grouped(rows, keys, *sums, ("part", "sum"))
    found = found.join(total, by, join_type="inner")
    grown = pc.divide(pc.cast(found["sessions"], pa.float64()), found["part"])
    place = found.column_names.index(EXPOSURE)
    scaled = pc.multiply(found[EXPOSURE], grown)
    return ClickCounts(found.set_column(place, EXPOSURE, scaled).drop_columns("part"))


class CountsInParts(ClickCounts):
    """Counts too many to hold at once: parts are read whenever they are needed.

    ``table`` holds them all, for what cannot go part by part.
    """

    __slots__ = ("_n", "_part")
    _n: int
    _part: Callable[[int], ClickCounts]

    def __init__(self, part: Callable[[int], ClickCounts], n: int) -> None:
        """Take what reads part ``i`` of ``n``; part ``n`` has no rows."""
        object.__setattr__(self, "_part", part)
        object.__setattr__(self, "_n", n)

    @property
    def table(self) -> pa.Table:
        """All rows, by part."""
        return pa.concat_tables([part.table for part in self.parts()])

    def parts(self) -> Iterator[ClickCounts]:
        """Yield parts that have no query in common."""
        return map(self._part, range(self._n))

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._part(self._n).columns

    @property
    def ranker_times(self) -> RankerTimes:
        """First and last moment of each ranker's sessions; empty if not known."""
        return self._part(self._n).ranker_times

    def merged(self, *keys: str) -> ClickCounts:
        """Forget keys after the rank."""
        return self._each(lambda part: part.merged(*keys))

    def select(self, key: str, value: str) -> ClickCounts:
        """Return the rows where a key has this value."""
        return self._each(lambda part: part.select(key, value))

    def holdout(self, share: float = 0.2) -> ClickCounts:
        """Set about this share of queries aside."""
        return self._each(lambda part: part.holdout(share))

    def labelled(self, key: str, value: str) -> ClickCounts:
        """Add a key of one value to every row."""
        return self._each(lambda part: part.labelled(key, value))

    def _each(self, change: Callable[[ClickCounts], ClickCounts]) -> ClickCounts:
        part, n = self._part, self._n
        change(part(n))  # wrong keys are errors here
        return CountsInParts(lambda i: change(part(i)), n)


def n_rows(path: Path) -> int:
    """Return how many rows a file of counts has, or reject what is none."""
    return int(counts_metadata(path).num_rows)


def _sum_of_files(files: Sequence[Path], found: Sequence[ClickCounts]) -> ClickCounts:
    """Add up the counts found in files, or a part of them: the same queries of each.

    The last click above is kept if every file was counted by it.
    """
    if not all(CONTEXT in one.keys for one in found):
        found = [one.merged(CONTEXT) if CONTEXT in one.keys else one for one in found]
    for one, file in zip(found, files, strict=True):
        if one._about() != found[0]._about():
            first = f"those of {files[0].stem}: {found[0]._about()}"
            raise DataError(f"{file}: {one._about()} cannot be added to {first}")
    return found[0] if len(found) == 1 else _together(found)


def _together(counts: Sequence[ClickCounts]) -> ClickCounts:
    """Add up counts that have the same keys."""
    tables = [one.table for one in counts]
    # What one log declares to be random stays so; what another does not, does not.
    if any(RANDOMISED in table.column_names for table in tables):
        tables = [_with_randomised(table) for table in tables]
    sessions = [one.sessions_per_query for one in counts]
    total = _added_up(pa.concat_tables(tables), pa.concat_tables(sessions))
    times = add_times(one.ranker_times for one in counts)
    return total.with_ranker_times(times) if times else total


def _with_randomised(table: pa.Table) -> pa.Table:
    """Add the number of randomised impressions to counts that do not state it."""
    if RANDOMISED in table.column_names:
        return table
    return table.append_column(RANDOMISED, randomised_impressions(table))


def _read(file: Path, parts: Sequence[Path] = ()) -> ClickCounts:
    """Read a file of counts, or ``parts`` that were written from it."""
    with parquet_errors(file):
        table = pq.read_table(list(parts) or file, partitioning=None)
        found = ClickCounts(table)
    # Sorting took room for several of it, which Arrow would keep.
    pa.default_memory_pool().release_unused()
    return found


class _Spread:
    """Counts in files, written into ``n`` parts by a hash of queries; reads a part."""

    def __init__(self, files: Sequence[Path], n: int) -> None:
        self.files = files
        self.folder = scratch_of(self)
        for i, file in enumerate(files):
            split_parquet(file, self.folder / str(i), "query_id", n)

    def __call__(self, part: int) -> ClickCounts:
        found = []
        for i, file in enumerate(self.files):
            there = sorted((self.folder / str(i) / f"part={part}").glob("*"))
            empty = ClickCounts(pq.read_schema(file).empty_table())
            found.append(_read(file, there) if there else empty)
        return _sum_of_files(self.files, found)


def require_share(share: float) -> None:
    """Reject a share that cannot be held out."""
    if not 0 < share < 1:
        raise ConfigError(f"share to hold out must be between 0 and 1, got {share:g}")


def split_by_query(table: pa.Table, share: float) -> pa.Array:
    """Return ``train`` or ``holdout`` for each row, by a hash of its query id."""
    encoded = pc.dictionary_encode(table["query_id"]).combine_chunks()
    side = []
    for name in encoded.dictionary.to_pylist():
        digest = hashlib.blake2b(str(name).encode(), digest_size=8).digest()
        side.append(HELD_OUT if int.from_bytes(digest, "big") / 2**64 < share else KEPT)
    return pa.array(side, pa.string()).take(encoded.indices)
