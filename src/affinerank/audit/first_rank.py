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
from scipy import sparse, stats

from affinerank.bias.pooling import RankPools
from affinerank.counts.rows import ClickRows
from affinerank.estimators.correction import corrected, standard_error
from affinerank.support.arrays import Bools, Floats, Ints
from affinerank.support.large_arrays import blocks

MIN_IMPRESSIONS = 20
LEVEL = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class FirstRank:
    """Queries that were judged, ``[n_judged]`` each, and how many there are.

    Attributes:
        query: Number of the query.
        first: Document it shows first, most often.
        challenger: Document that is furthest above it, or least below.
        relevance: ``[n_judged, 2]`` click rates at the first rank, of both, as they
            were estimated: they may leave 0 to 1.
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
    better: Bools
    stays: Bools
    n_queries: int

    @property
    def difference(self) -> Floats:
        """``[n_judged]`` by how much the challenger's estimate is the higher one."""
        return self.relevance[:, 1] - self.relevance[:, 0]

    @property
    def click_rates(self) -> Floats:
        """``[n_judged, 2]`` the relevance of both, drawn into 0 to 1."""
        return np.clip(self.relevance, 0.0, 1.0)

    @property
    def gain(self) -> Floats:
        """``[n_judged]`` how much more often the challenger would be clicked."""
        return self.click_rates[:, 1] - self.click_rates[:, 0]


def evaluate_first_rank(
    rows: ClickRows, alpha: Floats, beta: Floats, covariance: Floats, pools: RankPools
) -> FirstRank:
    """Compare the documents shown first with those below.

    Args:
        rows: Clicks, one row per document and rank.
        alpha: ``[n_rows]`` of the users, in the gauge for display.
        beta: ``[n_rows]`` likewise.
        covariance: ``[2 n_pools, 2 n_pools]`` of alpha, then beta.
        pools: Of ranks, which have one alpha and beta each.
    """
    weights, query_of = corrected(rows, alpha, beta), rows.query_of_doc
    relevance, own = weights.weight, standard_error(weights, rows) ** 2
    # The document each query shows first, and its rivals: those known well enough.
    top = rows.select(rows.rank == 1)
    shown_first = top.by_doc(top.impressions)
    _, at, _ = _best(shown_first, query_of)
    enough = rows.by_doc(rows.impressions) >= MIN_IMPRESSIONS
    leader = at[query_of]
    evaluated = enough & enough[leader] & (shown_first[leader] > 0)
    rivals = np.flatnonzero(evaluated & (leader != np.arange(rows.n_docs)))
    leaders = leader[rivals]
    # How far each rival is ahead, in standard errors.
    variance, slopes = own[leaders] + own[rivals], _slopes(rows, alpha, beta, pools)
    for part in blocks(len(rivals)):  # a slope for each parameter is wide
        slope = (slopes[rivals[part]] - slopes[leaders[part]]).toarray()
        variance[part] += np.einsum("ij,jk,ik->i", slope, covariance, slope)
    ahead = (relevance[rivals] - relevance[leaders]) / np.sqrt(variance)
    # The strongest rival of each query stands for all of them.
    query, at, number = _best(ahead, query_of[rivals])
    one, other, z = leaders[at], rivals[at], ahead[at]
    return FirstRank(
        query,
        one,
        other,
        np.stack([relevance[one], relevance[other]], axis=1),
        np.sqrt(variance[at]),
        _discovered(np.minimum(1.0, number * stats.norm.sf(z))),
        _discovered(stats.norm.cdf(z)),
        len(np.unique(rows.query)),
    )


def _best(value: Floats, query: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the queries, the place of the largest value of each, and their sizes."""
    order = np.lexsort((-value, query))
    there, at, number = np.unique(query[order], return_index=True, return_counts=True)
    return there, order[at], number


def _slopes(
    rows: ClickRows, alpha: Floats, beta: Floats, pools: RankPools
) -> sparse.csr_array:
    """``[n_docs, 2 n_pools]`` slope of documents' relevance in alpha, then in beta."""
    n = rows.impressions
    pool, total = pools.of_rank[rows.rank - 1], rows.by_doc(n)[rows.doc]
    by_alpha, by_beta = -(rows.clicks - beta * n) / alpha**2 / total, -n / alpha / total
    values = np.concatenate([by_alpha, by_beta])
    place = np.tile(rows.doc, 2), np.concatenate([pool, pools.n_pools + pool])
    return sparse.csr_array((values, place), (rows.n_docs, 2 * pools.n_pools))


def _discovered(p: Floats) -> Bools:
    """Return which p-values hold when the false discovery rate is kept."""
    return np.asarray(stats.false_discovery_control(p) <= LEVEL)
