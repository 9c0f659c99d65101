"""A run that resumes is never stale: other code does not go on with its cells."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from affinerank.estimators import ESTIMATORS, Evidence, Weights
from affinerank.research import fingerprint, runner
from affinerank.research.cells import DataSet
from affinerank.research.fingerprint import CODE, code_fingerprint
from affinerank.research.groups import cells_of, groups_of
from affinerank.research.plan import Grid, Plan
from affinerank.research.report import write_report
from affinerank.research.reproduce import outcome
from affinerank.research.results import MERGED, group_file, load_results
from affinerank.research.runner import run_plan
from affinerank.support import plugins
from affinerank.support.errors import DataError
from affinerank.support.registry import later
from affinerank.support.settings import EntrySpec

pytestmark = pytest.mark.slow

PLAN = Plan(
    name="tiny",
    data=(DataSet("tiny", "yahoo-like:40"),),
    click_models=("trust",),
    clicks=(1e3,),
    grids=(Grid(("production", "naive", "affine")),),
    rankers=(EntrySpec("linear-model", (("steps", 3),)),),
    runs=2,
    group_networks=2,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that was interrupted: its last group is not finished."""
    root = run_plan(PLAN, tmp_path / "run", device="cpu")
    (root / MERGED).unlink()
    group_file(root, groups_of(PLAN)[-1]).unlink()
    return root


@pytest.fixture
def other_code(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code is another than the one that measured."""
    del run  # was measured first
    monkeypatch.setattr(runner, "code_fingerprint", lambda: "other")


def content_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time and content of every file, and the names of folders."""
    return {
        str(path.relative_to(folder)): (
            (path.stat().st_mtime_ns, path.read_bytes()) if path.is_file() else (0, b"")
        )
        for path in folder.rglob("*")
    }


def groups_in(folder: Path) -> dict[str, int]:
    """When each finished group was written."""
    files = (folder / "groups").glob("group-*.parquet")
    return {path.name: path.stat().st_mtime_ns for path in files}


def test_the_folder_says_which_code_measures(run: Path) -> None:
    assert json.loads((run / CODE).read_text()) == {
        "format": "affinerank-code",
        "version": 1,
        "fingerprint": code_fingerprint(),
    }


def test_the_same_code_goes_on(run: Path) -> None:
    finished = groups_in(run)
    run_plan(PLAN, run, device="cpu")
    assert finished
    assert finished.items() < groups_in(run).items()
    assert len(load_results(run)) == len(cells_of(PLAN))


@pytest.mark.usefixtures("other_code")
def test_other_code_is_refused_and_changes_nothing(run: Path) -> None:
    before = content_of(run)
    with pytest.raises(DataError, match="code has changed") as caught:
        run_plan(PLAN, run, device="cpu")
    assert str(caught.value).startswith(f"{run}: ")
    assert "--recompute, which discards these cells" in str(caught.value)
    assert "another folder (--out)" in str(caught.value)
    assert content_of(run) == before


def test_a_finished_run_of_other_code_is_refused_and_reported(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_plan(PLAN, run, device="cpu")
    monkeypatch.setattr(runner, "code_fingerprint", lambda: "other")
    with pytest.raises(DataError, match="code has changed"):
        run_plan(PLAN, run, device="cpu")
    assert write_report(run).is_file()
    assert outcome(run)["cells"] == len(cells_of(PLAN))


def test_cells_of_no_known_code_are_refused(run: Path) -> None:
    (run / CODE).unlink()
    before = content_of(run)
    with pytest.raises(DataError, match=r"no code\.json, .*; give --recompute, which"):
        run_plan(PLAN, run, device="cpu")
    assert content_of(run) == before


def test_a_copy_without_groups_is_left_as_it_is(run: Path) -> None:
    run_plan(PLAN, run, device="cpu")
    for path in [*(run / "groups").iterdir(), run / CODE]:
        path.unlink()
    (run / "groups").rmdir()
    before = content_of(run)
    with pytest.raises(DataError, match=r"no code\.json"):
        run_plan(PLAN, run, device="cpu")
    assert content_of(run) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": "affinerank-code", "version": 2}', "version 1, got .* version 2;"),
        ("[]", "expected format 'affinerank-code' version 1, got None version None;"),
        ("{", "not JSON"),
    ],
)
def test_another_format_is_one_sentence(run: Path, content: str, message: str) -> None:
    (run / CODE).write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        run_plan(PLAN, run, device="cpu")
    assert str(caught.value).startswith(f"{run / CODE}: ")


