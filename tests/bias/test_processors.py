"""The same log gives the same answer on another processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.processors import values

from affinerank.cli import main

# Kernels of OpenBLAS that add up in another order, and a number of threads.
MACHINES = [("Nehalem", 1), ("Haswell", 2)]
SEEDS = range(3)

# Estimates every log of a folder; one process, since starting takes longer than that.
ESTIMATE = """
import sys
from pathlib import Path
from affinerank.cli import main
folder, machine = Path(sys.argv[1]), sys.argv[2]
for counts in sorted(folder.glob("*.parquet")):
    print(counts.stem)
    model = folder / f"{machine}.json"
    answer = main(["estimate", str(counts), "--data", "yahoo-like:80", "--json",
                   "-o", str(model)])
    assert answer == 0
"""


def answers(folder: Path, kernel: str, threads: int) -> list[dict[str, Any]]:
    """What `estimate` says of each log with this kernel."""
    told = {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, "-c", ESTIMATE, str(folder), kernel],
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    decoder, texts = json.JSONDecoder(), done.stdout.split("log-")[1:]
    return [decoder.raw_decode(text[text.index("{") :])[0] for text in texts]


@pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the kernels are of x86 processors"
)
def test_the_same_log_says_the_same_on_every_processor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts are equal, and numbers to within 1e-4."""
    for seed in SEEDS:
        log = ["--clicks", "2e4", "--top-k", "5", "--seed", str(seed)]
        counts = ["--counts", str(tmp_path / f"log-{seed}.parquet")]
        assert main(["simulate", "yahoo-like:80", *log, *counts]) == 0
    one, other = (answers(tmp_path, *machine) for machine in MACHINES)
    assert len(one) == len(other) == len(SEEDS)
    for first, second in zip(one, other, strict=True):
        there = dict(values(second))
        for place, value in values(first):
            if isinstance(value, float):
                assert value == pytest.approx(there[place], rel=1e-4, abs=1e-4), place
            else:
                assert value == there[place], place
        assert first["trust_bias"]["found"] is True
