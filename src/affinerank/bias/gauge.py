r"""What clicks can tell, and how far an estimate is from the truth.

The click models :math:`(\alpha, \beta)` and :math:`(a \alpha, \beta + t \alpha)` give
the same clicks, with relevance rescaled and shifted alike for every document, which
leaves every ranking as it is. That freedom is the *gauge*. So estimates are compared
modulo gauge, and reported in one of two:

- for display, :math:`\alpha_1 = 1, \beta_1 = 0`: a corrected label is the click rate
  that the document would have at rank 1;
- for inference, :math:`\alpha` is 1 and :math:`\beta / \alpha` is 0 on average over
  impressions, because one rank alone, the first above all, is a weak reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from affinerank.clicks.models import ClickModel
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Floats
from affinerank.support.errors import DataError

Gauge = Callable[[TrustModel], TrustModel]


@dataclass(frozen=True, slots=True, eq=False)
class GaugeError:
    """How far an estimate is from the truth, modulo gauge.

    Attributes:
        error: The error that counts, E: 0 is perfect, 0.5 is useless.
        alpha: ``[depth]`` the estimate's slope in the gauge of the truth.
        beta: ``[depth]`` its intercept there.
        alpha_absolute: Mean over impressions of the slope's absolute error.
        beta_absolute: The same of the intercept.
        alpha_relative: Mean over impressions of the slope's error relative to the
            true slope.
        beta_relative: The same of the intercept; ``nan`` where a true one is 0.
    """

    error: float
    alpha: Floats
    beta: Floats
    alpha_absolute: float
    beta_absolute: float
    alpha_relative: float
    beta_relative: float


def click_model_error(
    estimate: TrustModel, truth: TrustModel, impressions: ArrayLike
) -> GaugeError:
    r"""Compare an estimate with the truth, in the units of the corrected label.

    .. math::

        E^2 = \min_{a > 0, t} \; \frac{1}{2} \sum_k w_k \sum_{\gamma \in \{0, 1\}}
            \Bigl( \frac{\alpha_k \gamma + \beta_k - \hat\beta_k}{\hat\alpha_k}
            - (a \gamma + t) \Bigr)^2 / a^2

    With :math:`u = 1/a` and :math:`v = t/a` the bracket is :math:`u x - v - \gamma`,
    so the best gauge is the line that least squares draws from the corrected label
    :math:`x` to relevance. It cannot be worse than a constant, hence :math:`E \le 1/2`.

    Args:
        estimate: What was estimated.
        truth: What is true.
        impressions: ``[depth]`` how often each rank was seen, from rank 1.

    >>> truth = TrustModel.from_zeta([0.9, 0.5], [0.5, 0.1])
    >>> same = TrustModel(alpha=[4.0, 4.0], beta=[0.9, 0.5], identified="relative")
    >>> round(click_model_error(same, truth, [1, 1]).error, 12)
    0.0
    """
    weight = _shares(impressions)
    ranks = np.arange(1, len(weight) + 1)
    slope, intercept = truth.at_ranks(ranks)
    guess, guessed = estimate.at_ranks(ranks)
    if np.any(guess[weight > 0] == 0):
        rank = int(ranks[(weight > 0) & (guess == 0)][0])
        raise DataError(f"rank {rank}: the estimated alpha is 0, so nothing to compare")
    guess = np.where(weight > 0, guess, 1.0)
    # The corrected labels of irrelevant and relevant documents, and the best line.
    label = np.stack([intercept - guessed, slope + intercept - guessed]) / guess
    centre = np.sum(label @ weight) / 2
    spread = np.sum((label - centre) ** 2 @ weight) / 2
    along = (label[1] - label[0]) @ weight / 4
    error = 0.5
    if along > 0:
        # u x - v = gamma: alpha^ gamma + beta^ with gamma measured in the truth's units
        u = along / spread
        error = np.sqrt(max(0.25 - along**2 / spread, 0.0))
        v = u * centre - 0.5
        guessed, guess = guessed + guess * v / u, guess / u
    off, off_beta = np.abs(guess - slope), np.abs(guessed - intercept)
    absolute = float(weight @ off), float(weight @ off_beta)
    pairs = (off, slope), (off_beta, intercept)
    relative = (_mean_ratio(top, np.abs(bottom), weight) for top, bottom in pairs)
    return GaugeError(float(error), guess, guessed, *absolute, *relative)


def error_by_row(found: ClickModel, truth: ClickModel, rows: ClickRows) -> GaugeError:
    """Compare over rows, where users go by more than the rank."""
    both = [model.at(rows) for model in (found, truth)]
    first, second = (
        TrustModel(alpha=a, beta=b, identified="relative") for a, b in both
    )
    return click_model_error(first, second, rows.impressions)


def display_gauge(click_model: TrustModel) -> TrustModel:
    """Return the same click model with alpha_1 = 1 and beta_1 = 0.

    >>> shown = display_gauge(TrustModel.from_zeta([0.9, 0.5], [0.5, 0.1]))
    >>> shown.alpha.round(12).tolist(), shown.beta.round(12).tolist()
    ([1.0, 1.0], [0.0, -0.4])
    """
    slope, intercept = click_model.alpha[0], click_model.beta[0]
    if slope == 0:
        raise DataError("rank 1: alpha is 0, so it cannot be the reference")
    return _in_gauge(click_model, 1.0 / slope, -intercept / slope)


def inference_gauge(click_model: TrustModel, impressions: ArrayLike) -> TrustModel:
    """Return it with mean alpha 1 and mean beta/alpha 0 over impressions by rank."""
    weight = _shares(impressions)
    alpha, beta = click_model.at_ranks(np.arange(1, len(weight) + 1))
    mean = float(weight @ alpha)
    if np.any(alpha[weight > 0] == 0) or mean == 0:
        raise DataError("alpha is 0 at a rank, or on average, so there is no gauge")
    return _in_gauge(click_model, 1.0 / mean, -_mean_ratio(beta, alpha, weight))


def _in_gauge(click_model: TrustModel, a: float, t: float) -> TrustModel:
    alpha, beta = a * click_model.alpha, click_model.beta + t * click_model.alpha
    span = click_model.span and (
        (click_model.span[0] - t) / a,
        (click_model.span[1] - t) / a,
    )
    return replace(
        click_model, alpha=alpha, beta=beta, identified="relative", span=span, _eps=None
    )


def _shares(impressions: ArrayLike) -> Floats:
    seen = np.asarray(impressions, dtype=np.float64)
    if seen.ndim != 1 or not np.all(seen >= 0) or not np.sum(seen) > 0:
        raise DataError("impressions must be one number per rank, 0 or more, not all 0")
    return np.asarray(seen / seen.sum(), dtype=np.float64)


def _mean_ratio(top: Floats, bottom: Floats, weight: Floats) -> float:
    """Mean of a ratio over ranks that were seen; ``nan`` where one divides by 0."""
    ratio = np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom != 0)
    return float(np.sum(weight * np.where(weight > 0, ratio, 0.0)))
