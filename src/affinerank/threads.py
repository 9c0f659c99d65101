"""Work shared among threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_forked = False


def _after_fork() -> None:
    """Keep to one thread: those of OpenMP stayed behind, and would be waited for."""
    global _forked  # noqa: PLW0603
    _forked = True
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def usable_threads(wanted: int) -> int:
    """Return how many threads a library may use: one in a process that was forked."""
    return 1 if _forked else wanted


A = TypeVar("A")
B = TypeVar("B")


def in_parallel(work: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """Apply ``work`` to each item, in threads: NumPy and Arrow release the interpreter.

    >>> in_parallel(abs, [-2, 1])
    [2, 1]
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, items))
