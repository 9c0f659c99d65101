"""Commands that are killed, or whose disk is full: is anything torn, left or lost.

Kills each command with SIGKILL at random moments, looks at what is there, and runs it
again: outputs must be absent or whole, the second run must end as one that was never
killed, and leave nothing beside its outputs. Then gives commands disks that are too
small (needs the right to mount): one sentence, exit status 2, nothing torn.

    python benchmarks/ends.py --moments 20 --seed 1
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

WORLD = "yahoo-like:60"
NETWORK = "--ranker mlp --set hidden=16 --set epochs=6"
PLAN = """
name = "ends"
runs = 2
clicks = [1e3, 3e3]
group_networks = 3
click_models = ["trust"]
figures = ["figure1"]

[[data]]
name = "yahoo-like"
source = "yahoo-like:40"

[[rankers]]
name = "mlp"
hidden = [16, 8]
epochs = 3

[[grids]]
estimators = ["production", "full-information", "naive", "affine"]
"""
NOT_RESULTS = {"seconds", "versions", "commit", "device"}


@dataclass(frozen=True, slots=True)
class Case:
    """A command, and what it writes.

    Attributes:
        name: Of the case.
        words: The command, in a folder that holds what :func:`prepared` made.
        writes: Names in that folder; all that may be there after it.
        between: Names that may be there while it is under way, as a whole file.
    """

    name: str
    words: str
    writes: tuple[str, ...] = ()
    between: tuple[str, ...] = ()


CASES = (
    Case("count", "count log.parquet -o counted.parquet", ("counted.parquet",)),
    Case(
        "estimate",
        f"estimate counts.parquet --data {WORLD} -o found.json",
        ("found.json",),
    ),
    Case(
        "train",
        f"train counts.parquet --click-model click-model.json --data {WORLD} -o new "
        f"{NETWORK}",
        ("new",),
    ),
    Case(
        "train with a checkpoint",
        f"train counts.parquet --click-model click-model.json --data {WORLD} -o new "
        f"{NETWORK} "
        "--estimator affine --tuning none --set epochs=40 --checkpoint kept",
        ("new",),
        ("kept",),
    ),
    Case(
        "evaluate",
        f"evaluate ranker --data {WORLD}",
    ),
    Case(
        "export",
        "export ranker --to onnx -o model.onnx",
        ("model.onnx", "model.onnx.json"),
    ),
    Case("reproduce", "reproduce plan.toml --out run", ("run",)),
)
ON_SMALL_DISKS = ("count", "train", "reproduce")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="Names of cases.")
    options = parser.parse_args()
    rng = random.Random(options.seed)  # noqa: S311
    print(f"seed {options.seed}, {options.moments} moments or sizes each")
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        ready = prepared(Path(folder) / "ready")
        for case in CASES:
            if options.only and case.name not in options.only:
                continue
            found = killed(case, ready, options.moments, rng)
            faults += len(found)
            print(f"kill -9, {case.name}: {len(found)} faults {found}", flush=True)
        for case in CASES:
            if case.name in (options.only or ON_SMALL_DISKS):
                found = on_small_disks(case, ready, options.moments, rng)
                faults += len(found)
                print(
                    f"disk full, {case.name}: {len(found)} faults {found}", flush=True
                )
    sys.exit(1 if faults else 0)


def prepared(folder: Path) -> Path:
    """Make what the cases read."""
    folder.mkdir()
    (folder / "plan.toml").write_text(PLAN)
    for words in (
        f"simulate {WORLD} --clicks 2e4 --log log.parquet --counts counts.parquet "
        "--save-click-model click-model.json",
        f"train counts.parquet --click-model click-model.json --data {WORLD} -o ranker "
        f"--estimator affine --tuning none {NETWORK}",
    ):
        done = run(words, folder)
        if done.returncode:
            raise RuntimeError(done.stderr)
    return folder


def start(words: str, folder: Path) -> subprocess.Popen[str]:
    """Start a command in a folder, with temporary files in a folder of their own."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "affinerank", *words.split()],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    process = start(words, folder)
    out, err = process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def killed(case: Case, ready: Path, moments: int, rng: random.Random) -> list[str]:
    """Kill a command at random moments; return what was wrong."""
    with copied(ready) as folder:
        started = time.perf_counter()
        done = run(case.words, folder)
        seconds = time.perf_counter() - started
        if done.returncode:
            return [f"does not run: {done.stderr}"]
        whole = contents(folder, case.writes)
    faults = []
    for _ in range(moments):
        moment = rng.uniform(0.1, seconds)
        with copied(ready) as folder:
            process = start(case.words, folder)
            try:
                process.communicate(timeout=moment)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            problems = torn(case, folder, whole)
            if case.writes[:1] == ("new",) and (folder / "new").exists():
                shutil.rmtree(folder / "new")  # a ranker is never written over
            again = run(case.words, folder)
            if again.returncode:
                problems.append(f"the second run failed: {again.stderr[-300:]}")
            elif contents(folder, case.writes) != whole:
                problems.append("the second run wrote something else")
            problems += left(case, folder, ready)
        faults += [f"{moment:.2f} s of {seconds:.2f}: {text}" for text in problems]
    return faults


