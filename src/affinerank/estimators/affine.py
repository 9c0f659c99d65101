r"""Affine: removes position and trust bias (Vardasbi, Oosterhuis, de Rijke, 2020).

A document's rows are averaged, each corrected by itself:

.. math::

    w_d = \sum_k h_k s_k \Big/ \sum_k h_k, \qquad
    s_k = \frac{c_k - n_k \beta_k}{n_k \alpha_k}

with :math:`h_k = n_k` (``equal``), or by what a row knows (``information``),

.. math::

    h_k = \frac{n_k \alpha_k^2}{p_k (1 - p_k)},

where p is the click rate of the other documents at the rank. A document's own clicks
have no part in h, so both are unbiased. Rows by the last click above differ so much in
what they know that these are always weighed by information.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from affinerank.counts.rows import ClickRows
from affinerank.estimators.correction import corrected
from affinerank.estimators.estimator import ClipOptions, Estimator, Evidence, Weights
from affinerank.support.arrays import Floats, joint
from affinerank.support.settings import require_choice

EQUAL, INFORMATION = "equal", "information"


@dataclass(frozen=True, slots=True)
class AffineOptions(ClipOptions):
    """Options of the affine estimator.

    Attributes:
        rows: What the ranks that a document was shown at count: every impression
            ``equal``, or each rank by its ``information`` on relevance, as rows by
            context always do.
    """

    rows: str = EQUAL

    def __post_init__(self) -> None:
        """Reject what is no rule."""
        ClipOptions.__post_init__(self)
        require_choice("rows", self.rows, (EQUAL, INFORMATION))


def weigh(evidence: Evidence) -> Weights:
    """Subtract the clicks that trust alone brings, then divide: (c - beta) / alpha."""
    rows, options = evidence.rows, evidence.options
    alpha, beta = evidence.required_click_model.at(rows)
    alpha = options.clipped(alpha, rows)
    if rows.has_context or getattr(options, "rows", EQUAL) == INFORMATION:
        alpha = slopes_by_information(alpha, _rate_of_others(rows), rows)
    return corrected(rows, alpha, beta)


def slopes_by_information(alpha: Floats, rate: Floats, rows: ClickRows) -> Floats:
    r"""``[n_rows]`` slopes whose mean per impression weighs rows by information.

    :math:`\alpha_k n_k \sum h / (h_k \sum n)`, with
    :math:`h_k = n_k \alpha_k^2 / (p_k (1 - p_k))` and the click rate p; 0 stays 0.
    """
    spread = rate * (1.0 - rate)
    n = np.where(alpha != 0, rows.impressions, 0.0)
    known = rows.by_doc(n * alpha**2 / spread)[rows.doc]
    slope = np.zeros_like(alpha)
    shown = alpha * rows.by_doc(n)[rows.doc]
    return np.divide(known * spread, shown, out=slope, where=alpha != 0)


def _rate_of_others(rows: ClickRows) -> Floats:
    """``[n_rows]`` click rate at each row's rank, of all documents but the row's own.

    With half a click in one impression added, so that no rate is 0 or 1.
    """
    _, own = np.unique(joint(rows.doc, rows.rank), return_inverse=True)

    def others(values: ArrayLike) -> Floats:
        return rows.by_rank(values)[rows.rank - 1] - np.bincount(own, values)[own]

    return (others(rows.clicks) + 0.5) / (others(rows.impressions) + 1.0)


ROW = Estimator("affine", "Affine", "relative", weigh, options=AffineOptions)
