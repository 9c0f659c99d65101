r"""Additive two towers: a network of relevance, and a bias of each rank shown.

.. math::

    P(C = 1) = \mathrm{sigmoid}(s_d + b_k)

for a document of score s shown at rank k (Yan et al., 2022, call it the additive
model). It learns click rates, which weights of no correction are, and leaves the bias
out of its scores. The training is in :mod:`affinerank.rivals.tower_training`.
"""

from __future__ import annotations

from dataclasses import replace

from affinerank.rankers.networks.settings import ROW as NETWORK
from affinerank.support.registry import later

ROW = replace(
    NETWORK,
    name="two-tower",
    title="Additive two-tower",
    fit=later("affinerank.rivals.tower_training:fit_two_tower"),
    explains_clicks=False,
)
