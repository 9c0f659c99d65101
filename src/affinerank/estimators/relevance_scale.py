r"""The gauge where relevance goes from 0 to 1.

Users may be known up to gauge: :math:`(a \alpha, \beta + t \alpha)` for any a > 0 and
t. What speaks of probabilities of relevance first brings alpha and beta to where the
least relevance is 0 and the most is 1, and takes its result back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators.estimator import Weights
from affinerank.support.arrays import Floats

MIN_RATE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class RelevanceScale:
    """Click rates as a function of relevance in [0, 1]: alpha relevance + beta.

    Attributes:
        rows: The clicks.
        alpha: ``[n_rows]`` slope.
        beta: ``[n_rows]`` intercept.
        low: What 0 is in the gauge of the users.
        span: What 1 is there, less that.
    """

    rows: ClickRows
    alpha: Floats
    beta: Floats
    low: float = 0.0
    span: float = 1.0

    @classmethod
    def of(cls, click_model: ClickModel, rows: ClickRows) -> RelevanceScale:
        """Bring alpha and beta of each row into the gauge."""
        alpha, beta = click_model.at(rows)
        low, high = click_model.span or possible_span(alpha, beta, rows.impressions)
        span = high - low
        return cls(rows, alpha * span, beta + alpha * low, low, span)

    def rate(self, relevance: Floats) -> Floats:
        """``[n_rows]`` click rates for relevance ``[n_docs]``, kept in (0, 1)."""
        rate = self.alpha * relevance[self.rows.doc] + self.beta
        return np.clip(rate, MIN_RATE, 1.0 - MIN_RATE)

    def back(self, relevance: Floats) -> Floats:
        """Take relevance to the gauge of the users."""
        return self.low + self.span * relevance

    def weights(
        self, relevance: Floats, variance: Floats, own_click_share: Floats
    ) -> Weights:
        """Take relevance to weights of documents, where their query was issued."""
        known = self.rows.sessions[self.rows.query_of_doc] > 0
        return Weights(
            np.where(known, self.back(relevance), 0.0),
            known,
            self.rows.share,
            np.where(known, self.span**2 * variance, 0.0),
            own_click_share=own_click_share,
        )


def possible_span(
    alpha: Floats, beta: Floats, impressions: Floats
) -> tuple[float, float]:
    """Return the relevance between which all click rates are probabilities.

    Where estimates leave no such relevance, that at which half of the impressions have
    one. Shifts and factors of the gauge carry over.

    >>> possible_span(np.array([0.5, 0.25]), np.array([0.5, 0.0]), np.ones(2))
    (0.0, 1.0)
    """
    some = alpha != 0
    slope, shift, n = alpha[some], beta[some], impressions[some]
    if not len(slope):
        return 0.0, 1.0
    ends = np.sort(np.stack([-shift / slope, (1.0 - shift) / slope]), axis=0)
    low, high = float(ends[0].max()) + 0.0, float(ends[1].min())  # no -0.0
    if low < high:
        return low, high
    half = (np.quantile(end, 0.5, weights=n, method="inverted_cdf") for end in ends)
    low, high = map(float, half)
    return low, high
