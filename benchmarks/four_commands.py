"""From a Parquet log and a feature table to a model and an interval: four commands.

    python benchmarks/four_commands.py [WORLD] [SESSIONS]

A world's log stands for a real one. Prints what each command printed, and its seconds
and peak memory.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PREPARATION = (
    "simulate {world} --sessions {sessions} --log log.parquet --save-click-model "
    "truth.json",
    "data convert {world} features.parquet --split train",
)
COMMANDS = (
    "count log.parquet -o counts.parquet --holdout 0.2",
    "estimate counts.parquet --data features.parquet -o click-model.json",
    "train counts.parquet --data features.parquet --click-model click-model.json -o "
    "model",
    "evaluate model --data features.parquet --counts counts.parquet "
    "--click-model click-model.json --against logged --estimated-from counts.parquet",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("world", nargs="?", default="yahoo-like:2000")
    parser.add_argument("sessions", nargs="?", default="1e6")
    asked = parser.parse_args()
    program = Path(sys.executable).parent / "affinerank"
    with tempfile.TemporaryDirectory() as folder:
        for line in PREPARATION:
            run(
                program, line.format(world=asked.world, sessions=asked.sessions), folder
            )
        total = sum(run(program, line, folder, show=True) for line in COMMANDS)
    print(f"\nfour commands: {total:.0f} s")


def run(program: Path, line: str, folder: str, *, show: bool = False) -> float:
    """Run a command in a folder; return its seconds."""
    started = time.perf_counter()
    with subprocess.Popen(  # noqa: S603
        [program, *line.split()], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as process:
        printed = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    if process.returncode:
        sys.exit(f"affinerank {line}: exit {process.returncode}")
    if show:
        peak = usage.ru_maxrss / 2**20
        print(f"\n$ affinerank {line}\n{printed}[{seconds:.1f} s, {peak:.1f} GB]")
    return seconds


if __name__ == "__main__":
    main()
