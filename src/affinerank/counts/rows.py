"""Rows of counts by numbered documents: the one view that every later stage reads."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from operator import add
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from affinerank.counts.counts import ClickCounts
from affinerank.counts.table import EXPOSURE, VALUES, grouped
from affinerank.data.dataset import RankingDataset
from affinerank.logs.schema import CONTEXT, KEYS
from affinerank.output.blocks import Summary
from affinerank.support.arrays import Bools, Floats, Ids, Ints, Rng, joint, runs
from affinerank.support.arrow import arrow_column, pa, pc
from affinerank.support.errors import DataError, warn


@dataclass(frozen=True, slots=True)
class Unmatched:
    """What was left out of counts because the data have no features for it."""

    groups: int = 0
    documents: int = 0
    queries: int = 0
    impressions: int = 0
    clicks: int = 0
    example: tuple[dict[str, Any], ...] = ()

    def __add__(self, other: Unmatched) -> Unmatched:
        """Add what was left out of other queries."""
        sums: Any = map(add, astuple(self)[:-1], astuple(other)[:-1])
        return replace(Unmatched(*sums), example=self.example or other.example)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """What clicks are worth, by document.

    Attributes:
        mean: ``[n_docs]`` value per click; that of all clicks where there is none.
        variance: ``[n_docs]`` of that mean, by chance.
        unit: Value per click of all documents.
    """

    mean: Floats
    variance: Floats
    unit: float

    @classmethod
    def of(cls, clicks: Floats, value: Floats, squares: Floats) -> Values:
        """Build from sums over the clicks on each document, ``[n_docs]``."""
        total, n = value.sum(), clicks.sum()
        if total <= 0:
            raise DataError("no click has a value above 0, so there is nothing to rank")
        safe = np.maximum(clicks, 1.0)
        mean = np.where(clicks > 0, value / safe, total / n)
        within = np.maximum(squares - value**2 / safe, 0.0)
        pooled = within.sum() / max(np.maximum(clicks - 1.0, 0.0).sum(), 1.0)
        own = np.where(clicks > 1, within / np.maximum(clicks - 1.0, 1.0), pooled)
        spread = max(squares.sum() / n - (total / n) ** 2, 0.0)  # of any document
        variance = np.where(clicks > 0, own / safe, spread)
        return cls(mean, variance, float(total / n))

    def again(self, rng: Rng) -> Values:
        """Draw the means again."""
        drawn = rng.normal(self.mean, np.sqrt(self.variance))
        return replace(self, mean=np.maximum(drawn, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedExposure:
    """How a policy shows documents, also those that it did not happen to show.

    Attributes:
        doc: ``[n]`` number of the document.
        rank: ``[n]`` from 1.
        chance: ``[n]`` probability that a session of its query shows it there.
    """

    doc: Ints
    rank: Ints
    chance: Floats


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClickRows(Summary):
    """Impressions and clicks of each document at each rank it was shown at.

    Attributes:
        doc: ``[n_rows]`` number of the document, from 0.
        rank: ``[n_rows]`` from 1.
        context: ``[n_rows]`` what happened above in the session; 0 where it was not
            counted.
        impressions: ``[n_rows]`` above 0; whole numbers or, where queries are
            weighted, not.
        clicks: ``[n_rows]`` at most the impressions.
        query_of_doc: ``[n_docs]`` number of each document's query, from 0.
        sessions: ``[n_queries]`` how often each query was issued.
        unmatched: What the counts hold besides.
        has_context: Whether the context was counted.
        segments: Names of the segments of users; empty where they were not counted.
        segment: ``[n_rows]`` number of each row's segment, where there are some.
        values: What clicks are worth, where that was counted.
        user_bucket: ``[n_rows]`` number of each row's users, where rows are by user.
        exposure: How documents are shown, where the policy is known.
    """

    doc: Ints
    rank: Ints
    context: Ints
    impressions: Floats
    clicks: Floats
    query_of_doc: Ints
    sessions: Floats
    unmatched: Unmatched = Unmatched()
    has_context: bool = False
    segments: tuple[str, ...] = ()
    segment: Ints | None = None
    values: Values | None = None
    user_bucket: Ints | None = None
    exposure: ExpectedExposure | None = None

    def _line(self) -> str:
        sizes = f"{self.n_docs:,} documents, {self.n_queries:,} queries"
        return f"{len(self):,} rows, {sizes}"

    def _rows(self) -> list[dict[str, Any]]:
        names = ("doc", "rank", "impressions", "clicks")
        return list(pa.table({n: getattr(self, n) for n in names}).to_pylist())

    @classmethod
    def of_ranks(cls, depth: int) -> ClickRows:
        """One document, shown once at each rank."""
        none, rank = np.zeros(depth, dtype=np.int64), np.arange(1, depth + 1)
        one = np.ones(depth)
        return cls(none, rank, none, one, 0.0 * one, none[:1], one[:1])

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.doc)

    @property
    def n_docs(self) -> int:
        """Number of documents, shown or not."""
        return len(self.query_of_doc)

    @property
    def n_queries(self) -> int:
        """Number of queries, issued or not."""
        return len(self.sessions)

    @property
    def n_sessions(self) -> int:
        """Number of sessions."""
        return int(self.sessions.sum())

    @property
    def query(self) -> Ints:
        """``[n_rows]`` number of each row's query."""
        return self.query_of_doc[self.doc]

    @property
    def share(self) -> Floats:
        """``[n_queries]`` share of the sessions."""
        return np.asarray(self.sessions / self.sessions.sum(), dtype=np.float64)

    @property
    def shown_rank(self) -> Ints:
        """``[n_docs]`` mean rank that each document was shown at, rounded; else 0."""
        n = self.by_doc(self.impressions)
        total = self.by_doc(self.impressions * self.rank)
        return np.rint(total / np.maximum(n, 1e-300)).astype(np.int64)

    @property
    def depth(self) -> int:
        """Deepest rank."""
        return int(self.rank.max(initial=0))

    def by_doc(self, values: ArrayLike) -> Floats:
        """``[n_docs]`` add up ``values [n_rows]`` by document."""
        total = np.bincount(self.doc, values, minlength=self.n_docs)
        return total.astype(np.float64)

    def by_rank(self, values: ArrayLike) -> Floats:
        """``[depth]`` add up ``values [n_rows]`` by rank."""
        total = np.bincount(self.rank, values, minlength=self.depth + 1)
        return total[1:].astype(np.float64)

    def select(self, kept: Bools | Ints) -> ClickRows:
        """Keep some rows; documents, queries and sessions stay as they are."""
        names = ["doc", "rank", "context", "impressions", "clicks"]
        names += ["segment"] if self.segments else []
        names += ["user_bucket"] if self.user_bucket is not None else []
        return replace(self, **{name: getattr(self, name)[kept] for name in names})

    def of_queries(self, queries: Bools) -> ClickRows:
        """Keep the clicks and sessions of some queries, ``[n_queries]``."""
        sessions = np.where(queries, self.sessions, 0.0)
        return replace(self.select(queries[self.query]), sessions=sessions)

    def merged(self) -> ClickRows:
        """Add up rows over context and segment: one row per document and rank."""
        rows = self.added_up(self.rank)
        return replace(rows, has_context=False, segments=(), segment=None)

    def added_up(self, place: Ints) -> ClickRows:
        """Add up the rows of a document at each ``place [n_rows]``, in that order.

        ``rank`` is the place then; all else is that of the first row.
        """
        order, first = runs(place, self.doc)
        return replace(
            self.select(order[first]),
            rank=place[order[first]],
            impressions=np.add.reduceat(self.impressions[order], first),
            clicks=np.add.reduceat(self.clicks[order], first),
        )

    def renumbered(self, order: Ints, queries: Ints) -> ClickRows:
        """Number documents and queries anew: document ``order[i]`` becomes ``i``."""
        values = self.values
        if values is not None:
            by_doc = (values.mean[order], values.variance[order])
            values = Values(*by_doc, values.unit)
        number, exposure = np.argsort(order), self.exposure
        if exposure is not None:
            exposure = replace(exposure, doc=number[exposure.doc])
        return replace(
            self,
            values=values,
            exposure=exposure,
            doc=number[self.doc],
            query_of_doc=np.argsort(queries)[self.query_of_doc[order]],
            sessions=self.sessions[queries],
        )


