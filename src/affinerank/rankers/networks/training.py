"""Training a stack of networks: step by step, resumable, on one or several machines.

Documents are never padded: a sample is the documents of its queries, one after
another, and only the pairwise loss gathers lists of similar length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from affinerank.rankers.likelihood import mean_score
from affinerank.rankers.networks.batches import Batch, RaggedLists
from affinerank.rankers.networks.checkpoint import (
    fingerprint,
    restore_state,
    write_state,
)
from affinerank.rankers.networks.click_likelihood import ClickBatch, click_loss
from affinerank.rankers.networks.held_out import Best, Planned
from affinerank.rankers.networks.losses import Loss
from affinerank.rankers.networks.model import (
    Networks,
    forward,
    initial_parameters,
    on_device,
    score_blocks,
)
from affinerank.rankers.networks.operations import (
    adagrad_update,
    mixed_seed,
    views,
)
from affinerank.rankers.networks.parallel import Group
from affinerank.rankers.networks.scaling import scaled, scaled_tensors
from affinerank.rankers.networks.settings import (
    ALIGNED,
    NetworkSettings,
    parameter_shapes,
)
from affinerank.rankers.ranker import Fitted, Task, fit_of
from affinerank.rankers.targets import ClickTargets, Targets, require_numbers
from affinerank.support.arrays import Ints, Matrix
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.large_arrays import release
from affinerank.support.seeds import stage_rng

if TYPE_CHECKING:
    from affinerank.rankers.networks.cuda import Replayed

ROUND = 64
RELEASED = 2**19  # documents, after which features that lie in a file need no memory
FINENESS = 12  # a sample is filled up by a part of about this size, at most


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The documents of some queries, one query after another.

    Attributes:
        rows: ``[n]`` rows of the documents, on the device; the last few may be filling,
            which no list refers to.
        lists: Where each query's documents lie among them.
        n_queries: Queries of the whole batch, over all processes.
        salts: ``[n_layers]`` what the units dropped in each hidden layer depend on.
    """

    rows: Tensor
    lists: RaggedLists
    n_queries: Tensor
    salts: Tensor


