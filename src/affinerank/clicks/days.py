"""Counts that grow: a folder with one file of counts per day.

Counts add up, so a day is counted once and kept. A day's file appears whole or not at
all, and nothing else is kept: what is in the folder is what was counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from affinerank.arrow import pq
from affinerank.errors import DataError
from affinerank.files import PathLike, written_whole

DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def day_of(name: str, option: str | None = None) -> date:
    """Return the one day that a text names, as in ``logs/2026-01-31.parquet``.

    Args:
        name: The name of a log, or what was given to an option.
        option: That option.
    """
    try:
        [day] = map(date.fromisoformat, set(DAY.findall(name)))
    except ValueError:
        wrong = f"{name}: the name holds no day, as in 2026-01-31; give --day"
        if option is not None:
            wrong = f"{option} takes a day, as in 2026-01-31, got {name!r}"
        raise DataError(wrong) from None
    return day


def days_in(
    folder: PathLike, since: str | None = None, until: str | None = None
) -> dict[date, Path]:
    """Return the days of a folder, in order: from ``since`` on and before ``until``."""
    files = sorted(Path(folder).glob("*.parquet"))
    strange = [file for file in files if not DAY.fullmatch(file.stem)]
    if strange:
        raise DataError(
            f"{strange[0]}: a folder of counts holds one file per day, named as in "
            "2026-01-31.parquet"
        )
    first = day_of(since, "--since") if since else date.min
    end = day_of(until, "--until") if until else date.max
    days = {day_of(file.stem): file for file in files}
    return {day: file for day, file in days.items() if first <= day < end}


@contextmanager
def new_day(
    folder: Path, day: date, load: Callable[[Path], Any], *, again: bool = False
) -> Iterator[Path]:
    """Yield a path to write the counts of a day to; they are added once, and whole.

    Args:
        folder: The days counted so far; made if it is not there.
        day: The day.
        load: Reads counts from a file, which are compared with those of other days.
        again: Whether the day may be there already, and is replaced then.
    """
    if not folder.parent.is_dir():
        raise DataError(f"{folder}: there is no folder {folder.parent} to make it in")
    folder.mkdir(exist_ok=True)
    known = days_in(folder)
    if day in known and not again:
        raise DataError(
            f"{known[day]}: this day is counted already; count it anew with --replace"
        )
    with written_whole(folder / f"{day}.parquet") as aside:
        yield aside
        groups = _groups(aside)
        for other, file in known.items():
            alike = other != day and _groups(file) == groups
            if alike and load(file).equals(load(aside)):
                raise DataError(
                    f"{file}: has the very counts of {day}; this log was counted as "
                    f"{other} already"
                )


def keep_last(folder: Path, days: int) -> list[date]:
    """Keep so many days back from the last one; return those that were removed."""
    known = days_in(folder)
    first = max(known) - timedelta(days=days - 1)
    return [day for day in known if day < first and remove_day(folder, day)]


def remove_day(folder: Path, day: date) -> bool:
    """Take a day out of a folder of counts."""
    known = days_in(folder)
    if day not in known:
        raise DataError(f"{folder}: has no counts of {day}")
    known[day].unlink()
    return True


def _groups(file: Path) -> int:
    return int(pq.read_metadata(file).num_rows)
