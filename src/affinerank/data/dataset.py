"""Ranking data: one row of features per document, documents grouped by query.

There is one layout everywhere: flat arrays over documents, and ``offsets`` that say
where each query begins. Query ``q`` owns the rows ``offsets[q]:offsets[q + 1]``.
Nothing is padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from affinerank.data.checks import (
    as_ids,
    as_labels,
    as_matrix,
    as_names,
    as_offsets,
    as_source_rows,
    note_scattered,
    read_only,
)
from affinerank.data.features import FeatureMapping
from affinerank.data.mapped import ROWS_AT_ONCE, blocks, release, taken
from affinerank.errors import DataError

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Ids = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RankingDataset:
    """Features, and labels where they are known, of the documents of many queries.

    Attributes:
        features: ``[n_docs, n_features]`` float32; NaN is a missing value.
        offsets: ``[n_queries + 1]`` where each query's documents begin and end.
        labels: ``[n_docs]`` graded relevance, 0 or more; ``None`` where unknown.
        query_ids: ``[n_queries]`` integers or strings, each once.
        doc_ids: ``[n_docs]`` integers or strings; row numbers where the source has
            none.
        feature_names: ``[n_features]`` names, ``f1 .. fn`` unless the source has
            others. They are how a ranker trained on one split finds its columns in
            another.
        source_rows: ``[n_docs]`` the row of the source that each document came from;
            left out, they are taken to be in order.
        absent_is_zero: Whether the source leaves zeros out, so that features beyond
            its last column are 0 and not unknown (LETOR / SVMLight text).
    """

    features: Floats
    offsets: Ints
    labels: Floats | None = None
    query_ids: Ids
    doc_ids: Ids
    feature_names: tuple[str, ...] = ()
    source_rows: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    absent_is_zero: bool = False

    def __post_init__(self) -> None:
        """Check every array, give the optional ones their values, forbid writing."""
        features = as_matrix(self.features)
        n_docs, n_features = features.shape
        offsets = as_offsets(self.offsets, n_docs)
        names = as_names(self.feature_names, n_features)
        query_ids = as_ids("query_ids", self.query_ids, len(offsets) - 1)
        if len(np.unique(query_ids)) != len(query_ids):
            raise DataError(
                "query_ids must name each query once; "
                "RankingDataset.from_rows groups rows that come in any order"
            )
        fields: dict[str, Any] = {
            "features": features,
            "offsets": offsets,
            "labels": None if self.labels is None else as_labels(self.labels, n_docs),
            "query_ids": query_ids,
            "doc_ids": as_ids("doc_ids", self.doc_ids, n_docs),
            "feature_names": names,
            "source_rows": as_source_rows(self.source_rows, n_docs),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, read_only(value))

    @classmethod
    def from_rows(
        cls,
        features: ArrayLike,
        query_ids: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        doc_ids: ArrayLike | None = None,
        feature_names: Sequence[str] = (),
    ) -> RankingDataset:
        """Build from one query id per row, in any order.

        Queries come in the order of their first row, documents in the order of theirs.
        A query whose rows are scattered is brought together, with a warning;
        :meth:`in_source_order` undoes it.

        >>> data = RankingDataset.from_rows([[1.0], [2.0], [3.0]], ["b", "b", "a"])
        >>> data.query_ids.tolist(), data.offsets.tolist()
        (['b', 'a'], [0, 2, 3])
        """
        row_ids = as_ids("query_ids", query_ids, len(np.asarray(features)))
        unique, first, inverse = np.unique(
            row_ids, return_index=True, return_inverse=True
        )
        appearance = np.argsort(first, kind="stable")
        position = np.empty_like(appearance)
        position[appearance] = np.arange(len(appearance))
        return cls.from_groups(
            features,
            position[inverse],
            unique[appearance],
            labels=labels,
            doc_ids=doc_ids,
            feature_names=feature_names,
        )

    @classmethod
    def from_groups(
        cls,
        features: ArrayLike,
        query_of_row: ArrayLike,
        query_ids: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        doc_ids: ArrayLike | None = None,
        feature_names: Sequence[str] = (),
    ) -> RankingDataset:
        """Build from the number of each row's query, in any order.

        As :meth:`from_rows`, for ids that are numbered already: row ``i`` belongs to
        the query ``query_ids[query_of_row[i]]``.
        """
        matrix = np.asarray(features, dtype=np.float32)
        groups = np.asarray(query_of_row, dtype=np.int64)
        queries = np.asarray(query_ids)
        ids = np.arange(len(matrix)) if doc_ids is None else np.asarray(doc_ids)
        given = None if labels is None else np.asarray(labels)
        rows = np.arange(len(matrix))
        steps = np.diff(groups)
        came_back = int(np.count_nonzero(steps)) + min(len(rows), 1) - len(queries)
        if came_back > 0:
            note_scattered(came_back)
        if np.any(steps < 0):
            rows = np.argsort(groups, kind="stable")
            matrix, ids = taken(matrix, rows), ids[rows]
            given = None if given is None else given[rows]
        sizes = np.bincount(groups, minlength=len(queries))
        return cls(
            features=matrix,
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            labels=given,
            query_ids=queries,
            doc_ids=ids,
            feature_names=tuple(feature_names),
            source_rows=rows,
        )

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    @property
    def n_docs(self) -> int:
        """Number of documents, over all queries."""
        return len(self.features)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    @property
    def docs_per_query(self) -> Ints:
        """``[n_queries]`` number of documents of each query."""
        return np.diff(self.offsets)

    @property
    def query_of_doc(self) -> Ints:
        """``[n_docs]`` number of the query that each document belongs to."""
        return np.repeat(np.arange(self.n_queries), self.docs_per_query)

    def in_source_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return ``values [n_docs, ...]`` in the order of the rows of the source."""
        if len(values) != self.n_docs:
            raise DataError(
                f"values must have one row per document, {self.n_docs}, "
                f"got {len(values)}"
            )
        return values[np.argsort(self.source_rows, kind="stable")]

    def select_queries(self, queries: ArrayLike) -> RankingDataset:
        """Return the queries at these positions, in this order."""
        chosen = np.asarray(queries, dtype=np.int64)
        bad = chosen[(chosen < 0) | (chosen >= self.n_queries)]
        if bad.size:
            raise DataError(
                f"query positions run from 0 to {self.n_queries - 1}, got {bad[0]}"
            )
        sizes = self.docs_per_query[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        shift = np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
        rows = np.arange(offsets[-1]) + shift
        return replace(
            self,
            features=taken(self.features, rows),
            offsets=offsets,
            labels=None if self.labels is None else self.labels[rows],
            query_ids=self.query_ids[chosen],
            doc_ids=self.doc_ids[rows],
            source_rows=self.source_rows[rows],
        )

    def select_features(self, names: Sequence[str]) -> RankingDataset:
        """Return the columns of these names, in this order."""
        return FeatureMapping(tuple(names), per_query_min_max=False).apply(self)

    def with_columns(self, names: Sequence[str]) -> tuple[RankingDataset, list[int]]:
        """These data, and where they have the columns of these names.

        What the source leaves out because it is 0 is added.
        """
        column = {name: i for i, name in enumerate(self.feature_names)}
        absent = [name for name in names if name not in column]
        if absent and self.absent_is_zero:
            return self._widened(absent).with_columns(names)
        if absent:
            raise DataError(
                f"the data lack {len(absent)} of {len(names)} features, "
                f"{absent[0]!r} first; they have {self.n_features}: "
                f"{self.feature_names[0]!r} to {self.feature_names[-1]!r}"
            )
        return self, [column[name] for name in names]

    def _widened(self, names: Sequence[str]) -> RankingDataset:
        """Add columns of 0 for features that no row mentions."""
        zeros = np.zeros((self.n_docs, len(names)), dtype=np.float32)
        return replace(
            self,
            features=np.concatenate([self.features, zeros], axis=1),
            feature_names=(*self.feature_names, *names),
        )

    def normalised(self) -> RankingDataset:
        """Scale each feature to [0, 1] within each query; a constant one becomes 0.

        Missing values stay missing and do not take part.
        """
        return FeatureMapping(self.feature_names).apply(self)

    def varying_features(self) -> tuple[str, ...]:
        """Names of the features that differ between two documents of some query.

        The others cannot rank. ``select_features`` with these names, on every split,
        leaves them out everywhere alike.
        """
        varies = np.zeros(self.n_features, dtype=bool)
        for rows, starts in self.blocks():
            block = self.features[rows]
            low = np.fmin.reduceat(block, starts, axis=0)
            varies |= (np.fmax.reduceat(block, starts, axis=0) > low).any(axis=0)
            some = np.logical_or.reduceat(np.isnan(block), starts, axis=0)
            every = np.logical_and.reduceat(np.isnan(block), starts, axis=0)
            varies |= (some & ~every).any(axis=0)
            release(self.features)
        return tuple(np.array(self.feature_names, dtype=object)[varies])

    def relevance(self, relevant_above: float = 2.0) -> Floats:
        """``[n_docs]`` 1 where the label exceeds ``relevant_above``, else 0."""
        return (self.known_labels() > relevant_above).astype(np.float32)

    def known_labels(self) -> Floats:
        """The labels, or an error where the data have none."""
        if self.labels is None:
            raise DataError(
                "these data carry no labels, and labels are needed here; "
                "give a labelled set"
            )
        return self.labels

    def summary(self) -> dict[str, Any]:
        """Sizes, documents per query, label shares, missing values, as plain data."""
        sizes = self.docs_per_query
        known = self.n_queries > 0
        shares = None
        if self.labels is not None:
            values, counts = np.unique(self.labels, return_counts=True)
            shares = {
                f"{value:g}": int(count) / self.n_docs
                for value, count in zip(values, counts, strict=True)
            }
        return {
            "queries": self.n_queries,
            "documents": self.n_docs,
            "features": self.n_features,
            "documents_per_query": {
                "min": int(sizes.min()) if known else 0,
                "median": float(np.median(sizes)) if known else 0.0,
                "mean": float(sizes.mean()) if known else 0.0,
                "max": int(sizes.max()) if known else 0,
            },
            "label_shares": shares,
            "missing_values": sum(self.missing_values().values()),
        }

    def missing_values(self) -> dict[str, int]:
        """Names of the features that lack values, and how many each lacks."""
        lacking = np.zeros(self.n_features, dtype=np.int64)
        for part in blocks(self.n_docs):
            lacking += np.isnan(self.features[part]).sum(axis=0)
            release(self.features)
        pairs = zip(self.feature_names, lacking.tolist(), strict=True)
        return {name: number for name, number in pairs if number}

    def blocks(self) -> Iterator[tuple[slice, Ints]]:
        """Yield runs of whole queries of about ``ROWS_AT_ONCE`` rows, with starts."""
        query = 0
        while query < self.n_queries:
            first = self.offsets[query]
            after = int(np.searchsorted(self.offsets, first + ROWS_AT_ONCE, "right"))
            end = max(after - 1, query + 1)
            yield slice(first, self.offsets[end]), self.offsets[query:end] - first
            query = end


def concatenate(parts: Sequence[RankingDataset]) -> RankingDataset:
    """Put the queries of several parts after one another; they must share features."""
    names = max((part.feature_names for part in parts), key=len)
    aligned = [part.select_features(names) for part in parts]
    starts = np.cumsum([0, *(part.n_docs for part in aligned)])
    labelled = all(part.labels is not None for part in aligned)
    ends = [part.offsets[1:] + s for part, s in zip(aligned, starts, strict=False)]
    return RankingDataset(
        features=np.concatenate([part.features for part in aligned]),
        offsets=np.concatenate([[0], *ends]),
        labels=np.concatenate([p.known_labels() for p in aligned])
        if labelled
        else None,
        query_ids=np.concatenate([part.query_ids for part in aligned]),
        doc_ids=np.concatenate([part.doc_ids for part in aligned]),
        feature_names=names,
        absent_is_zero=all(part.absent_is_zero for part in parts),
        source_rows=np.concatenate(
            [part.source_rows + s for part, s in zip(aligned, starts, strict=False)]
        ),
    )
