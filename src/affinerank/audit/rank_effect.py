r"""Documents that change rank, and what they show of bias without an estimate.

The relevance of a document is the same at every rank it is shown at, so without bias
its click rate is too. :func:`rank_effect` draws the line of clicks against
:math:`x = \log_2 \mathrm{rank}` within documents, whose slope is 0 then:

.. math::

    b = \frac{\sum_{d, k} (x_k - \bar x_d)\, c_{dk}}
             {\sum_{d, k} n_{dk} (x_k - \bar x_d)^2}

How many sessions with swaps would show enough, :mod:`affinerank.bias.swap_design` says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from affinerank.bias.overlap import moved_rows
from affinerank.counts.rows import ClickRows

MIN_QUERIES = 20


@dataclass(frozen=True, slots=True)
class RankEffect:
    """How the clicks on one and the same document change with its rank.

    Attributes:
        slope: Change of its click rate when its rank doubles.
        error: Standard error, clustered by query.
        p: Probability of a slope as far from 0 without bias.
        rate: Click rate of these documents.
        n_docs: Documents that were shown at several ranks.
        n_queries: Their queries.
    """

    slope: float
    error: float
    p: float
    rate: float
    n_docs: int
    n_queries: int


def rank_effect(rows: ClickRows) -> RankEffect | None:
    """Compare documents with themselves at other ranks.

    ``None`` if too few moved, or all were clicked alike.
    """
    from scipy import stats

    moved = moved_rows(rows)
    n, clicks = moved.impressions, moved.clicks
    n_queries = len(np.unique(moved.query))
    clicked = float(clicks.sum() / max(n.sum(), 1.0))
    if n_queries < MIN_QUERIES or not 0 < clicked < 1:
        return None
    # The line within documents.
    seen = np.maximum(moved.by_doc(n), 1.0)
    place = np.log2(moved.rank)
    away = place - (moved.by_doc(n * place) / seen)[moved.doc]
    spread = float(np.sum(n * away**2))
    slope = float(np.sum(away * clicks)) / spread
    # Its standard error: residuals added up by query.
    rate = (moved.by_doc(clicks) / seen)[moved.doc]
    residual = clicks - n * (rate + slope * away)
    by_query = np.bincount(moved.query, away * residual)
    scale = n_queries / (n_queries - 1)
    error = float(np.sqrt(scale * np.sum(by_query**2))) / spread
    p = 2 * float(stats.t.sf(abs(slope) / max(error, 1e-300), n_queries - 1))
    return RankEffect(slope, error, p, clicked, len(np.unique(moved.doc)), n_queries)
