"""Work in threads: BLAS keeps to one, and has its threads back afterwards."""

from __future__ import annotations

import threading

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from affinerank.threads import in_parallel, one_blas_thread


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


def test_blas_has_its_threads_back_after_blocks_in_threads() -> None:
    met = threading.Barrier(2, timeout=10)  # both are in their blocks at once

    def work(_: int) -> set[int]:
        with one_blas_thread():
            met.wait()
            return blas_threads()

    with threadpool_limits(2, user_api="blas"):
        assert in_parallel(work, range(2)) == [{1}, {1}]
        assert blas_threads() == {2}
