"""Ranking data: one row of features per document, documents grouped by query.

There is one layout everywhere: flat arrays over documents, and ``offsets`` that say
where each query begins. Query ``q`` owns the rows ``offsets[q]:offsets[q + 1]``.
Nothing is padded.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from affinerank.data.mapped import ROWS_AT_ONCE, blocks, empty_matrix, release, taken
from affinerank.errors import AffineRankWarning, ConfigError, DataError

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Ids = NDArray[Any]
Split = Literal["train", "validation", "test"]
Missing = Literal["error", "keep"] | float
SPLITS: tuple[Split, ...] = get_args(Split)

# Scaled features are sorted into so many steps from 0 to 1 to find their median.
STEPS = 2**14


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
        features = _as_matrix(self.features)
        n_docs, n_features = features.shape
        offsets = _as_offsets(self.offsets, n_docs)
        names = tuple(self.feature_names) or default_feature_names(n_features)
        if len(names) != n_features or len(set(names)) != len(names):
            raise DataError(
                f"feature_names must be {n_features} different names, one per column, "
                f"got {len(names)} of which {len(set(names))} differ"
            )
        query_ids = _as_ids("query_ids", self.query_ids, len(offsets) - 1)
        if len(np.unique(query_ids)) != len(query_ids):
            raise DataError(
                "query_ids must name each query once; "
                "RankingDataset.from_rows groups rows that come in any order"
            )
        fields: dict[str, Any] = {
            "features": features,
            "offsets": offsets,
            "labels": None if self.labels is None else _as_labels(self.labels, n_docs),
            "query_ids": query_ids,
            "doc_ids": _as_ids("doc_ids", self.doc_ids, n_docs),
            "feature_names": names,
            "source_rows": _as_source_rows(self.source_rows, n_docs),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, _read_only(value))

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
        row_ids = _as_ids("query_ids", query_ids, len(np.asarray(features)))
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


@dataclass(frozen=True, slots=True)
class FeatureMapping:
    """What is done to raw features before a ranker sees them; the same on every split.

    Attributes:
        names: The features the ranker reads, in its order.
        per_query_min_max: Whether each is scaled to [0, 1] within its query.
        fill: ``[n_features]`` what is put in the place of a missing value, after
            scaling; ``None`` leaves it missing.
    """

    names: tuple[str, ...]
    per_query_min_max: bool = True
    fill: tuple[float, ...] | None = None

    @classmethod
    def fit(cls, train: RankingDataset, *, impute: bool = False) -> FeatureMapping:
        """Keep the features that vary within some query of ``train``.

        ``impute`` also learns what to put in the place of missing values: the median of
        the known ones, scaled, to within 1 / 16,384.
        """
        names = train.varying_features()
        if not names:
            raise DataError(
                "every feature is constant within every query, so nothing can tell "
                "documents apart; give data whose features differ within a query"
            )
        found = cls(names=names)
        return replace(found, fill=_medians(found, train)) if impute else found

    def apply(self, data: RankingDataset) -> RankingDataset:
        """Return ``data`` with these features alone, scaled and filled as it says.

        One pass, one new matrix, which lies in a temporary file where it is large.
        """
        plain = not self.per_query_min_max and self.fill is None
        if plain and self.names == data.feature_names:
            return data
        mapped = empty_matrix(data.n_docs, len(self.names))
        for rows, block in self.blocks(data):
            mapped[rows] = block
            release(mapped)
        return replace(data, features=mapped, feature_names=self.names)

    def blocks(self, data: RankingDataset) -> Iterator[tuple[slice, Floats]]:
        """Yield rows of ``data``, and their features as this mapping makes them."""
        wide, columns = data.with_columns(self.names)
        whole = columns == list(range(wide.n_features))
        fill = None if self.fill is None else np.array(self.fill, dtype=np.float32)
        for rows, starts in wide.blocks():
            block = wide.features[rows] if whole else wide.features[rows, columns]
            if self.per_query_min_max:
                block = _min_max(block, starts)
            if fill is not None:
                block = np.where(np.isnan(block), fill, block)
            yield rows, block
            release(wide.features)


def _min_max(block: Floats, starts: Ints) -> Floats:
    """Scale to [0, 1] within the lists that begin at ``starts``."""
    low = np.fmin.reduceat(block, starts, axis=0)
    span = np.fmax.reduceat(block, starts, axis=0) - low
    span[span == 0] = 1.0
    sizes = np.diff(np.append(starts, len(block)))
    scaled: Floats = block - np.repeat(low, sizes, axis=0)
    scaled /= np.repeat(span, sizes, axis=0)
    return scaled


def _medians(mapping: FeatureMapping, train: RankingDataset) -> tuple[float, ...]:
    """The lower median of each feature's known values, from a count of their steps."""
    counts = np.zeros((len(mapping.names), STEPS + 1), dtype=np.int64)
    for _, block in mapping.blocks(train):
        # A missing value goes to a step beyond the last.
        steps = np.nan_to_num(np.rint(block * STEPS), nan=STEPS + 1).astype(np.int32)
        for i, column in enumerate(steps.T):
            counts[i] += np.bincount(column, minlength=STEPS + 2)[:-1]
    upto = np.cumsum(counts, axis=1)
    middle = (upto[:, -1:] + 1) // 2
    return tuple((np.argmax(upto >= middle, axis=1) / STEPS).tolist())


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


