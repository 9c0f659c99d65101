"""What a training step is made of: activation, update, and where numbers lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def activate(
    values: Tensor, bias: Tensor, rows: Tensor, seeds: Tensor, salt: int, share: float
) -> Tensor:
    """Add the bias, take elu, and drop units by a hash.

    Of document, unit, network's seed and ``salt``: so the same units are dropped on
    every device, and whatever else is in the batch.

    Args:
        values: ``[n_networks, n_docs, units]``.
        bias: ``[n_networks, 1, units]``.
        rows: ``[n_docs]`` numbers of the documents, int32; not read if none is dropped.
        seeds: ``[n_networks]`` int32; not read if none is dropped.
        salt: Changes with step and layer.
        share: How many units are dropped.
    """
    if values.is_cuda:
        from affinerank.rankers.cuda import Activation

        made: Tensor = Activation.apply(values, bias, rows, seeds, salt, share)  # type: ignore[no-untyped-call]
        return made
    active = torch.nn.functional.elu(values + bias)
    if share == 0:
        return active
    unit = torch.arange(values.shape[-1], dtype=torch.int32)
    place = rows[:, None] * -1640531535 + unit * -2048144777
    mixed = place[None] ^ (seeds[:, None, None] + salt)
    mixed = (mixed ^ ((mixed >> 15) & 0x1FFFF)) * 739982445
    mixed = (mixed ^ ((mixed >> 12) & 0xFFFFF)) * 695872825
    mixed = (mixed ^ ((mixed >> 15) & 0x1FFFF)) & 0xFFFFFF
    kept = (mixed >= int(share * (1 << 24))).to(values.dtype) / (1.0 - share)
    return active * kept


def elu(values: Tensor, bias: Tensor, layer: int) -> Tensor:
    """Add the bias and take elu: a hidden layer where nothing is dropped."""
    del layer
    nobody = torch.empty(0, dtype=torch.int32, device=values.device)
    return activate(values, bias, nobody, nobody, 0, 0.0)


def adagrad_update(
    flat: Tensor, squares: Tensor, gradient: Tensor, clip_norm: float, rate: float
) -> None:
    """Clip each network's gradient to the largest norm, then step, in place."""
    norm = gradient.square().sum(dim=1, keepdim=True).sqrt()
    clipped = gradient * (clip_norm / norm.clamp(min=1e-30)).clamp(max=1.0)
    squares.add_(clipped * clipped)
    flat.sub_(rate * clipped / torch.sqrt(squares))


def views(flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """Cut ``flat [n, numbers]`` into tensors ``[n, *shape]``, without copying."""
    cut = []
    start = 0
    for shape in shapes:
        size = int(np.prod(shape))
        cut.append(flat[:, start : start + size].view(len(flat), *shape))
        start += size
    return cut


def fused(function: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """Fuse a chain of elementwise operations where launching each is what costs."""
    if device.type != "cuda":
        return function
    if function not in _KEPT:
        _KEPT[function] = torch.compile(function, dynamic=True)
    return _KEPT[function]


_KEPT: dict[Callable[..., Any], Callable[..., Any]] = {}
