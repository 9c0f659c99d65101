"""How many threads work on something: as many as pay, and no more than users allow.

Threads of OpenMP and BLAS wait for each other by spinning. On small matrices and small
trees they cost more than they bring, and ruin the work of others on a busy machine.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
FEW_DOCUMENTS = 20_000  # fewer are done before threads have met
_forked = False
_lock = threading.Lock()
_limits: list[Any] = []  # of BLAS; one for each block that is under way
WITH_BLAS = ("numpy", "scipy.linalg", "torch")  # modules that bring one


def _after_fork() -> None:
    """Keep to one thread: those of OpenMP stayed behind, and would be waited for."""
    global _forked  # noqa: PLW0603
    _forked = True
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def usable_cores() -> int:
    """Return how many cores this process may use; ``OMP_NUM_THREADS`` limits them."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdecimal() and int(limit) else cores


def threads_for(n_docs: int, wanted: int = 0) -> int:
    """Return how many threads of a library work on so many documents; 0 for all."""
    return 1 if n_docs < FEW_DOCUMENTS else usable_threads(wanted)


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


def blas_threads_for(n_docs: int) -> AbstractContextManager[None]:
    """Keep BLAS to one thread in the block, if documents are few."""
    return one_blas_thread() if n_docs < FEW_DOCUMENTS else nullcontext()


def in_parallel(work: Callable[..., T], *items: Iterable[Any]) -> list[T]:
    """Do as ``map``, in threads: NumPy and Arrow release the interpreter.

    >>> in_parallel(abs, [-2, 1])
    [2, 1]
    """
    with one_blas_thread(), ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(work, *items))
