"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from affinerank.errors import DataError


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a path to write to; it is renamed to ``path`` once the block succeeds.

    A block that fails, or a process that is killed in it, leaves ``path`` as it was.
    """
    writable(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield aside
        os.replace(aside, path)
    except OSError as error:
        raise DataError(f"{path}: could not be written: {error.strerror}") from error
    finally:
        if aside.is_dir():
            shutil.rmtree(aside)
        aside.unlink(missing_ok=True)


def writable(path: Path) -> None:
    """Reject a name that nothing can be written to, before the work is done."""
    if path.is_dir():
        raise DataError(f"{path}: expected the name of a file, and this is a folder")
    if not path.parent.is_dir():
        raise DataError(f"{path}: there is no folder {path.parent} to write into")
    if not os.access(path.parent, os.W_OK):
        raise DataError(f"{path}: the folder {path.parent} may not be written into")


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` if it is a file; reject a folder or a missing file."""
    found = Path(path)
    if found.is_dir():
        raise DataError(f"{found}: expected a file, and this is a folder")
    if not found.is_file():
        raise DataError(f"{found}: there is no such file")
    return found


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder to fill; it is renamed to ``path`` once the block succeeds."""
    if path.exists():
        raise DataError(f"{path}: exists already; choose another name or remove it")
    with written_whole(path) as aside:
        aside.mkdir()
        yield aside


def one_line(error: Exception) -> str:
    """Return what a library says of an error, on one line and without a full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
