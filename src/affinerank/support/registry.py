"""Tables: what can be chosen, by name.

A row has a ``name``, a ``title`` for figures and messages, and what it does. Commands,
plans, help texts and checks read the table; nothing else tests for a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol, TypeVar

from affinerank.support.errors import ConfigError
from affinerank.support.extras import missing_library_named
from affinerank.support.settings import hint


class Row(Protocol):
    """What a table asks of a row."""

    @property
    def name(self) -> str:
        """The key."""


R = TypeVar("R", bound=Row)


class Registry(dict[str, R]):
    """Rows by name; a name that is not there is an error that lists those that are.

    >>> from types import SimpleNamespace
    >>> fruit = Registry("fruit", SimpleNamespace(name="fig", title="Fig"))
    >>> fruit.choices
    'fig'
    >>> fruit["pear"]
    Traceback (most recent call last):
    affinerank.support.errors.ConfigError: there is no fruit 'pear'; known are fig
    """

    def __init__(self, kind: str, *rows: R) -> None:
        super().__init__((row.name, row) for row in rows)
        self.kind = kind

    def __missing__(self, name: str) -> R:
        known = hint(str(name), self)
        raise ConfigError(f"there is no {self.kind} {name!r}; {known}")

    @property
    def choices(self) -> str:
        """All names, for help texts."""
        return ", ".join(self)

    def add(self, row: R) -> None:
        """Add a row of your own; every command and plan of this process knows it."""
        if row.name in self:
            raise ConfigError(f"there is a {self.kind} {row.name!r} already")
        self[row.name] = row

    @contextmanager
    def added(self, row: R) -> Iterator[None]:
        """Add a row for the length of a block."""
        self.add(row)
        try:
            yield
        finally:
            del self[row.name]


def later(path: str, **options: Any) -> Callable[..., Any]:
    """Return the function ``module:name``, imported when it is first called.

    >>> later("math:fsum")([1.0, 2.0])
    3.0
    """
    module, name = path.split(":")

    def call(*arguments: Any, **more: Any) -> Any:
        with missing_library_named():
            function = getattr(import_module(module), name)
        return function(*arguments, **options, **more)

    return call
