"""What every reader of ranking data is asked: which split, and what missing becomes."""

from __future__ import annotations

from typing import Literal, get_args

from affinerank.errors import ConfigError

Split = Literal["train", "validation", "test"]
Missing = Literal["error", "keep"] | float
SPLITS: tuple[Split, ...] = get_args(Split)


def parse_split(name: str) -> Split:
    """Return the split of this name, or an error that lists them.

    >>> parse_split("test")
    'test'
    """
    for split in SPLITS:
        if name == split:
            return split
    raise ConfigError(f"split must be one of {', '.join(SPLITS)}, got {name!r}")


def require_missing(missing: Missing) -> None:
    """Refuse what says nothing about missing values."""
    if isinstance(missing, str) and missing not in ("error", "keep"):
        raise ConfigError(
            f"missing must be error, keep or a number to put there, got {missing!r}"
        )
