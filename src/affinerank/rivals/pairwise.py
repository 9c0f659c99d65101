r"""Pairwise debiasing: ratios of clicked and unclicked by rank (Hu et al., 2019).

Over pairs of a clicked document i and an unclicked j of one session, with
:math:`L_{ij} = \log(1 + e^{-(s_i - s_j)})` and scores :math:`s = x w`:

.. math::

    t^+_k = \Bigl( \frac{\sum_{i \text{ at } k} L_{ij} / t^-_j}
                        {\sum_{i \text{ at } 1} L_{ij} / t^-_j} \Bigr)^{1/(1+p)}, \qquad
    t^-_k = \Bigl( \frac{\sum_{j \text{ at } k} L_{ij} / t^+_i}
                        {\sum_{j \text{ at } 1} L_{ij} / t^+_i} \Bigr)^{1/(1+p)}

in turns with w, which minimises :math:`\sum L_{ij} / (t^+_i t^-_j)`; p is 1. Counts
know no pairs: :math:`c_i (n_j - c_j) / N` of them are expected in N sessions. The users
found have :math:`t^+` as position bias.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from affinerank.bias.listwise import RIDGE, QueryLists, by_features, minimised
from affinerank.bias.method import Estimate, EstimationSettings
from affinerank.support.arrays import Floats, Ints
from affinerank.support.seeds import stage_rng

POWER = 0.5  # 1 / (1 + p)
ROUNDS = 20
LEAST = 1e-3  # ratio
PAIRS = 4_000_000  # at most: queries are drawn


class Pairs(NamedTuple):
    """Pairs of rows: one clicked, one not, so many times.

    Attributes:
        clicked: ``[n_pairs]`` row.
        other: ``[n_pairs]`` row.
        i: ``[n_pairs]`` rank of the clicked one, from 0.
        j: ``[n_pairs]`` rank of the other.
        number: ``[n_pairs]`` expected times.
    """

    clicked: Ints
    other: Ints
    i: Ints
    j: Ints
    number: Floats

    @classmethod
    def of(cls, lists: QueryLists, rng: np.random.Generator) -> Pairs:
        """Pair the rows of each query; of some queries, where pairs are too many."""
        rows, pairs = lists.rows, lists.size**2
        order = rng.permutation(len(pairs)) if pairs.sum() > PAIRS else slice(None)
        kept = np.zeros(len(pairs), dtype=bool)
        kept[order] = np.cumsum(pairs[order]) <= max(PAIRS, pairs.max())
        first, size = lists.first[kept], lists.size[kept]
        # Row i of each query against all of its rows.
        i = np.repeat(first - np.cumsum(size) + size, size) + np.arange(size.sum())
        times = size.repeat(size)
        clicked, start = i.repeat(times), np.repeat(first.repeat(size), times)
        began = np.repeat(np.cumsum(times) - times, times)
        other = start + np.arange(len(clicked)) - began
        n, c = rows.impressions, rows.clicks
        sessions = rows.sessions[rows.query[clicked]]
        number = c[clicked] * (n - c)[other] / sessions
        some = (number > 0) & (rows.doc[clicked] != rows.doc[other])
        clicked, other = clicked[some], other[some]
        i, j = rows.rank[clicked] - 1, rows.rank[other] - 1
        return cls(clicked, other, i, j, number[some])

    def ratios(self, scores: Floats, plus: Floats, minus: Floats) -> list[Floats]:
        """Return new ``t+`` and ``t-``, ``[depth]`` both, for scores ``[n_rows]``."""
        gap = scores[self.other] - scores[self.clicked]
        loss = self.number * np.logaddexp(0.0, gap)
        sums = [
            np.bincount(self.i, loss / minus[self.j], len(plus)),
            np.bincount(self.j, loss / plus[self.i], len(plus)),
        ]
        return [np.maximum(by / max(by[0], 1e-300), LEAST) ** POWER for by in sums]

    def learn(self, x: Floats, weight: Floats, start: Floats) -> Floats:
        """Return the w that minimises the loss, each pair times ``weight``."""

        def loss(w: Floats) -> tuple[float, Floats]:
            scores = x @ w
            gap = scores[self.other] - scores[self.clicked]
            down = weight / (1.0 + np.exp(-gap))
            slope = np.bincount(self.other, down, len(x))
            slope = slope - np.bincount(self.clicked, down, len(x))
            value = weight @ np.logaddexp(0.0, gap) + RIDGE / 2 * w @ w
            return float(value), slope @ x + RIDGE * w

        return minimised(loss, start)


def estimate(lists: QueryLists, settings: EstimationSettings) -> Estimate:
    """Let ratios and scores take turns."""
    pairs = Pairs.of(lists, stage_rng("estimation", settings.seed))
    plus = minus = np.ones(lists.rows.depth)
    w = np.zeros(lists.x.shape[1])
    for _round in range(ROUNDS):
        w = pairs.learn(lists.x, pairs.number / (plus[pairs.i] * minus[pairs.j]), w)
        before = plus
        plus, minus = pairs.ratios(lists.x @ w, plus, minus)
        if np.abs(plus - before).max() < LEAST:
            break
    found = lists.estimate(np.log(plus), "position bias only, by pairwise debiasing")
    click_model = replace(found.click_model, provenance={"t_minus": minus.tolist()})
    return replace(found, click_model=click_model)


ROW = by_features("pairwise-debiasing", "Pairwise debiasing", estimate)
