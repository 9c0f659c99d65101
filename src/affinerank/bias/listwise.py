r"""Position bias from which documents of a query got its clicks.

Given its clicks, each click of a query is on document d at rank k with probability

.. math::

    \frac{n_{dk} e^{t_k + x_d w}}{\sum_{d'k'} n_{d'k'} e^{t_{k'} + x_{d'} w}} .

How often a query is clicked at all drops out: lists may be kept only where there was a
click, and queries may differ in that. It finds position bias, not trust bias.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from affinerank.arrays import Floats, Matrix
from affinerank.bias.method import Estimate, EstimationSettings, Method
from affinerank.bias.pooling import pool_ranks
from affinerank.bias.requirements import require_estimable
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.rows import ClickRows
from affinerank.threads import one_blas_thread

RIDGE, RANK_RIDGE = 1.0, 0.1  # features in units of their spread


def estimate(
    rows: ClickRows, features: Matrix, settings: EstimationSettings, *_: object
) -> Estimate:
    """Fit by maximum likelihood; users are known up to a factor.

    Nothing is drawn and no fit kept, so a refit is the same.
    """
    from scipy.optimize import minimize

    require_estimable(rows, pool_ranks(rows, settings.least_clicks))
    rows = rows.select(np.argsort(rows.query, kind="stable"))
    depth, x = rows.depth, features[rows.doc].astype(np.float64)
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)
    first = np.flatnonzero(np.diff(rows.query, prepend=-1))
    size = np.diff(np.append(first, len(rows)))
    clicks, offset = rows.clicks, np.log(rows.impressions)
    total = np.repeat(np.add.reduceat(clicks, first), size)
    held = np.append(np.full(depth, RANK_RIDGE), np.full(x.shape[1], RIDGE))

    def loss(values: Floats) -> tuple[float, Floats]:
        score = values[rows.rank - 1] + x @ values[depth:] + offset
        odds = np.exp(score - np.repeat(np.maximum.reduceat(score, first), size))
        share = odds / np.repeat(np.add.reduceat(odds, first), size)
        left = total * share - clicks
        slope = np.append(np.bincount(rows.rank - 1, left, depth), left @ x)
        value = -clicks @ np.log(share) + held @ values**2 / 2
        return float(value), slope + held * values

    start = np.zeros(len(held))
    with one_blas_thread():
        bias = minimize(loss, start, jac=True, method="L-BFGS-B").x[:depth]
    alpha = np.exp(bias - bias[0])
    note = "position bias only: lists without a click are missing, or not looked at"
    users = TrustModel(alpha=alpha, beta=0 * alpha, identified="gauge")
    return replace(Estimate.of(users, rows), notes=(note,))


ROW = Method("listwise", "Listwise", estimate, needs_features=True, refit=estimate)
