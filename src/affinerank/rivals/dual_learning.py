r"""Dual learning: relevance and examination debias each other (Ai et al., 2018).

Two listwise losses take turns, each over a query's clicks, until neither moves:

.. math::

    -\sum c_{dk} \frac{e^{t_1}}{e^{t_k}} \log \mathrm{softmax}(f)_d, \qquad
    -\sum c_{dk} \frac{e^{f_1}}{e^{f_d}} \log \mathrm{softmax}(t)_k

with scores :math:`f = x w` and examination :math:`e^{t_k}` up to a factor; the document
at rank 1 stands for the query, and no click counts more than 10 times. Users have
position bias alone.
"""

from __future__ import annotations

import numpy as np

from affinerank.bias.listwise import RANK_RIDGE, RIDGE, QueryLists, by_features
from affinerank.bias.method import Estimate, EstimationSettings
from affinerank.support.arrays import Floats
from affinerank.support.errors import warn

ROUNDS, CLOSE = 200, 1e-3
MOST = 10.0  # times that a click counts, as Hager et al. (2024) have it
NOTE = "position bias only, by dual learning"


def estimate(lists: QueryLists, _settings: EstimationSettings) -> Estimate:
    """Let the losses take turns; nothing is drawn."""
    rows, x, place = lists.rows, lists.x, lists.rows.rank - 1
    held, rank_held = np.full(x.shape[1], RIDGE), np.full(rows.depth, RANK_RIDGE)
    w, t = 0.0 * held, 0.0 * rank_held
    for _round in range(ROUNDS):
        clicks = rows.clicks * np.minimum(np.exp(t[0] - t), MOST)[place]
        w = lists.fit(clicks, held, w, lambda v: x @ v, lambda left: left @ x)
        clicks = rows.clicks * first_to_own(lists, x @ w)
        before = t - t[0]
        t = lists.fit(clicks, rank_held, t, lambda v: v[place], rows.by_rank)
        if np.abs(t - t[0] - before).max() < CLOSE:
            break
    else:
        warn(f"dual learning still moves after {ROUNDS} rounds: its users may be wrong")
    return lists.estimate(t, NOTE)


def first_to_own(lists: QueryLists, scores: Floats) -> Floats:
    """``[n_rows]`` relevance at the query's rank 1 over the row's own.

    0 where the query has no document at rank 1.
    """
    top = np.where(lists.rows.rank == 1, lists.rows.impressions, 0.0)
    seen = lists.total(top)
    mean = lists.total(top * scores) / np.maximum(seen, 1e-300)
    away = np.minimum(mean - scores, np.log(MOST))
    return np.where(seen > 0, np.exp(away), 0.0)


ROW = by_features("dual-learning", "Dual learning", estimate)
