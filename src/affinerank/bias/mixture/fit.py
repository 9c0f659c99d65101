r"""Fit a mixture of levels: what is maximised, its slopes, and the climb.

The slope of a document's log-likelihood is the mean of what it would be if its level
were known, over :math:`P_{dj}`, the probability of each level given its clicks. With
:math:`n_{kj}` impressions and :math:`c_{kj}` clicks expected to be of level j,

.. math::

    \frac{\partial}{\partial p_{kj}}
        = \frac{c_{kj}}{p_{kj}} - \frac{n_{kj} - c_{kj}}{1 - p_{kj}}, \qquad
    \frac{\partial}{\partial u_j} = \sum_d P_{dj} - \pi_{dj}.

The climb has two stages. Rounds of quasi-Newton steps in rough units come near the top.
Polishing, in units of standard errors, goes on until nothing moves. So a fit does not
depend on where the last round stopped, which rounding decides, and another processor
finds the same top.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logit

from affinerank.bias.mixture.levels import Layout, Levels, expected_counts
from affinerank.bias.mixture.population import MixtureDocuments
from affinerank.bias.mixture.scores import information_matrix
from affinerank.support.arrays import Bools, Floats

FAR = 3.0
ROUNDS = 8
POLISHES = 5
AT_TOP = 1e-3  # standard errors: a polish that moves less than that was the last
AT_BOUND = 1e-9
LONGEST_STEP = 3.0  # standard errors of a part of the clicks
FLAT = 1e-12  # of the largest curvature: a direction that clicks say nothing of
OPTIONS = {"maxiter": 120, "maxfun": 240, "ftol": 1e-12, "gtol": 1e-3, "maxcor": 20}
TO_THE_TOP = {"maxiter": 80, "maxfun": 120, "ftol": 1e-18, "gtol": 1e-7, "maxcor": 20}
SHARE, LOG_RATIO = 0.15, 1.5  # of relevant documents, and of their click rates


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A mixture fitted to documents.

    Attributes:
        levels: Its parameters.
        layout: Which of them were free, and what held them.
        objective: Log-likelihood and log prior: what was maximised.
    """

    levels: Levels
    layout: Layout
    objective: float


def fit_levels(
    population: MixtureDocuments,
    start: Levels,
    *,
    tied: bool = False,
    fixed: bool = False,
    tolerance: float = 0.01,
    polish: bool = True,
) -> Fit:
    """Maximise likelihood and prior from a start, by quasi-Newton steps.

    ``tied`` has one ratio of click rates for all pools; ``fixed`` keeps click rates.

    Each round rescales the parameters by the information that they would have if the
    levels were known, and moves at most a few units in any of them. Rounds end when one
    gains less than ``tolerance``. Then the fit is polished, if ``polish`` says so.
    """
    sizes = population.n_pools, population.n_ranks, len(start.levels)
    layout = Layout(*sizes, population.basis.shape[1], tied)
    low, high = layout.bounds()
    vector = np.clip(layout.vector(start), low, high)
    if fixed:
        place = np.r_[layout.slices()["plus"], layout.slices()["ratio"]]
        low[place] = high[place] = vector[place]
    grouped = population.grouped()
    best = -np.inf
    for _ in range(ROUNDS):
        vector, value = _climb(grouped, layout, vector, low, high)
        if value - best < tolerance:
            break
        best = value
    if polish:
        vector, value = _polish(grouped, layout, vector, low, high)
    return Fit(layout.levels(vector), layout, value)


