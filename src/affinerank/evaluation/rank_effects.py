r"""Users as clicks show them by rank alone: for a judge that is told of none.

Clicks are taken for a product of effects: of the rank shown, and of the rank that each
of some rankings gives the document. Effects are fitted in turn, until at each rank k of
each ranking the clicks c are as many as expected of the impressions n:

.. math:: \sum_k c = \sum_k n \, e_{k_0} h_{k_1} h'_{k_2} \cdots

What the rankings explain is relevance, and most of the rest, e, is position bias: its
power 0.85, since rankings do not know all of relevance. So nothing is assumed of users
but that position bias is a factor, and an error of given or estimated users is not
shared. Its own error is another: where documents are clicked for their rank alone
(trust bias) it overrates what comes from below.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.evaluation.rank_weights import ranks_of
from affinerank.support.arrays import Floats

DEPTH = 30  # deeper ranks have one effect
ROUNDS = 60
POWER = 0.85  # of the effect that is taken for position bias


def rank_effects(rows: ClickRows, scores: Sequence[Floats]) -> TrustModel:
    """Estimate users who go by rank alone, up to gauge.

    Args:
        rows: The clicks.
        scores: ``[n_docs]`` of each ranking, by rankers that had not seen the query.
    """
    ranks = [rows.rank, *(ranks_of(own, rows)[rows.doc] for own in scores)]
    places = [np.minimum(each, DEPTH) - 1 for each in ranks]
    effects = np.ones((len(places), DEPTH))
    n = rows.impressions * (rows.clicks.sum() + 0.5) / (rows.impressions.sum() + 0.5)
    for _ in range(ROUNDS):
        for i, place in enumerate(places):
            fit = n.copy()
            for j, there in enumerate(places):
                fit *= effects[j, there] if j != i else 1.0
            clicks, rest = (np.bincount(place, v, DEPTH) for v in (rows.clicks, fit))
            effects[i] = (clicks + 0.5) / (rest + 0.5)  # half a click as expected
    alpha = effects[0, np.minimum(np.arange(rows.depth), DEPTH - 1)] ** POWER
    return TrustModel(alpha=alpha, beta=np.zeros(rows.depth), identified="relative")
