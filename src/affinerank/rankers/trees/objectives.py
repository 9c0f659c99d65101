r"""What trees learn: LightGBM's own lambdarank, ours for any sign, or clicks.

LightGBM's own objective wants labels that are whole numbers of 0 and more; corrected
clicks are neither. In :class:`LambdaObjective` the loss of a list is that of LambdaRank
for DCG, with a gain linear in the weight:

.. math::

    \sum_{i, j: w_i > w_j} \Delta_{ij} \log(1 + e^{-(s_i - s_j)}), \qquad
    \Delta_{ij} = u (w_i - w_j)
    \left| \frac{1}{\log_2(r_i + 1)} - \frac{1}{\log_2(r_j + 1)} \right|

with :math:`r` the ranks that the scores give, :math:`u` how much the list counts, and
:math:`\Delta` held fixed. With :math:`\rho = 1 / (1 + e^{s_i - s_j})` a pair adds
:math:`-\Delta\rho` to the gradient of :math:`s_i`, :math:`+\Delta\rho` to that of
:math:`s_j`, and :math:`\Delta\rho(1 - \rho)` to the second derivative of both.

The loss of :class:`ClickObjective` is that of
:mod:`affinerank.rankers.likelihood`.

It is kept apart because numba takes half a second to import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from affinerank.rankers.likelihood import Clicks, mean_score
from affinerank.rankers.targets import ClickTargets, Targets, require_order
from affinerank.support.arrays import Bools, Floats, Ints
from affinerank.support.errors import DataError
from affinerank.support.lists import discount

MOST_BELOW = 0.1  # of estimates of relevance: sum of those below 0 to sum above
STEPS = 255  # of relevance, from 0 to the largest
# With gains linear in the label.
NATIVE = {
    "objective": "lambdarank",
    "label_gain": [i / STEPS for i in range(STEPS + 1)],
}
LONGEST = 10_000  # documents of a query that LightGBM's own objective takes

Derivatives = tuple[NDArray[np.float32], NDArray[np.float32]]  # first and second


@dataclass(frozen=True, slots=True, eq=False)
class LambdaObjective:
    """What LightGBM needs before each tree: first and second derivatives of the loss.

    Attributes:
        gains: ``[n_docs]`` weights times what their list counts, of any sign.
        offsets: ``[n_queries + 1]`` list boundaries; lists may be empty.
        truncation: A pair counts where one of its ranks is up to this.
    """

    gains: Floats
    offsets: Ints
    truncation: int = 30

    def __call__(self, scores: Floats, data: object = None) -> Derivatives:
        """Return gradient and second derivative of each score, ``[n_docs]`` both.

        ``data``, which LightGBM passes, adds nothing.
        """
        del data
        longest = int(np.diff(self.offsets).max(initial=0))
        worth = discount(np.arange(1, longest + 1))
        return _derivatives(scores, self.gains, self.offsets, worth, self.truncation)


@numba.njit(cache=True, nogil=True)
def _derivatives(
    scores: Floats, gains: Floats, offsets: Ints, discounts: Floats, truncation: int
) -> Derivatives:
    """Return the derivatives of every list, one list after another."""
    gradient = np.zeros(len(scores), dtype=np.float32)
    hessian = np.zeros(len(scores), dtype=np.float32)
    for q in range(len(offsets) - 1):
        start, end = offsets[q], offsets[q + 1]
        # Ties go to the earlier row, as in every metric.
        order = start + np.argsort(-scores[start:end], kind="mergesort")
        first, second = _pairs(scores[order], gains[order], discounts, truncation)
        gradient[order] = first
        hessian[order] = second
    return gradient, hessian


@numba.njit(cache=True, nogil=True)
def _pairs(
    s: Floats, g: Floats, discounts: Floats, truncation: int
) -> tuple[Floats, Floats]:
    """Derivatives of one list, whose documents are sorted by score."""
    first, second = np.zeros(len(s)), np.zeros(len(s))
    for i in range(min(len(s), truncation)):
        for j in range(i + 1, len(s)):
            higher = (g[i] - g[j]) * (discounts[i] - discounts[j])
            # The scores fall, so the exponential can only be too large: then rho is 0.
            low = 1.0 / (1.0 + np.exp(s[i] - s[j]))
            slope = higher * (low if higher > 0 else 1.0 - low)
            curve = abs(higher) * low * (1.0 - low)
            first[i] -= slope
            first[j] += slope
            second[i] += curve
            second[j] += curve
    return first, second


@dataclass(frozen=True, slots=True, eq=False)
class ClickObjective:
    """What LightGBM needs before each tree to explain clicks.

    Attributes:
        clicks: Of documents that were all shown.
        start: What the score is before the first tree; LightGBM's scores leave it out.
        scale: What both derivatives are multiplied by.
    """

    clicks: Clicks
    start: float = 0.0
    scale: float = 1.0

    def __call__(self, scores: Floats, data: object = None) -> Derivatives:
        """Return gradient and second derivative of each score, ``[n_docs]`` both.

        ``data``, which LightGBM passes, adds nothing.
        """
        del data
        now = self.start + scores
        first, second = self.clicks.surprise(now)[1], self.clicks.curvature(now)
        scaled = (self.scale * np.stack([first, second])).astype(np.float32)
        return scaled[0], scaled[1]

    def scaled(self) -> ClickObjective:
        """Scale so that second derivatives are 1/4 on average at the start.

        As in logistic regression from score 0: then the least sum of them in a leaf
        (LightGBM's 0.001) does not depend on the number of clicks.
        """
        _, second = self(np.zeros(self.clicks.doc.max(initial=-1) + 1))
        if not second.any():
            raise DataError("no document was shown where clicks tell of relevance")
        return replace(self, scale=0.25 / float(second.mean()))


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What one ranker learns, in LightGBM's terms.

    Attributes:
        known: ``[n_docs]`` documents that it learns from.
        params: Of LightGBM: the objective, and what it needs.
        fields: Label, group and weight of these documents, where the objective reads
            them.
        start: Score before the first tree.
    """

    known: Bools
    params: Mapping[str, Any]
    fields: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    start: float = 0.0


def lessons(
    targets: Targets | ClickTargets,
    offsets: Ints,
    truncation: int,
    *,
    native: bool | None,
    position: bool = False,
) -> Iterator[Lesson]:
    """Yield what each ranker learns.

    Weights are learnt by LightGBM's own objective where ``native``, by ours where not;
    where ``None``, that depends on the weights. With ``position``, ranks that documents
    were shown at are a field.
    """
    if isinstance(targets, ClickTargets):
        yield from _of_clicks(targets)
        return
    for i, share in enumerate(targets.of_queries(offsets)):
        known = targets.known[i]
        # Boundaries among the known: how many of them come before each.
        bounds = np.concatenate([[0], np.cumsum(known)])[offsets]
        weights, sizes = targets.weights[i, known], np.diff(bounds)
        noisy = bool(targets.noisy) and targets.noisy[i]
        if not noisy and _is_native(weights, sizes) if native is None else native:
            fields = _relevance(weights, sizes) | {"weight": share.repeat(sizes)}
            rank = targets.rank_of(i)[known].astype(np.int32)
            if position and not rank.any():
                raise DataError("no document was shown at a rank, so none has a bias")
            fields |= {"position": rank} if position else {}
            params = {**NATIVE, "lambdarank_truncation_level": truncation}
            yield Lesson(known, params, fields)
        else:
            gains = gains_in_units(targets, i, offsets)[known]
            ours = LambdaObjective(gains, bounds, truncation)
            yield Lesson(known, {"objective": ours})


def gains_in_units(targets: Targets, i: int, offsets: Ints) -> Floats:
    """Return weights times shares of ranker ``i``, in units of their spread.

    As networks have them (``scaled_tensors``), so that a
    step depends neither on the number of clicks nor on the gauge. 0 where not known.
    """
    query = np.arange(len(offsets) - 1).repeat(np.diff(offsets))
    known = targets.known[i]
    weights = np.where(known, targets.weights[i], 0.0).astype(np.float64)
    share = targets.of_documents(offsets)[i]

    # How far weights are from the mean of their query, over known documents.
    n_known = np.bincount(query, known, minlength=len(offsets) - 1)
    total = np.bincount(query, weights, minlength=len(offsets) - 1)
    mean = total / np.maximum(n_known, 1.0)
    away = np.where(known, weights - mean[query], 0.0)
    away *= share
    require_order(i, weights, away)
    spread = np.sqrt(np.sum(away**2) / max(known.sum(), 1))

    # Single precision, as of networks.
    in_units = (weights / spread).astype(np.float32) * share.astype(np.float32)
    return np.asarray(in_units, dtype=np.float64)


def _of_clicks(targets: ClickTargets) -> Iterator[Lesson]:
    """Yield what each ranker learns from clicks, from their mean relevance on."""
    for i, start in enumerate(mean_score(targets)):
        docs, clicks = Clicks.of(targets, i).of_shown()
        shown = np.zeros(targets.clicks.shape[1], dtype=bool)
        shown[docs] = True
        objective = ClickObjective(clicks, start).scaled()
        # Where clicks are fewer than at relevance 0, Newton's step would grow forever.
        params = {"objective": objective, "max_delta_step": 1.0}
        yield Lesson(shown, params, start=start)


def _is_native(weights: NDArray[np.floating], sizes: Ints) -> bool:
    """Tell whether weights look like relevance that LightGBM's own objective takes."""
    below, above = -np.minimum(weights, 0.0).sum(), np.maximum(weights, 0.0).sum()
    return bool(0 < above >= below / MOST_BELOW and sizes.max() <= LONGEST)


def _relevance(weights: NDArray[np.floating], sizes: Ints) -> dict[str, NDArray[Any]]:
    """Return labels and groups for LightGBM's own lambdarank."""
    if not weights.max() > 0 or sizes.max() > LONGEST:
        raise DataError(
            f"the native objective needs a weight above 0, got {weights.max()}, and "
            f"up to {LONGEST} documents a query, got {sizes.max()}; use any-sign"
        )
    label = np.maximum(weights, 0.0) * (STEPS / weights.max())
    return {"label": np.rint(label), "group": sizes[sizes > 0]}