def join_counts(
    counts: ClickCounts, data: RankingDataset | None = None, *, by_user: bool = False
) -> ClickRows:
    """Number the documents of counts: by their place in ``data``, or as they come.

    Ids are compared as text where one side has integers and the other strings. Rows of
    documents that the data lack are left out, and counted in ``unmatched``. Buckets of
    users are added up, unless rows are to be ``by_user``.
    """
    if "user_bucket" in counts.keys and not by_user:
        counts = counts.merged("user_bucket")
    table, doc, query_of_doc, sessions, unmatched = _by_number(counts, data)
    shown = np.asarray(table["impressions"]) > 0
    rank, impressions, clicks = (
        np.asarray(table[name])[shown] for name in ("rank", "impressions", "clicks")
    )
    has_context, context = CONTEXT in counts.keys, np.zeros_like(rank)
    if has_context:
        context = np.asarray(table[CONTEXT])[shown]
    segments, segment = (), None
    if "segment" in counts.keys:
        found = table["segment"].combine_chunks().dictionary_encode()
        segments = tuple(found.dictionary.to_pylist())
        segment = np.asarray(found.indices, dtype=np.int64)[shown]
    values = None
    if VALUES[0] in table.column_names:
        sums = (np.asarray(table[name]) for name in ("clicks", *VALUES))
        by_doc: Any = (np.bincount(doc, each, len(query_of_doc)) for each in sums)
        values = Values.of(*by_doc)
    return ClickRows(
        doc=doc[shown],
        rank=rank,
        context=context,
        impressions=impressions.astype(np.float64),
        clicks=clicks.astype(np.float64),
        query_of_doc=query_of_doc,
        sessions=sessions,
        unmatched=unmatched,
        has_context=has_context,
        segments=segments,
        segment=segment,
        values=values,
        user_bucket=codes(table["user_bucket"])[shown] if by_user else None,
        exposure=_exposure(table, doc, sessions[query_of_doc[doc]]),
    )


