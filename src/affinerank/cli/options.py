"""What commands share: options declared once, how they are read, how results show."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from typer import Argument, Option

from affinerank.cli import display
from affinerank.errors import ConfigError
from affinerank.progress import Progress, in_lines

Data = Annotated[
    str,
    Argument(
        metavar="DATA",
        help="A file, a set's folder, a table (duckdb:///shop.duckdb#features), or a "
        "world: yahoo-like:2000, or with a seed of its own yahoo-like:2000@7.",
    ),
]
Features = Annotated[
    str | None, Option(help="Features: a file, a folder, a table or a world.")
]
Counts = Annotated[
    Path, Argument(metavar="COUNTS", help="Counts, Parquet; or a folder of days.")
]
Users = Annotated[Path | None, Option(help="User model, JSON.")]
Output = Annotated[Path, Option("-o", "--output", help="File to write.")]
Seed = Annotated[int, Option(min=0, max=2**31 - 1, help="Seed of everything random.")]
Json = Annotated[bool, Option("--json", help="Print JSON, for machines.")]
Clip = Annotated[str | None, Option(help="Least alpha: a number, or 10/sqrt(n).")]
RelevantAbove = Annotated[
    float, Option(help="Labels above this are relevant; sets of 0 to 2 need 0.")
]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="A setting, as in epochs=12."),
]
ListId = Annotated[
    str | None, Option(help="Column of the id that a list has, if not query_id.")
]


@dataclass(frozen=True, slots=True)
class DataOptions:
    """How DATA is read: options of every command that reads ranking data."""

    split: Annotated[str | None, Option(help="train, validation or test.")] = None
    fold: Annotated[int, Option(min=1, help="Fold, for sets that have several.")] = 1
    missing: Annotated[
        str, Option(help="What NULL and nan become: error, keep, or a number.")
    ] = "keep"
    list_id: ListId = None
    features: Annotated[
        str | None, Option(help="Columns to learn from, as in 'price,rating*'; or all.")
    ] = None
    ignore: Annotated[str | None, Option(help="Columns that are no features.")] = None
    data_column: Annotated[
        list[str] | None, Option(help="Name in DATA, as in query_id=search_id.")
    ] = None
    category: Annotated[
        str | None, Option(help="Columns of numbers that are categories: 'size,type*'.")
    ] = None

    def source(self, data: str) -> Any:
        """Find out what DATA is."""
        from affinerank.data.catalog import DataSource
        from affinerank.data.reading import Chosen, parse_missing
        from affinerank.settings import pair

        names = tuple(pair(text, "--data-column") for text in self.data_column or ())
        chosen: Chosen | None = Chosen(self.features, self.ignore, names, self.category)
        if chosen == Chosen():
            chosen = None
        missing = parse_missing(self.missing)
        given: dict[str, Any] = {"list_id": self.list_id, "chosen": chosen}
        if "://" in data:
            from affinerank.pipeline import database_source

            return database_source(data, missing=missing, **given)
        return DataSource.parse(data, fold=self.fold, missing=missing, **given)

    def read(
        self,
        data: str,
        default: Literal["train", "validation", "test"] = "train",
        *,
        named: bool = True,
    ) -> Any:
        """Read the split named, or the one that a command takes by itself."""
        from affinerank.data.reading import parse_split

        source = self.source(data)
        chosen = parse_split(self.split) if self.split and named else None
        return source.read(chosen or source.default_split(default))


@dataclass(frozen=True, slots=True)
class LogReading:
    """How a log is read: options of every command that reads one."""

    column: Annotated[
        list[str] | None, Option(help="Name in the log, as in rank=position.")
    ] = None
    ranks_from: Annotated[
        int, Option(help="What the log calls the first rank: 1 or 0.")
    ] = 1
    page: Annotated[
        str | None, Option(help="Column of the page, where ranks begin anew on each.")
    ] = None
    page_size: Annotated[
        int | None, Option(min=1, help="Ranks of a page, with --page.")
    ] = None
    pages_from: Annotated[
        int, Option(help="What the log calls the first page: 1 or 0.")
    ] = 1
    offset: Annotated[
        str | None, Option(help="Column of the results before the page, instead.")
    ] = None
    where: Annotated[
        str | None, Option(help="Your own SQL condition, run as it is.")
    ] = None
    segment: Annotated[str | None, Option(help="Column that tells segments apart.")] = (
        None
    )
    since: Annotated[str | None, Option(help="First moment counted.")] = None
    until: Annotated[str | None, Option(help="First one not counted.")] = None
    max_sessions_per_user: Annotated[
        int | None, Option(min=1, help="Needs a column user_id.")
    ] = None
    hive: Annotated[
        bool, Option("--hive", help="Folders named as in day=1 are columns.")
    ] = False
    memory: Annotated[str, Option(help="DuckDB spills beyond this.")] = "4GB"

    def opening(self) -> dict[str, Any]:
        """Return what the engine must know to open the log."""
        return {"hive": self.hive, "memory": self.memory}

    def options(self, list_id: str | None) -> Any:
        """Build what the counting engine takes."""
        from affinerank.clicks.log import LogOptions
        from affinerank.settings import pair

        given = asdict(self)
        for name in self.opening():
            del given[name]
        names = given.pop("column") or []
        columns = dict(pair(text, "--column") for text in names)
        return LogOptions(columns=columns, list_id=list_id, **given)


@dataclass(frozen=True, slots=True)
class Days:
    """Days of a folder of counts: options of every command that reads counts."""

    since: Annotated[
        str | None, Option(help="First day read, of a folder of counts.")
    ] = None
    until: Annotated[str | None, Option(help="First day not read.")] = None

    def load(self, counts: Path) -> Any:
        """Read the counts."""
        from affinerank.clicks.counts import ClickCounts

        return ClickCounts.load(counts, since=self.since, until=self.until)


@dataclass(frozen=True, slots=True)
class Into:
    """A folder of counts that a day is added to: options of ``count``."""

    into: Annotated[
        Path | None, Option(help="Folder of counts to add a day to, not a file.")
    ] = None
    day: Annotated[
        str | None, Option(help="With --into: the day, where LOG's name has none.")
    ] = None
    again: Annotated[
        bool, Option("--replace", help="With --into: count a day anew.")
    ] = False
    remove: Annotated[
        str | None, Option(help="With --into, without a LOG: take this day out.")
    ] = None
    keep_days: Annotated[
        int | None, Option(min=1, help="With --into: remove what is older.")
    ] = None

    def removed(self) -> bool:
        """Take a day out, if that is asked for."""
        from affinerank.clicks.days import day_of, remove_day

        if self.into is None and self != Into():
            raise ConfigError("--day, --replace, --remove and --keep-days need --into")
        if self.into is None or self.remove is None:
            return False
        return remove_day(self.into, day_of(self.remove, "--remove"))

    def target(
        self, log: str, output: Path
    ) -> tuple[AbstractContextManager[Path], Path]:
        """Return where counts go, to be entered, and the file that they become."""
        from affinerank.clicks.counts import ClickCounts
        from affinerank.clicks.days import day_of, new_day

        if self.into is None:
            return nullcontext(output), output
        day = day_of(self.day, "--day") if self.day else day_of(log)

        def same(one: Path, other: Path) -> bool:
            return ClickCounts.load(one).equals(ClickCounts.load(other))

        file = self.into / f"{day}.parquet"
        return new_day(self.into, day, same, again=self.again), file

    def too_old(self) -> list[str]:
        """Remove the days that are older than those to keep."""
        from affinerank.clicks.days import keep_last

        if self.into is None or self.keep_days is None:
            return []
        return [str(day) for day in keep_last(self.into, self.keep_days)]


SHARED = (DataOptions, LogReading, Days, Into)
SECONDS_BETWEEN_LINES = 10.0


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Let a parameter of a type of ``SHARED`` stand for all options of that type."""
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    shared: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if hints[name] not in SHARED:
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        kind = shared[name] = hints[name]
        own = get_type_hints(kind, include_extras=True)
        parameters += [
            inspect.Parameter(
                entry.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=entry.default,
                annotation=own[entry.name],
            )
            for entry in fields(kind)
        ]

    @wraps(function)
    def run(**given: Any) -> None:
        for name, kind in shared.items():
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        function(**given)

    ordered = sorted(parameters, key=lambda p: p.kind == p.KEYWORD_ONLY)
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in ordered}
    del run.__wrapped__
    return run


