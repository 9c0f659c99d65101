"""Files appear whole or not at all, and never replace what they are made from."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from affinerank.support.errors import DataError
from affinerank.support.files import (
    atomic_write,
    is_stale,
    new_folder,
    require_other_files,
    scratch_folder,
    this_process,
)


def ended_process() -> int:
    """Number of a process that has been, and is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def name_of(pid: int) -> str:
    return this_process().replace(f"-{os.getpid()}", f"-{pid}")


def test_a_block_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")
    with suppress(ValueError), atomic_write(path) as aside:
        aside.write_text("half")
        raise ValueError("no")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_killed_processes_left_is_removed_by_the_next(tmp_path: Path) -> None:
    dead = name_of(ended_process())
    stale = tmp_path / f".a.txt.{dead}-0.part"
    stale.write_text("half")
    folder = tmp_path / f".a.txt.{dead}-1.part"
    (folder / "inside").mkdir(parents=True)
    kept = [
        tmp_path / f".a.txt.{name_of(1)}-0.part",  # a process that is there
        tmp_path / ".a.txt.elsewhere-99999999-0.part",  # of another machine
        tmp_path / f".b.txt.{dead}-0.part",  # of another file
    ]
    for path in kept:
        path.write_text("")
    with atomic_write(tmp_path / "a.txt") as aside:
        aside.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted([*kept, tmp_path / "a.txt"])


def test_what_a_killed_process_left_of_a_file_within_a_file_is_removed(
    tmp_path: Path,
) -> None:
    dead = name_of(ended_process())
    (tmp_path / f"..a.txt.{dead}-0.part.{dead}-1.part").write_text("half")
    kept = tmp_path / f".b.a.txt.{dead}-0.part"  # of another file
    kept.write_text("")
    with atomic_write(tmp_path / "a.txt") as aside:
        aside.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted([kept, tmp_path / "a.txt"])


def test_a_scratch_folder_that_is_still_written_into_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by threads of an engine that was stopped."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    real, times = shutil.rmtree, []

    def remove_while_written(path: Path, **named: Any) -> None:
        real(path, **named)
        times.append(path)
        if len(times) < 3:
            path.mkdir()
            (path / "spill").write_text("more")

    monkeypatch.setattr("shutil.rmtree", remove_while_written)
    with scratch_folder() as folder:
        pass
    assert not folder.exists()
    assert times == [folder] * 3


def test_scratch_folders_of_killed_processes_go_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"affinerank-{name_of(ended_process())}-x").mkdir()
    (tmp_path / f"affinerank-{this_process()}-x").mkdir()
    (tmp_path / "affinerank-notes").mkdir()
    with scratch_folder() as folder:
        assert folder.is_dir()
    assert not folder.exists()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"affinerank-{this_process()}-x", "affinerank-notes"}


def test_a_link_stays_and_what_it_names_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("named")
    with atomic_write(tmp_path / "link") as aside:
        aside.write_text("whole")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "named").read_text() == "whole"


@pytest.mark.parametrize("name", ["", "x", "host-1", f"{this_process()}0" * 40])
def test_names_that_are_no_process_are_not_stale(name: str) -> None:
    assert not is_stale(name)


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_write(path) as first, atomic_write(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # replaced last


@pytest.mark.parametrize(
    ("output", "given"),
    [
        ("log.parquet", "log.parquet"),
        ("./sub/../log.parquet", "log.parquet"),
        ("link.parquet", "log.parquet"),
        ("log.parquet", "link.parquet"),
        ("hard.parquet", "log.parquet"),
        ("log.parquet", "*.parquet"),
        ("new.parquet", "*.parquet"),  # the next run would read it
        ("log.parquet", "l?g.parq*"),
        ("sub/new.parquet", "sub"),
        ("log.parquet", "."),
        ("sub/log.parquet", "linked"),
    ],
)
def test_an_output_that_is_an_input_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, given: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("log.parquet").write_text("x")
    Path("link.parquet").symlink_to("log.parquet")
    Path("linked").symlink_to("sub")
    os.link("log.parquet", "hard.parquet")
    with pytest.raises(DataError, match="would replace what is read"):
        require_other_files([Path(output)], [given])


@pytest.mark.parametrize(
    ("output", "given"),
    [
        ("new.parquet", "log.parquet"),
        ("new.html", "*.parquet"),
        ("ranker", "."),
        ("sub/new.parquet", "*.parquet"),
        ("new.parquet", "sub"),
        ("new.parquet", None),
        ("new.parquet", "yahoo-like:60"),
    ],
)
def test_other_outputs_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, given: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("log.parquet").write_text("x")
    require_other_files([Path(output), None], [given])
    assert Path("log.parquet").read_text() == "x"
    assert not Path(output).exists()


def test_one_file_is_not_written_twice() -> None:
    with pytest.raises(DataError, match=r"b/\.\./a: is to be written twice"):
        require_other_files([Path("a"), None, Path("b/../a")], [])


def test_a_folder_that_cannot_be_filled_is_not_there(tmp_path: Path) -> None:
    told = pytest.raises(DataError, match="could not be written")
    with told, new_folder(tmp_path / "new") as aside:
        (aside / "x" / "y").write_text("")
    assert not list(tmp_path.iterdir())
