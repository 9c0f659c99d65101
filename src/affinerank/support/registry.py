"""Tables: what can be chosen, by name.

A row has a ``name``, a ``title`` for figures and messages, and what it does. Commands,
plans, help texts and checks read the table; nothing else tests for a name. Modules that
add rows are plug-ins (:mod:`affinerank.support.plugins`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol, TypeVar

from affinerank.support.errors import ConfigError
from affinerank.support.extras import missing_library_named
from affinerank.support.plugins import load_installed_plugins
from affinerank.support.settings import hint


class Row(Protocol):
    """What a table asks of a row."""

    @property
    def name(self) -> str:
        """The key."""


R = TypeVar("R", bound=Row)


class Registry(Mapping[str, R]):
    """Rows by name; a name that is not there is an error that lists those that are.

    A row of this package is found at once. Before a table says that it has no such row,
    and before it lists its rows, it imports the plug-ins of installed packages.

    >>> from types import SimpleNamespace
    >>> fruit = Registry("fruit", SimpleNamespace(name="fig", title="Fig"))
    >>> fruit.choices
    'fig'
    >>> fruit["pear"]
    Traceback (most recent call last):
    affinerank.support.errors.ConfigError: there is no fruit 'pear'; known are fig
    """

    def __init__(self, kind: str, *rows: R) -> None:
        self.kind = kind
        self._rows = {row.name: row for row in rows}

    def __contains__(self, name: object) -> bool:
        if name not in self._rows:
            load_installed_plugins()
        return name in self._rows

    def __getitem__(self, name: str) -> R:
        if name not in self:
            known = hint(str(name), self)
            raise ConfigError(f"there is no {self.kind} {name!r}; {known}")
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        load_installed_plugins()
        return iter(self._rows)

    def __len__(self) -> int:
        load_installed_plugins()
        return len(self._rows)

    @property
    def choices(self) -> str:
        """All names, for help texts."""
        return ", ".join(self)

    def saved(self, name: str) -> R:
        """Return the row that a saved file names; it may be the row of a plug-in."""
        if name not in self:
            known = hint(str(name), self)
            raise ConfigError(
                f"there is no {self.kind} {name!r}; if a plug-in adds it, name the "
                "plug-in (affinerank --plugin MODULE, or import MODULE in Python); "
                f"{known}"
            )
        return self[name]

    def add(self, row: R) -> None:
        """Add a row of your own; every command and plan of this process knows it."""
        if row.name in self:
            raise ConfigError(f"there is a {self.kind} {row.name!r} already")
        self._rows[row.name] = row

    @contextmanager
    def added(self, row: R) -> Iterator[None]:
        """Add a row for the length of a block."""
        self.add(row)
        try:
            yield
        finally:
            del self._rows[row.name]

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Forget, after a block, the rows that were added in it."""
        rows = dict(self)
        try:
            yield
        finally:
            self._rows = rows


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

    # As a wrapper does: who asks where a row comes from is told the function's module.
    call.__module__ = module
    return call
