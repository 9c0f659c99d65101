r"""LambdaMART's gradients for weights of any sign, compiled.

LightGBM's own objective wants labels that are whole numbers of 0 and more; corrected
clicks are neither. Here the loss of a list is that of LambdaRank for DCG, with a gain
linear in the weight:

.. math::

    \sum_{i, j: w_i > w_j} \Delta_{ij} \log(1 + e^{-(s_i - s_j)}), \qquad
    \Delta_{ij} = u (w_i - w_j)
    \left| \frac{1}{\log_2(r_i + 1)} - \frac{1}{\log_2(r_j + 1)} \right|

with :math:`r` the ranks that the scores give, :math:`u` how much the list counts, and
:math:`\Delta` held fixed. With :math:`\rho = 1 / (1 + e^{s_i - s_j})` a pair adds
:math:`-\Delta\rho` to the gradient of :math:`s_i`, :math:`+\Delta\rho` to that of
:math:`s_j`, and :math:`\Delta\rho(1 - \rho)` to the second derivative of both.

It is kept apart because numba takes half a second to import.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from affinerank.arrays import Floats, Ints
from affinerank.metrics import discount

Derivatives = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class LambdaObjective:
    """What LightGBM needs before each tree: first and second derivatives of the loss.

    Attributes:
        gains: ``[n_docs]`` weights times what their list counts, of any sign.
        offsets: ``[n_queries + 1]`` list boundaries; lists may be empty.
        truncation: A pair counts where one of its ranks is up to this.
    """

    gains: Floats
    offsets: Ints
    truncation: int = 30

    def __call__(
        self, scores: Floats, data: object = None
    ) -> tuple[Derivatives, Derivatives]:
        """Return gradient and second derivative of each score, ``[n_docs]`` both.

        ``data``, which LightGBM passes, adds nothing.
        """
        del data
        longest = int(np.diff(self.offsets).max(initial=0))
        discounts = discount(np.arange(1, longest + 1))
        return _derivatives(
            scores, self.gains, self.offsets, discounts, self.truncation
        )


@numba.njit(cache=True, nogil=True)
def _derivatives(
    scores: Floats, gains: Floats, offsets: Ints, discounts: Floats, truncation: int
) -> tuple[Derivatives, Derivatives]:
    """Return the derivatives of every list, one list after another."""
    gradient = np.zeros(len(scores), dtype=np.float32)
    hessian = np.zeros(len(scores), dtype=np.float32)
    for q in range(len(offsets) - 1):
        start, end = offsets[q], offsets[q + 1]
        # Ties go to the earlier row, as in every metric.
        order = start + np.argsort(-scores[start:end], kind="mergesort")
        first, second = _pairs(scores[order], gains[order], discounts, truncation)
        gradient[order] = first
        hessian[order] = second
    return gradient, hessian


@numba.njit(cache=True, nogil=True)
def _pairs(
    s: Floats, g: Floats, discounts: Floats, truncation: int
) -> tuple[Floats, Floats]:
    """Derivatives of one list, whose documents are sorted by score."""
    first, second = np.zeros(len(s)), np.zeros(len(s))
    for i in range(min(len(s), truncation)):
        for j in range(i + 1, len(s)):
            higher = (g[i] - g[j]) * (discounts[i] - discounts[j])
            # The scores fall, so the exponential can only be too large: then rho is 0.
            low = 1.0 / (1.0 + np.exp(s[i] - s[j]))
            slope = higher * (low if higher > 0 else 1.0 - low)
            curve = abs(higher) * low * (1.0 - low)
            first[i] -= slope
            first[j] += slope
            second[i] += curve
            second[j] += curve
    return first, second
