"""Speed of training: the loss against a free one, stacks against one, CUDA throughput.

    python benchmarks/networks.py            # on the CPU: ratios, side by side
    python benchmarks/networks.py --cuda     # on a GPU: TFLOP/s, memory

Work is counted as 6 x weights x documents per step, the loss included in the time.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from affinerank.rankers import Targets
from affinerank.rankers.networks.batches import Batch, RaggedLists
from affinerank.rankers.networks.loss_functions import lambda_loss
from affinerank.rankers.networks.operations import activate
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.rankers.networks.training import NetworkTrainer

Value = Callable[[Tensor, Batch], Tensor]

FEATURES = 136


def free_loss(scores: Tensor, batch: Batch) -> Tensor:
    """A loss that costs nothing: the sum of weighted scores."""
    return (scores * batch.weights).sum(dim=1)


def loop_loss(scores: Tensor, batch: Batch) -> Tensor:
    """The same loss as LambdaLoss, a Python loop over queries, in float64."""
    total = scores.new_zeros(len(scores), dtype=torch.float64)
    for index, held in batch.lists.groups():
        for row, mask in zip(index, held, strict=True):
            s = scores[:, row[mask]].double()
            w = batch.weights[:, row[mask]].double()
            rank = s.argsort(dim=1, descending=True).argsort(dim=1) + 1
            apart = (rank[:, :, None] - rank[:, None, :]).abs().clamp(min=1)
            close = 1 / torch.log2(apart + 1.0) - 1 / torch.log2(apart + 2.0)
            gain = (w[:, :, None] - w[:, None, :]).clamp(min=0.0)
            gap = s[:, :, None] - s[:, None, :]
            pair = torch.log1p(torch.exp(-gap.abs())) + (-gap).clamp(min=0.0)
            total = total + (gain * close * pair).sum(dim=(1, 2)) / math.log(2.0)
    return total


def trainer(
    sizes: NDArray[np.int64], n_networks: int, settings: NetworkSettings
) -> NetworkTrainer:
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    features = rng.random((offsets[-1], FEATURES), dtype=np.float32)
    weights = rng.normal(size=(n_networks, offsets[-1]))
    made = NetworkTrainer(features, offsets, list(range(n_networks)), settings)
    made.set_targets(Targets(weights, np.ones(weights.shape, dtype=bool)))
    return made


def seconds(work: Callable[[], object], repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def step_seconds(
    sizes: NDArray[np.int64], loss: Value, n_networks: int = 1, repeats: int = 7
) -> float:
    made = trainer(sizes, n_networks, NetworkSettings(device="cpu"))
    made.value = loss
    (sample,) = made.sampled([np.arange(len(sizes))])
    return seconds(lambda: made.step(sample), repeats)


def on_cpu() -> None:
    even = np.full(32, 125)
    uneven = np.array([125] * 31 + [1000])
    print("batch of 32 queries, 512-256-128, 136 features, CPU; medians of 7 steps")
    free, ours, loop = (
        step_seconds(even, f) for f in (free_loss, lambda_loss, loop_loss)
    )
    print(f"125 documents each: free {free:.4f} s, LambdaLoss {ours:.4f} s, ", end="")
    print(f"ratio {ours / free:.2f} (bar 1.25); loop {loop:.4f} s")
    long_free, long = (step_seconds(uneven, f) for f in (free_loss, lambda_loss))
    print(
        f"one list of 1,000: free {long_free:.4f} s, LambdaLoss {long:.4f} s, ", end=""
    )
    print(f"ratio {long / long_free:.2f} (bar 1.6)")
    fast, slow = (loss_seconds(even, f) for f in (lambda_loss, loop_loss))
    print(
        f"the loss alone, with its gradient: {fast:.4f} s, loop {slow:.4f} s, ", end=""
    )
    print(f"{slow / fast:.1f}x (bar 5)")
    print("networks at once, seconds per step and network:", end=" ")
    for n in (1, 2, 4, 8):
        print(f"{n}: {step_seconds(even, lambda_loss, n, 5) / n:.4f}", end="  ")
    print()
    documents = int(even.sum())
    print(f"documents per second: {documents / ours:,.0f}")


def loss_seconds(sizes: NDArray[np.int64], loss: Value) -> float:
    rng = np.random.default_rng(0)
    lists = RaggedLists.of(sizes)
    shape = (1, int(sizes.sum()))
    scores = torch.from_numpy(rng.normal(size=shape).astype(np.float32))
    weights = torch.from_numpy(rng.normal(size=shape).astype(np.float32))
    known, share = torch.ones(shape, dtype=torch.bool), torch.ones(shape)
    batch = Batch(weights, known, share, lists)
    scores.requires_grad_()

    def work() -> object:
        value = loss(scores, batch)
        return torch.autograd.grad(value.sum(), scores)

    return seconds(work, 7)


def on_cuda() -> None:
    rng = np.random.default_rng(0)
    ragged = np.clip(rng.lognormal(4.51, 0.75, 2048), 1, 1200).astype(np.int64)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, 64 networks")
    print(f"ragged lists: mean {ragged.mean():.0f}, longest {ragged.max()}")
    agreement(ragged[:64])
    for name, sizes in (("lists of 125", np.full(2048, 125)), ("ragged", ragged)):
        for precision in ("float32", "tf32", "bfloat16"):
            for n_networks in (64, 256):
                throughput(name, sizes, precision, n_networks)


def agreement(sizes: NDArray[np.int64]) -> None:
    """Compare the CUDA kernels with the CPU in float64, on random lists and masks."""
    rng = np.random.default_rng(1)
    shape = (3, int(sizes.sum()))
    scores, weights = (torch.from_numpy(rng.normal(size=shape)) for _ in range(2))
    scores[0, ::7] = scores[0, 0].item()  # ties
    known = torch.from_numpy(rng.random(shape) < 0.8)
    found = []
    for device, kind in (("cpu", torch.float64), ("cuda", torch.float32)):
        s = scores.to(device, kind).requires_grad_()
        lists = RaggedLists.of(sizes, device)
        w = weights.to(device, kind)
        batch = Batch(w, known.to(device), torch.ones_like(w), lists)
        loss = lambda_loss(s, batch)
        gradient = torch.autograd.grad(loss.sum(), s)[0]
        found.append((loss.detach().double().cpu(), gradient.double().cpu()))
    (a, b), (c, d) = found
    print(
        f"CUDA against float64: loss off by {((a - c).norm() / a.norm()):.1e},", end=""
    )
    print(f" gradient by {((b - d).norm() / b.norm()):.1e}", end="")
    units = rng.normal(size=(3, 40, 256)).astype(np.float32)
    active = []
    for device in ("cpu", "cuda"):
        v = torch.from_numpy(units).to(device).requires_grad_()
        bias = torch.full((3, 1, 256), 0.1, device=device)
        rows = torch.arange(40, dtype=torch.int32, device=device) * 1000
        seeds = torch.tensor([5, -7, 2**31 - 1], dtype=torch.int32, device=device)
        salt = torch.tensor(-123456789, dtype=torch.int32, device=device)
        y = activate(v, bias, rows, seeds, salt, 0.1)
        active += [y.detach().cpu(), torch.autograd.grad(y.square().sum(), v)[0].cpu()]
    away = max((active[i] - active[i + 2]).abs().max().item() for i in (0, 1))
    print(f", activation and dropout by {away:.1e} at most")


def throughput(
    name: str, sizes: NDArray[np.int64], precision: str, n_networks: int
) -> None:
    settings = NetworkSettings(device="cuda", precision=precision)
    made = trainer(sizes, n_networks, settings)
    torch.cuda.reset_peak_memory_stats()
    made.epoch(0)  # compiles, and records steps
    made.epoch(1)
    torch.cuda.synchronize()
    times = []
    for epoch in range(2, 5):
        started = time.perf_counter()
        made.epoch(epoch)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    n_weights = sum(p[0].numel() for p in made.parameters())
    work = 6 * n_weights * int(sizes.sum()) * n_networks
    memory = torch.cuda.max_memory_allocated() / 2**30
    rates = " ".join(f"{work / each / 1e12:6.1f}" for each in times)
    per_step = statistics.median(times) / math.ceil(len(sizes) / 32)
    print(
        f"{name:<12} {precision:<8} {n_networks:3d} networks  {rates} TFLOP/s  "
        f"{1e3 * per_step:6.2f} ms per step  peak {memory:.1f} GiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", action="store_true")
    if parser.parse_args().cuda:
        on_cuda()
    else:
        on_cpu()


if __name__ == "__main__":
    main()
