"""Ranking data: one row of features per document, documents grouped by query.

There is one layout everywhere: flat arrays over documents, and ``offsets`` that say
where each query begins. Query ``q`` owns the rows ``offsets[q]:offsets[q + 1]``.
Nothing is padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from affinerank.data.categories import Values
from affinerank.data.dataset_checks import (
    as_ids,
    as_labels,
    as_matrix,
    as_names,
    as_offsets,
    as_query_ids,
    require_codes,
    with_length,
)
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.output.blocks import Summary
from affinerank.support.arrays import Ids, Ints, Matrix
from affinerank.support.arrow import pa, pq
from affinerank.support.errors import DataError, warn
from affinerank.support.files import scratch_folder
from affinerank.support.large_arrays import ROWS_AT_ONCE, blocks, release, taken
from affinerank.support.registry import later


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class RankingDataset(Summary):
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
            in order if left out.
        categories: Values of the features that are categories, by name: the matrix
            holds their places, from 0.
        absent_is_zero: Whether the source leaves zeros out, so that features it never
            mentions are 0 and not unknown (LETOR / SVMLight text).
    """

    features: Matrix
    offsets: Ints
    labels: Matrix | None = None
    query_ids: Ids
    doc_ids: Ids
    feature_names: tuple[str, ...] = ()
    source_rows: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    absent_is_zero: bool = False
    categories: Values = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every array, fill in the optional ones, forbid writing."""
        features = as_matrix(self.features)
        n_docs, n_features = features.shape
        offsets = as_offsets(self.offsets, n_docs)
        names = as_names(self.feature_names, n_features)
        require_codes(features, names, self.categories)
        rows = self.source_rows if len(self.source_rows) else np.arange(n_docs)
        fields: dict[str, Any] = {
            "features": features,
            "offsets": offsets,
            "query_ids": as_query_ids(self.query_ids, offsets),
            "doc_ids": as_ids("doc_ids", self.doc_ids, n_docs),
            "source_rows": with_length("source_rows", np.asarray(rows), n_docs),
        }
        if self.labels is not None:
            fields["labels"] = as_labels(self.labels, n_docs)
        for name, value in fields.items():
            fields[name] = value.view()
            fields[name].setflags(write=False)
        for name, value in {**fields, "feature_names": names}.items():
            object.__setattr__(self, name, value)

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
        ``source_rows`` tells where they were.

        >>> data = RankingDataset.from_rows([[1.0], [2.0], [3.0]], ["b", "b", "a"])
        >>> data.query_ids.tolist(), data.offsets.tolist()
        (['b', 'a'], [0, 2, 3])
        """
        row_ids = as_ids("query_ids", query_ids, len(np.asarray(features)))
        unique, first, inverse = np.unique(
            row_ids, return_index=True, return_inverse=True
        )
        appearance = np.argsort(first, kind="stable")
        return cls.from_groups(
            features,
            np.argsort(appearance)[inverse],
            unique[appearance],
            labels=labels,
            doc_ids=doc_ids,
            feature_names=feature_names,
        )

    @classmethod
    def from_frame(cls, frame: Any, **how: Any) -> RankingDataset:
        """Build from a frame: pandas, polars, pyarrow, DuckDB, anything of Arrow.

        Columns are those of a feature table in Parquet, and so is ``how`` it is read
        (:func:`~affinerank.data.parquet.read_parquet`).
        """
        read = later("affinerank.data.parquet:read_frame")
        found: RankingDataset = read(frame, **how)
        return found

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
        categories: Values | None = None,
    ) -> RankingDataset:
        """Build from the number of each row's query, in any order.

        As :meth:`from_rows`, for ids that are numbered already: row ``i`` belongs to
        the query ``query_ids[query_of_row[i]]``.
        """
        matrix = np.asarray(features, dtype=np.float32)
        groups = np.asarray(query_of_row, dtype=np.int64)
        queries = np.asarray(query_ids)
        rows = np.arange(len(matrix))
        ids = rows if doc_ids is None else np.asarray(doc_ids)
        known = None if labels is None else np.asarray(labels)
        steps = np.diff(groups)
        came_back = int(np.count_nonzero(steps)) + min(len(rows), 1) - len(queries)
        if came_back > 0:
            warn(
                "rows of one query were not together: a query id came back "
                f"{came_back} time{'s' * (came_back > 1)} after another query; its "
                "rows were grouped, in their order"
            )
        if np.any(steps < 0):
            rows = np.argsort(groups, kind="stable")
            matrix, ids = taken(matrix, rows), ids[rows]
            known = None if known is None else known[rows]
        sizes = np.bincount(groups, minlength=len(queries))
        return cls(
            features=matrix,
            offsets=np.append(0, np.cumsum(sizes)),
            labels=known,
            query_ids=queries,
            doc_ids=ids,
            feature_names=tuple(feature_names),
            source_rows=rows,
            categories=categories or {},
        )

    def _line(self) -> str:
        labels = "labelled" if self.labels is not None else "without labels"
        return (
            f"{self.n_queries:,} queries, {self.n_docs:,} documents, "
            f"{self.n_features:,} features, {labels}"
        )

    def _rows(self) -> list[dict[str, Any]]:
        """One row per query."""
        rows = []
        for query, (begin, end) in enumerate(pairwise(self.offsets.tolist())):
            rows.append({"query_id": self.query_ids[query], "documents": end - begin})
            if self.labels is not None:
                rows[-1]["mean_label"] = float(np.mean(self.labels[begin:end]))
        return rows

    def to_arrow(self) -> pa.Table:
        """Return documents as an Arrow table: ids, labels and features, by name."""
        with scratch_folder() as folder:
            path = folder / "data.parquet"
            later("affinerank.data.parquet:write_parquet")(self, path)
            return pq.read_table(path)

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
        """``[n_queries]`` number of documents per query."""
        return np.diff(self.offsets)

    @property
    def query_of_doc(self) -> Ints:
        """``[n_docs]`` number of the query that each document belongs to."""
        return np.repeat(np.arange(self.n_queries), self.docs_per_query)

    def select_queries(self, queries: ArrayLike) -> RankingDataset:
        """Return the queries at these positions, in this order."""
        chosen = np.asarray(queries, dtype=np.int64)
        bad = chosen[(chosen < 0) | (chosen >= self.n_queries)]
        if bad.size:
            raise DataError(f"queries run from 0 to {self.n_queries - 1}, got {bad[0]}")
        sizes = self.docs_per_query[chosen]
        offsets = np.append(0, np.cumsum(sizes))
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
        own = {name: self.categories[name] for name in names if name in self.categories}
        return FeatureMapping(tuple(names), "none", categories=own).apply(self)

    def varying_features(self) -> tuple[str, ...]:
        """Return the features that differ between two documents of some query.

        The others cannot rank. ``select_features`` with these names, on every split,
        leaves them out everywhere alike.
        """
        varies = np.zeros(self.n_features, dtype=bool)
        for rows, starts in self.blocks():
            block = self.features[rows]
            sizes = np.diff(np.append(starts, len(block)))
            first = np.repeat(block[starts], sizes, axis=0)
            same = (block == first) | (np.isnan(block) & np.isnan(first))
            varies |= ~same.all(axis=0)
            release(self.features)
        return tuple(np.array(self.feature_names, dtype=object)[varies])

    def relevance(self, relevant_above: float = 2.0) -> Matrix:
        """``[n_docs]`` 1 where the label exceeds ``relevant_above``, else 0."""
        return (self.known_labels() > relevant_above).astype(np.float32)

    def known_labels(self) -> Matrix:
        """Return the labels; reject data that have none."""
        if self.labels is None:
            raise DataError(
                "labels are needed here, and these data have none; give a labelled "
                "set, or to evaluate without labels the clicks held out (--counts)"
            )
        return self.labels

    def summary(self) -> dict[str, Any]:
        """Return sizes, label shares and missing values as plain data."""
        sizes = self.docs_per_query if self.n_queries else np.zeros(1, np.int64)
        shares = None
        if self.labels is not None:
            values, counts = np.unique(self.labels, return_counts=True)
            pairs = zip(values, counts, strict=True)
            shares = {f"{value:g}": int(n) / self.n_docs for value, n in pairs}
        return {
            "queries": self.n_queries,
            "documents": self.n_docs,
            "features": self.n_features,
            "categories": {name: len(own) for name, own in self.categories.items()},
            "documents_per_query": {
                "min": int(sizes.min()),
                "median": float(np.median(sizes)),
                "mean": float(sizes.mean()),
                "max": int(sizes.max()),
            },
            "label_shares": shares,
            "missing_values": sum(self.missing_values().values()),
        }

    def missing_values(self) -> dict[str, int]:
        """Return the number of missing values of each feature that lacks some."""
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
