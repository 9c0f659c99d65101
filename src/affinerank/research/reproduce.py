"""One call for an experiment: plan it, run it, draw it, report it."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from affinerank.research.groups import cells_of
from affinerank.research.plan import (
    PLANS,
    PROFILES,
    Plan,
    read_plan,
    sets_of,
    shipped_plan,
    with_data,
    with_sets,
)
from affinerank.research.results import load_run
from affinerank.research.runner import run_plan
from affinerank.research.statements.ours import check_our_statements
from affinerank.research.statements.paper import check_statements
from affinerank.support.files import PathLike
from affinerank.support.progress import Progress, no_progress


def plan_for(
    name: str,
    *,
    profile: str = "laptop",
    data: PathLike | None = None,
    relevant_above: float | None = None,
    seed: int | None = None,
) -> Plan:
    """Return a shipped plan by its name, or your own by its file, for some data."""
    own = name not in PLANS and Path(name).suffix == ".toml"
    plan = read_plan(name) if own else shipped_plan(name, profile)
    if not own and (sets := sets_of(plan, data)):
        plan = with_sets(plan, sets, relevant_above)
    elif data is not None:
        plan = with_data(plan, data, relevant_above)
    return plan if seed is None else replace(plan, seed=seed)


def reproduce(
    name: str,
    folder: PathLike,
    *,
    profile: str = "laptop",
    data: PathLike | None = None,
    relevant_above: float | None = None,
    seed: int | None = None,
    device: str = "auto",
    processes: int | None = None,
    recompute: bool = False,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Run an experiment, or what is left of it, into ``folder``.

    Args:
        name: ``figure1`` and the like (``PLANS``), or the file of a plan.
        folder: Of the run; an interrupted one is resumed, if the code is the same.
        profile: Size of a shipped plan.
        data: Folder with real sets, in the place of worlds; ``real`` takes that of the
            environment variable ``AFFINERANK_DATA`` by default.
        relevant_above: Labels above this are relevant (default: the plan's).
        seed: Of the first run (default: the plan's).
        device: ``auto``, ``cpu`` or ``cuda``.
        processes: How many work on it at once; left out, two, or one for small plans.
        recompute: Discard the finished cells of the folder, and measure all again.
        progress: Called as rankers are trained.

    Returns:
        Plain data: cells measured, statements with what was found, and the files
        written. Figures and report are written only if vl-convert is installed.
    """
    plan = plan_for(
        name, profile=profile, data=data, relevant_above=relevant_above, seed=seed
    )
    sets = sets_of(shipped_plan(name, profile), data) if name in PLANS else None
    usual = 2 if plan.profile in PROFILES[1:] else 1
    root = run_plan(
        plan,
        folder,
        sets=sets,
        device=device,
        processes=processes or usual,
        recompute=recompute,
        progress=progress,
    )
    written = [str(root / "results.parquet")]
    if find_spec("vl_convert"):
        from affinerank.research.report import write_figures, write_report

        written += [str(path) for path in write_figures(root)]
        written.append(str(write_report(root)))
    return {**outcome(root), "written": written}


def outcome(run: PathLike) -> dict[str, Any]:
    """Summarise a run, finished or not, as plain data."""
    plan, results = load_run(run)
    return {
        "plan": plan.name,
        "profile": plan.profile,
        "cells": len(results),
        "planned": len(cells_of(plan)),
        "seconds": sum(result.seconds for result in results),
        "statements": [
            {"statement": s.text, "verdict": found.verdict, "numbers": found.numbers}
            for s, found in (*check_our_statements(results), *check_statements(results))
        ],
    }