class NetworkTrainer:
    """A stack in training, advanced step by step, with weights that may change.

    All numbers of a network lie in one row of ``flat``.
    """

    def __init__(
        self,
        features: Matrix,
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
        on_cuda = self.device.type == "cuda"
        half = on_cuda and settings.precision == "bfloat16"
        self.kind = torch.bfloat16 if half else torch.float32
        if on_cuda:
            torch.backends.cuda.matmul.allow_tf32 = settings.precision == "tf32"
        self.n_features = features.shape[1]
        self.read = features
        self.features = on_device(features, self.device).to(self.kind)
        self.shapes = parameter_shapes(self.n_features, settings)
        start = initial_parameters(self.n_features, self.seeds, settings)
        flat = torch.cat([p.flatten(1) for p in start], dim=1)
        # Matrix units want every network's matrices to begin at a round address.
        self.flat = pad(flat, (0, -flat.shape[1] % ROUND)).to(self.device)
        self.squares = torch.full_like(self.flat, settings.initial_accumulator)
        self.loss = Loss.named(settings.loss)
        self.steps = 0
        self.lists = RaggedLists.of(np.diff(offsets), self.device)
        self.learnt: Batch | ClickBatch
        self.value: Callable[[Tensor, Any], Tensor] = self.loss.value
        mixed = [mixed_seed(seed) for seed in seeds]
        self._mixed = torch.tensor(mixed, dtype=torch.int32, device=self.device)
        # Samples of few different sizes, so that few are recorded.
        per_batch = int(offsets[-1]) * settings.batch_queries // len(offsets)
        rounded = 2 ** max((per_batch // FINENESS).bit_length() - 1, 0)
        self.rounded = max(rounded, ALIGNED) if on_cuda else ALIGNED
        self.replayed: Replayed | None = None
        if on_cuda and self.group.size == 1 and not self.loss.gathers:
            from affinerank.rankers.networks.cuda import Replayed

            self.replayed = Replayed()

    def parameters(self) -> list[Tensor]:
        """Return weights and biases of each layer, in turn, as training uses them."""
        return views(self.flat.to(self.kind), self.shapes)

    def set_targets(self, targets: Targets | ClickTargets) -> None:
        """Learn these from the next step on; they are scaled first."""
        if isinstance(targets, ClickTargets):
            self._explain(targets)
        else:
            self._learn(scaled(targets, self.lists, centred=self.loss.centred))

    def _explain(self, targets: ClickTargets) -> None:
        """Learn clicks from the next step on, from their mean relevance."""
        start = torch.from_numpy(mean_score(targets)).float().to(self.device)
        self.learnt = ClickBatch.of(targets, self.lists).scaled(start)
        self.value = click_loss
        self.start_at(start)

    def start_at(self, score: Tensor) -> None:
        """Let all documents start from the ``score [n]`` of each network.

        What was drawn is noise, and stays where training stops early.
        """
        *_, weights, bias = views(self.flat, self.shapes)
        weights.zero_()
        bias.copy_(score[:, None, None])

    def set_target_tensors(self, weights: Tensor, known: Tensor, share: Tensor) -> None:
        """Do as :meth:`set_targets`, with tensors that are on the device already."""
        centred = self.loss.centred
        self._learn(scaled_tensors(weights, known, share, self.lists, centred=centred))

    def _learn(self, batch: Batch) -> None:
        self.loss.require_learnable(batch)
        before = getattr(self, "learnt", None)
        if isinstance(before, Batch):  # steps were recorded that read these tensors
            before.copy_(batch)
        else:
            self.learnt = batch

    def scores(self, first: int, last: int) -> Tensor:
        """Score the documents from ``first`` to ``last`` now, ``[n, last - first]``."""
        return score_blocks(self.parameters(), self.features[first:last])

    def samples(self, epoch: int) -> Iterator[Sample]:
        """Yield the samples of an epoch; they depend on the data's seed alone."""
        rng = stage_rng("batches", self.settings.data_seed, epoch)
        order = rng.permutation(len(self.offsets) - 1)
        size = self.settings.batch_queries
        return self.sampled([order[i : i + size] for i in range(0, len(order), size)])

    def sampled(self, batches: Sequence[Ints]) -> Iterator[Sample]:
        """Yield this process's part of batches of queries.

        One transfer for all of them: the device would wait for one per step.
        """
        parts = [self.group.part(batch) for batch in batches]
        queries = np.concatenate(parts)
        sizes = np.diff(self.offsets)[queries]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = np.repeat(self.offsets[queries] - offsets[:-1], sizes)
        rows += np.arange(len(rows))
        # A few more rows, which no list refers to: matrix units want round numbers.
        filled = torch.from_numpy(np.pad(rows, (0, self.rounded))).to(self.device)
        del rows
        bounds = torch.from_numpy(offsets).to(self.device)
        n_queries = torch.tensor([len(batch) for batch in batches]).to(self.device)
        layers = len(self.settings.hidden)
        numbers = self.steps * layers + np.arange(len(batches) * layers)
        mixed = list(map(mixed_seed, numbers.tolist()))
        salts = torch.tensor(mixed, dtype=torch.int32).view(-1, layers).to(self.device)
        ends = np.cumsum([0, *map(len, parts)])
        for i, (query, end) in enumerate(pairwise(ends)):
            first, last = offsets[query], offsets[end]
            here = bounds[query : end + 1] - first
            lists = RaggedLists(sizes[query:end], here, self.lists.longest)
            filling = -(last - first) % self.rounded
            own = filled[first : last + filling]
            yield Sample(own, lists, n_queries[i], salts[i])

    def step(self, sample: Sample) -> Tensor:
        """Learn from a sample; return each network's loss on it, ``[n]``."""
        self.steps += 1
        given = sample.rows, sample.lists.offsets, sample.n_queries, sample.salts
        learn = partial(self._learn_from, sample.lists)
        return self.replayed.call(learn, *given) if self.replayed else learn(*given)

    def _learn_from(
        self,
        lists: RaggedLists,
        rows: Tensor,
        offsets: Tensor,
        n: Tensor,
        salts: Tensor,
    ) -> Tensor:
        numbers = rows.to(torch.int32)
        parameters = [view.detach().requires_grad_() for view in self.parameters()]
        scores = forward(
            parameters,
            self.features[rows],
            lambda i: (numbers, self._mixed, salts[i], self.settings.dropped[i]),
        )
        batch = self.learnt.at(rows, replace(lists, offsets=offsets))
        loss = self.value(scores.float(), batch) / n
        gradients = torch.autograd.grad(loss.sum(), parameters)
        parts = [g.flatten(1) for g in gradients]
        filling = self.flat.shape[1] - sum(part.shape[1] for part in parts)
        parts.append(parts[0].new_zeros(len(self.seeds), filling))
        gradient, total = torch.cat(parts, dim=1), loss.detach()
        self.group.add_up(gradient, total)
        clip_norm, rate = self.settings.clip_norm, self.settings.learning_rate
        adagrad_update(self.flat, self.squares, gradient, clip_norm, rate)
        return total

    def epoch(
        self, number: int, after_step: Callable[[int], None] | None = None
    ) -> Tensor:
        """Pass over all queries once; return each network's mean loss, ``[n]``.

        ``after_step`` is called with the number of each step, from 0; it may change
        what is learned. A loss that is not finite stops with an error that names where.
        """
        n_steps = -(-(len(self.offsets) - 1) // self.settings.batch_queries)
        losses = torch.empty(n_steps, len(self.seeds), device=self.device)
        read = 0
        for i, sample in enumerate(self.samples(number)):
            losses[i] = self.step(sample)
            if after_step is not None:
                after_step(i)
            read += len(sample.rows)
            if read > RELEASED:
                release(self.read)
                read = 0
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
        """Return the stack as it is now, or with the numbers ``flat``."""
        now = views((self.flat if flat is None else flat).clone(), self.shapes)
        return Networks(tuple(now), self.n_features, self.settings, self.seeds)


def train_networks(
    task: Task, kind: type[NetworkTrainer] = NetworkTrainer
) -> list[Fitted]:
    """Train a stack of networks."""
    settings, validation, checkpoint = task.settings, task.validation, task.checkpoint
    require_numbers(task.features)
    trainer = kind(task.features, task.offsets, task.seeds, settings)
    trainer.set_targets(task.targets)
    losses, trace = torch.full((2, settings.epochs, len(task.seeds)), math.nan)
    state = {"flat": trainer.flat, "squares": trainer.squares}
    state |= {"losses": losses, "trace": trace}
    best: Best | Planned | None = None
    mark = ""
    if validation is not None:
        require_numbers(validation.features)
        best = Best(trainer, validation)
        state |= {"best": best.flat, "best_values": best.values, "best_at": best.at}
    elif task.lengths is not None:
        best = Planned(trainer, task.lengths)
        state |= {"best": best.flat}
    if checkpoint is not None:
        own = replace(settings, device=trainer.device.type)
        given = (task.features, task.targets, task.offsets, validation)
        mark = fingerprint(own, task.seeds, *given, *(task.lengths or ()))
        restore_state(checkpoint, mark, state)
    done = int(losses[:, 0].isfinite().sum())
    trainer.steps = done * -(-(len(task.offsets) - 1) // settings.batch_queries)
    for epoch in range(done, settings.epochs):
        task.progress("training", epoch, settings.epochs)
        losses[epoch] = trainer.epoch(epoch)
        ended = best is not None and best.look(epoch + 1)
        if isinstance(best, Best):
            trace[epoch] = best.now
        if ended:
            break
        if checkpoint is not None and trainer.group.first:
            write_state(checkpoint, mark, state)
    task.progress("training", settings.epochs, settings.epochs)
    if checkpoint is not None and trainer.group.first:
        checkpoint.unlink(missing_ok=True)
    done = int(losses[:, 0].isfinite().sum())
    return _fitted(trainer, best, losses[:done], trace[:done])


fit_networks = fit_of(train_networks, resumes=True)


def _fitted(
    trainer: NetworkTrainer, best: Best | Planned | None, losses: Tensor, trace: Tensor
) -> list[Fitted]:
    """Return each network after the last epoch, and after the chosen one.

    ``losses`` and ``trace [epochs, n]`` are what each epoch came to, and what it was
    worth to the held-out queries.
    """
    chosen = [] if best is None else trainer.networks(best.flat).apart()
    epochs = [] if best is None else best.at.tolist()
    values = trace.T.tolist() if isinstance(best, Best) else [[]] * len(losses[0])
    ends = losses[[0, -1]].T.tolist()
    fitted = []
    for i, last in enumerate(trainer.networks().apart()):
        report = {"first_loss": ends[i][0], "last_loss": ends[i][1]}
        kept, at = (chosen[i], epochs[i]) if chosen else (None, None)
        fitted.append(
            Fitted(last, kept, at, report | {"epochs": len(losses)}, values[i])
        )
    return fitted


def choose_device(name: str, group: Group) -> torch.device:
    """Read a device's name; ``auto`` is CUDA where there is one, of several the own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ConfigError(f"device must be auto, cpu or cuda, got {name!r}")
    if name == "cuda":
        name = f"cuda:{group.local_rank}"
    device = torch.device(name)
    if device.type == "cuda" and device.index >= torch.cuda.device_count():
        raise ConfigError(f"there is no device {name} here")
    return device
