"""Look into the archives of a release: files, metadata, and whether they import.

Installs the wheel into an empty environment, and runs a command there.

    python benchmarks/dist.py dist
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

NEEDED = ("cli/__init__.py", "page.css", "page.js", "py.typed", "experiments/plans/")
SOURCES = ("src/affinerank/", "LICENSE", "README.md", "pyproject.toml")
NEVER = (".venv", "__pycache__", ".git/", "wheels/", ".parquet", "/.ci/")


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    [wheel], [source] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [about] = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = Parser().parsestr(archive.read(about).decode())
    inside = [name for name in names if not name.startswith("affinerank")]
    require(not inside, f"{wheel.name} holds files beside the package: {inside[:3]}")
    for part in NEEDED:
        require(any(part in name for name in names), f"{wheel.name} lacks {part}")
    for key in ("Name", "Version", "License-Expression", "Requires-Python", "Summary"):
        require(bool(text[key]), f"{wheel.name}: the metadata lack {key}")
    with tarfile.open(source) as tar:
        held = tar.getnames()
    for part in SOURCES:
        require(any(part in name for name in held), f"{source.name} lacks {part}")
    shipped = [n for n in names + held if "/tests/" not in n and "/docs/" not in n]
    wrong = [name for name in shipped if any(part in name for part in NEVER)]
    require(not wrong, f"should not be shipped: {wrong[:3]}")
    with tempfile.TemporaryDirectory() as empty:
        venv.create(empty, with_pip=True)
        python = Path(empty) / "bin" / "python"
        pins = ["-c", "constraints.txt"]
        run(python, "-m", "pip", "install", "--quiet", *pins, str(wheel.resolve()))
        run(python, "-m", "affinerank", "data", "describe", "yahoo-like:20", cwd=empty)
    print(
        f"{wheel.name}: {len(names)} files; {source.name}: {len(held)} files; both fit"
    )


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(otherwise)


def run(*words: str | Path, cwd: str | None = None) -> None:
    subprocess.run([str(word) for word in words], check=True, cwd=cwd)  # noqa: S603


if __name__ == "__main__":
    main()
