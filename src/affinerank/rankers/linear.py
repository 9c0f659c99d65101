r"""The linear ranker, by ridge regression of clicks or of weights; its row.

A score is :math:`s = x w + b` of standardised features x. From clicks it minimises

.. math::

    -\sum_k c_k \log p_k + (n_k - c_k) \log(1 - p_k) + \frac{\lambda}{2} |w|^2, \qquad
    p_k = \alpha_k \, \mathrm{sigmoid}(s) + \beta_k

over documents clicked c times in n impressions at rank k, by L-BFGS. From weights it
minimises the squared error of differences from the query's mean, each query times its
share, by the normal equations. Of either, :math:`\lambda` is a percentage of the mean
curvature: of the diagonal of :math:`X' D X`, with D the expected curvature of each
document's likelihood at a relevance of 0.27, or the share of its query. So a strength
means the same for few clicks and many, and whatever the unit of weights. Neither needs
torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from affinerank.defaults import PRIOR
from affinerank.rankers.held_out import value_of_scores
from affinerank.rankers.likelihood import MIN_RATE, Clicks
from affinerank.rankers.ranker import Fitted, RankerKind, Task, fit_of
from affinerank.rankers.targets import ClickTargets, require_numbers, require_order
from affinerank.support.arrays import Floats, Ints, Matrix
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.large_arrays import empty_matrix, passed, release, taken
from affinerank.support.settings import require_at_least
from affinerank.support.text_files import read_json
from affinerank.support.threads import blas_threads_for

if TYPE_CHECKING:
    from affinerank.export.onnx import Graph

DOCS_AT_ONCE = 2**14  # multiplied in float32; their sums are added in float64
PRECISION = 1e-8  # of the loss: float32 cannot tell less
START = -1.0  # of the constant, in logits
NUMBERS = "model.json"
Solutions = Iterator[tuple[float, Floats]]


@dataclass(frozen=True, slots=True)
class LinearSettings:
    """How a linear model is fitted.

    Attributes:
        ridge: Strengths of the penalty, in percent of the mean curvature. Validation
            chooses one, tried from the strongest on; without it the middle one is
            taken, of six the third.
        steps: Most steps of L-BFGS for each strength, from clicks.
        patience: With validation, stop after so many strengths without gain; left out,
            after the first.
    """

    ridge: tuple[float, ...] = (30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
    steps: int = 60
    patience: int | None = None

    def __post_init__(self) -> None:
        """Reject what cannot be fitted."""
        require_ridge(self, {"steps": 1, "patience": 1})


def require_ridge(settings: Any, least: Mapping[str, int]) -> None:
    """Reject penalties that are not above 0, and what else is out of range."""
    if not settings.ridge or not all(0 < ridge < np.inf for ridge in settings.ridge):
        raise ConfigError(f"ridge must be numbers above 0, got {settings.ridge}")
    require_at_least(settings, least=least)


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """One coefficient for each mapped feature, and a constant."""

    coefficients: Floats
    constant: float

    def predict(self, features: Matrix) -> Floats:
        """Score documents from mapped features ``[n_docs, n_features]``."""
        scores = np.empty(len(features))
        for some in _blocks(len(features)):
            scores[some] = features[some].astype(np.float64) @ self.coefficients
        if not np.isfinite(scores).all():
            require_numbers(features, "a linear model")
        return scores + self.constant

    def files(self) -> Mapping[str, bytes]:
        """Return the numbers as a file."""
        numbers = {"constant": self.constant, "coefficients": [*self.coefficients]}
        return {NUMBERS: json.dumps(numbers, allow_nan=False).encode()}

    def about(self) -> dict[str, Any]:
        """Return nothing: the file says it all."""
        return {}

    def linear_terms(self) -> tuple[Floats, float]:
        """Return coefficients and constant, for engines that hold a linear model."""
        return self.coefficients, self.constant

    def add_to_onnx(self, graph: Graph, values: str) -> str:
        """Add a product and a sum."""
        column = self.coefficients[:, None].astype(np.float32)
        weights = graph.constant("coefficients", column)
        product = graph.add("MatMul", [values, weights], "product")
        constant = graph.constant("constant", np.float32(self.constant))
        return graph.add("Add", [product, constant], "sum")


def load_linear(folder: Path, about: dict[str, Any], n_features: int) -> LinearModel:
    """Read a linear model from a ranker's folder."""
    del about
    path = folder / NUMBERS
    found = read_json(path)
    try:
        numbers = [found["constant"], *found["coefficients"]]
    except (TypeError, LookupError):
        numbers = [None]
    if not all(type(number) in (int, float) for number in numbers):
        raise DataError(f"{path}: coefficients and constant must be finite numbers")
    if len(numbers) != 1 + n_features:
        raise DataError(
            f"{path}: has {len(numbers) - 1} coefficients, and the file beside it "
            f"names {n_features} features"
        )
    return LinearModel(np.array(numbers[1:], dtype=np.float64), float(numbers[0]))


