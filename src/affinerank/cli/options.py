"""What commands share: options, how they are read, how results are shown."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from affinerank import display
from affinerank.errors import ConfigError
from affinerank.progress import Progress

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file, a set's folder, or a world: yahoo-like:2000, or with a seed of "
        "its own yahoo-like:2000@7.",
    ),
]
Split = Annotated[str | None, typer.Option(help="train, validation or test.")]
Seed = Annotated[
    int, typer.Option(min=0, max=2**31 - 1, help="Seed of everything random.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Fold = Annotated[int, typer.Option(min=1, help="Fold, for sets that have several.")]
MissingValues = Annotated[
    str,
    typer.Option(help="What NULL and nan become: error, keep, or a number."),
]
ListId = Annotated[
    str | None,
    typer.Option(help="Column of the id that a list has, if not query_id."),
]
RelevantAbove = Annotated[
    float, typer.Option(help="Labels above this are relevant; sets of 0 to 2 need 0.")
]
DefaultSplit = Literal["train", "validation", "test"]
Output = Annotated[Path, typer.Option("-o", "--output", help="File to write.")]
Counts = Annotated[Path, typer.Argument(metavar="COUNTS", help="Counts, Parquet.")]
Features = Annotated[
    str | None, typer.Option(help="Features: a file, a folder or a world.")
]
Column = Annotated[
    list[str] | None, typer.Option(help="Name in the log, as in rank=position.")
]
RanksFrom = Annotated[
    int, typer.Option(help="What the log calls the first rank: 1 or 0.")
]
Segment = Annotated[str | None, typer.Option(help="Column that tells segments apart.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


def read_data(
    data: str,
    split: str | None,
    fold: int,
    missing: str,
    default: DefaultSplit = "train",
    list_id: str | None = None,
) -> Any:
    """Read DATA: the split asked for, or the one a command takes by itself."""
    from affinerank.data.catalog import DataSource
    from affinerank.data.reading import parse_split

    source = DataSource.parse(
        data, fold=fold, missing=missing_value(missing), list_id=list_id
    )
    return source.read(parse_split(split) if split else source.default_split(default))


def sizes(text: str) -> tuple[int, ...]:
    """Read ``--hidden 512,256,128``."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(
            f"--hidden takes sizes as in 512,256,128, got {text!r}"
        ) from None


def missing_value(text: str) -> Any:
    """Read the option ``--missing``: error, keep, or a number."""
    return text if text in ("error", "keep") else number("--missing", text)


def number(option: str, text: str | None) -> float | None:
    """Read an option that takes a number, as in 1e6."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        kinds = "error, keep or a number" if option == "--missing" else "a number"
        raise ConfigError(f"{option} must be {kinds}, got {text!r}") from None


def whole(option: str, text: str | None) -> int | None:
    """Read an option that takes a whole number, as in 1e6."""
    value = number(option, text)
    if value is not None and not value.is_integer():
        raise ConfigError(f"{option} must be a whole number, got {text!r}")
    return None if value is None else int(value)


def mapping(pairs: list[str]) -> dict[str, str]:
    """Read ``--column rank=position``."""
    names = {}
    for pair in pairs:
        name, equals, theirs = pair.partition("=")
        if not (name and equals and theirs):
            raise ConfigError(f"--column takes NAME=COLUMN, got {pair!r}")
        names[name] = theirs
    return names


def require_parquet(path: Path) -> None:
    """Refuse an output that is not named as Parquet."""
    if path.suffix != ".parquet":
        raise ConfigError(f"{path}: the name of the output must end in .parquet")


def require_choice(option: str, value: str, *choices: str) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise ConfigError(f"{option} must be {' or '.join(choices)}, got {value!r}")


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
    """Draw a progress bar per stage on a terminal; nothing in a pipe."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    console = display.faults
    with Bars(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as drawn:
        tasks: dict[str, Any] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = drawn.add_task(stage, total=total)
            drawn.update(tasks[stage], completed=done, total=total)

        yield progress
