r"""A mixture of relevance levels that all ranks share.

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

Two weak priors keep what the clicks hardly say from running away:
:math:`\log(\zeta^+_k / \zeta^-_k)` varies around a common mean with standard deviation
``odds_sd``, and the share of relevant documents around a smooth function of rank with
``rank_sd``. Ranks are exchangeable in the first: no smoothness of alpha or beta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax

from affinerank.bias import mixture_kernel
from affinerank.bias.documents import Documents

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DOCS_AT_ONCE = 50_000  # bounds what is held of every document at once
FAR = 3.0
TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Prior:
    """How strongly the parameters are held where clicks say little.

    Attributes:
        odds_sd: Spread over ranks of log(zeta+ / zeta-).
        rank_sd: Spread over ranks of the log odds of relevance, around a smooth curve.
        ridge: Precision of everything else that describes relevance.
    """

    odds_sd: float = 0.5
    rank_sd: float = 0.3
    ridge: float = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Documents sorted into cells of equal expectation.

    Attributes:
        documents: Their clicks.
        cell: ``[n_docs]`` cell of each.
        home: ``[n_cells]`` pool of ranks that a cell belongs to.
        basis: ``[n_cells, n_basis]`` what the expected relevance is linear in.
        weight: ``[n_docs]`` how often each counts.
    """

    documents: Documents
    cell: Ints
    home: Ints
    basis: Floats
    weight: Floats

    def with_documents(self, documents: Documents) -> Population:
        """The same documents with other clicks."""
        return replace(self, documents=documents)

    def parts(self) -> Iterator[Population]:
        """Runs of documents, the documents of a query together in one of them."""
        query = self.documents.query
        if np.any(np.diff(query) < 0):
            yield from self._by_query().parts()
            return
        starts = np.flatnonzero(np.diff(query, prepend=-1, append=-2))
        wanted = np.arange(0, len(query), DOCS_AT_ONCE)
        cuts = np.unique(np.append(starts[np.searchsorted(starts, wanted)], len(query)))
        for start, end in pairwise(cuts.tolist()):
            yield replace(
                self,
                documents=self.documents.between(start, end),
                cell=self.cell[start:end],
                weight=self.weight[start:end],
            )

    def _by_query(self) -> Population:
        """The same documents in the order of their queries."""
        rows = self.documents
        order = np.argsort(rows.query, kind="stable")
        sizes = np.diff(rows.first)[order]
        first = np.concatenate([[0], np.cumsum(sizes)])
        moved = np.repeat(rows.first[order] - first[:-1], sizes) + np.arange(first[-1])
        documents = Documents(
            rows.query[order],
            first,
            rows.pool[moved],
            rows.impressions[moved],
            rows.clicks[moved],
        )
        return replace(
            self,
            documents=documents,
            cell=self.cell[order],
            weight=self.weight[order],
        )

    def select(self, kept: NDArray[np.bool_]) -> Population:
        """Only the documents of ``kept [n_docs]``, in the same cells."""
        return replace(
            self,
            documents=self.documents.select(kept),
            cell=self.cell[kept],
            weight=self.weight[kept],
        )


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
        by_rank: ``[n_pools]`` what a pool adds to it.
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
        return np.asarray(self.zeta_plus * np.exp(-self.log_ratio), dtype=np.float64)

    def click_rate(self, levels: Floats) -> Floats:
        """``[n_pools, n]`` click rate of any levels, kept inside (0, 1)."""
        low, high = self.zeta_minus[:, None], self.zeta_plus[:, None]
        return np.clip(low * (1 - levels) + high * levels, TINY, 1 - TINY)

    def log_shares(self, population: Population) -> Floats:
        """``[n_cells, n_levels]`` log share of each level among a cell's documents."""
        odds = self.log_odds(population)
        raw = self.share + odds[:, None] * self.levels
        return np.asarray(raw - np.logaddexp.reduce(raw, axis=1)[:, None])

    def log_odds(self, population: Population) -> Floats:
        """``[n_cells]`` eta: how much a cell leans to relevance."""
        return np.asarray(
            population.basis @ self.tilt + self.by_rank[population.home],
            dtype=np.float64,
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parameters lie in the vector that is optimised.

    Attributes:
        n_pools: Number of pools of ranks.
        n_levels: Number of levels.
        n_basis: Number of basis functions.
        tied: Whether log(zeta+ / zeta-) is the same at every rank: no trust bias.
    """

    n_pools: int
    n_levels: int
    n_basis: int
    tied: bool = False

    def slices(self) -> dict[str, slice]:
        """Name and place of each block."""
        sizes = {
            "plus": self.n_pools,
            "ratio": 1 if self.tied else self.n_pools,
            "mean": 0 if self.tied else 1,
            "gap": self.n_levels - 2,
            "share": self.n_levels - 1,
            "tilt": self.n_basis,
            "rank": self.n_pools,
        }
        ends = np.cumsum(list(sizes.values()))
        return {
            name: slice(int(end) - size, int(end))
            for (name, size), end in zip(sizes.items(), ends, strict=True)
        }

    @property
    def size(self) -> int:
        """Length of the vector."""
        return int(self.slices()["rank"].stop)

    def vector(self, levels: Levels) -> Floats:
        """Write parameters as one vector."""
        gaps = np.log(np.maximum(np.diff(levels.levels), 1e-6))
        ratio = levels.log_ratio
        parts = [
            logit(levels.zeta_plus),
            [ratio.mean()] if self.tied else ratio,
            [] if self.tied else [levels.common_ratio],
            (gaps - gaps[-1])[:-1],
            levels.share[1:],
            levels.tilt,
            levels.by_rank,
        ]
        return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])

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


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A mixture fitted to documents.

    Attributes:
        levels: Its parameters.
        layout: Which of them were free.
        likelihood: Log-likelihood of the clicks.
        objective: The same with the log prior: what was maximised.
        iterations: Steps of the optimiser.
    """

    levels: Levels
    layout: Layout
    likelihood: float
    objective: float
    iterations: int


def fit_levels(
    population: Population,
    start: Levels,
    prior: Prior,
    *,
    tied: bool = False,
    rounds: int = 8,
    steps: int = 120,
    tolerance: float = 0.01,
) -> Fit:
    """Maximise likelihood and prior from a start, by quasi-Newton steps.

    Each round rescales the parameters by the information that they would have if the
    levels were known, and does not go further than a few units in any of them.
    """
    layout = Layout(
        len(start.zeta_plus), len(start.levels), population.basis.shape[1], tied
    )
    low, high = layout.bounds()
    vector = np.clip(layout.vector(start), low, high)
    grouped = grouped_documents(population)
    best, iterations = -np.inf, 0

    def objective(at: Floats) -> tuple[float, Floats]:
        return _objective(grouped, layout, prior, at)[:2]

    for _ in range(rounds):
        scale = _scale(grouped, layout, prior, vector)
        vector, value, taken = _climb(objective, vector, scale, low, high, steps)
        iterations += taken
        if value - best < tolerance:
            break
        best = value
    levels = layout.levels(vector)
    likelihood = _objective(grouped, layout, prior, vector)[2]
    return Fit(levels, layout, likelihood, value, iterations)


def first_guess(
    population: Population,
    n_pools: int,
    *,
    n_levels: int = 2,
    share: float = 0.15,
    log_ratio: float = 1.5,
) -> Levels:
    """Even levels, fewer documents the higher, that match the click rates."""
    rows = population.documents
    each = population.weight[rows.doc_of_row]
    seen = np.bincount(rows.pool, each * rows.impressions, minlength=n_pools)
    clicked = np.bincount(rows.pool, each * rows.clicks, minlength=n_pools)
    rate = (clicked + 0.1) / (seen + 0.2)
    plus = np.minimum(rate / (share + (1 - share) * np.exp(-log_ratio)), 0.98)
    minus = np.clip((rate - share * plus) / (1 - share), 1e-7, 0.97 * plus)
    ratio = np.log(plus / minus)
    return Levels(
        plus,
        ratio,
        np.linspace(0.0, 1.0, n_levels),
        np.linspace(0.0, logit(share), n_levels),
        np.zeros(population.basis.shape[1]),
        np.zeros(n_pools),
        float(ratio.mean()),
    )


def query_likelihood(population: Population, levels: Levels) -> Floats:
    """``[n_queries]`` log-likelihood of each query's clicks."""
    each = document_likelihood(population, levels)
    rows = population.documents
    return np.bincount(
        rows.query, population.weight * each, minlength=rows.n_queries
    ).astype(np.float64)


def document_levels(population: Population, levels: Levels) -> tuple[Floats, Floats]:
    """P(level | clicks) ``[n_docs, n_levels]`` and log P(clicks) ``[n_docs]``."""
    rows, rate = population.documents, levels.click_rate(levels.levels)
    found, likelihood = mixture_kernel.document_levels(
        population.cell,
        rows.first,
        rows.pool,
        rows.impressions,
        rows.clicks,
        levels.log_shares(population),
        np.log(rate),
        np.log1p(-rate),
    )
    return found, likelihood


def document_likelihood(population: Population, levels: Levels) -> Floats:
    """Log P(clicks) ``[n_docs]``."""
    rows, rate = population.documents, levels.click_rate(levels.levels)
    likelihood: Floats = mixture_kernel.document_likelihood(
        population.cell,
        rows.first,
        rows.pool,
        rows.impressions,
        rows.clicks,
        levels.log_shares(population),
        np.log(rate),
        np.log1p(-rate),
    )
    return likelihood


def document_scores(population: Population, fit: Fit) -> sparse.csr_matrix:
    """``[n_docs, size]`` gradient of each document's log-likelihood.

    It takes some 500 bytes a document: of many, one of :meth:`Population.parts` at a
    time.
    """
    levels, layout, rows = fit.levels, fit.layout, population.documents
    place, doc = layout.slices(), population.documents.doc_of_row
    found, _ = document_levels(population, levels)
    rate = levels.click_rate(levels.levels)
    by_plus, by_ratio = _rate_slopes(levels)
    pull = (
        rows.clicks[:, None] / rate[rows.pool]
        - (rows.impressions - rows.clicks)[:, None] / (1 - rate)[rows.pool]
    ) * found[doc]
    shares = np.exp(levels.log_shares(population))[population.cell]
    surprise = found - shares
    lean = surprise @ levels.levels
    each = np.arange(rows.n_docs)
    ratio_at = np.zeros_like(rows.pool) if layout.tied else rows.pool
    entries = [
        (doc, place["plus"].start + rows.pool, np.sum(pull * by_plus[rows.pool], 1)),
        (doc, place["ratio"].start + ratio_at, np.sum(pull * by_ratio[rows.pool], 1)),
        (each, place["rank"].start + population.home[population.cell], lean),
    ]
    dense = {
        "share": surprise[:, 1:],
        "tilt": lean[:, None] * population.basis[population.cell],
    }
    if layout.n_levels > 2:
        alpha = (levels.zeta_plus - levels.zeta_minus)[rows.pool]
        odds = levels.log_odds(population)[population.cell]
        to_level = surprise * odds[:, None]
        np.add.at(to_level, doc, pull * alpha[:, None])
        dense["gap"] = _gap_slope(to_level, levels.levels)
    for name, block in dense.items():
        columns = np.arange(place[name].start, place[name].stop)
        entries.append(
            (each.repeat(len(columns)), np.tile(columns, len(each)), block.reshape(-1))
        )
    at, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    shape = (rows.n_docs, layout.size)
    return sparse.csr_matrix((value, (at, column)), shape=shape)


def prior_precision(layout: Layout, prior: Prior) -> Floats:
    """``[size, size]`` minus the second derivative of the log prior."""
    place = layout.slices()
    diagonal = np.zeros(layout.size)
    diagonal[place["share"]] = diagonal[place["tilt"]] = prior.ridge
    diagonal[place["rank"]] = prior.rank_sd**-2
    precision = np.diag(diagonal)
    if not layout.tied:
        ratio, mean = place["ratio"], place["mean"].start
        held = prior.odds_sd**-2
        precision[ratio, ratio] += held * np.eye(layout.n_pools)
        precision[ratio, mean] -= held
        precision[mean, ratio] -= held
        precision[mean, mean] += held * layout.n_pools
    return precision


def _objective(
    population: Population, layout: Layout, prior: Prior, vector: Floats
) -> tuple[float, Floats, float]:
    """Objective, its gradient, and the log-likelihood alone."""
    levels = layout.levels(vector)
    likelihood, docs, seen, clicked = _expected(population, levels)
    rate = levels.click_rate(levels.levels)
    pull = clicked / rate - (seen - clicked) / (1 - rate)
    shares = np.exp(levels.log_shares(population))
    surprise = docs - docs.sum(axis=1, keepdims=True) * shares
    lean = surprise @ levels.levels
    by_plus, by_ratio = _rate_slopes(levels)
    place, gradient = layout.slices(), np.zeros(layout.size)
    gradient[place["plus"]] = np.sum(pull * by_plus, axis=1)
    ratio = np.sum(pull * by_ratio, axis=1)
    gradient[place["ratio"]] = ratio.sum() if layout.tied else ratio
    gradient[place["share"]] = surprise.sum(axis=0)[1:]
    gradient[place["tilt"]] = population.basis.T @ lean
    gradient[place["rank"]] = np.bincount(
        population.home, lean, minlength=layout.n_pools
    )
    if layout.n_levels > 2:
        alpha = levels.zeta_plus - levels.zeta_minus
        to_level = alpha @ pull + levels.log_odds(population) @ surprise
        gradient[place["gap"]] = _gap_slope(to_level, levels.levels)
    log_prior, slope = _log_prior(layout, prior, vector)
    return likelihood + log_prior, gradient + slope, likelihood


def _expected(
    population: Population, levels: Levels
) -> tuple[float, Floats, Floats, Floats]:
    rows, rate = population.documents, levels.click_rate(levels.levels)
    found: tuple[float, Floats, Floats, Floats] = mixture_kernel.expected_counts(
        population.cell,
        rows.first,
        rows.pool,
        rows.impressions,
        rows.clicks,
        population.weight,
        levels.log_shares(population),
        np.log(rate),
        np.log1p(-rate),
    )
    return found


def _rate_slopes(levels: Levels) -> tuple[Floats, Floats]:
    """Slopes ``[n_pools, n_levels]`` of the click rate in logit zeta+ and log ratio."""
    minus, plus = levels.zeta_minus[:, None], levels.zeta_plus[:, None]
    g = levels.levels
    by_plus = (minus * (1 - g) + plus * g) * (1 - plus)
    return by_plus, -(1 - g) * minus


def _gap_slope(to_level: Floats, levels: Floats) -> Floats:
    """Turn slopes in the levels, last axis, into slopes in the logs of their gaps."""
    gaps = np.diff(levels)
    to_gap = np.cumsum(to_level[..., ::-1], axis=-1)[..., ::-1][..., 1:]
    mean = np.sum(to_gap * gaps, axis=-1, keepdims=True)
    return np.asarray((gaps * (to_gap - mean))[..., :-1])


def _log_prior(layout: Layout, prior: Prior, vector: Floats) -> tuple[float, Floats]:
    slope = -prior_precision(layout, prior) @ vector
    return float(vector @ slope / 2), slope


def _scale(
    population: Population, layout: Layout, prior: Prior, vector: Floats
) -> Floats:
    """``[size]`` how far each parameter moves for a step of 1: 1 / sqrt(information).

    The information is what there would be if each document's level were known.
    """
    levels = layout.levels(vector)
    _, docs, seen, _ = _expected(population, levels)
    rate = levels.click_rate(levels.levels)
    by_plus, by_ratio = _rate_slopes(levels)
    known = seen / (rate * (1 - rate))
    shares = np.exp(levels.log_shares(population))
    size = docs.sum(axis=1)
    spread = shares @ levels.levels**2 - (shares @ levels.levels) ** 2
    place, information = layout.slices(), np.ones(layout.size)
    information[place["plus"]] = np.sum(known * by_plus**2, axis=1)
    ratio = np.sum(known * by_ratio**2, axis=1)
    information[place["ratio"]] = ratio.sum() if layout.tied else ratio
    information[place["mean"]] = layout.n_pools / prior.odds_sd**2
    if layout.n_levels > 2:
        alpha = levels.zeta_plus - levels.zeta_minus
        information[place["gap"]] = (alpha**2 @ known).mean() / layout.n_levels**2
    information[place["share"]] = (size @ (shares * (1 - shares)))[1:]
    information[place["tilt"]] = (population.basis**2).T @ (size * spread)
    information[place["rank"]] = np.bincount(
        population.home, size * spread, minlength=layout.n_pools
    )
    held = np.diag(prior_precision(layout, prior))
    return np.asarray(1.0 / np.sqrt(information + held + 1.0), dtype=np.float64)


def _climb(
    objective: Callable[[Floats], tuple[float, Floats]],
    vector: Floats,
    scale: Floats,
    low: Floats,
    high: Floats,
    steps: int,
) -> tuple[Floats, float, int]:
    """One round of L-BFGS in rescaled parameters."""

    def negative(step: Floats) -> tuple[float, Floats]:
        value, gradient = objective(vector + step * scale)
        return -value, -gradient * scale

    near = np.maximum((low - vector), -FAR) / scale
    most = np.minimum((high - vector), FAR) / scale
    found = minimize(
        negative,
        np.zeros_like(vector),
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack([near, most], axis=1),
        options={
            "maxiter": steps,
            "maxfun": 2 * steps,
            "ftol": 1e-12,
            "gtol": 1e-3,
            "maxcor": 20,
        },
    )
    return vector + found.x * scale, float(-found.fun), int(found.nit)


def grouped_documents(population: Population) -> Population:
    """Count documents of one row and the same cell, impressions and clicks once."""
    rows = population.documents
    if len(rows.pool) != rows.n_docs:
        return population
    keys = (rows.clicks, rows.impressions, rows.pool, population.cell)
    order = np.lexsort(keys)
    new = np.zeros(len(order), dtype=bool)
    new[:1] = True
    for key in keys:
        new[1:] |= np.diff(key[order]) != 0
    first = order[new]
    return replace(
        population,
        documents=Documents(
            np.zeros(len(first), dtype=np.int64),
            np.arange(len(first) + 1),
            rows.pool[first],
            rows.impressions[first],
            rows.clicks[first],
        ),
        cell=population.cell[first],
        weight=np.add.reduceat(population.weight[order], np.flatnonzero(new)),
    )
