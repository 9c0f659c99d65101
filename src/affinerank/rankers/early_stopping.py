"""Early stopping: each network as it was when held-out clicks liked it best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from affinerank.errors import ConfigError
from affinerank.metrics import discount, ranks_by_score
from affinerank.rankers.mlp import Networks
from affinerank.rankers.targets import Targets

if TYPE_CHECKING:
    from affinerank.rankers.training import NetworkTrainer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """Held-out queries to judge rankers by: the DCG that their weights estimate."""

    features: NDArray[np.float32]
    targets: Targets
    offsets: Ints

    def values(self, networks: Networks) -> Floats:
        """Estimated DCG of each network, ``[n]``."""
        scored = networks.predict(self.features)
        return np.array([self.value(i, scores) for i, scores in enumerate(scored)])

    def value(self, i: int, scores: Floats) -> float:
        """Estimated DCG that ``scores [n_docs]`` have under the targets of ranker i.

        Over shown documents alone, each query times its share.
        """
        shown = self.targets.shown[i]
        # Unseen documents go last: ranked among the others, they would count as 0.
        ranks = ranks_by_score(np.where(shown, scores, -np.inf), self.offsets)
        share = self.targets.of_queries(self.offsets)[i]
        weighed = self.targets.weights[i] * np.repeat(share, np.diff(self.offsets))
        return float(np.sum((weighed * discount(ranks))[shown]))


class Best:
    """The best each network has been, and for how many epochs it was not better.

    A network whose own patience is at its end stays as it was best, whatever the
    others do: its result does not depend on them.
    """

    def __init__(self, trainer: NetworkTrainer, validation: Validation | None) -> None:
        if validation is None:
            raise ConfigError("early stopping (patience) needs validation weights")
        self.trainer = trainer
        self.validation = validation
        self.values = np.full(len(trainer.seeds), -np.inf)
        self.flat = trainer.flat.clone()
        self.waited = np.zeros(len(trainer.seeds), dtype=np.int64)

    def should_stop(self) -> bool:
        """Judge the networks as they are now; tell whether all patience is spent."""
        patience = self.trainer.settings.patience or 0
        waiting = self.waited < patience
        values = self.validation.values(self.trainer.networks())
        better = (values > self.values) & waiting
        chosen = torch.from_numpy(better).to(self.flat.device)[:, None]
        self.flat = torch.where(chosen, self.trainer.flat, self.flat)
        self.values = np.where(better, values, self.values)
        self.waited = np.where(better, 0, self.waited + 1)
        return bool(np.all(self.waited >= patience))

    def networks(self) -> Networks:
        """The best of each network."""
        return self.trainer.networks(self.flat)
