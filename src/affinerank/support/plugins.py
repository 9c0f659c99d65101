"""Plug-ins: modules that add rows to tables when they are imported.

A plug-in calls ``ESTIMATORS.add(row)`` and the like. Installed packages name theirs by
entry points of the group ``affinerank.rows``. Other plug-ins are named by a plan
(``plugins = ["my_module"]``) or a command line (``--plugin my_module``).

Plug-ins of installed packages are imported when a table is first listed, or searched
for a row that it does not have: so ``import affinerank`` stays fast. A plug-in that
somebody named must work; an installed one that is broken causes a warning only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from affinerank.support.errors import AffineRankError, ConfigError, warn

GROUP = "affinerank.rows"

_named: list[str] = []  # modules that plans and command lines named, in this process
_installed: list[str] = []  # modules of entry points that were imported
_is_installed_loaded = False


def load_named_plugins(modules: Iterable[str]) -> None:
    """Import the plug-ins that somebody named; later calls import only new ones."""
    for module in modules:
        if module in _named:
            continue
        _make_current_folder_importable()
        try:
            import_module(module)
        except Exception as error:  # importing a module can raise anything
            raise ConfigError(
                f"the plug-in {module!r:.80} could not be imported: {_reason(error)}"
                f"{_hint(module)}"
            ) from error
        _named.append(module)


def named_plugins() -> tuple[str, ...]:
    """Return the plug-ins named so far, for processes that must know their rows."""
    return tuple(_named)


def load_installed_plugins() -> None:
    """Import the plug-ins of installed packages, once; warn of those that fail."""
    global _is_installed_loaded  # noqa: PLW0603
    if _is_installed_loaded:
        return
    # Set first: the plug-ins themselves look into tables as they are imported.
    _is_installed_loaded = True

    for entry in sorted(entry_points(group=GROUP), key=_ours_first):
        try:
            import_module(entry.module)
        except Exception as error:  # importing a module can raise anything
            warn(
                f"the installed plug-in {entry.name} ({entry.module}) could not be "
                f"imported, so its rows are not known: {_reason(error)}"
            )
        else:
            _installed.append(entry.module)


def loaded_plugins() -> tuple[str, ...]:
    """Return all plug-ins imported so far, installed ones and named ones."""
    return (*_installed, *_named)


def _ours_first(entry: EntryPoint) -> tuple[bool, str]:
    """Sort this package's own plug-in before others, and others by their module."""
    return entry.module.partition(".")[0] != "affinerank", entry.module


def _make_current_folder_importable() -> None:
    """Add the current folder after all others, so that it hides no installed module."""
    folder = str(Path.cwd())
    if folder not in sys.path and "" not in sys.path:
        sys.path.append(folder)


def _reason(error: Exception) -> str:
    """Return an error as one line; errors of this package are sentences already."""
    text = " ".join(str(error).split())[:200]
    if isinstance(error, AffineRankError):
        return text
    return f"{type(error).__name__}: {text}"


def _hint(module: str) -> str:
    """Say what to write where somebody named a file."""
    if not module.endswith(".py"):
        return ""
    return f"; name the module, without .py: {Path(module).stem}"
