r"""What a metric gives each rank: the values that clicks can be asked for.

From corrected clicks a ranking's value is known if it is linear in relevance,

.. math:: \sum_q \frac{N_q}{N} \sum_d \gamma_{qd} \, \lambda(\mathrm{rank}(d)),

with rank weights :math:`\lambda`: DCG, precision, or any other. nDCG, RR and ARP divide
by, or stop at, relevance that nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from affinerank.clicks.join import JoinedCounts
from affinerank.data.dataset import RankingDataset
from affinerank.errors import ConfigError, DataError
from affinerank.metrics import Metric, discount, ranks_by_score

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WHY_NOT = {
    "nDCG": "divides by the DCG of the ideal ranking, which clicks do not tell",
    "RR": "asks for the first relevant document, which clicks do not tell",
    "ARP": "divides by the relevance of all documents, which clicks do not tell",
}


@dataclass(frozen=True, slots=True)
class RankWeights:
    """The weight lambda of each rank.

    Attributes:
        name: Of the metric.
        at: Weights, 0 or more, of ranks that count from 1.
    """

    name: str
    at: Callable[[Ints], Floats]

    @classmethod
    def of_metric(cls, metric: Metric) -> RankWeights:
        """The weights of DCG or precision; others are refused, with the reason.

        >>> RankWeights.of_metric(Metric("P", 2)).at(np.array([1, 2, 3])).tolist()
        [0.5, 0.5, 0.0]
        """
        if metric.name in WHY_NOT:
            raise ConfigError(
                f"{metric} cannot be estimated from clicks: it {WHY_NOT[metric.name]}; "
                "ask for DCG or P, as in DCG@10, or give rank weights"
            )
        if metric.gain != "linear" or metric.empty == "1":
            raise ConfigError(
                f"{metric}: clicks tell the probability of relevance, so the gain is "
                f"linear and all queries count; ask for {metric.name} without settings"
            )
        if metric.name == "P" and metric.cutoff is None:
            raise ConfigError("P without a cutoff is the same for every ranking; P@5?")
        depth = metric.cutoff or np.inf
        if metric.name == "P":
            return cls(str(metric), lambda ranks: (ranks <= depth) / depth)
        return cls(
            str(metric), lambda ranks: np.where(ranks <= depth, discount(ranks), 0.0)
        )

    @classmethod
    def listed(cls, weights: Sequence[float]) -> RankWeights:
        """The weights of ranks 1, 2, ..., and 0 below.

        >>> RankWeights.listed([1.0, 0.25]).at(np.array([2, 1, 3])).tolist()
        [0.25, 1.0, 0.0]
        """
        values = np.array([*weights, 0.0], dtype=np.float64)
        if not np.all(np.isfinite(values) & (values >= 0)) or not values.any():
            raise ConfigError(
                "rank weights must be numbers of 0 or more, not all 0, got "
                f"{', '.join(f'{w:g}' for w in weights) or 'none'}"
            )
        last = len(values) - 1
        name = f"rank weights {', '.join(f'{w:g}' for w in weights)}"
        return cls(name, lambda ranks: values[np.minimum(ranks - 1, last)])


def ranked_weights(
    scores: ArrayLike, data: RankingDataset, weights: RankWeights
) -> Floats:
    """``[n_docs]`` the rank weight that a ranking by ``scores`` gives each document."""
    return weights.at(ranks_by_score(scores, data.offsets))


def logged_weights(
    joined: JoinedCounts, sessions: Floats, data: RankingDataset, weights: RankWeights
) -> Floats:
    """``[n_docs]`` the mean rank weight of each document over its query's sessions.

    A document that was shown at several ranks has the mean over them; a session that
    did not show it gave it the weight 0.

    Args:
        joined: The counts.
        sessions: ``[n_queries]``.
        data: The queries and documents.
        weights: Of ranks.
    """
    counts = joined.counts
    total = np.bincount(
        joined.doc, counts.impressions * weights.at(counts.rank), minlength=data.n_docs
    )
    return total / np.maximum(sessions, 1.0)[data.query_of_doc]


def shown_weights(
    scores: ArrayLike,
    joined: JoinedCounts,
    sessions: Floats,
    data: RankingDataset,
    weights: RankWeights,
) -> Floats:
    """``[n_docs]`` rank weights if the ranking orders the documents that were shown.

    Its lists are as long as those of the log were, so that the weights of a query add
    up to those of the log; for the arguments see :func:`logged_weights`.
    """
    counts = joined.counts
    shown = np.bincount(joined.doc, counts.impressions, minlength=data.n_docs) > 0
    ranks = ranks_by_score(np.where(shown, scores, -np.inf), data.offsets)
    depth = int(max(counts.rank.max(), ranks.max()))
    filled = np.zeros((data.n_queries, depth))
    np.add.at(
        filled,
        (data.query_of_doc[joined.doc], counts.rank - 1),
        counts.impressions,
    )
    share = filled[data.query_of_doc, ranks - 1]
    share /= np.maximum(sessions, 1.0)[data.query_of_doc]
    return np.where(shown, weights.at(ranks) * share, 0.0)


def centred(rank_weights: Floats, shown: NDArray[np.bool_], query: Ints) -> Floats:
    """Take each query's mean over its shown documents off, so that shifts cancel.

    Relevance that is known up to a shift gives a value that is known then. A
    difference of rankings of the same documents adds up to 0, and stays as it is.
    """
    total = np.bincount(query, np.where(shown, rank_weights, 0.0))
    number = np.maximum(np.bincount(query, shown), 1)
    return np.where(shown, rank_weights - (total / number)[query], 0.0)


def parse_rank_weights(text: str) -> RankWeights:
    """Read ``1,0.5,0.25``."""
    try:
        return RankWeights.listed([float(part) for part in text.split(",")])
    except ValueError:
        raise ConfigError(
            f"rank weights are numbers as in 1,0.5,0.25, got {text!r}"
        ) from None


def never_shown_share(
    rank_weights: Floats, shown: NDArray[np.bool_], share: Floats, query: Ints
) -> float:
    """Share of a ranking's weight, over sessions, on documents that nobody saw."""
    carried = rank_weights * share[query]
    total = float(carried.sum())
    if total <= 0:
        raise DataError("the ranking gives no weight to any document of these queries")
    return float(carried[~shown].sum() / total)
