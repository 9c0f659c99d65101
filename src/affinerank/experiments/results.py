"""Results: one row per finished cell, as Parquet, in the folder of a run.

RUN/plan.toml            what was asked for, resolved
RUN/groups/group-*.parquet   the rows of each finished group
RUN/results.parquet      all rows, once every group is finished
"""

from __future__ import annotations

import dataclasses
import os
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.errors import DataError
from affinerank.experiments.cells import Cell, Group
from affinerank.experiments.plan import Plan, read_plan
from affinerank.files import written_whole

GROUPS = "groups"
MERGED = "results.parquet"
PLAN = "plan.toml"


@dataclass(frozen=True, slots=True)
class Machine:
    """What a cell was computed by.

    Attributes:
        versions: Of the libraries, as ``name version, ...``.
        commit: Of the source tree, if it is one; a ``+`` follows if it was changed.
        device: That networks were trained on.
    """

    versions: str
    commit: str
    device: str


@dataclass(frozen=True, slots=True)
class Result:
    """A finished cell.

    Attributes:
        cell: Its coordinates.
        group: Number of the group it was trained in.
        ndcg: nDCG@10 on test labels, mean over queries, after the last epoch.
        early_ndcg: The same after the epoch that held-out clicks chose.
        early_epoch: That epoch, from 1.
        per_query: nDCG@10 of each test query; NaN for one without a relevant document.
        alpha: By rank, where users were estimated.
        beta: By rank, where users were estimated.
        queries: Training queries.
        sessions: Simulated sessions.
        clicks_drawn: Clicks that those brought.
        seconds: The group's time, divided by its networks.
        digest: Of the labels and production ranks it was trained on.
        machine: What computed it.
    """

    cell: Cell
    group: int
    ndcg: float
    early_ndcg: float | None
    early_epoch: int | None
    per_query: tuple[float, ...]
    alpha: tuple[float, ...]
    beta: tuple[float, ...]
    queries: int
    sessions: int | None
    clicks_drawn: int | None
    seconds: float
    digest: str
    machine: Machine


_FLOATS = ("per_query",)
_DOUBLES = ("alpha", "beta")
_ARROW = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    float | None: pa.float64(),
    int | None: pa.int64(),
}


def open_folder(folder: str | os.PathLike[str], plan: Plan) -> Path:
    """Make the folder of a run, or go on in one of the same plan."""
    root = Path(folder)
    try:
        (root / GROUPS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{root}: could not be made a run's folder: {error.strerror}"
        ) from None
    path = root / PLAN
    if path.exists():
        if read_plan(path) != plan:
            raise DataError(
                f"{path}: the folder holds results of another plan; choose another "
                "folder, or remove this one"
            )
    else:
        with written_whole(path) as aside:
            aside.write_text(plan.to_toml(), encoding="utf-8")
    return root


def group_file(root: Path, group: Group) -> Path:
    """Where a finished group's rows are."""
    return root / GROUPS / f"{group.name}.parquet"


def write_results(path: Path, results: Sequence[Result]) -> None:
    """Write rows; the file appears whole or not at all."""
    rows = [_row(result) for result in results]
    with written_whole(path) as aside:
        pq.write_table(pa.Table.from_pylist(rows, schema=_schema()), aside)


def read_results(path: Path) -> list[Result]:
    """Read rows that :func:`write_results` wrote."""
    try:
        return [_result(row) for row in pq.read_table(path).to_pylist()]
    except (pa.ArrowInvalid, KeyError, TypeError, OSError) as error:
        raise DataError(f"{path}: not results of AffineRank ({error!r:.200})") from None


def load_results(folder: str | os.PathLike[str]) -> list[Result]:
    """The results of a run so far, in the order of its groups."""
    root = Path(folder)
    if not (root / PLAN).is_file():
        raise DataError(f"{root}: not the folder of a run; there is no {PLAN} in it")
    if (root / MERGED).is_file():
        return read_results(root / MERGED)
    files = sorted((root / GROUPS).glob("group-*.parquet"))
    return [result for file in files for result in read_results(file)]


def merge_results(root: Path, groups: Iterable[Group]) -> None:
    """Put the rows of all groups into one file."""
    rows = [r for group in groups for r in read_results(group_file(root, group))]
    write_results(root / MERGED, rows)


def _columns() -> dict[str, Any]:
    """Type of each column; cell and machine are flattened into theirs."""
    columns: dict[str, Any] = dict(typing.get_type_hints(Cell))
    columns |= typing.get_type_hints(Result) | typing.get_type_hints(Machine)
    return {name: t for name, t in columns.items() if name not in ("cell", "machine")}


def _schema() -> pa.Schema:
    fields = []
    for name, kind in _columns().items():
        if name in _FLOATS:
            fields.append((name, pa.list_(pa.float32())))
        elif name in _DOUBLES:
            fields.append((name, pa.list_(pa.float64())))
        else:
            fields.append((name, _ARROW[kind]))
    return pa.schema(fields)


def _row(result: Result) -> dict[str, Any]:
    row = {f.name: getattr(result, f.name) for f in dataclasses.fields(Result)}
    return {**_plain(row.pop("cell")), **row, **_plain(row.pop("machine"))}


def _plain(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def _result(row: dict[str, Any]) -> Result:
    def take(kind: type) -> dict[str, Any]:
        names = [f.name for f in dataclasses.fields(typing.cast(Any, kind))]
        return {n: row[n] for n in names if n not in ("cell", "machine")}

    own = take(Result) | {n: tuple(row[n]) for n in (*_FLOATS, *_DOUBLES)}
    return Result(cell=Cell(**take(Cell)), machine=Machine(**take(Machine)), **own)
