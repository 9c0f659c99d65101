"""What is known of a document's relevance before its own clicks.

Two numbers, from clicks that are not the document's own: the prediction of a ridge
regression on the features, fitted on the *other* half of the queries, and how much more
the other documents of its query were clicked than their features made expect. A
prediction fitted on the same clicks would mistake their noise for relevance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.cells import Population
from affinerank.bias.documents import Documents
from affinerank.bias.mixture import Levels
from affinerank.data.mapped import blocks, release
from affinerank.errors import DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RELEVANCE_VARIANCE = 0.1
QUERY_VARIANCE = 0.02
PENALTIES = (0.003, 0.03, 0.3, 3.0)


@dataclass(frozen=True, slots=True, eq=False)
class Covariates:
    """Predictors of each document's relevance, ``[n_docs]`` each.

    Attributes:
        features: From its features and the length of its list.
        query: From the other documents of its query.
        correlation: Of ``features`` with corrected clicks, weighted by what they tell:
            0 says that the features predict nothing.
    """

    features: Floats
    query: Floats
    correlation: float


def predict_relevance(
    population: Population,
    levels: Levels,
    features: NDArray[np.float32] | None,
    half: Ints,
    *,
    row_of_doc: Ints | None = None,
) -> Covariates:
    """Predict relevance from everything but the document's own clicks.

    Args:
        population: Clicks.
        levels: User model that corrects them.
        features: ``[n, n_features]``, or nothing to go by but the query.
        half: ``[n_docs]`` 0 or 1, the same for all documents of a query.
        row_of_doc: ``[n_docs]`` where the features of each document are; left out, they
            are in the same order.
    """
    rows = population.documents
    label, precision = corrected_labels(population, levels)
    predicted = np.zeros(rows.n_docs)
    correlation = 0.0
    if features is not None:
        at = np.arange(rows.n_docs) if row_of_doc is None else row_of_doc
        inputs = partial(_inputs, features, at, _log_length(rows))
        predicted = _crossed_ridge(inputs, label, precision, half)
        correlation = _correlation(predicted, label, precision)
    rest = (label - predicted) * precision
    size = rows.n_queries
    total = np.bincount(rows.query, rest, minlength=size)[rows.query] - rest
    known = np.bincount(rows.query, precision, minlength=size)[rows.query] - precision
    others = total / (known + 1 / QUERY_VARIANCE)
    return Covariates(predicted, others, correlation)


def corrected_labels(population: Population, levels: Levels) -> tuple[Floats, Floats]:
    """Corrected click rate and its precision, ``[n_docs]`` each.

    Of a document's ranks each counts by what it tells: alpha^2 / (p (1 - p)) an
    impression, p being the click rate of its cell.
    """
    rows, doc = population.documents, population.documents.doc_of_row
    shares = np.exp(levels.log_shares(population))
    expected = (shares @ levels.levels)[population.cell][doc]
    alpha, minus = levels.alpha[rows.pool], levels.zeta_minus[rows.pool]
    rate = np.clip(alpha * expected + minus, 1e-9, 1 - 1e-9)
    told = alpha / (rate * (1 - rate))
    corrected = rows.clicks - minus * rows.impressions
    top = np.bincount(doc, told * corrected, minlength=rows.n_docs)
    bottom = np.bincount(doc, told * alpha * rows.impressions, minlength=rows.n_docs)
    return top / bottom, 1.0 / (1.0 / bottom + RELEVANCE_VARIANCE)


def halves_of(query: Ints, rng: np.random.Generator) -> Ints:
    """``[n_queries]`` 0 or 1, as many of each as can be of the queries in ``query``."""
    seen = np.unique(query)
    half = np.zeros(int(query.max(initial=-1)) + 1, dtype=np.int64)
    half[seen] = rng.permutation(np.arange(len(seen)) % 2)
    return half


def _log_length(rows: Documents) -> Floats:
    """``[n_docs]`` log of the number of documents of the list."""
    return np.log(np.bincount(rows.query)[rows.query])


def _inputs(
    features: NDArray[np.float32], row_of_doc: Ints, log_length: Floats, part: slice
) -> NDArray[np.float32]:
    """Features, the length of the list and its square, and a constant.

    Of the documents of ``part`` alone: all together would be the features once more.
    """
    values = features[row_of_doc[part]]
    release(features)
    if not np.all(np.isfinite(values)):
        raise DataError("features must be numbers; fill missing values first")
    length = log_length[part]
    more = np.stack([length, length**2, np.ones_like(length)], axis=1)
    return np.concatenate([values, more.astype(np.float32)], axis=1)


def _crossed_ridge(
    inputs: Callable[[slice], NDArray[np.float32]],
    label: Floats,
    precision: Floats,
    half: Ints,
) -> Floats:
    """Predict each half by a regression on the other, its penalty included."""
    moments: list[Moments | None] = [None, None]
    for part in blocks(len(label)):
        values = inputs(part)
        for side in (0, 1):
            there = half[part] == side
            found = _moments(values[there], label[part][there], precision[part][there])
            before = moments[side]
            moments[side] = found if before is None else before + found
    slopes = np.stack([_ridge(m) for m in reversed(moments) if m is not None], axis=1)
    predicted = np.empty(len(label))
    for part in blocks(len(label)):
        both = inputs(part) @ slopes
        predicted[part] = np.where(half[part] == 0, both[:, 0], both[:, 1])
    return predicted


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """All that a weighted regression needs of its rows: they add up.

    Attributes:
        gram: ``[n_inputs, n_inputs]`` weighted products of the inputs.
        moment: ``[n_inputs]`` weighted products of inputs and label.
        total: Weighted square of the label.
        n: Number of rows.
    """

    gram: Floats
    moment: Floats
    total: float
    n: int

    def __add__(self, other: Moments) -> Moments:
        """Moments of the rows of both."""
        return Moments(
            self.gram + other.gram,
            self.moment + other.moment,
            self.total + other.total,
            self.n + other.n,
        )


def _moments(inputs: NDArray[np.float32], label: Floats, precision: Floats) -> Moments:
    root = np.sqrt(precision).astype(np.float32)
    scaled = inputs * root[:, None]
    return Moments(
        (scaled.T @ scaled).astype(np.float64),
        (scaled.T @ (label.astype(np.float32) * root)).astype(np.float64),
        float(precision @ label**2),
        len(label),
    )


def _ridge(rows: Moments) -> NDArray[np.float32]:
    r"""Weighted ridge regression with the penalty of the best cross-validation.

    Generalised: :math:`\mathrm{RSS} / (1 - \mathrm{df} / n)^2`, from the eigenvalues of
    the moments, so nothing is fitted twice.
    """
    size, axes = np.linalg.eigh(rows.gram)
    size, along = np.maximum(size, 0.0), axes.T @ rows.moment
    unit, total, n = size.mean(), rows.total, rows.n
    best, chosen = np.inf, np.zeros(len(along))
    for penalty in PENALTIES:
        part = along / (size + penalty * unit)
        rest = total - 2 * part @ along + part**2 @ size
        freedom = np.sum(size / (size + penalty * unit))
        score = rest / max(1.0 - freedom / n, 1e-3) ** 2
        if score < best:
            best, chosen = score, axes @ part
    return chosen.astype(np.float32)


def _correlation(first: Floats, second: Floats, weight: Floats) -> float:
    share = weight / weight.sum()
    x, y = first - share @ first, second - share @ second
    spread = (share @ x**2) * (share @ y**2)
    return float(share @ (x * y) / np.sqrt(spread)) if spread > 0 else 0.0
