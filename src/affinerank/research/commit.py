"""The commit of the source tree that the package is imported from."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def source_commit() -> str:
    """Return the commit, with a ``+`` if files differ from it; ``""`` if installed."""
    git = shutil.which("git")
    if git is None:
        return ""
    words = [git, "-C", str(PACKAGE), "status", "--porcelain=v2", "--branch", "."]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    about = done.stdout.splitlines()  # nothing outside a repository
    changed = any(not line.startswith("#") for line in about)
    return about[0].split()[-1] + ("+" if changed else "") if about else ""
