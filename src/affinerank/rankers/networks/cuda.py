"""The CUDA kernels: what a chain of torch operations would write to memory, unwritten.

**LambdaLoss** takes ragged lists as they are, and no pair is ever written. The formula
is that of ``losses``; a program works on one network, one list
and a block of its documents, and runs over all documents of the list. Ranks are counted
first (how many known documents score higher), then pairs are added up.

**Activation** adds the bias, takes elu and drops units, in one pass; the formula is
that of ``operations.activate``, and so are the units dropped.
**Head** does this for the last hidden layer and adds up its units, in float32.

A step is a hundred kernels, and launching them takes longer than running them:
:class:`Replayed` records a step once per shape, and replays it as one launch.
"""

# ruff: noqa: D102, N803
# mypy: disable-error-code="untyped-decorator, no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from affinerank.rankers.networks.batches import Batch, RaggedLists

BLOCK = tl.constexpr(32)
ACROSS = tl.constexpr(32)
ROWS = tl.constexpr(32)
UNITS_AT_ONCE = 128
HEAD_TILE = 4096  # documents times units of a program
NUMBERS = tl.constexpr(2048)
Captured = tuple[torch.cuda.CUDAGraph, list[Tensor], Tensor]


class Replayed:
    """A function of tensors, recorded for each shape they have, then replayed.

    What else it reads and writes must stay where it is.
    """

    def __init__(self) -> None:
        self.captured: dict[tuple[torch.Size, ...], Captured] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def call(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Call the function, always the same one; the first time as it is.

        That also compiles kernels, which a recording must not do.
        """
        shapes = tuple(tensor.shape for tensor in tensors)
        if shapes not in self.captured:
            found = function(*tensors)
            inputs, graph = (
                [tensor.clone() for tensor in tensors],
                torch.cuda.CUDAGraph(),
            )
            mode = "thread_local"  # other threads may use the device meanwhile
            with torch.cuda.graph(graph, pool=self.pool, capture_error_mode=mode):
                result = function(*inputs)
            self.captured[shapes] = graph, inputs, result
            return found
        graph, inputs, result = self.captured[shapes]
        for own, given in zip(inputs, tensors, strict=True):
            own.copy_(given)
        graph.replay()
        return result.clone()


def lambda_pairs(scores: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the loss of each network, ``[n_networks]``, and the slope of each score.

    Args:
        scores: ``[n_networks, n_docs]`` float32.
        batch: What the networks learn.
    """
    given = scores, batch.gains, batch.known
    scores, weights, known = (x.contiguous() for x in given)
    ranks = count_ranks(scores, known, batch.lists)
    value, slope = torch.zeros_like(scores), torch.zeros_like(scores)
    _launch(_add_pairs, batch.lists, scores, weights, known, ranks, value, slope)
    return value.sum(dim=1), slope


def count_ranks(scores: Tensor, known: Tensor, lists: RaggedLists) -> Tensor:
    """Rank each document in its list among the known ones, ``[n, n_docs]``, from 0.

    Of equal scores, the document that comes first is ranked first.
    """
    ranks = torch.zeros(scores.shape, dtype=torch.int32, device=scores.device)
    _launch(_count_ranks, lists, scores, known, ranks)
    return ranks


def _launch(kernel: Any, lists: RaggedLists, *tensors: Tensor) -> None:
    """Run programs by list, network and block of documents, if there are any."""
    n_networks, n_docs = tensors[0].shape
    blocks = triton.cdiv(lists.longest, BLOCK.value)
    grid = len(lists.offsets) - 1, n_networks, blocks
    if n_docs:
        kernel[grid](*tensors, lists.offsets, n_docs)


class Activation(torch.autograd.Function):
    """Bias, elu and dropout of a layer; the gradient is made from the layer's input."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, bias: Tensor, *dropped: Any) -> Tensor:
        """Activate; ``dropped`` are rows, seeds, salt and share."""
        ctx.save_for_backward(values, bias)
        ctx.dropped = dropped
        return _activated(None, values, bias, *dropped)[0]

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> tuple[Tensor | None, ...]:
        values, bias = ctx.saved_tensors
        inner, sums = _activated(outer[0].contiguous(), values, bias, *ctx.dropped)
        of_bias = sums.sum(dim=1, keepdim=True).to(inner.dtype)
        return inner, of_bias, None, None, None, None


def _activated(
    outer: Tensor | None, values: Tensor, bias: Tensor, *dropped: Any
) -> tuple[Tensor, Tensor]:
    """Run the kernel forward, or backward from the gradient ``outer``.

    Backward, each program also adds up its own documents, ``[n_networks, programs,
    units]``: the bias's gradient needs no second reading of all.
    """
    *drop, share = dropped
    result = torch.empty_like(values)
    n_networks, n_docs, units = values.shape
    at_once = min(UNITS_AT_ONCE, triton.next_power_of_2(units))
    blocks = triton.cdiv(n_docs, ROWS.value)
    programs = blocks if outer is not None else 0
    sums = result.new_empty((n_networks, programs, units), dtype=torch.float32)
    tensors = (values if outer is None else outer, values, bias, *drop, result, sums)
    numbers = (n_docs, bias.stride(0), *_dropping(share), units)
    if n_docs:
        grid = blocks, n_networks, triton.cdiv(units, at_once)
        _activate[grid](*tensors, *numbers, share > 0, outer is not None, at_once)
    return result, sums


def _dropping(share: float) -> tuple[int, float]:
    """Which hashes are dropped, and how the units that are kept make up for them."""
    return int(share * (1 << 24)), 1.0 / (1.0 - share)


class Head(torch.autograd.Function):
    """The last hidden layer, activated and added up to a score, in float32."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        """Score; given values, bias, weights, shift, rows, seeds, salt and share."""
        ctx.save_for_backward(*given[:-1])
        ctx.share = given[-1]
        shape: torch.Size = given[0].shape[:2]
        scores = torch.empty(shape, dtype=torch.float32, device=given[0].device)
        _run_head(scores, given[0], *given)
        return scores

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> tuple[Tensor | None, ...]:
        values, *others = ctx.saved_tensors
        slope, inner = outer[0].contiguous(), torch.empty_like(values)
        sums = _run_head(slope, inner, values, *others, ctx.share).sum(dim=2)
        totals = sums[0, :, None], sums[1, :, :, None], slope.sum(dim=1)[:, None, None]
        slopes = [t.to(own.dtype) for t, own in zip(totals, others[:3], strict=True)]
        return inner, *slopes, None, None, None, None


def _run_head(scores: Tensor, inner: Tensor, values: Tensor, *others: Any) -> Tensor:
    """Run the kernel forward into ``scores``, or backward from them into ``inner``.

    Backward, each program adds up its own documents for the gradients of bias and
    weights, ``[2, n_networks, programs, units]``. ``others`` are bias, weights, shift,
    rows, seeds, salt and share.
    """
    *tensors, share = others
    n_networks, n_docs, units = values.shape
    width = triton.next_power_of_2(units)
    height = max(HEAD_TILE // width, 1)
    blocks = triton.cdiv(n_docs, height)
    backward = inner is not values
    sums = scores.new_empty((2, n_networks, blocks if backward else 0, units))
    numbers = (n_docs, *(x.stride(0) for x in tensors[:3]), *_dropping(share), units)
    if n_docs:
        _head[(blocks, n_networks)](
            *(scores, inner, values, *tensors, sums, *numbers),
            *(share > 0, backward, height, width),
        )
    return sums


def adagrad(
    flat: Tensor, squares: Tensor, gradient: Tensor, factor: Tensor, rate: float
) -> None:
    """Take a step with gradients times ``factor [n_networks, 1]``, in place."""
    n_networks, size = flat.shape
    grid = triton.cdiv(size, NUMBERS.value), n_networks
    _adagrad[grid](flat, squares, gradient, factor, rate, size)


@triton.jit
def _adagrad(flat, squares, gradient, factor, rate, size):
    place = tl.program_id(0) * NUMBERS + tl.arange(0, NUMBERS)
    inside = place < size
    place += tl.program_id(1).to(tl.int64) * size
    slope = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
    slope *= tl.load(factor + tl.program_id(1))
    total = tl.load(squares + place, mask=inside, other=1.0) + slope * slope
    now = tl.load(flat + place, mask=inside, other=0.0)
    tl.store(squares + place, total, mask=inside)
    tl.store(flat + place, now - rate * slope / tl.sqrt(total), mask=inside)


@triton.jit
def _kept(rows, seeds, salt, network, row, unit, n_docs, threshold):
    """Which units of which documents are not dropped, by a hash."""
    document = tl.load(rows + row, mask=row < n_docs, other=0)
    mixed = (document * -1640531535)[:, None] + (unit * -2048144777)[None, :]
    mixed = mixed ^ (tl.load(seeds + network) + tl.load(salt)).to(tl.int32)
    mixed = (mixed ^ ((mixed >> 15) & 0x1FFFF)) * 739982445
    mixed = (mixed ^ ((mixed >> 12) & 0xFFFFF)) * 695872825
    mixed = (mixed ^ ((mixed >> 15) & 0x1FFFF)) & 0xFFFFFF
    return mixed >= threshold


@triton.jit(do_not_specialize=["n_docs"])
def _activate(
    outer,
    values,
    bias,
    rows,
    seeds,
    salt,
    result,
    sums,
    n_docs,
    bias_stride,
    threshold,
    scale,
    UNITS: tl.constexpr,
    DROPS: tl.constexpr,
    BACKWARD: tl.constexpr,
    AT_ONCE: tl.constexpr,
):
    block = tl.program_id(0)
    network = tl.program_id(1)
    row = block * ROWS + tl.arange(0, ROWS)
    unit = tl.program_id(2) * AT_ONCE + tl.arange(0, AT_ONCE)
    inside = (row < n_docs)[:, None] & (unit < UNITS)[None, :]
    place = network.to(tl.int64) * n_docs * UNITS + row[:, None] * UNITS + unit[None, :]
    x = tl.load(values + place, mask=inside, other=0.0).to(tl.float32)
    own = bias + network * bias_stride + unit
    x += tl.load(own, mask=unit < UNITS, other=0.0).to(tl.float32)[None, :]
    below = tl.exp(tl.minimum(x, 0.0))
    if BACKWARD:
        y = tl.where(x > 0, 1.0, below)
        y *= tl.load(outer + place, mask=inside, other=0.0).to(tl.float32)
    else:
        y = tl.where(x > 0, x, below - 1.0)
    if DROPS:
        kept = _kept(rows, seeds, salt, network, row, unit, n_docs, threshold)
        y = tl.where(kept, y * scale, 0.0)
    tl.store(result + place, y.to(result.dtype.element_ty), mask=inside)
    if BACKWARD:
        total = tl.sum(tl.where(inside, y, 0.0), axis=0)
        at = (network.to(tl.int64) * tl.num_programs(0) + block) * UNITS + unit
        tl.store(sums + at, total, mask=unit < UNITS)


@triton.jit(do_not_specialize=["n_docs"])
def _head(
    scores,
    inner,
    values,
    bias,
    weights,
    shift,
    rows,
    seeds,
    salt,
    sums,
    n_docs,
    bias_stride,
    weights_stride,
    shift_stride,
    threshold,
    scale,
    UNITS: tl.constexpr,
    DROPS: tl.constexpr,
    BACKWARD: tl.constexpr,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    block = tl.program_id(0)
    network = tl.program_id(1)
    row = block * HEIGHT + tl.arange(0, HEIGHT)
    unit = tl.arange(0, WIDTH)
    inside = (row < n_docs)[:, None] & (unit < UNITS)[None, :]
    start = network.to(tl.int64) * n_docs
    place = start * UNITS + row[:, None] * UNITS + unit[None, :]
    x = tl.load(values + place, mask=inside, other=0.0).to(tl.float32)
    own = bias + network * bias_stride + unit
    x += tl.load(own, mask=unit < UNITS, other=0.0).to(tl.float32)[None, :]
    own = weights + network * weights_stride + unit
    w = tl.load(own, mask=unit < UNITS, other=0.0).to(tl.float32)[None, :]
    below = tl.exp(tl.minimum(x, 0.0))
    y = tl.where(x > 0, x, below - 1.0)
    slope = tl.where(x > 0, 1.0, below)
    if DROPS:
        kept = _kept(rows, seeds, salt, network, row, unit, n_docs, threshold)
        y = tl.where(kept, y * scale, 0.0)
        slope = tl.where(kept, slope * scale, 0.0)
    if BACKWARD:
        outer = tl.load(scores + start + row, mask=row < n_docs, other=0.0)[:, None]
        slope = tl.where(inside, slope * w * outer, 0.0)
        tl.store(inner + place, slope.to(inner.dtype.element_ty), mask=inside)
        at = (network.to(tl.int64) * tl.num_programs(0) + block) * UNITS + unit
        tl.store(sums + at, tl.sum(slope, axis=0), mask=unit < UNITS)
        at += tl.num_programs(1).to(tl.int64) * tl.num_programs(0) * UNITS
        of_weights = tl.sum(tl.where(inside, y * outer, 0.0), axis=0)
        tl.store(sums + at, of_weights, mask=unit < UNITS)
    else:
        total = tl.sum(y * w, axis=1)
        total += tl.load(shift + network * shift_stride).to(tl.float32)
        tl.store(scores + start + row, total, mask=row < n_docs)


@triton.jit
def _count_ranks(scores, known, ranks, offsets, n_docs):
    start = tl.load(offsets + tl.program_id(0))
    size = tl.load(offsets + tl.program_id(0) + 1) - start
    first = tl.program_id(2) * BLOCK
    if first < size:
        base = tl.program_id(1).to(tl.int64) * n_docs + start
        i = first + tl.arange(0, BLOCK)
        s_i = tl.load(scores + base + i, mask=i < size, other=0.0)
        above = tl.zeros([BLOCK], dtype=tl.int32)
        for begin in range(0, size, ACROSS):
            j = begin + tl.arange(0, ACROSS)
            s_j = tl.load(scores + base + j, mask=j < size, other=0.0)
            there = tl.load(known + base + j, mask=j < size, other=0) != 0
            higher = s_j[None, :] > s_i[:, None]
            tie = (s_j[None, :] == s_i[:, None]) & (j[None, :] < i[:, None])
            above += tl.sum(((higher | tie) & there[None, :]).to(tl.int32), axis=1)
        tl.store(ranks + base + i, above, mask=i < size)


@triton.jit
def _add_pairs(scores, weights, known, ranks, value, slope, offsets, n_docs):
    start = tl.load(offsets + tl.program_id(0))
    size = tl.load(offsets + tl.program_id(0) + 1) - start
    first = tl.program_id(2) * BLOCK
    if first < size:
        base = tl.program_id(1).to(tl.int64) * n_docs + start
        i = first + tl.arange(0, BLOCK)
        s_i = tl.load(scores + base + i, mask=i < size, other=0.0)
        w_i = tl.load(weights + base + i, mask=i < size, other=0.0)
        r_i = tl.load(ranks + base + i, mask=i < size, other=0)
        total = tl.zeros([BLOCK], dtype=tl.float32)
        steepness = tl.zeros([BLOCK], dtype=tl.float32)
        to_bits = 1.4426950408889634  # 1 / ln 2
        for begin in range(0, size, ACROSS):
            j = begin + tl.arange(0, ACROSS)
            s_j = tl.load(scores + base + j, mask=j < size, other=0.0)
            w_j = tl.load(weights + base + j, mask=j < size, other=0.0)
            r_j = tl.load(ranks + base + j, mask=j < size, other=0)
            there = tl.load(known + base + j, mask=j < size, other=0) != 0
            higher = w_i[:, None] - w_j[None, :]
            gap = s_j[None, :] - s_i[:, None]
            x = tl.where(higher > 0, gap, -gap)
            apart = tl.maximum(tl.abs(r_i[:, None] - r_j[None, :]), 1).to(tl.float32)
            nearer, farther = tl.log2(apart + 1.0), tl.log2(apart + 2.0)
            close = (farther - nearer) / (farther * nearer)
            strength = tl.where(there[None, :], close * higher, 0.0)
            small = tl.exp(-tl.abs(x))
            bits = tl.maximum(x, 0.0) * to_bits + tl.log2(1.0 + small)
            total += tl.sum(tl.abs(strength) * bits, axis=1)
            share = tl.where(x > 0, 1.0, small) / (1.0 + small)
            steepness -= tl.sum(strength * share, axis=1)
        here = tl.load(known + base + i, mask=i < size, other=0) != 0
        tl.store(value + base + i, tl.where(here, 0.5 * total, 0.0), mask=i < size)
        tl.store(
            slope + base + i, tl.where(here, to_bits * steepness, 0.0), mask=i < size
        )
