r"""Which documents to swap, in how many sessions, until something is known.

A session of a query shows its list with two documents exchanged, of ranks k and l. What
m such sessions of each swap add to what is known is a sum over documents, so the least
number of sessions is found by an optimal design: shares p of the swaps are multiplied
by what one more session of each would take off the variance, again and again, and the
number of sessions is that at which the error wanted is reached.

With :math:`p_{dk} = \alpha_k \gamma_d + \beta_k`, relevance :math:`\gamma` as the log
estimates it, n impressions and :math:`h_{dk} = n_{dk} / (p_{dk} (1 - p_{dk}))`, the
variance is one of:

- of *alpha and beta* from rank 2 on, in the gauge of rank 1. The relevance of documents
  is not known, so what is known of :math:`(\alpha, \beta)` is, with :math:`g_{dk}` the
  gradient of :math:`p_{dk}`, 1 at beta of k and :math:`\gamma_d` at alpha of k,

  .. math::

      \sum_d \Big( \sum_k h_{dk} g_{dk} g_{dk}^T - u_d u_d^T / c_d \Big), \quad
      u_d = \sum_k h_{dk} \alpha_k g_{dk}, \quad c_d = \sum_k h_{dk} \alpha_k^2

  and the variance is the mean over ranks of that of :math:`\alpha_k`, in units of
  :math:`\alpha_k`;
- of *a difference of two rankings* with known users, by affine relevance whose ranks
  are weighed by information, :math:`a_k = \alpha_k / (p_k (1 - p_k))` per click at the
  rank's mean click rate:
  :math:`\sum_d b_d^2 \sum_k n_{dk} a_k^2 p_{dk} (1 - p_{dk}) / (\sum_k n_{dk} a_k
  \alpha_k)^2`, with b the share of the query's sessions times the difference of rank
  weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats, Ints

ROUNDS = 40
MOST = 1e9  # sessions
MIN_RATE = 0.02  # click rates nearer to 0 and 1 would promise too much
RIDGE = 1e-9

# From impressions [n_docs, depth] to the variance, and to what works out minus its
# slope by each of them.
Variance = Callable[[Floats], tuple[float, Callable[[], Floats]]]


@dataclass(frozen=True, eq=False)
class Board:
    """Documents where production shows them, and what is assumed of them.

    Attributes:
        doc: ``[n]`` number of the document in the rows.
        query: ``[n]``.
        rank: ``[n]`` where it is shown most, from 1 to the depth.
        relevance: ``[n]``.
        alpha: ``[depth]``.
        beta: ``[depth]``.
        impressions: ``[n, depth]`` so far.
        share: ``[n_queries]`` of the sessions.
    """

    doc: Ints
    query: Ints
    rank: Ints
    relevance: Floats
    alpha: Floats
    beta: Floats
    impressions: Floats
    share: Floats

    @cached_property
    def spread(self) -> Floats:
        """``[n, depth]`` variance of a click."""
        return _spread(self.relevance[:, None] * self.alpha + self.beta)

    @classmethod
    def of(
        cls, rows: ClickRows, alpha: Floats, beta: Floats, relevance: Floats
    ) -> Board:
        """Find the list of each query down to the depth of ``alpha``."""
        depth = len(alpha)
        near = rows.select(rows.rank <= depth)
        shown = np.zeros((rows.n_docs, depth))
        np.add.at(shown, (near.doc, near.rank - 1), near.impressions)
        docs = np.flatnonzero(shown.any(axis=1))
        rank, most = shown[docs].argmax(axis=1) + 1, shown[docs].max(axis=1)
        # One document at each rank of a query: the one shown there most.
        place = rows.query_of_doc[docs] * (depth + 1) + rank
        order = np.lexsort((-most, place))
        first = order[np.unique(place[order], return_index=True)[1]]
        doc = docs[first]
        own = doc, rows.query_of_doc[doc], rank[first], relevance[doc]
        return cls(*own, alpha, beta, shown[doc], rows.share)

    def swaps(self, *, adjacent: bool = False) -> tuple[Ints, Ints]:
        """Places on the board of the upper and the lower document of each swap."""
        order = np.lexsort((self.rank, self.query))
        pairs = []
        for apart in range(1, 2 if adjacent else len(self.alpha)):
            upper, lower = order[:-apart], order[apart:]
            same = self.query[upper] == self.query[lower]
            pairs.append(np.stack([upper[same], lower[same]]))
        upper, lower = np.concatenate(pairs, axis=1)
        return upper, lower

    def after(self, swaps: tuple[Ints, Ints], sessions: Floats) -> Floats:
        """Impressions after so many sessions of each swap."""
        upper, lower = swaps
        number = np.bincount(self.query[upper], sessions, len(self.share))
        found = self.impressions.copy()
        np.add.at(found, (np.arange(len(self.doc)), self.rank - 1), number[self.query])
        for one, other in ((upper, lower), (lower, upper)):
            np.subtract.at(found, (one, self.rank[one] - 1), sessions)
            np.add.at(found, (one, self.rank[other] - 1), sessions)
        return found

    def gain(self, swaps: tuple[Ints, Ints], slope: Floats) -> Floats:
        """What one more session of each swap takes off, given that by impression."""
        upper, lower = swaps
        own = slope[np.arange(len(self.doc)), self.rank - 1]
        lists = np.bincount(self.query, own, len(self.share))
        there = slope[upper, self.rank[lower] - 1] + slope[lower, self.rank[upper] - 1]
        return np.asarray(lists[self.query[upper]] - own[upper] - own[lower] + there)


def errors_of(board: Board, impressions: Floats) -> tuple[Floats, Floats]:
    """``[depth - 1]`` standard errors of alpha and of beta, from rank 2 on."""
    error = np.sqrt(np.diag(np.linalg.inv(_information(board, impressions)[0])))
    alpha, beta = np.split(error, 2)
    return alpha, beta


def of_users(board: Board) -> Variance:
    """Variance of alpha, in units of alpha, on average over ranks."""
    depth = len(board.alpha)
    wanted = 1.0 / board.alpha[1:] ** 2 / (depth - 1)

    def variance(impressions: Floats) -> tuple[float, Callable[[], Floats]]:
        known, mean = _information(board, impressions)
        inverse = np.linalg.inv(known)
        of_alpha = inverse[:, : depth - 1] * np.sqrt(wanted)

        def slope() -> Floats:
            # The gradient of the click rate at each rank, less what relevance explains.
            gradient = np.zeros((len(board.doc), depth, depth - 1))
            by_alpha, by_beta = of_alpha[: depth - 1], of_alpha[depth - 1 :]
            gradient[:, 1:] = board.relevance[:, None, None] * by_alpha + by_beta
            gradient -= board.alpha[:, None] * (mean @ of_alpha)[:, None]
            return np.asarray((gradient**2).sum(axis=2) / board.spread)

        return float(wanted @ np.diag(inverse)[: depth - 1]), slope

    return variance


def of_difference(board: Board, difference: Floats, rest: float = 0.0) -> Variance:
    """Variance of a difference, ``[n]`` per relevance; ``rest`` swaps cannot change."""
    there = board.rank - 1
    number = np.bincount(there, minlength=len(board.alpha))
    mean = np.bincount(there, board.relevance, len(number)) / np.maximum(number, 1)
    weight = board.alpha / _spread(mean * board.alpha + board.beta)  # of a click
    noise = weight**2 * board.spread

    def variance(impressions: Floats) -> tuple[float, Callable[[], Floats]]:
        known = np.maximum(impressions @ (weight * board.alpha), RIDGE)
        own = difference**2 / known**2
        total = own * (impressions * noise).sum(axis=1)

        def slope() -> Floats:
            less = 2.0 * (total / known)[:, None] * weight * board.alpha
            return np.asarray(less - own[:, None] * noise)

        return rest + float(total.sum()), slope

    return variance


def _spread(rate: Floats) -> Floats:
    """Return the variance of a click, at rates not too near to 0 and 1."""
    rate = np.clip(rate, MIN_RATE, 1.0 - MIN_RATE)
    return rate * (1.0 - rate)


def _information(board: Board, impressions: Floats) -> tuple[Floats, Floats]:
    """What is known of alpha and beta; and u / c of each document."""
    h = impressions / board.spread
    c = np.maximum((h * board.alpha**2).sum(axis=1), RIDGE)
    weight = (h * board.alpha)[:, 1:]
    u = np.concatenate([weight * board.relevance[:, None], weight], axis=1)
    square, cross, one = (np.diag(board.relevance**n @ h[:, 1:]) for n in (2, 1, 0))
    known = np.block([[square, cross], [cross, one]]) - u.T @ (u / c[:, None])
    return known + RIDGE * np.eye(len(known)), u / c[:, None]


class Design(NamedTuple):
    """Sessions of each swap.

    Attributes:
        swaps: Places of the upper and lower document on the board.
        sessions: ``[n_swaps]``.
        error: That they come to.
    """

    swaps: tuple[Ints, Ints]
    sessions: Floats
    error: float


def design(board: Board, variance: Variance, target: float) -> Design | None:
    """Return the fewest sessions that reach ``target``; ``None`` if none do."""
    swaps = board.swaps()
    if not len(swaps[0]):
        return None
    share = np.full(len(swaps[0]), 1.0 / len(swaps[0]))

    def shown(sessions: float) -> Floats:
        return board.after(swaps, share * sessions)

    total = needed(variance, shown, target)
    for _ in range(ROUNDS if total else 0):
        _, slope = variance(shown(total or 0.0))
        gain = np.maximum(board.gain(swaps, slope()), 0.0)
        share = share * gain / max(float(share @ gain), 1e-300)
        total = needed(variance, shown, target)
    if total is None:
        return None
    sessions = share * total
    # A swap of less than a session is none; the others are raised for it.
    sessions = np.where(sessions >= 0.5, sessions, 0.0)
    sessions = np.ceil(sessions * total / max(sessions.sum(), 1e-300))
    error, _ = variance(board.after(swaps, sessions))
    return Design(swaps, sessions, float(np.sqrt(error)))


def needed(
    variance: Variance, shown: Callable[[float], Floats], target: float
) -> float | None:
    """Return how many sessions reach ``target``, given impressions after so many."""

    def short(sessions: float) -> bool:
        return variance(shown(sessions))[0] > target**2

    low, high = 0.0, 1.0
    if not short(0.0):
        return 0.0
    while short(high):
        low, high = high, 4.0 * high
        if high > MOST:
            return None
    while high - low > max(0.5, 0.002 * high):
        middle = float(np.sqrt(max(low, 0.25) * high))
        low, high = (middle, high) if short(middle) else (low, middle)
    return high


def uniform(board: Board, lengths: Ints) -> Callable[[float], Floats]:
    """Impressions after so many sessions with adjacent swaps, as their policy draws.

    ``lengths [n_queries]`` are those of the lists; swaps below the depth change nothing
    here.
    """
    swaps = board.swaps(adjacent=True)
    query = board.query[swaps[0]]
    share = board.share[query] / np.maximum(lengths[query] - 1, 1)
    rest = board.share - np.bincount(query, share, len(board.share))
    own = np.zeros_like(board.impressions)
    own[np.arange(len(board.doc)), board.rank - 1] = rest[board.query]
    return lambda sessions: board.after(swaps, share * sessions) + sessions * own
