"""Results: one row per finished cell, as Parquet, in the folder of a run.

RUN/plan.toml                what is measured, every setting written out
RUN/code.json                which code measures it
RUN/groups/group-*.parquet   the rows of each finished group
RUN/results.parquet          all rows, once every group is finished
"""

from __future__ import annotations

import dataclasses
import os
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.research.cells import Cell, Measured
from affinerank.research.coordinates import values_of
from affinerank.research.groups import CellGroup
from affinerank.research.plan import Plan, read_plan
from affinerank.support.errors import DataError
from affinerank.support.files import atomic_write

GROUPS = "groups"
MERGED = "results.parquet"
PLAN = "plan.toml"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Measured):
    """A finished cell: what came of it, and how.

    Attributes:
        cell: Its coordinates.
        group: Number of the group it was trained in.
        seconds: The group's time, divided by its rankers.
        versions: Libraries that computed it, as ``name version, ...``.
        commit: Commit of the source tree, if it is one; a ``+`` follows if it was
            changed.
        device: Device that networks were trained on.
    """

    cell: Cell
    group: int
    seconds: float
    versions: str
    commit: str
    device: str


_PLAIN: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
}
_OPTIONAL = {kind | None: arrow for kind, arrow in _PLAIN.items()}
_ARROW = _PLAIN | _OPTIONAL | {tuple[float, ...]: pa.list_(pa.float64())}
_NARROW = {"per_query": pa.list_(pa.float32())}


def open_folder(folder: str | os.PathLike[str], plan: Plan) -> Path:
    """Make the folder of a run, or resume in one of the same plan."""
    root = Path(folder)
    require_same_plan(root, plan)
    try:
        (root / GROUPS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{root}: could not be made a run's folder: {error.strerror}"
        ) from None
    path = root / PLAN
    if not path.exists():
        with atomic_write(path) as aside:
            aside.write_text(plan.to_toml(), encoding="utf-8")
    return root


def require_same_plan(root: Path, plan: Plan) -> None:
    """Reject the folder of a run of another plan."""
    path = root / PLAN
    if path.exists() and read_plan(path) != plan:
        raise DataError(
            f"{path}: the folder holds results of another plan; choose another "
            "folder, or remove this one"
        )


def group_file(root: Path, group: CellGroup) -> Path:
    """Return where a finished group's rows are."""
    return root / GROUPS / f"{group.name}.parquet"


def write_results(path: Path, results: Sequence[Result]) -> None:
    """Write rows; the file appears whole or not at all."""
    rows = [_row(result) for result in results]
    with atomic_write(path) as aside:
        pq.write_table(pa.Table.from_pylist(rows, schema=_schema()), aside)


def read_results(path: Path) -> list[Result]:
    """Read rows that :func:`write_results` wrote."""
    try:
        schema = _schema()
        table = pq.read_table(path, partitioning=None)
        rows = table.select(schema.names).cast(schema).to_pylist()
        return [_result(row) for row in rows]
    except Exception as error:  # what a broken file raises depends on where
        raise DataError(
            f"{path}: not results of AffineRank ({error!r:.200}); measure them again "
            "(affinerank reproduce)"
        ) from None


def load_run(folder: str | os.PathLike[str]) -> tuple[Plan, list[Result]]:
    """Load the plan of a run, and its results so far."""
    results = load_results(folder)
    return read_plan(Path(folder) / PLAN), results


def load_results(folder: str | os.PathLike[str]) -> list[Result]:
    """Load the results of a run so far, in the order of its groups."""
    root = Path(folder)
    if not (root / PLAN).is_file():
        raise DataError(f"{root}: not the folder of a run; there is no {PLAN} in it")
    if (root / MERGED).is_file():
        return read_results(root / MERGED)
    files = sorted((root / GROUPS).glob("group-*.parquet"))
    return [result for file in files for result in read_results(file)]


def has_results(root: Path) -> bool:
    """Whether the folder of a run holds finished cells."""
    return (root / MERGED).exists() or any((root / GROUPS).glob("group-*.parquet"))


def discard_results(root: Path) -> None:
    """Remove all finished cells from the folder of a run."""
    # All rows first: while they are there, they are what a report reads.
    (root / MERGED).unlink(missing_ok=True)
    for path in (root / GROUPS).glob("group-*.parquet"):
        path.unlink(missing_ok=True)


def merge_results(root: Path, groups: Iterable[CellGroup]) -> None:
    """Put the rows of all groups into one file."""
    rows: list[Result] = []
    for group in groups:
        own = read_results(path := group_file(root, group))
        if [row.cell for row in own] != list(group.cells):
            raise DataError(f"{path}: holds other cells than the plan; remove it")
        rows += own
    write_results(root / MERGED, rows)


def _schema() -> pa.Schema:
    """Type of each column; the coordinates of the cell are columns, too."""
    columns = typing.get_type_hints(Cell) | typing.get_type_hints(Result)
    return pa.schema(
        pa.field(name, _NARROW.get(name) or _ARROW[kind], NoneType in get_args(kind))
        for name, kind in columns.items()
        if kind in _ARROW
    )


def _row(result: Result) -> dict[str, Any]:
    row = values_of(result)
    row["per_query"] = [None if isnan(v) else v for v in result.per_query]
    return {**values_of(row.pop("cell")), **row}


def _result(row: Mapping[str, Any]) -> Result:
    found = _taken(Result, {**row, "cell": _taken(Cell, row)})
    if len(found.alpha) != len(found.beta):
        raise ValueError("alpha and beta must have as many ranks")
    return found


def _taken(kind: type[T], row: Mapping[str, Any]) -> T:
    """Build a dataclass from its columns."""
    names = [f.name for f in dataclasses.fields(typing.cast(Any, kind))]
    return kind(**{name: _frozen(row[name]) for name in names})


def _frozen(value: Any) -> Any:
    """Return a list as a tuple; a query that could not be judged has no number."""
    if not isinstance(value, list):
        return value
    return tuple(nan if part is None else part for part in value)
