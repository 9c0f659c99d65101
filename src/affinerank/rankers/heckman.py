r"""Heckman's two steps for lists that end early (Ovaisi et al., 2020).

First a probit of which documents were shown, :math:`P = \Phi(x g)`, over those of
queries that were issued. Then least squares among the shown:

.. math::

    w_d = x_d b + r \lambda_d, \qquad \lambda_d = \frac{\phi(x_d g)}{\Phi(x_d g)}

Scores are :math:`x b`: what is left of a click rate without having been selected. Where
every document was shown there is nothing to correct, and the first step is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from affinerank.arrays import Bools, Floats, Ints, Matrix
from affinerank.errors import ConfigError
from affinerank.progress import Progress, quiet
from affinerank.rankers.linear import Standard, chosen_by, load_linear, require_order
from affinerank.rankers.ranker import Fitted, RankerKind
from affinerank.rankers.targets import Targets, Validation, require_fit
from affinerank.settings import require_at_least

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
        if not self.ridge or not 0 < min(self.ridge) <= max(self.ridge) < np.inf:
            raise ConfigError(f"ridge must be numbers above 0, got {self.ridge}")
        require_at_least(self, least={"patience": 1})


def fit_heckman(
    features: Matrix,
    targets: Targets,
    offsets: Ints,
    *,
    seeds: Sequence[int],
    settings: HeckmanSettings,
    validation: Validation | None = None,
    checkpoint: Path | None = None,
    progress: Progress = quiet,
) -> list[Fitted]:
    """Fit the two steps, one ranker after another; seeds make no difference."""
    require_fit(targets, len(features), seeds, settings, validation)
    if checkpoint is not None:
        raise ConfigError("a linear model is fitted without a checkpoint; leave it out")
    scale = Standard.of(features)
    x = scale.apply(features).astype(np.float64)
    tried = sorted(settings.ridge, reverse=True)
    if validation is None:
        tried = [tried[len(tried) // 2]]
    fitted, shares = [], targets.of_queries(offsets)
    for i, by_query in enumerate(shares):
        share = by_query.repeat(np.diff(offsets))
        issued, shown = share > 0, targets.known[i]
        weights = np.where(shown, targets.weights[i], 0.0).astype(np.float64)
        some = issued & shown
        require_order(i, weights[some], weights[some] - weights[some].mean())
        steps = (
            (ridge, scale.model(two_steps(x, weights, share, shown, ridge)))
            for ridge in tried
        )
        fitted.append(chosen_by(steps, validation, i, settings.patience or 1))
        progress("fitting linear models", i + 1, len(seeds))
    return fitted


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
