"""Training a group: clicks, weights, one stack of networks, their values."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from affinerank.bias.em_runs import EMRun
from affinerank.bias.regression_em import fit_regression_em
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import Weights
from affinerank.errors import AffineRankWarning
from affinerank.experiments.cells import Cell, Group
from affinerank.experiments.inputs import Inputs
from affinerank.experiments.plan import PRODUCTION, TRUE, Plan
from affinerank.experiments.results import Machine, Result
from affinerank.experiments.stack import train_stack
from affinerank.metrics import MetricValues
from affinerank.pipeline import FULL_INFORMATION, judge, stacked
from affinerank.progress import Progress, quiet
from affinerank.rankers.early_stopping import Validation
from affinerank.rankers.mlp import Networks, NetworkSettings
from affinerank.threads import in_parallel

B = TypeVar("B")


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What the network of a cell learns from.

    Attributes:
        train: Weights of the training split.
        held_out: Weights of the validation split, where they choose an epoch.
        users: Who the weights were corrected for, where they were estimated.
        sessions: Simulated sessions.
        clicks: Clicks that those brought.
    """

    train: Weights
    held_out: Weights | None = None
    users: UserModel | None = None
    sessions: int | None = None
    clicks: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """What came of a cell: its rankings' values, and what it was trained on."""

    last: MetricValues
    early: MetricValues | None = None
    epoch: int | None = None
    users: UserModel | None = None
    sessions: int | None = None
    clicks: int | None = None


def train_group(
    plan: Plan,
    group: Group,
    inputs: Inputs,
    *,
    device: str = "auto",
    machine: Machine,
    progress: Progress = quiet,
) -> list[Result]:
    """Measure every cell of a group, production and trained ones."""
    started = time.perf_counter()
    early = plan.early_stopping and not group.em
    inputs.rank({cell.run for cell in group.cells}, held_out=early)
    cells = [cell for cell in group.cells if cell.estimator != PRODUCTION]
    rate = inputs.data.learning_rate
    settings = plan.network.settings(rate, plan.seed, device)
    values: list[Value] = []
    if cells and group.em:
        values = _train_em(cells, inputs, settings, progress)
    elif cells:
        values = _train_networks(cells, inputs, settings, early, progress)
    by_cell = dict(zip(cells, values, strict=True))
    seconds = (time.perf_counter() - started) / max(len(cells), 1)
    return [
        _result(
            cell,
            by_cell.get(cell) or Value(inputs.logged(cell.run).value),
            inputs,
            group.number,
            machine,
            seconds,
        )
        for cell in group.cells
    ]


def _train_networks(
    cells: Sequence[Cell],
    inputs: Inputs,
    settings: NetworkSettings,
    early: bool,
    progress: Progress,
) -> list[Value]:
    with _few_clicks():
        lessons = _by_log(cells, lambda own: _lessons(own, inputs, early))
    train = inputs.part("train")
    validation = None
    if early:
        held = inputs.part("validation")
        targets = stacked([lesson.held_out for lesson in lessons if lesson.held_out])
        validation = Validation(held.features, targets, held.raw.offsets)
    trained = train_stack(
        train.features,
        stacked([lesson.train for lesson in lessons]),
        train.raw.offsets,
        seeds=[inputs.seed + cell.run for cell in cells],
        settings=settings,
        validation=validation,
        progress=progress,
    )
    last = _judged(trained.last, inputs)
    chosen = None if trained.chosen is None else _judged(trained.chosen, inputs)
    return [
        Value(
            last[i],
            chosen[i] if chosen is not None else None,
            int(trained.epochs[i]) if trained.epochs is not None else None,
            lesson.users,
            lesson.sessions,
            lesson.clicks,
        )
        for i, lesson in enumerate(lessons)
    ]


def _lessons(cells: Sequence[Cell], inputs: Inputs, early: bool) -> list[Lesson]:
    """The lessons of cells that share a log, whose clicks are drawn once."""
    if cells[0].estimator == FULL_INFORMATION:
        held = inputs.full_information("validation") if early else None
        return [Lesson(inputs.full_information("train"), held) for _ in cells]
    clicks = inputs.clicks(cells[0])
    held_out = inputs.clicks(cells[0], held_out=True) if early else None
    counts = clicks.joined.counts
    lessons = []
    for cell in cells:
        users = inputs.users(cell, clicks)
        held = inputs.weights(cell, held_out, users) if held_out is not None else None
        lessons.append(
            Lesson(
                inputs.weights(cell, clicks, users),
                held,
                None if cell.users == TRUE else users,
                counts.n_sessions,
                int(counts.clicks.sum()),
            )
        )
    return lessons


def _train_em(
    cells: Sequence[Cell],
    inputs: Inputs,
    settings: NetworkSettings,
    progress: Progress,
) -> list[Value]:
    """Regression EM: the ranker that it trains is the one that is judged."""
    train = inputs.part("train")

    def runs_of(own: Sequence[Cell]) -> list[EMRun]:
        joined = inputs.clicks(own[0]).joined
        return [
            EMRun.of(
                joined, train.raw, activation=cell.users, seed=inputs.seed + cell.run
            )
            for cell in own
        ]

    runs = _by_log(cells, runs_of)
    with _few_clicks():
        fits = fit_regression_em(
            train.features, train.raw.offsets, runs, network=settings, progress=progress
        )
    judged = _judged(Networks.together([fit.networks for fit in fits]), inputs)
    return [
        Value(value, users=fit.users, clicks=int(run.clicks.sum()))
        for value, fit, run in zip(judged, fits, runs, strict=True)
    ]


@contextmanager
def _few_clicks() -> Iterator[None]:
    """Warn of nothing: few clicks leave estimates that move, fall or end early.

    That is what is measured. Not for threads to enter: filters are the process's own.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AffineRankWarning)
        yield


def _judged(networks: Networks, inputs: Inputs) -> list[MetricValues]:
    """nDCG@10 of each network on the test split."""
    test = inputs.part("test")
    scores = networks.predict(test.features)
    above = inputs.data.relevant_above
    return in_parallel(lambda row: judge(row, test.raw, above), list(scores))


def _by_log(
    cells: Sequence[Cell], make: Callable[[Sequence[Cell]], Sequence[B]]
) -> list[B]:
    """Make something of each cell, those of one log together; in the cells' order."""
    logs: dict[object, list[Cell]] = {}
    for cell in cells:
        logs.setdefault(cell.log, []).append(cell)
    made = in_parallel(make, list(logs.values()))
    by_cell: dict[Cell, B] = {}
    for own, things in zip(logs.values(), made, strict=True):
        by_cell |= dict(zip(own, things, strict=True))
    return [by_cell[cell] for cell in cells]


def _result(
    cell: Cell, value: Value, inputs: Inputs, group: int, machine: Machine, each: float
) -> Result:
    users = value.users
    return Result(
        cell=cell,
        group=group,
        ndcg=value.last.mean,
        early_ndcg=value.early.mean if value.early is not None else None,
        early_epoch=value.epoch,
        per_query=tuple(value.last.values.tolist()),
        alpha=tuple(users.alpha.tolist()) if users is not None else (),
        beta=tuple(users.beta.tolist()) if users is not None else (),
        queries=inputs.part("train").raw.n_queries,
        sessions=value.sessions,
        clicks_drawn=value.clicks,
        seconds=each if cell.estimator != PRODUCTION else 0.0,
        digest=inputs.logged(cell.run).digest,
        machine=machine,
    )
