r"""Two sources weighed by what they know: a prior, and the document's own clicks.

.. math::

    r_d = m_d + \kappa_d (s_d - m_d), \qquad
    \kappa_d = \frac{u_d}{u_d + v_d}, \qquad
    s_d = \sum_k h_k \frac{c_k - n_k \beta_k}{n_k \alpha_k} \Big/ \sum_k h_k, \qquad
    v_d = 1 \Big/ \sum_k h_k

with prior mean m and variance u, and what a row of n impressions at rank k knows,

.. math::

    h_k = \frac{n_k \alpha_k^2}{p_k (1 - p_k) - \alpha_k^2 u_d}, \qquad
    p_k = \alpha_k m_d + \beta_k .

The prior variance is subtracted because p (1 - p) is averaged over the prior. Nothing
is divided by alpha: it may be negative, and a row where it is 0 drops out.
"""

from __future__ import annotations

import numpy as np

from affinerank.estimators.relevance_scale import RelevanceScale
from affinerank.support.arrays import Floats

MIN_SPREAD = 1e-6


def shrink(
    link: RelevanceScale, mean: Floats, variance: Floats
) -> tuple[Floats, Floats, Floats]:
    """Weigh own clicks against the prior ``mean`` and ``variance [n_docs]``.

    Returns:
        Relevance, its variance, and the share kappa of the document's own clicks.
    """
    rows, n = link.rows, link.rows.impressions
    p = link.rate(mean)
    spread = p * (1.0 - p) - link.alpha**2 * variance[rows.doc]
    spread = np.maximum(spread, MIN_SPREAD)
    known = rows.by_doc(n * link.alpha**2 / spread)  # 1 / v
    expected = n * (link.alpha * mean[rows.doc] + link.beta)
    away = rows.by_doc(link.alpha * (rows.clicks - expected) / spread)
    own_click_share = variance * known / (1.0 + variance * known)
    relevance = mean + variance * away / (1.0 + variance * known)
    return relevance, variance * (1.0 - own_click_share), own_click_share
