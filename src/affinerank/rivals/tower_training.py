r"""Training of additive two towers, by the cross-entropy of click rates y.

.. math::

    \sum_d u_d \bigl( \log(1 + e^{z_d}) - y_d z_d \bigr), \qquad z_d = s_d + b_k

with :math:`u` what the document's query counts. After each epoch every bias takes a
Newton step, of 1 at most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from affinerank.defaults import LOSS
from affinerank.rankers.networks.batches import RaggedLists
from affinerank.rankers.networks.training import NetworkTrainer, train_networks
from affinerank.rankers.ranker import Fitted, Task, fit_of
from affinerank.rankers.targets import Targets
from affinerank.support.errors import ConfigError

FIRST_STEPS = 20  # of biases, before the first epoch


@dataclass(frozen=True, slots=True, eq=False)
class TowerBatch:
    """Click rates of some lists, on the device.

    Attributes:
        rate: ``[n_networks, n_docs]`` from 0 to 1.
        times: ``[n_networks, n_docs]`` what a document counts; 0 where not known.
        rank: ``[n_networks, n_docs]`` shown at; 0 for none.
        bias: ``[n_networks, n_ranks]`` in logits.
        scale: ``[n_networks]`` what the loss is multiplied by.
    """

    rate: Tensor
    times: Tensor
    rank: Tensor
    bias: Tensor
    scale: Tensor

    @classmethod
    def of(cls, targets: Targets, offsets: Any, device: torch.device) -> TowerBatch:
        """Take weights for click rates; biases explain them alone at first."""
        known = targets.known
        share = targets.of_documents(offsets)
        rank = np.stack([targets.rank_of(i) for i in range(len(known))])
        arrays = (
            np.where(known, np.clip(targets.weights, 0.0, 1.0), 0.0),
            np.where(known, share, 0.0),
        )
        rate, times = (torch.from_numpy(a).float().to(device) for a in arrays)
        places = torch.from_numpy(rank.astype(np.int64)).to(device)
        n_ranks = int(rank.max(initial=0)) + 1
        one = rate.new_ones(len(rate))
        batch = cls(rate, times, places, rate.new_zeros(len(rate), n_ranks), one)
        for _ in range(FIRST_STEPS):
            batch.step(torch.zeros_like(rate))
        left = batch.left(torch.zeros_like(rate))[0]
        size = left.square().mean(dim=1).sqrt().clamp(min=1e-12)
        return replace(batch, scale=1.0 / size)

    def at(self, rows: Tensor, lists: RaggedLists) -> TowerBatch:
        """Select the documents ``rows``; those beyond ``lists`` count for nothing."""
        times = self.times[:, rows] * lists.inside(len(rows))
        parts = self.rate[:, rows], times, self.rank[:, rows]
        return TowerBatch(*parts, self.bias, self.scale)

    def logits(self, scores: Tensor) -> Tensor:
        """Add the bias of the rank shown."""
        return scores + self.bias.gather(1, self.rank)

    def left(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return rates less what is expected, and its curvature, times ``times``."""
        p = torch.sigmoid(self.logits(scores))
        return self.times * (self.rate - p), self.times * p * (1.0 - p)

    def step(self, scores: Tensor) -> None:
        """Move every bias by a Newton step, in place; one click rate holds it."""
        none = torch.zeros_like(self.bias)
        up, curve = (none.scatter_add(1, self.rank, v) for v in self.left(scores))
        self.bias.add_((up / (curve + 1e-3)).clamp(-1.0, 1.0))


def tower_loss(scores: Tensor, batch: TowerBatch) -> Tensor:
    """Cross-entropy of click rates of each network, times its scale."""
    z = batch.logits(scores)
    return (batch.times * (softplus(z) - batch.rate * z)).sum(dim=1) * batch.scale


class TowerTrainer(NetworkTrainer):
    """A stack of relevance towers, whose biases follow after each epoch."""

    def set_targets(self, targets: Any) -> None:
        """Learn these click rates; all documents start from the same score."""
        self.learnt: Any = TowerBatch.of(targets, self.offsets, self.device)
        self.value = tower_loss
        self.start_at(torch.zeros_like(self.flat[:, 0]))

    def epoch(
        self, number: int, after_step: Callable[[int], None] | None = None
    ) -> Tensor:
        """Pass over all queries once, then move the biases."""
        losses = super().epoch(number, after_step)
        self.learnt.step(self.scores(0, int(self.offsets[-1])).float())
        return losses


@fit_of
def fit_two_tower(task: Task) -> list[Fitted]:
    """Train a stack of two towers."""
    if task.settings.loss != LOSS:
        raise ConfigError(
            f"two towers have a loss of their own; leave out loss={task.settings.loss}"
        )
    return train_networks(task, TowerTrainer)
