"""What a training step is made of: activation, update, and where numbers lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def activate(
    values: Tensor,
    bias: Tensor,
    rows: Tensor,
    seeds: Tensor,
    salt: Tensor,
    share: float,
) -> Tensor:
    """Add the bias, take elu, and drop units by a hash.

    The hash is of document, unit, network's seed and ``salt``, so the same units are
    dropped on every device, and whatever else is in the batch.

    Args:
        values: ``[n_networks, n_docs, units]``.
        bias: ``[n_networks, 1, units]``.
        rows: ``[n_docs]`` numbers of the documents, int32; not read if none is dropped.
        seeds: ``[n_networks]`` int32; not read if none is dropped.
        salt: One number, int32, that changes with step and layer; not read likewise.
        share: Share of the units that is dropped.
    """
    if values.is_cuda:
        from affinerank.rankers.networks.cuda import Activation

        return Activation.apply(values, bias, rows, seeds, salt, share)  # type: ignore[no-any-return, no-untyped-call]
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


def activate_and_score(
    values: Tensor, bias: Tensor, weights: Tensor, shift: Tensor, *dropped: Any
) -> Tensor:
    """Activate the last hidden layer and add up its units, ``[n_networks, n_docs]``.

    Args:
        values: ``[n_networks, n_docs, units]``, as ``bias`` and ``dropped`` those of
            :func:`activate`.
        bias: ``[n_networks, 1, units]``.
        weights: ``[n_networks, units, 1]``.
        shift: ``[n_networks, 1, 1]``.
        dropped: Rows, seeds, salt and share.
    """
    if values.is_cuda:
        from affinerank.rankers.networks.cuda import Head

        return Head.apply(values, bias, weights, shift, *dropped)  # type: ignore[no-any-return, no-untyped-call]
    return (torch.bmm(activate(values, bias, *dropped), weights) + shift).squeeze(-1)


def mixed_seed(number: int) -> int:
    """Spread a whole number over 32 bits, signed, as :func:`activate` takes it."""
    mixed = (number * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64
    mixed = ((mixed ^ (mixed >> 31)) * 0xBF58476D1CE4E5B9) % 2**64
    return (mixed >> 32) - 2**31


def adagrad_update(
    flat: Tensor, squares: Tensor, gradient: Tensor, clip_norm: float, rate: float
) -> None:
    """Clip each network's gradient to the largest norm, then step, in place."""
    norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True, dtype=torch.float32)
    factor = (clip_norm / norm.clamp(min=1e-30)).clamp(max=1.0)
    if flat.is_cuda:
        from affinerank.rankers.networks.cuda import adagrad

        adagrad(flat, squares, gradient, factor, rate)
        return
    clipped = gradient * factor
    squares.add_(clipped * clipped)
    flat.sub_(rate * clipped / torch.sqrt(squares))


def views(flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """Cut ``flat [n, numbers]`` into tensors ``[n, *shape]``, without copying."""
    sizes = [math.prod(shape) for shape in shapes]
    parts = torch.split(flat[:, : sum(sizes)], sizes, dim=1)
    return [p.view(len(flat), *shape) for p, shape in zip(parts, shapes, strict=True)]
