r"""Regression EM: how users click and a ranker, estimated together from clicks.

Two steps take turns (the paper's section 5.3):

- click rates :math:`\zeta^+_k, \zeta^-_k` are updated from the posterior relevance of
  what was clicked and what was not (:mod:`affinerank.bias.expectation`), with
  probabilities of relevance that the ranker's scores give
  (:mod:`affinerank.bias.relevance`);
- the ranker trains on the affine correction with :math:`\alpha_k = \zeta^+_k -
  \zeta^-_k` and :math:`\beta_k = \zeta^-_k`.

The second step minimises a ranking loss, not the likelihood, so the likelihood may
fall: it is traced, and the estimation ends when the parameters rest. Where it ends
depends on the activation, because clicks alone do not fix the scale of relevance.

Scoring all queries costs a third of an epoch. So an update rescores only part of them,
in turn, and takes the others as they were scored last; in the first epoch, when scores
change most, a larger part.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from affinerank.bias.em_runs import EMRun, EMSettings
from affinerank.bias.expectation import (
    UPDATES,
    Rows,
    as_zeta,
    log_likelihood,
    mean_movement,
)
from affinerank.bias.relevance import ACTIVATIONS
from affinerank.clicks.usermodel import UserModel
from affinerank.errors import AffineRankWarning, ConfigError, DataError
from affinerank.progress import Progress, quiet
from affinerank.rankers.losses import Lists
from affinerank.rankers.mlp import Networks, NetworkSettings, require_numbers
from affinerank.rankers.operations import views
from affinerank.rankers.segments import over_lists
from affinerank.rankers.training import NetworkTrainer

__all__ = ["EMRun", "EMSettings", "RegressionEM", "fit_regression_em"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CERTAIN = 1e-6  # no relevance is surer than this, so no click is impossible


@dataclass(frozen=True, slots=True, eq=False)
class RegressionEM:
    """A user model and a ranker, and how the estimation came to them.

    Attributes:
        users: Click rates by rank; where a rank had fallen at the end or had no
            impressions, those of the nearest rank that had not.
        networks: The ranker, a stack of one.
        zeta_plus: ``[updates + 1, depth]`` trace, the start first.
        zeta_minus: ``[updates + 1, depth]`` trace.
        log_likelihood: ``[updates]`` of the observed clicks, per impression that had
            a relevance.
        steps: ``[updates]`` training steps behind each update.
        left_out: ``[updates]`` queries whose relevance was 0/0.
        fallen: ``[updates]`` ranks left out of training.
        converged: Whether the parameters came to rest.
        fallen_ranks: Ranks that had fallen at the end.
    """

    users: UserModel
    networks: Networks
    zeta_plus: Floats
    zeta_minus: Floats
    log_likelihood: Floats
    steps: Ints
    left_out: Ints
    fallen: Ints
    converged: bool
    fallen_ranks: tuple[int, ...]

    @property
    def updates(self) -> int:
        """Number of updates until it converged or was stopped."""
        return len(self.steps)


def fit_regression_em(
    features: NDArray[np.float32],
    offsets: Ints,
    runs: Sequence[EMRun],
    *,
    settings: EMSettings | None = None,
    network: NetworkSettings | None = None,
    progress: Progress = quiet,
) -> list[RegressionEM]:
    """Estimate how users click from each run's clicks, all runs at once.

    A run's result does not depend on the others: one that has converged stays as it
    was then.

    Args:
        features: ``[n_docs, n_features]`` without missing values.
        offsets: ``[n_queries + 1]`` query boundaries.
        runs: Clicks, activation and seed of each estimation.
        settings: What is estimated, from where, and how often.
        network: Shape and training of the rankers; ``epochs`` is how long at most.
        progress: Told of each epoch.
    """
    require_numbers(features)
    _require_fitting(runs, len(features), len(offsets) - 1)
    asked, shape = settings or EMSettings(), network or NetworkSettings()
    stack = _Stack(features, offsets, runs, asked, shape)
    for epoch in range(shape.epochs):
        progress("estimating", epoch, shape.epochs)
        stack.epoch(epoch)
        if not stack.active.any():
            break
    progress("estimating", shape.epochs, shape.epochs)
    results = [stack.result(i) for i in range(len(runs))]
    _advise(results, asked)
    return results


class _Stack:
    """Estimations under way: parameters ``[2 or 3, n_runs * depth]`` and a trainer."""

    def __init__(
        self,
        features: NDArray[np.float32],
        offsets: Ints,
        runs: Sequence[EMRun],
        settings: EMSettings,
        network: NetworkSettings,
    ) -> None:
        self.runs = runs
        self.settings = settings
        seeds = [run.seed for run in runs]
        self.trainer = NetworkTrainer(features, offsets, seeds, network)
        device = self.trainer.device
        self.lists = Lists.of(np.diff(offsets), device)
        self.depth = max(int(run.rank.max()) for run in runs)
        self.rows = _stacked_rows(runs, len(features), self.depth, device)
        self.share = torch.from_numpy(np.stack([run.share for run in runs])).to(device)
        self.parameters = settings.start(len(runs) * self.depth).to(device)
        self.weights = torch.zeros(
            len(runs), len(features), dtype=torch.float64, device=device
        )
        self.shown = self._by_document(self.rows.impressions) > 0
        shape = (len(runs), self.depth)
        # Ranks that had a relevance: only where lists are 0/0 do others have clicks.
        self.learnt = torch.zeros(shape, dtype=torch.bool, device=device)
        self.clicked = self.rows.summed(self.rows.clicks).view(shape)
        self.trained = self.shown
        self.scores: Tensor | None = None
        self.parts = _cut(offsets, settings.rescored)
        self.first_parts = _cut(offsets, settings.rescored_first)
        self.epoch_steps = -(-(len(offsets) - 1) // network.batch_queries)
        self.active = np.ones(len(runs), dtype=bool)
        self.kept = self.trainer.flat.clone()
        self.updates = np.zeros(len(runs), dtype=np.int64)
        self.trace: list[_Note] = []
        self._set_targets()

    @property
    def zeta(self) -> Tensor:
        """Click rates ``[2, n_runs, depth]``."""
        return as_zeta(self.parameters).view(2, len(self.runs), self.depth)

    def epoch(self, number: int) -> None:
        """Train over all queries, update in between, and see which runs rest."""
        due = _due(number, self.epoch_steps, self.settings)
        before = self.zeta

        def after_step(step: int) -> None:
            if step in due:
                self.update()

        self.trainer.epoch(number, after_step)
        moved = mean_movement(before, self.zeta, self.clicked).cpu().numpy()
        chosen = torch.from_numpy(self.active).to(self.kept.device)[:, None]
        self.kept = torch.where(chosen, self.trainer.flat, self.kept)
        if due:
            self.active &= moved > self.settings.tolerance

    def update(self) -> None:
        """Update the parameters, then the weights; of runs that rest, for nothing."""
        relevance = self._relevance(self._rescored())
        lost = (self.shown & relevance.isnan()).to(relevance.dtype)
        by_row = relevance.flatten()[self.rows.doc].double()
        rows = self.rows.only(~by_row.isnan())
        by_row = by_row.nan_to_num(0.5).clamp(CERTAIN, 1.0 - CERTAIN)
        for _ in range(self.settings.iterations):
            step = UPDATES[self.settings.parameters]
            self.parameters = step(self.parameters, by_row, rows)
        self.updates += self.active
        likelihood = log_likelihood(as_zeta(self.parameters), by_row, rows)
        left_out = over_lists(lost, self.lists, "max").sum(dim=1)
        counted = rows.summed(rows.impressions)
        self.learnt |= (counted > 0).view(self.learnt.shape)
        self._note(likelihood, counted, left_out)
        self._set_targets()

    def result(self, i: int) -> RegressionEM:
        """What was estimated from run ``i``."""
        depth = int(self.runs[i].rank.max())
        notes = self.trace[: self.updates[i]]
        start = as_zeta(self.settings.start(depth))
        zeta = torch.stack([start, *(n.zeta[:, i, :depth].cpu() for n in notes)])
        fallen = _fallen(zeta[-1], self.settings.fallen).numpy()
        converged = not bool(self.active[i])
        return RegressionEM(
            users=self._users(i, zeta[-1].numpy(), fallen, converged),
            networks=self._network(i),
            zeta_plus=zeta[:, 0].numpy(),
            zeta_minus=zeta[:, 1].numpy(),
            log_likelihood=np.array([float(n.log_likelihood[i]) for n in notes]),
            steps=np.array([n.steps for n in notes], dtype=np.int64),
            left_out=np.array([int(n.left_out[i]) for n in notes], dtype=np.int64),
            fallen=np.array([int(n.fallen[i]) for n in notes], dtype=np.int64),
            converged=converged,
            fallen_ranks=tuple((np.flatnonzero(fallen) + 1).tolist()),
        )

    def _rescored(self) -> Tensor:
        """Scores, the next part of the queries' anew; at the first update, of all."""
        if self.scores is None:
            self.scores = self.trainer.scores(0, self.shown.shape[1])
        else:
            young = self.trainer.steps <= self.epoch_steps
            parts = self.first_parts if young else self.parts
            part = len(self.trace) % (len(parts) - 1)
            first, last = parts[part : part + 2]
            self.scores[:, first:last] = self.trainer.scores(first, last)
        return self.scores

    def _relevance(self, scores: Tensor) -> Tensor:
        """Probabilities of relevance ``[n_runs, n_docs]``, by each run's activation."""
        relevance = torch.empty_like(scores)
        for name in sorted({run.activation for run in self.runs}):
            mine = [i for i, run in enumerate(self.runs) if run.activation == name]
            activate = ACTIVATIONS[name]
            relevance[mine] = activate(scores[mine], self.shown[mine], self.lists)
        return relevance

    def _set_targets(self) -> None:
        r"""Train on :math:`\sum_k (c_k - \beta_k n_k) / \alpha_k / \sum_k n_k`.

        Impressions at ranks that have fallen do not count. A run whose other ranks
        leave no order to learn keeps the weights that it had.
        """
        rows, zeta = self.rows, as_zeta(self.parameters)
        usable = ~_fallen(zeta, self.settings.fallen)
        alpha = torch.where(usable, zeta[0] - zeta[1], 1.0)
        corrected = rows.clicks - zeta[1, rows.cell] * rows.impressions
        corrected = corrected / alpha[rows.cell] * usable[rows.cell]
        exposure = self._by_document(rows.impressions * usable[rows.cell])
        trained = exposure > 0
        weights = self._by_document(corrected) / torch.where(trained, exposure, 1.0)
        possible = _ordered(weights, trained, self.lists)
        self.weights = torch.where(possible, weights, self.weights)
        self.trained = torch.where(possible, trained, self.trained)
        self.trainer.set_target_tensors(self.weights, self.trained, self.share)

    def _by_document(self, values: Tensor) -> Tensor:
        """Add up ``values [n_rows]`` by run and document, ``[n_runs, n_docs]``."""
        total = torch.zeros_like(self.weights)
        total.view(-1).index_add_(0, self.rows.doc, values)
        return total

    def _note(self, likelihood: Tensor, counted: Tensor, left_out: Tensor) -> None:
        """Trace an update, from each cell's likelihood and impressions."""
        shape = (len(self.runs), self.depth)
        per_impression = likelihood.view(shape).sum(1) / counted.view(shape).sum(1)
        fallen = _fallen(self.zeta, self.settings.fallen).sum(dim=1)
        self.trace.append(
            _Note(self.trainer.steps, self.zeta, per_impression, left_out, fallen)
        )

    def _users(
        self, i: int, zeta: Floats, fallen: NDArray[np.bool_], converged: bool
    ) -> UserModel:
        """A user model whose every alpha is above 0, and how it came about."""
        run = self.runs[i]
        seen = self.learnt[i, : len(fallen)].cpu().numpy()
        nearest = _nearest(seen & ~fallen)
        if nearest is None:
            zeta = as_zeta(self.settings.start(len(fallen))).numpy()
            nearest = np.arange(len(fallen))
        borrowed = np.flatnonzero(fallen | ~seen) + 1
        provenance = {
            "family": "regression EM",
            "activation": run.activation,
            "seed": run.seed,
            "settings": asdict(self.settings),
            "updates": int(self.updates[i]),
            "converged": converged,
            "ranks_with_values_of_the_nearest": borrowed.tolist(),
        }
        return UserModel.from_zeta(*zeta[:, nearest], provenance=provenance)

    def _network(self, i: int) -> Networks:
        """The network of run ``i`` alone."""
        tensors = views(self.kept[i : i + 1].clone(), self.trainer.shapes)
        settings, seeds = self.trainer.settings, (self.runs[i].seed,)
        return Networks(tuple(tensors), self.trainer.n_features, settings, seeds)


