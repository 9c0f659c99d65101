"""Impressions and clicks per query, document and rank: all that later stages see.

Corrections are linear in clicks, so counts lose nothing for rank-based models. They
add up: logs can be counted in parts, where they live, and put together afterwards.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from affinerank.clicks.counts_table import (
    EXTRA_KEYS,
    KEYS,
    NUMBERS,
    checked_table,
    given_column,
)
from affinerank.errors import ConfigError, DataError
from affinerank.files import existing_file, written_whole

__all__ = ["EXTRA_KEYS", "HELD_OUT", "KEPT", "KEYS", "NUMBERS", "ClickCounts"]

Ints = NDArray[np.int64]

HELD_OUT = "holdout"
KEPT = "train"


@dataclass(frozen=True, slots=True, eq=False)
class ClickCounts:
    """How often each document was shown and clicked at each rank.

    Attributes:
        table: One row per query, document and rank (and ``ranker``, ``segment``,
            ``split`` where those are told apart), sorted by them, with ``impressions``,
            ``clicks``, and the ``sessions`` of its query (and ranker, segment, split).
    """

    table: pa.Table

    def __post_init__(self) -> None:
        """Check the columns and bring them into one order and one type each."""
        object.__setattr__(self, "table", checked_table(self.table))

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
        ranker: ArrayLike | None = None,
        segment: ArrayLike | None = None,
        split: ArrayLike | None = None,
    ) -> ClickCounts:
        """Build from one array per column.

        Without ``sessions``, a query has the most impressions that one of its ranks
        had.

        >>> ClickCounts.from_columns(
        ...     query_id=["q", "q"], doc_id=[7, 8], rank=[1, 2], impressions=[5, 5],
        ...     clicks=[2, 0],
        ... ).n_sessions
        5
        """
        given = {
            "query_id": query_id,
            "doc_id": doc_id,
            "rank": rank,
            "ranker": ranker,
            "segment": segment,
            "split": split,
            "impressions": impressions,
            "clicks": clicks,
            "sessions": sessions,
        }
        arrays = {
            name: given_column(name, values)
            for name, values in given.items()
            if values is not None
        }
        sizes = {name: len(array) for name, array in arrays.items()}
        if len(set(sizes.values())) > 1:
            raise DataError(f"the columns of counts differ in length: {sizes}")
        table = pa.table(arrays)
        return cls(table if sessions is not None else _with_sessions(table))

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        return tuple(n for n in self.table.column_names if n not in NUMBERS)

    @property
    def session_keys(self) -> tuple[str, ...]:
        """The columns that sessions are counted by: all keys but document and rank."""
        return tuple(n for n in self.keys if n not in ("doc_id", "rank"))

    @property
    def rank(self) -> Ints:
        """``[n_rows]`` ranks, from 1."""
        return self._numbers("rank")

    @property
    def impressions(self) -> Ints:
        """``[n_rows]`` how often the document was shown at the rank."""
        return self._numbers("impressions")

    @property
    def clicks(self) -> Ints:
        """``[n_rows]`` how often it was clicked there."""
        return self._numbers("clicks")

    @property
    def sessions(self) -> Ints:
        """``[n_rows]`` how often its query was issued."""
        return self._numbers("sessions")

    @property
    def sessions_per_query(self) -> pa.Table:
        """One row per query (and ranker, segment, split), with its ``sessions``."""
        # One thread keeps the order of the table, on which random halves rest.
        grouped = self.table.group_by(list(self.session_keys), use_threads=False)
        return _renamed(grouped.aggregate([("sessions", "max")]))

    @property
    def n_sessions(self) -> int:
        """Number of sessions."""
        return int(pc.sum(self.sessions_per_query["sessions"]).as_py() or 0)

    def summary(self) -> dict[str, Any]:
        """Sizes, as plain data."""
        ranks = self.rank
        return {
            "groups": len(ranks),
            "sessions": self.n_sessions,
            "queries": len(pc.unique(self.table["query_id"])),
            "documents": self.table.group_by(["query_id", "doc_id"])
            .aggregate([])
            .num_rows,
            "ranks": int(ranks.max()) if len(ranks) else 0,
            "impressions": int(self.impressions.sum()),
            "clicks": int(self.clicks.sum()),
        }

    def click_rate_by_rank(self) -> list[dict[str, Any]]:
        """Impressions, clicks and click-through rate at each rank that was shown."""
        grouped = self.table.group_by("rank").aggregate(
            [("impressions", "sum"), ("clicks", "sum")]
        )
        rows = _renamed(grouped).sort_by("rank").to_pylist()
        return [
            {**row, "rate": row["clicks"] / row["impressions"]}
            for row in rows
            if row["impressions"]
        ]

    def __add__(self, other: ClickCounts) -> ClickCounts:
        """Count what both counted: rows with equal keys are added."""
        if self.keys != other.keys or self._id_types() != other._id_types():
            raise DataError(
                f"counts by {', '.join(self.keys)} ({_types(self)}) cannot be added to "
                f"counts by {', '.join(other.keys)} ({_types(other)})"
            )
        rows = pa.concat_tables(
            [part.table.drop_columns("sessions") for part in (self, other)]
        )
        sessions = pa.concat_tables([part.sessions_per_query for part in (self, other)])
        return ClickCounts(_joined_sums(rows, sessions, self.keys, self.session_keys))

    def merged(self, *keys: str) -> ClickCounts:
        """Forget ``ranker``, ``segment`` or ``split``, adding up their rows."""
        for key in keys:
            self._require_key(key)
        kept = tuple(key for key in self.keys if key not in keys)
        return ClickCounts(
            _joined_sums(
                self.table.drop_columns(["sessions", *keys]),
                self.sessions_per_query.drop_columns(list(keys)),
                kept,
                tuple(key for key in self.session_keys if key not in keys),
            )
        )

    def labelled(self, key: str, value: str) -> ClickCounts:
        """Add a key (``ranker``, ``segment``, ``split``) of one value to every row."""
        if key not in EXTRA_KEYS or key in self.keys:
            raise ConfigError(
                f"the key {key!r} cannot be added to counts by {', '.join(self.keys)}; "
                f"keys that can are {', '.join(EXTRA_KEYS)}"
            )
        column = pa.array([value] * self.table.num_rows, type=pa.string())
        return ClickCounts(self.table.append_column(key, column))

    def select(self, key: str, value: str) -> ClickCounts:
        """Return the rows where ``ranker``, ``segment`` or ``split`` has this value.

        The key itself is left out of the result.
        """
        self._require_key(key)
        chosen = self.table.filter(pc.equal(self.table[key], value))
        return ClickCounts(chosen.drop_columns(key))

    def holdout(self, share: float = 0.2) -> ClickCounts:
        """Set about this share of queries aside, chosen by a hash of their ids.

        Returns counts with ``split`` ``"train"`` or ``"holdout"``: the same query falls
        on the same side in every log and on every machine.
        """
        checked_share(share)
        if "split" in self.keys:
            raise ConfigError("these counts are split already")
        column = split_by_query(self.table, share)
        return ClickCounts(self.table.append_column("split", column))

    def halves(self, *, rng: np.random.Generator) -> tuple[ClickCounts, ClickCounts]:
        """Split sessions at random into two halves, and the counts with them.

        Given the sessions of a half, a row's impressions in it are hypergeometric, and
        so are its clicks given those: each row is distributed exactly as if sessions
        had been drawn. Rows are drawn independently, so that what two rows of one
        session have in common is not kept where documents change ranks.
        """
        if self.table.num_rows and self.sessions.max() >= 10**9:
            raise DataError("a query with 10^9 sessions or more cannot be split")
        sessions = self.sessions_per_query
        total = sessions["sessions"].to_numpy()
        half = total // 2 + (total % 2) * rng.integers(0, 2, len(total))
        drawn = sessions.append_column("half", pa.array(half)).append_column(
            "query", pa.array(np.arange(len(half)))
        )
        rows = _matched(self.table, drawn.drop_columns("sessions"), self.session_keys)
        rows = rows.sort_by([(name, "ascending") for name in self.keys])
        in_half, shown, clicks = (
            rows[name].to_numpy() for name in ("half", "impressions", "clicks")
        )
        left = rows["sessions"].to_numpy() - in_half
        first = rng.hypergeometric(shown, left + in_half - shown, in_half)
        clicked = rng.hypergeometric(clicks, shown - clicks, first)
        a, b = (
            ClickCounts(_with_numbers(rows, self.keys, numbers))
            for numbers in (
                (first, clicked, in_half),
                (shown - first, clicks - clicked, left),
            )
        )
        return a, b

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts as Parquet."""
        with written_whole(Path(path)) as aside:
            pq.write_table(self.table, aside, compression="zstd")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ClickCounts:
        """Read counts written by :meth:`save` or by the counting engine."""
        source = existing_file(path)
        try:
            found = cls(pq.read_table(source))
            # Sorting took room for several of it, which Arrow would keep.
            pa.default_memory_pool().release_unused()
            return found
        except DataError as error:
            raise DataError(f"{source}: {error}") from None
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{source}: not counts in Parquet ({reason})") from None

    def equals(self, other: ClickCounts) -> bool:
        """Whether both hold the same rows."""
        return bool(self.table.equals(other.table))

    def _require_key(self, key: str) -> None:
        if key not in EXTRA_KEYS or key not in self.keys:
            raise ConfigError(
                f"these counts are not told apart by {key!r}; "
                f"they are by {', '.join(self.keys)}"
            )

    def _numbers(self, name: str) -> Ints:
        return np.asarray(self.table[name], dtype=np.int64)

    def _id_types(self) -> list[pa.DataType]:
        return [self.table[name].type for name in ("query_id", "doc_id")]