@fit_of
def fit_linear(task: Task) -> list[Fitted]:
    """Fit linear models, one ranker after another; seeds make no difference."""
    clicks = isinstance(task.targets, ClickTargets)
    return fit_ridges(task, _explain if clicks else _regress)


def fit_ridges(task: Task, solve: Callable[..., Solutions]) -> list[Fitted]:
    """Fit each ranker by ``solve(task, i, standard, strengths)``.

    That yields each strength of the penalty with coefficients of standardised features
    and a constant.
    """
    standard, mean, inverse = _standardised(task.features)
    strengths = sorted(task.settings.ridge, reverse=True)
    if task.validation is None:
        strengths = [strengths[len(strengths) // 2]]
    fitted = []
    with blas_threads_for(len(task.features)):
        for i in range(len(task.seeds)):
            solutions = solve(task, i, standard, strengths)
            models = (
                (ridge, _in_units(solution, mean, inverse))
                for ridge, solution in solutions
            )
            fitted.append(_chosen_by(models, task, i))
            task.progress("fitting linear models", i + 1, len(task.seeds))
    return fitted


def _standardised(features: Matrix) -> tuple[Matrix, Floats, Floats]:
    """Standardise features, in float32, over all documents; reject missing values.

    Also return means, and 1 over standard deviations, 0 for constants.
    """
    require_numbers(features, "a linear model")
    # As float32, for a constant to be exactly its mean.
    mean = features.mean(axis=0, dtype=np.float64).astype(np.float32)
    square = np.zeros(len(mean))
    for some in _blocks(len(features)):
        away = features[some].astype(np.float64) - mean
        square += np.einsum("ij,ij->j", away, away)
    spread = np.sqrt(square / len(features))
    inverse = np.divide(1.0, spread, out=np.zeros(len(mean)), where=spread > 0)
    standard = empty_matrix(*features.shape)
    for some in passed(features):
        np.subtract(features[some], mean, out=standard[some], casting="same_kind")
        standard[some] *= inverse.astype(np.float32)
        release(standard)
    return standard, mean.astype(np.float64), inverse


def _in_units(at: Floats, mean: Floats, inverse: Floats) -> LinearModel:
    """Bring ``at``, coefficients and a constant, to the units of features."""
    coefficients = at[:-1] * inverse
    return LinearModel(coefficients, float(at[-1] - mean @ coefficients))


def _explain(
    task: Task, i: int, standard: Matrix, strengths: Iterable[float]
) -> Solutions:
    """Explain clicks, for each strength from the solution before it.

    L-BFGS moves in coordinates in which the curvature at the start is 1.
    """
    from scipy.optimize import minimize

    shown, own = Clicks.of(task.targets, i).of_shown()
    x = standard if len(shown) == len(standard) else taken(standard, shown)
    curve = own.curvature(np.full(len(x), START))
    square = np.zeros((x.shape[1],) * 2)
    for some in _blocks(len(x)):
        square += _square(x[some], curve[some])
    values, axes = np.linalg.eigh(square)

    def loss(moved: Floats, ridge: float, unit: Floats) -> tuple[float, Floats]:
        along = moved * unit
        w = axes @ along[:-1]
        value, slope = own.surprise((x @ w.astype(np.float32)) + along[-1])
        down = ridge * w
        for some in _blocks(len(x)):
            down += slope[some].astype(np.float32) @ x[some]
        value += ridge / 2.0 * float(w @ w)
        return value, np.append(down @ axes, slope.sum()) * unit

    along = np.append(np.zeros(len(values)), START)
    how = {"maxiter": task.settings.steps, "ftol": PRECISION}
    for strength, ridge in _ridges(square, strengths):
        unit = np.append(values + ridge, max(curve.sum(), MIN_RATE)) ** -0.5
        given = (along / unit, (ridge, unit))
        found = minimize(loss, *given, method="L-BFGS-B", jac=True, options=how)
        along = found.x * unit
        yield strength, np.append(axes @ along[:-1], along[-1])


def _square(x: Matrix, times: Floats) -> Matrix:
    """Return ``x' x`` with each document so many times."""
    scaled = x * np.sqrt(times).astype(np.float32)[:, None]
    return scaled.T @ scaled


def _ridges(square: Floats, tried: Iterable[float]) -> Iterator[tuple[float, float]]:
    """Yield each strength, and so many percent of the mean of the diagonal."""
    diagonal = np.diag(square)
    mean = diagonal.sum() / max(np.count_nonzero(diagonal), 1) or 1.0
    for strength in tried:
        yield strength, strength / 100.0 * mean


def _regress(
    task: Task, i: int, standard: Matrix, strengths: Iterable[float]
) -> Solutions:
    """Regress weights; the constant is their mean."""
    targets, offsets = task.targets, task.offsets
    share = targets.of_documents(offsets)[i]
    docs = np.flatnonzero(targets.known[i] & (share > 0))
    query = np.searchsorted(offsets, docs, side="right")
    _, start, size = np.unique(query, return_index=True, return_counts=True)
    weights, share = targets.weights[i][docs].astype(np.float64), share[docs]
    away = weights - (np.add.reduceat(weights, start) / size).repeat(size)
    require_order(i, weights, away)
    square = np.zeros((standard.shape[1],) * 2)
    moment = np.zeros(standard.shape[1])
    for lists in _runs(start):
        first, n = start[lists], size[lists]
        some = slice(first[0], first[-1] + n[-1])
        x = standard[docs[some]]
        x -= (np.add.reduceat(x, first - first[0]) / n[:, None]).repeat(n, axis=0)
        square += _square(x, share[some])
        moment += (share[some] * away[some]).astype(np.float32) @ x
    constant = np.average(weights, weights=share)
    for strength, ridge in _ridges(square, strengths):
        solved = np.linalg.solve(square + ridge * np.eye(len(square)), moment)
        yield strength, np.append(solved, constant)


def _chosen_by(
    models: Iterable[tuple[float, LinearModel]], task: Task, i: int
) -> Fitted:
    """Evaluate models as they are fitted; keep the best, or the only one."""
    validation = task.validation
    if validation is None:
        [(ridge, model)] = models
        return Fitted(model, None, None, {"ridge": ridge})
    value = value_of_scores(validation, i)
    tried: list[tuple[float, LinearModel]] = []
    trace: list[float] = []
    for ridge, model in models:
        tried.append((ridge, model))
        trace.append(value(model.predict(validation.features)))
        best = int(np.argmax(trace))
        if len(trace) - 1 - best >= (task.settings.patience or 1):
            break
    ridge, chosen = tried[best]
    report = {"ridge": ridge, "first_held_out": trace[0], "best_held_out": trace[best]}
    return Fitted(tried[-1][1], chosen, best + 1, report, trace)


def _blocks(n: int) -> Iterator[slice]:
    for start in range(0, n, DOCS_AT_ONCE):
        yield slice(start, start + DOCS_AT_ONCE)


def _runs(start: Ints) -> list[Ints]:
    """Cut lists that start at these documents into runs of about a block."""
    cuts = np.flatnonzero(np.diff(start // DOCS_AT_ONCE)) + 1
    return np.split(np.arange(len(start)), cuts)


ROW = RankerKind(
    "linear-model",
    "Linear model",
    LinearSettings,
    fit_linear,
    load_linear,
    explains_clicks=True,
    prior_rankers=PRIOR,
)
