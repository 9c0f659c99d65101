"""The fingerprint of the code that measures cells, in the folder of a run.

A run that was interrupted goes on only with the code that measured its finished cells.
So its folder holds ``code.json`` with a hash of that code: of all rooms but those that
only read logs, show results or write rankers for others, and of modules from which rows
of your own were added.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from affinerank.research.coordinates import TABLES, values_of
from affinerank.support.errors import DataError
from affinerank.support.files import atomic_write
from affinerank.support.text_files import read_json

CODE = "code.json"
FORMAT = ("affinerank-code", 1)
SOURCE = Path(__file__).parents[1]
# Numbers do not depend on these rooms.
LEFT_OUT = ("audit", "cli", "engines", "export", "logs", "output", "sklearn")
# Of this room, they depend on one module: the others plan, collect and show.
MEASURES = "research/worlds.py"
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
    sources |= dict(_modules_of_added_rows())

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
        return path.as_posix() == MEASURES
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


def _modules_of_added_rows() -> Iterator[tuple[str, Path]]:
    """Yield the modules outside the package that rows of tables come from."""
    for table, _ in TABLES.values():
        for row in table.values():
            for module in _modules_of(row):
                is_ours = module.split(".")[0] == SOURCE.name
                file = getattr(sys.modules.get(module), "__file__", None)
                if not is_ours and file is not None:
                    yield module, Path(file)


def _modules_of(row: Any) -> set[str]:
    """Name the modules that a row's type, functions and settings come from."""
    fields = values_of(row) if dataclasses.is_dataclass(row) else vars(row)
    parts = [type(row), *fields.values()]
    functions = [getattr(part, "func", part) for part in parts]  # of partials
    return {str(getattr(function, "__module__", "")) for function in functions}