@pytest.mark.usefixtures("other_code")
def test_recompute_measures_all_again(run: Path) -> None:
    finished = groups_in(run)
    run_plan(PLAN, run, device="cpu", recompute=True)
    assert len(load_results(run)) == len(cells_of(PLAN))
    again = groups_in(run)
    assert all(again[name] > finished[name] for name in finished)
    assert json.loads((run / CODE).read_text())["fingerprint"] == "other"
    run_plan(PLAN, run, device="cpu")
    assert groups_in(run) == again


def test_recompute_leaves_the_run_of_another_plan(run: Path) -> None:
    before = content_of(run)
    with pytest.raises(DataError, match="results of another plan"):
        run_plan(replace(PLAN, seed=9), run, device="cpu", recompute=True)
    assert content_of(run) == before


@pytest.mark.usefixtures("other_code")
def test_a_run_without_cells_takes_the_code_of_today(run: Path) -> None:
    for path in (run / "groups").iterdir():
        path.unlink()
    run_plan(PLAN, run, device="cpu")
    assert json.loads((run / CODE).read_text())["fingerprint"] == "other"


def test_cells_are_not_mixed_if_other_code_begins_meanwhile(tmp_path: Path) -> None:
    """A runner that still works with the old code writes nothing any more."""
    root = tmp_path / "run"

    def begin_anew(stage: str, done: int, total: int) -> None:
        del stage, done, total
        fingerprint.write_fingerprint(root, "other")

    with pytest.raises(DataError, match="code has changed"):
        run_plan(PLAN, root, device="cpu", progress=begin_anew)
    assert not groups_in(root)
    assert (root / CODE).is_file()  # the other runner's folder


@pytest.mark.parametrize(
    "package", ["counts", "estimators", "bias", "rankers", "pipeline", "rivals"]
)
def test_every_source_of_a_package_counts(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "SOURCE", tmp_path / "affinerank")
    path = tmp_path / "affinerank" / package / "inner" / "rows.py"
    path.parent.mkdir(parents=True)
    path.write_text("a = 1\n")
    first = code_fingerprint()
    path.write_text("a = 2\n")
    second = code_fingerprint()
    path.rename(path.with_name("other.py"))
    assert len({first, second, code_fingerprint()}) == 3
    (path.parent / "notes.txt").write_text("no code")
    shown = tmp_path / "affinerank" / "output" / "html.py"
    shown.parent.mkdir()
    shown.write_text("not measured by")
    path.with_name("other.py").rename(path)
    assert code_fingerprint() == second


def test_modules_of_added_rows_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = code_fingerprint()
    weigh = ESTIMATORS["affine"].weigh
    module = ModuleType("rows_of_mine")
    module.__file__ = str(tmp_path / "rows_of_mine.py")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def weigh_in_my_way(evidence: Evidence) -> Weights:
        return weigh(evidence)

    weigh_in_my_way.__module__ = module.__name__
    Path(module.__file__).write_text("# one\n")
    mine = replace(ESTIMATORS["affine"], name="mine", weigh=weigh_in_my_way)
    with ESTIMATORS.added(mine):
        first = code_fingerprint()
        Path(module.__file__).write_text("# two\n")
        assert len({plain, first, code_fingerprint()}) == 3
        module.__file__ = None  # as of rows that were typed into a notebook
        assert code_fingerprint() == plain
    assert code_fingerprint() == plain


def test_functions_that_are_imported_later_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "rows_from_afar.py"
    weigh = later("rows_from_afar:weigh")
    mine = replace(ESTIMATORS["affine"], name="mine", weigh=weigh)
    path.write_text("# one\n")
    with ESTIMATORS.added(mine):
        first = code_fingerprint()
        path.write_text("# two\n")
        assert code_fingerprint() != first
    assert "rows_from_afar" not in sys.modules


def test_every_file_of_a_plugin_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_named", [])
    helper = tmp_path / "rows_of_ours" / "inner" / "helper.py"
    helper.parent.mkdir(parents=True)
    helper.write_text("# one\n")
    (tmp_path / "rows_of_ours" / "__init__.py").write_text("")
    plain = code_fingerprint()
    plugins.load_named_plugins(["rows_of_ours"])
    first = code_fingerprint()
    helper.write_text("# two\n")
    assert len({plain, first, code_fingerprint()}) == 3
