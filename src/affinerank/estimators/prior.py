r"""What to expect of a document before its own clicks: a stack of rankers.

Rankers that learnt from other queries score the document. What their scores mean is
learnt from clicks, through the affine link,

.. math::

    m_d = \mathrm{sigmoid}(x_d \cdot w), \qquad
    \max_w \sum_k c_k \log p_k + (n_k - c_k) \log(1 - p_k), \qquad
    p_k = \alpha_k m_d + \beta_k,

with columns x: each score less its query's mean, that mean where it means something,
the logarithms of the list's length and of the rank shown, the latter with a knot, and
1. How far relevance varies around that follows by moments: its variance is
:math:`u_d = \rho \, m_d (1 - m_d)`.

The clicks of a query never have a say in its own prior: rankers learn from some
queries, others weigh them, and both predict the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from affinerank.counts.rows import ClickRows
from affinerank.estimators.estimator import CLICKS, Fold
from affinerank.estimators.relevance_scale import MIN_RATE, RelevanceScale
from affinerank.support.arrays import Bools, Floats, Ints, sigmoid
from affinerank.support.threads import one_blas_thread

RIDGE, CONSTANT_RIDGE = 30.0, 0.01
START = -1.0
BOUNDS = {1: (0.0, np.inf), -1: (-np.inf, 0.0), 0: (-np.inf, np.inf)}
FARTHEST = 4.0  # columns in units of their spread: nothing is expected beyond
MIN_MEAN = 1e-3
KNOT = 10  # up to this rank the logarithm of the rank counts, and then differently
MIN_RHO, RHO_GUESS, RHO_SD = 0.02, 1.0, 0.5
ROUNDING = 1e-12  # of a sum over all clicks
POLISHES = 10  # Newton's steps at most, each of which must lessen the gradient
DOCS_AT_ONCE = 2**17  # bounds the memory that expectations take
Column = tuple[Floats, int]  # of documents, with its coefficient's sign; 0: either


def stacked_prior(link: RelevanceScale, folds: Sequence[Fold]) -> tuple[Floats, Floats]:
    """Combine the rankers of each fold; without any, by the rank shown alone.

    Returns mean and variance ``[n_docs]`` of relevance, as other queries have it.
    """
    rows, rank = link.rows, log_rank(link.rows)
    size = np.maximum(np.bincount(rows.query_of_doc, minlength=rows.n_queries), 1)
    # Without rankers, each half of the queries weighs for the other.
    odd = np.arange(rows.n_queries) % 2 == 1
    folds = folds or [Fold(odd, ~odd, {}), Fold(~odd, odd, {})]

    def expected(fold: Fold, weighing: RelevanceScale) -> Floats:
        query = weighing.rows.query_of_doc
        own = _columns(fold, query, size, rank[fold.docs(rows.query_of_doc)])
        return explain(standard(own, fold.weighs[query]), weighing)

    return prior_of(link, folds, expected)


def prior_of(
    link: RelevanceScale,
    folds: Sequence[Fold],
    expected: Callable[[Fold, RelevanceScale], Floats],
) -> tuple[Floats, Floats]:
    """Take what each fold expects of the queries it predicts; how far off, by moments.

    ``expected`` gets a fold and the clicks that weigh it, both on the fold's documents
    alone, and returns what it expects of these.
    """
    rows = link.rows
    mean, rho = np.full(rows.n_docs, 0.5), np.full(rows.n_docs, RHO_GUESS)
    for fold in folds:
        docs, weighing = fold.docs(rows.query_of_doc), part_of(link, fold.weighs)
        query, shown = rows.query_of_doc[docs], weighing.rows
        own = replace(shown, doc=np.searchsorted(docs, shown.doc), query_of_doc=query)
        weighing = replace(weighing, rows=own)
        found, here = expected(fold, weighing), fold.predicts[query]
        mean[docs[here]] = found[here]
        rho[docs[here]] = spread_around(found, weighing)
    return mean, rho * mean * (1.0 - mean)


def part_of(link: RelevanceScale, queries: Bools) -> RelevanceScale:
    """Keep the clicks on some queries."""
    used = np.flatnonzero(queries[link.rows.query])
    return RelevanceScale(link.rows.select(used), link.alpha[used], link.beta[used])


def log_rank(rows: ClickRows) -> Floats:
    """``[n_docs]`` mean logarithm of the rank shown; deeper than all if never shown."""
    shown = rows.by_doc(rows.impressions)
    total = rows.by_doc(rows.impressions * np.log(rows.rank))
    deepest = np.zeros(rows.n_queries)
    np.maximum.at(deepest, rows.query, rows.rank)
    below = np.log1p(deepest)[rows.query_of_doc]
    return np.where(shown > 0, total / np.maximum(shown, 1e-300), below)


def _columns(fold: Fold, query: Ints, size: Ints, rank: Floats) -> Iterator[Column]:
    """Yield what the prior is made of, for the fold's documents, of these queries."""
    for name, scores in fold.scores.items():
        mean = (np.bincount(query, scores, minlength=len(size)) / size)[query]
        yield scores - mean, 1
        if name.startswith(CLICKS):
            yield mean, 1
    # Only long lists have deep ranks: what is so of them is not due to the rank.
    yield np.log(size)[query], 0
    knot = np.log(KNOT)
    yield np.minimum(rank, knot), -1
    yield np.maximum(rank - knot, 0.0), -1


def standard(columns: Iterable[Column], some: Bools) -> list[Column]:
    """Return columns in units of their spread over some documents, and 1."""
    found: list[Column] = []
    for column, sign in columns:
        seen = column[some]
        spread = seen.std()
        value = column - seen.mean()
        value /= spread if spread > 1e-12 else 1.0
        found.append((np.clip(value, -FARTHEST, FARTHEST, out=value), sign))
    return [*found, (np.ones(len(some)), 0)]


