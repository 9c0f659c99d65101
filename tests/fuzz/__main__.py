"""Attack the package with spoilt files: ``python -m tests.fuzz --cases 20000``.

Prints a table of formats and outcomes, and keeps what failed under ``--out``. A case is
known by its seed and number: ``--seed 1 --only 17`` repeats it.
"""

import argparse
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from tempfile import gettempdir
from typing import Any

for _library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

import json  # noqa: E402

from tests.fuzz.attack import GOOD, OUTCOMES, Result, attack, import_all, report  # noqa: E402
from tests.fuzz.formats import FORMATS, Case, case_of  # noqa: E402

KEPT = Path(__file__).parent / "kept"
Job = tuple[str, str, Any]  # its name, its format, and what makes the case


def main(argv: list[str] | None = None) -> int:
    """Run the cases, print the tally; 1 if some failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31)
    parser.add_argument("--only", type=int, help="number of the one case to run")
    parser.add_argument("--formats", nargs="*", default=list(FORMATS), choices=FORMATS)
    parser.add_argument("--kept", action="store_true", help="run the cases kept here")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path(gettempdir()) / "fuzz")
    given = parser.parse_args(argv)
    given.out = given.out.absolute()
    jobs = list(_kept_jobs() if given.kept else _jobs(given))
    import_all()
    results = _run(jobs, given.workers, given.out)
    sys.stdout.write(_tally(results, given) + "\n")
    return int(any(result["outcome"] not in GOOD for result in results))


def _jobs(given: argparse.Namespace) -> Iterable[Job]:
    numbers = range(given.cases) if given.only is None else [given.only]
    names = list(FORMATS)
    for number in numbers:
        name = names[number % len(names)]
        if name in given.formats:
            seed = f"{given.seed}-{number}"
            yield seed, name, lambda s=seed, n=name: case_of(FORMATS[n], Random(s))


def _kept_jobs() -> Iterable[Job]:
    """Cases that once failed: a folder has the files, the command and the format."""
    for folder in sorted(path.parent for path in KEPT.glob("*/case.json")):
        about = json.loads((folder / "case.json").read_text())
        paths = [p for p in folder.glob("in/**/*") if p.is_file()]
        files = {str(p.relative_to(folder / "in")): p.read_bytes() for p in paths}
        case = Case(files, about["command"], about["how"])
        yield folder.name, about["format"], lambda c=case: c


def _run(jobs: list[Job], workers: int, out: Path) -> list[dict[str, Any]]:
    """Keep as many cases running as there are workers; each writes a line."""
    (out / "cases").mkdir(parents=True, exist_ok=True)
    lines = out / "results.jsonl"
    lines.unlink(missing_ok=True)
    running: dict[int, Job] = {}
    for job in jobs:
        if len(running) >= workers:
            _reap(running, lines, out)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _one(job, lines, out)
        running[pid] = job
    while running:
        _reap(running, lines, out)
    return [json.loads(line) for line in lines.read_text().splitlines()]


def _reap(running: dict[int, Job], lines: Path, out: Path) -> None:
    """Wait for a case; one that died itself read what the command had accepted."""
    pid, status = os.wait()
    name, form, _ = running.pop(pid)
    if status:
        result = Result("tool fault", f"the case itself ended with {status}")
        with lines.open("ab") as file:
            file.write(report(result, name=name, format=form, how="", command=""))


def _one(job: Job, lines: Path, out: Path) -> None:
    """Run a case in this process, write its line, and end."""
    name, form, make = job
    folder = out / "cases" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    case = make()
    result = attack(case, folder)
    line = report(result, name=name, format=form, how=case.how, command=case.command)
    with lines.open("ab", buffering=0) as file:
        file.write(line)
    if result.outcome in GOOD:
        shutil.rmtree(folder)
    else:
        about = {"format": form, "how": case.how, "command": case.command}
        (folder / "case.json").write_text(json.dumps(about | {"reason": result.reason}))
    os._exit(0)


def _tally(results: list[dict[str, Any]], given: argparse.Namespace) -> str:
    """Draw the table, then each kind of failure once."""
    names = [name for name in FORMATS if any(r["format"] == name for r in results)]
    cells = Counter((r["format"], r["outcome"]) for r in results)
    sums = Counter(r["outcome"] for r in results)
    rows = [[name, *(str(cells[name, o]) for o in OUTCOMES)] for name in names]
    rows.append(["all", *(str(sums[outcome]) for outcome in OUTCOMES)])
    text = f"seed {given.seed}, {len(results)} cases\n\n"
    text += "".join(
        f"| {' | '.join(row)} |\n"
        for row in (["format", *OUTCOMES], ["---"] * 11, *rows)
    )
    valid = [r for r in results if r["how"] == "valid"]
    most = max((r["rss"] for r in results), default=0) / 2**20
    text += f"\nvalid files: {len(valid)}; most memory: {most:.0f} MB\n"
    unjudged = Counter(r["reason"][:12] for r in results if r["outcome"] == "accepted")
    text += f"accepted, but logs not compared: {unjudged['not compared']}; "
    text += f"plans still running at the time limit: {unjudged['the time is ']}\n"
    kinds: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for result in results:
        if result["outcome"] not in GOOD:
            where = result["command"].split(" in/")[0]
            reason = re.sub(r"[\d'\"]+|in/\S+", "", result["reason"])[:60]
            key = result["outcome"], result["format"], where, reason
            kinds.setdefault(key, []).append(result)
    for (outcome, form, where, _), some in sorted(kinds.items()):
        name, how, reason = (some[0][key] for key in ("name", "how", "reason"))
        text += f"\n{outcome}, {len(some)} of {form}, {where}: {name}, {how}: {reason}"
    return text


if __name__ == "__main__":
    sys.exit(main())
