"""Files that appear whole or not at all, and are never what they are made from."""

from __future__ import annotations

import glob
import itertools
import os
import re
import shutil
import socket
import sys
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

from affinerank.support.errors import DataError, warn

if sys.platform != "win32":
    import fcntl

PathLike = str | os.PathLike[str]
SCRATCH = "affinerank-"
SECONDS_FOR_LOCK = 10.0
SECONDS_FOR_REMOVAL = 2.0
SECONDS_BETWEEN_TRIES = 0.05
_numbers = itertools.count()


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a path to write to; it is renamed to ``path`` once the block succeeds.

    A block that fails, or a process that is killed in it, leaves ``path`` as it was.
    What a killed process left beside it is removed by the next one that writes it.
    """
    if path.is_symlink():
        path = path.resolve()  # what it names is written, and the link stays
    writable(path)
    prefix = f".{path.name}."
    # A file may be written whole to a path that another call of this function yields:
    # its name then begins with two points.
    for left in path.parent.glob(f".*{glob.escape(path.name)}.*.part"):
        name = left.name.lstrip(".")
        if is_stale(name.removeprefix(prefix.lstrip("."))):
            _remove(left)
    aside = path.with_name(f"{prefix}{this_process()}-{next(_numbers)}.part")
    try:
        yield aside
        os.replace(aside, path)
    except OSError as error:
        if error.filename and not str(error.filename).startswith(str(aside)):
            raise  # about another file
        reason = os.strerror(error.errno) if error.errno else one_line(error)
        raise DataError(f"{path}: could not be written: {reason}") from error
    finally:
        _remove(aside)


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time into the block; wait for it briefly.

    The lock ends with its process, however that ends, and leaves no file.
    """
    if sys.platform == "win32":  # it cannot lock a folder
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    """Lock an open folder; give up after some seconds."""
    deadline = time.monotonic() + SECONDS_FOR_LOCK
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise DataError(
                    f"{folder}: another process is changing it; try again later"
                ) from None
            time.sleep(SECONDS_BETWEEN_TRIES)
        except OSError as error:
            # Some network file systems have no locks.
            reason = os.strerror(error.errno) if error.errno else one_line(error)
            warn(f"{folder}: cannot be locked ({reason}); change it by one process")
            return
        else:
            return


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder for what is in the way; it goes with the block."""
    folder = _new_scratch()
    try:
        yield folder
    finally:
        _remove(folder, seconds=SECONDS_FOR_REMOVAL)


def scratch_of(owner: object) -> Path:
    """Return a folder for what is in the way; it goes with its owner."""
    folder = _new_scratch()
    weakref.finalize(owner, _remove, folder)
    return folder


def _new_scratch() -> Path:
    """Make a folder where Python puts temporary files (``TMPDIR``).

    What killed processes left there is removed first.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*"):
        if is_stale(left.name.removeprefix(SCRATCH)):
            _remove(left)
    return Path(tempfile.mkdtemp(prefix=f"{SCRATCH}{this_process()}-"))


def remove_own_scratch() -> None:
    """Remove the temporary folders of this process, at its end.

    A signal may have stopped it while it made or removed one.
    """
    folder = Path(tempfile.gettempdir())
    for left in folder.glob(f"{SCRATCH}{glob.escape(this_process())}-*"):
        _remove(left, seconds=SECONDS_FOR_REMOVAL)


def this_process() -> str:
    """Name this process in the name of a file, so that others know who made it."""
    return f"{socket.gethostname()}-{os.getpid()}"


def is_stale(name: str) -> bool:
    """Whether a name begins with a process of this machine that is no more."""
    found = re.match(rf"{re.escape(socket.gethostname())}-(\d+)\b", name)
    try:
        os.kill(int(found[1]) if found else os.getpid(), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # there, and somebody else's; or no process
        pass
    return False


def _remove(path: Path, *, seconds: float = 0.0) -> None:
    """Remove a file or a folder, if it is there; try a folder again for some seconds.

    Threads of an engine that was stopped may still write into it.
    """
    if not path.is_dir() or path.is_symlink():
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return
    deadline = time.monotonic() + seconds
    shutil.rmtree(path, ignore_errors=True)
    while path.exists() and time.monotonic() < deadline:
        time.sleep(SECONDS_BETWEEN_TRIES)
        shutil.rmtree(path, ignore_errors=True)


def writable(path: Path) -> None:
    """Reject a name that nothing can be written to, before the work is done."""
    if path.is_dir():
        raise DataError(f"{path}: expected the name of a file, and this is a folder")
    if not path.parent.is_dir():
        raise DataError(f"{path}: there is no folder {path.parent} to write into")
    if not os.access(path.parent, os.W_OK):
        raise DataError(f"{path}: the folder {path.parent} may not be written into")


def require_other_files(
    outputs: Iterable[Path | None], inputs: Iterable[PathLike | None]
) -> None:
    """Reject an output that is an input, or another output, by whatever name.

    Inputs may be files, patterns, and folders, which are read with all that is below.
    """
    written = [path for path in outputs if path is not None]
    for first, second in itertools.combinations(written, 2):
        if _same(first, second):
            raise DataError(f"{second}: is to be written twice; give it another name")
    for path, given in itertools.product(written, inputs):
        if given is not None and _reads(os.fspath(given), path):
            raise DataError(
                f"{path}: would replace what is read ({given}); give the output "
                "another name"
            )


def _reads(source: str, path: Path) -> bool:
    """Whether reading ``source`` reads ``path``, or would once it is written."""
    if "://" in source:
        return any(_same(file, path) for file in _database_files(source))
    if os.path.exists(source):
        log = path.suffix.lower() == ".parquet"
        inside = log and Path(source).resolve() in path.resolve().parents
        return _same(Path(source), path) or inside
    name, pattern = os.path.abspath(path), os.path.abspath(source)
    deep = "**" in source
    matches = fnmatch(name, pattern) if deep else Path(name).match(pattern)
    found = glob.iglob(source, recursive=True)
    return matches or any(_same(Path(file), path) for file in found)


def _database_files(url: str) -> list[Path]:
    """Return the files that a URL such as ``duckdb:///shop.duckdb#table`` may name."""
    place = url.partition("://")[2].partition("#")[0].partition("?")[0]
    return [Path(place), Path(place.removeprefix("/"))]


def _same(one: Path, other: Path) -> bool:
    """Whether two names are of one file, which need not be there yet."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def existing_file(path: PathLike) -> Path:
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
    with atomic_write(path) as aside:
        aside.mkdir()
        yield aside


def one_line(error: Exception) -> str:
    """Return what a library says of an error, on one line and without a full stop."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
