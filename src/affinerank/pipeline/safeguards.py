r"""Safeguards: limits on what rankers can gain by leaving the logged ranking.

With :math:`\omega_0` the mean discount at which the log showed a document and N
sessions:

- ``prpo``, proximal ranking policy optimisation (Gupta, Oosterhuis, de Rijke, 2024):
  nothing is gained beyond :math:`\omega_0 / \delta`, nor avoided below
  :math:`\delta \omega_0`, with :math:`\delta = \min(1, 100 / N)`. At 1 no change gains.
- ``crm``, exposure-based counterfactual risk minimisation (the same, 2023): the price
  of an exposure :math:`\omega` is that of the bound
  :math:`\sqrt{(Z / N) (1 - \delta) / \delta \, d_2}`, with :math:`\delta = 0.05`, Z the
  discounts of a list and
  :math:`d_2 = \sum_q N_q / N \sum_d \omega_d^2 / (\omega_{0 d} Z)`. The root is taken
  for its tangent at the logged ranking, which is nowhere below it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from affinerank.arrays import Floats
from affinerank.clicks.rows import ClickRows
from affinerank.evaluation.rank_weights import RankWeights, logged_weights
from affinerank.metrics import Metric, discount
from affinerank.tables import Table

FREE = 100.0  # sessions up to which nothing is gained
DELTA = 0.05
DCG = RankWeights.of_metric(Metric("DCG"))


@dataclass(frozen=True, slots=True)
class Safeguard:
    """A row of ``SAFEGUARDS``.

    Attributes:
        name: Its key.
        title: What figures and messages call it.
        limits: From clicks to ``[3, n_docs]``: least and most exposure that count, and
            the price of exposure squared; see :mod:`affinerank.rankers.limited`.
    """

    name: str
    title: str
    limits: Callable[[ClickRows], Floats]


def _proximal(rows: ClickRows) -> Floats:
    logged = logged_weights(rows, DCG)
    delta = min(1.0, FREE / max(rows.n_sessions, 1))
    return np.stack([delta * logged, logged / delta, np.zeros_like(logged)])


def _priced(rows: ClickRows) -> Floats:
    logged = logged_weights(rows, DCG)
    size = float(np.sum(rows.share[rows.query_of_doc] * logged))
    bound = np.sqrt(size / max(rows.n_sessions, 1) * (1.0 - DELTA) / DELTA)
    longest = int(np.bincount(rows.query_of_doc).max())
    least = float(discount(np.array([longest]))[0])
    price = bound / (2.0 * size) / np.maximum(logged, least)
    return np.stack([0.0 * logged, np.full_like(logged, np.inf), price])


SAFEGUARDS: Table[Safeguard] = Table(
    "safeguard",
    Safeguard("prpo", "Proximal ranking policy optimisation", _proximal),
    Safeguard("crm", "Counterfactual risk minimisation", _priced),
)
