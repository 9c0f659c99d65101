"""The commit of the source tree that the package is imported from."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def source_commit() -> str:
    """Return the commit, with a ``+`` if files differ from it; ``""`` if installed."""
    found = _git("rev-parse", "HEAD")
    if not found:
        return ""
    return found + ("+" if _git("status", "--porcelain", ".") else "")


def _git(*words: str) -> str:
    """Return git's output on the package's folder, or nothing outside a repository."""
    git = shutil.which("git")
    if git is None:
        return ""
    done = subprocess.run(  # noqa: S603
        [git, "-C", str(PACKAGE), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""
