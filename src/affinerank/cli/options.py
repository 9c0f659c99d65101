"""What commands share: options declared once, how they are read, how results show.

A command is a function: its parameters are arguments, those by keyword options, and the
section ``Options:`` of its docstring tells what each is for. Some are the same for all,
by name or, in capitals, by what stands for them:

Options:
    COUNTS: Counts, Parquet; or a folder of days.
    DATA: A file, a set's folder, a table (duckdb:///shop.duckdb#features), or a world:
        yahoo-like:2000, or with a seed of its own yahoo-like:2000@7.
    MODEL: Folder of a ranker.
    as_json: Print JSON, for machines.
    clip: Least alpha: a number, or 10/sqrt(n).
    data: Features: a file, a folder, a table or a world.
    list_id: Column of the id that a list has, if not query_id.
    memory: DuckDB spills beyond this.
    output: File to write.
    relevant_above: Labels above this are relevant; sets of 0 to 2 need 0.
    seed: Seed of everything random.
    settings: A setting, as in epochs=12.
    timings: Print how long each stage took.
    top_k: Show only the first K documents.
    click_model: Click model, JSON.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Argument, Option

from affinerank.cli import display
from affinerank.support.errors import ConfigError
from affinerank.support.progress import Progress, StageTimes, both, in_lines

Readable = str | Path | None
Result = tuple[Any, Callable[[Any], object]]  # plain data, and what draws them
Data = Annotated[str, Argument(metavar="DATA")]
Counts = Annotated[Path, Argument(metavar="COUNTS")]
Model = Annotated[Path, Argument(metavar="MODEL")]
Models = Annotated[list[Path], Argument(metavar="MODEL...")]
Output = Annotated[Path, Option("-o", "--output")]
OtherOutput = Annotated[Path | None, Option("-o", "--output")]
Positive = Annotated[int | None, Option(min=1)]
Seed = Annotated[int, Option(min=0, max=2**31 - 1)]
Set = Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE")]
Json = Annotated[bool, Option("--json")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledData:
    """How DATA is read where nothing learns from its features: options of ``simulate``.

    Options:
        split: train, validation or test.
        fold: Fold, for sets that have several.
        missing: What NULL and nan become: error, keep, or a number.
        ignore: Columns that are no features.
        data_column: Name in DATA, as in query_id=search_id.
        category: Columns of numbers that are categories: 'size,type*'.
    """

    split: str | None = None
    fold: Annotated[int, Option(min=1)] = 1
    missing: str = "keep"
    list_id: str | None = None
    ignore: str | None = None
    data_column: list[str] | None = None
    category: str | None = None

    def feature_columns(self) -> str | None:
        """Return which columns are features; ``None`` for all."""
        return None

    def source(self, data: str) -> Any:
        """Find out what DATA is."""
        from affinerank.data.read_options import ReadOptions, parse_missing
        from affinerank.data.sources import DataSource
        from affinerank.support.settings import pair

        names = tuple(pair(text, "--data-column") for text in self.data_column or ())
        columns = self.feature_columns()
        chosen = ReadOptions(columns, self.ignore, names, self.category)
        given: dict[str, Any] = {
            "missing": parse_missing(self.missing),
            "list_id": self.list_id,
            "chosen": None if chosen == ReadOptions() else chosen,
        }
        if "://" in data:
            from affinerank.data.databases import database_source

            return database_source(data, **given)
        return DataSource.parse(data, fold=self.fold, **given)

    def read(
        self, data: str | None, default: str = "train", *, named: bool = True
    ) -> Any:
        """Read the split named, or the one that a command takes by itself."""
        from affinerank.data.read_options import parse_split

        if data is None:
            return None
        source = self.source(data)
        chosen = parse_split(self.split) if self.split and named else None
        return source.read(chosen or source.default_split(default))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions(LabelledData):
    """How DATA is read: options of every other command that reads ranking data.

    Options:
        features: Columns to learn from, as in 'price,rating*'; or all.
    """

    features: str | None = None

    def feature_columns(self) -> str | None:
        """Return which columns are features; ``None`` for all."""
        return self.features


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """How a log is read: options of every command that reads one.

    Options:
        column: Name in the log, as in rank=position.
        ranks_from: What the log calls the first rank: 1 or 0.
        page: Column of the page, where ranks begin anew on each.
        page_size: Ranks of a page, with --page.
        pages_from: What the log calls the first page: 1 or 0.
        offset: Column of the results before the page, instead.
        where: Your own SQL condition, run as it is.
        segment: Column that tells segments apart.
        since: First moment counted.
        until: First one not counted.
        max_sessions_per_user: Needs a column user_id.
        hive: Folders named as in day=1 are columns.
    """

    column: list[str] | None = None
    ranks_from: int = 1
    page: str | None = None
    page_size: Positive = None
    pages_from: int = 1
    offset: str | None = None
    where: str | None = None
    segment: str | None = None
    since: str | None = None
    until: str | None = None
    max_sessions_per_user: Positive = None
    hive: bool = False
    memory: str = "4GB"

    def opening(self) -> dict[str, Any]:
        """Return what the engine must know to open the log."""
        return {"hive": self.hive, "memory": self.memory}

    def options(self, **more: Any) -> Any:
        """Build what the counting engine takes."""
        from affinerank.logs.options import LogOptions
        from affinerank.support.settings import pair

        given = {k: v for k, v in asdict(self).items() if k not in self.opening()}
        columns = dict(pair(text, "--column") for text in given.pop("column") or [])
        return LogOptions(columns=columns, **given, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """Days of a folder of counts: options of every command that reads counts.

    Options:
        since: First day read, of a folder of counts.
        until: First day not read.
    """

    since: str | None = None
    until: str | None = None

    def load(self, counts: Path) -> Any:
        """Read the counts."""
        from affinerank.counts.counts import ClickCounts

        return ClickCounts.load(counts, since=self.since, until=self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class Into:
    """A folder of counts that a day is added to: options of ``count``.

    Options:
        into: Folder of counts to add a day to, not a file.
        day: With --into: the day, where LOG's name has none.
        again: With --into: count a day anew.
        remove: With --into, without a LOG: take this day out.
        keep_days: With --into: remove what is older.
    """

    into: Path | None = None
    day: str | None = None
    again: Annotated[bool, Option("--replace")] = False
    remove: str | None = None
    keep_days: Positive = None

    def removed(self) -> bool:
        """Take a day out, if that is asked for."""
        from affinerank.counts.days import day_of, remove_day

        if self.into is None and self != Into():
            raise ConfigError("--day, --replace, --remove and --keep-days need --into")
        if self.into is None or self.remove is None:
            return False
        return remove_day(self.into, day_of(self.remove, "--remove"))

    def target(
        self, log: str, output: Path
    ) -> tuple[AbstractContextManager[Path], Path]:
        """Return where counts go, to be entered, and the file that they become."""
        from affinerank.counts.counts import ClickCounts
        from affinerank.counts.days import day_of, new_day

        if self.into is None:
            return nullcontext(output), output
        day = day_of(self.day, "--day") if self.day else day_of(log)
        counted = new_day(
            self.into,
            day,
            ClickCounts.load,
            again=self.again,
            keep_days=self.keep_days,
        )
        return counted, self.into / f"{day}.parquet"

    def too_old(self) -> list[str]:
        """Remove the days that are older than those to keep."""
        from affinerank.counts.days import keep_last

        if self.into is None or self.keep_days is None:
            return []
        return [str(day) for day in keep_last(self.into, self.keep_days)]


SHARED = (LabelledData, DataOptions, LogReading, Days, Into)
SECONDS_BETWEEN_LINES = 10.0


def command(function: Callable[..., Result | None]) -> Callable[..., None]:
    """Make a command: read its docstring, add ``--json``, and show what it returns.

    A parameter of a type of ``SHARED`` stands for all options of that type. One called
    ``progress`` is no option: bars are drawn while the command runs.
    """
    hints = get_type_hints(function, include_extras=True)
    shared = {name: kind for name, kind in hints.items() if kind in SHARED}

    def run(*, timings: bool = False, as_json: Json = False, **given: Any) -> None:
        for name, kind in shared.items():
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        times = StageTimes()
        if "progress" not in hints:
            result = function(**given)
        else:
            with bars() as progress:
                result = function(**given, progress=both(times, progress))
        if result is None:
            return
        times.end_stage()
        about, draw = result
        if as_json:
            if timings:
                about = {**about, "timings": times.rows()}
            print(json.dumps(_plain(about), indent=2, default=str, allow_nan=False))
            return
        draw(about)
        if timings:
            display.stage_times(times.rows())

    parameters: list[inspect.Parameter] = []
    for parameter in _parameters(function):
        if parameter.name in shared:
            parameters += _parameters(shared[parameter.name])
        elif parameter.name != "progress":
            parameters.append(parameter)
    own = {parameter.name: parameter for parameter in _parameters(run)}
    if "progress" in hints:
        parameters.append(own["timings"])
    parameters.append(own["as_json"])
    run.__name__, (run.__doc__, _) = function.__name__, _documented(function)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _parameters(owner: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a command or a type, as typer is to take them."""
    _, same = _documented(sys.modules[__name__])
    told: dict[str, str] = {}
    for part in reversed(getattr(owner, "__mro__", (owner,))):
        told |= _documented(part)[1]
    hints = get_type_hints(owner, include_extras=True)
    found = []
    for name, parameter in inspect.signature(owner).parameters.items():
        kind = hints[name]
        info = Option() if parameter.kind is parameter.KEYWORD_ONLY else Argument()
        if kind is bool:
            info.param_decls = (f"--{name}",)  # typer would add --no-name
        if hasattr(kind, "__metadata__"):
            kind, info = kind.__origin__, copy(kind.__metadata__[0])
        info.help = told.get(name) or same.get(info.metavar) or same.get(name)
        found.append(parameter.replace(annotation=Annotated[kind, info]))
    return found


def _documented(owner: object) -> tuple[str, dict[str, str]]:
    """Return what a docstring says before its options, and what it says of each."""
    text, _, options = (inspect.getdoc(owner) or "").partition("\n\nOptions:\n")
    told = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", options, re.MULTILINE)
    return text, {name: " ".join(words.split()) for name, words in told}


def load(click_model: Path | None) -> Any:
    """Read a click model, if one is named."""
    from affinerank.clicks.models.files import load_click_model

    return None if click_model is None else load_click_model(click_model)


def require_writable(
    *paths: Path | None,
    suffix: str | Sequence[str] | None = None,
    reads: Sequence[Readable] = (),
) -> None:
    """Reject outputs that cannot be written, or are read, before the work is done."""
    from affinerank.support.files import require_other_files, writable

    require_other_files(paths, reads)
    for path in filter(None, paths):
        ends = (suffix,) if isinstance(suffix, str) else tuple(suffix or ())
        if ends and path.suffix not in ends:
            right = " or ".join(ends)
            raise ConfigError(f"{path}: the name of the output must end in {right}")
        writable(path)


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