@dataclass(frozen=True, slots=True, eq=False)
class _Note:
    """An update of all runs: steps so far, zeta, and one number a run of the others."""

    steps: int
    zeta: Tensor
    log_likelihood: Tensor
    left_out: Tensor
    fallen: Tensor


def _require_fitting(runs: Sequence[EMRun], n_docs: int, n_queries: int) -> None:
    """Refuse counts of documents or queries that there are no features of."""
    if not runs:
        raise ConfigError("give one run or more to estimate from")
    for i, run in enumerate(runs):
        if run.doc.min() < 0 or run.doc.max() >= n_docs:
            raise DataError(
                f"run {i}: documents must be from 0 to {n_docs - 1}, the rows of the "
                f"features, got {run.doc.min()} to {run.doc.max()}"
            )
        if len(run.share) != n_queries:
            raise DataError(
                f"run {i}: shares must be one for each of {n_queries} queries, got "
                f"{len(run.share)}"
            )


def _stacked_rows(
    runs: Sequence[EMRun], n_docs: int, depth: int, device: torch.device
) -> Rows:
    """The counts of all runs; run i's ranks and documents come after those before."""

    def column(values: Sequence[NDArray[np.generic]]) -> Tensor:
        return torch.from_numpy(np.concatenate(values)).to(device)

    return Rows.sorted_by_cell(
        column([run.rank - 1 + i * depth for i, run in enumerate(runs)]),
        column([run.doc + i * n_docs for i, run in enumerate(runs)]),
        column([run.impressions for run in runs]),
        column([run.clicks for run in runs]),
        len(runs) * depth,
    )


