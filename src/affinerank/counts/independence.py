r"""Do the clicks on a document depend on the clicks above it?

Where users go by rank alone, the click rate of a document at a rank is the same after a
click above as after none, whatever its relevance. So within a stratum (document, rank)
with N impressions and C clicks, the clicks c among n impressions of one kind are
hypergeometric, and over strata

.. math::

    U = \sum \left(c - \frac{n C}{N}\right), \qquad
    V = \sum \frac{n (N - n) C (N - C)}{N^2 (N - 1)}, \qquad z = U / \sqrt V

(Cochran, Mantel and Haenszel). Ranks of a session do not disturb this: given the clicks
above, a rank has mean 0, so terms of different ranks are uncorrelated. Where queries
clearly differ by more than that, say because one user repeats them, the variance of U
is taken between queries: the sum of :math:`(U_q - V_q U / V)^2`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Bools, Floats, Ints, joint

LEVEL = 0.05
MIN_VARIANCE = 5.0  # of U: with less, z is not normal (Mantel and Fleiss)


@dataclass(frozen=True, slots=True)
class Contrast:
    """Clicks on some impressions against others of the same documents and ranks.

    Attributes:
        z: Standard normal where they are clicked alike.
        ratio: Click rate of the first over that of the others (Mantel and Haenszel);
            none where the others have no clicks.
        strata: Documents at ranks that have both.
        impressions: Of those strata.
    """

    z: float
    ratio: float | None
    strata: int
    impressions: int

    @property
    def p(self) -> float:
        """Probability of a z as far from 0 where they are clicked alike."""
        return 2 * float(stats.norm.sf(abs(self.z)))


@dataclass(frozen=True, slots=True)
class Independence:
    """Whether clicks depend on clicks above, by two contrasts.

    Attributes:
        statistic: Sum of their squared z.
        p: Probability of as much where users go by rank alone.
        above: Impressions after a click above against those after none; none where
            only lists with a click are there, since those without are missing.
        near: Of those after a click: last click right above against further up.
    """

    statistic: float
    p: float
    above: Contrast | None
    near: Contrast | None

    @property
    def found(self) -> bool:
        """Whether clicks depend on clicks above, at the level of 5 %."""
        return self.p < LEVEL


def independence_test(rows: ClickRows) -> Independence | None:
    """Test that users go by rank alone; ``None`` where rows cannot tell.

    That is without context, or if too few documents were clicked in both kinds of
    impressions. The two contrasts are uncorrelated: given which impressions follow a
    click and how many of those were clicked, the second has mean 0.
    """
    if not rows.has_context:
        return None
    after, above = rows.context > 0, None
    if sessions_without_click(rows) > 0:
        above = contrast(rows, after)
    below = rows.select(after)
    near = contrast(below, below.context == below.rank - 1)
    found = [each.z for each in (above, near) if each is not None]
    if not found:
        return None
    statistic = float(np.sum(np.square(found)))
    p = float(stats.chi2.sf(statistic, len(found)))
    return Independence(statistic, p, above, near)


def sessions_without_click(rows: ClickRows) -> int:
    """Sessions without any click: each of the others has one first click."""
    return rows.n_sessions - int(rows.clicks[rows.context == 0].sum())


def contrast(
    rows: ClickRows, exposed: Bools, stratum: Ints | None = None
) -> Contrast | None:
    """Compare the click rates of ``exposed`` rows with those of the others.

    ``None`` if too few clicks could fall to either.

    Args:
        rows: Clicks.
        exposed: ``[n_rows]`` which rows are compared with the others.
        stratum: ``[n_rows]`` compare within these too, besides document, rank and
            segment.
    """
    keys = [rows.doc, rows.rank, rows.segment, stratum]
    _, place = np.unique(
        joint(*(k for k in keys if k is not None)), return_inverse=True
    )
    at = place.reshape(-1)

    def total(values: Floats) -> Floats:
        return np.asarray(np.bincount(at, values)[at], dtype=np.float64)

    # Each row's share of U and V.
    n, clicks = total(rows.impressions), rows.clicks
    rate, share = total(clicks) / n, total(rows.impressions * exposed) / n
    away = exposed - share
    noise = rate * (1 - rate) * n / np.maximum(n - 1, 1)
    by_query = np.bincount(rows.query, away * clicks)
    spread = np.bincount(rows.query, rows.impressions * away**2 * noise)
    variance = float(spread.sum())
    if variance < MIN_VARIANCE:
        return None
    others = float(np.sum(clicks * share * ~exposed))
    ratio = float(np.sum(clicks * (1 - share) * exposed)) / others if others else None
    both = (share > 0) & (share < 1)
    return Contrast(
        _standardised(by_query, spread),
        ratio,
        len(np.unique(at[both])),
        int(rows.impressions[both].sum()),
    )


def _standardised(score: NDArray[Any], variance: NDArray[Any]) -> float:
    """Return z from the scores of queries and their variances ``[n_queries]``.

    Where they differ clearly more than their variances say, the variance is taken
    between queries, with Student's t for as many as weigh the same.
    """
    total, spread = float(score.sum()), float(variance.sum())
    z, freedom = total / np.sqrt(spread), spread**2 / np.sum(variance**2) - 1
    if freedom < 1:
        return float(z)
    between = np.sum((score - variance * total / spread) ** 2) * (1 + 1 / freedom)
    if between < spread * (1 + 2 * np.sqrt(2 / freedom)):
        return float(z)
    p = stats.t.sf(abs(total) / np.sqrt(between), freedom)
    return float(np.sign(total) * stats.norm.isf(max(p, 1e-300)))