def _with_sessions(table: pa.Table) -> pa.Table:
    """Add sessions: the most impressions that one rank of the query had."""
    extra = [name for name in EXTRA_KEYS if name in table.column_names]
    by_rank = table.group_by(["query_id", *extra, "rank"]).aggregate(
        [("impressions", "sum")]
    )
    sessions = by_rank.group_by(["query_id", *extra]).aggregate(
        [("impressions_sum", "max")]
    )
    names = ["sessions" if "impressions" in n else n for n in sessions.column_names]
    return _matched(table, sessions.rename_columns(names), ["query_id", *extra])


def _joined_sums(
    rows: pa.Table, sessions: pa.Table, keys: tuple[str, ...], by: tuple[str, ...]
) -> pa.Table:
    """Add up rows with equal keys, and sessions, and put them together."""
    summed = rows.group_by(list(keys)).aggregate(
        [("impressions", "sum"), ("clicks", "sum")]
    )
    total = sessions.group_by(list(by)).aggregate([("sessions", "sum")])
    return _matched(_renamed(summed), _renamed(total), list(by))


def _matched(rows: pa.Table, other: pa.Table, by: Sequence[str]) -> pa.Table:
    return rows.join(other, keys=list(by), join_type="inner")


def _renamed(table: pa.Table) -> pa.Table:
    """Take the name of the aggregation off: ``clicks_sum`` becomes ``clicks``."""
    names = [n.removesuffix("_sum").removesuffix("_max") for n in table.column_names]
    return table.rename_columns(names)


