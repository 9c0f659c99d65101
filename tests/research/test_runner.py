"""The runner: what it measures, that it survives being killed, that two get along."""

import gzip
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import numpy as np
import pytest
import torch

from affinerank.research.cells import Cell, DataSet
from affinerank.research.claims import claimed
from affinerank.research.groups import cells_of, groups_of
from affinerank.research.plan import Grid, Plan, shipped_plan, with_data
from affinerank.research.results import (
    MERGED,
    Result,
    group_file,
    load_results,
    read_results,
    write_results,
)
from affinerank.research.runner import run_plan
from affinerank.support.errors import DataError
from affinerank.support.settings import EntrySpec

pytestmark = pytest.mark.slow

ACTIVATIONS = ("soft-min-max", "softmax", "sigmoid")
TINY = Plan(
    name="tiny",
    data=(DataSet("tiny", "yahoo-like:40", learning_rate=0.01),),
    click_models=("trust(eta=1, eps_minus_1=0.65)", "trust(eta=2, eps_minus_1=0.35)"),
    clicks=(1e3, 1e4),
    grids=(Grid(("production", "full-information", "naive", "affine")),),
    rankers=(EntrySpec("mlp", (("hidden", (8,)), ("epochs", 2))),),
    runs=2,
    group_networks=5,
    early_stopping=True,
)

RUN = """
import sys
from affinerank.research.plan import read_plan
from affinerank.research.runner import run_plan
run_plan(read_plan(sys.argv[1]), sys.argv[2], device="cpu")
"""


def measured(folder: Path) -> dict[Cell, tuple[object, ...]]:
    """All of each row but how long it took and what computed it; nan equals nan."""
    return {r.cell: _timeless(r) for r in load_results(folder)}


def _timeless(result: Result) -> tuple[object, ...]:
    row = replace(result, seconds=0.0, per_query=(), versions="", commit="", device="")
    return (row, np.array(result.per_query).tobytes())


# Where runners are forked from: a process that has imported all they need, once.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["lightgbm", "affinerank.research.runner"])


def started(folder: Path) -> ForkServerProcess:
    """A process of its own that runs the tiny plan."""
    process = SERVER.Process(
        target=run_plan, args=(TINY, folder), kwargs={"device": "cpu"}
    )
    process.start()
    return process


def ended(process: ForkServerProcess) -> int | None:
    process.join()
    return process.exitcode


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "undisturbed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # of the server, which starts here
        assert ended(started(folder)) == 0
    return folder


def test_every_cell_has_one_row_with_all_that_it_depends_on(undisturbed: Path) -> None:
    results = load_results(undisturbed)
    assert sorted(repr(r.cell) for r in results) == sorted(map(repr, cells_of(TINY)))
    for result in results:
        values = np.array(result.per_query)
        assert result.ndcg == pytest.approx(np.nanmean(values), abs=1e-6)
        assert 0 < result.ndcg < 1
        assert "torch" in result.versions
        assert result.device == "cpu"
        assert len(result.digest) == 32
        assert result.queries == 40
        trained = result.cell.estimator != "production"
        assert (result.held_out_ndcg is not None) == trained
        assert (result.seconds > 0) == trained
        if trained:
            assert result.held_out_epoch in (1, 2)
        if result.cell.clicks is not None:
            assert result.clicks_drawn == pytest.approx(result.cell.clicks, rel=0.2)
    digests = {(r.cell.run, r.digest) for r in results}
    assert len(digests) == 2


