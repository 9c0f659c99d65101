"""A copy of a run that is small enough to keep: plan, results, figures, report.

    affinerank reproduce all --profile paper --out RUN
    python benchmarks/paper.py RUN docs/paper-run

Values by query are kept at the most clicks alone. An unfinished run stays in its
groups, so that the copy can be resumed; prints what each group took, and at which rate
the networks of its cells were trained.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from affinerank.data.sources import DataSource
from affinerank.rankers.networks.settings import NetworkSettings, parameter_shapes
from affinerank.research.cells import PRODUCTION, TRUE
from affinerank.research.fingerprint import CODE
from affinerank.research.groups import CellGroup, groups_of
from affinerank.research.plan import Plan, read_plan
from affinerank.research.report import write_figures, write_report
from affinerank.research.results import (
    GROUPS,
    PLAN,
    Result,
    group_file,
    merge_results,
    open_folder,
    read_results,
    write_results,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("copy", type=Path)
    given = parser.parse_args()
    plan = read_plan(given.run / PLAN)
    open_folder(given.copy, plan)
    groups = groups_of(plan)
    finished = [g for g in groups if group_file(given.run, g).exists()]
    print(f"group  {'data':11s}  {'click_model_from':24s}  networks  seconds  TFLOP/s")
    for group in finished:
        results = read_results(group_file(given.run, group))
        write_results(group_file(given.copy, group), [slim(r, plan) for r in results])
        report(group, results, plan)
    if (given.run / CODE).exists():
        shutil.copy(given.run / CODE, given.copy)  # without it, no copy is resumed
    if len(finished) == len(groups):
        merge_results(given.copy, groups)
        for group in groups:
            group_file(given.copy, group).unlink()
        (given.copy / CODE).unlink(missing_ok=True)  # there is nothing to resume
        (given.copy / GROUPS).rmdir()
    write_figures(given.copy, ("png",))
    write_report(given.copy)


def slim(result: Result, plan: Plan) -> Result:
    """Leave out the values by query, but at the most clicks."""
    kept = result.cell.clicks in (None, max(plan.clicks))
    return result if kept else replace(result, per_query=())


def report(group: CellGroup, results: list[Result], plan: Plan) -> None:
    """Print a group's time from its first click to its last value, and its rate."""
    seconds = sum(result.seconds for result in results)
    trained = [cell for cell in group.cells if cell.estimator != PRODUCTION]
    click_model_from = next(
        (c.click_model_from for c in trained if c.click_model_from is not None), TRUE
    )
    settings = plan.ranker_settings(group.ranker, plan.data_set(group.data), "cpu")
    rate, source = "", plan.data_set(group.data).source
    if trained and isinstance(settings, NetworkSettings) and "-like" in source:
        train = DataSource.parse(source).read("train")
        shapes = parameter_shapes(train.n_features, settings)
        weights = sum(int(np.prod(shape)) for shape in shapes)
        work = 6.0 * weights * train.n_docs * settings.epochs * group.networks
        rate = f"{work / seconds / 1e12:7.1f}"
    print(
        f"{group.number:5d}  {group.data:11s}  {click_model_from:24s}  "
        f"{group.networks:8d}  "
        f"{seconds:7.0f}  {rate}"
    )


if __name__ == "__main__":
    main()
