"""Regression EMs under way, side by side: one trainer, one table of parameters.

An update turns scores into probabilities of relevance, updates the click rates by
them, and gives the trainer the weights that these click rates correct clicks to.

Scoring all queries costs a third of an epoch. So an update rescores only part of them,
in turn, and takes the others as they were scored last; in the first epoch, when scores
change most, a larger part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from affinerank.bias.regression_em.activations import ACTIVATIONS
from affinerank.bias.regression_em.run import EMSettings, Run
from affinerank.bias.regression_em.updates import (
    CellRows,
    as_zeta,
    mean_movement,
    start_of,
    updated,
)
from affinerank.rankers.networks.batches import RaggedLists, over_lists
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.networks.training import NetworkTrainer
from affinerank.support.arrays import Bools, Matrix

CERTAIN = 1e-6  # no relevance is surer than this, so no click is impossible


class EMStack:
    """Estimations under way: parameters ``[2 or 3, n_runs * depth]`` and a trainer."""

    def __init__(
        self,
        features: Matrix,
        runs: Sequence[Run],
        settings: EMSettings,
        network: NetworkSettings,
    ) -> None:
        self.runs = runs
        self.settings = settings
        n_queries = runs[0].rows.n_queries
        offsets = np.searchsorted(runs[0].rows.query_of_doc, np.arange(n_queries + 1))
        seeds = [run.seed for run in runs]
        self.trainer = NetworkTrainer(features, offsets, seeds, network)
        device = self.trainer.device
        self.lists = self.trainer.lists
        # Counts of all runs, and parameters for each run and rank.
        self.shape = (len(runs), max(run.rows.depth for run in runs))
        rows = [run.rows for run in runs]
        size, depth = len(features), self.shape[1]
        columns = (
            [each.rank - 1 + i * depth for i, each in enumerate(rows)],
            [each.doc + i * size for i, each in enumerate(rows)],
            [each.impressions for each in rows],
            [each.clicks for each in rows],
            [each.share[None] for each in rows],
        )
        cell, doc, seen, clicks, self.share = (
            torch.from_numpy(np.concatenate(values)).to(device) for values in columns
        )
        self.rows = CellRows.of(cell, doc, seen, clicks, len(runs) * depth)
        self.parameters = start_of(settings, math.prod(self.shape)).to(device)
        self.clicked = self.rows.summed(self.rows.clicks).view(self.shape)
        # Ranks that had a relevance: only where lists are 0/0 do others have clicks.
        self.learnt = torch.zeros(self.shape, dtype=torch.bool, device=device)
        # What the networks train on, and their scores.
        self.weights = torch.zeros(len(runs), size, dtype=torch.float64, device=device)
        self.shown = self._by_document(self.rows.impressions) > 0
        self.trained = self.shown
        self.scores: Tensor | None = None
        self.epoch_steps = -(-n_queries // network.batch_queries)
        # What each run had when it came to rest.
        self.active = np.ones(len(runs), dtype=bool)
        self.kept = self.trainer.flat.clone()
        self.updates = np.zeros(len(runs), dtype=np.int64)
        self._set_targets()

    @property
    def zeta(self) -> Tensor:
        """Click rates ``[2, n_runs, depth]``."""
        return as_zeta(self.parameters).view(2, *self.shape)

    def epoch(self, number: int) -> Bools:
        """Train over all queries, update in between; return which runs came to rest."""
        due = self._due(number) if self.active.any() else set()
        before, moving = self.zeta, self.active.copy()

        def after_step(step: int) -> None:
            if step in due:
                self.update()

        self.trainer.epoch(number, after_step)
        moved = mean_movement(before, self.zeta, self.clicked).cpu().numpy()
        chosen = torch.from_numpy(self.active).to(self.kept.device)[:, None]
        self.kept = torch.where(chosen, self.trainer.flat, self.kept)
        if due:
            self.active &= moved > self.settings.tolerance
        return moving & ~self.active

    def _due(self, epoch: int) -> set[int]:
        """Steps of an epoch that an update follows, from 0."""
        steps = self.epoch_steps
        early = range(min(self.settings.early_updates - epoch * steps, steps))
        updates = min(self.settings.updates_per_epoch, steps)
        return {*early, *((i + 1) * steps // updates - 1 for i in range(updates))}

    def update(self) -> None:
        """Update the parameters, then the weights; runs that rest keep theirs."""
        # Relevance of each row's document; rows whose list is 0/0 do not count.
        relevance = self._relevance(self._rescored())
        by_row = relevance.flatten()[self.rows.doc].double()
        rows = self.rows.only(~by_row.isnan())
        by_row = by_row.nan_to_num(0.5).clamp(CERTAIN, 1.0 - CERTAIN)
        # E-steps on the same scores.
        active = torch.from_numpy(self.active).to(rows.cell.device)[:, None]
        changes = active.expand(self.shape).flatten()
        for _ in range(self.settings.iterations):
            new = updated(self.parameters, by_row, rows)
            self.parameters = torch.where(changes, new, self.parameters)
        # Train on what the new click rates correct clicks to.
        counted = rows.summed(rows.impressions).view(self.shape)
        self.learnt |= (counted > 0) & active
        self.updates += self.active
        self._set_targets()

    def _rescored(self) -> Tensor:
        """Scores, the next part of the queries' anew; at the first update, of all."""
        if self.scores is None:
            self.scores = self.trainer.scores(0, self.shown.shape[1])
        else:
            young = self.trainer.steps <= self.epoch_steps
            share = self.settings.rescored_first if young else self.settings.rescored
            # The next of parts of so many queries, as they lie among the documents.
            n_queries = len(self.trainer.offsets) - 1
            parts = min(max(1, round(1.0 / share)), n_queries)
            bounds = np.linspace(0, n_queries, parts + 1).astype(np.int64)
            part = int(self.updates.max()) % parts
            first, last = self.trainer.offsets[bounds[part : part + 2]].tolist()
            self.scores[:, first:last] = self.trainer.scores(first, last)
        return self.scores

    def _relevance(self, scores: Tensor) -> Tensor:
        """Probabilities of relevance ``[n_runs, n_docs]``, by each run's activation."""
        relevance = torch.empty_like(scores)
        names = np.array([run.activation for run in self.runs])
        for name in np.unique(names):
            mine = np.flatnonzero(names == name)
            given = scores[mine], self.shown[mine], self.lists
            relevance[mine] = ACTIVATIONS[name](*given)
        return relevance

    def _set_targets(self) -> None:
        r"""Train on :math:`\sum_k (c_k - \beta_k n_k) / \alpha_k / \sum_k n_k`.

        Impressions at ranks that have fallen do not count. A run whose other ranks
        leave no order to learn keeps the weights that it had.
        """
        rows, zeta = self.rows, as_zeta(self.parameters)
        usable = ~fallen_cells(zeta, self.settings.fallen)
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


def fallen_cells(zeta: Tensor, share: float) -> Tensor:
    """Where ``zeta [2, ...]`` has zeta+ above zeta- by at most a share of it."""
    return zeta[0] - zeta[1] <= share * zeta[0]


def _ordered(weights: Tensor, trained: Tensor, lists: RaggedLists) -> Tensor:
    """Whether any list's trained documents differ in weight, ``[n_runs, 1]``."""
    top = over_lists(weights.masked_fill(~trained, -math.inf), lists, "max")
    low = over_lists(weights.masked_fill(~trained, math.inf), lists, "min")
    return (top - low > 1e-9 * top.abs()).any(dim=1, keepdim=True)