def test_killed_at_any_moment_it_resumes_to_the_same_results(
    undisturbed: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    kept: dict[Path, int] = {}
    for _ in range(3):
        process = started(folder)
        finished = len(kept)
        while len(files := list(folder.glob("groups/group-*.parquet"))) == finished:
            assert process.is_alive()
            time.sleep(0.005)
        process.kill()
        assert ended(process) == -signal.SIGKILL
        kept = {f: f.stat().st_mtime_ns for f in files}
    assert not (folder / MERGED).exists()
    assert 0 < len(load_results(folder)) < len(cells_of(TINY))
    assert ended(started(folder)) == 0
    assert {f: f.stat().st_mtime_ns for f in kept} == kept, "a group was done again"
    assert measured(folder) == measured(undisturbed)


def test_two_runners_on_one_folder_share_the_work(
    undisturbed: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "shared"
    both = [started(folder), started(folder)]
    assert [ended(process) for process in both] == [0, 0]
    assert measured(folder) == measured(undisturbed)


def test_processes_of_one_call_share_the_work(
    undisturbed: Path, tmp_path: Path
) -> None:
    threads = torch.get_num_threads()
    run_plan(TINY, tmp_path / "run", device="cpu", processes=2)
    torch.set_num_threads(threads)
    assert measured(tmp_path / "run") == measured(undisturbed)
    assert not multiprocessing.active_children()


def test_training_on_one_device_takes_turns(tmp_path: Path) -> None:
    path = tmp_path / "claims" / "device"
    order: list[str] = []
    with claimed(path, wait=True):
        other = threading.Thread(target=lambda: _in_turn(path, order))
        other.start()
        other.join(0.2)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]


def _in_turn(path: Path, order: list[str]) -> None:
    with claimed(path, wait=True):
        order.append("second")


def test_a_claim_ends_with_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "claims" / "group-0000"
    with claimed(path) as first, claimed(path) as second:
        assert (first, second) == (True, False)
    with claimed(path) as again:
        assert again


def test_a_cells_result_does_not_depend_on_the_rest_of_the_plan(
    undisturbed: Path, tmp_path: Path
) -> None:
    grid = Grid(("affine",), click_models=TINY.click_models[1:], clicks=(1e4,))
    less = replace(TINY, grids=(grid,))
    run_plan(less, tmp_path / "less", device="cpu")
    whole = {r.cell: r for r in load_results(undisturbed)}
    for result in load_results(tmp_path / "less"):
        other = whole[result.cell]
        assert result.clicks_drawn == other.clicks_drawn
        assert result.digest == other.digest
        # The same but for the order in which other stack sizes add up.
        np.testing.assert_allclose(result.ndcg, other.ndcg, atol=1e-4)


def test_another_plan_in_the_folder_is_an_error(undisturbed: Path) -> None:
    with pytest.raises(DataError, match="results of another plan"):
        run_plan(replace(TINY, seed=5), undisturbed)


def test_progress_ends_at_its_total_and_never_falls(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    fresh = Grid(("affine",), clicks=(1e3,), click_model_from=("softmax(fresh=true)",))
    run_plan(
        replace(TINY, runs=1, early_stopping=False, grids=(*TINY.grids, fresh)),
        tmp_path / "run",
        device="cpu",
        progress=lambda _, done, total: told.append((done, total)),
    )
    done = [d for d, _ in told]
    assert done == sorted(done)
    assert told[-1][0] == told[-1][1] == told[0][1] == 1000 * 11


def test_regression_em_gives_a_ranker_and_users_for_each_activation(
    tmp_path: Path,
) -> None:
    grid = Grid(("affine",), click_model_from=ACTIVATIONS, clicks=(1e4,))
    run_plan(replace(TINY, grids=(grid,), runs=1), tmp_path / "run", device="cpu")
    results = load_results(tmp_path / "run")
    assert {r.cell.click_model_from for r in results} == set(ACTIVATIONS)
    for result in results:
        assert 0 < result.ndcg < 1
        assert len(result.alpha) == len(result.beta) > 10
        assert result.held_out_epoch in (1, 2)


def test_trees_cutoffs_and_swaps_go_through_a_plan(tmp_path: Path) -> None:
    grid = Grid(
        ("full-information", "affine", "affine(clip=0.1)"),
        policies=("fixed(top_k=5)", "swap(share=0.5)"),
        click_models=TINY.click_models[:1],
        rankers=("lightgbm(trees=5)", "mlp(loss=squared)"),
        clicks=(1e4,),
    )
    plan = replace(TINY, grids=(grid,), runs=1)
    run_plan(plan, tmp_path / "run", device="cpu")
    results = load_results(tmp_path / "run")
    assert {r.cell for r in results} == set(cells_of(plan))
    assert len(results) == 2 + 2 * 2 * 2
    assert all(0 < r.ndcg < 1 for r in results)
    drawn = {(r.cell.policy, r.clicks_drawn) for r in results if r.cell.policy}
    assert len(drawn) == 2


def test_each_run_reads_its_fold_of_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [
        f"{4 * (value > 0.7)} qid:{query} 1:{value} 2:{rng.random()}\n"
        for query in range(75)
        for value in rng.random(6)
    ]
    (tmp_path / "own.txt").write_text("".join(lines))
    grid = Grid(
        ("production", "affine"), click_model_from=("true", "softmax"), clicks=(1e4,)
    )
    data = (DataSet("own", "own.txt", folds=3),)
    plan = replace(TINY, data=data, grids=(grid,), runs=4)
    run_plan(plan, tmp_path / "run", sets=tmp_path, device="cpu")
    results = load_results(tmp_path / "run")
    assert len(results) == len(cells_of(plan))
    digests = {(r.cell.run, r.digest) for r in results}
    assert len(digests) == len({digest for _, digest in digests}) == 4
    assert {(r.queries, len(r.per_query)) for r in results} == {(25, 25)}
    assert str(tmp_path) not in (tmp_path / "run" / "plan.toml").read_text()


def test_rows_of_other_cells_are_not_merged(tmp_path: Path) -> None:
    plan = replace(TINY, grids=(Grid(("production",)),), runs=1)
    root = run_plan(plan, tmp_path / "run", device="cpu")
    path = group_file(root, groups_of(plan)[0])
    write_results(path, [replace(r, group=0) for r in read_results(path)] * 2)
    with pytest.raises(DataError, match="holds other cells than the plan"):
        run_plan(plan, tmp_path / "run", device="cpu")


def test_the_runner_needs_nothing_but_the_training_path(tmp_path: Path) -> None:
    code = """
import sys
for name in ("vl_convert", "polars", "ibis", "duckdb", "pydantic", "rich"):
    sys.modules[name] = None
"""
    path = tmp_path / "plan.toml"
    path.write_text(replace(TINY, runs=1, clicks=(1e3,)).to_toml())
    words = [sys.executable, "-c", code + RUN, str(path), str(tmp_path / "run")]
    subprocess.run(words, check=True)
    assert load_results(tmp_path / "run")


def test_figure1_runs_at_the_smoke_profile(tmp_path: Path) -> None:
    plan = shipped_plan("figure1", "smoke")
    run_plan(plan, tmp_path / "run", device="cpu")
    results = load_results(tmp_path / "run")
    assert len(results) == len(cells_of(plan))
    merged = read_results(tmp_path / "run" / MERGED)
    parts = [
        row
        for group in groups_of(plan)
        for row in read_results(group_file(tmp_path / "run", group))
    ]
    assert list(map(_timeless, merged)) == list(map(_timeless, parts))


@pytest.mark.skipif(
    "AFFINERANK_DATA" not in os.environ,
    reason="AFFINERANK_DATA does not name a folder with the real sets",
)
def test_figure1_runs_on_a_folder_laid_out_like_mslr(tmp_path: Path) -> None:
    root = Path(os.environ["AFFINERANK_DATA"])
    sample = root / "mslr-sample" / "mslr-sample.txt.gz"
    fold = tmp_path / "MSLR-WEB30K" / "Fold1"
    fold.mkdir(parents=True)
    lines = gzip.decompress(sample.read_bytes()).splitlines(keepends=True)
    queries = [line.split()[1] for line in lines]
    known = list(dict.fromkeys(queries))
    parts = {"train": known[:110], "vali": known[110:140], "test": known[140:]}
    for name, chosen in parts.items():
        wanted = set(chosen)
        own = [x for x, q in zip(lines, queries, strict=True) if q in wanted]
        (fold / f"{name}.txt").write_bytes(b"".join(own))
    plan = with_data(shipped_plan("figure1", "smoke"), tmp_path)
    grid = Grid(
        plan.grids[0].estimators,
        click_models=plan.click_models[:1],
        clicks=plan.clicks[-1:],
    )
    plan = replace(plan, grids=(grid,), runs=1)
    run_plan(plan, tmp_path / "run", device="cpu")
    results = load_results(tmp_path / "run")
    assert {r.cell.data for r in results} == {"mslr30k"}
    assert {r.queries for r in results} == {110}
    shutil.rmtree(tmp_path / "run")


def test_a_run_that_cannot_begin_leaves_no_folder(tmp_path: Path) -> None:
    plan = shipped_plan("figure1", "smoke")
    small = replace(plan.data[0], source="yahoo-like:9")  # too few for a ranker
    with pytest.raises(DataError, match="the data have 9"):
        run_plan(replace(plan, data=(small,)), tmp_path / "run")
    assert not list(tmp_path.iterdir())