def one_step(population: MixtureDocuments, whole: Fit) -> Fit:
    """Fit a part of the clicks by one step of scoring from a fit to all of them.

    With many clicks that is as good as a fit of its own. With fewer it is better: fewer
    clicks have more tops, and on some of them a level stands for another one.
    """
    population = population.grouped()
    layout, vector = whole.layout, whole.layout.vector(whole.levels)
    low, high = layout.bounds()
    is_free = (vector > low + AT_BOUND) & (vector < high - AT_BOUND)
    prior = layout.precision()

    # The gradient over the information, in independent directions.
    units = _standard_errors(population, layout, vector, is_free)
    _, gradient = objective(population, layout, vector, prior)
    step = np.clip(units.T @ gradient[is_free], -LONGEST_STEP, LONGEST_STEP)
    vector[is_free] += units @ step
    vector = np.clip(vector, low, high)
    value, _ = objective(population, layout, vector, prior)
    return Fit(layout.levels(vector), layout, value)


def first_guess(population: MixtureDocuments, n_levels: int = 2) -> Levels:
    """Guess even levels, fewer documents the higher, that match the click rates."""
    rate = population.click_rate
    plus = np.minimum(rate / (SHARE + (1 - SHARE) * np.exp(-LOG_RATIO)), 0.98)
    minus = np.clip((rate - SHARE * plus) / (1 - SHARE), 1e-7, 0.97 * plus)
    ratio = np.log(plus / minus)
    even = np.linspace(0.0, 1.0, n_levels)
    tilt, by_rank = np.zeros(population.basis.shape[1]), np.zeros(population.n_ranks)
    common = float(ratio.mean())
    share = np.linspace(0.0, logit(SHARE), n_levels)
    return Levels(plus, ratio, even, share, tilt, by_rank, common)


def objective(
    population: MixtureDocuments, layout: Layout, vector: Floats, held: sparse.csr_array
) -> tuple[float, Floats]:
    """Return log-likelihood and log prior, and their gradient.

    Args:
        population: Documents and their clicks.
        layout: Which parameters are free.
        vector: Their values.
        held: The prior's precision, ``layout.precision()``.
    """
    levels, place = layout.levels(vector), layout.slices()
    likelihood, docs, seen, clicked = expected_counts(population, levels)
    # The prior pulls towards 0; its "mean" has no other slope.
    gradient = -held @ vector
    value = likelihood + float(vector @ gradient / 2)
    # Click rates: what they add to each clicked and each skipped impression.
    rate = levels.click_rate(levels.levels)
    pull = clicked / rate - (seen - clicked) / (1 - rate)
    by_plus, by_ratio = levels.rate_slopes()
    gradient[place["plus"]] += np.sum(pull * by_plus, axis=1)
    ratio = np.sum(pull * by_ratio, axis=1)
    gradient[place["ratio"]] += ratio.sum() if layout.tied else ratio
    # Shares: documents found at each level, less those expected there.
    shares = np.exp(levels.log_shares(population))
    surprise = docs - docs.sum(axis=1, keepdims=True) * shares
    lean = surprise @ levels.levels
    gradient[place["share"]] += surprise.sum(axis=0)[1:]
    gradient[place["tilt"]] += population.basis.T @ lean
    gradient[place["rank"]] += np.bincount(population.home, lean, layout.n_ranks)
    # Levels move both.
    to_level = levels.alpha @ pull + levels.log_odds(population) @ surprise
    gradient[place["gap"]] += levels.gap_slopes(to_level)
    return value, gradient


def _climb(
    population: MixtureDocuments,
    layout: Layout,
    vector: Floats,
    low: Floats,
    high: Floats,
) -> tuple[Floats, float]:
    """Run one round of L-BFGS in rescaled parameters; return where it ends."""
    held = layout.precision()
    scale = 1.0 / np.sqrt(
        _information(population, layout, vector) + held.diagonal() + 1
    )

    def negative(step: Floats) -> tuple[float, Floats]:
        value, gradient = objective(population, layout, vector + step * scale, held)
        return -value, -gradient * scale

    near = np.clip([low - vector, high - vector], -FAR, FAR) / scale
    how: Any = {"jac": True, "method": "L-BFGS-B", "options": OPTIONS}
    found = minimize(negative, 0.0 * vector, bounds=near.T, **how)
    return vector + found.x * scale, float(-found.fun)