def on_small_disks(
    case: Case, ready: Path, sizes: int, rng: random.Random
) -> list[str]:
    """Run a command on disks of random sizes; return what was wrong."""
    with copied(ready) as folder:
        run(case.words, folder)
        whole = contents(folder, case.writes)
        room = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    needed = sum(p.stat().st_size for p in ready.rglob("*") if p.is_file())
    faults = []
    for _ in range(sizes):
        more = int(rng.uniform(0, 1.1 * (room - needed) + 40_000))
        with disk(needed + 200_000 + more) as root:
            folder = root / "work"
            shutil.copytree(ready, folder)
            done = run(case.words, folder)
            lines = [x for x in done.stderr.splitlines() if x.startswith("affinerank:")]
            problems = [] if case.name == "reproduce" else torn(case, folder, whole)
            if done.returncode == 2 and len(lines) != 1:
                problems.append(f"not one sentence: {done.stderr[-300:]}")
            if done.returncode not in (0, 2):
                problems.append(f"exit status {done.returncode}: {done.stderr[-300:]}")
            if done.returncode == 0 and contents(folder, case.writes) != whole:
                problems.append("wrote something else")
            problems += left(case, folder, ready)
        faults += [f"{more:,} bytes: {text}" for text in problems]
    return faults


@contextmanager
def copied(ready: Path) -> Iterator[Path]:
    """Yield a copy of the prepared folder."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(shutil.copytree(ready, Path(folder) / "work"))


@contextmanager
def disk(size: int) -> Iterator[Path]:
    """Yield the root of a disk of this many bytes."""
    with tempfile.TemporaryDirectory() as folder:
        how = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
        subprocess.run(how, check=True)  # noqa: S603
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)  # noqa: S603, S607


def torn(case: Case, folder: Path, whole: dict[str, Any]) -> list[str]:
    """Say which outputs are there, and not whole."""
    names = [n for n in case.writes if (folder / n).exists() and n != "run"]
    return [
        f"{name} is torn"
        for name in names
        if contents(folder, (name,)) != {k: v for k, v in whole.items() if k == name}
        and not name.endswith(".json")
    ] + [
        f"{path.relative_to(folder)} is torn"
        for path in (folder / "run").rglob("[!.]*.parquet")
        if not readable(path)
    ]


def readable(path: Path) -> bool:
    try:
        pq.read_table(path)
    except Exception:
        return False
    return True


def left(case: Case, folder: Path, ready: Path) -> list[str]:
    """Say what is left beside the outputs."""
    known = {p.name for p in ready.iterdir()} | {*case.writes, "tmp"}
    beside = [p.name for p in folder.iterdir() if p.name not in known]
    beside += [f"tmp/{p.name}" for p in (folder / "tmp").iterdir()]
    beside += [p.name for p in folder.rglob(".*.part")]
    return [f"left: {name}" for name in beside if name not in case.between]


def contents(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """Read outputs, without what changes from run to run."""
    there = [name for name in names if (folder / name).exists()]
    return {name: repr(content(folder / name)) for name in there}  # nan is nan


def content(path: Path) -> Any:
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file())
        kept = {".parquet", ".json", ".safetensors", ".txt", ".toml"}
        return {str(p.relative_to(path)): content(p) for p in files if p.suffix in kept}
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        own = [name for name in table.column_names if name not in NOT_RESULTS]
        return sorted(table.select(own).to_pylist(), key=repr)
    if path.suffix == ".json":
        return without(json.loads(path.read_text()))
    return path.read_bytes()


def without(value: Any) -> Any:
    """Leave out times, whereever they are."""
    if isinstance(value, dict):
        own = {k: v for k, v in value.items() if "seconds" not in k and k != "trained"}
        return {k: without(v) for k, v in own.items()}
    return [without(v) for v in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
