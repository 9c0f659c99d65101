"""A copy of a run that is small enough to keep: plan, results, figures, report.

    affinerank reproduce all --profile paper --out RUN
    python benchmarks/paper.py RUN docs/paper-run

Values by query are kept at the most clicks alone. A run that is not over stays in its
groups, so that the copy can be gone on with; prints what each group took.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from affinerank.data.synthetic import generate_world
from affinerank.experiments.cells import Group, groups_of
from affinerank.experiments.plan import PRODUCTION, Plan, read_plan
from affinerank.experiments.report import write_figures, write_report
from affinerank.experiments.results import (
    GROUPS,
    PLAN,
    Result,
    group_file,
    merge_results,
    open_folder,
    read_results,
    write_results,
)
from affinerank.rankers.mlp import parameter_shapes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("copy", type=Path)
    asked = parser.parse_args()
    plan = read_plan(asked.run / PLAN)
    open_folder(asked.copy, plan)
    groups = groups_of(plan)
    finished = [g for g in groups if group_file(asked.run, g).exists()]
    print("group  data        users    networks  seconds  TFLOP/s")
    for group in finished:
        results = read_results(group_file(asked.run, group))
        write_results(group_file(asked.copy, group), [slim(r, plan) for r in results])
        tell(group, results, plan)
    if len(finished) == len(groups):
        merge_results(asked.copy, groups)
        for group in groups:
            group_file(asked.copy, group).unlink()
        (asked.copy / GROUPS).rmdir()
    write_figures(asked.copy, ("png",))
    write_report(asked.copy)


def slim(result: Result, plan: Plan) -> Result:
    """Leave out the values by query, but at the most clicks."""
    kept = result.cell.clicks in (None, max(plan.clicks))
    return result if kept else replace(result, per_query=())


def tell(group: Group, results: list[Result], plan: Plan) -> None:
    """Print a group's time from its first click to its last value, and its rate."""
    seconds = sum(result.seconds for result in results)
    users = {c.users for c in group.cells if c.estimator != PRODUCTION}
    train = generate_world(group.data)
    shapes = parameter_shapes(
        train.n_features, plan.network.settings(0.01, plan.seed, "cpu")
    )
    weights = sum(int(np.prod(shape)) for shape in shapes)
    work = 6.0 * weights * train.n_docs * plan.network.epochs * group.networks
    name = "known" if users == {"true"} else "EM" if group.em else "default"
    # An estimation that rests is not trained on, so its work is not known.
    rate = "" if group.em else f"{work / seconds / 1e12:7.1f}"
    print(
        f"{group.number:5d}  {group.data:10s}  {name:7s}  {group.networks:8d}  "
        f"{seconds:7.0f}  {rate}"
    )


if __name__ == "__main__":
    main()
