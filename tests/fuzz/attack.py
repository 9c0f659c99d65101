"""Run a command on a case in a process of its own, and judge how it ended.

The process that starts all others imports the package once and never computes; a case
is a fork of it, and its command a fork of that.
"""

import gc
import io
import json
import os
import resource
import shlex
import signal
import sys
import tempfile
import traceback
from contextlib import redirect_stderr
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

from tests.fuzz import oracle
from tests.fuzz.formats import Case

SECONDS = 20  # of computing; of waiting, eight times that
RSS = 4 * 2**30
OUTCOMES = (
    *("refused", "accepted", "traceback", "native death", "silent fault"),
    *("files left", "over memory", "timeout", "valid refused", "tool fault"),
)
GOOD = OUTCOMES[:2]
MODULES = (
    *("ibis.backends.duckdb", "lightgbm", "onnx", "pyarrow.dataset", "pyarrow.acero"),
    *("pyarrow.pandas_compat", "scipy.optimize", "torch", "affinerank.counts.counting"),
    *(
        "affinerank.audit.page",
        "affinerank.audit.survey",
        "affinerank.bias.regression_em",
    ),
    *("affinerank.bias.mixture.estimate", "affinerank.bias.mixture.interventions"),
    *(
        "affinerank.logs.importers.tiangong",
        "affinerank.data.letor",
        "affinerank.cli.demo",
    ),
    *("affinerank.pipeline.compare", "affinerank.research.measure"),
    *("affinerank.export.export", "affinerank.rankers.networks.training"),
    *("affinerank.rankers.trees.lightgbm", "affinerank.research.reproduce"),
)


@dataclass
class Result:
    """How a case ended: one of ``OUTCOMES``, and why."""

    outcome: str
    reason: str = ""
    rss: int = 0
    seconds: float = 0.0


def import_all() -> None:
    """Import what commands need, so that no case has to; nothing is computed."""
    for name in MODULES:
        import_module(name)
    from affinerank.cli import main

    with redirect_stderr(io.StringIO()):  # options are built at first use
        main(["import", "tiangong", "nothing.txt"])
    gc.collect()
    gc.freeze()


def attack(case: Case, folder: Path) -> Result:
    """Write the files, run the command, judge."""
    for name in ("in", "out", "tmp"):
        (folder / name).mkdir()
    for name, data in case.files.items():
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    argv = [*shlex.split(case.command), "--json"]
    (folder / "command").write_text(shlex.join(["affinerank", *argv]) + "\n")
    pid = os.fork()
    if pid == 0:
        _command(argv, folder)
    _, status, usage = os.wait4(pid, 0)
    result = _evaluated(case, folder, status, usage.ru_maxrss * 1024)
    result.rss, result.seconds = usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime
    return result


def _command(argv: list[str], folder: Path) -> None:
    """Run the command in this process, and end it."""
    code = 1
    try:
        for number, name in ((1, "stdout"), (2, "stderr")):
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT)
            os.dup2(file, number)
        os.chdir(folder)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(8 * SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (taken + 2 * RSS, taken + 2 * RSS))
        from affinerank.cli import main

        code = main(argv)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _evaluated(case: Case, folder: Path, status: int, rss: int) -> Result:
    """Judge by how the process ended, then by what it left."""
    said = (folder / "stderr").read_text(errors="replace")
    lines = [line for line in said.splitlines() if line.startswith("affinerank: ")]
    last = (lines or said.splitlines() or [""])[-1][:300]
    code, number = os.waitstatus_to_exitcode(status), -os.waitstatus_to_exitcode(status)
    if number in (signal.SIGALRM, signal.SIGXCPU):
        long = case.command.startswith("reproduce")  # as long as the plan asks for
        return Result("accepted" if long else "timeout", "the time is up")
    if rss > RSS or "MemoryError" in said:
        return Result("over memory", last)
    if number > 0:
        return Result("native death", f"{signal.Signals(number).name} {last}")
    if code not in (0, 2) or "Traceback" in said or (code == 2) != len(lines):
        return Result("traceback", f"exit {code}: {last}")
    return _left(case, folder, code, last)


def _left(case: Case, folder: Path, code: int, last: str) -> Result:
    """Judge a command that ended with 0 or 2 by the files that are there."""
    written = sorted(p for p in folder.glob("out/**/*") if p.is_file())
    left = [p.name for p in folder.glob("tmp/*")]
    left += [p.name for p in written if code or p.name.endswith(".part")]
    if left:
        return Result("files left", f"exit {code}: {', '.join(left)[:200]}; {last}")
    if any((folder / "in" / n).read_bytes() != d for n, d in case.files.items()):
        return Result("silent fault", "an input was changed")
    if code:
        return Result("valid refused" if case.how == "valid" else "refused", last)
    try:
        fault = _fault(case, folder, written)
    except oracle.UnknownError as error:
        return Result("accepted", f"not compared: {error}"[:300])
    return Result("silent fault" if fault else "accepted", fault)


def _fault(case: Case, folder: Path, written: list[Path]) -> str:
    """Say what is wrong with what a command wrote and printed."""
    fault = oracle.fault_of_json("stdout", (folder / "stdout").read_text())
    exempt = ("data convert", "reproduce")  # missing features, queries without labels
    if not case.command.startswith(exempt):
        fault = fault or next(filter(None, map(oracle.fault_of_output, written)), "")
    words = case.command.split()
    if fault or words[0] != "count" or "--bad-rows" in words:
        return fault
    try:
        size = int(words[words.index("--page-size") + 1]) if "--page" in words else None
        wanted = oracle.expected_counts(folder / words[1], size)
    except oracle.FaultError as error:
        return f"accepted a log with a fault: {error}"
    into, day = "--into" in words, "out/counts/2026-01-31.parquet"
    found = oracle.found_counts(
        folder / (day if into else words[words.index("-o") + 1])
    )
    differing = [key for key in {*wanted, *found} if wanted.get(key) != found.get(key)]
    if not differing:
        return ""
    key = min(differing)
    return (
        f"counts differ in {len(differing)} of {len(wanted)} keys, first {key!r:.120}: "
        f"expected {wanted.get(key)}, found {found.get(key)}"
    )


def report(result: Result, **about: object) -> bytes:
    """Return a result as one line."""
    return json.dumps({**about, **asdict(result)}).encode() + b"\n"
