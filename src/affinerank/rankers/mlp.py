"""Neural rankers: many networks of one shape, trained at once on shared features.

A stack of ``n`` networks is one set of tensors with a leading axis of ``n``; one
network is the case ``n = 1``. They share features and batches; each has its own
weights, mask, and seed for initialisation and dropout. A network's batches and
initialisation do not depend on which others are beside it.

Documents are never padded here: a batch is the documents of its queries, one after
another, and only the pairwise loss gathers lists of similar length.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from affinerank.data.features import FeatureMapping
from affinerank.errors import ConfigError, DataError
from affinerank.rankers.folder import read_about, write_folder
from affinerank.rankers.losses import LOSSES
from affinerank.rankers.operations import elu

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DOCS_AT_ONCE = 16_384  # bounds the memory of scoring
ALIGNED = 8  # features are filled up to a multiple, which matrix units want


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Shape and training of a network; the defaults are the paper's.

    Attributes:
        hidden: Sizes of the hidden layers, elu between them.
        dropout: Dropout after each hidden layer; left out, none after the first and 0.1
            after the others.
        loss: ``lambda``, ``squared`` or ``softmax``.
        learning_rate: Of AdaGrad; the paper has 0.004 for Yahoo and 0.02 for MSLR.
        initial_accumulator: Of AdaGrad.
        epochs: Passes over the queries.
        batch_queries: Queries a step.
        clip_norm: Largest norm of a network's gradient.
        data_seed: Seed of the order of queries.
        patience: With validation weights, stop after so many epochs without gain and
            keep the best; ``None`` trains all epochs.
        device: ``auto``, ``cpu``, ``cuda`` ...
        precision: Of matrix products on CUDA.
    """

    hidden: tuple[int, ...] = (512, 256, 128)
    dropout: tuple[float, ...] = ()
    loss: str = "lambda"
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
        """Refuse what cannot be trained; give dropout its value."""
        if not self.dropout and self.hidden:
            others = (0.1,) * (len(self.hidden) - 1)
            object.__setattr__(self, "dropout", (0.0, *others))
        if not self.hidden or min(self.hidden) < 1:
            raise ConfigError(f"hidden layers need 1 unit or more, got {self.hidden}")
        if len(self.dropout) != len(self.hidden):
            raise ConfigError(
                f"dropout needs one share for each of {len(self.hidden)} hidden "
                f"layers, got {len(self.dropout)}"
            )
        if not all(0 <= share < 1 for share in self.dropout):
            raise ConfigError(f"dropout must be from 0 to below 1, got {self.dropout}")
        if self.loss not in LOSSES:
            raise ConfigError(f"loss must be {', '.join(LOSSES)}, got {self.loss!r}")
        if self.precision not in ("float32", "tf32", "bfloat16"):
            raise ConfigError(
                f"precision must be float32, tf32 or bfloat16, got {self.precision!r}"
            )
        for name in ("learning_rate", "initial_accumulator", "clip_norm"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0, got {getattr(self, name)}")
        for name in ("epochs", "batch_queries"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"{name} must be 1 or more, got {getattr(self, name)}"
                )


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """A stack of trained networks.

    Attributes:
        parameters: Weights ``[n, inputs, outputs]`` and biases ``[n, 1, outputs]`` of
            each layer, in turn.
        n_features: Features they read.
        settings: How they were trained.
        seeds: Of each.
    """

    parameters: tuple[Tensor, ...]
    n_features: int
    settings: NetworkSettings
    seeds: tuple[int, ...]

    def __len__(self) -> int:
        """Number of networks."""
        return len(self.seeds)

    @classmethod
    def together(cls, stacks: Sequence[Networks]) -> Networks:
        """One stack of several, trained alike on the same features."""
        parameters = zip(*(stack.parameters for stack in stacks), strict=True)
        return cls(
            tuple(torch.cat(same) for same in parameters),
            stacks[0].n_features,
            stacks[0].settings,
            tuple(seed for stack in stacks for seed in stack.seeds),
        )

    def predict(self, features: NDArray[np.float32]) -> Floats:
        """Scores ``[n_networks, n_docs]``, in bounded memory."""
        if features.shape[1] != self.n_features:
            raise DataError(
                f"these networks read {self.n_features} features, "
                f"got {features.shape[1]}"
            )
        require_numbers(features)
        scores = np.empty((len(self), len(features)))
        device = self.parameters[0].device
        with torch.no_grad():
            for i in range(0, len(features), DOCS_AT_ONCE):
                block = on_device(features[i : i + DOCS_AT_ONCE], device)
                part = forward(self.parameters, block, elu)
                scores[:, i : i + DOCS_AT_ONCE] = part.double().cpu().numpy()
        return scores


def forward(
    parameters: Sequence[Tensor],
    features: Tensor,
    activate: Callable[[Tensor, Tensor, int], Tensor],
) -> Tensor:
    """Scores ``[n_networks, n_docs]`` of ``features [n_docs, n_features]``.

    Features that are not filled up to what the first layer reads are here. ``activate``
    takes the values of each hidden layer, its bias and its number.
    """
    n, inputs = len(parameters[0]), parameters[0].shape[1]
    filling = inputs - features.shape[1]
    filled = torch.nn.functional.pad(features, (0, filling)) if filling else features
    values = filled.expand(n, -1, -1)
    layers = len(parameters) // 2
    for layer in range(layers):
        weight, bias = parameters[2 * layer], parameters[2 * layer + 1]
        values = torch.bmm(values, weight)
        last = layer == layers - 1
        values = values + bias if last else activate(values, bias, layer)
    return values.squeeze(-1)


def parameter_shapes(
    n_features: int, settings: NetworkSettings
) -> list[tuple[int, int]]:
    """Shapes of each layer's weights and biases, in turn."""
    sizes = [n_features + -n_features % ALIGNED, *settings.hidden, 1]
    shapes = []
    for inputs, outputs in pairwise(sizes):
        shapes += [(inputs, outputs), (1, outputs)]
    return shapes


def initial_parameters(
    n_features: int, seeds: Sequence[int], settings: NetworkSettings
) -> list[Tensor]:
    """Glorot-uniform weights and biases of 0.1, each network's from its own seed."""
    sizes = [n_features, *settings.hidden, 1]
    filled = -(-n_features // ALIGNED) * ALIGNED
    stacks: list[list[Tensor]] = [[] for _ in range(2 * (len(sizes) - 1))]
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
            bound = (6.0 / (inputs + outputs)) ** 0.5
            weight = (
                torch.rand(inputs, outputs, generator=generator) * 2 * bound - bound
            )
            if layer == 0:
                weight = torch.nn.functional.pad(weight, (0, 0, 0, filled - inputs))
            stacks[2 * layer].append(weight)
            stacks[2 * layer + 1].append(torch.full((1, outputs), 0.1))
    return [torch.stack(tensors) for tensors in stacks]


@dataclass(frozen=True, slots=True, eq=False)
class MLPRanker:
    """One trained network and the features it reads.

    Attributes:
        networks: A stack of one.
        mapping: What is done to raw features first.
        provenance: How it was trained, for the reader of its file.
    """

    networks: Networks
    mapping: FeatureMapping
    provenance: Mapping[str, Any]

    def predict(self, features: NDArray[np.float32]) -> Floats:
        """Score documents from mapped features ``[n_docs, n_features]``."""
        scores: Floats = self.networks.predict(features)[0]
        return scores

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``ranker.json`` and ``model.safetensors`` into a new folder."""
        settings = asdict(self.networks.settings)
        about = {"settings": settings, "seeds": list(self.networks.seeds)}
        tensors = {
            f"parameter.{i}": parameter.cpu().contiguous()
            for i, parameter in enumerate(self.networks.parameters)
        }
        write_folder(
            Path(folder),
            kind="mlp",
            mapping=self.mapping,
            provenance=self.provenance,
            about=about,
            files={"model.safetensors": save_tensors(tensors)},
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> MLPRanker:
        """Read a folder that :meth:`save` wrote; tensors hold no code."""
        about, mapping = read_about(Path(folder), kind="mlp")
        path = Path(folder) / "model.safetensors"
        try:
            raw = about["settings"]
            settings = NetworkSettings(
                **{
                    **raw,
                    "hidden": tuple(raw["hidden"]),
                    "dropout": tuple(raw["dropout"]),
                }
            )
            tensors = load_tensors(path.read_bytes())
            wanted = parameter_shapes(len(mapping.names), settings)
            parameters = tuple(tensors[f"parameter.{i}"] for i in range(len(wanted)))
            seeds = tuple(int(seed) for seed in about["seeds"])
        except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
            raise DataError(
                f"{path.parent}: not a ranker saved by AffineRank ({error!r:.200})"
            ) from None
        shapes = [tuple(p.shape) for p in parameters]
        if shapes != [(1, *shape) for shape in wanted]:
            raise DataError(
                f"{path}: the tensors have shapes {shapes}, "
                f"and {path.parent / 'ranker.json'} speaks of {wanted}"
            )
        for p in parameters:
            if p.dtype != torch.float32 or not bool(torch.isfinite(p).all()):
                raise DataError(f"{path}: the tensors must be finite, of float32")
        networks = Networks(parameters, len(mapping.names), settings, seeds)
        return cls(networks, mapping, about["provenance"])


def on_device(features: NDArray[np.float32], device: torch.device) -> Tensor:
    """Move features to the device, filled up with zeros to a multiple of 8 columns.

    On the CPU they stay where they are, as they are: there may be more than fit twice.
    """
    if device.type == "cpu":
        with warnings.catch_warnings():
            # That they may not be written to: nobody does.
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            return torch.from_numpy(features)
    n_docs, n_features = features.shape
    filled = np.zeros((n_docs, n_features + -n_features % ALIGNED), dtype=np.float32)
    filled[:, :n_features] = features
    return torch.from_numpy(filled).to(device)


def require_numbers(features: NDArray[np.float32]) -> None:
    """Refuse missing values, which a network cannot read."""
    for start in range(0, len(features), DOCS_AT_ONCE):
        bad = np.argwhere(~np.isfinite(features[start : start + DOCS_AT_ONCE]))
        if len(bad):
            row, column = bad[0]
            raise DataError(
                f"document {start + row}, feature {column + 1}: the value is missing, "
                "and this network was not taught what to put there; read the data with "
                "a number in place of missing values (--missing 0)"
            )
