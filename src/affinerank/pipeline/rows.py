"""Counts as estimators read them: rows of numbered documents, and their features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.documents import ClickRows, numbered
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import JoinedCounts
from affinerank.data.dataset import RankingDataset
from affinerank.data.features import FeatureMapping
from affinerank.data.mapped import taken
from affinerank.errors import DataError

Ints = NDArray[np.int64]


def rows_and_features(
    joined: JoinedCounts, data: RankingDataset
) -> tuple[ClickRows, NDArray[np.float32]]:
    """Counts and features by documents numbered in the order of their ids.

    So what is drawn depends on the ids, not on the order of the data.
    """
    rank_of_query = np.empty(data.n_queries, dtype=np.int64)
    rank_of_query[np.argsort(data.query_ids, kind="stable")] = np.arange(data.n_queries)
    by_id = np.empty(data.n_docs, dtype=np.int64)
    by_id[np.argsort(data.doc_ids, kind="stable")] = np.arange(data.n_docs)
    query = rank_of_query[data.query_of_doc]
    order = np.lexsort((by_id, query))
    features = filled_features(data)
    number = np.empty(data.n_docs, dtype=np.int64)
    number[order] = np.arange(data.n_docs)
    if np.any(order[1:] < order[:-1]):
        features = taken(features, order)
    rows = click_rows(joined, data)
    return replace(rows, doc=number[rows.doc], query=query[rows.doc]), features


def click_rows(joined: JoinedCounts, data: RankingDataset) -> ClickRows:
    """Counts by the numbers of documents and queries in the data."""
    return _shown_rows(joined.counts, joined.doc, data.query_of_doc[joined.doc])


def unjoined_rows(counts: ClickCounts) -> ClickRows:
    """Counts of documents that there are no data of, numbered as they come."""
    if not len(counts.rank):
        raise DataError("the counts are empty, so there is nothing to estimate from")
    return _shown_rows(counts, *numbered(counts))


def filled_features(data: RankingDataset) -> NDArray[np.float32]:
    """Features as networks read them, with medians in the place of missing values."""
    return FeatureMapping.fit(data, impute=True).apply(data).features


def _shown_rows(counts: ClickCounts, doc: Ints, query: Ints) -> ClickRows:
    seen = counts.impressions > 0
    return ClickRows(
        doc[seen],
        query[seen],
        counts.rank[seen],
        counts.impressions[seen].astype(np.float64),
        counts.clicks[seen].astype(np.float64),
    )
