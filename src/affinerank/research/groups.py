"""Cells of a plan, and the groups that they are trained in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from affinerank.research.cells import PRODUCTION, TRUE, Cell, stacked, trained_jointly
from affinerank.research.coordinates import estimator_of
from affinerank.research.plan import Grid, Plan


@dataclass(frozen=True, slots=True)
class CellGroup:
    """Cells that are trained together, finished together or not at all.

    Attributes:
        number: Its place in the plan, from 0.
        data: Data set that all its cells share.
        ranker: Ranker that all its cells share.
        cells: At most as many as the plan allows.
    """

    number: int
    data: str
    ranker: str
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"group-{self.number:04d}"

    @property
    def networks(self) -> int:
        """How many of its cells are trained."""
        return sum(cell.estimator != PRODUCTION for cell in self.cells)


def cells_of(plan: Plan) -> tuple[Cell, ...]:
    """List every cell of a plan, once, in the plan's order."""
    cells = (cell for grid in plan.grids for cell in _cells(grid, plan.runs))
    return tuple(dict.fromkeys(cells))


def groups_of(plan: Plan) -> tuple[CellGroup, ...]:
    """Group the cells of a plan: a function of the plan alone.

    A group has one data set, of which it reads one fold, one ranker, and one way to
    come by its users: known, estimated log by log, or estimated at once by one method,
    before or while rankers are trained. Groups of a kind are as equal in size as
    possible, so that none is small.
    """
    kinds: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells_of(plan):
        # Production depends on no ranker, so it goes with the first.
        ranker = cell.ranker or plan.rankers[0].name
        method = cell.click_model_from if stacked(cell) else None
        how = method, trained_jointly(cell), cell.click_model_from in (None, TRUE)
        fold = plan.data_set(cell.data).fold(cell.run)
        kinds.setdefault((cell.data, ranker, *how, fold), []).append(cell)
    groups: list[CellGroup] = []
    for (data, ranker, *_), cells in kinds.items():
        parts = -(-len(cells) // plan.group_networks)
        for part in np.array_split(np.arange(len(cells)), parts):
            chosen = tuple(cells[i] for i in part)
            groups.append(CellGroup(len(groups), data, ranker, chosen))
    return tuple(groups)


def _cells(grid: Grid, runs: int) -> Iterator[Cell]:
    log = (grid.data, grid.click_models, grid.policies, grid.clicks, range(runs))
    for (
        data,
        model,
        policy,
        clicks,
        run,
        ranker,
        estimator,
        click_model_from,
    ) in product(*log, grid.rankers, grid.estimators, grid.click_model_from):
        row = estimator_of(estimator)
        if row is None:
            yield Cell(data, None, None, None, estimator, None, None, run)
        elif row.needs == "labels":
            yield Cell(data, None, None, None, estimator, None, ranker, run)
        else:
            known = click_model_from if row.needs_click_model else TRUE
            yield Cell(data, model, policy, clicks, estimator, known, ranker, run)
