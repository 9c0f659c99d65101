"""Settings of all readers of ranking data: the split, and missing values."""

from __future__ import annotations

from typing import Literal, get_args

from affinerank.errors import ConfigError

Split = Literal["train", "validation", "test"]
Word = Literal["error", "keep"]
Missing = Word | float
SPLITS: tuple[Split, ...] = get_args(Split)
WORDS: tuple[Word, ...] = get_args(Word)


def parse_split(name: str) -> Split:
    """Return the split of this name; reject other names and list the splits.

    >>> parse_split("test")
    'test'
    """
    for split in SPLITS:
        if name == split:
            return split
    raise ConfigError(f"split must be one of {', '.join(SPLITS)}, got {name!r}")


def parse_missing(missing: str | float) -> Missing:
    """Return what missing values become: error, keep, or a number to put there."""
    for word in WORDS:
        if missing == word:
            return word
    try:
        return float(missing)
    except ValueError:
        raise ConfigError(
            f"missing must be error, keep or a number to put there, got {missing!r}"
        ) from None