def explain(columns: Sequence[Column], link: RelevanceScale) -> Floats:
    """``[n_docs]`` relevance, averaged over the uncertainty of the coefficients.

    Coefficients by maximum likelihood of the clicks, each of the sign that makes sense,
    with a little ridge; what clicks leave open of them draws relevance to 1/2.
    """
    from scipy.optimize import Bounds, minimize

    def read(docs: Ints | slice) -> Floats:
        return np.stack([column[docs] for column, _ in columns], axis=1)

    n, clicks = link.rows.impressions, link.rows.clicks
    doc, back = np.unique(link.rows.doc, return_inverse=True)
    x = read(doc)
    ridge = np.append(np.full(x.shape[1] - 1, RIDGE), CONSTANT_RIDGE)

    def rates(w: Floats) -> tuple[Floats, Floats]:
        m = sigmoid(x @ w)
        rate = link.alpha * m[back] + link.beta
        return m, np.clip(rate, MIN_RATE, 1.0 - MIN_RATE)

    def loss(w: Floats) -> tuple[float, Floats]:
        m, p = rates(w)
        value = -np.sum(clicks * np.log(p) + (n - clicks) * np.log1p(-p))
        by_row = (clicks - n * p) / (p * (1.0 - p)) * link.alpha
        slope = np.bincount(back, by_row, minlength=len(doc)) * m * (1.0 - m)
        return value + 0.5 * float(ridge @ w**2), ridge * w - slope @ x

    def curvature(w: Floats) -> Floats:
        """Second derivatives of the loss."""
        m, p = rates(w)
        slope = m * (1.0 - m)
        chance = p * (1.0 - p)
        away = (clicks - n * p) / chance
        by_rate = n / chance + away * (1.0 - 2.0 * p) / chance
        bent = np.bincount(back, by_rate * link.alpha**2, minlength=len(doc))
        pull = np.bincount(back, away * link.alpha, minlength=len(doc))
        by_doc = bent * slope**2 - pull * slope * (1.0 - 2.0 * m)
        return np.asarray((x.T * by_doc) @ x + np.diag(ridge), dtype=np.float64)

    start = np.append(np.zeros(x.shape[1] - 1), START)
    low, high = np.array([BOUNDS[sign] for _, sign in columns]).T
    how: Any = {"jac": True, "method": "L-BFGS-B", "bounds": Bounds(low, high)}
    with one_blas_thread():
        w = minimize(loss, start, **how).x
        w = _polished(w, loss, curvature, low, high)
    m, p = rates(w)
    by_row = n * link.alpha**2 / (p * (1.0 - p))
    known = np.bincount(back, by_row, minlength=len(doc)) * (m * (1.0 - m)) ** 2
    precision = (x.T * known) @ x + np.diag(ridge)
    expected = np.empty(len(columns[0][0]))
    for first in range(0, len(expected), DOCS_AT_ONCE):
        some = slice(first, first + DOCS_AT_ONCE)
        every = read(some)
        open_ = np.einsum("ij,ji->i", every, np.linalg.solve(precision, every.T))
        expected[some] = sigmoid(every @ w / np.sqrt(1.0 + np.pi / 8.0 * open_))
    return np.clip(expected, MIN_MEAN, 1.0 - MIN_MEAN, out=expected)


def _polished(
    w: Floats,
    loss: Callable[[Floats], tuple[float, Floats]],
    curvature: Callable[[Floats], Floats],
    low: Floats,
    high: Floats,
) -> Floats:
    """Take Newton's steps from near the optimum until only rounding is left.

    L-BFGS stops at a point that depends on rounding, and so on the processor.
    """

    def free_gradient(w: Floats) -> tuple[float, Floats]:
        """Return the loss, and its gradient, 0 where a bound blocks the step."""
        value, gradient = loss(w)
        is_blocked = ((w <= low) & (gradient > 0)) | ((w >= high) & (gradient < 0))
        return value, np.where(is_blocked, 0.0, gradient)

    value, gradient = free_gradient(w)
    for _ in range(POLISHES):
        free = np.flatnonzero(gradient)
        hessian = curvature(w)[np.ix_(free, free)]
        moved = w.copy()
        moved[free] -= np.linalg.solve(hessian, gradient[free])
        moved = np.clip(moved, low, high)

        # A step must lessen the gradient, and must not climb to a saddle.
        new_value, new_gradient = free_gradient(moved)
        is_flatter = np.abs(new_gradient).sum() < np.abs(gradient).sum()
        is_higher = new_value > value + ROUNDING * abs(value)
        if is_higher or not is_flatter:
            break
        w, value, gradient = moved, new_value, new_gradient
    return w


def spread_around(mean: Floats, link: RelevanceScale) -> float:
    r"""How much relevance varies around the prior mean, by moments.

    With :math:`z = c - n p`, :math:`E z^2 = n p (1 - p) + n (n - 1) \alpha^2 u`.
    """
    rows, n = link.rows, link.rows.impressions
    m, p = mean[rows.doc], link.rate(mean)
    chance = n * p * (1.0 - p)
    unit = n * (n - 1.0) * link.alpha**2 * m * (1.0 - m)  # at rho = 1
    found = RHO_GUESS
    for _ in range(3):
        noise = chance + 2.0 * (chance + found * unit) ** 2  # about Var(z^2)
        weight = unit / noise
        information = float(weight @ unit)
        if information <= 0:
            return RHO_GUESS
        excess = float(weight @ ((rows.clicks - n * p) ** 2 - chance))
        found = (excess + RHO_GUESS / RHO_SD**2) / (information + RHO_SD**-2)
        found = float(np.clip(found, MIN_RHO, 1.0))
    return found
