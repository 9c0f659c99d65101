"""Help: at once, with an example that runs, and one default for each option."""

import inspect
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import Any

import pytest
import typer

from affinerank.cli import COMMANDS as FUNCTIONS
from affinerank.cli import app, main, options
from affinerank.defaults import CORRECTION
from affinerank.estimators import ESTIMATORS

pytestmark = pytest.mark.slow


def commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


COMMANDS = dict(commands(typer.main.get_command(app)))
# Examples that write what others read come first.
ORDER = ["simulate", "count", "estimate", "train", "reproduce"]
# Options that are chosen for each command, and why.
OWN = {
    "--output": "names different files",
    "--estimator": "what is learnt from, and what judges, which must be unbiased",
    "--context": "count looks at the log; simulate knows its users",
}


def example(name: str) -> str:
    text = " ".join(COMMANDS[name].help.split())
    [found] = re.findall(r"Example: (affinerank .*)$", text)
    return str(found)


def seconds(code: str, *words: str) -> float:
    """Time on a core, the median of three: the clock counts other work, too."""
    taken = []
    for _ in range(3):
        before = getrusage(RUSAGE_CHILDREN)
        command = [sys.executable, "-c", code, *words]
        subprocess.run(command, capture_output=True, check=True)
        after = getrusage(RUSAGE_CHILDREN)
        own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        taken.append(own)
    return median(taken)


@pytest.mark.parametrize("name", ["count", "simulate", "estimate", "train", "evaluate"])
def test_help_is_there_in_half_a_second(name: str) -> None:
    taken = seconds("from affinerank.cli import run; run()", name, "--help")
    if taken >= 0.5:  # cores that are busy are slower: what do libraries alone take?
        alone = seconds("import numpy, pydantic, rich.console, rich.table, typer")
        assert taken < 5 * alone


@pytest.mark.parametrize("name", COMMANDS)
def test_help_needs_no_library_that_is_slow_to_load(name: str) -> None:
    slow = [
        "torch",
        "lightgbm",
        "pyarrow",
        "ibis",
        "duckdb",
        "scipy",
        "numba",
        "sklearn",
        "vl_convert",
    ]
    code = f"import sys\nfrom affinerank.cli import main\nmain({name.split()!r} + "
    code += f"['--help'])\nprint([m for m in {slow!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_lists_the_rows_of_tables(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("train", "debias", "evaluate"):
        main([name, "--help"])
        printed = "".join(capsys.readouterr().out.split())
        assert ESTIMATORS.choices.replace(" ", "") in printed


def test_every_option_says_what_it_is_for() -> None:
    silent = {
        (name, option.name)
        for name, command in COMMANDS.items()
        for option in command.params
        if not option.help
    }
    assert silent == {("data convert", "target")}


def test_docstrings_tell_of_options_that_are_there() -> None:
    functions = [function for group in FUNCTIONS.values() for function in group]
    owners: list[Any] = [*functions, *options.SHARED]
    for owner in owners:
        _, told = options._documented(owner)
        assert set(told) <= set(inspect.signature(owner).parameters)


def test_an_option_has_one_default() -> None:
    found: dict[str, dict[str, set[str]]] = {}
    for name, command in COMMANDS.items():
        for option in command.params:
            if option.default is not None:  # nothing stands for a value of its own
                for word in option.opts:
                    values = found.setdefault(word, {})
                    values.setdefault(repr(option.default), set()).add(name)
    several = {word for word, values in found.items() if len(values) > 1}
    assert several - {"-o"} == set(OWN)
    assert found["--estimator"][repr(CORRECTION)] == {"evaluate", "importance"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    search = {"query_id": "e", "user_query": "s", "query_response_hit_ids": ["d"]}
    thing = {"object": {"object_id": "d"}}
    event = {"query_id": "e", "action_name": "click", "event_attributes": thing}
    for name, row in (("ubi_queries", search), ("ubi_events", event)):
        Path(f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    Path("pages.txt").write_text("1\t2\t[3, 4]\t[1, 1]\t[0, 1]\n")
    return tmp_path


def test_every_example_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [name for name in COMMANDS if name != "demo"]  # test_cli.py runs it
    for name in sorted(names, key=lambda n: ORDER.index(n) if n in ORDER else 9):
        words = shlex.split(example(name).replace("yahoo-like:500", "yahoo-like:100"))
        words += {"train": ["--set", "trees=5"]}.get(name, [])
        if name.startswith("import "):
            words[-1] = "imported.parquet"
        assert main(words[1:]) == 0, f"{name}: {capsys.readouterr().err}"
    assert (folder / "model.onnx").is_file()
