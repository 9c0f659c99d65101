"""Many networks on held-out queries: what each is worth, and which epoch was best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from affinerank.rankers.networks.batches import RaggedLists
from affinerank.rankers.networks.click_likelihood import ClickBatch, click_loss
from affinerank.rankers.networks.model import on_device, score_blocks
from affinerank.rankers.targets import ClickTargets, Targets, Validation
from affinerank.support.arrays import Floats
from affinerank.support.lists import ranks_by_score

if TYPE_CHECKING:
    from affinerank.rankers.networks.training import NetworkTrainer

SCORES_AT_ONCE = 2**26  # bounds the memory of judging


class HeldOut:
    """Judges rankings by the DCG that held-out weights estimate.

    Over known documents alone, each query times its share; all on the device.
    """

    def __init__(self, validation: Validation, device: torch.device | str) -> None:
        self.offsets = validation.offsets
        self.lists = RaggedLists.of(np.diff(self.offsets), device)
        self.worth, self.known = self._worth(validation.targets)

    def change(self, i: int, targets: Targets) -> None:
        """Judge ranker ``i`` by others from now on; a weight of NaN never judged it."""
        for own, new in zip(
            (self.worth, self.known), self._worth(targets), strict=True
        ):
            own[i].copy_(new[0])

    def _worth(self, targets: Any) -> tuple[Tensor, ...]:
        share = targets.of_documents(self.offsets)
        worth = np.where(targets.known, targets.weights * share, 0.0)
        arrays = worth.astype(np.float32), np.array(targets.known)
        device = self.lists.offsets.device
        return tuple(torch.from_numpy(array).to(device) for array in arrays)

    def evaluator(self, scores: Tensor, first: int = 0) -> Tensor:
        """Judge ``scores [n, n_docs]`` by the weights of rankers ``first`` on: ``[n]``.

        Documents that are not known go last: ranked among the others, they would count
        as worth 0.
        """
        some = slice(first, first + len(scores))
        known = self.known[some]
        if scores.is_cuda:
            from affinerank.rankers.networks.cuda import count_ranks

            ranks = count_ranks(scores.contiguous(), known, self.lists)
        else:
            offsets = self.lists.offsets.numpy()
            masked = scores.masked_fill(~known, -math.inf).numpy()
            by_row = [ranks_by_score(row, offsets) - 1 for row in masked]
            ranks = torch.from_numpy(np.stack(by_row))
        worth = self.worth[some] / torch.log2(ranks + 2.0)
        return worth.sum(dim=1, dtype=torch.float64)

    def value(self, i: int, scores: Floats) -> float:
        """Judge ``scores [n_docs]`` by the weights of ranker ``i``."""
        return self.evaluator(torch.from_numpy(scores)[None], i).item()


class HeldOutClicks(HeldOut):
    """Judges scores by the likelihood of held-out clicks, per impression."""

    def __init__(self, validation: Validation, device: torch.device | str) -> None:
        clicks: Any = validation.targets
        lists = RaggedLists.of(np.diff(validation.offsets), device)
        self.batch = ClickBatch.of(clicks, lists)

    def evaluator(self, scores: Tensor, first: int = 0) -> Tensor:
        """Judge ``scores [n, n_docs]``, of rankers ``first`` on: ``[n]``."""
        some = self.batch.part(slice(first, first + len(scores)))
        shown = some.values[0].sum(dim=(1, 2), dtype=torch.float64)
        return -click_loss(scores.float(), some).double() / shown.clamp(min=1.0)


def evaluator_of(validation: Validation, device: torch.device | str) -> HeldOut:
    """Return the judge of what rankers learn: weights, or clicks themselves."""
    clicks = isinstance(validation.targets, ClickTargets)
    return (HeldOutClicks if clicks else HeldOut)(validation, device)


class Best:
    """Each network as it was when held-out weights rated it highest.

    A network whose own patience is spent changes no more, whatever the others do: its
    result does not depend on them.

    Attributes:
        flat: Parameters of each network at its best.
        values: ``[n]`` what it was worth then.
        at: ``[n]`` epoch, from 1.
        now: ``[n]`` what it was worth when last looked at.
    """

    def __init__(self, trainer: NetworkTrainer, validation: Validation) -> None:
        n, device = len(trainer.seeds), trainer.device
        self.trainer = trainer
        self.features = on_device(validation.features, device).to(trainer.kind)
        self.held: Any = evaluator_of(validation, device)
        self.flat = trainer.flat.clone()
        self.values = torch.full((n,), -math.inf, dtype=torch.float64, device=device)
        self.at = torch.zeros(n, dtype=torch.int64, device=device)
        self.now = self.values

    def look(self, epoch: int) -> bool:
        """Judge the networks after an epoch; return whether all patience is spent."""
        patience = self.trainer.settings.patience or math.inf
        values = self.now = self._evaluated()
        waits = (epoch - 1 - self.at < patience) | (self.at == 0)
        better = (values > self.values) & waits
        self.flat[better] = self.trainer.flat[better]
        self.values[better] = values[better]
        self.at[better] = epoch
        return bool((epoch - self.at >= patience).all())

    def _evaluated(self) -> Tensor:
        """Judge the networks as they are now, ``[n]``, some at a time."""
        at_once = max(1, SCORES_AT_ONCE // max(len(self.features), 1))
        parameters = self.trainer.parameters()
        values = []
        for first in range(0, len(self.values), at_once):
            some = [p[first : first + at_once] for p in parameters]
            values.append(self.held.evaluator(score_blocks(some, self.features), first))
        return torch.cat(values)


class Planned:
    """Each network as it was after the number of epochs that was asked for.

    Attributes:
        flat: Parameters of each network then.
        at: ``[n]`` that epoch, from 1.
    """

    def __init__(self, trainer: NetworkTrainer, lengths: Sequence[int]) -> None:
        self.trainer = trainer
        self.flat = trainer.flat.clone()
        self.at = torch.tensor(lengths, device=trainer.device)

    def look(self, epoch: int) -> bool:
        """Keep the networks that end here; return whether all have."""
        ends = self.at == epoch
        self.flat[ends] = self.trainer.flat[ends]
        return epoch >= int(self.at.max())
