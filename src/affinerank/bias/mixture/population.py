"""Documents and their clicks by pool, in cells of equal expectation.

A pool is a set of ranks, or of ranks and contexts, that share their parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from affinerank.bias.pooling import Cells
from affinerank.bias.requirements import DRAWS
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Bools, Floats, Ints, Rng, runs

BY_DOC = ("doc", "query", "half", "weight", "cell")
BY_ROW = ("pool", "impressions", "clicks")
RANK_KNOTS = 3
DOCS_AT_ONCE = 50_000  # bounds what is held of every document at once
# numpy draws without replacement from fewer than this; from more, it is about the same.
MANY = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class MixtureDocuments:
    """Documents, what each got at each pool it was shown at, and cells of them.

    Attributes:
        doc: ``[n_docs]`` number of each document in the rows of counts.
        query: ``[n_docs]`` query of each, from 0.
        half: ``[n_docs]`` half of the queries that its query is in, 0 or 1.
        weight: ``[n_docs]`` how often each counts.
        cell: ``[n_docs]`` cell of each.
        first: ``[n_docs + 1]`` where a document's rows begin.
        pool: ``[n_rows]`` pool of a row.
        impressions: ``[n_rows]`` how often the document was shown there.
        clicks: ``[n_rows]`` how often it was clicked there.
        rank_of: ``[n_pools]`` the ranks that a pool is of, numbered from 0.
        mean_rank: ``[n_ranks]`` mean rank of each.
        home: ``[n_cells]`` ranks that a cell belongs to.
        basis: ``[n_cells, n_basis]`` what the expected relevance is linear in.
    """

    doc: Ints
    query: Ints
    half: Ints
    weight: Floats
    cell: Ints
    first: Ints
    pool: Ints
    impressions: Floats
    clicks: Floats
    rank_of: Ints
    mean_rank: Floats
    home: Ints
    basis: Floats

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return len(self.doc)

    @property
    def n_pools(self) -> int:
        """Number of pools."""
        return len(self.rank_of)

    @property
    def n_ranks(self) -> int:
        """Number of ranks, or sets of them, that pools are of."""
        return len(self.mean_rank)

    @property
    def moved(self) -> Bools:
        """``[n_docs]`` whether a document was shown at several ranks."""
        rank = self.rank_of[self.pool]
        lowest = np.maximum.reduceat(rank, self.first[:-1])
        return np.asarray(np.minimum.reduceat(rank, self.first[:-1]) < lowest)

    @property
    def n_impressions(self) -> Floats:
        """``[n_docs]`` impressions of each document."""
        return np.add.reduceat(self.impressions, self.first[:-1])

    @property
    def n_repeated(self) -> int:
        """Number of documents shown often enough to tell levels apart by clicks."""
        return int(np.sum(self.n_impressions >= DRAWS))

    @property
    def doc_of_row(self) -> Ints:
        """``[n_rows]`` document of each row, by its place here."""
        return np.repeat(np.arange(self.n_docs), np.diff(self.first))

    @property
    def click_rate(self) -> Floats:
        """``[n_pools]`` clicks per impression, with some added: never 0 or 1."""
        each = self.weight[self.doc_of_row]
        clicked = self.by_pool(each * self.clicks) + 0.1
        return clicked / (self.by_pool(each * self.impressions) + 0.2)

    def log_likelihood(self, rate: Floats) -> Floats:
        """``[n_rows]`` of the clicks of each row, at a click rate ``[n_rows]``."""
        skips = self.impressions - self.clicks
        return self.clicks * np.log(rate) + skips * np.log1p(-rate)

    def by_pool(self, values: Floats) -> Floats:
        """``[n_pools]`` add up ``values [n_rows]`` by pool."""
        return np.bincount(self.pool, values, self.n_pools).astype(np.float64)

    def by_query(self, values: Floats) -> Floats:
        """Add up ``values [n_docs]`` by query; of the queries that have documents."""
        total = np.bincount(self.query, values)
        return total[np.bincount(self.query) > 0].astype(np.float64)

    def take(self, docs: Bools | Ints) -> MixtureDocuments:
        """Take documents, by a mask or in an order, in the same cells."""
        number = np.arange(self.n_docs)[docs]
        sizes = np.diff(self.first)[number]
        first = np.append(0, np.cumsum(sizes))
        rows = np.repeat(self.first[number] - first[:-1], sizes) + np.arange(first[-1])
        columns = {name: getattr(self, name)[number] for name in BY_DOC}
        columns |= {name: getattr(self, name)[rows] for name in BY_ROW}
        return replace(self, first=first, **columns)

    def halved(self, rng: Rng) -> MixtureDocuments:
        """Draw a half for each query; the halves are as equal as can be."""
        names, place = np.unique(self.query, return_inverse=True)
        half = rng.permutation(np.arange(len(names)) % 2)
        return replace(self, half=half[place])

    def halves(self) -> tuple[MixtureDocuments, MixtureDocuments]:
        """Split the documents by half."""
        return self.take(self.half == 0), self.take(self.half == 1)

    def parts(self) -> Iterator[MixtureDocuments]:
        """Yield runs of documents, the documents of a query together in one of them."""
        order = np.argsort(self.query, kind="stable")
        starts = np.flatnonzero(np.diff(self.query[order], prepend=-1, append=-2))
        wanted = np.arange(0, self.n_docs, DOCS_AT_ONCE)
        cuts = np.unique(np.append(starts[np.searchsorted(starts, wanted)], starts[-1]))
        for start, end in pairwise(cuts.tolist()):
            yield self.take(order[start:end])

    def grouped(self) -> MixtureDocuments:
        """Count documents of one row and the same cell, impressions and clicks once."""
        if len(self.pool) != self.n_docs:
            return self
        order, first = runs(self.clicks, self.impressions, self.pool, self.cell)
        one = self.take(order[first])
        weight = np.add.reduceat(self.weight[order], first)
        return replace(one, query=np.zeros_like(one.query), weight=weight)

    def capped(self, most: float) -> MixtureDocuments:
        """Keep the click rates as if from at most ``most`` impressions per document."""
        each = self._kept_share(most)
        shown, clicks = self.impressions * each, self.clicks * each
        return replace(self, impressions=shown, clicks=clicks)

    def thinned(self, most: float, rng: Rng) -> MixtureDocuments:
        """Draw about ``most`` impressions of a document from those it has."""
        kept = np.ceil(np.rint(self.impressions) * self._kept_share(most))
        return self.drawn(kept.astype(np.int64), rng)[0]

    def drawn(self, kept: Ints, rng: Rng) -> tuple[MixtureDocuments, MixtureDocuments]:
        """Draw ``kept [n_rows]`` impressions of each row; return them and the rest."""
        whole = np.rint(self.impressions).astype(np.int64)
        clicks = np.minimum(np.rint(self.clicks).astype(np.int64), whole)
        some = whole < MANY
        drawn = np.zeros_like(kept)
        drawn[~some] = rng.binomial(kept[~some], clicks[~some] / whole[~some])
        drawn = np.clip(drawn, clicks - whole + kept, clicks)
        given = clicks[some], (whole - clicks)[some], kept[some]
        drawn[some] = rng.hypergeometric(*given)
        parts = (kept, drawn), (whole - kept, clicks - drawn)
        first, rest = (
            replace(self, impressions=n.astype(float), clicks=c.astype(float))
            for n, c in parts
        )
        return first, rest

    def in_cells(
        self, covariates: Sequence[tuple[Floats, int, int]]
    ) -> MixtureDocuments:
        """Sort documents into cells by home pool and covariates.

        Args:
            covariates: Values ``[n_docs]``, the number of bins they are sorted into,
                and the number of basis functions of each.
        """
        # Number the combinations of home and bins that occur.
        key = self._home()
        for values, bins, _ in covariates:
            key = key * bins + _bin(values, bins)
        used, cell, size = np.unique(key, return_inverse=True, return_counts=True)
        home = used // int(np.prod([bins for _, bins, _ in covariates]))
        # Broken lines in the log of the rank, and in each covariate.
        parts = [np.zeros((len(used), 0))]
        knots_by_rank = min(RANK_KNOTS, self.n_ranks - 2)
        if knots_by_rank > 0:
            parts.append(hinges(np.log(self.mean_rank), knots_by_rank)[home])
        for values, _, knots in covariates:
            parts.append(hinges(np.bincount(cell, values) / size, knots))
        return replace(self, cell=cell, home=home, basis=np.concatenate(parts, axis=1))

    def _home(self) -> Ints:
        """``[n_docs]`` ranks where a document was seen most; the upper of equals."""
        key = self.doc_of_row * self.n_ranks + self.rank_of[self.pool]
        at, inverse = np.unique(key, return_inverse=True)
        doc, rank = np.divmod(at, self.n_ranks)
        order = np.lexsort((rank, -np.bincount(inverse, self.impressions), doc))
        return np.asarray(rank[order[np.searchsorted(doc, np.arange(self.n_docs))]])

    def _kept_share(self, most: float) -> Floats:
        """``[n_rows]`` share of the impressions that leaves ``most`` per document."""
        scale = np.minimum(1.0, most / self.n_impressions)
        return np.repeat(scale, np.diff(self.first))


def population_of(rows: ClickRows, pools: Cells) -> MixtureDocuments:
    """Add up rows of counts by document and pool; a cell is a home."""
    rows = rows.added_up(pools.of(rows))
    first = np.flatnonzero(np.diff(rows.doc, prepend=-1))
    doc, none = rows.doc[first], np.zeros(len(first), dtype=np.int64)
    by_doc = doc, rows.query_of_doc[doc], none, np.ones(len(first)), none
    by_row = np.append(first, len(rows)), rows.rank, rows.impressions, rows.clicks
    ranks = pools.rank_of, pools.ranks.mean_rank
    return MixtureDocuments(
        *by_doc, *by_row, *ranks, none[:1], np.zeros((1, 0))
    ).in_cells(())


def hinges(values: Floats, n: int) -> Floats:
    """``[len(values), n]`` a broken line with ``n - 1`` kinks: its pieces, unit spread.

    >>> hinges(np.array([0.0, 1.0, 2.0]), 1).round(2).tolist()
    [[-1.22], [0.0], [1.22]]
    """
    kinks = np.quantile(values, np.linspace(0, 1, n + 1)[1:-1])
    pieces = [values, *(np.maximum(values - kink, 0.0) for kink in kinks)]
    basis = np.stack(pieces, axis=1)
    basis -= basis.mean(axis=0)
    spread = basis.std(axis=0)
    return basis / np.where(spread > 1e-12, spread, 1.0)


def _bin(values: Floats, bins: int) -> Ints:
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1]))
    return np.searchsorted(edges, values, side="right")