def load(users: Path | None) -> Any:
    """Read a user model, if one is named."""
    from affinerank.clicks.users import load_users

    return None if users is None else load_users(users)


def load_held_against(users: Path | None, counts: Any, seed: int = 0) -> Any:
    """Read a user model, if one is named; warn where the log prefers others."""
    known = load(users)
    if known is not None:
        from affinerank.pipeline.estimation import hold_users_against_log

        hold_users_against_log(counts, known, name=f"the users of {users}", seed=seed)
    return known


def require_writable(
    *paths: Path | None,
    suffix: str | None = None,
    reads: Sequence[str | Path | None] = (),
) -> None:
    """Reject outputs that cannot be written, or are read, before the work is done."""
    from affinerank.files import require_other_files, writable

    require_other_files(paths, reads)
    for path in paths:
        if path is not None and suffix is not None and path.suffix != suffix:
            raise ConfigError(f"{path}: the name of the output must end in {suffix}")
        if path is not None:
            writable(path)


def show(about: Any, as_json: bool, draw: Callable[[Any], object]) -> None:
    """Print a result as JSON, or drawn for a reader."""
    if as_json:
        print(json.dumps(_plain(about), indent=2, default=str, allow_nan=False))
    else:
        draw(about)


def _plain(about: Any) -> Any:
    """Put null in the place of NaN, which JSON does not know."""
    if isinstance(about, dict):
        return {name: _plain(value) for name, value in about.items()}
    if isinstance(about, list | tuple):
        return [_plain(value) for value in about]
    return None if isinstance(about, float) and not math.isfinite(about) else about


@contextmanager
def bars() -> Iterator[Progress]:
    """Draw a progress bar per stage on a terminal; print a line at times in a pipe."""
    console = display.faults
    if not console.is_terminal:
        with in_lines(display.say, SECONDS_BETWEEN_LINES) as progress:
            yield progress
        return
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    tasks: dict[str, Any] = {}
    with Bars(*columns, console=console, transient=True) as drawn:

        def draw(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = drawn.add_task(stage, total=total)
            drawn.update(tasks[stage], completed=done, total=total)

        yield draw
