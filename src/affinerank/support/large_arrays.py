"""Matrices that may be larger than memory: a large one lies in a temporary file.

The system pages such a matrix in and out, so it takes no memory that others need. The
file has no name, and goes with the process. It lies where Python puts temporary files:
set ``TMPDIR`` to choose the folder.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator

import numpy as np

from affinerank.support.arrays import Ints, Matrix
from affinerank.support.errors import DataError

IN_MEMORY = 2**28  # bytes; a smaller matrix is an array like any other
ROWS_AT_ONCE = 65_536  # bounds the temporary arrays of whole-matrix operations


class _Held(mmap.mmap):
    """A file of :func:`empty_matrix`: only its pages are ever released."""


def empty_matrix(n_rows: int, n_columns: int) -> Matrix:
    """Return an uninitialised float32 matrix, in a temporary file if it is large."""
    size = n_rows * n_columns * 4
    if size <= IN_MEMORY:
        return np.empty((n_rows, n_columns), dtype=np.float32)
    try:
        with tempfile.TemporaryFile() as file:
            file.truncate(size)
            if hasattr(os, "posix_fallocate"):
                # Reserved now: a disk that is full later would end the process.
                os.posix_fallocate(file.fileno(), 0, size)
            held = _Held(file.fileno(), size)
    except OSError as error:
        raise DataError(
            f"{size / 1e9:.1f} GB of features do not fit into {tempfile.gettempdir()} "
            f"({error.strerror}); name a folder with more room in TMPDIR"
        ) from None
    return np.frombuffer(held, dtype=np.float32).reshape(n_rows, n_columns)


def release(matrix: Matrix) -> None:
    """Free the pages of a matrix that lies in a file; they are read again at need."""
    owner: object = matrix
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    if isinstance(owner, _Held) and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)


def blocks(n_rows: int) -> Iterator[slice]:
    """Yield rows in runs of ``ROWS_AT_ONCE``."""
    for start in range(0, n_rows, ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, n_rows))


def passed(matrix: Matrix) -> Iterator[slice]:
    """Yield rows to read: all at once, or runs of a large matrix, released behind."""
    if matrix.nbytes <= IN_MEMORY:
        yield slice(len(matrix))
        return
    for part in blocks(len(matrix)):
        yield part
        release(matrix)


def taken(matrix: Matrix, rows: Ints) -> Matrix:
    """Return ``matrix[rows]``, never whole in memory."""
    if matrix.nbytes <= IN_MEMORY or matrix.dtype != np.float32:
        return matrix[rows]
    out = empty_matrix(len(rows), matrix.shape[1])
    for part in blocks(len(rows)):
        np.take(matrix, rows[part], axis=0, out=out[part])
        release(out)
        release(matrix)
    return out
