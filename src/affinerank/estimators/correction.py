r"""The one idea: clicks are affine in relevance, so a correction is the inverse.

.. math::

    w_{qd} = \sum_k \frac{c_k - \beta_k n_k}{\alpha_k} \Big/ \sum_k n_k, \qquad
    \mathrm{Var}(w_{qd}) = \sum_k \frac{\mathrm{Var}(c_k)}{\alpha_k^2}
        \Big/ \Bigl(\sum_k n_k\Bigr)^2

with clicks c and impressions n of a document at each rank k. Estimators differ in their
alpha and beta alone:

========== ============================================ ==========================
estimator  alpha                                        beta
========== ============================================ ==========================
naive      1                                            0
ips        :math:`\theta_k`                             0
bayes-ips  :math:`\theta_k (\epsilon^+_k + \epsilon^-_k) / \epsilon^+_k` 0
affine     :math:`\theta_k (\epsilon^+_k - \epsilon^-_k)` :math:`\theta_k \epsilon^-_k`
========== ============================================ ==========================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from affinerank.counts.rows import ClickRows
from affinerank.estimators.estimator import Weights
from affinerank.support.arrays import Floats
from affinerank.support.errors import DataError, warn


def corrected(rows: ClickRows, alpha: ArrayLike, beta: ArrayLike = 0.0) -> Weights:
    """Correct the clicks of each row and add them up by document, per impression.

    Args:
        rows: Impressions and clicks.
        alpha: Slope of each row, ``[n_rows]`` or one for all. Rows where it is 0 say
            nothing of relevance, and are left out.
        beta: Intercept of each row.
    """
    size = len(rows)
    slope = np.broadcast_to(np.asarray(alpha, dtype=np.float64), size)
    base = np.broadcast_to(np.asarray(beta, dtype=np.float64), size)
    _require_usable(slope, base)
    n = np.where(slope != 0, rows.impressions, 0.0)
    total = rows.by_doc(n)
    known = total > 0
    per_click, shown = np.zeros(size), slope * total[rows.doc]
    np.divide(1.0, shown, out=per_click, where=slope != 0)
    weight = rows.by_doc(per_click * (rows.clicks - base * n))
    variance = rows.by_doc(per_click**2 * click_variance(rows))
    return Weights(weight, known, rows.share, variance, per_click)


def standard_error(weights: Weights, rows: ClickRows) -> Floats:
    """``[n_docs]`` standard error of each weight by itself; never 0 where known.

    The variance of a document without a click is 0, which is right on average and
    wrong for the document. So click rates are drawn towards the mean of their rank.
    """
    if weights.slope is None:
        return np.sqrt(weights.variance)
    return np.sqrt(rows.by_doc(weights.slope**2 * smoothed_variance(rows)))


def click_variance(rows: ClickRows) -> Floats:
    r"""``[n_rows]`` variance of each row's clicks given its impressions, unbiased.

    :math:`c (n - c) / (n - 1)`; for one impression, which does not tell, that of a
    document with the mean click rate of the rank.
    """
    n, clicks, rate = rows.impressions, rows.clicks, mean_click_rate(rows)
    sampled = clicks * (n - clicks) / np.maximum(n - 1.0, 1.0)
    return np.where(n > 1, sampled, n * rate * (1.0 - rate))


def smoothed_variance(rows: ClickRows) -> Floats:
    r"""``[n_rows]`` the same, drawn towards the rank's mean click rate by half a click.

    .. math::

        n \tilde p (1 - \tilde p), \qquad
        \tilde p = \frac{c + 1/2}{n + 1 / (2 \bar p_k)}
    """
    n = rows.impressions
    rate = (rows.clicks + 0.5) / (n + 0.5 / mean_click_rate(rows))
    return n * rate * (1.0 - rate)


def mean_click_rate(rows: ClickRows) -> Floats:
    """``[n_rows]`` clicks per impression at each row's rank.

    With half a click in one impression added, so that no rate is 0 or 1.
    """
    rate = (rows.by_rank(rows.clicks) + 0.5) / (rows.by_rank(rows.impressions) + 1.0)
    return rate[rows.rank - 1]


def _require_usable(alpha: Floats, beta: Floats) -> None:
    """Reject slopes that are all 0; warn of a negative one."""
    if not np.all(np.isfinite(alpha) & np.isfinite(beta)):
        raise DataError("alpha and beta must be finite")
    if len(alpha) and not alpha.any():
        raise DataError(
            "alpha is 0 for all rows of counts, so their clicks say nothing about "
            "relevance: nothing is examined (theta = 0), or relevant and irrelevant "
            "documents are clicked alike (eps+ = eps-)"
        )
    negative = int(np.count_nonzero(alpha < 0))
    if negative:
        warn(
            f"alpha is below 0 for {negative} rows of counts: irrelevant documents are "
            "clicked more than relevant ones there, so a click counts against a "
            "document"
        )