def _by_number(
    counts: ClickCounts, data: RankingDataset | None
) -> tuple[pa.Table, Ints, Ints, Floats, Unmatched]:
    """Put numbers in the place of ids, a part of the counts after another.

    Returns:
        The other columns of the rows whose documents are known, the document of each,
        the query of each document, the sessions of each query, and what was left out.
    """
    if data is not None and not data.n_docs:
        raise DataError("the data are empty")
    tables, docs, left = [], [], Unmatched()
    queries, sessions = np.zeros(0, dtype=np.int64), np.zeros(0)
    if data is not None:
        queries, sessions = data.query_of_doc, np.zeros(data.n_queries)
    for part in counts.parts():
        table = part.table
        if data is None:  # count on where the part before ends
            doc, query, _ = numbered(table)
            doc += len(queries)
            queries = np.append(queries, query + len(sessions))
            sessions = np.pad(sessions, (0, int(query.max(initial=-1)) + 1))
        else:
            doc, known = _found(table, data)
            if not known.all():
                left += _left_out(table.filter(pa.array(~known)))
                table = table.filter(pa.array(known))
        sessions += _sessions(table, part.session_keys, queries[doc], len(sessions))
        tables.append(table.drop_columns([*KEYS[:2], "sessions"]))
        docs.append(doc)
    found = np.concatenate(docs)
    if not len(found):
        if data is None or not left.groups:
            raise DataError("the counts are empty")
        [theirs] = left.example
        ours = [ids[:1].tolist()[0] for ids in (data.query_ids, data.doc_ids)]
        raise DataError(
            "the counts and the data share no document: the first query and document "
            f"are {list(theirs.values())} in the counts, and {ours} in the data"
        )
    return pa.concat_tables(tables), found, queries, sessions, left


def document_ids(counts: ClickCounts) -> pa.Table:
    """``query_id`` and ``doc_id`` of each document, numbered by :func:`join_counts`."""
    parts = []
    for part in counts.parts():
        _, _, first = numbered(part.table)
        parts.append(part.table.select(KEYS[:2]).take(pa.array(first)))
    return pa.concat_tables(parts)


