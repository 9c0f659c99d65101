"""LETOR text: read_letor against scikit-learn's load_svmlight_file, in one run.

Writes a file of MSLR's shape (136 features, comments on every tenth line) into a
temporary folder, reads it alternately by both, and prints medians and their ratio. Peak
memory is that of a fresh process that reads the file once, over one that reads a
single line.

    python benchmarks/letor.py [--megabytes 200] [--repeats 3]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from affinerank import read_letor


def write_like_mslr(path: Path, megabytes: int) -> None:
    rng = np.random.default_rng(0)
    written = 0
    query = 0
    with path.open("w") as file:
        while written < megabytes * 1_000_000:
            query += 1
            n_docs = int(np.clip(rng.lognormal(4.5, 0.7), 1, 1200))
            counts = rng.integers(0, 300, (n_docs, 68))
            reals = rng.random((n_docs, 68)) * 10
            for i in range(n_docs):
                pairs = " ".join(
                    f"{2 * j + 1}:{counts[i, j]} {2 * j + 2}:{reals[i, j]:.6f}"
                    for j in range(68)
                )
                note = f" #docid = GX{query:05d}-{i:04d} inc = 1" if i % 10 == 0 else ""
                line = f"{rng.integers(5)} qid:{query} {pairs}{note}\n"
                file.write(line)
                written += len(line)


def seconds(read: Callable[[], object]) -> float:
    started = time.perf_counter()
    read()
    return time.perf_counter() - started


def peak_bytes(path: Path) -> int:
    """Peak resident memory of a new process that reads ``path``."""
    command = [sys.executable, __file__, "--measure", str(path)]
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        read_letor(options.measure)
        status = Path("/proc/self/status").read_text()
        print(int(status.split("VmHWM:")[1].split()[0]) * 1024)
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), options.megabytes, options.repeats)


def compare(folder: Path, megabytes: int, repeats: int) -> None:
    path = folder / "large.txt"
    tiny = folder / "tiny.txt"
    write_like_mslr(path, megabytes)
    tiny.write_text("1 qid:1 1:1\n")
    read_letor(tiny)  # compile once
    array_bytes = read_letor(path).features.nbytes
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(seconds(lambda: read_letor(path)))
        theirs.append(seconds(lambda: load_svmlight_file(str(path), query_id=True)))
    fast, slow = statistics.median(ours), statistics.median(theirs)
    memory = peak_bytes(path) - peak_bytes(tiny)
    print(f"file                       {path.stat().st_size / 1e6:8.0f} MB")
    print(f"read_letor                 {fast:8.2f} s   {[round(t, 2) for t in ours]}")
    print(f"load_svmlight_file         {slow:8.2f} s   {[round(t, 2) for t in theirs]}")
    print(f"ratio of medians           {slow / fast:8.1f} x  (bar: 20)")
    print(f"peak memory / array        {memory / array_bytes:8.2f} x  (bar: 3)")


if __name__ == "__main__":
    main()