def default_feature_names(n_features: int) -> tuple[str, ...]:
    """Name features as LETOR numbers them: ``f1 .. fn``."""
    return tuple(f"f{i}" for i in range(1, n_features + 1))


def parse_split(name: str) -> Split:
    """Return the split of this name, or an error that lists them.

    >>> parse_split("test")
    'test'
    """
    for split in SPLITS:
        if name == split:
            return split
    raise ConfigError(f"split must be one of {', '.join(SPLITS)}, got {name!r}")


def require_missing(missing: Missing) -> None:
    """Refuse what says nothing about missing values."""
    if isinstance(missing, str) and missing not in ("error", "keep"):
        raise ConfigError(
            f"missing must be error, keep or a number to put there, got {missing!r}"
        )


def note_scattered(n_returns: int) -> None:
    """Warn that query ids came back after other queries, and were grouped."""
    times = "time" if n_returns == 1 else "times"
    warnings.warn(
        f"rows of one query were not together: a query id came back {n_returns} "
        f"{times} after another query; its rows were grouped, in their order",
        AffineRankWarning,
        stacklevel=3,
    )


def _as_matrix(features: ArrayLike) -> Floats:
    matrix = np.asarray(features, dtype=np.float32)
    if matrix.ndim != 2:
        raise DataError(
            f"features must be a matrix [n_docs, n_features], got shape {matrix.shape}"
        )
    for part in blocks(len(matrix)):
        block = np.isinf(matrix[part])
        release(matrix)
        if block.any():
            row, column = np.argwhere(block)[0]
            raise DataError(
                f"row {part.start + row}, feature {column + 1}: a feature must be "
                "finite or NaN (missing), got an infinite value"
            )
    return matrix


def _as_offsets(offsets: ArrayLike, n_docs: int) -> Ints:
    array = np.asarray(offsets, dtype=np.int64)
    if array.ndim != 1 or len(array) == 0 or array[0] != 0 or array[-1] != n_docs:
        raise DataError(
            f"offsets must start at 0 and end at the number of documents, {n_docs}"
        )
    bad = np.flatnonzero(np.diff(array) < 1)
    if bad.size:
        raise DataError(
            f"query {bad[0]} has no documents ({bad.size} such queries); "
            "leave out queries without documents"
        )
    return array


def _as_labels(labels: ArrayLike, n_docs: int) -> Floats:
    array = np.asarray(labels, dtype=np.float32)
    if array.shape != (n_docs,):
        raise DataError(
            f"labels must be one number per document, [{n_docs}], got {array.shape}"
        )
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if bad.size:
        raise DataError(
            f"row {bad[0]}: a label must be a number that is 0 or more, "
            f"got {array[bad[0]]:g} ({bad.size} such rows)"
        )
    return array


def _as_ids(name: str, ids: ArrayLike, length: int) -> Ids:
    """Return int64 where all are integers, else numpy strings of any length."""
    array = np.asarray(ids)
    if array.shape != (length,):
        raise DataError(f"{name} must be [{length}], got shape {array.shape}")
    unsigned = array.dtype.kind == "u"
    if array.dtype.kind == "i" or (unsigned and array.max(initial=0) < 2**63):
        return array.astype(np.int64, copy=False)
    if unsigned:
        return array.astype(np.dtypes.StringDType())
    if array.dtype.kind in "OUT" or length == 0:
        return array.astype(np.dtypes.StringDType(), copy=False)
    raise DataError(f"{name} must be integers or strings, got {array.dtype}")


def _as_source_rows(rows: Ints, n_docs: int) -> Ints:
    array = np.asarray(rows, dtype=np.int64) if len(rows) else np.arange(n_docs)
    if array.shape != (n_docs,):
        raise DataError(f"source_rows must be [{n_docs}], got shape {array.shape}")
    return array


def _read_only(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.view()
        value.setflags(write=False)
    return value
