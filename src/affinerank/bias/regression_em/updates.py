r"""The step of regression EM that estimates how users click, on counts.

Given the probability of relevance :math:`\gamma` of each document, the click rates of
relevant and of irrelevant documents at rank k are updated by Bayes' law:

.. math::

    P(R=1 | C=1) = \frac{\zeta^+_k \gamma}{\zeta^+_k \gamma + \zeta^-_k (1 - \gamma)},
    \qquad P(R=1 | C=0) = \frac{(1 - \zeta^+_k) \gamma}
        {1 - \zeta^+_k \gamma - \zeta^-_k (1 - \gamma)}

.. math::

    \zeta^+_k = \frac{\sum c P(R=1 | C=1)}
        {\sum c P(R=1 | C=1) + (1 - c) P(R=1 | C=0)}

and likewise for :math:`\zeta^-_k` with :math:`R=0`. Sums are over impressions: a row of
counts weighs as much as it has of them. Position bias alone is the case
:math:`\zeta^-_k = 0`, which an update does not leave: a click that the parameters give
no probability is taken for one on a relevant document.

Parameters of many estimations and ranks lie in *cells*, one for each estimation and
rank. A cell without impressions keeps its values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from affinerank.bias.regression_em.run import EMSettings


@dataclass(frozen=True, slots=True, eq=False)
class CellRows:
    """Rows of counts on the device, sorted by cell.

    Attributes:
        cell: ``[n_rows]`` cell that each row is of, ascending.
        bounds: ``[n_cells + 1]`` where each cell's rows begin.
        doc: ``[n_rows]`` document that each row is about.
        impressions: ``[n_rows]`` float64, whole or weighted.
        clicks: ``[n_rows]`` float64, at most the impressions.
    """

    cell: Tensor
    bounds: Tensor
    doc: Tensor
    impressions: Tensor
    clicks: Tensor

    @classmethod
    def of(
        cls, cell: Tensor, doc: Tensor, impressions: Tensor, clicks: Tensor, cells: int
    ) -> CellRows:
        """Sort rows, of ``cells`` cells, some of which may have none."""
        order = torch.argsort(cell, stable=True)
        size = torch.bincount(cell, minlength=cells)
        bounds = torch.nn.functional.pad(torch.cumsum(size, dim=0), (1, 0))
        numbers = impressions[order].double(), clicks[order].double()
        return cls(cell[order], bounds, doc[order], *numbers)

    def only(self, taken: Tensor) -> CellRows:
        """Let the rows that are not ``taken [n_rows]`` count for nothing."""
        shown, clicks = self.impressions * taken, self.clicks * taken
        return replace(self, impressions=shown, clicks=clicks)

    def summed(self, values: Tensor) -> Tensor:
        """Add up ``values [n_rows]`` by cell."""
        return torch.segment_reduce(
            values, "sum", offsets=self.bounds, unsafe=True, initial=0.0
        )


def start_of(settings: EMSettings, cells: int) -> Tensor:
    """Return parameters to begin with, ``[2 or 3, cells]``.

    Of three, examination and eps+ share zeta+ evenly: an update would never leave an
    eps+ of 1.
    """
    plus, minus = settings.zeta_plus, settings.zeta_minus
    values = [plus, 0.0 if settings.parameters == "position" else minus]
    if settings.parameters == "three":
        values = [math.sqrt(plus), math.sqrt(plus), minus / math.sqrt(plus)]
    return torch.tensor(values, dtype=torch.float64)[:, None].repeat(1, cells)


def updated(parameters: Tensor, relevance: Tensor, rows: CellRows) -> Tensor:
    r"""Update parameters once; see the module for the formula of two.

    With Agarwal et al.'s three parameters examination is latent besides relevance:
    :math:`P(C=1) = \theta_k (\epsilon^+_k \gamma + \epsilon^-_k (1 - \gamma))`, and
    each parameter becomes the expected share of the impressions it is about, with

    .. math::

        P(E=1, R=1 | C=0) = \frac{\theta_k (1 - \epsilon^+_k) \gamma}{1 - P(C=1)},
        \qquad P(E=1, R=0 | C=0) =
            \frac{\theta_k (1 - \epsilon^-_k) (1 - \gamma)}{1 - P(C=1)}

    Two parameters are the case :math:`\theta_k = 1`, which stays.

    Args:
        parameters: ``[2 or 3, n_cells]`` zeta+ and zeta-, or theta, eps+ and eps-.
        relevance: ``[n_rows]`` probability that the row's document is relevant.
        rows: Counts.
    """
    *theta, plus, minus = parameters[:, rows.cell]
    examined = theta[0] if theta else 1.0
    relevant, irrelevant = plus * relevance, minus * (1.0 - relevance)
    given_click = _share(relevant, relevant + irrelevant, torch.ones_like(relevance))
    none = 1.0 - examined * (relevant + irrelevant)
    left, right = examined * (relevance - relevant), 1.0 - relevance - irrelevant
    skips = rows.impressions - rows.clicks
    skipped = rows.summed(skips * _share(left, none, relevance))
    passed = rows.summed(skips * _share(examined * right, none, 1.0 - relevance))
    clicks, clicked = rows.summed(rows.clicks), rows.summed(rows.clicks * given_click)
    others = clicks - clicked
    new = [
        _share(clicked, clicked + skipped, parameters[-2]),
        _share(others, others + passed, parameters[-1]),
    ]
    if theta:
        seen, shown = clicks + skipped + passed, rows.summed(rows.impressions)
        new.insert(0, _share(seen, shown, parameters[0]))
    return torch.stack(new).clamp(0.0, 1.0)


def mean_movement(before: Tensor, after: Tensor, clicks: Tensor) -> Tensor:
    """Return how far click rates moved, ``[n_runs]``: the mean over a run's clicks.

    Of the larger move, of zeta+ or of zeta-, at each click's rank. The largest move of
    all ranks would not do: those with a handful of clicks never rest while a network
    trains.

    Args:
        before: ``[2, n_runs, depth]`` zeta+ and zeta-.
        after: ``[2, n_runs, depth]``.
        clicks: ``[n_runs, depth]``.
    """
    moved = (after - before).abs().amax(dim=0)
    return (moved * clicks).sum(dim=1) / clicks.sum(dim=1)


def as_zeta(parameters: Tensor) -> Tensor:
    """Return click rates ``[2, n_cells]`` of two or of three parameters per cell."""
    if len(parameters) == 2:
        return parameters
    theta, plus, minus = parameters
    return torch.stack([theta * plus, theta * minus])


def _share(part: Tensor, whole: Tensor, otherwise: Tensor) -> Tensor:
    """``part / whole``, or what to take it for where the whole is 0."""
    there = whole > 0
    return torch.where(there, part / torch.where(there, whole, 1.0), otherwise)
