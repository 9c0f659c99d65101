r"""Policy-aware: corrects by how a document is shown (Oosterhuis, de Rijke, 2020).

In its affine form, which removes trust bias too:

.. math::

    w_d = \frac{C_d / N_q - \bar\beta_d}{\bar\alpha_d}, \qquad
    \bar\alpha_d = \sum_k P_{dk} \, \alpha_k, \qquad
    \bar\beta_d = \sum_k P_{dk} \, \beta_k

with the document's clicks C, its query's sessions N, and the probability P that a
session shows it at rank k. Every document that may be shown has a weight, one that
never was as well: :math:`-\bar\beta_d / \bar\alpha_d`, which is right on average.

Counts have P where they were made with propensities or a named policy (column
``exposure``). Where P is not known, shares of the sessions that were shown take its
place, as they do for counts by segment or by clicks above:

.. math::

    w_d = \frac{C_d - \sum_k n_{dk} \beta_k}{\sum_k n_{dk} \alpha_k}

Rows are added up over rankers, so both are the same as intervention-aware: the two
differ where clicks of each ranker are corrected by themselves.
"""

from __future__ import annotations

import numpy as np

from affinerank.counts.rows import ClickRows, ExpectedExposure
from affinerank.estimators.correction import corrected
from affinerank.estimators.estimator import ClipOptions, Estimator, Evidence, Weights
from affinerank.support.errors import DataError


def weigh(evidence: Evidence) -> Weights:
    """Average alpha and beta over how the document is shown, then correct once."""
    rows, n = evidence.rows, evidence.rows.impressions
    if rows.exposure and not (rows.has_context or rows.segments):
        return _by_exposure(evidence, rows.exposure)
    # Average over the impressions that there were.
    shown, known = rows.by_doc(n)[rows.doc], evidence.required_click_model.at(rows)
    alpha, beta = (rows.by_doc(n * each)[rows.doc] / shown for each in known)
    return corrected(rows, evidence.options.clipped(alpha, rows), beta)


def _by_exposure(evidence: Evidence, exposure: ExpectedExposure) -> Weights:
    """Average over what a session of the query is expected to show.

    Where several rankers showed lists, their mean over sessions. The variance is that
    of clicks in N sessions, what is shown included; half a click is added, so that it
    is never 0.
    """
    rows = evidence.rows
    _require_possible(exposure, rows)
    depth = int(exposure.rank.max(initial=1))
    alpha, beta = evidence.required_click_model.at(ClickRows.of_ranks(depth))
    mean_alpha, mean_beta = (
        np.bincount(exposure.doc, exposure.chance * by[exposure.rank - 1], rows.n_docs)
        for by in (alpha, beta)
    )
    sessions = rows.sessions[rows.query_of_doc]
    known = (mean_alpha != 0) & (sessions > 0)
    slope = np.where(known, evidence.options.clipped(mean_alpha, rows), 1.0)
    n = np.where(known, sessions, 1.0)
    clicks = rows.by_doc(rows.clicks)
    weight = np.where(known, (clicks / n - mean_beta) / slope, 0.0)
    rate = (clicks + 0.5) / (n + 1.0)
    variance = np.where(known, rate * (1.0 - rate) / (n * slope**2), 0.0)
    return Weights(weight, known, rows.share, variance, (1.0 / (n * slope))[rows.doc])


def _require_possible(exposure: ExpectedExposure, rows: ClickRows) -> None:
    """Reject what was shown although the policy never shows it."""
    known, shown = (each.rank * rows.n_docs + each.doc for each in (exposure, rows))
    never = ~np.isin(shown, known)
    if never.any():
        doc, rank = rows.doc[never][0], rows.rank[never][0]
        where = f"document {doc} was shown at rank {rank}"
        raise DataError(f"{where}, where the policy never shows it")


ROW = Estimator("policy-aware", "Policy-aware", "relative", weigh, options=ClipOptions)
