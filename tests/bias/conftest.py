"""Small click logs drawn from known users, for everything that estimates them."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.bias.logs import click_rows

from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats


@pytest.fixture
def draw_log() -> Callable[..., tuple[ClickRows, Floats]]:
    """Draw rows of counts, and the relevance of the documents behind them."""

    def draw(
        zeta_plus: Sequence[float],
        zeta_minus: Sequence[float],
        *,
        queries: int = 60,
        impressions: int = 30,
        levels: Sequence[float] = (0.0, 1.0),
        shares: Sequence[float] = (0.7, 0.3),
        swapped: bool = False,
        seed: int = 0,
    ) -> tuple[ClickRows, Floats]:
        """A document for each rank of each query, the upper ones more relevant.

        Where they are swapped, every document is shown as often at the next rank (the
        last one at the first).
        """
        rng = np.random.default_rng(seed)
        depth = len(zeta_plus)
        rank = np.tile(np.arange(1, depth + 1), queries)
        doc = np.arange(queries * depth)
        lean = np.power(np.asarray(shares), np.linspace(0.8, 1.2, depth)[:, None])
        upto = np.cumsum(lean / lean.sum(axis=1, keepdims=True), axis=1)[rank - 1]
        drawn = np.sum(rng.random(len(doc))[:, None] > upto[:, :-1], axis=1)
        relevance = np.asarray(levels)[drawn]
        if swapped:
            doc, rank = np.tile(doc, 2), np.concatenate([rank, rank % depth + 1])
        plus, minus = np.asarray(zeta_plus)[rank - 1], np.asarray(zeta_minus)[rank - 1]
        rate = minus + (plus - minus) * relevance[doc]
        seen = np.full(len(doc), impressions)
        clicks = rng.binomial(seen, rate)
        return click_rows(doc, doc // depth, rank, seen, clicks), relevance

    return draw
