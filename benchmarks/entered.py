"""Which functions does one `affinerank train` enter, module by module, in order?

A newcomer who follows a command has to read these functions. The script simulates a
small log, runs the command in this process, and prints each module of the package that
the command enters, in the order of entry, with its functions. Lambdas, comprehensions
and class bodies are not counted.

    python benchmarks/entered.py                # the default ranker
    python benchmarks/entered.py --ranker mlp   # any option of `train`
    python benchmarks/entered.py --brief        # numbers by module alone
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from affinerank.cli import main as affinerank

SOURCE = str(Path(__file__).parents[1] / "src" / "affinerank") + os.sep
WORLD = "yahoo-like:60"
IS_FUNCTION = 1  # the flag CO_OPTIMIZED, which bodies of classes and modules lack


class Entered:
    """Collects the functions of the package that are entered, in order.

    Attributes:
        functions: Their code, each once, in the order of the first entry.
    """

    def __init__(self) -> None:
        self.functions: dict[CodeType, None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a function; called by Python whenever one is entered or left."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE):
            return
        if code.co_flags & IS_FUNCTION and not code.co_name.startswith("<"):
            self.functions.setdefault(code)

    def by_module(self) -> dict[str, list[str]]:
        """Names of the functions by module, both in the order of entry."""
        modules: dict[str, list[str]] = {}
        for code in self.functions:
            module = code.co_filename.removeprefix(SOURCE)
            modules.setdefault(module, []).append(code.co_qualname)
        return modules


def follow(command: list[str]) -> Entered:
    """Run a command in this process; return what it entered."""
    entered = Entered()
    sys.setprofile(entered)
    threading.setprofile(entered)
    try:
        status = affinerank(command)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if status != 0:
        sys.exit(f"the command failed with status {status}")
    return entered


def main() -> None:
    """Simulate a log, follow `train`, and print what it entered."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brief", action="store_true")
    options, train_options = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        counts, ranker = f"{folder}/counts.parquet", f"{folder}/ranker"
        simulate = ["simulate", WORLD, "--clicks", "2e4", "--counts", counts]
        affinerank([*simulate, "--json"])
        train = ["train", counts, "--data", WORLD, "-o", ranker, "--json"]
        modules = follow([*train, *train_options]).by_module()

    for module, functions in modules.items():
        print(f"{len(functions):>4}  {module}")
        if not options.brief:
            for name in functions:
                print(f"        {name}")
    count = sum(len(functions) for functions in modules.values())
    print(f"{count} functions in {len(modules)} modules")


if __name__ == "__main__":
    main()
