"""Counts seen from the documents: what each got at each pool of ranks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from affinerank.bias.pooling import RankPools
from affinerank.clicks.counts import ClickCounts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# numpy draws without replacement from fewer than this; from more it is the same with.
MANY = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class ClickRows:
    """Rows of counts with numbered documents and queries, ``[n_rows]`` each.

    Attributes:
        doc: Number of the document, from 0; some may be missing.
        query: Number of its query, from 0.
        rank: From 1.
        impressions: How often it was shown there.
        clicks: How often it was clicked there.
    """

    doc: Ints
    query: Ints
    rank: Ints
    impressions: Floats
    clicks: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Documents:
    """Impressions and clicks of each document, at each pool it was shown at.

    Attributes:
        query: ``[n_docs]`` query of each document, from 0.
        first: ``[n_docs + 1]`` where a document's rows begin.
        pool: ``[n_rows]`` pool of ranks of a row.
        impressions: ``[n_rows]`` how often the document was shown there; whole numbers
            or, where queries are weighted, not.
        clicks: ``[n_rows]`` how often it was clicked there.
    """

    query: Ints
    first: Ints
    pool: Ints
    impressions: Floats
    clicks: Floats

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return len(self.query)

    @property
    def n_queries(self) -> int:
        """Number of queries, counting those in between that have no document."""
        return int(self.query.max(initial=-1)) + 1

    @property
    def doc_of_row(self) -> Ints:
        """``[n_rows]`` document of each row."""
        return np.repeat(np.arange(self.n_docs), np.diff(self.first))

    @property
    def home(self) -> Ints:
        """``[n_docs]`` the pool where a document was seen most; the upper of equals."""
        if len(self.pool) == self.n_docs:
            return self.pool
        doc = self.doc_of_row
        order = np.lexsort((self.pool, -self.impressions, doc))
        return self.pool[order[self.first[:-1]]]

    @property
    def n_impressions(self) -> Floats:
        """``[n_docs]`` impressions of each document."""
        return np.add.reduceat(self.impressions, self.first[:-1])

    def between(self, start: int, end: int) -> Documents:
        """The documents ``start .. end - 1``."""
        first = self.first[start : end + 1]
        rows = slice(first[0], first[-1])
        return Documents(
            self.query[start:end],
            first - first[0],
            self.pool[rows],
            self.impressions[rows],
            self.clicks[rows],
        )

    def select(self, kept: Bools) -> Documents:
        """The documents of ``kept [n_docs]``."""
        rows = np.repeat(kept, np.diff(self.first))
        first = np.concatenate([[0], np.cumsum(np.diff(self.first)[kept])])
        return Documents(
            self.query[kept],
            first,
            self.pool[rows],
            self.impressions[rows],
            self.clicks[rows],
        )

    def take(self, docs: Ints) -> Documents:
        """The documents ``docs``, in that order."""
        sizes = np.diff(self.first)[docs]
        first = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(self.first[docs] - first[:-1], sizes) + np.arange(first[-1])
        return Documents(
            self.query[docs],
            first,
            self.pool[rows],
            self.impressions[rows],
            self.clicks[rows],
        )

    def capped(self, most: float) -> Documents:
        """The same click rates from at most ``most`` impressions a document."""
        scale = np.minimum(1.0, most / self.n_impressions)
        each = np.repeat(scale, np.diff(self.first))
        return replace(
            self, impressions=self.impressions * each, clicks=self.clicks * each
        )

    def thinned(self, most: float, rng: np.random.Generator) -> Documents:
        """About ``most`` of a document's impressions at most, drawn from them."""
        scale = np.minimum(1.0, most / self.n_impressions)
        each = np.repeat(scale, np.diff(self.first))
        whole = np.rint(self.impressions).astype(np.int64)
        kept = np.ceil(whole * each).astype(np.int64)
        clicked = np.minimum(np.rint(self.clicks).astype(np.int64), whole)
        many = whole >= MANY
        drawn = np.empty_like(kept)
        drawn[many] = rng.binomial(kept[many], clicked[many] / whole[many])
        clicked, whole, some = clicked[~many], whole[~many], kept[~many]
        drawn[~many] = rng.hypergeometric(clicked, whole - clicked, some)
        return replace(
            self,
            impressions=kept.astype(np.float64),
            clicks=drawn.astype(np.float64),
        )


def documents(rows: ClickRows, pools: RankPools) -> Documents:
    """Add up rows of counts by document and pool."""
    seen = rows.impressions > 0
    doc, query, pool = rows.doc[seen], rows.query[seen], pools.pool(rows.rank[seen])
    order = np.lexsort((pool, doc))
    doc, query, pool = doc[order], query[order], pool[order]
    new = np.ones(len(doc), dtype=bool)
    new[1:] = (np.diff(doc) != 0) | (np.diff(pool) != 0)
    row = np.flatnonzero(new)
    new_doc = np.ones(len(row), dtype=bool)
    new_doc[1:] = np.diff(doc[row]) != 0
    first = np.concatenate([np.flatnonzero(new_doc), [len(row)]])
    return Documents(
        query[row[first[:-1]]],
        first,
        pool[row],
        np.add.reduceat(rows.impressions[seen][order], row),
        np.add.reduceat(rows.clicks[seen][order], row),
    )


def numbered(counts: ClickCounts) -> tuple[Ints, Ints]:
    """Number the documents and queries of counts: ``[n_rows]`` each, from 0."""
    query = _codes(counts.table["query_id"])
    within = _codes(counts.table["doc_id"])
    key = query * (within.max(initial=0) + 1) + within
    return np.unique(key, return_inverse=True)[1].reshape(-1), query


def _codes(column: pa.ChunkedArray) -> Ints:
    encoded = column.combine_chunks().dictionary_encode()
    return np.asarray(encoded.indices, dtype=np.int64)
