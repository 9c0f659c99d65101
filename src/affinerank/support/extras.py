"""Libraries that not everyone installs, and the extras that bring them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from affinerank.support.errors import MissingLibraryError

EXTRA_OF = {"torch": "networks", "safetensors": "networks"}
NEEDED_BY = {"networks": "networks (and the paper's experiments and EM)"}


@contextmanager
def missing_library_named() -> Iterator[None]:
    """Say in one sentence, within the block, which extra brings a missing library."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRA_OF:
            raise
        raise _missing(library) from None


def require_library(library: str) -> None:
    """Reject work that needs a library of an extra, before it begins; load nothing."""
    if find_spec(library) is None:
        raise _missing(library)


def _missing(library: str) -> MissingLibraryError:
    extra = EXTRA_OF[library]
    return MissingLibraryError(
        f"{NEEDED_BY[extra]} need {library}, which is not installed: "
        f"pip install 'affinerank[{extra}]'"
    )
