"""The command line, as a user meets it: output, messages, exit codes."""

import gzip
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from affinerank.cli import demo, main

pytestmark = pytest.mark.slow

GOOD = b"1 qid:1 1:0.5 2:1\n0 qid:1 1:0.7\n3 qid:2 2:1\n"


def written(folder: Path, text: bytes, name: str = "data.txt") -> str:
    (folder / name).write_bytes(text)
    return str(folder / name)


def test_describe_prints_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "describe", written(tmp_path, GOOD)]) == 0
    printed = capsys.readouterr()
    assert "documents" in printed.out
    assert "learns from 20 queries, and the data have 2" in printed.out.replace(
        "\n", " "
    )
    assert printed.err == ""


def test_describe_speaks_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "describe", written(tmp_path, GOOD), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert (about["queries"], about["documents"], about["features"]) == (2, 3, 2)
    assert about["label_shares"] == {"0": 1 / 3, "1": 1 / 3, "3": 1 / 3}


def test_describe_of_a_world_shows_the_share_by_rank(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["data", "describe", "mslr-like:30"]) == 0
    printed = capsys.readouterr().out
    assert "mslr-like:30 (synthetic), train split" in printed
    assert "nDCG@10" in printed
    assert "…" not in printed  # nothing cut off at 80 columns


def test_convert_writes_parquet_that_describes_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = written(tmp_path, gzip.compress(GOOD), "data.txt.gz")
    target = str(tmp_path / "data.parquet")
    assert main(["data", "convert", source, target]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "queries 2 documents 3 features 2" in printed
    described = []
    for path in (source, target):
        assert main(["data", "describe", path, "--json"]) == 0
        described.append({**json.loads(capsys.readouterr().out), "data": ""})
    assert described[0] == described[1]


def test_a_note_goes_to_stderr_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = b"1 qid:1 1:1\n1 qid:2 1:1\n1 qid:1 1:2\n"
    assert main(["data", "describe", written(tmp_path, text), "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["queries"] == 2
    assert printed.err.startswith("note: rows of one query were not together")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (b"1 qid:1 1:x\n", "data.txt", "data.txt, line 1: expected a number after"),
        (b"qid:1 1:1\n", "data.txt", "data.txt, line 1: expected a label"),
        (gzip.compress(GOOD, mtime=0)[:-9], "data.txt.gz", "not be read to its end"),
        (b"\x00\x01", "data.bin", "holds binary data"),
    ],
)
def test_bad_input_is_one_sentence_exit_two_and_no_output(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: bytes,
    name: str,
    message: str,
) -> None:
    source = written(tmp_path, text, name)
    target = tmp_path / "out.parquet"
    assert main(["data", "convert", source, str(target)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("affinerank: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "describe", "nothing.txt"], "neither a file, nor a folder"),
        (["data", "describe", "yahoo-like:0"], "as in yahoo-like:2000"),
        (["data", "describe", "yahoo-like:9", "--split", "tset"], "got 'tset'"),
        (["data", "describe", "yahoo-like:9", "--missing", "zero"], "got 'zero'"),
        (["data", "convert", "yahoo-like:9", "out.csv"], "must end in .parquet"),
        (["data", "describe"], "Missing argument 'DATA'"),
        (["demo", "--sed", "1"], "No such option"),
        (["nothing"], "No such command 'nothing'"),
    ],
)
def test_wrong_arguments_are_one_sentence_and_exit_two(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_the_demo_runs_every_command_it_prints(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "WORLD", "shop-like:60")
    monkeypatch.setattr(demo, "CLICKS", "3000")
    folder = tmp_path / "demo"
    assert main(["demo", "--out", str(folder)]) == 0
    printed = capsys.readouterr().out
    for step in demo.demo_steps():
        assert f"$ {step.command}\n" in printed
    names = {path.name for path in folder.iterdir()}
    files = {
        "log.csv",
        "products.csv",
        "audit.html",
        "counts.parquet",
        "click-model.json",
    }
    assert names >= files | {"model"}
    assert "model is better than production" in printed.splitlines()[-3]
    # The folder is not written over.
    assert main(["demo", "--out", str(folder)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_the_installed_command_answers_for_help() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from affinerank.cli import run; run()", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "describe" not in done.stdout
    assert "demo" in done.stdout


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"affinerank {metadata.version('affinerank')}\n"
