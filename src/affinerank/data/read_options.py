"""Settings of all readers of ranking data: split, missing values, columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal, cast, get_args

from affinerank.support.errors import ConfigError
from affinerank.support.settings import require_choice

Split = Literal["train", "validation", "test"]
Word = Literal["error", "keep"]
Missing = Word | float
SPLITS: tuple[Split, ...] = get_args(Split)


def parse_split(name: str) -> Split:
    """Return the split of this name; reject other names and list the splits.

    >>> parse_split("test")
    'test'
    """
    require_choice("split", name, SPLITS)
    return cast(Split, name)


def parse_missing(missing: str | float) -> Missing:
    """Return what missing values become: error, keep, or a number to put there."""
    try:
        return cast(Word, missing) if missing in get_args(Word) else float(missing)
    except ValueError:
        raise ConfigError(
            f"missing must be error, keep or a number to put there, got {missing!r}"
        ) from None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a table is read: its columns, by patterns as in ``price,rating*``.

    Attributes:
        features: Only these are features; all where left out.
        ignore: And not these.
        columns: What ``query_id``, ``doc_id`` and ``label`` are called.
        category: Categories, even where they hold numbers.
        list_id: Column that identifies lists.
        missing: What becomes of missing values.
    """

    features: str | None = None
    ignore: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    category: str | None = None
    list_id: str = "query_id"
    missing: Missing = "keep"

    @property
    def own(self) -> list[str]:
        """What the ids of lists and documents, and labels, are called."""
        return [self.named(ours) for ours in (self.list_id, "doc_id", "label")]

    def named(self, ours: str) -> str:
        """Return what a column of ours is called."""
        return dict(self.columns).get(ours, ours)

    def declares(self, name: str) -> bool:
        """Whether the column is called a category."""
        return self.category is not None and _matches(name, self.category)

    def __call__(self, name: str) -> bool:
        """Whether the column is taken."""
        taken = self.features is None or _matches(name, self.features)
        return taken and not (self.ignore and _matches(name, self.ignore))


def how_to_read(
    missing: str | float = "keep",
    list_id: str | None = None,
    chosen: ReadOptions | None = None,
) -> ReadOptions:
    """Put together what was chosen."""
    lists = list_id or "query_id"
    return replace(
        chosen or ReadOptions(), list_id=lists, missing=parse_missing(missing)
    )


def _matches(name: str, patterns: str) -> bool:
    return any(fnmatchcase(name, part.strip()) for part in patterns.split(","))
