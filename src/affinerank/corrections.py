r"""Corrections: the inverse of how users click.

Clicks are affine in relevance at every rank, so every correction is
:math:`(c - \beta) / \alpha` and differs only in its alpha and beta:

========== ============================================ ==========================
estimator  alpha                                        beta
========== ============================================ ==========================
naive      1                                            0
ips        :math:`\theta_k`                             0
bayes-ips  :math:`\theta_k (\epsilon^+_k + \epsilon^-_k) / \epsilon^+_k` 0
affine     :math:`\theta_k (\epsilon^+_k - \epsilon^-_k)` :math:`\theta_k \epsilon^-_k`
========== ============================================ ==========================

An estimator is a function of counts and a user model that returns a
:class:`Correction`, and a row in ``ESTIMATORS``. The weight of a document is its
corrected click per exposure, times its query's share of the sessions:

.. math::

    w_{qd} = \frac{\sum_k (\mathrm{clicks}_k - \beta_k \mathrm{exposure}_k) / \alpha_k}
                  {\sum_k \mathrm{exposure}_k}
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import JoinedCounts
from affinerank.clicks.usermodel import UserModel
from affinerank.data.dataset import RankingDataset
from affinerank.errors import AffineRankWarning, ConfigError, DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Estimator = Callable[[ClickCounts, UserModel], "Correction"]


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """Slope, intercept and exposure of each row of counts.

    Attributes:
        name: Of the estimator.
        alpha: ``[n_rows]`` never 0.
        beta: ``[n_rows]``.
        exposure: ``[n_rows]`` chances to be clicked: impressions, where the estimator
            goes by rank.
    """

    name: str
    alpha: Floats
    beta: Floats
    exposure: Floats

    def __post_init__(self) -> None:
        """Refuse a slope of 0; say what a negative one means."""
        if not len(self.alpha) == len(self.beta) == len(self.exposure):
            raise DataError("alpha, beta and exposure must have one value per row")
        shown = self.exposure > 0
        if not np.all(np.isfinite(self.alpha[shown]) & np.isfinite(self.beta[shown])):
            raise DataError(f"{self.name}: alpha and beta must be finite")
        zero = int(np.count_nonzero((self.alpha == 0) & shown))
        if zero:
            raise DataError(
                f"{self.name}: alpha is 0 for {zero} rows of counts, so their clicks "
                "say nothing about relevance: either the rank is never examined (theta "
                "= 0), or relevant and irrelevant documents are clicked alike there "
                "(eps+ = eps-); leave such ranks out"
            )
        negative = int(np.count_nonzero((self.alpha < 0) & shown))
        if negative:
            warnings.warn(
                f"{self.name}: alpha is below 0 for {negative} rows of counts: "
                "irrelevant documents are clicked more than relevant ones there, so a "
                "click counts against a document",
                AffineRankWarning,
                stacklevel=3,
            )

    def clipped(self, clip: str | float, n_sessions: int) -> Correction:
        """Raise positive slopes to at least ``clip``, trading bias for variance.

        Args:
            clip: A number, or ``"10/sqrt(n)"`` with n the number of sessions.
            n_sessions: The n of such a rule.
        """
        floor = parse_clip(clip, n_sessions)
        raised = np.where(self.alpha > 0, np.maximum(self.alpha, floor), self.alpha)
        return replace(self, alpha=raised)


def naive(counts: ClickCounts, users: UserModel | None = None) -> Correction:
    """Take clicks for relevance, as if nothing were biased."""
    del users
    rows = counts.impressions.astype(np.float64)
    return Correction("naive", np.ones_like(rows), np.zeros_like(rows), rows)


def propensity(counts: ClickCounts, rho: ArrayLike, *, name: str = "ips") -> Correction:
    """Weight clicks by the inverse of any propensity, ``rho [n_rows]``."""
    rows = counts.impressions.astype(np.float64)
    alpha = np.array(np.broadcast_to(np.asarray(rho, dtype=np.float64), rows.shape))
    return Correction(name, alpha, np.zeros_like(rows), rows)


def ips(counts: ClickCounts, users: UserModel) -> Correction:
    """Inverse propensity scoring: removes position bias, and only that."""
    theta, _, _ = _examination("ips", counts, users)
    return propensity(counts, theta, name="ips")


def bayes_ips(counts: ClickCounts, users: UserModel) -> Correction:
    """Agarwal et al.'s Bayes-IPS: clicks also weighted by P(relevant | click)."""
    theta, plus, minus = _examination("bayes-ips", counts, users)
    return propensity(counts, theta * (plus + minus) / plus, name="bayes-ips")


def affine(counts: ClickCounts, users: UserModel) -> Correction:
    """Remove position and trust bias: subtract beta, divide by alpha."""
    alpha, beta = users.at(counts.rank)
    return Correction("affine", alpha, beta, counts.impressions.astype(np.float64))


ESTIMATORS: Mapping[str, Estimator] = MappingProxyType(
    {"naive": naive, "ips": ips, "bayes-ips": bayes_ips, "affine": affine}
)