def note_unmatched(rows: ClickRows) -> None:
    """Warn of impressions without features; reject a log that has mostly those."""
    lost = rows.unmatched.impressions
    if not lost:
        return
    share = lost / (lost + rows.impressions.sum())
    if share > 0.5:
        raise DataError(
            f"{share:.0%} of the impressions are of documents that the data have no "
            "features for; are these the data that the log is about?"
        )
    warn(
        f"{share:.1%} of the impressions are of documents without features, and were "
        "left out"
    )


def numbered(table: pa.Table) -> tuple[Ints, Ints, Ints]:
    """Document of each row, query of each document, first row of each document."""
    query, within = codes(table["query_id"]), codes(table["doc_id"])
    key = joint(query, within)
    _, first, doc = np.unique(key, return_index=True, return_inverse=True)
    return doc.reshape(-1), query[first], first


def codes(column: pa.ChunkedArray) -> Ints:
    """Number the values of a column from 0, as they come."""
    encoded = column.combine_chunks().dictionary_encode()
    return np.asarray(encoded.indices, dtype=np.int64)


def _found(table: pa.Table, data: RankingDataset) -> tuple[Ints, Bools]:
    """Document of each row that the data have, and which rows those are."""
    _, query = _matched_codes(data.query_ids, table["query_id"])
    code, within = _matched_codes(data.doc_ids, table["doc_id"])
    size = int(code.max()) + 1
    # One number per document, sorted: less memory than a join of tables.
    there = data.query_of_doc * size + code
    order = np.argsort(there, kind="stable")
    there = there[order]
    if np.any(there[1:] == there[:-1]):
        raise DataError(
            "the data hold several documents of one id in one query, and must have one "
            "row for each; if they are a click log, count it (affinerank count LOG)"
        )
    wanted = np.where((query < 0) | (within < 0), -1, query * size + within)
    place = np.minimum(np.searchsorted(there, wanted), len(there) - 1)
    known = there[place] == wanted
    return order[place[known]], known


def _matched_codes(ids: Ids, column: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """Number ``ids`` from 0, and ``column`` alike; -1 where ``ids`` lack a value."""
    ours = arrow_column(ids)
    if ours.type != column.type:
        ours, column = ours.cast(pa.string()), column.cast(pa.string())
    encoded = ours.dictionary_encode()
    found = pc.index_in(column, value_set=encoded.dictionary)
    number = np.asarray(encoded.indices, dtype=np.int64)
    return number, np.asarray(found.fill_null(-1), dtype=np.int64)


def _left_out(rows: pa.Table) -> Unmatched:
    return Unmatched(
        rows.num_rows,
        grouped(rows, KEYS[:2]).num_rows,
        len(pc.unique(rows["query_id"])),
        int(np.asarray(rows["impressions"]).sum()),
        int(np.asarray(rows["clicks"]).sum()),
        tuple(rows.select(KEYS[:2]).slice(0, 1).to_pylist()),
    )


def _exposure(table: pa.Table, doc: Ints, sessions: Floats) -> ExpectedExposure | None:
    """How documents are shown; ``sessions`` are those of each row's query."""
    if EXPOSURE not in table.column_names:
        return None
    rank, expected = np.asarray(table["rank"]), np.asarray(table[EXPOSURE])
    some = np.flatnonzero(expected > 0)
    if not len(some):
        return None
    order, first = runs(rank[some], doc[some])
    some = some[order]
    chance = np.add.reduceat((expected / sessions)[some], first)
    return ExpectedExposure(doc[some[first]], rank[some[first]], chance)


def _sessions(
    table: pa.Table, keys: tuple[str, ...], query: Ints, n_queries: int
) -> Floats:
    """``[n_queries]`` sessions, added up over the keys after the query."""
    # Sessions stand in every row of a query: take each query (and ranker ...) once.
    key = joint(query, *(codes(table[name]) for name in keys[1:]))
    _, first = np.unique(key, return_index=True)
    sessions = np.asarray(table["sessions"])[first]
    return np.bincount(query[first], sessions, minlength=n_queries).astype(np.float64)
