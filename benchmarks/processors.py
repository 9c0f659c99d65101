"""Does `estimate` say the same of a log on another processor?

OpenBLAS has a kernel for each kind of processor, and each adds up in another order, so
the last digits differ. Estimates users from 30 logs under three kernels, with one and
two threads, and compares every answer with the first: texts must be equal, and numbers
within 1e-4. Then it does the same with what `train` chooses.

    python benchmarks/processors.py > docs/results/processors.txt
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from affinerank.cli import main as affinerank

# Kernels of OpenBLAS, and what torch calls instructions as old.
KERNELS = {"Nehalem": "default", "Haswell": "avx2", "SkylakeX": "avx512"}
THREADS = (1, 2)
CLOSE = 1e-4
WITHOUT_TRUST = "position-based(eta=1, eps_minus=0.2)"
TRAINED = 2  # logs that rankers are trained on, of each world
RANKERS = ("lightgbm", "linear-model", "mlp")

# Runs each command of a list in one process, and writes what each one answers.
RUN = """
import contextlib, io, json, sys
from affinerank.cli import main
commands = json.load(open(sys.argv[1]))
answers = []
for command in commands:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        failed = main(command)
    answers.append({"failed": failed} if failed else json.loads(printed.getvalue()))
json.dump(answers, sys.stdout)
"""


class Shape(NamedTuple):
    """What a log is like.

    Attributes:
        world: Synthetic data, with its number of queries.
        clicks: Clicks to draw.
        top_k: Length of the lists.
    """

    world: str
    clicks: str
    top_k: str


SHAPES = (
    Shape("yahoo-like:80", "2e4", "5"),
    Shape("mslr-like:100", "1e5", "10"),
    Shape("yahoo-like:150", "5e4", "10"),
)


class Machine(NamedTuple):
    """A kernel of OpenBLAS, and a number of threads."""

    kernel: str
    threads: int

    def answers(self, commands: Sequence[Sequence[str]], folder: Path) -> list[Any]:
        """What the commands answer on this machine, as JSON."""
        written = Path(tempfile.mkdtemp(dir=folder))
        named = [
            [*words, "-o", str(written / str(i))] for i, words in enumerate(commands)
        ]
        job = folder / "commands.json"
        job.write_text(json.dumps(named))
        told = {
            "OPENBLAS_CORETYPE": self.kernel,
            "OPENBLAS_NUM_THREADS": str(self.threads),
            "OMP_NUM_THREADS": str(self.threads),
            "ATEN_CPU_CAPABILITY": KERNELS[self.kernel],
        }
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-W", "ignore", "-c", RUN, str(job)],
            env={**os.environ, **told},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{self.kernel}: {done.stderr}")
        answers: list[Any] = json.loads(done.stdout)
        return answers


class Difference(NamedTuple):
    """Where two answers differ, and by how much; infinite for a text."""

    place: str
    size: float


def machines() -> list[Machine]:
    """The kernels that this processor can run, with one and two threads."""
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    kernels = [each for each in KERNELS if each != "SkylakeX" or "avx512f" in flags]
    return [Machine(kernel, threads) for kernel in kernels for threads in THREADS]


def simulated(folder: Path, seeds: Sequence[int]) -> list[tuple[Shape, int, str]]:
    """Write counts of every shape and seed; every third has users without trust."""
    logs = []
    for shape in SHAPES:
        for seed in seeds:
            path = folder / f"{shape.world.replace(':', '-')}-{seed}.parquet"
            command = ["simulate", shape.world, "--clicks", shape.clicks]
            command += ["--top-k", shape.top_k, "--seed", str(seed)]
            if seed % 3 == 2:
                command += ["--click-model", WITHOUT_TRUST]
            if affinerank([*command, "--counts", str(path), "--json"]):
                raise SystemExit(f"cannot simulate {path.name}")
            logs.append((shape, seed, str(path)))
    return logs


def values(answer: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of an answer, with its place; not how long it took."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            if key not in ("seconds", "written"):
                yield from values(value, f"{place}/{key}")
    elif isinstance(answer, list):
        for i, value in enumerate(answer):
            yield from values(value, f"{place}/{i}")
    else:
        yield place, answer


def differences(one: Any, other: Any) -> Iterator[Difference]:
    """Yield every place where two answers are not the same."""
    first, second = dict(values(one)), dict(values(other))
    for place in first.keys() | second.keys():
        here, there = first.get(place), second.get(place)
        if here == there:
            continue
        size = float("inf")
        if isinstance(here, float) and isinstance(there, float):
            size = abs(here - there) / max(1.0, abs(here))
        yield Difference(place, size)


def compare(title: str, commands: Sequence[Sequence[str]], folder: Path) -> None:
    """Run the commands on every machine, and print what differs from the first."""
    first, *others = machines()
    base = first.answers(commands, folder)
    print(f"\n{title}: {len(commands)}, against {first.kernel}, 1 thread")
    for machine in others:
        answers = machine.answers(commands, folder)
        found = [
            list(differences(one, other))
            for one, other in zip(base, answers, strict=True)
        ]
        apart = [
            (command, each.place)
            for command, here in zip(commands, found, strict=True)
            for each in here
            if each.size > CLOSE
        ]
        close = [each.size for here in found for each in here if each.size <= CLOSE]
        print(
            f"  {machine.kernel:<9} {machine.threads} thread(s): texts that differ or "
            f"numbers beyond {CLOSE:g}: {len(apart)}; largest other difference "
            f"{max(close, default=0.0):.1e}",
            flush=True,
        )
        for command, place in apart[:20]:
            print(f"    {' '.join(Path(word).name for word in command)}: {place}")


def main() -> None:
    """Simulate, run on each machine, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = range(parser.parse_args().seeds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with open(os.devnull, "w") as quiet:
            shown, sys.stdout = sys.stdout, quiet
            logs = simulated(folder, seeds)
            sys.stdout = shown

        def command(*words: str) -> list[str]:
            return [*words, "--json"]

        estimates = [
            command("estimate", path, "--data", shape.world) for shape, _, path in logs
        ]
        compare("estimate", estimates, folder)
        for ranker in RANKERS:
            trained = [
                command("train", path, "--data", shape.world, "--ranker", ranker)
                for shape, seed, path in logs
                if seed < TRAINED
            ]
            compare(f"train --ranker {ranker}", trained, folder)


if __name__ == "__main__":
    main()
