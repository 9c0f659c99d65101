"""Training a stack, and keeping two of each network: the last, and the chosen one.

Held-out clicks choose: the epoch after which the DCG that they estimate was highest.
Every network is trained for all epochs, so one training gives both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from affinerank.progress import Progress, quiet
from affinerank.rankers.early_stopping import Validation
from affinerank.rankers.losses import Lists
from affinerank.rankers.mlp import Networks, NetworkSettings, forward, on_device
from affinerank.rankers.operations import elu
from affinerank.rankers.targets import Targets
from affinerank.rankers.training import NetworkTrainer

Ints = NDArray[np.int64]

SCORES_AT_ONCE = 2**26  # bounds the memory of scoring and sorting


@dataclass(frozen=True, slots=True, eq=False)
class TrainedStack:
    """A stack after training.

    Attributes:
        last: After the last epoch.
        chosen: Each network after the epoch that held-out clicks chose, if there were
            any.
        epochs: ``[n]`` that epoch, from 1.
    """

    last: Networks
    chosen: Networks | None
    epochs: Ints | None


def train_stack(
    features: NDArray[np.float32],
    targets: Targets,
    offsets: Ints,
    *,
    seeds: list[int],
    settings: NetworkSettings,
    validation: Validation | None = None,
    progress: Progress = quiet,
) -> TrainedStack:
    """Train networks on shared features; ``validation`` chooses an epoch of each."""
    trainer = NetworkTrainer(features, offsets, seeds, settings)
    trainer.set_targets(targets)
    chosen = _Chosen(trainer, validation) if validation is not None else None
    for epoch in range(settings.epochs):
        progress("training", epoch, settings.epochs)
        trainer.epoch(epoch)
        if chosen is not None:
            chosen.look(epoch + 1)
    progress("training", settings.epochs, settings.epochs)
    if chosen is None:
        return TrainedStack(trainer.networks(), None, None)
    epochs = chosen.epochs.cpu().numpy()
    return TrainedStack(trainer.networks(), trainer.networks(chosen.flat), epochs)


class _Chosen:
    """Each network as held-out clicks liked it best so far; all on the device."""

    def __init__(self, trainer: NetworkTrainer, validation: Validation) -> None:
        n = len(trainer.seeds)
        self.trainer = trainer
        self.held = HeldOut(validation, trainer.device, half=trainer.half)
        self.flat = trainer.flat.clone()
        self.values = torch.full((n,), -torch.inf, device=trainer.device)
        self.epochs = torch.zeros(n, dtype=torch.int64, device=trainer.device)

    def look(self, epoch: int) -> None:
        """Judge the networks as they are after an epoch."""
        values = self.held.values(self.trainer.parameters)
        better = values > self.values
        self.flat = torch.where(better[:, None], self.trainer.flat, self.flat)
        self.values = torch.where(better, values, self.values)
        self.epochs = torch.where(better, epoch, self.epochs)


class HeldOut:
    """Held-out queries that stay on the device, where judging them is fast.

    What :class:`Validation` computes, but for rounding.
    """

    def __init__(
        self, validation: Validation, device: torch.device, *, half: bool = False
    ) -> None:
        self.kind = torch.bfloat16 if half else torch.float32
        self.features = on_device(validation.features, device).to(self.kind)
        sizes = np.diff(validation.offsets)
        targets = validation.targets
        share = targets.of_queries(validation.offsets).repeat(sizes, axis=1)
        worth = np.where(targets.shown, targets.weights * share, 0.0)
        self.worth = torch.from_numpy(worth.astype(np.float32)).to(device)
        self.shown = torch.from_numpy(np.array(targets.shown)).to(device)
        self.lists = Lists.of(sizes, device)

    def values(self, parameters: list[Tensor]) -> Tensor:
        """Estimated DCG of each network, ``[n]``, over shown documents alone."""
        at_once = max(1, SCORES_AT_ONCE // max(len(self.features), 1))
        parts = []
        with torch.no_grad():
            for first in range(0, len(self.worth), at_once):
                some = slice(first, first + at_once)
                mine = [p[some].to(self.kind) for p in parameters]
                parts.append(self._dcg(self._scores(mine), some))
        return torch.cat(parts)

    def _scores(self, parameters: list[Tensor]) -> Tensor:
        """Scores ``[n, n_docs]``, a block of documents at a time."""
        widest = max(p.shape[2] for p in parameters)
        at_once = max(1, SCORES_AT_ONCE * 8 // (len(parameters[0]) * widest))
        blocks = [
            forward(parameters, self.features[first : first + at_once], elu).float()
            for first in range(0, len(self.features), at_once)
        ]
        return torch.cat(blocks, dim=1)

    def _dcg(self, scores: Tensor, some: slice) -> Tensor:
        ranks = _ranks(scores.contiguous(), self.shown[some], self.lists)
        return (self.worth[some] / torch.log2(ranks + 2.0)).sum(dim=1)


def _ranks(scores: Tensor, shown: Tensor, lists: Lists) -> Tensor:
    """Rank of each document in its list, from 0, unshown ones last or anywhere."""
    if scores.is_cuda:
        from affinerank.rankers.cuda import count_ranks

        return count_ranks(scores, shown, lists.offsets, int(lists.sizes.max()))
    # Sort by score, then stably by list: places within a list are ranks.
    query = torch.repeat_interleave(torch.from_numpy(lists.sizes))
    by_score = scores.masked_fill(~shown, -torch.inf)
    by_score = by_score.argsort(dim=1, descending=True, stable=True)
    order = by_score.gather(1, query[by_score].argsort(dim=1, stable=True))
    place = torch.arange(scores.shape[1]) - lists.offsets[:-1][query]
    return torch.empty_like(order).scatter_(1, order, place.expand_as(order))
