"""How many levels of relevance there are, and where a fit of them starts.

Likelihoods of mixtures have many local maxima. The search grows: from two levels, each
next one is put where a little of it would make the clicks most likely, also below the
lowest and above the highest; and it looks at click rates as if from few impressions
first, where there are few maxima.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
from scipy.special import softmax

from affinerank.bias.mixture.fit import Fit, first_guess, fit_levels
from affinerank.bias.mixture.levels import Levels, document_levels, query_likelihood
from affinerank.bias.mixture.population import MixtureDocuments
from affinerank.support.arrays import Floats, Rng

FEW = 400.0
FEW_QUERIES = 30  # with fewer, none are held out to choose the number of levels
CANDIDATES = np.linspace(-0.5, 1.6, 64)
NEW_SHARE = 0.03
ALIGNMENTS = 3


def find_levels(
    population: MixtureDocuments,
    halves: tuple[MixtureDocuments, MixtureDocuments],
    most: int,
    rng: Rng,
) -> tuple[Fit, bool]:
    """Choose the number of levels by halves of the queries; fit them to all clicks.

    Also tell whether documents differ, by :func:`documents_differ`.
    """
    few = len(np.unique(population.query)) < FEW_QUERIES
    levels = grow_levels(population, most) if few else choose_levels(*halves, most, rng)

    # The levels found, and even ones: where clicks are few, the better top may be
    # reached from either.
    even = first_guess(population, n_levels=len(levels.levels))
    fits = [refine_levels(population, start) for start in (levels, even)]
    best = max(fits, key=lambda fit: fit.objective)
    fit = without_idle_levels(population, best)
    return fit, documents_differ(*halves, levels)


def choose_levels(
    seen: MixtureDocuments, held: MixtureDocuments, most: int, rng: Rng
) -> Levels:
    """Grow levels while clicks of other queries become clearly more likely.

    Clearly is by more than two standard errors over queries.

    Args:
        seen: Documents that levels are fitted to.
        held: Documents of other queries, in the same cells, that judge them.
        most: Levels at most.
        rng: Draws some of the impressions where there are many.
    """
    few, few_held = seen.thinned(FEW, rng), held.thinned(FEW, rng)
    best = aligned_fit(few, first_guess(few)).levels
    evaluated = query_likelihood(few_held, best)
    for n_levels in range(3, most + 1):
        # One more level: where it is missed most, or all of them evenly spread.
        starts = [added_level(few, best), first_guess(few, n_levels=n_levels)]
        fits = [aligned_fit(few, start) for start in starts]
        grown = max(fits, key=lambda fit: fit.objective).levels
        # Keep it if it predicts the other queries clearly better.
        values = query_likelihood(few_held, grown)
        if not _clearly_above(values, evaluated):
            break
        best, evaluated = grown, values
    return best


def grow_levels(population: MixtureDocuments, most: int) -> Levels:
    """Grow levels while all clicks become clearly more likely.

    Of few queries none can be held out. A level has two parameters, so its gain must
    exceed the logarithm of the number of documents.
    """
    best = refine_levels(population, first_guess(population))
    for _ in range(2, most):
        grown = aligned_fit(population, added_level(population, best.levels))
        if grown.objective - best.objective < np.log(population.n_docs):
            break
        best = grown
    return best.levels


def without_idle_levels(population: MixtureDocuments, fit: Fit) -> Fit:
    """Leave out levels that make the clicks no more likely, one after the other.

    A search that began badly may have needed them on its way. A level has two
    parameters, so its gain must exceed the logarithm of the number of documents.
    """
    while len(fit.levels.levels) > 2:
        fewer = aligned_fit(population, with_closest_merged(population, fit.levels))
        if fit.objective - fewer.objective > np.log(population.n_docs):
            break
        fit = fewer
    return fit


def with_closest_merged(population: MixtureDocuments, levels: Levels) -> Levels:
    """Merge the two neighbouring levels that differ least for the fewest documents."""
    # The share of documents at each level, at the mean odds of relevance.
    odds = levels.log_odds(population).mean()
    log_share = levels.share + levels.levels * odds
    share = softmax(log_share)

    # What the variance of relevance loses if two neighbours become one.
    left, right = share[:-1], share[1:]
    loss = left * right / (left + right) * np.diff(levels.levels) ** 2
    merged = int(np.argmin(loss))

    # The lowest level stays at 0 and the highest at 1; their neighbours join them.
    last = len(levels.levels) - 1
    leaves = merged + 1 if merged + 1 < last else merged
    stays = merged if leaves == merged + 1 else merged + 1
    log_share[stays] = np.logaddexp(log_share[merged], log_share[merged + 1])
    new_share = np.delete(log_share - levels.levels * odds, leaves)
    new_levels = np.delete(levels.levels, leaves)
    return replace(levels, levels=new_levels, share=new_share - new_share[0])


def documents_differ(
    seen: MixtureDocuments, held: MixtureDocuments, levels: Levels
) -> bool:
    """Whether levels predict held-out clicks clearly better than one rate per rank.

    Where they do not, nothing separates bias from relevance.
    """
    value = held.log_likelihood(seen.click_rate[held.pool])
    alike = held.by_query(np.add.reduceat(value, held.first[:-1]))
    return _clearly_above(query_likelihood(held, levels), alike)


def refine_levels(population: MixtureDocuments, levels: Levels) -> Fit:
    """Fit all clicks, from what a part of them gave, admitting more and more."""
    most = float(population.n_impressions.max())
    cap = FEW
    while cap < most:
        part = population.capped(cap)
        levels = fit_levels(part, levels, tolerance=1.0, polish=False).levels
        cap *= 4
    return aligned_fit(population, levels)


def aligned_fit(
    population: MixtureDocuments, start: Levels, *, polish: bool = True
) -> Fit:
    """Fit, and again while some rank fits better one level further up or down."""
    population = population.grouped()
    best = fit_levels(population, start, polish=polish)
    for _ in range(ALIGNMENTS):
        moved = realigned(population, best.levels)
        if moved is best.levels:
            break
        again = fit_levels(population, moved, polish=polish)
        if again.objective <= best.objective + 1.0:
            break
        best = again
    return best


def realigned(population: MixtureDocuments, levels: Levels) -> Levels:
    """Try each rank with its lowest and highest level one further up or down.

    All else stays, so the ranks are judged apart from each other: by the documents
    whose home they are.
    """
    home = population.home[population.cell]
    low, high = np.diff(levels.levels)[[0, -1]]
    best = np.full(population.n_ranks, -np.inf)
    plus, minus = levels.zeta_plus, levels.zeta_minus
    # First as it is, which the others must exceed.
    for up, down in sorted(product((-1, 0, 1), repeat=2), key=any):
        rate = levels.click_rate(np.array([down * low, 1 + up * high]))
        upper = np.clip(rate[:, 1], 1e-6, 0.9995)
        lower = np.clip(rate[:, 0], 1e-7, 0.99 * upper)
        tried = replace(levels, zeta_plus=upper, log_ratio=np.log(upper / lower))
        _, likelihood = document_levels(population, tried)
        value = np.bincount(home, population.weight * likelihood, len(best))
        better = value > best + 1.0
        best = np.where(better, value, best)
        better = better[population.rank_of]
        plus, minus = np.where(better, upper, plus), np.where(better, lower, minus)
    if np.allclose(plus, levels.zeta_plus) and np.allclose(minus, levels.zeta_minus):
        return levels
    return replace(levels, zeta_plus=plus, log_ratio=np.log(plus / minus))


def added_level(population: MixtureDocuments, levels: Levels) -> Levels:
    """Add a small new level where it is missed most.

    That is where the mean of P(clicks | candidate level) / P(clicks) is largest: a
    little of that level makes the clicks more likely.
    """
    rate = levels.click_rate(CANDIDATES)
    shares, ratio = np.zeros(len(levels.levels)), np.zeros(len(CANDIDATES))
    for part in population.parts():
        found, likelihood = document_levels(part, levels)
        skips = part.impressions - part.clicks
        value = part.clicks[:, None] * np.log(rate)[part.pool]
        value += skips[:, None] * np.log1p(-rate)[part.pool]
        each = np.add.reduceat(value, part.first[:-1]) - likelihood[:, None]
        shares += part.weight @ found
        ratio += part.weight @ np.exp(np.minimum(each, 50.0))
    near = np.min(np.abs(CANDIDATES[:, None] - levels.levels), axis=1) < 0.03
    new = CANDIDATES[int(np.argmax(np.where(near, 0.0, ratio)))]
    shares = shares / population.weight.sum() * (1 - NEW_SHARE)
    # Where the new level lies outside, 0 and 1 move there.
    at = np.append(levels.levels, new)
    order = np.argsort(at)
    at, share = at[order], np.append(shares, NEW_SHARE)[order]
    # Click rates at the new ends, and everything else in the new units.
    rate = np.clip(levels.click_rate(at[[0, -1]]), 1e-7, 0.999)
    ratio = np.log(rate[:, 1] / np.minimum(rate[:, 0], 0.99 * rate[:, 1]))
    low, wide = at[0], at[-1] - at[0]
    at, odds = (at - low) / wide, levels.log_odds(population).mean()
    log_share = np.log(np.maximum(share, 1e-6)) - at * odds * wide
    share, tilts = log_share - log_share[0], (levels.tilt * wide, levels.by_rank * wide)
    return Levels(rate[:, 1], ratio, at, share, *tilts, float(ratio.mean()))


def _clearly_above(values: Floats, others: Floats) -> bool:
    """Whether queries gain by more than two standard errors of their mean."""
    each = values - others
    return bool(each.mean() > 2 * each.std() / np.sqrt(len(each)))
