r"""Fit a mixture of levels: what is maximised, its slopes, and the climb.

The slope of a document's log-likelihood is the mean of what it would be if its level
were known, over :math:`P_{dj}`, the probability of each level given its clicks. With
:math:`n_{kj}` impressions and :math:`c_{kj}` clicks expected to be of level j,

.. math::

    \frac{\partial}{\partial p_{kj}}
        = \frac{c_{kj}}{p_{kj}} - \frac{n_{kj} - c_{kj}}{1 - p_{kj}}, \qquad
    \frac{\partial}{\partial u_j} = \sum_d P_{dj} - \pi_{dj}.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logit

from affinerank.bias.cells import Population, grouped_documents
from affinerank.bias.mixture import (
    Layout,
    Levels,
    Prior,
    document_levels,
    expected_counts,
    prior_precision,
)

Floats = NDArray[np.float64]

FAR = 3.0


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


def _objective(
    population: Population, layout: Layout, prior: Prior, vector: Floats
) -> tuple[float, Floats, float]:
    """Objective, its gradient, and the log-likelihood alone."""
    levels = layout.levels(vector)
    likelihood, docs, seen, clicked = expected_counts(population, levels)
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
        to_level = levels.alpha @ pull + levels.log_odds(population) @ surprise
        gradient[place["gap"]] = _gap_slope(to_level, levels.levels)
    log_prior, slope = _log_prior(layout, prior, vector)
    return likelihood + log_prior, gradient + slope, likelihood


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
    _, docs, seen, _ = expected_counts(population, levels)
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
        by_level = levels.alpha**2 @ known
        information[place["gap"]] = by_level.mean() / layout.n_levels**2
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
        odds = levels.log_odds(population)[population.cell]
        to_level = surprise * odds[:, None]
        np.add.at(to_level, doc, pull * levels.alpha[rows.pool, None])
        dense["gap"] = _gap_slope(to_level, levels.levels)
    for name, block in dense.items():
        columns = np.arange(place[name].start, place[name].stop)
        entries.append(
            (each.repeat(len(columns)), np.tile(columns, len(each)), block.reshape(-1))
        )
    at, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    shape = (rows.n_docs, layout.size)
    return sparse.csr_matrix((value, (at, column)), shape=shape)


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
