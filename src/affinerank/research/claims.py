"""Claims: which of several runners on one folder trains a group.

A claim is a lock of the operating system on a file of the group. It ends with the
process that holds it, so no claim is ever stale; the file itself stays and means
nothing. If runners are on several machines, their folder must be on a file system that
locks across them (NFS 4 does).
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def claimed(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold the claim ``path`` in the block, once it is free; yield whether it is held.

    Without ``wait``, a claim that another holds is not waited for.
    """
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
