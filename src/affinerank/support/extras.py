"""Libraries that not everyone installs, and the extras that bring them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
        extra = EXTRA_OF.get(library)
        if extra is None:
            raise
        raise MissingLibraryError(
            f"{NEEDED_BY[extra]} need {library}, which is not installed: "
            f"pip install 'affinerank[{extra}]'"
        ) from None
