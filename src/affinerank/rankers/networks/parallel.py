"""Data parallel training by plain ``torchrun``: each process takes part of a batch."""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from affinerank.support.arrays import Ints


@dataclass(frozen=True, slots=True)
class Group:
    """The processes that train together; by itself, a group of one."""

    rank: int
    size: int
    local_rank: int

    @classmethod
    def current(cls) -> Group:
        """Return the processes that ``torchrun`` started, if it did."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls(0, 1, 0)
        local = int(os.environ.get("LOCAL_RANK", "0"))
        return cls(int(os.environ["RANK"]), size, local)

    def join(self, device: torch.device) -> None:
        """Meet the other processes, by the protocol of their device."""
        if device.type == "cuda":
            torch.cuda.set_device(device)  # kernels launch on the current one
        if self.size > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
            # A process that leaves its group open may crash as it ends.
            atexit.register(dist.destroy_process_group)

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files."""
        return self.rank == 0

    def part(self, queries: Ints) -> Ints:
        """Return this process's share of a batch, which may be empty."""
        return queries[self.rank :: self.size]

    def add_up(self, *tensors: Tensor) -> None:
        """Add up gradients or losses over all processes, in place."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)
