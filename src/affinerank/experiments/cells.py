"""Cells: what is measured once, and the groups that they are trained in."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import product

import numpy as np

from affinerank.experiments.plan import (
    ACTIVATIONS,
    BASELINES,
    NO_CLIP,
    PRODUCTION,
    TRUE,
    Grid,
    Plan,
    Setting,
)
from affinerank.seeds import stage_rng


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement; a coordinate that it does not depend on is ``None``.

    Attributes:
        data: Name of the data set.
        eta: Steepness of position bias.
        eps_minus_1: Click rate of an irrelevant document examined at rank 1.
        clicks: Training clicks.
        estimator: Correction, ``full-information`` or ``production``.
        users: Where the correction's alpha and beta come from.
        clip: Lower bound of alpha.
        run: Number of the run.
    """

    data: str
    eta: float | None
    eps_minus_1: float | None
    clicks: float | None
    estimator: str
    users: str
    clip: str
    run: int

    @property
    def log(self) -> tuple[str, float | None, float | None, float | None, int]:
        """What its clicks depend on: cells of one log learn from the same clicks."""
        return (self.data, self.eta, self.eps_minus_1, self.clicks, self.run)

    @property
    def setting(self) -> tuple[float | None, float | None]:
        """How its users click."""
        return (self.eta, self.eps_minus_1)


@dataclass(frozen=True, slots=True)
class Group:
    """Cells that are trained together, finished together or not at all.

    Attributes:
        number: Its place in the plan, from 0.
        data: Data set that all its cells share.
        em: Whether regression EM trains its networks, and estimates users with them.
        cells: At most as many as the plan allows.
    """

    number: int
    data: str
    em: bool
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
    """Every cell of a plan, once, in the plan's order."""
    cells: dict[Cell, None] = {}
    for grid in plan.grids:
        for data, setting, clicks, run in product(
            grid.data, grid.settings, grid.clicks, range(plan.runs)
        ):
            cells |= dict.fromkeys(_of_log(grid, data, setting, clicks, run))
    return tuple(cells)


def groups_of(plan: Plan) -> tuple[Group, ...]:
    """Group the cells of a plan: a function of the plan alone.

    A group has one data set, and one way to come by its users: known, by regression EM,
    by another method. Groups of a kind are as equal in size as can be, so that none is
    small.
    """
    kinds: dict[tuple[str, bool, bool], list[Cell]] = {}
    for cell in cells_of(plan):
        em, known = cell.users in ACTIVATIONS, cell.users == TRUE
        kinds.setdefault((cell.data, em, known), []).append(cell)
    groups: list[Group] = []
    for (data, em, _), cells in kinds.items():
        parts = -(-len(cells) // plan.group_networks)
        for part in np.array_split(np.arange(len(cells)), parts):
            chosen = tuple(cells[i] for i in part)
            groups.append(Group(len(groups), data, em, chosen))
    return tuple(groups)


def click_rng(cell: Cell, seed: int, *, held_out: bool = False) -> np.random.Generator:
    """The stream that a cell's clicks come from: a function of its coordinates."""
    eta, eps, clicks = cell.eta or 0.0, cell.eps_minus_1 or 0.0, cell.clicks or 0.0
    return stage_rng(
        "clicks",
        seed + cell.run,
        zlib.crc32(cell.data.encode()),
        round(eta * 1e6),
        round(eps * 1e6),
        round(clicks),
        int(held_out),
    )


def _of_log(
    grid: Grid, data: str, setting: Setting, clicks: float, run: int
) -> list[Cell]:
    cells = []
    for estimator, users, clip in product(grid.estimators, grid.users, grid.clips):
        if estimator in BASELINES:
            cell = Cell(data, None, None, None, estimator, TRUE, NO_CLIP, run)
        else:
            # The naive estimator knows no users, and its alpha is 1.
            known = (TRUE, NO_CLIP) if estimator == "naive" else (users, clip)
            cell = Cell(
                data, setting.eta, setting.eps_minus_1, clicks, estimator, *known, run
            )
        cells.append(cell)
    return cells