def parse_estimator(name: str) -> Estimator:
    """Return the estimator of this name, or an error that lists them."""
    if name not in ESTIMATORS:
        known = ", ".join(ESTIMATORS)
        raise ConfigError(
            f"there is no estimator {name!r}; known are {known}, and "
            "full-information, which learns from labels"
        )
    return ESTIMATORS[name]


def parse_clip(clip: str | float, n_sessions: int) -> float:
    """Read a clipping rule.

    >>> parse_clip("10/sqrt(n)", 10_000), parse_clip("0.05", 1)
    (0.1, 0.05)
    """
    match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(/\s*sqrt\(n\))?\s*", str(clip))
    try:
        value = float(match[1]) if match else float("nan")
    except ValueError:
        value = float("nan")
    if not value >= 0 or match is None:
        raise ConfigError(
            f"clip must be a number or a rule as in 10/sqrt(n), got {clip!r}"
        )
    return min(value / math.sqrt(n_sessions), 1.0) if match[2] else value


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """What a ranker learns from.

    Attributes:
        weight: ``[n_docs]`` corrected click per exposure; 0 where ``shown`` is false,
            which means nothing there.
        shown: ``[n_docs]`` whether users ever saw the document. One that they did not
            see has no weight, not the weight 0.
        share: ``[n_queries]`` share of the sessions.
    """

    weight: Floats
    shown: NDArray[np.bool_]
    share: Floats

    def per_session(self, data: RankingDataset) -> Floats:
        """``[n_docs]`` weights times the share of their query."""
        return self.weight * self.share[data.query_of_doc]


def document_weights(
    joined: JoinedCounts, correction: Correction, data: RankingDataset
) -> Weights:
    """Add up each document's corrected clicks, per exposure.

    ``correction`` must be of ``joined.counts``.
    """
    counts = joined.counts
    if len(correction.alpha) != len(joined.doc):
        raise DataError(
            f"the correction is of {len(correction.alpha)} rows of counts, and there "
            f"are {len(joined.doc)}; correct the joined counts"
        )
    # A row that nobody was exposed to has nothing to correct, whatever its alpha.
    corrected = np.divide(
        counts.clicks - correction.beta * correction.exposure,
        correction.alpha,
        out=np.zeros_like(correction.alpha),
        where=correction.exposure > 0,
    )
    total = np.bincount(joined.doc, corrected, minlength=data.n_docs)
    exposure = np.bincount(joined.doc, correction.exposure, minlength=data.n_docs)
    shown = exposure > 0
    weight = np.divide(total, exposure, out=np.zeros_like(total), where=shown)
    return Weights(weight, shown, _query_share(joined, data))


def estimate_metric(
    ranks: ArrayLike,
    joined: JoinedCounts,
    correction: Correction,
    data: RankingDataset,
    rank_weights: Callable[[Ints], Floats],
) -> float:
    r"""Estimate a ranking's value from clicks.

    .. math::

        \hat\Delta = \frac{1}{N} \sum_i \sum_{(d, k) \in y_i}
            \frac{c_i(d) - \beta_k}{\alpha_k} \lambda(d)
            = \sum_q \frac{N_q}{N} \sum_d w_{qd} \lambda(d)

    Args:
        ranks: ``[n_docs]`` rank that the ranking gives each document. Documents that
            were never shown do not count; a value that does not move with the gauge
            needs ranks among the shown ones.
        joined: Clicks that another ranking brought.
        correction: Of ``joined.counts``.
        data: The queries and documents.
        rank_weights: lambda: the metric's weight of each rank, as
            :func:`affinerank.metrics.discount` for DCG.
    """
    weights = document_weights(joined, correction, data)
    value = weights.per_session(data) * rank_weights(np.asarray(ranks, dtype=np.int64))
    return float(np.sum(value[weights.shown]))


def _examination(
    name: str, counts: ClickCounts, users: UserModel
) -> tuple[Floats, Floats, Floats]:
    """Theta, eps+ and eps- at each row's rank; says so where they are a convention."""
    if users.identified == "zeta":
        warnings.warn(
            f"{name}: the user model knows only click rates, so theta is taken to be "
            "zeta+, eps+ to be 1 and eps- to be zeta-/zeta+",
            AffineRankWarning,
            stacklevel=3,
        )
    parts = np.stack([users.theta, users.eps_plus, users.eps_minus])
    users.at(counts.rank)  # warns where ranks go deeper than the model
    theta, plus, minus = parts[:, np.minimum(counts.rank, users.depth) - 1]
    return theta, plus, minus


def _query_share(joined: JoinedCounts, data: RankingDataset) -> Floats:
    """Sessions of each query over those of all, told apart by ranker and the like."""
    counts = joined.counts
    query = data.query_of_doc[joined.doc]
    # Sessions stand in every row of a query: take each query (and ranker ...) once.
    key = query.copy()
    for name in counts.session_keys:
        if name != "query_id":
            encoded = counts.table[name].combine_chunks().dictionary_encode()
            key = key * len(encoded.dictionary) + np.asarray(encoded.indices)
    _, first = np.unique(key, return_index=True)
    sessions = np.bincount(
        query[first], counts.sessions[first], minlength=data.n_queries
    )
    return np.asarray(sessions / sessions.sum(), dtype=np.float64)
