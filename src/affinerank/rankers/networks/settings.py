"""The network ranker, a multi-layer perceptron: its settings and its row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from affinerank.defaults import LOSS
from affinerank.rankers.networks.losses import Loss
from affinerank.rankers.ranker import RankerKind
from affinerank.support import limits
from affinerank.support.errors import ConfigError
from affinerank.support.extras import require_library
from affinerank.support.registry import later
from affinerank.support.settings import require_at_least, require_choice

ALIGNED = 8  # features are filled up to a multiple, which matrix units want
PRECISIONS = ("float32", "tf32", "bfloat16")


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Shape and training of a network; most defaults are the paper's.

    Attributes:
        hidden: Sizes of the hidden layers, elu between them.
        dropout: Dropout after each hidden layer; left out, none after the first and 0.1
            after the others.
        loss: A row of ``LOSSES``, with its options.
        learning_rate: Of AdaGrad; the paper has 0.004 for Yahoo and 0.02 for MSLR.
        initial_accumulator: Of AdaGrad.
        epochs: Passes over the queries.
        batch_queries: Queries per step.
        clip_norm: Largest norm of a network's gradient.
        data_seed: Seed of the order of queries.
        patience: With validation weights, stop after so many epochs without gain;
            ``None`` trains all epochs.
        device: ``auto``, ``cpu``, ``cuda`` ...
        precision: Of matrix products on CUDA.
    """

    hidden: tuple[int, ...] = (512, 256, 128)
    dropout: tuple[float, ...] = ()
    loss: str = LOSS
    learning_rate: float = 0.02
    initial_accumulator: float = 0.1
    epochs: int = 32
    batch_queries: int = 32
    clip_norm: float = 50.0
    data_seed: int = 0
    patience: int | None = None
    device: str = "auto"
    precision: str = "float32"

    def __post_init__(self) -> None:
        """Reject what cannot be trained."""
        require_library("torch")
        layers = len(self.hidden)
        if not layers or min(self.hidden) < 1:
            raise ConfigError(f"hidden layers need 1 unit or more, got {self.hidden}")
        shares = [share for share in self.dropped if 0 <= share < 1]
        if not len(shares) == len(self.dropped) == layers:
            raise ConfigError(
                f"dropout must be {layers} shares from 0 to below 1, one for each "
                f"hidden layer, got {self.dropout}"
            )
        Loss.named(self.loss)
        require_choice("precision", self.precision, PRECISIONS)
        require_at_least(
            self,
            least={"epochs": 1, "batch_queries": 1, "patience": 1, "data_seed": 0},
            most={"epochs": limits.EPOCHS},
            positive=("learning_rate", "initial_accumulator", "clip_norm"),
        )
        size = 4 * sum(map(math.prod, parameter_shapes(1, self)))
        if size > limits.MODEL_BYTES:
            raise ConfigError(
                f"hidden layers must take at most {limits.MODEL_BYTES:,} bytes, got "
                f"{self.hidden!s:.60}"
            )

    @property
    def dropped(self) -> tuple[float, ...]:
        """Share of units dropped after each hidden layer."""
        return self.dropout or (0.0, *[0.1] * (len(self.hidden) - 1))


def parameter_shapes(
    n_features: int, settings: NetworkSettings
) -> list[tuple[int, int]]:
    """Return the shapes of each layer's weights and biases, in turn."""
    sizes = [n_features + -n_features % ALIGNED, *settings.hidden, 1]
    shapes = []
    for inputs, outputs in pairwise(sizes):
        shapes += [(inputs, outputs), (1, outputs)]
    return shapes


ROW = RankerKind(
    "mlp",
    "Neural network",
    NetworkSettings,
    later("affinerank.rankers.networks.training:fit_networks"),
    later("affinerank.rankers.networks.model:load_network"),
    tuned_rate=True,
    explains_clicks=True,
    patience=8,
    rates=(0.001, 0.004),
    pace=15.0,
)
