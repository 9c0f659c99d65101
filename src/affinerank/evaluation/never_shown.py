r"""Relevance of documents that were never shown, predicted for one ranking.

Clicks on the documents that were shown are explained by columns x, through the affine
link: :math:`m_d = \mathrm{sigmoid}(x_d \cdot w)`, clicked at the rate
:math:`\alpha_k m_d + \beta_k`. The columns are

- what a ranker of other queries expects, within its query and on average;
- the score and the rank that the judged ranker gives: what it moves up, it moves up for
  a reason;
- the rank shown; a document that was never shown may have had any of the ranks below
  the last, and counts as one at their (geometric) mean;
- the number of documents of the query: longer lists leave more of them out;
- what clicks say of the other documents of the query, over what was expected of them.

A sum :math:`\sum_d a_d m_d` over documents that were never shown is off for three
reasons, which are added up. Relevance varies around m from document to document, and
more alike within a query than between queries: with standard deviation
:math:`\sigma_d` and the correlation :math:`\rho_q` that clicks on the query leave open,

.. math::

    \sum_d a_d^2 \sigma_d^2
    + \sum_q \rho_q \sum_{d \ne e \in q} a_d a_e \sigma_d \sigma_e .

And w rests on these queries. They are dealt into groups, and w is fitted again without
each group g (a jackknife), which has the share :math:`p_g` of the sessions:

.. math:: \sum_g (1 - p_g) \Bigl( \sum_d a_d (m^{-g}_d - m_d) \Bigr)^2 .

Whole queries are left out, so clicks on a document, and documents of a query, need not
be independent. The rankers of other queries are not fitted again. And ranks that were
never shown are beyond those that w was fitted to: the square of what the sum would
change by, were all of them just below the last, is added, too.

All this rests on one assumption, which no click can test: with the same columns,
documents that were not shown are as relevant as those that were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators.affine import slopes_by_information
from affinerank.estimators.correction import corrected
from affinerank.estimators.estimator import CLICKS, Fold, Weights
from affinerank.estimators.prior import (
    Column,
    explain,
    log_rank,
    part_of,
    spread_around,
    stacked_prior,
    standard,
)
from affinerank.estimators.relevance_scale import RelevanceScale
from affinerank.estimators.shrinkage import shrink
from affinerank.evaluation.rank_weights import ranks_of
from affinerank.support.arrays import Bools, Floats, Ints

GROUPS = 20
AS_EXPECTED = 3.0  # documents as expected, added to those that tell of a query


@dataclass(frozen=True, slots=True, eq=False)
class Predicted:
    """Relevance of documents as the columns have it, in the gauge of the users.

    Attributes:
        relevance: ``[n_docs]``.
        deviation: ``[n_docs]`` standard deviation of relevance around that.
        alike: ``[n_queries]`` correlation within the query of what that leaves open.
        query: ``[n_docs]`` number of each document's query.
        group: ``[n_queries]`` number of each query's group.
        without: ``[n_groups, n_docs]`` relevance as the other groups have it.
        share: ``[n_groups]`` share of the sessions.
        near: ``[n_docs]`` relevance, had what was never shown been just below the last.
    """

    relevance: Floats
    deviation: Floats
    alike: Floats
    query: Ints
    group: Ints
    without: Sequence[Floats]
    share: Floats
    near: Floats

    def beyond(self, weight: Floats) -> float:
        """Return the part of ``error`` that comes of ranks beyond those shown."""
        return float(weight @ (self.near - self.relevance)) ** 2

    def error(self, weight: Floats) -> float:
        """Return the variance of the sum of ``weight [n_docs]`` times relevance."""
        each = weight * self.deviation
        whole = np.bincount(self.query, each, minlength=len(self.alike)) ** 2
        alone = np.bincount(self.query, each**2, minlength=len(self.alike))
        moved = [weight @ (other - self.relevance) for other in self.without]
        return float(
            np.sum(alone + self.alike * (whole - alone))
            + np.sum((1.0 - self.share) * np.square(moved))
            + self.beyond(weight)
        )


def can_predict(folds: Sequence[Fold]) -> bool:
    """Whether there were clicks enough to explain them by features."""
    return bool(folds) and all(CLICKS in fold.scores for fold in folds)


def out_of_fold(folds: Sequence[Fold], name: str, rows: ClickRows) -> Floats:
    """``[n_docs]`` score by the ranker of other queries; 0 where none learnt."""
    scores = np.zeros(rows.n_docs)
    for fold in folds:
        if name in fold.scores:
            docs = fold.docs(rows.query_of_doc)
            here = fold.predicts[rows.query_of_doc[docs]]
            scores[docs[here]] = fold.scores[name][here]
    return scores


def predict(
    rows: ClickRows,
    click_model: ClickModel,
    folds: Sequence[Fold],
    scores: Floats,
    *,
    groups: int = GROUPS,
) -> Predicted:
    """Predict the relevance of each document.

    Args:
        rows: Clicks on what was shown.
        click_model: How users click.
        folds: Rankers of other queries, that explain clicks.
        scores: ``[n_docs]`` of the ranker that is judged.
        groups: Of the jackknife; with 0, relevance alone is asked for, not its error.
    """
    link = RelevanceScale.of(click_model, rows)
    near = _columns(rows, folds, scores)
    columns = [*near, (_rank_shown(rows), -1)]
    m, alike = _expected(columns, link)
    group = np.cumsum(rows.sessions > 0) % max(groups, 1)
    without = [
        link.back(_expected(columns, part_of(link, group != g))[0])
        for g in range(groups)
    ]
    near_relevance = link.back(m)
    if groups:
        near_relevance = link.back(_expected([*near, (log_rank(rows), -1)], link)[0])
    return Predicted(
        link.back(m),
        link.span * np.sqrt(spread_around(m, link) * m * (1.0 - m)),
        alike,
        rows.query_of_doc,
        group,
        without,
        np.array([rows.share[group == g].sum() for g in range(groups)]),
        near_relevance,
    )


def _expected(columns: Sequence[Column], link: RelevanceScale) -> tuple[Floats, Floats]:
    """``[n_docs]`` relevance by all columns, and what is alike within queries."""
    shown = _shown(link.rows)
    others, alike = _others(link, explain(standard(columns, shown), link))
    return explain(standard([*columns, (others, 1)], shown), link), alike


def _columns(rows: ClickRows, folds: Sequence[Fold], scores: Floats) -> list[Column]:
    query, n_queries = rows.query_of_doc, rows.n_queries
    size = np.maximum(np.bincount(query, minlength=n_queries), 1)
    learnt = out_of_fold(folds, CLICKS, rows)
    by_clicks, evaluated = (
        (np.bincount(query, each, minlength=n_queries) / size)[query]
        for each in (learnt, scores)
    )
    return [
        (learnt - by_clicks, 1),
        (by_clicks, 1),
        (scores - evaluated, 1),
        (-np.log(ranks_of(scores, rows)), 1),
        (np.log(size)[query], 0),
    ]


def _rank_shown(rows: ClickRows) -> Floats:
    """``[n_docs]`` logarithm of the rank; its mean below the last if never shown."""
    query, last = rows.query_of_doc, np.zeros(rows.n_queries, dtype=np.int64)
    np.maximum.at(last, rows.query, rows.rank)
    size = np.maximum(np.bincount(query, minlength=rows.n_queries), last)
    upto = np.append(0.0, np.cumsum(np.log(np.arange(1, size.max() + 1))))
    mean = (upto[size] - upto[last]) / np.maximum(size - last, 1)
    return np.where(_shown(rows), log_rank(rows), np.maximum(mean[query], 0.0))


def _others(link: RelevanceScale, m: Floats) -> tuple[Floats, Floats]:
    """What clicks on the other documents of a query say of a document.

    Returns:
        ``[n_docs]`` how far they moved those, on average; and ``[n_queries]`` the
        correlation of documents of a query that is left when all of them are known.
    """
    rows = link.rows
    variance = spread_around(m, link) * m * (1.0 - m)
    relevance, _, own_click_share = shrink(link, m, variance)
    away = np.where(own_click_share > 0, relevance - m, 0.0)
    query, n_queries = rows.query_of_doc, rows.n_queries

    def added(values: Floats) -> Floats:
        return np.asarray(np.bincount(query, values, minlength=n_queries))

    unit = away / np.sqrt(variance)
    pairs = np.sum(added(unit) ** 2 - added(unit**2))
    possible = np.sum(added(own_click_share) ** 2 - added(own_click_share**2))
    alike = float(np.clip(pairs / max(possible, 1e-12), 0.0, 1.0))
    number = (own_click_share > 0).astype(np.float64)
    mean = (added(away)[query] - away) / (added(number)[query] - number + AS_EXPECTED)
    return mean, alike / (1.0 + alike * added(own_click_share))


def by_information(
    rows: ClickRows, click_model: ClickModel, folds: Sequence[Fold]
) -> Weights:
    r"""Correct clicks; of a document's rows, each counts by what it knows.

    :math:`h_k = n_k \alpha_k^2 / (p_k (1 - p_k))`, with the click rate p that rankers
    of other queries expect. Own clicks have no part in h, so that the weighted mean of
    a document's corrected rows is unbiased.
    """
    link, (alpha, beta) = RelevanceScale.of(click_model, rows), click_model.at(rows)
    rate = link.rate(stacked_prior(link, folds)[0])
    return corrected(rows, slopes_by_information(alpha, rate, rows), beta)


def _shown(rows: ClickRows) -> Bools:
    return rows.by_doc(rows.impressions) > 0