def _with_numbers(
    rows: pa.Table, keys: tuple[str, ...], numbers: tuple[Ints, Ints, Ints]
) -> pa.Table:
    """Put other numbers beside the keys, leaving out what was never shown.

    One row of a query stays where none was shown but it has sessions, to hold those.
    """
    shown, _, sessions = numbers
    query = rows["query"].to_numpy()
    _, first = np.unique(query, return_index=True)
    ever = np.bincount(query, weights=shown)[query[first]] > 0
    keep = shown > 0
    keep[first] |= ~ever & (sessions[first] > 0)
    table = rows.select(list(keys))
    for name, values in zip(NUMBERS, numbers, strict=True):
        table = table.append_column(name, pa.array(values))
    return table.filter(pa.array(keep))


def checked_share(share: float) -> float:
    """Return ``share`` if it can be held out."""
    if not 0 < share < 1:
        raise ConfigError(
            f"the share to hold out must be between 0 and 1, got {share:g}"
        )
    return share


def split_by_query(table: pa.Table, share: float) -> pa.Array:
    """``train`` or ``holdout`` for each row, by a hash of its query id."""
    encoded = pc.dictionary_encode(table["query_id"]).combine_chunks()
    held = [_hash_share(str(name)) < share for name in encoded.dictionary.to_pylist()]
    side = np.array(held, dtype=np.int64)[encoded.indices.to_numpy()]
    return pa.array([KEPT, HELD_OUT]).take(pa.array(side))


def _hash_share(name: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _types(counts: ClickCounts) -> str:
    names = ("query_id", "doc_id")
    return ", ".join(f"{n} {counts.table[n].type}" for n in names)
