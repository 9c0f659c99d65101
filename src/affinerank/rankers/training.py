"""Training a stack of networks: step by step, resumable, on one or several machines."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from affinerank.errors import ConfigError, DataError
from affinerank.progress import Progress, quiet
from affinerank.rankers.checkpoint import Checkpoint
from affinerank.rankers.early_stopping import Best, Validation
from affinerank.rankers.losses import LOSSES, Lists, require_no_negative
from affinerank.rankers.mlp import (
    ALIGNED,
    DOCS_AT_ONCE,
    Networks,
    NetworkSettings,
    forward,
    initial_parameters,
    on_device,
    require_numbers,
)
from affinerank.rankers.operations import activate, adagrad_update, elu, fused, views
from affinerank.rankers.parallel import Group
from affinerank.rankers.targets import Targets, scaled_tensors
from affinerank.seeds import stage_rng

Ints = NDArray[np.int64]

ROUND = 64


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The documents of some queries, one query after another.

    Attributes:
        rows: ``[n]`` rows of the documents, on the device; the last few may be filling,
            which no list refers to.
        lists: Where each query's documents lie among them.
        n_queries: Queries of the whole batch, over all processes.
    """

    rows: Tensor
    lists: Lists
    n_queries: int


class NetworkTrainer:
    """A stack in training, advanced step by step, with weights that may change.

    All numbers of a network lie in one row of ``flat``; ``parameters`` are views of it.
    """

    def __init__(
        self,
        features: NDArray[np.float32],
        offsets: Ints,
        seeds: Sequence[int],
        settings: NetworkSettings,
    ) -> None:
        self.settings = settings
        self.seeds = tuple(seeds)
        self.offsets = offsets
        self.group = Group.current()
        self.device = choose_device(settings.device, self.group)
        self.group.join(self.device)
        self.half = self.device.type == "cuda" and settings.precision == "bfloat16"
        if self.device.type == "cuda":
            allowed = settings.precision == "tf32"
            torch.backends.cuda.matmul.allow_tf32 = allowed
        self.n_features = features.shape[1]
        self.features = on_device(features, self.device)
        if self.half:
            self.features = self.features.to(torch.bfloat16)
        start = initial_parameters(self.n_features, self.seeds, settings)
        self.shapes = [tuple(p.shape[1:]) for p in start]
        flat = torch.cat([p.flatten(1) for p in start], dim=1)
        # Matrix units want every network's matrices to begin at a round address.
        self.flat = torch.nn.functional.pad(flat, (0, -flat.shape[1] % ROUND))
        self.flat = self.flat.to(self.device)
        self.squares = torch.full_like(self.flat, settings.initial_accumulator)
        self.loss = LOSSES[settings.loss]
        self.steps = 0
        self.lists = Lists.of(np.diff(offsets), self.device)
        self._seeds = torch.tensor(
            [_mixed(seed) for seed in seeds], dtype=torch.int32, device=self.device
        )
        self._weights = torch.empty(0)
        self._shown = torch.empty(0, dtype=torch.bool)
        self._share = torch.empty(0)

    @property
    def parameters(self) -> list[Tensor]:
        """Weights and biases of each layer, in turn: views of ``flat``."""
        return views(self.flat, self.shapes)

    def set_targets(self, targets: Targets) -> None:
        """Learn these from the next step on; they are scaled first."""
        expected = (len(self.seeds), len(self.features))
        if targets.weights.shape != expected or targets.shown.shape != expected:
            raise DataError(
                f"weights must be [{expected[0]} networks, {expected[1]} documents], "
                f"got {targets.weights.shape}"
            )
        centred = self.settings.loss == "squared"
        weights, share = targets.scaled(self.lists, centred=centred)
        shown = torch.from_numpy(np.array(targets.shown)).to(self.device)
        self._set(weights, shown, share)

    def set_target_tensors(self, weights: Tensor, shown: Tensor, share: Tensor) -> None:
        """Do as :meth:`set_targets`, with tensors that are on the device already."""
        centred = self.settings.loss == "squared"
        weights, share = scaled_tensors(
            weights, shown, share, self.lists, centred=centred
        )
        self._set(weights, shown, share)

    def _set(self, weights: Tensor, shown: Tensor, share: Tensor) -> None:
        self._weights, self._shown, self._share = weights, shown, share
        if self.settings.loss == "softmax":
            require_no_negative(weights, shown)

    def scores(self, first: int, last: int) -> Tensor:
        """Scores ``[n, last - first]`` of these documents now, without dropout."""
        working = self.flat.to(torch.bfloat16) if self.half else self.flat
        parameters = views(working, self.shapes)
        at_once = max(2048, DOCS_AT_ONCE // len(self.seeds))

        with torch.no_grad():
            parts = [
                forward(parameters, self.features[i : min(i + at_once, last)], elu)
                for i in range(first, last, at_once)
            ]
        return torch.cat(parts, dim=1).float()

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The steps of an epoch; they depend on the data's seed alone."""
        rng = stage_rng("batches", self.settings.data_seed, epoch)
        order = rng.permutation(len(self.offsets) - 1)
        size = self.settings.batch_queries
        whole = [order[i : i + size] for i in range(0, len(order), size)]
        mine = [self.group.part(queries) for queries in whole]
        # One transfer an epoch: the device would wait for one a step.
        sizes = np.diff(self.offsets)[np.concatenate(mine)]
        rows = self._filled_rows(np.concatenate(mine))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        on_device = torch.from_numpy(offsets).to(self.device)
        query = 0
        for queries, part in zip(whole, mine, strict=True):
            end = query + len(part)
            first, last = offsets[query], offsets[end]
            lists = Lists(sizes[query:end], on_device[query : end + 1] - first)
            yield Batch(
                rows[first : last + -(last - first) % ALIGNED], lists, len(queries)
            )
            query = end

    def batch(self, queries: Ints) -> Batch:
        """A batch of these queries."""
        mine = self.group.part(queries)
        lists = Lists.of(np.diff(self.offsets)[mine], self.device)
        size = int(lists.sizes.sum())
        rows = self._filled_rows(mine)[: size + -size % ALIGNED]
        return Batch(rows, lists, len(queries))

    def step(self, batch: Batch) -> Tensor:
        """Learn from a batch; return each network's loss on it, ``[n]``."""
        rows = batch.rows
        working = self.flat.to(torch.bfloat16) if self.half else self.flat
        parameters = [
            view.detach().requires_grad_() for view in views(working, self.shapes)
        ]
        inputs = self.features[rows]
        scores = forward(parameters, inputs, self._activation(rows)).float()
        shown = self._shown[:, rows]
        shown[:, int(batch.lists.sizes.sum()) :] = False  # filling
        loss = self.loss(
            scores, self._weights[:, rows], shown, self._share[:, rows], batch.lists
        )
        loss = loss / batch.n_queries
        gradients = torch.autograd.grad(loss.sum(), parameters)
        parts = [g.flatten(1) for g in gradients]
        filling = self.flat.shape[1] - sum(part.shape[1] for part in parts)
        parts.append(parts[0].new_zeros(len(self.seeds), filling))
        gradient = torch.cat(parts, dim=1).float()
        gradient, total = self.group.summed(gradient, loss.detach())
        clipped_adagrad = fused(adagrad_update, self.device)
        clipped_adagrad(
            self.flat,
            self.squares,
            gradient,
            self.settings.clip_norm,
            self.settings.learning_rate,
        )
        self.steps += 1
        return total

    def epoch(
        self, number: int, after_step: Callable[[int], None] | None = None
    ) -> Tensor:
        """Pass over all queries once; return each network's mean loss, ``[n]``.

        ``after_step`` is called with the number of each step, from 0; it may change
        what is learned. A loss that is not finite stops with an error that names where.
        """
        taken = []
        for i, batch in enumerate(self.batches(number)):
            taken.append(self.step(batch))
            if after_step is not None:
                after_step(i)
        losses = torch.stack(taken)
        bad = torch.nonzero(~torch.isfinite(losses))
        if len(bad):
            batch, network = bad[0].tolist()
            raise DataError(
                f"epoch {number + 1}, batch {batch + 1}, network {network} (seed "
                f"{self.seeds[network]}): the loss is {losses[batch, network].item()}, "
                "not finite; lower the learning rate or the weights"
            )
        return losses.mean(dim=0)

    def networks(self, flat: Tensor | None = None) -> Networks:
        """The stack as it is now, or as it was when ``flat`` held its numbers."""
        now = self.flat if flat is None else flat
        tensors = tuple(p.clone() for p in views(now, self.shapes))
        return Networks(tensors, self.n_features, self.settings, self.seeds)

    def state(self) -> dict[str, Tensor]:
        """All that training goes on from."""
        steps = torch.tensor(self.steps)
        return {"flat": self.flat, "squares": self.squares, "steps": steps}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a :meth:`state`."""
        self.flat.copy_(state["flat"])
        self.squares.copy_(state["squares"])
        self.steps = int(state["steps"])

    def _filled_rows(self, queries: Ints) -> Tensor:
        """Rows of the documents of these queries, one query after another.

        A few more follow, which no list refers to: matrix units want round numbers.
        """
        sizes = np.diff(self.offsets)[queries]
        shift = self.offsets[queries] - (np.cumsum(sizes) - sizes)
        rows = np.arange(sizes.sum()) + np.repeat(shift, sizes)
        filled = np.concatenate([rows, np.zeros(ALIGNED, dtype=np.int64)])
        return torch.from_numpy(filled).to(self.device)

    def _activation(self, rows: Tensor) -> Callable[[Tensor, Tensor, int], Tensor]:
        """Bias, elu and dropout of each layer; see :func:`activate`."""
        numbers = rows.to(torch.int32)

        def apply(values: Tensor, bias: Tensor, layer: int) -> Tensor:
            share = self.settings.dropout[layer]
            salt = _mixed(self.steps * len(self.settings.hidden) + layer)
            return activate(values, bias, numbers, self._seeds, salt, share)

        return apply


def fit_networks(
    features: NDArray[np.float32],
    targets: Targets,
    offsets: Ints,
    *,
    seeds: Sequence[int],
    settings: NetworkSettings | None = None,
    validation: Validation | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress = quiet,
) -> FittedNetworks:
    """Train a stack of networks on shared features.

    Args:
        features: ``[n_docs, n_features]`` without missing values.
        targets: What each network learns.
        offsets: ``[n_queries + 1]`` query boundaries.
        seeds: One a network.
        settings: Shape and training.
        validation: Held-out weights to stop early by, where settings ask for it.
        checkpoint: File that training goes on from if it was killed; removed at the
            end.
        progress: Told of each epoch.
    """
    asked = settings or NetworkSettings()
    require_numbers(features)
    trainer = NetworkTrainer(features, offsets, seeds, asked)
    trainer.set_targets(targets)
    best = Best(trainer, validation) if asked.patience is not None else None
    kept = None
    if checkpoint is not None:
        mark = _fingerprint(trainer, features, targets, validation)
        kept = Checkpoint(checkpoint, mark)
    losses: list[NDArray[Any]] = []
    if kept is not None:
        losses = kept.resume(trainer, best)
    for epoch in range(len(losses), asked.epochs):
        progress("training", epoch, asked.epochs)
        losses.append(trainer.epoch(epoch).cpu().numpy())
        if best is not None and best.should_stop():
            break
        if kept is not None and trainer.group.first:
            kept.write(trainer, best, losses)
    progress("training", asked.epochs, asked.epochs)
    if kept is not None and trainer.group.first:
        kept.remove()
    networks = best.networks() if best is not None else trainer.networks()
    return FittedNetworks(networks, np.stack(losses))


@dataclass(frozen=True, slots=True, eq=False)
class FittedNetworks:
    """Trained networks, and each one's mean loss in each epoch, ``[epochs, n]``."""

    networks: Networks
    losses: NDArray[Any]


def choose_device(name: str, group: Group) -> torch.device:
    """Understand ``auto``: CUDA where there is one, the process's own if several."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ConfigError(f"device must be auto, cpu or cuda, got {name!r}")
    device = torch.device(name)
    if device.type == "cpu":
        return device
    if device.index is None:
        device = torch.device("cuda", group.local_rank)
    if device.index >= torch.cuda.device_count():
        raise ConfigError(f"device {name} was asked for, and there is none here")
    return device


def _mixed(number: int) -> int:
    """Spread a whole number over 32 bits, signed."""
    mixed = (number * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64
    mixed = ((mixed ^ (mixed >> 31)) * 0xBF58476D1CE4E5B9) % 2**64
    return (mixed >> 32) - 2**31


def _fingerprint(
    trainer: NetworkTrainer,
    features: NDArray[np.float32],
    targets: Targets,
    validation: Validation | None,
) -> str:
    """Tells whether a checkpoint is of this very training."""
    digest = hashlib.blake2b(digest_size=16)
    about = {**asdict(trainer.settings), "device": trainer.device.type}
    digest.update(json.dumps([about, trainer.seeds]).encode())
    arrays: list[NDArray[Any]] = [features, trainer.offsets]
    arrays += [targets.weights, targets.shown, targets.share]
    if validation is not None:
        held = validation.targets
        arrays += [validation.features, held.weights, held.shown, held.share]
    for array in arrays:
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
