"""Scores: how much each document's clicks pull at every parameter of a mixture.

A score is the gradient of one document's log-likelihood. The mean of their products is
the information that clicks hold on the parameters: it says how well these are known,
and in which units the likelihood is about equally curved in all directions.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from affinerank.bias.mixture.levels import Layout, Levels, document_levels
from affinerank.bias.mixture.population import MixtureDocuments
from affinerank.support.arrays import Floats


def information_matrix(
    population: MixtureDocuments, levels: Levels, layout: Layout
) -> Floats:
    """``[size, size]`` products of the documents' scores, and the prior's precision."""
    information = np.asarray(layout.precision().toarray(), dtype=np.float64)
    for part in population.parts():
        scores = document_scores(part, levels, layout)
        weighted = sparse.diags(part.weight) @ scores
        information += (scores.T @ weighted).toarray()
    return information


def document_scores(
    population: MixtureDocuments, levels: Levels, layout: Layout
) -> sparse.csr_matrix:
    """``[n_docs, size]`` gradient of each document's log-likelihood.

    It takes some 500 bytes per document: of many, take one of
    :meth:`Population.parts` at a time.
    """
    n_docs, n_pools = population.n_docs, population.n_pools
    pool = population.pool
    doc = population.doc_of_row
    cell = population.cell
    level_chance, _ = document_levels(population, levels)

    # Click rates: one entry per row of clicks.
    rate = levels.click_rate(levels.levels)
    skips = population.impressions - population.clicks
    pull = population.clicks[:, None] / rate[pool] - skips[:, None] / (1 - rate)[pool]
    pull *= level_chance[doc]
    plus, ratio = (np.sum(pull * slope[pool], 1) for slope in levels.rate_slopes())
    ratio_column = np.zeros_like(pool) if layout.tied else pool
    n_ratios = 1 if layout.tied else n_pools
    # The common ratio has no slope: only a prior depends on it.
    n_means = 0 if layout.tied else 1

    # Shares: found less expected, per document; levels move both.
    surprise = level_chance - np.exp(levels.log_shares(population))[cell]
    lean = surprise @ levels.levels
    home = population.home[cell]
    to_level = surprise * levels.log_odds(population)[cell, None]
    np.add.at(to_level, doc, pull * levels.alpha[pool, None])
    blocks = [
        sparse.csr_matrix((plus, (doc, pool)), (n_docs, n_pools)),
        sparse.csr_matrix((ratio, (doc, ratio_column)), (n_docs, n_ratios)),
        np.zeros((n_docs, n_means)),
        levels.gap_slopes(to_level),
        surprise[:, 1:],
        lean[:, None] * population.basis[cell],
        sparse.csr_matrix(
            (lean, (np.arange(n_docs), home)), (n_docs, population.n_ranks)
        ),
    ]
    return sparse.hstack(blocks, format="csr")
