"""Work in threads: BLAS keeps to one, and has its threads back afterwards."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from affinerank.support import threads
from affinerank.support.threads import (
    blas_threads_for,
    in_parallel,
    one_blas_thread,
    threads_for,
    usable_cores,
)


def blas_threads() -> set[int]:
    np.ones((2, 2)) @ np.ones((2, 2))  # loads it
    return {pool["num_threads"] for pool in threadpool_info() if "blas" in str(pool)}


def test_blas_keeps_to_one_thread_until_the_last_block_ends() -> None:
    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread():
            with one_blas_thread():
                assert blas_threads() == {1}
            assert blas_threads() == {1}  # the outer block goes on
        assert blas_threads() == {2}


def test_blas_has_its_threads_back_after_blocks_in_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    met = threading.Barrier(2, timeout=10)  # both are in their blocks at once

    def work(_: int) -> set[int]:
        with one_blas_thread():
            met.wait()
            return blas_threads()

    with threadpool_limits(2, user_api="blas"):
        assert in_parallel(work, range(2)) == [{1}, {1}]
        assert blas_threads() == {2}


def test_a_user_limits_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    for limit, cores in (("2", 2), ("16", 8), ("0", 8), ("", 8), ("many", 8)):
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
        assert usable_cores() == cores


def test_few_documents_are_for_one_thread() -> None:
    """Threads that spin on small matrices cost the whole machine."""
    assert threads_for(threads.FEW_DOCUMENTS - 1) == 1
    assert threads_for(threads.FEW_DOCUMENTS) == 0  # all that the library takes
    assert threads_for(threads.FEW_DOCUMENTS, 3) == 3
    with threadpool_limits(2, user_api="blas"):
        with blas_threads_for(threads.FEW_DOCUMENTS):
            assert blas_threads() == {2}
        with blas_threads_for(threads.FEW_DOCUMENTS - 1):
            assert blas_threads() == {1}
        assert blas_threads() == {2}
