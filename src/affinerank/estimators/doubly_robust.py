r"""Doubly robust: predicts by features, corrects by own clicks (Oosterhuis, 2023).

.. math::

    w_d = R_d + \kappa_d \Bigl( \frac{S_d}{A_d} - R_d \Bigr), \qquad
    \kappa_d = \min\Bigl( 1, \frac{A_d}{\tau N_q} \Bigr)

with the direct method's prediction R, sessions N of the query, and as in the
intervention-aware estimator :math:`S_d = C_d - \sum_k n_{dk} \beta_k` and
:math:`A_d = \sum_k n_{dk} \alpha_k`. It is right on average where R is, or where kappa
is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from affinerank.estimators.correction import smoothed_variance
from affinerank.estimators.direct import learns, predicted
from affinerank.estimators.estimator import Estimator, Evidence, Weights, parse_clip


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the doubly robust estimator.

    Attributes:
        tau: From which mean alpha per session on own clicks count in full: a number, or
            ``"10/sqrt(n)"`` with n the number of sessions.
    """

    tau: str | float = "10/sqrt(n)"

    def __post_init__(self) -> None:
        """Reject a rule that cannot be read."""
        parse_clip(self.tau, 1, "tau")


def weigh(evidence: Evidence) -> Weights:
    """Correct predictions by the document's own clicks, as far as there are enough."""
    rows, n = evidence.rows, evidence.rows.impressions
    link, mean, spread = predicted(evidence, ROW.name)
    sessions = rows.sessions[rows.query_of_doc]
    tau = parse_clip(evidence.options.tau, rows.n_sessions)

    alpha = rows.by_doc(n * link.alpha)  # A
    clicks = rows.by_doc(rows.clicks - n * link.beta)  # S
    seen = alpha > 0
    alpha = np.where(seen, alpha, 1.0)
    own_click_share = np.where(seen, alpha / np.maximum(alpha, tau * sessions), 0.0)
    relevance = mean + own_click_share * (clicks / alpha - mean)
    variance = (1.0 - own_click_share) ** 2 * spread
    variance += own_click_share**2 * rows.by_doc(smoothed_variance(rows)) / alpha**2

    return link.weights(relevance, variance, own_click_share)


ROW = Estimator(
    "doubly-robust", "Doubly robust", "relative", weigh, options=Options, learns=learns
)
