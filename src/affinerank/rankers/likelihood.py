r"""The likelihood of one ranker's clicks, in NumPy.

.. math::

    -\sum_k c_k \log p_k + (n_k - c_k) \log(1 - p_k), \qquad
    p_k = \alpha_k \, \mathrm{sigmoid}(s) + \beta_k

for a document of score s, clicked c times in n impressions at rank k. With
:math:`m = \mathrm{sigmoid}(s)` and :math:`d_k = \alpha_k m (1 - m)`, its slope by the
score is :math:`-\sum_k d_k (c_k - n_k p_k) / (p_k (1 - p_k))`, and its expected
curvature :math:`\sum_k n_k d_k^2 / (p_k (1 - p_k))`, never below 0. It never divides by
alpha and knows no negative weights.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from affinerank.rankers.targets import ClickTargets
from affinerank.support.arrays import Floats, Ints, sigmoid

MIN_RATE = 1e-6
NEWTON_STEPS = 30


@dataclass(frozen=True, slots=True, eq=False)
class Clicks:
    """Clicks of one ranker: ``doc``, and counts, alpha and beta of slots in use."""

    doc: Ints
    impressions: Floats
    clicks: Floats
    alpha: Floats
    beta: Floats

    @classmethod
    def of(cls, targets: ClickTargets, i: int) -> Clicks:
        """Take the clicks of ranker ``i``."""
        used = np.nonzero(targets.impressions[i] > 0)
        own = (getattr(targets, f.name)[i][used] for f in fields(targets))
        return cls(used[0], *(values.astype(np.float64) for values in own))

    def of_shown(self) -> tuple[Ints, Clicks]:
        """Return the documents that were shown, and clicks that number them anew."""
        shown, doc = np.unique(self.doc, return_inverse=True)
        return shown, replace(self, doc=doc)

    def surprise(self, scores: Floats) -> tuple[float, Floats]:
        """Return the negative log-likelihood, and its slope by score ``[n_docs]``."""
        n, c, relevance = self.impressions, self.clicks, sigmoid(scores)
        rate, p = self._rates(relevance)
        value = -float(np.sum(c * np.log(p) + (n - c) * np.log1p(-p)))
        by_rate = np.where(rate == p, (n * p - c) / (p * (1.0 - p)), 0.0)
        slope = np.bincount(self.doc, by_rate * self.alpha, minlength=len(scores))
        return value, slope * relevance * (1.0 - relevance)

    def curvature(self, scores: Floats) -> Floats:
        """Return the expected curvature of that by score, ``[n_docs]``."""
        relevance = sigmoid(scores)
        _, p = self._rates(relevance)
        by_rate = self.impressions * self.alpha**2 / (p * (1.0 - p))
        curve = np.bincount(self.doc, by_rate, minlength=len(scores))
        return curve * (relevance * (1.0 - relevance)) ** 2

    def _rates(self, relevance: Floats) -> tuple[Floats, Floats]:
        """Return click rates as they are, and kept in (0, 1)."""
        rate = self.alpha * relevance[self.doc] + self.beta
        return rate, np.clip(rate, MIN_RATE, 1.0 - MIN_RATE)


def mean_score(targets: ClickTargets) -> Floats:
    """``[n]`` the score that explains the clicks best if all documents share it."""
    found = np.full((len(targets.clicks), 1), -1.0)
    for i in range(len(found)):
        clicks = Clicks.of(targets, i)
        together = replace(clicks, doc=np.zeros_like(clicks.doc))
        for _ in range(NEWTON_STEPS):
            _, slope = together.surprise(found[i])
            curve = together.curvature(found[i]) + 1e-3
            found[i] = np.clip(found[i] - np.clip(slope / curve, -1.0, 1.0), -6.0, 6.0)
    return found[:, 0]
