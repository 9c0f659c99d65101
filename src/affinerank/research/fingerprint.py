"""The fingerprint of the code that measures cells, in the folder of a run.

A run that was interrupted goes on only with the code that measured its finished cells.
So its folder holds ``code.json`` with a hash of that code: of all rooms but those that
only read logs, show results or write rankers for others, and of the plug-ins and other
modules from which rows were added.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from affinerank.rankers.networks.losses import LOSSES
from affinerank.research.coordinates import TABLES, values_of
from affinerank.support.errors import DataError
from affinerank.support.files import atomic_write
from affinerank.support.plugins import loaded_plugins
from affinerank.support.text_files import read_json

CODE = "code.json"
FORMAT = ("affinerank-code", 1)
SOURCE = Path(__file__).parents[1]
# Numbers do not depend on these rooms.
LEFT_OUT = ("audit", "cli", "engines", "export", "logs", "output", "sklearn")
# Of this room, they depend on these: the other modules plan, collect and show.
MEASURES = ("research/cells.py", "research/measure.py", "research/worlds.py")
REMEDY = (
    "give --recompute, which discards these cells and measures all again, or another "
    "folder (--out)"
)


def code_fingerprint() -> str:
    """Return a hash of the source texts that the numbers of a run depend on."""
    # A file is known by its path below the package, which is the same on every machine.
    sources = {
        path.relative_to(SOURCE).as_posix(): path
        for path in SOURCE.rglob("*.py")
        if _matters(path.relative_to(SOURCE))
    }
    sources |= dict(_sources_of_plugins())

    digest = hashlib.sha256()
    for name, path in sorted(sources.items()):
        content = path.read_bytes()
        # Lengths keep apart files of which one begins as another ends.
        digest.update(f"{name}\n{len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _matters(path: Path) -> bool:
    """Whether numbers depend on a module, by its path below the package."""
    room = path.parts[0]
    if room == "research":
        return path.as_posix() in MEASURES
    return room not in LEFT_OUT


def write_fingerprint(root: Path, fingerprint: str) -> None:
    """Note in a run's folder which code measures its cells."""
    content = {"format": FORMAT[0], "version": FORMAT[1], "fingerprint": fingerprint}
    with atomic_write(root / CODE) as unfinished:
        unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def require_same_code(root: Path, fingerprint: str) -> None:
    """Reject the folder of a run whose cells other code measured."""
    noted = read_fingerprint(root)
    if noted is None:
        raise DataError(
            f"{root}: holds finished cells and no {CODE}, which says what code "
            f"measured them; {REMEDY}"
        )
    if noted != fingerprint:
        raise DataError(
            f"{root}: the code has changed since the finished cells in this folder "
            f"were measured; {REMEDY}"
        )


def read_fingerprint(root: Path) -> str | None:
    """Return what :func:`write_fingerprint` noted; ``None`` if there is no file."""
    path = root / CODE
    if not path.is_file():
        return None
    content = read_json(path)
    found = content if isinstance(content, dict) else {}
    name_and_version = (found.get("format"), found.get("version"))
    if name_and_version != FORMAT:
        raise DataError(
            f"{path}: expected format {FORMAT[0]!r} version {FORMAT[1]}, got "
            f"{name_and_version[0]!r:.60} version {name_and_version[1]!r:.60}; {REMEDY}"
        )
    return str(found.get("fingerprint"))


def _sources_of_plugins() -> Iterator[tuple[str, Path]]:
    """Yield a name and the path of each source file that added rows come from.

    Of a plug-in that is a package, these are all files of the package.
    """
    # Listing the rows loads the plug-ins of installed packages, so it comes first.
    modules_of_rows = _modules_of_added_rows()
    for module in modules_of_rows.union(loaded_plugins()):
        is_ours = module.partition(".")[0] == SOURCE.name
        file = None if is_ours else _file_of(module)
        if file is None or not file.is_file():
            continue
        yield module, file
        if file.name == "__init__.py":
            for path in file.parent.rglob("*.py"):
                yield f"{module}/{path.relative_to(file.parent).as_posix()}", path


def _modules_of_added_rows() -> set[str]:
    """Name the modules that the rows of tables come from."""
    tables = [table for table, _ in TABLES.values()]
    return {
        module
        for table in (*tables, LOSSES)
        for row in table.values()
        for module in _modules_of(row)
    }


def _modules_of(row: Any) -> set[str]:
    """Name the modules that a row's type, functions and settings come from."""
    fields = values_of(row) if dataclasses.is_dataclass(row) else vars(row)
    parts = [type(row), *fields.values()]
    functions = [getattr(part, "func", part) for part in parts]  # of partials
    return {str(getattr(function, "__module__", "")) for function in functions}


def _file_of(module: str) -> Path | None:
    """Return a module's source file; ``None`` if it has none, as in a notebook."""
    if module in sys.modules:
        file = getattr(sys.modules[module], "__file__", None)
        return None if file is None else Path(file)

    # The module of a function that is imported when it is first called.
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.has_location or spec.origin is None:
        return None
    return Path(spec.origin)
