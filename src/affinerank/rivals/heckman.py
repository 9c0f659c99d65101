r"""Heckman's two steps for lists that end early (Ovaisi et al., 2020).

First a probit of which documents were shown, :math:`P = \Phi(x g)`, over those of
queries that were issued. Then least squares among the shown:

.. math::

    w_d = x_d b + r \lambda_d, \qquad \lambda_d = \frac{\phi(x_d g)}{\Phi(x_d g)}

Scores are :math:`x b`: what is left of a click rate without having been selected. Where
every document was shown there is nothing to correct, and the first step is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from affinerank.rankers.linear import (
    Solutions,
    fit_ridges,
    load_linear,
    require_ridge,
)
from affinerank.rankers.ranker import Fitted, RankerKind, Task, fit_of
from affinerank.rankers.targets import require_order
from affinerank.support.arrays import Bools, Floats, Matrix

ROUNDS = 50


@dataclass(frozen=True, slots=True)
class HeckmanSettings:
    """How the two steps are fitted.

    Attributes:
        ridge: Penalties of both steps, in documents that say 0. Validation chooses one,
            tried from the largest on; without it the middle one is taken.
        patience: With validation, stop after so many without gain; left out, after the
            first.
    """

    ridge: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0)
    patience: int | None = None

    def __post_init__(self) -> None:
        """Reject what cannot be fitted."""
        require_ridge(self, {"patience": 1})


@fit_of
def fit_heckman(task: Task) -> list[Fitted]:
    """Fit the two steps, one ranker after another; seeds make no difference."""
    return fit_ridges(task, _solutions)


def _solutions(
    task: Task, i: int, standard: Matrix, strengths: Iterable[float]
) -> Solutions:
    """Yield each strength, with coefficients and a constant."""
    x, shown = standard.astype(np.float64), task.targets.known[i]
    share = task.targets.of_documents(task.offsets)[i]
    weights = np.where(shown, task.targets.weights[i], 0.0).astype(np.float64)
    some = weights[(share > 0) & shown]
    require_order(i, some, some - some.mean())
    for ridge in strengths:
        yield ridge, two_steps(x, weights, share, shown, ridge)


def two_steps(
    x: Floats, weights: Floats, share: Floats, shown: Bools, ridge: float
) -> Floats:
    """Return coefficients b and a constant.

    Args:
        x: ``[n_docs, n_features]``.
        weights: ``[n_docs]``, of shown documents.
        share: ``[n_docs]`` what each counts; 0 for queries that were not issued.
        shown: ``[n_docs]``.
        ridge: Penalty of both steps.
    """
    issued, some = share > 0, (share > 0) & shown
    one = np.column_stack([x, np.ones(len(x))])
    columns = one[some]
    if not shown[issued].all():
        g = probit(one[issued], shown[issued], ridge)
        columns = np.column_stack([columns, mills(columns @ g)])
    held = np.full(columns.shape[1], 1e-9)
    held[: x.shape[1]] = ridge
    scaled = columns * share[some, None]
    square = columns.T @ scaled + np.diag(held)
    found = np.linalg.solve(square, scaled.T @ weights[some])
    return np.asarray(found[: x.shape[1] + 1], dtype=np.float64)


def probit(x: Floats, shown: Bools, ridge: float) -> Floats:
    """Fit P(shown) by Newton's method; the last column is constant and not held."""
    sign, held = np.where(shown, 1.0, -1.0), np.full(x.shape[1], ridge)
    held[-1] = 1e-9
    g = np.zeros(x.shape[1])
    for _ in range(ROUNDS):
        score = x @ g
        slope = sign * mills(sign * score)
        curve = slope * (slope + score)
        square = x.T @ (x * curve[:, None]) + np.diag(held)
        step = np.linalg.solve(square, x.T @ slope - held * g)
        g = g + step / max(1.0, np.abs(x @ step).max())
        if np.abs(step).max() < 1e-10:
            break
    return g


def mills(score: Floats) -> Floats:
    """Return the inverse Mills ratio, density over probability."""
    from scipy.special import log_ndtr

    log_density = -(score**2) / 2.0 - np.log(2.0 * np.pi) / 2.0
    return np.asarray(np.exp(log_density - log_ndtr(score)), dtype=np.float64)


ROW = RankerKind(
    "heckman", "Heckman selection", HeckmanSettings, fit_heckman, load_linear
)