def _polish(
    population: MixtureDocuments,
    layout: Layout,
    vector: Floats,
    low: Floats,
    high: Floats,
) -> tuple[Floats, float]:
    """Climb on from near the top until nothing moves; return where it ends.

    The climb is in units of standard errors, in which all directions are curved alike.
    """
    prior = layout.precision()
    value, _ = objective(population, layout, vector, prior)
    for _ in range(POLISHES):
        # A parameter at its bound stays there.
        is_free = (vector > low + AT_BOUND) & (vector < high - AT_BOUND)
        units = _standard_errors(population, layout, vector, is_free)
        step = _best_step(population, layout, vector, is_free, units, low, high)

        # What ran over its bound is set on it, and the next round leaves it there.
        reached = vector.copy()
        reached[is_free] += units @ step
        inside = np.clip(reached, low, high)
        new_value, _ = objective(population, layout, inside, prior)
        if not new_value >= value:
            break
        vector, value = inside, new_value
        ran_over = bool(np.any(inside != reached))
        if not ran_over and np.abs(step).max(initial=0.0) < AT_TOP:
            break
    return vector, value


def _best_step(
    population: MixtureDocuments,
    layout: Layout,
    vector: Floats,
    is_free: Bools,
    units: Floats,
    low: Floats,
    high: Floats,
) -> Floats:
    """``[n_free]`` quasi-Newton climb from a vector, in the given directions."""
    prior = layout.precision()

    def negative(step: Floats) -> tuple[float, Floats]:
        moved = vector.copy()
        moved[is_free] += units @ step
        # A direction that clicks say little of is long, and may lead far out of the
        # bounds. Beyond a bound the objective is what it is there.
        inside = np.clip(moved, low, high)
        value, gradient = objective(population, layout, inside, prior)
        gradient[moved != inside] = 0.0
        return -value, -(units.T @ gradient[is_free])

    start = np.zeros(units.shape[1])
    how: Any = {"jac": True, "method": "L-BFGS-B", "options": TO_THE_TOP}
    return np.asarray(minimize(negative, start, **how).x, dtype=np.float64)


def _standard_errors(
    population: MixtureDocuments, layout: Layout, vector: Floats, is_free: Bools
) -> Floats:
    """``[n_free, n_free]`` independent directions, each a standard error long."""
    levels = layout.levels(vector)
    information = information_matrix(population, levels, layout)
    curvature, directions = np.linalg.eigh(information[np.ix_(is_free, is_free)])
    curvature = np.maximum(curvature, FLAT * curvature.max(initial=1.0))
    return np.asarray(directions / np.sqrt(curvature), dtype=np.float64)


def _information(
    population: MixtureDocuments, layout: Layout, vector: Floats
) -> Floats:
    """``[size]`` information on each parameter if each document's level were known."""
    levels, place = layout.levels(vector), layout.slices()
    _, docs, seen, _ = expected_counts(population, levels)
    information = np.ones(layout.size)
    # Click rates and levels: by impressions.
    rate = levels.click_rate(levels.levels)
    known = seen / (rate * (1 - rate))
    by_plus, by_ratio = levels.rate_slopes()
    information[place["plus"]] = np.sum(known * by_plus**2, axis=1)
    ratio = np.sum(known * by_ratio**2, axis=1)
    information[place["ratio"]] = ratio.sum() if layout.tied else ratio
    information[place["mean"]] = layout.n_pools / layout.odds_sd**2
    by_level = levels.alpha**2 @ known
    information[place["gap"]] = by_level.mean() / layout.n_levels**2
    # Shares: by documents.
    shares, size = np.exp(levels.log_shares(population)), docs.sum(axis=1)
    spread = size * (shares @ levels.levels**2 - (shares @ levels.levels) ** 2)
    information[place["share"]] = (size @ (shares * (1 - shares)))[1:]
    information[place["tilt"]] = (population.basis**2).T @ spread
    information[place["rank"]] = np.bincount(population.home, spread, layout.n_ranks)
    return information
