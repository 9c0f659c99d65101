"""Rows of counts and populations, written out."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from affinerank.bias.mixture.population import MixtureDocuments
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats, Ints


def click_rows(
    doc: ArrayLike,
    query: ArrayLike,
    rank: ArrayLike,
    impressions: ArrayLike,
    clicks: ArrayLike,
    *,
    n_docs: int | None = None,
) -> ClickRows:
    """Rows of counts from their columns; every query was issued once."""
    docs, queries = np.asarray(doc, np.int64), np.asarray(query, np.int64)
    query_of_doc = np.zeros(n_docs or int(docs.max(initial=-1)) + 1, dtype=np.int64)
    query_of_doc[docs] = queries
    return ClickRows(
        doc=docs,
        rank=np.asarray(rank, np.int64),
        context=np.zeros(len(docs), dtype=np.int64),
        impressions=np.asarray(impressions, np.float64),
        clicks=np.asarray(clicks, np.float64),
        query_of_doc=query_of_doc,
        sessions=np.ones(int(query_of_doc.max(initial=-1)) + 1),
    )


def added(rows: ClickRows, more: ClickRows) -> ClickRows:
    """Rows of both; ``more`` may have documents and queries of its own."""
    columns = ("doc", "query", "rank", "impressions", "clicks")
    both = (np.concatenate([getattr(rows, c), getattr(more, c)]) for c in columns)
    return click_rows(*both)


def population(
    query: ArrayLike,
    first: ArrayLike,
    pool: ArrayLike,
    impressions: ArrayLike,
    clicks: ArrayLike,
    mean_rank: ArrayLike,
    **more: Any,
) -> MixtureDocuments:
    """Documents with these rows; in cells by home, unless ``more`` says otherwise."""
    n = len(np.asarray(query))
    columns: dict[str, Floats | Ints] = {
        "doc": np.arange(n),
        "query": np.asarray(query, np.int64),
        "half": np.zeros(n, dtype=np.int64),
        "weight": np.ones(n),
        "cell": np.zeros(n, dtype=np.int64),
        "first": np.asarray(first, np.int64),
        "pool": np.asarray(pool, np.int64),
        "impressions": np.asarray(impressions, np.float64),
        "clicks": np.asarray(clicks, np.float64),
        "rank_of": np.arange(len(np.asarray(mean_rank))),
        "mean_rank": np.asarray(mean_rank, np.float64),
        "home": np.zeros(1, dtype=np.int64),
        "basis": np.zeros((1, 0)),
    }
    made = MixtureDocuments(**{**columns, **more})
    return made if "cell" in more else made.in_cells(())


def shown_at(*ranks_of_docs: tuple[int, ...]) -> ClickRows:
    """Thirty documents for each of the given places, in ten queries each."""
    doc: list[int] = []
    rank: list[int] = []
    for ranks in ranks_of_docs:
        for _ in range(30):
            number = doc[-1] + 1 if doc else 0
            doc += [number] * len(ranks)
            rank += list(ranks)
    number_of = np.array(doc)
    n = len(doc)
    return click_rows(number_of, number_of // 3, rank, [40] * n, [20] * n)