def _cut(offsets: Ints, share: float) -> list[int]:
    """Where parts of so many of the queries begin and end among the documents."""
    n_queries = len(offsets) - 1
    parts = min(max(1, round(1.0 / share)), n_queries)
    bounds = np.linspace(0, n_queries, parts + 1).astype(np.int64)
    return [int(bound) for bound in offsets[bounds]]


def _due(epoch: int, steps: int, settings: EMSettings) -> set[int]:
    """Steps of an epoch that an update follows, from 0."""
    early = range(min(max(settings.early_updates - epoch * steps, 0), steps))
    updates = min(settings.updates_per_epoch, steps)
    return {*early, *((i + 1) * steps // updates - 1 for i in range(updates))}


def _fallen(zeta: Tensor, share: float) -> Tensor:
    """Where ``zeta [2, ...]`` has zeta+ above zeta- by at most a share of it."""
    return zeta[0] - zeta[1] <= share * zeta[0]


def _ordered(weights: Tensor, trained: Tensor, lists: Lists) -> Tensor:
    """Whether any list's trained documents differ in weight, ``[n_runs, 1]``."""
    top = over_lists(weights.masked_fill(~trained, -math.inf), lists, "max")
    low = over_lists(weights.masked_fill(~trained, math.inf), lists, "min")
    return (top - low > 1e-9 * top.abs()).any(dim=1, keepdim=True)


def _nearest(usable: NDArray[np.bool_]) -> Ints | None:
    """For each place, the nearest usable one, the earlier of two; None if none is.

    >>> _nearest(np.array([False, True, False, False, True])).tolist()
    [1, 1, 1, 4, 4]
    """
    places = np.flatnonzero(usable)
    if not places.size:
        return None
    away = np.abs(np.arange(len(usable))[:, None] - places)
    return np.asarray(places[away.argmin(axis=1)])


def _advise(results: Sequence[RegressionEM], settings: EMSettings) -> None:
    """Warn of estimations that are not what they should be, and say what to do."""
    moving = [i for i, result in enumerate(results) if not result.converged]
    if moving:
        warnings.warn(
            f"regression EM stopped with {len(moving)} of {len(results)} estimations "
            f"(the first is run {moving[0]}) still moving by more than "
            f"{settings.tolerance:g} an epoch; raise epochs, updates_per_epoch or "
            "tolerance",
            AffineRankWarning,
            stacklevel=3,
        )
    fell = [i for i, result in enumerate(results) if result.fallen_ranks]
    if fell:
        ranks = ", ".join(map(str, results[fell[0]].fallen_ranks))
        warnings.warn(
            f"zeta+ fell to zeta- in {len(fell)} of {len(results)} estimations (in run "
            f"{fell[0]} at ranks {ranks}): clicks there do not tell relevant documents "
            "from others, and the user model has the values of the nearest rank that "
            "did not fall, or the start where all did; use more clicks, or leave such "
            "ranks out",
            AffineRankWarning,
            stacklevel=3,
        )
