"""Sums over documents that the mixture of levels needs, compiled.

A document ``d`` has a cell, rows ``first[d] .. first[d + 1]`` of impressions and
clicks, each at a pool of ranks, and a weight. Levels are numbered ``j``.
"""

from __future__ import annotations

import math

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def posterior(  # type: ignore[no-untyped-def]
    d, cell, first, pool, impressions, clicks, log_share, log_p, log_q, out
):
    """Write P(level | clicks) of document ``d`` into ``out``; return log P(clicks)."""
    n_levels = len(out)
    most = -np.inf
    for j in range(n_levels):
        total = log_share[cell[d], j]
        for row in range(first[d], first[d + 1]):
            total += clicks[row] * log_p[pool[row], j]
            total += (impressions[row] - clicks[row]) * log_q[pool[row], j]
        out[j] = total
        most = max(most, total)
    total = 0.0
    for j in range(n_levels):
        out[j] = math.exp(out[j] - most)
        total += out[j]
    for j in range(n_levels):
        out[j] /= total
    return most + math.log(total)


@numba.njit(cache=True, nogil=True)
def expected_counts(  # type: ignore[no-untyped-def]
    weight, cell, first, pool, impressions, clicks, log_share, log_p, log_q
):
    """Return the log-likelihood, and what the levels are expected to have got.

    Returns:
        The log-likelihood; documents ``[n_cells, n_levels]``; impressions and clicks
        ``[n_pools, n_levels]``.
    """
    docs = np.zeros(log_share.shape)
    seen = np.zeros(log_p.shape)
    clicked = np.zeros(log_p.shape)
    level = np.empty(log_p.shape[1])
    likelihood = 0.0
    for d in range(len(cell)):
        likelihood += weight[d] * posterior(
            d, cell, first, pool, impressions, clicks, log_share, log_p, log_q, level
        )
        for j in range(len(level)):
            part = weight[d] * level[j]
            docs[cell[d], j] += part
            for row in range(first[d], first[d + 1]):
                seen[pool[row], j] += part * impressions[row]
                clicked[pool[row], j] += part * clicks[row]
    return likelihood, docs, seen, clicked


@numba.njit(cache=True, nogil=True)
def document_levels(  # type: ignore[no-untyped-def]
    level, value, cell, first, pool, impressions, clicks, log_share, log_p, log_q
):
    """Write P(level | clicks) ``[n_docs, n_levels]``, log P(clicks) ``[n_docs]``."""
    rows = pool, impressions, clicks
    for d in range(len(cell)):
        value[d] = posterior(d, cell, first, *rows, log_share, log_p, log_q, level[d])
