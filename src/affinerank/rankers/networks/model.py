"""Trained networks: many of one shape are one set of tensors, one is the case n = 1.

Networks of a stack share features. Each has its own parameters and seed, and does not
depend on which others are beside it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor
from torch.nn.functional import pad

from affinerank.rankers.networks.operations import activate, activate_and_score
from affinerank.rankers.networks.settings import (
    ALIGNED,
    NetworkSettings,
    parameter_shapes,
)
from affinerank.rankers.targets import require_numbers
from affinerank.support import limits
from affinerank.support.arrays import Floats, Matrix
from affinerank.support.errors import ConfigError, DataError
from affinerank.support.files import existing_file
from affinerank.support.large_arrays import passed
from affinerank.support.settings import from_table

if TYPE_CHECKING:
    from affinerank.export.onnx import Graph

DOCS_AT_ONCE = 16_384  # of one network; with the next, bounds the memory of scoring
MIN_AT_ONCE = 2048
TENSORS = "model.safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """A stack of networks; a stack of one is the model of a ranker.

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

    def apart(self) -> list[Networks]:
        """Return each network as a stack of one, without copying."""
        split = zip(*(torch.split(p, 1) for p in self.parameters), strict=True)
        return [
            replace(self, parameters=own, seeds=(seed,))
            for own, seed in zip(split, self.seeds, strict=True)
        ]

    @property
    def alike(self) -> tuple[Any, ...]:
        """What networks must have in common to be one stack."""
        first = self.parameters[0]
        return (first.device, self.n_features, *(p.shape[1:] for p in self.parameters))

    def predict(self, features: Matrix) -> Floats:
        """Score documents by a stack of one: ``[n_docs]``."""
        (scores,) = self.scores(features)
        return np.asarray(scores)

    def predict_together(self, others: Sequence[Networks], features: Matrix) -> Floats:
        """Score documents by networks of this shape, ``[n, n_docs]``, in one pass."""
        same = zip(*(other.parameters for other in others), strict=True)
        seeds = tuple(seed for other in others for seed in other.seeds)
        stack = replace(self, parameters=tuple(map(torch.cat, same)), seeds=seeds)
        return stack.scores(features)

    def scores(self, features: Matrix) -> Floats:
        """Score documents by each network, ``[n, n_docs]``."""
        require_numbers(features)
        found = score_blocks(self.parameters, as_tensor(features))
        return found.cpu().double().numpy()

    def files(self) -> Mapping[str, bytes]:
        """Return the tensors of a stack of one as a file; it holds no code."""
        tensors = {
            f"parameter.{i}": parameter.cpu().clone()
            for i, parameter in enumerate(self.parameters)
        }
        return {TENSORS: save_tensors(tensors)}

    def about(self) -> dict[str, Any]:
        """Return settings and seed."""
        return {"settings": asdict(self.settings), "seeds": list(self.seeds)}

    def add_to_onnx(self, graph: Graph, values: str) -> str:
        """Add the layers, elu between them; columns that only fill up are left out."""
        tensors = [p[0].cpu().numpy() for p in self.parameters]
        tensors[0] = tensors[0][: self.n_features]
        layers = list(zip(tensors[::2], tensors[1::2], strict=True))
        for i, (weights, biases) in enumerate(layers):
            weight = graph.constant(f"weight.{i}", weights)
            bias = graph.constant(f"bias.{i}", biases)
            values = graph.add("MatMul", [values, weight], f"product.{i}")
            values = graph.add("Add", [values, bias], f"sum.{i}")
            if i < len(layers) - 1:
                values = graph.add("Elu", [values], f"layer.{i}", alpha=1.0)
        return values


