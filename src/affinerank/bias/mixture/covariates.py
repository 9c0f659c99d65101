"""What is known of a document's relevance before its own clicks.

Two numbers, from clicks that are not the document's own: the prediction of a ridge
regression on the features, fitted on the *other* half of the queries, and how much more
the other documents of its query were clicked than their features made expect. A
prediction fitted on the same clicks would mistake their noise for relevance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from affinerank.bias.mixture.levels import Levels
from affinerank.bias.mixture.population import MixtureDocuments
from affinerank.support.arrays import Floats, Ints, Matrix
from affinerank.support.errors import DataError
from affinerank.support.large_arrays import blocks, release

RELEVANCE_VARIANCE = 0.1
QUERY_VARIANCE = 0.02
PENALTIES = (0.003, 0.03, 0.3, 3.0)


class Covariates(NamedTuple):
    """Predictors of each document's relevance, ``[n_docs]`` each.

    Attributes:
        features: From its features and the length of its list; 0 without features.
        query: From the other documents of its query.
        correlation: Of ``features`` with corrected clicks, weighted by precision: 0
            means that the features predict nothing.
    """

    features: Floats
    query: Floats
    correlation: float = 0.0


def predict_relevance(
    population: MixtureDocuments, levels: Levels, features: Matrix | None
) -> Covariates:
    """Predict relevance from everything but the document's own clicks.

    Args:
        population: Clicks; each half of its queries is predicted from the other.
        levels: Click model that corrects them.
        features: ``[n, n_features]`` by number of the document.
    """
    label, precision = corrected_labels(population, levels)
    # From features, across the halves.
    predicted, correlation = np.zeros(population.n_docs), 0.0
    if features is not None:
        inputs = _inputs(population, features)
        predicted = _crossed_ridge(inputs, label, precision, population.half)
        each = np.cov(predicted, label, aweights=precision, ddof=0)
        spread = each[0, 0] * each[1, 1]
        correlation = float(each[0, 1] / np.sqrt(spread)) if spread > 0 else 0.0
    # From what features leave open of the query's other documents.
    query, rest = population.query, (label - predicted) * precision
    total = np.bincount(query, rest)[query] - rest
    known = np.bincount(query, precision)[query] - precision
    others = total / (known + 1 / QUERY_VARIANCE)
    return Covariates(predicted, others, correlation)


def corrected_labels(
    population: MixtureDocuments, levels: Levels
) -> tuple[Floats, Floats]:
    """Return the corrected click rate and its precision, ``[n_docs]`` each.

    Of a document's ranks each counts by its information per impression, alpha^2 /
    (p (1 - p)), p being the click rate of its cell.
    """
    doc, pool, n_docs = population.doc_of_row, population.pool, population.n_docs
    shares = np.exp(levels.log_shares(population))
    expected = (shares @ levels.levels)[population.cell][doc]
    alpha, minus = levels.alpha[pool], levels.zeta_minus[pool]
    rate = np.clip(alpha * expected + minus, 1e-9, 1 - 1e-9)
    known = alpha / (rate * (1 - rate))
    corrected = population.clicks - minus * population.impressions
    top = np.bincount(doc, known * corrected, n_docs)
    bottom = np.bincount(doc, known * alpha * population.impressions, n_docs)
    return top / bottom, 1.0 / (1.0 / bottom + RELEVANCE_VARIANCE)


def _inputs(
    population: MixtureDocuments, features: Matrix
) -> Callable[[slice], Matrix]:
    """Features, the log length of the list and its square, and a constant.

    Of the documents of a slice: all together would be the features once more.
    """
    log_length = np.log(np.bincount(population.query)[population.query])

    def part_of(part: slice) -> Matrix:
        values = features[population.doc[part]]
        release(features)
        if not np.all(np.isfinite(values)):
            raise DataError("features must be numbers; fill missing values first")
        length = log_length[part]
        more = np.stack([length, length**2, np.ones_like(length)], axis=1)
        return np.concatenate([values, more.astype(np.float32)], axis=1)

    return part_of


def _crossed_ridge(
    inputs: Callable[[slice], Matrix], label: Floats, precision: Floats, half: Ints
) -> Floats:
    """Predict each half by a regression on the other, its penalty included."""
    # Moments of each half, which add up over blocks.
    moments: list[list[Any]] = [[0.0] * 4, [0.0] * 4]
    for part in blocks(len(label)):
        values = inputs(part)
        for side in (0, 1):
            there = half[part] == side
            found = _moments(values[there], label[part][there], precision[part][there])
            moments[side] = [a + b for a, b in zip(moments[side], found, strict=True)]
    slopes = np.stack([_ridge(*moments[1]), _ridge(*moments[0])], axis=1)
    predicted = np.empty(len(label))
    for part in blocks(len(label)):
        both = inputs(part) @ slopes
        predicted[part] = np.where(half[part] == 0, both[:, 0], both[:, 1])
    return predicted


def _moments(
    inputs: Matrix, label: Floats, precision: Floats
) -> tuple[Floats, Floats, float, int]:
    """All that a weighted regression needs of its rows.

    Weighted products of the inputs ``[n_inputs, n_inputs]``, of inputs and label
    ``[n_inputs]`` and of the label, and the number of rows.
    """
    root = np.sqrt(precision).astype(np.float32)
    scaled, weighted = inputs * root[:, None], label.astype(np.float32) * root
    gram, moment = ((scaled.T @ by).astype(np.float64) for by in (scaled, weighted))
    return gram, moment, float(precision @ label**2), len(label)


def _ridge(gram: Floats, moment: Floats, total: float, n: int) -> Matrix:
    r"""Weighted ridge regression with the penalty of the best cross-validation.

    Generalised: :math:`\mathrm{RSS} / (1 - \mathrm{df} / n)^2`, from the eigenvalues of
    the moments, so nothing is fitted twice.
    """
    size, axes = np.linalg.eigh(gram)
    size, along = np.maximum(size, 0.0), axes.T @ moment
    unit = size.mean()
    best, chosen = np.inf, np.zeros(len(along))
    for penalty in PENALTIES:
        held = size + penalty * unit
        part, freedom = along / held, np.sum(size / held)
        rest = total - 2 * part @ along + part**2 @ size
        score = rest / max(1.0 - freedom / n, 1e-3) ** 2
        if score < best:
            best, chosen = score, axes @ part
    return chosen.astype(np.float32)
