"""reproduce and report, as a user meets them: files, JSON, messages, exit codes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from affinerank.cli import display, main
from affinerank.research.plan import Grid, shipped_plan
from affinerank.research.results import open_folder

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]
SMOKE = ("--profile", "smoke", "--device", "cpu")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main(["reproduce", "figure1", *SMOKE, "--out", str(folder)]) == 0
    return folder


def answered(capsys: Capture, *arguments: str) -> Any:
    status = main([*arguments, "--json"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    return json.loads(printed.out)


def refused(capsys: Capture, *arguments: str) -> str:
    """The one sentence that a command refuses with."""
    assert main(list(arguments)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("affinerank: ")
    assert printed.err.count("\n") == 1
    return printed.err


def words_of(text: str) -> str:
    return " ".join(text.split())


def own_plan(path: Path, **changes: Any) -> Path:
    plan = shipped_plan("figure1", "smoke")
    grid = Grid(("affine",), click_models=plan.click_models[:1], clicks=(2e3,))
    path.write_text(replace(plan, grids=(grid,), runs=1, **changes).to_toml())
    return path


def test_reproduce_writes_a_run_named_for_what_it_is(
    here: Path, capsys: Capture
) -> None:
    assert main(["reproduce", "figure1", *SMOKE]) == 0
    printed = capsys.readouterr()
    assert all(x.startswith("networks: ") for x in printed.err.splitlines())
    assert "figure1, smoke\n" in printed.out
    assert "cells 36 seconds" in words_of(printed.out)
    assert " not measured here" in printed.out
    written = [line.split()[-1] for line in printed.out.splitlines() if "/" in line]
    for name in ("results.parquet", "figures/figure1.svg", "report.html"):
        assert f"figure1-smoke/{name}" in written
        assert (here / "figure1-smoke" / name).stat().st_size


def test_a_finished_run_answers_again_without_running(
    run: Path, capsys: Capture
) -> None:
    arguments = ("reproduce", "figure1", *SMOKE, "--out", str(run))
    about, again = answered(capsys, *arguments), answered(capsys, *arguments)
    assert again == about
    assert about["cells"] == about["planned"] == 36
    measured = [s for s in about["statements"] if s["verdict"]]
    assert 0 < len(measured) < len(about["statements"])
    assert all(s["numbers"] for s in measured)
    assert str(run / "report.html") in about["written"]


def test_each_statement_is_printed_with_what_was_found(capsys: Capture) -> None:
    found = {"held": ["gap [b]+0.1", "b"], "failed": ["gap \x1b[1m-0.2"], None: []}
    statements = [
        {"statement": f"It is {verdict}.", "verdict": verdict, "numbers": numbers}
        for verdict, numbers in found.items()
    ]
    about = {"plan": "p", "profile": "", "cells": 2, "planned": 3, "seconds": 1.0}
    display.reproduced({**about, "statements": statements, "written": ["a", "b"]})
    printed = words_of(capsys.readouterr().out)
    assert "It is held. held gap [b]+0.1 " in printed
    assert "It is failed. failed gap \N{REPLACEMENT CHARACTER}[1m-0.2 " in printed
    assert "It is None." not in printed
    assert "statements 2 judged, 1 not measured here cells 2 of 3; the run" in printed
    assert printed.endswith("written a b")


def test_a_plan_of_ones_own_names_its_folder(here: Path, capsys: Capture) -> None:
    path = own_plan(here / "own.toml", name="mine", profile="", figures=())
    about = answered(capsys, "reproduce", str(path), "--seed", "7", "--device", "cpu")
    assert (about["plan"], about["profile"], about["cells"]) == ("mine", "", 1)
    assert "seed = 7\n" in (here / "own" / "plan.toml").read_text()


def test_report_writes_the_page_beside_the_results_or_elsewhere(
    run: Path, here: Path, capsys: Capture
) -> None:
    (run / "report.html").unlink()
    about = answered(capsys, "report", str(run))
    assert about["written"] == [str(run / "report.html")]
    assert "AffineRank: figure1, smoke" in (run / "report.html").read_text()
    assert main(["report", str(run), "-o", "page.html"]) == 0
    assert "written page.html" in words_of(capsys.readouterr().out)
    assert (here / "page.html").read_text() == (run / "report.html").read_text()


def test_report_of_an_unfinished_run_says_how_far_it_is(
    here: Path, capsys: Capture
) -> None:
    open_folder(here / "run", shipped_plan("figure1", "smoke"))
    assert main(["report", "run"]) == 0
    assert "cells 0 of 36; the run is not over" in words_of(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "figur1"], "there is no plan 'figur1'; did you mean 'figure1'?"),
        (["reproduce", "figure1", "--profile", "small"], "there is no profile 'small'"),
        (["reproduce", "figure1", *SMOKE[:2], "--device", "tpu"], "got 'tpu'"),
        (["reproduce", "figure1", "--data", "nowhere"], "'nowhere' is neither a file"),
        (["reproduce", "figure1", "--relevant-above", "1"], "needs --data"),
        (["reproduce", "own.toml"], "own.toml: there is no such file"),
        (["reproduce", "own.toml", *SMOKE], "own.toml has its own sizes"),
        (["reproduce", "figure1", "--seed", "-1"], "'--seed'"),
        (["report", "nowhere"], "nowhere: not the folder of a run"),
        (["report", "."], ".: not the folder of a run; there is no plan.toml in it"),
    ],
)
def test_wrong_arguments_are_one_sentence_and_leave_nothing(
    here: Path, capsys: Capture, arguments: list[str], message: str
) -> None:
    assert message in refused(capsys, *arguments)
    assert not list(here.iterdir())


def test_a_folder_of_another_plan_is_left_as_it_is(run: Path, capsys: Capture) -> None:
    before = (run / "plan.toml").read_text()
    arguments = ("reproduce", "figure1", *SMOKE, "--out", str(run), "--seed", "3")
    said = refused(capsys, *arguments)
    assert f"{run / 'plan.toml'}: the folder holds results of another plan" in said
    assert (run / "plan.toml").read_text() == before


def test_other_code_does_not_resume_but_recomputes(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = own_plan(here / "own.toml", name="mine", profile="", figures=())
    arguments = ("reproduce", str(path), "--device", "cpu")
    answered(capsys, *arguments)
    before = (here / "own" / "results.parquet").stat().st_mtime_ns
    monkeypatch.setattr("affinerank.research.runner.code_fingerprint", lambda: "x")
    said = refused(capsys, *arguments)
    assert said.startswith("affinerank: own: the code has changed since")
    assert "--recompute" in said
    assert (here / "own" / "results.parquet").stat().st_mtime_ns == before
    assert answered(capsys, "report", "own")["cells"] == 1
    assert answered(capsys, *arguments, "--recompute")["cells"] == 1
    assert (here / "own" / "results.parquet").stat().st_mtime_ns > before


def test_places_that_cannot_be_written_to(
    run: Path, here: Path, capsys: Capture
) -> None:
    (here / "file").touch()
    said = refused(capsys, "reproduce", "figure1", *SMOKE, "--out", "file")
    assert "file: could not be made a run's folder: Not a directory" in said
    said = refused(capsys, "report", str(run), "-o", "nowhere/page.html")
    assert "there is no folder nowhere" in said
    assert "this is a folder" in refused(capsys, "report", str(run), "-o", ".")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff\xfe", "not text: "),
        (b"clicks = ", "not TOML: "),
        (b"clickz = [1.0]", "there is no key 'clickz'; did you mean 'clicks'?"),
        (b'clicks = [1.0, "x"]\ngrids = []', "the key 'name' is missing"),
        (b"clicks = [1.0]\ngrids = [1]", "the key 'name' is missing"),
    ],
)
def test_a_plan_that_is_wrong_is_one_sentence(
    here: Path, capsys: Capture, text: bytes, message: str
) -> None:
    (here / "own.toml").write_bytes(text)
    assert f"own.toml: {message}" in refused(capsys, "reproduce", "own.toml")
