"""How many levels of relevance there are, and where a search for them starts.

Likelihoods of mixtures have many local maxima. The search grows: from two levels, each
next one is put where a little of it would make the clicks most likely, also below the
lowest and above the highest; and it looks at click rates as if from few impressions
first, where there are few maxima.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from affinerank.bias import mixture_kernel
from affinerank.bias.cells import Population, grouped_documents
from affinerank.bias.mixture import (
    Levels,
    Prior,
    document_levels,
    document_likelihood,
    query_likelihood,
)
from affinerank.bias.mixture_fit import Fit, first_guess, fit_levels

Floats = NDArray[np.float64]

FEW = 400.0
CANDIDATES = np.linspace(-0.5, 1.6, 64)
NEW_SHARE = 0.03
MOST_LEVELS = 7
ALIGNMENTS = 3


def choose_levels(
    seen: Population,
    held: Population,
    n_pools: int,
    prior: Prior,
    *,
    rng: np.random.Generator,
    most: int = MOST_LEVELS,
) -> Fit:
    """Grow levels while clicks of other queries become clearly more likely.

    Clearly is by more than two standard errors over queries.

    Args:
        seen: Documents that levels are fitted to.
        held: Documents of other queries, in the same cells, that judge them.
        n_pools: Number of pools of ranks.
        prior: What holds the parameters.
        rng: Draws some of the impressions where there are many.
        most: Levels at most.
    """
    few, few_held = _thinned(seen, rng), _thinned(held, rng)
    best = aligned_fit(few, first_guess(few, n_pools), prior)
    judged = query_likelihood(few_held, best.levels)
    while len(best.levels.levels) < most:
        even = first_guess(few, n_pools, n_levels=len(best.levels.levels) + 1)
        starts = [added_level(few, best.levels), even]
        fits = [aligned_fit(few, start, prior) for start in starts]
        next_fit = max(fits, key=lambda fit: fit.objective)
        values = query_likelihood(few_held, next_fit.levels)
        if not _clearly(values - judged, held):
            break
        best, judged = next_fit, values
    return best


def documents_differ(seen: Population, held: Population, levels: Levels) -> bool:
    """Whether levels predict held-out clicks clearly better than a rate a rank does.

    Where they do not, there is nothing to tell bias from relevance by.
    """
    gain = query_likelihood(held, levels) - one_rate_likelihood(seen, held)
    return _clearly(gain, held)


def one_rate_likelihood(seen: Population, held: Population) -> Floats:
    """``[n_queries]`` log-likelihood if all documents of a rank were clicked alike."""
    rows, there = seen.documents, held.documents
    size = 1 + max(int(rows.pool.max(initial=0)), int(there.pool.max(initial=0)))
    shown = np.bincount(rows.pool, rows.impressions, minlength=size)
    clicked = np.bincount(rows.pool, rows.clicks, minlength=size)
    rate = (clicked + 0.1) / (shown + 0.2)
    value = there.clicks * np.log(rate[there.pool])
    value += (there.impressions - there.clicks) * np.log1p(-rate[there.pool])
    query = there.query[there.doc_of_row]
    return np.bincount(query, value, minlength=there.n_queries).astype(np.float64)


def _clearly(gain: Floats, held: Population) -> bool:
    """Whether queries gain by more than two standard errors of their mean."""
    each = gain[_present(held)]
    return bool(each.mean() > 2 * each.std() / np.sqrt(len(each)))


def refine_levels(population: Population, start: Levels, prior: Prior) -> Fit:
    """Fit all clicks, from what a part of them gave, letting in more and more."""
    most = float(population.documents.n_impressions.max())
    cap = FEW
    levels = start
    while cap < most:
        capped = population.with_documents(population.documents.capped(cap))
        levels = fit_levels(capped, levels, prior, tolerance=1.0).levels
        cap *= 4
    return aligned_fit(population, levels, prior)


def aligned_fit(population: Population, start: Levels, prior: Prior) -> Fit:
    """Fit, and again while some rank fits better one level further up or down."""
    population = grouped_documents(population)
    best = fit_levels(population, start, prior)
    for _ in range(ALIGNMENTS):
        moved = realigned(population, best.levels)
        if moved is best.levels:
            break
        again = fit_levels(population, moved, prior)
        if again.objective <= best.objective + 1.0:
            break
        best = again
    return best


def realigned(population: Population, levels: Levels) -> Levels:
    """Try each rank with its lowest and highest level one further up or down.

    All else stays, so the ranks are judged apart from each other: by the documents
    whose home they are.
    """
    home = population.home[population.cell]
    low, high = np.diff(levels.levels)[[0, -1]]
    best = np.full(len(levels.zeta_plus), -np.inf)
    plus, minus = levels.zeta_plus, levels.zeta_minus
    for up, down in (
        (0, 0),
        *((u, d) for u in (-1, 0, 1) for d in (-1, 0, 1) if u or d),
    ):
        rate = levels.click_rate(np.array([down * low, 1 + up * high]))
        upper = np.clip(rate[:, 1], 1e-6, 0.9995)
        lower = np.clip(rate[:, 0], 1e-7, 0.99 * upper)
        tried = replace(levels, zeta_plus=upper, log_ratio=np.log(upper / lower))
        likelihood = document_likelihood(population, tried)
        value = np.bincount(home, population.weight * likelihood, minlength=len(best))
        better = value > best + 1.0
        best = np.where(better, value, best)
        plus, minus = np.where(better, upper, plus), np.where(better, lower, minus)
    if np.allclose(plus, levels.zeta_plus) and np.allclose(minus, levels.zeta_minus):
        return levels
    return replace(levels, zeta_plus=plus, log_ratio=np.log(plus / minus))


def added_level(population: Population, levels: Levels) -> Levels:
    """The same mixture with a small new level, where it is missed most."""
    rows = population.documents
    found, likelihood = document_levels(population, levels)
    rate = levels.click_rate(CANDIDATES)
    ratio = mixture_kernel.mean_ratio(
        rows.first,
        rows.pool,
        rows.impressions,
        rows.clicks,
        population.weight,
        likelihood,
        np.log(rate),
        np.log1p(-rate),
    )
    near = np.min(np.abs(CANDIDATES[:, None] - levels.levels), axis=1) < 0.03
    new = CANDIDATES[int(np.argmax(np.where(near, 0.0, ratio)))]
    shares = population.weight @ found / population.weight.sum()
    return _inserted(levels, float(new), shares, levels.log_odds(population).mean())


def _inserted(levels: Levels, new: float, shares: Floats, odds: float) -> Levels:
    """Insert a level; where it lies outside, 0 and 1 move there."""
    order = np.argsort(np.append(levels.levels, new))
    at = np.append(levels.levels, new)[order]
    share = np.append(shares * (1 - NEW_SHARE), NEW_SHARE)[order]
    low, high = at[0], at[-1]
    rate = np.clip(levels.click_rate(at[[0, -1]]), 1e-7, 0.999)
    minus = np.minimum(rate[:, 0], 0.99 * rate[:, 1])
    at = (at - low) / (high - low)
    tilt = levels.tilt * (high - low)
    log_share = np.log(np.maximum(share, 1e-6)) - at * odds * (high - low)
    ratio = np.log(rate[:, 1] / minus)
    return replace(
        levels,
        zeta_plus=rate[:, 1],
        log_ratio=ratio,
        levels=at,
        share=log_share - log_share[0],
        tilt=tilt,
        by_rank=levels.by_rank * (high - low),
        common_ratio=float(ratio.mean()),
    )


def _present(population: Population) -> NDArray[np.bool_]:
    """``[n_queries]`` which queries have documents."""
    return np.bincount(population.documents.query) > 0


def _thinned(population: Population, rng: np.random.Generator) -> Population:
    return population.with_documents(population.documents.thinned(FEW, rng))
