"""What scores are worth to held-out queries: the DCG of weights, or clicks' likelihood.

Trees and linear models are told after each step whether it helped. Networks, of which
many are trained at once, have the same in torch
(:mod:`affinerank.rankers.networks.held_out`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from affinerank.rankers.likelihood import Clicks
from affinerank.rankers.targets import ClickTargets, Validation
from affinerank.support.arrays import Bools, Floats
from affinerank.support.lists import discount, ranks_by_score


def value_of_scores(validation: Validation, i: int) -> Callable[[Floats], float]:
    """Return a function from scores ``[n_docs]`` to their value for ranker ``i``.

    The value is the log-likelihood of held-out clicks per impression; or, of weights,
    the DCG over known documents, times how much each query counts.
    """
    targets, offsets = validation.targets, validation.offsets
    if isinstance(targets, ClickTargets):
        clicks = Clicks.of(targets, i)
        impressions = max(clicks.impressions.sum(), 1.0)

        def likelihood(scores: Floats) -> float:
            negative_log_likelihood, _ = clicks.surprise(scores)
            return float(-negative_log_likelihood / impressions)

        return likelihood

    known: Bools = targets.known[i]
    share = targets.of_documents(offsets)[i]
    gain = np.where(known, targets.weights[i] * share, 0.0)

    def dcg(scores: Floats) -> float:
        # Unknown documents go last: among the others they would count as worth 0.
        ranks = ranks_by_score(np.where(known, scores, -np.inf), offsets)
        return float(gain @ discount(ranks))

    return dcg
