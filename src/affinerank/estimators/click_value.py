r"""Clicks with a value: what a document's relevance is worth.

A click on a document brings the value :math:`v_d` on average (a purchase, a dwell
time), whoever clicks and why: clicks from trust alone bring it, too. So the value at a
rank is the value per click times an affine function of relevance,

.. math:: E[s_k] = n_k v_d (\alpha_k \gamma_d + \beta_k),

and subtracting :math:`\beta_k` alone from the values s would leave the value of clicks
from trust. What relevance is worth, :math:`v_d \gamma_d`, is estimated by

.. math::

    \hat v_d \, w_d, \qquad \hat v_d = \frac{\sum_k s_k}{\sum_k c_k}, \qquad
    \widehat{\mathrm{Var}} = (\hat v_d^2 - \sigma_v^2) \sigma_w^2
        + w_d^2 \sigma_v^2,

with any estimator's relevance w of the clicks c alone. Given the clicks, the mean value
has the expectation :math:`v_d`, so that the product is as unbiased as w is; but for
documents without a click, whose value is taken for that of all clicks, v:

.. math::

    E[\hat v_d w_d] = v_d E[w_d] + P(c = 0) \, (v - v_d) \, E[w_d \mid c = 0].

Where trust brings no clicks, affine relevance without a click is 0, and so is that.
Values are in units of v. Relevance must have a zero: with users that are known up to
gauge, the least at which all click rates are probabilities.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from affinerank.clicks.models import ClickModel
from affinerank.counts.rows import ClickRows
from affinerank.estimators.estimator import Weights
from affinerank.estimators.relevance_scale import RelevanceScale
from affinerank.support.arrays import Floats


def valued(
    weights: Weights, rows: ClickRows, click_model: ClickModel | None
) -> Weights:
    """Multiply relevance by the value per click, where clicks have one.

    Args:
        weights: Relevance, by clicks.
        rows: The clicks, with their values.
        click_model: How users click, if the weights rest on them.
    """
    if rows.values is None:
        return weights
    low = RelevanceScale.of(click_model, rows).low if click_model is not None else 0.0
    relevance = np.where(weights.known, weights.weight - low, 0.0)
    mean = rows.values.mean / rows.values.unit
    chance = rows.values.variance / rows.values.unit**2
    of_clicks = np.maximum(mean**2 - chance, 0.0) * weights.variance
    return replace(
        weights,
        weight=mean * relevance,
        variance=of_clicks + relevance**2 * chance,
        slope=None if weights.slope is None else weights.slope * mean[rows.doc],
    )


def value_variance(weights: Weights, rows: ClickRows) -> Floats | float:
    """``[n_docs]`` variance of weights by that of values; 0 where there are none."""
    if rows.values is None:
        return 0.0
    mean = np.maximum(rows.values.mean, 1e-12)
    return np.asarray(weights.weight**2 * rows.values.variance / mean**2)
