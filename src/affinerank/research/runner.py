"""The runner: groups of a plan, one after another, until all are finished.

Several runners may share a folder: each claims a group, trains it and writes its rows.
A group that was not finished is trained again by the next runner. What is finished was
measured by one state of the code, or the run does not go on.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from affinerank.defaults import TREES
from affinerank.research.cells import PRODUCTION
from affinerank.research.claims import claimed
from affinerank.research.commit import source_commit
from affinerank.research.coordinates import values_of
from affinerank.research.fingerprint import (
    code_fingerprint,
    read_fingerprint,
    require_same_code,
    write_fingerprint,
)
from affinerank.research.groups import CellGroup, groups_of
from affinerank.research.measure import measure
from affinerank.research.plan import Plan
from affinerank.research.results import (
    Result,
    discard_results,
    group_file,
    has_results,
    merge_results,
    open_folder,
    require_same_plan,
    write_results,
)
from affinerank.research.worlds import World
from affinerank.support.errors import AffineRankError
from affinerank.support.plugins import load_named_plugins, named_plugins
from affinerank.support.progress import Progress, no_progress

CLAIMS = "claims"
LOOK_AGAIN = 1.0  # seconds between looks at groups that other runners train
LIBRARIES = ("affinerank", "torch", "numpy", "scipy", TREES, "pyarrow")


def run_plan(
    plan: Plan,
    folder: str | os.PathLike[str],
    *,
    sets: str | os.PathLike[str] | None = None,
    device: str = "auto",
    processes: int = 1,
    recompute: bool = False,
    progress: Progress = no_progress,
) -> Path:
    """Finish every group of a plan, and merge their rows; return the folder.

    What was finished before, or is finished meanwhile by other runners on the folder,
    is not done again. Data that are files are read from the folder ``sets``, if given.
    With several processes one draws clicks or estimates users while another trains.
    If the code has changed since, the folder is refused; with ``recompute``, what was
    finished is discarded and measured again.
    """
    machine = this_machine(device)  # a device that is not there leaves no folder
    groups, new = groups_of(plan), not Path(folder).exists()
    root, code = Path(folder), code_fingerprint()
    _begin(root, plan, code, recompute=recompute)
    todo = _unfinished(root, groups)
    runner = _Runner(plan, root, code, device, machine, progress, todo, sets)
    beside = partial(_finish_beside, named_plugins(), plan, root, code, device, sets)
    try:
        with _started(beside, max(min(processes, len(todo)), 1)):
            runner.finish(groups)
    except AffineRankError:  # a folder without results is nothing to resume
        nothing_finished = len(_unfinished(root, groups)) == len(groups)
        if new and nothing_finished and read_fingerprint(root) == code:
            shutil.rmtree(root)
        raise
    runner.report(0.0)
    merge_results(root, groups)
    return root


def _begin(root: Path, plan: Plan, code: str, *, recompute: bool) -> None:
    """Make the folder of a run, or resume in one of the same plan and code."""
    # Nothing is written into a folder that is refused.
    require_same_plan(root, plan)
    if has_results(root) and not recompute:
        require_same_code(root, code)

    open_folder(root, plan)
    if recompute:
        discard_results(root)
    if not has_results(root):
        write_fingerprint(root, code)


def _finish_beside(
    plugins: Sequence[str],
    plan: Plan,
    root: Path,
    code: str,
    device: str,
    sets: str | os.PathLike[str] | None,
) -> None:
    """Finish the groups of a run that another process began, with the same plug-ins."""
    load_named_plugins(plugins)
    groups = groups_of(plan)
    todo = _unfinished(root, groups)
    machine = this_machine(device)
    _Runner(plan, root, code, device, machine, no_progress, todo, sets).finish(groups)


@contextmanager
def _started(work: Callable[[], object], processes: int) -> Iterator[None]:
    """Do the same work in other processes; wait for them, or stop them on an error."""
    new, threads = get_context("spawn"), max((os.cpu_count() or 1) // processes, 1)
    others = [
        new.Process(target=_with_threads, args=(threads, work), daemon=True)
        for _ in range(processes - 1)
    ]
    if others:
        _with_threads(threads)
    for other in others:
        other.start()
    try:
        yield
    except BaseException:
        for other in others:
            other.terminate()
        raise
    finally:
        for other in others:
            other.join()


def _with_threads(number: int, work: Callable[[], object] = dict) -> None:
    """Work with so many threads: processes share the cores."""
    import torch

    torch.set_num_threads(number)
    work()


@dataclass(slots=True)
class _Runner:
    """One process at work on a folder: keeps a data set, reports progress."""

    plan: Plan
    root: Path
    code: str
    device: str
    machine: Mapping[str, Any]
    progress: Progress
    todo: Sequence[CellGroup]
    sets: str | os.PathLike[str] | None
    world: World | None = None

    def finish(self, groups: Sequence[CellGroup]) -> None:
        """Train groups until all are finished, here or by other runners."""
        while waiting := _unfinished(self.root, groups):
            trained = [self.train(group) for group in waiting]
            if not any(trained):
                time.sleep(LOOK_AGAIN)

    def train(self, group: CellGroup) -> bool:
        """Train a group if no other runner has it; return whether it was trained."""
        path = group_file(self.root, group)
        with claimed(self.root / CLAIMS / group.name) as mine:
            if not mine or path.exists():
                return False
            self.report(0.0)
            results = self._measure(group)
            # Another runner with other code may have begun the folder anew meanwhile.
            require_same_code(self.root, self.code)
            write_results(path, results)
        return True

    def report(self, under_way: float) -> None:
        """Report rankers that are trained, of those that were not at the start.

        Part of a group under way counts for its epochs, in thousandths of a ranker.
        """
        left = sum(group.networks for group in _unfinished(self.root, self.todo))
        total = sum(group.networks for group in self.todo)
        done = round(1000 * (total - left + under_way))
        self.progress("networks", done, 1000 * total)

    def _measure(self, group: CellGroup) -> list[Result]:
        plan, started = self.plan, time.perf_counter()
        data = plan.data_set(group.data).below(self.sets)
        fold = data.fold(group.cells[0].run)
        if self.world is None or (self.world.data, self.world.fold) != (data, fold):
            self.world = None  # one data set at a time is enough memory
            how: dict[str, Any] = {"production": plan.production, "fold": fold}
            if self.machine["device"].startswith("cuda"):  # others prepare meanwhile
                how["turn"] = partial(claimed, self.root / CLAIMS / "device", wait=True)
            self.world = World(data, plan.seed, **how)
        measured = measure(
            self.world,
            group.cells,
            plan.train_settings(group.ranker, data, self.device),
            early_stopping=plan.early_stopping,
            # Clicks before, judging after the epochs: a step each.
            progress=lambda _, done, total: self.report(
                group.networks * (done + 1) / (total + 2)
            ),
        )
        each = (time.perf_counter() - started) / max(group.networks, 1)
        return [
            Result(
                cell=cell,
                group=group.number,
                seconds=0.0 if cell.estimator == PRODUCTION else each,
                **self.machine,
                **values_of(one),
            )
            for cell, one in zip(group.cells, measured, strict=True)
        ]


def this_machine(device: str) -> dict[str, str]:
    """Describe what computes here: versions, commit and device of results."""
    import torch

    from affinerank.rankers.networks.parallel import Group as Processes
    from affinerank.rankers.networks.training import choose_device

    versions = ", ".join(f"{name} {_version(name)}" for name in LIBRARIES)
    chosen = choose_device(device, Processes.current())
    name = chosen.type
    if name == "cuda":
        name = f"cuda ({torch.cuda.get_device_name(chosen)})"
    return {"versions": versions, "commit": source_commit(), "device": name}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # imported from its source tree
        return "(not installed)"


def _unfinished(root: Path, groups: Sequence[CellGroup]) -> list[CellGroup]:
    return [group for group in groups if not group_file(root, group).exists()]
