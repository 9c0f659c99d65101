r"""Rank weights: what a metric gives each rank.

From corrected clicks a ranking's value can be estimated if it is linear in relevance,

.. math:: \sum_q \frac{N_q}{N} \sum_d \gamma_{qd} \, \lambda(\mathrm{rank}(d)),

with rank weights :math:`\lambda`: DCG, precision, or any other. nDCG, RR and ARP divide
by, or stop at, relevance that is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from affinerank.counts.rows import ClickRows
from affinerank.evaluation.metrics import Metric
from affinerank.support.arrays import Bools, Floats, Ints
from affinerank.support.errors import ConfigError
from affinerank.support.lists import discount, ranks_by_score

WHY_NOT = {
    "nDCG": "divides by the DCG of the ideal ranking",
    "RR": "stops at the first relevant document",
    "ARP": "divides by the relevance of all documents",
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
        """Return the weights of DCG or precision; reject others, with the reason.

        >>> RankWeights.of_metric(Metric("P", 2)).at(np.array([1, 2, 3])).tolist()
        [0.5, 0.5, 0.0]
        """
        if metric.name in WHY_NOT:
            raise ConfigError(
                f"{metric} cannot be estimated from clicks: it {WHY_NOT[metric.name]}, "
                "which clicks do not identify; use DCG or P, as in DCG@10, or give "
                "rank weights"
            )
        if metric.gain != "linear" or metric.empty == "1":
            raise ConfigError(
                f"{metric}: clicks identify the probability of relevance, so the gain "
                f"is linear and all queries count; use {metric.name} without settings"
            )
        if metric.name == "P" and metric.cutoff is None:
            raise ConfigError("P without a cutoff is the same for every ranking; P@5?")
        name, depth = str(metric), metric.cutoff or np.inf
        if metric.name == "P":
            return cls(name, lambda ranks: (ranks <= depth) / depth)
        return cls(name, lambda ranks: np.where(ranks <= depth, discount(ranks), 0.0))

    @classmethod
    def listed(cls, weights: Sequence[float]) -> RankWeights:
        """Return the weights of ranks 1, 2, ..., and 0 below.

        >>> RankWeights.listed([1.0, 0.25]).at(np.array([2, 1, 3])).tolist()
        [0.25, 1.0, 0.0]
        """
        values = np.array([*weights, 0.0], dtype=np.float64)
        text = ", ".join(f"{w:g}" for w in weights)
        if not np.all(np.isfinite(values) & (values >= 0)) or not values.any():
            raise ConfigError(
                "rank weights must be numbers of 0 or more, not all 0, got "
                f"{text or 'none'}"
            )
        name, last = f"rank weights {text}", len(values) - 1
        return cls(name, lambda ranks: values[np.minimum(ranks - 1, last)])


DCG_10 = RankWeights.of_metric(Metric("DCG", 10))


def parse_rank_weights(text: str) -> RankWeights:
    """Read ``1,0.5,0.25``."""
    try:
        return RankWeights.listed([float(part) for part in text.split(",")])
    except ValueError:
        raise ConfigError(
            f"rank weights are numbers as in 1,0.5,0.25, got {text!r}"
        ) from None


def ranked_weights(scores: ArrayLike, rows: ClickRows, weights: RankWeights) -> Floats:
    """``[n_docs]`` rank weights if the ranking orders all documents of a query."""
    return weights.at(ranks_of(scores, rows))


def logged_weights(rows: ClickRows, weights: RankWeights) -> Floats:
    """``[n_docs]`` mean rank weight of each document over its query's sessions.

    A document that was shown at several ranks has the mean over them; a session that
    did not show it gave it the weight 0.
    """
    share = rows.impressions / np.maximum(rows.sessions, 1.0)[rows.query]
    return rows.by_doc(share * weights.at(rows.rank))


def shown_weights(
    scores: ArrayLike,
    rows: ClickRows,
    weights: RankWeights,
    *,
    every: bool = False,
    lists: ClickRows | None = None,
) -> Floats:
    """``[n_docs]`` rank weights if the ranking orders the documents that were shown.

    Or every document. Its lists are as long as those of the log, or as ``lists``, so
    that the weights of a query add up to those of the log.
    """
    shown = (rows.by_doc(rows.impressions) > 0) | every
    ranks = ranks_of(np.where(shown, scores, -np.inf), rows)
    like = lists or rows
    depth = max(like.depth, int(ranks.max()))
    filled = np.zeros((rows.n_queries, depth))
    np.add.at(filled, (like.query, like.rank - 1), like.impressions)
    filled /= np.maximum(like.sessions, 1.0)[:, None]
    share = filled[rows.query_of_doc, ranks - 1]
    return np.where(shown, weights.at(ranks) * share, 0.0)


def over_logged(
    scores: ArrayLike,
    rows: ClickRows,
    weights: RankWeights,
    *,
    every: bool = False,
    lists: ClickRows | None = None,
) -> Floats:
    """``[n_docs]`` :func:`shown_weights` less :func:`logged_weights`, of ``lists``."""
    shown = shown_weights(scores, rows, weights, every=every, lists=lists)
    return shown - logged_weights(lists or rows, weights)


def centred(rank_weights: Floats, known: Bools, query: Ints) -> Floats:
    """Subtract each query's mean over its known documents, so that shifts cancel.

    Relevance that is known up to a shift then gives a value that is known. A difference
    of rankings of the same documents adds up to 0, and stays as it is.
    """
    total = np.bincount(query, np.where(known, rank_weights, 0.0))
    number = np.maximum(np.bincount(query, known), 1)
    return np.where(known, rank_weights - (total / number)[query], 0.0)


def ranks_of(scores: ArrayLike, rows: ClickRows) -> Ints:
    """``[n_docs]`` rank of each in its query; a query's documents follow each other."""
    offsets = np.searchsorted(rows.query_of_doc, np.arange(rows.n_queries + 1))
    return ranks_by_score(scores, offsets)
