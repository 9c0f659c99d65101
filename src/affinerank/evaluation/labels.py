r"""Documents' corrected relevance, and how sure it is.

The clicks of a row of counts are binomial given its impressions, so the variance of a
document's weight is

.. math::

    \mathrm{Var}(w_{qd}) = \sum_k \frac{n_k p_k (1 - p_k)}{\alpha_k^2}
        \Big/ \Bigl(\sum_k n_k\Bigr)^2

with :math:`n` impressions and the click rate :math:`p`. Clicks of different documents
are taken as independent given relevance, as the click model has it: counts do not tell
what clicks of one session, or of one user, have in common beyond that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import JoinedCounts
from affinerank.corrections import Correction, document_weights
from affinerank.data.dataset import RankingDataset

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class DocumentLabels:
    """Each document's relevance, as clicks tell it.

    Attributes:
        relevance: ``[n_docs]`` corrected click per impression; 0 where never shown,
            which means nothing there.
        variance: ``[n_docs]`` of the relevance, by chance of clicking: unbiased, to be
            added up over documents; 0 for a document that nobody clicked.
        standard_error: ``[n_docs]`` for the single document: smoothed, never 0 for one
            that was shown.
        shown: ``[n_docs]`` whether users ever saw the document.
        impressions: ``[n_docs]``.
        clicks: ``[n_docs]``.
        share: ``[n_queries]`` share of the sessions.
    """

    relevance: Floats
    variance: Floats
    standard_error: Floats
    shown: NDArray[np.bool_]
    impressions: Floats
    clicks: Floats
    share: Floats

    def by_query(
        self,
        rank_weights: Floats,
        query: NDArray[np.int64],
        unknown: Floats | None = None,
    ) -> Floats:
        """``[n_queries]`` relevance times rank weights, added up.

        Args:
            rank_weights: ``[n_docs]``.
            query: ``[n_docs]`` number of each document's query.
            unknown: ``[n_docs]`` relevance of documents never shown; 0 where left out.
        """
        hidden = np.zeros_like(self.relevance) if unknown is None else unknown
        value = np.where(self.shown, self.relevance, hidden) * rank_weights
        added = np.bincount(query, value, minlength=len(self.share))
        return added.astype(np.float64)


def label_documents(
    joined: JoinedCounts, correction: Correction, data: RankingDataset
) -> DocumentLabels:
    """Correct each document's clicks; ``correction`` must be of ``joined.counts``."""
    counts, doc = joined.counts, joined.doc
    weights = document_weights(joined, correction, data)

    def total(values: NDArray[np.generic]) -> Floats:
        added = np.bincount(doc, values, minlength=data.n_docs)
        return added.astype(np.float64)

    used = correction.exposure > 0
    slope = np.where(used, correction.alpha, 1.0)
    exposure = np.where(weights.shown, total(correction.exposure), 1.0)
    variance, smoothed = (
        total(np.where(used, noise / slope**2, 0.0)) / exposure**2
        for noise in (click_variance(counts), smoothed_variance(counts))
    )
    return DocumentLabels(
        weights.weight,
        variance,
        np.sqrt(smoothed),
        weights.shown,
        total(counts.impressions),
        total(counts.clicks),
        weights.share,
    )


def click_variance(counts: ClickCounts) -> Floats:
    r"""``[n_rows]`` variance of each row's clicks given its impressions, unbiased.

    :math:`c (n - c) / (n - 1)`; for one impression, which does not tell, that of a
    document with the mean click rate of the rank.
    """
    shown, clicks = counts.impressions, counts.clicks
    rate = mean_click_rate(counts)
    sampled = clicks * (shown - clicks) / np.maximum(shown - 1.0, 1.0)
    return np.where(shown > 1, sampled, shown * rate * (1.0 - rate))


def smoothed_variance(counts: ClickCounts) -> Floats:
    r"""``[n_rows]`` the same, drawn to the rank's mean click rate by half a click.

    .. math::

        n \tilde p (1 - \tilde p), \qquad
        \tilde p = \frac{c + 1/2}{n + 1 / (2 \bar p_k)}
    """
    shown = counts.impressions
    rate = (counts.clicks + 0.5) / (shown + 0.5 / mean_click_rate(counts))
    return shown * rate * (1.0 - rate)


def mean_click_rate(counts: ClickCounts) -> Floats:
    """``[n_rows]`` clicks per impression at each row's rank.

    With half a click in one impression added, so that no rate is 0 or 1.
    """
    shown = np.bincount(counts.rank, counts.impressions)
    clicked = np.bincount(counts.rank, counts.clicks)
    return ((clicked + 0.5) / (shown + 1.0))[counts.rank]
