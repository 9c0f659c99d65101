r"""Mixture-based: which level of relevance explains the clicks (Vardasbi et al., 2021).

.. math::

    w_d = \sum_j P_d(j) \, g_j, \qquad
    P_d(j) \propto \pi_j(d) \prod_k p_{jk}^{c_k} (1 - p_{jk})^{n_k - c_k}, \qquad
    p_{jk} = \alpha_k g_j + \beta_k

with levels g of relevance: those that the users were estimated with, else 0 and 1.
Their shares :math:`\pi` go by the rank shown, and follow from the clicks by expectation
maximisation: each is the mean of P over the documents of some ranks.
"""

from __future__ import annotations

import numpy as np

from affinerank.counts.rows import ClickRows
from affinerank.estimators.estimator import Estimator, Evidence, Weights
from affinerank.estimators.relevance_scale import MIN_RATE, RelevanceScale
from affinerank.support.arrays import Bools, Floats, Ints

ROUNDS = 50
ENOUGH = 100  # documents to take shares of levels from
MIN_LOG = -30.0  # no level is ruled out altogether


def weigh(evidence: Evidence) -> Weights:
    """Take the mean level, by the chance of each given the clicks."""
    rows, click_model = evidence.rows, evidence.required_click_model
    link = RelevanceScale.of(click_model, rows)
    levels = np.asarray(
        click_model.provenance.get("levels") or (0.0, 1.0), dtype=np.float64
    )
    likelihood = _log_likelihood(link, levels)
    pool = rank_pools(rows)
    shares = _shares(likelihood, pool, rows.by_doc(rows.impressions) > 0)[pool]
    relevance, variance = _moments(_posterior(likelihood, shares), levels)
    _, before = _moments(shares, levels)
    own_click_share = np.clip(1.0 - variance / before, 0.0, 1.0)
    return link.weights(relevance, variance, own_click_share)


def _log_likelihood(link: RelevanceScale, levels: Floats) -> Floats:
    """``[n_docs, n_levels]`` of a document's clicks, were it of each level."""
    rows, n, clicks = link.rows, link.rows.impressions, link.rows.clicks
    rate = np.multiply.outer(levels, link.alpha) + link.beta
    rate = np.clip(rate, MIN_RATE, 1.0 - MIN_RATE)
    each = clicks * np.log(rate) + (n - clicks) * np.log1p(-rate)
    return np.stack([rows.by_doc(level) for level in each], axis=1)


def _posterior(likelihood: Floats, shares: Floats) -> Floats:
    """``[n_docs, n_levels]`` chance of each level, given clicks and shares."""
    log = likelihood + np.log(shares)
    log = np.maximum(log - log.max(axis=1, keepdims=True), MIN_LOG)
    chance = np.exp(log)
    return np.asarray(chance / chance.sum(axis=1, keepdims=True), dtype=np.float64)


def _shares(likelihood: Floats, pool: Ints, shown: Bools) -> Floats:
    """``[n_pools, n_levels]`` shares of levels, with one document spread evenly."""
    n_pools, n_levels = int(pool.max()) + 1, likelihood.shape[1]
    likelihood, pool = likelihood[shown], pool[shown]
    size = np.bincount(pool, minlength=n_pools)[:, None]
    shares = np.full((n_pools, n_levels), 1.0 / n_levels)
    for _ in range(ROUNDS):
        chance = _posterior(likelihood, shares[pool])
        total = [np.bincount(pool, level, minlength=n_pools) for level in chance.T]
        shares = (np.stack(total, axis=1) + 1.0 / n_levels) / (size + 1.0)
    return shares


def _moments(chance: Floats, levels: Floats) -> tuple[Floats, Floats]:
    """Mean and variance ``[n_docs]`` of levels with these chances."""
    mean = chance @ levels
    variance = np.sum(chance * (levels - mean[:, None]) ** 2, axis=1)
    return mean, np.asarray(variance, dtype=np.float64)


def rank_pools(rows: ClickRows) -> Ints:
    """``[n_docs]`` number of the ranks that a document shares its levels with.

    It goes by its mean rank. Neighbouring ranks are pooled until there are enough
    documents; those never shown are with the deepest.
    """
    shown = rows.shown_rank
    rank = np.where(shown > 0, shown, rows.depth)
    size = np.bincount(shown[shown > 0], minlength=rows.depth + 1)
    pool_of_rank = np.zeros(rows.depth + 1, dtype=np.int64)
    pool = held = 0
    for k in range(1, rows.depth + 1):
        pool_of_rank[k] = pool
        held += size[k]
        if held >= ENOUGH and size[k + 1 :].sum() >= ENOUGH:
            pool, held = pool + 1, 0
    return pool_of_rank[rank]


ROW = Estimator("mixture-based", "Mixture-based", "relative", weigh)
