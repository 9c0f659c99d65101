r"""Whether another document should come first, query by query.

The document that a query shows first is compared with those it shows below. Their
corrected relevance, in the gauge where alpha is 1 and beta 0 at the first rank, is the
click rate that each would have there. The variance of a difference is that of the
clicks on the two documents, and that of the users, who were estimated:

.. math::

    \mathrm{Var}(g_a - g_b) = \mathrm{Var}(g_a) + \mathrm{Var}(g_b) + J \Sigma J^\top,
    \qquad
    \frac{\partial g}{\partial \beta_k} = -\frac{n_k}{\alpha_k n}, \quad
    \frac{\partial g}{\partial \alpha_k} = -\frac{c_k - \beta_k n_k}{\alpha_k^2 n}

with n impressions, c clicks, J the difference of the gradients and :math:`\Sigma` the
covariance of alpha and beta. The challenger is the one furthest above the present first
in standard errors; its p is multiplied by the number of those it was chosen from. Over
queries the false discovery rate is kept at 5 % (Benjamini and Hochberg).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from affinerank.bias.pooling import RankPools
from affinerank.bias.uncertainty import Bands
from affinerank.clicks.join import JoinedCounts
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import affine
from affinerank.data.dataset import RankingDataset
from affinerank.data.mapped import blocks
from affinerank.errors import ConfigError
from affinerank.evaluation.labels import label_documents

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_IMPRESSIONS = 20
LEVEL = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class FirstRank:
    """Queries that were judged, ``[n_judged]`` each, and how many there are.

    Attributes:
        query: Number of the query.
        first: Document it shows first, most often.
        challenger: Document that is furthest above it, or least below.
        relevance: ``[n_judged, 2]`` click rates at the first rank, of both.
        error: Standard error of their difference.
        better: Whether the challenger is clearly better.
        stays: Whether the present first is clearly better than all others.
        n_queries: Queries shown, judged or not.
    """

    query: Ints
    first: Ints
    challenger: Ints
    relevance: Floats
    error: Floats
    better: NDArray[np.bool_]
    stays: NDArray[np.bool_]
    n_queries: int

    @property
    def difference(self) -> Floats:
        """``[n_judged]`` how much more the challenger would be clicked."""
        return self.relevance[:, 1] - self.relevance[:, 0]


def judge_first_rank(
    joined: JoinedCounts,
    data: RankingDataset,
    users: UserModel,
    bands: Bands,
    pools: RankPools,
) -> FirstRank:
    """Compare the documents shown first with those below.

    Args:
        joined: Clicks.
        data: The queries and documents.
        users: In the gauge for display.
        bands: Of those users, with their covariance.
        pools: Of the bands.
    """
    if bands.covariance is None:
        raise ConfigError("how sure the users are must be known: estimate with bands")
    labels = label_documents(joined, affine(joined.counts, users), data)
    query_of = data.query_of_doc
    first = _first_documents(joined, data)
    enough = labels.impressions >= LEAST_IMPRESSIONS
    n_queries = len(np.unique(query_of[joined.doc]))
    shown = np.flatnonzero((first >= 0) & enough[np.maximum(first, 0)])
    judged = np.isin(np.arange(data.n_queries), shown)
    rivals = np.flatnonzero(enough & judged[query_of] & (first[query_of] != _all(data)))
    one = first[query_of[rivals]]
    ahead = labels.relevance[rivals] - labels.relevance[one]
    variance = labels.standard_error[one] ** 2 + labels.standard_error[rivals] ** 2
    for part in blocks(len(rivals)):  # a slope for each parameter is wide
        gradient = _gradients(rivals[part], joined, users, pools)
        leaders, which = np.unique(one[part], return_inverse=True)
        gradient -= _gradients(leaders, joined, users, pools)[which]
        variance[part] += np.einsum("ij,jk,ik->i", gradient, bands.covariance, gradient)
    every = ahead / np.sqrt(variance)
    query, at, number = _strongest(every, query_of[rivals])
    one, other, z = one[at], rivals[at], every[at]
    relevance = np.stack([labels.relevance[one], labels.relevance[other]], axis=1)
    error = np.sqrt(variance[at])
    return FirstRank(
        query,
        one,
        other,
        relevance,
        error,
        _discovered(np.minimum(1.0, number * stats.norm.sf(z))),
        _discovered(stats.norm.cdf(z)),
        n_queries,
    )


def _all(data: RankingDataset) -> Ints:
    return np.arange(data.n_docs)


def _first_documents(joined: JoinedCounts, data: RankingDataset) -> Ints:
    """``[n_queries]`` document shown most often at rank 1; -1 where none was."""
    counts = joined.counts
    rows = np.flatnonzero((counts.rank == 1) & (counts.impressions > 0))
    shown = np.bincount(
        joined.doc[rows], counts.impressions[rows], minlength=data.n_docs
    )
    there = np.flatnonzero(shown)
    order = there[np.lexsort((-shown[there], data.query_of_doc[there]))]
    query, at = np.unique(data.query_of_doc[order], return_index=True)
    first = np.full(data.n_queries, -1, dtype=np.int64)
    first[query] = order[at]
    return first


def _strongest(z: Floats, query: Ints) -> tuple[Ints, Ints, Ints]:
    """Queries that have rivals, the place of each one's strongest, and their number."""
    order = np.lexsort((-z, query))
    there, at, number = np.unique(query[order], return_index=True, return_counts=True)
    return there, order[at], number


def _gradients(
    docs: Ints, joined: JoinedCounts, users: UserModel, pools: RankPools
) -> Floats:
    """``[n, 2 n_pools]`` slope of documents' relevance in alpha, then in beta."""
    counts, n = joined.counts, pools.n_pools
    place = np.full(int(joined.doc.max()) + 1, -1, dtype=np.int64)
    place[docs] = np.arange(len(docs))
    rows = np.flatnonzero(place[joined.doc] >= 0)
    which, rank = place[joined.doc[rows]], counts.rank[rows]
    shown, clicks = counts.impressions[rows], counts.clicks[rows]
    alpha, beta = users.at(rank)
    pool = pools.pool(np.minimum(rank, len(pools.of_rank)))
    total = np.bincount(which, shown, minlength=len(docs))
    found = np.zeros((len(docs), 2 * n))
    np.add.at(found, (which, pool), -(clicks - beta * shown) / alpha**2)
    np.add.at(found, (which, n + pool), -shown / alpha)
    return found / total[:, None]


def _discovered(p: Floats) -> NDArray[np.bool_]:
    """Which of many p hold when their false discovery rate is kept."""
    if not len(p):
        return np.zeros(0, dtype=bool)
    return np.asarray(stats.false_discovery_control(p) <= LEVEL)
