r"""Plackett-Luce: lists drawn without replacement, in proportion to exp(score).

.. math:: P(y) = \prod_k e^{s_{y_k}} \Big/ \sum_{d \notin y_{1:k-1}} e^{s_d}

Lists are rows of ``scores [n, width]``; filling scores minus infinity.
"""

from __future__ import annotations

import math

import numpy as np

from affinerank.support.arrays import Floats, Ints, Rng

STEP = 0.2  # of the trapezoidal rule, whose error falls as exp(-pi^2 / STEP)
LEFT, RIGHT = 37.0, 4.0  # where integrands fall below 1e-16
AT_ONCE = 1 << 21  # numbers held at a time
MOST_TERMS = 1 << 26  # of one list's integrals; beyond, lists are sampled
SAMPLES = 1000


def draw_orders(scores: Floats, rng: Rng) -> Ints:
    """``[n, width]`` places in the order drawn: sorted by score plus Gumbel noise."""
    noise = rng.gumbel(size=scores.shape)
    return np.argsort(-(scores + noise), axis=-1, kind="stable")


def rank_chances(scores: Floats, depth: int) -> Floats:
    """``[n, width, depth]`` probability that each document is at each rank.

    Exact to 1e-12; lists that are too long for it are sampled.
    """
    chances = np.zeros((*scores.shape, depth))
    ends = [_ends(row) for row in scores]
    nodes = np.array([math.ceil((high - low) / STEP) + 1 for low, high in ends])
    long = nodes * scores.shape[1] * depth**2 > MOST_TERMS
    order = np.argsort(nodes, kind="stable")  # alike lists share a grid
    exact, sampled = order[~long[order]], np.flatnonzero(long)
    at_once = AT_ONCE // max(1, int(nodes[exact].max(initial=1)) * scores.shape[1])
    for first in range(0, len(exact), size := max(1, at_once // depth)):
        some = exact[first : first + size]
        low, high = min(ends[i][0] for i in some), max(ends[i][1] for i in some)
        chances[some] = _integrals(scores[some], depth, np.arange(low, high, STEP))
    for i in sampled:
        chances[i] = sampled_chances(scores[i], depth)
    return chances


def _ends(scores: Floats) -> tuple[float, float]:
    """Return the log of times before and after which nothing happens."""
    held = scores[scores > -np.inf]
    if not len(held):
        return 0.0, STEP
    total = np.logaddexp.reduce(held)
    return float(-total - LEFT), float(RIGHT - held.min())


def _integrals(scores: Floats, depth: int, log_time: Floats) -> Floats:
    r"""Integrate over the time at which a document arrives, at the rate exp(score).

    A document is at rank k if k - 1 others arrive before it:
    :math:`\int \lambda_d e^{-\lambda_d t} P(k - 1 \text{ of the others by } t) dt`.
    """
    n, width = scores.shape
    hazard = np.exp(np.minimum(scores[:, :, None] + log_time, 700.0))
    late, early = np.exp(-hazard), -np.expm1(-hazard)
    # [width + 1, n, depth, nodes] how many of the documents below, or above, arrived.
    below = np.zeros((width + 1, n, depth, len(log_time)))
    below[width, :, 0] = 1.0
    for d in reversed(range(width)):
        _one_more(below[d + 1], late[:, d], early[:, d], below[d])
    above = below[width].copy()
    chances = np.empty((n, width, depth))
    for d in range(width):
        others = np.zeros_like(above)
        for j in range(depth):
            others[:, j:] += above[:, : depth - j] * below[d + 1][:, j, None]
        density = hazard[:, d] * late[:, d] * STEP
        chances[:, d] = np.einsum("nkt,nt->nk", others, density)
        above = _one_more(above, late[:, d], early[:, d], np.empty_like(above))
    total = chances.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(chances, total, out=chances, where=total > 1e-9))


def _one_more(counts: Floats, late: Floats, early: Floats, out: Floats) -> Floats:
    """Let one more document arrive, or not."""
    np.multiply(counts, late[:, None], out=out)
    out[:, 1:] += counts[:, :-1] * early[:, None]
    return out


def sampled_chances(
    scores: Floats, depth: int, samples: int = SAMPLES, seed: int = 0
) -> Floats:
    """``[width, depth]`` chances, the mean over sampled lists (Rao-Blackwellised).

    A sampled list gives, at each rank, the chances of all documents that are left.
    """
    rng, width = np.random.default_rng(seed), len(scores)
    chances = np.zeros((width, depth))
    at_once = max(1, AT_ONCE // max(1, width))
    for first in range(0, samples, at_once):
        several = np.tile(scores, (min(at_once, samples - first), 1))
        order = draw_orders(several, rng)
        ranks = np.argsort(order, axis=1)
        ordered = np.take_along_axis(several, order, axis=1)
        left = np.logaddexp.accumulate(ordered[:, ::-1], axis=1)[:, ::-1]
        for k in range(min(depth, width)):
            there = (ranks >= k) & (left[:, k, None] > -np.inf)
            gap = np.where(
                there, several - np.where(there, left[:, k, None], 0), -np.inf
            )
            chances[:, k] += np.exp(gap).sum(axis=0)
    return chances / samples
