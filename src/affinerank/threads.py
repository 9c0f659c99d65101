"""Work shared among threads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
_forked = False
_lock = threading.Lock()
_limits: list[Any] = []  # of BLAS; one for each block that is under way
WITH_BLAS = ("numpy", "scipy.linalg", "torch", "lightgbm")  # modules that bring one


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


@cache
def _controller(loaded: tuple[str, ...]) -> Any:
    """Find the BLAS of this process, anew once one of these modules was loaded."""
    from threadpoolctl import ThreadpoolController

    del loaded
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread in the block, for work of many small steps.

    Threads that wait for each other at each step cost such work several times over, and
    more so where it is done in threads itself. Blocks in threads must lie within one of
    the thread that started them: BLAS heeds no other that gives threads back.
    """
    with _lock:
        if not _limits:
            loaded = tuple(name for name in WITH_BLAS if name in sys.modules)
            _limits.append(_controller(loaded).limit(limits=1, user_api="blas"))
        _limits.append(None)
    try:
        yield
    finally:
        with _lock:
            _limits.pop()
            if len(_limits) == 1:
                _limits.pop().restore_original_limits()


def in_parallel(work: Callable[..., T], *items: Iterable[Any]) -> list[T]:
    """Do as ``map``, in threads: NumPy and Arrow release the interpreter.

    >>> in_parallel(abs, [-2, 1])
    [2, 1]
    """
    with one_blas_thread(), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, *items))
