r"""The parameters of a mixture of relevance levels, and the likelihood of clicks.

Every document has one of a few levels of relevance, :math:`0 = g_1 < ... < g_J = 1`,
and is clicked at rank k with probability

.. math::

    p_{kj} = \zeta^-_k (1 - g_j) + \zeta^+_k g_j
           = \alpha_k g_j + \beta_k, \qquad
    \log P(\mathrm{clicks}_d) = \log \sum_j \pi_{dj}
        \prod_k p_{kj}^{c_{dk}} (1 - p_{kj})^{n_{dk} - c_{dk}}.

Which level is likely depends on what is known of the document before its clicks, by
exponential tilting along the levels: :math:`\pi_{dj} \propto \exp(u_j + g_j \eta_d)`,
where :math:`\eta_d` is linear in a basis of its rank and of covariates. Because levels
are shared, they tie the ranks together, whether or not documents ever change rank.

Two weak priors hold what clicks hardly determine:
:math:`\log(\zeta^+_k / \zeta^-_k)` varies around a common mean with standard deviation
``odds_sd``, and the share of relevant documents around a smooth function of rank with
``rank_sd``. Ranks are exchangeable in the first: no smoothness of alpha or beta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, logit, softmax

from affinerank.bias.mixture import kernel
from affinerank.bias.mixture.population import MixtureDocuments
from affinerank.clicks.models.trust import TrustModel
from affinerank.support.arrays import Floats
from affinerank.support.threads import in_parallel

TINY = 1e-12
DOCS_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """The parameters of a mixture.

    Attributes:
        zeta_plus: ``[n_pools]`` click rate at level 1.
        log_ratio: ``[n_pools]`` log(zeta+ / zeta-), above 0.
        levels: ``[n_levels]`` from 0 to 1.
        share: ``[n_levels]`` u: log share of each level, up to a constant; the first
            is 0.
        tilt: ``[n_basis]`` slope of the log odds of relevance in each basis function.
        by_rank: ``[n_ranks]`` what the ranks that are a document's home add to it.
        common_ratio: Mean that ``log_ratio`` varies around.
    """

    zeta_plus: Floats
    log_ratio: Floats
    levels: Floats
    share: Floats
    tilt: Floats
    by_rank: Floats
    common_ratio: float

    @property
    def zeta_minus(self) -> Floats:
        """``[n_pools]`` click rate at level 0."""
        return self.zeta_plus * np.exp(-self.log_ratio)

    @property
    def alpha(self) -> Floats:
        """``[n_pools]`` how much more level 1 is clicked than level 0."""
        return self.zeta_plus - self.zeta_minus

    def click_model(self, mean: Floats) -> TrustModel:
        """Average alpha and beta, by weights ``[n_ranks, n_pools]``."""
        alpha, beta = mean @ self.alpha, mean @ self.zeta_minus
        return TrustModel(alpha=alpha, beta=beta, identified="relative")

    def click_rate(self, levels: Floats) -> Floats:
        """``[n_pools, n]`` click rate of any levels, kept inside (0, 1)."""
        low, high = self.zeta_minus[:, None], self.zeta_plus[:, None]
        return np.clip(low * (1 - levels) + high * levels, TINY, 1 - TINY)

    def rate_slopes(self) -> tuple[Floats, Floats]:
        """Click rates' slopes ``[n_pools, n_levels]`` in logit zeta+ and log ratio."""
        minus, plus, g = self.zeta_minus[:, None], self.zeta_plus[:, None], self.levels
        return (minus * (1 - g) + plus * g) * (1 - plus), -(1 - g) * minus

    def gap_slopes(self, to_level: Floats) -> Floats:
        """Turn slopes in the levels, last axis, into slopes in the logs of gaps."""
        gaps = np.diff(self.levels)
        to_gap = np.cumsum(to_level[..., ::-1], axis=-1)[..., ::-1][..., 1:]
        mean = np.sum(to_gap * gaps, axis=-1, keepdims=True)
        return np.asarray((gaps * (to_gap - mean))[..., :-1])

    def log_odds(self, population: MixtureDocuments) -> Floats:
        """``[n_cells]`` eta: how much a cell leans to relevance."""
        return population.basis @ self.tilt + self.by_rank[population.home]

    def log_shares(self, population: MixtureDocuments) -> Floats:
        """``[n_cells, n_levels]`` log share of each level among a cell's documents."""
        raw = self.share + self.log_odds(population)[:, None] * self.levels
        return np.asarray(raw - np.logaddexp.reduce(raw, axis=1)[:, None])


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parameters lie in the vector that is optimised.

    Attributes:
        n_pools: Number of pools.
        n_ranks: Number of ranks that they are of.
        n_levels: Number of levels.
        n_basis: Number of basis functions.
        tied: Whether log(zeta+ / zeta-) is the same at every rank: no trust bias.
        odds_sd: Spread over ranks of log(zeta+ / zeta-), before clicks.
        rank_sd: Spread over ranks of the log odds of relevance, around a smooth curve.
        ridge: Precision of everything else that describes relevance.
    """

    n_pools: int
    n_ranks: int
    n_levels: int
    n_basis: int
    tied: bool = False
    odds_sd: float = 0.5
    rank_sd: float = 0.3
    ridge: float = 0.01

    def slices(self) -> dict[str, slice]:
        """Name and place of each block."""
        sizes = {
            "plus": self.n_pools,
            "ratio": 1 if self.tied else self.n_pools,
            "mean": 0 if self.tied else 1,
            "gap": self.n_levels - 2,
            "share": self.n_levels - 1,
            "tilt": self.n_basis,
            "rank": self.n_ranks,
        }
        ends = accumulate(sizes.values())
        pairs = zip(sizes.items(), ends, strict=True)
        return {name: slice(end - size, end) for (name, size), end in pairs}

    @property
    def size(self) -> int:
        """Length of the vector."""
        return int(self.slices()["rank"].stop)

    def vector(self, levels: Levels) -> Floats:
        """Write parameters as one vector."""
        gaps = np.log(np.maximum(np.diff(levels.levels), 1e-6))
        ratio = np.append(levels.log_ratio, levels.common_ratio)
        ratio = levels.log_ratio.mean(keepdims=True) if self.tied else ratio
        rates = logit(levels.zeta_plus), ratio, (gaps - gaps[-1])[:-1]
        return np.concatenate([*rates, levels.share[1:], levels.tilt, levels.by_rank])

    def levels(self, vector: Floats) -> Levels:
        """Read parameters from a vector."""
        place = self.slices()
        ratio = np.broadcast_to(vector[place["ratio"]], self.n_pools)
        gaps = softmax(np.append(vector[place["gap"]], 0.0))
        levels = np.concatenate([[0.0], np.cumsum(gaps)])
        levels[-1] = 1.0
        return Levels(
            expit(vector[place["plus"]]),
            np.array(ratio),
            levels,
            np.concatenate([[0.0], vector[place["share"]]]),
            vector[place["tilt"]],
            vector[place["rank"]],
            float(ratio.mean() if self.tied else vector[place["mean"]][0]),
        )

    def bounds(self) -> tuple[Floats, Floats]:
        """Least and most of each parameter."""
        low, high = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        place = self.slices()
        low[place["plus"]], high[place["plus"]] = -16.0, 9.0
        low[place["ratio"]], high[place["ratio"]] = 0.01, 9.0
        low[place["gap"]], high[place["gap"]] = -5.0, 5.0
        return low, high

    def precision(self) -> sparse.csr_array:
        """``[size, size]`` minus the second derivative of the log prior."""
        place = self.slices()
        diagonal, to_mean = np.zeros((2, self.size))
        diagonal[place["share"]] = diagonal[place["tilt"]] = self.ridge
        diagonal[place["rank"]] = self.rank_sd**-2
        if not self.tied:
            held = self.odds_sd**-2
            diagonal[place["ratio"]] = held
            diagonal[place["mean"]] = held * self.n_pools
            to_mean[place["ratio"]] = -held
        ends = np.arange(self.size), np.full(self.size, place["mean"].start)
        link = sparse.coo_array((to_mean, ends), shape=(self.size, self.size))
        return sparse.csr_array(sparse.diags_array(diagonal) + link + link.T)


def expected_counts(
    population: MixtureDocuments, levels: Levels
) -> tuple[float, Floats, Floats, Floats]:
    """Return the log-likelihood, and what the levels are expected to have got.

    Documents ``[n_cells, n_levels]``, impressions and clicks ``[n_pools, n_levels]``.
    """
    likelihood, *counts = zip(
        *_in_chunks(kernel.expected_counts, population, levels, population.weight),
        strict=True,
    )
    docs, seen, clicked = (np.sum(each, axis=0) for each in counts)
    return float(sum(likelihood)), docs, seen, clicked


def document_levels(
    population: MixtureDocuments, levels: Levels
) -> tuple[Floats, Floats]:
    """Return P(level | clicks) ``[n_docs, n_levels]``, log P(clicks) ``[n_docs]``."""
    level = np.empty((population.n_docs, len(levels.levels)))
    value = np.empty(population.n_docs)
    _in_chunks(kernel.document_levels, population, levels, level, value)
    return level, value


def query_likelihood(population: MixtureDocuments, levels: Levels) -> Floats:
    """Return the log-likelihood of the clicks of each query that has documents."""
    _, each = document_levels(population, levels)
    return population.by_query(population.weight * each)


def _in_chunks(
    kernel: Callable[..., Any],
    population: MixtureDocuments,
    levels: Levels,
    *by_doc: Floats,
) -> list[Any]:
    """Let a kernel read cells, clicks, and logs of shares and click rates, in threads.

    Chunks do not depend on the machine, nor do their sums.
    """
    rate = levels.click_rate(levels.levels)
    rows = population.pool, population.impressions, population.clicks
    logs = levels.log_shares(population), np.log(rate), np.log1p(-rate)

    def read(start: int) -> Any:
        own = slice(start, start + DOCS_AT_ONCE)
        ends = population.first[start : start + DOCS_AT_ONCE + 1]
        docs = (each[own] for each in (*by_doc, population.cell))
        return kernel(*docs, ends, *rows, *logs)

    starts = range(0, max(population.n_docs, 1), DOCS_AT_ONCE)
    return in_parallel(read, starts) if len(starts) > 1 else [read(0)]