def load_network(folder: Path, about: dict[str, Any], n_features: int) -> Networks:
    """Read one network from a ranker's folder."""
    settings = from_table(NetworkSettings, about["settings"], "settings")
    seeds = about.get("seeds")
    if not isinstance(seeds, list) or [type(seed) for seed in seeds] != [int]:
        raise ConfigError(f"seeds must be one whole number, got {seeds!r:.60}")
    path = existing_file(folder / TENSORS)
    wanted = [(1, *shape) for shape in parameter_shapes(n_features, settings)]
    if path.stat().st_size > limits.MODEL_BYTES:
        raise DataError(f"{path}: expected at most {limits.MODEL_BYTES:,} bytes")
    tensors = load_tensors(path.read_bytes())
    parameters = tuple(tensors[f"parameter.{i}"] for i in range(len(wanted)))
    shapes = [tuple(p.shape) for p in parameters]
    if shapes != wanted:
        raise DataError(
            f"{path}: the tensors have shapes {shapes!s:.200}, and by the settings and "
            f"{n_features} features they should have {wanted!s:.200}"
        )
    for p in parameters:
        if p.dtype != torch.float32 or not bool(torch.isfinite(p).all()):
            raise DataError(f"{path}: the tensors must be finite, of float32")
    return Networks(parameters, n_features, settings, tuple(seeds))


def forward(
    parameters: Sequence[Tensor],
    features: Tensor,
    dropped: Callable[[int], tuple[Any, ...]] | None = None,
) -> Tensor:
    """Score ``features [n_docs, n_features]`` by each network, ``[n, n_docs]``.

    Features are filled up to what the first layer reads. ``dropped`` takes the number
    of a hidden layer, and returns what :func:`activate` needs to know to drop units.
    """
    n, inputs = parameters[0].shape[:2]
    values = _filled_up(features, inputs - features.shape[1]).expand(n, -1, -1)
    nobody = torch.empty(0, dtype=torch.int32, device=values.device)
    *hidden, head = zip(parameters[::2], parameters[1::2], strict=True)
    for layer, (weight, bias) in enumerate(hidden):
        product = torch.bmm(values, weight)
        how = dropped(layer) if dropped else (nobody, nobody, nobody, 0.0)
        if layer < len(hidden) - 1:
            values = activate(product, bias, *how)
    return activate_and_score(product, bias, *head, *how)


def score_blocks(parameters: Sequence[Tensor], features: Tensor) -> Tensor:
    """Score ``features`` without dropout, ``[n, n_docs]``, in bounded memory."""
    first = parameters[0]
    at_once = max(MIN_AT_ONCE, DOCS_AT_ONCE // len(first))
    with torch.no_grad():
        blocks = [
            forward(parameters, block.to(first.device, first.dtype))
            for block in torch.split(features, at_once)
        ]
    return torch.cat(blocks, dim=1).float()


def initial_parameters(
    n_features: int, seeds: Sequence[int], settings: NetworkSettings
) -> list[Tensor]:
    """Draw Glorot-uniform weights, and biases of 0.1, of each network by its seed."""

    def drawn(seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        tensors = []
        for inputs, outputs in pairwise([n_features, *settings.hidden, 1]):
            bound = (6.0 / (inputs + outputs)) ** 0.5
            unit = torch.rand(inputs, outputs, generator=generator)
            tensors += [unit * 2 * bound - bound, torch.full((1, outputs), 0.1)]
        tensors[0] = pad(tensors[0], (0, 0, 0, -n_features % ALIGNED))
        return tensors

    return [torch.stack(same) for same in zip(*map(drawn, seeds), strict=True)]


def as_tensor(features: Matrix) -> Tensor:
    """View features as a tensor, without copying: there may be more than fit twice."""
    with warnings.catch_warnings():
        # They may not be written to, and nothing does.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(features)


def on_device(features: Matrix, device: torch.device) -> Tensor:
    """Move features to the device, filled up with zeros to a multiple of 8 columns.

    On the CPU they stay where they are, as they are.
    """
    if device.type == "cpu":
        return as_tensor(features)
    n_docs, n_features = features.shape
    moved = torch.zeros(n_docs, n_features + -n_features % ALIGNED, device=device)
    for some in passed(features):
        moved[some, :n_features] = as_tensor(features[some]).to(device)
    return moved


def _filled_up(features: Tensor, filling: int) -> Tensor:
    return pad(features, (0, filling)) if filling else features
