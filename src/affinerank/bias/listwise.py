r"""Position bias from which documents of a query got its clicks.

Given its clicks, each click of a query is on document d at rank k with probability

.. math::

    \frac{n_{dk} e^{t_k + x_d w}}{\sum_{d'k'} n_{d'k'} e^{t_{k'} + x_{d'} w}} .

How often a query is clicked at all drops out: lists may be kept only where there was a
click, and queries may differ in that. It finds position bias, not trust bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from affinerank.bias.method import Estimate, EstimationSettings, Method
from affinerank.bias.pooling import pool_ranks
from affinerank.bias.requirements import require_estimable
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats, Ints, Matrix
from affinerank.support.threads import one_blas_thread

RIDGE, RANK_RIDGE = 1.0, 0.1  # features in units of their spread
TO_THE_LEAST = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-6}
NOTE = "position bias only: lists without a click are missing, or not looked at"


class QueryLists(NamedTuple):
    """Rows of counts, one query after another, with features in units of their spread.

    Attributes:
        rows: The counts.
        x: ``[n_rows, n_features]``.
        first: ``[n_queries]`` where each begins.
        size: ``[n_queries]`` rows of each.
    """

    rows: ClickRows
    x: Floats
    first: Ints
    size: Ints

    @classmethod
    def of(
        cls, rows: ClickRows, features: Matrix, settings: EstimationSettings
    ) -> QueryLists:
        """Sort rows by query; reject clicks that say too little."""
        require_estimable(rows, pool_ranks(rows, settings.min_clicks))
        rows = rows.select(np.argsort(rows.query, kind="stable"))
        x = features[rows.doc].astype(np.float64)
        x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)
        first = np.flatnonzero(np.diff(rows.query, prepend=-1))
        return cls(rows, x, first, np.diff(np.append(first, len(rows))))

    def total(self, values: Floats) -> Floats:
        """``[n_rows]`` sum of ``values [n_rows]`` over each row's query."""
        return np.add.reduceat(values, self.first).repeat(self.size)

    def fit(
        self,
        clicks: Floats,
        held: Floats,
        start: Floats,
        score: Callable[[Floats], Floats],
        back: Callable[[Floats], Floats],
    ) -> Floats:
        """Maximise the likelihood of clicks, less ``held`` times squares over 2.

        Args:
            clicks: ``[n_rows]``, weighted or not.
            held: ``[n]`` penalty of each parameter.
            start: ``[n]`` parameters to begin with.
            score: From parameters to log-odds ``[n_rows]``.
            back: Its transpose.
        """
        offset, total = np.log(self.rows.impressions), self.total(clicks)

        def loss(values: Floats) -> tuple[float, Floats]:
            odds = score(values) + offset
            odds = odds - np.maximum.reduceat(odds, self.first).repeat(self.size)
            log_share = odds - np.log(self.total(np.exp(odds)))
            left = total * np.exp(log_share) - clicks
            value = -clicks @ log_share + held @ values**2 / 2
            return float(value), back(left) + held * values

        return minimised(loss, start)

    def estimate(self, bias: Floats, note: str) -> Estimate:
        """Describe users of this bias ``[depth]``, in logs, known up to a factor."""
        alpha = np.exp(bias - bias[0])
        click_model = TrustModel(alpha=alpha, beta=0 * alpha, identified="relative")
        return replace(Estimate.of(click_model, self.rows), notes=(note,))


def minimised(loss: Callable[[Floats], tuple[float, Floats]], start: Floats) -> Floats:
    """Return where a loss, given with its gradient, is least.

    The search goes on until rounding ends it, so that every processor ends it there.
    """
    from scipy.optimize import minimize

    how: Any = {"jac": True, "method": "L-BFGS-B", "options": TO_THE_LEAST}
    with one_blas_thread():
        result = minimize(loss, start, **how)
    return np.asarray(result.x, dtype=np.float64)


def estimate(lists: QueryLists, _settings: EstimationSettings) -> Estimate:
    """Fit by maximum likelihood; users are known up to a factor."""
    rows, x, depth = lists.rows, lists.x, lists.rows.depth
    held = np.repeat([RANK_RIDGE, RIDGE], [depth, x.shape[1]])

    def score(values: Floats) -> Floats:
        return values[rows.rank - 1] + x @ values[depth:]

    def back(left: Floats) -> Floats:
        return np.append(rows.by_rank(left), left @ x)

    found = lists.fit(rows.clicks, held, 0.0 * held, score, back)
    return lists.estimate(found[:depth], NOTE)


def by_features(name: str, title: str, estimate: Callable[..., Estimate]) -> Method:
    """Return the row of a method that estimates from lists; no fit is kept.

    So a refit is the same as a fit.
    """

    def fit(
        rows: ClickRows, features: Matrix, settings: EstimationSettings, *_: object
    ) -> Estimate:
        return estimate(QueryLists.of(rows, features, settings), settings)

    return Method(name, title, fit, needs_features=True, refit=fit)


ROW = by_features("listwise", "Listwise", estimate)
