"""What clicks must hold before users can be estimated from them."""

from __future__ import annotations

import numpy as np

from affinerank.bias.pooling import RankPools
from affinerank.counts.rows import ClickRows
from affinerank.support.errors import DataError

MIN_QUERIES = 10
MIN_DOCUMENTS = 200
# A mixture of two binomials is determined by three draws per document, not by fewer.
DRAWS = 3


def require_estimable(
    rows: ClickRows, pools: RankPools, what: str = "the counts"
) -> None:
    """Reject clicks that say nothing, or too little."""
    clicks = rows.clicks.sum()
    ranks, n_queries = np.unique(rows.rank), len(np.unique(rows.query))
    if clicks == 0:
        fault = f"{what} hold no clicks to estimate from"
    elif clicks == rows.impressions.sum():
        fault = "every impression was clicked, so clicks tell nothing apart"
    elif len(ranks) == 1:
        fault = f"all impressions are at rank {ranks[0]}, so there is no bias to find"
    elif pools.n_pools == 1:
        fault = (
            f"{clicks:,.0f} clicks are too few to tell ranks apart; collect more, "
            "require fewer per rank (estimate --min-clicks), or train without "
            "correction (train --estimator naive)"
        )
    elif n_queries < MIN_QUERIES:
        fault = (
            f"{what} are of {n_queries} queries; estimating how users click needs "
            f"{MIN_QUERIES} or more"
        )
    else:
        return
    raise DataError(fault)
