"""Claims: which of several runners on one folder trains a group.

A claim is a lock of the operating system on a file of the group. It ends with the
process that holds it, so no claim is ever stale; the file itself stays and means
nothing. If runners are on several machines, their folder must be on a file system that
locks across them (NFS 4 does).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Hold the claim ``path`` in the block; yield whether it was free."""
    with _opened(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def awaited(path: Path) -> Iterator[None]:
    """Hold the claim ``path`` in the block, once it is free."""
    with _opened(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    path.parent.mkdir(exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield file
    finally:
        os.close(file)
