"""Counts that grow: a folder with one file of counts per day.

Counts add up, so a day is counted once and kept. A day's file appears whole or not at
all, and nothing else is kept: what is in the folder is what was counted. A file is
read, replaced or removed only if it says that it holds counts, and one process at a
time changes the folder.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from affinerank.counts.table import COLUMNS, NUMBERS, counts_metadata
from affinerank.logs.schema import CONTEXT, KEYS, RANDOMISED
from affinerank.support.arrow import is_text, pa, parquet_errors
from affinerank.support.errors import DataError
from affinerank.support.files import PathLike, atomic_write, locked_folder

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
    """Return the days of a folder, in order: from ``since`` on and before ``until``.

    Each of these files must say that it holds counts.
    """
    files = sorted(Path(folder).glob("*.parquet"))
    strange = [file for file in files if not DAY.fullmatch(file.stem)]
    if strange:
        raise DataError(
            f"{strange[0]}: a folder of counts holds one file per day, named as in "
            "2026-01-31.parquet"
        )
    first = day_of(since, "--since") if since else date.min
    end = day_of(until, "--until") if until else date.max
    files_by_day = {day_of(file.stem): file for file in files}
    chosen = {day: file for day, file in files_by_day.items() if first <= day < end}
    for file in chosen.values():
        _schema_of_counts(file)
    return chosen


@contextmanager
def new_day(
    folder: Path,
    day: date,
    load: Callable[[Path], Any],
    *,
    again: bool = False,
    keep_days: int | None = None,
) -> Iterator[Path]:
    """Yield a path to write the counts of a day to; they are added once, and whole.

    Args:
        folder: The days counted so far; made if it is not there.
        day: The day.
        load: Reads counts from a file, which are compared with those of other days.
        again: Whether the day may be there already, and is replaced then.
        keep_days: How many days will be kept, if :func:`keep_last` follows.
    """
    if not folder.parent.is_dir():
        raise DataError(f"{folder}: there is no folder {folder.parent} to make it in")
    is_new_folder = not folder.exists()
    folder.mkdir(exist_ok=True)
    target = folder / f"{day}.parquet"
    try:
        # Say what is wrong before the log is counted, which may take hours.
        _require_room(folder, target, again)
        if keep_days is not None:
            _require_past([*days_in(folder), day], folder)
        with ExitStack() as until_replaced, atomic_write(target) as unfinished:
            yield unfinished
            # Another process may have added days while this one counted. The lock is
            # held until the finished file has its name.
            until_replaced.enter_context(locked_folder(folder))
            other_days = _require_room(folder, target, again)
            _require_same_keys(unfinished, target, other_days)
            _require_other_counts(unfinished, target, other_days, load)
    except BaseException:
        if is_new_folder:
            with suppress(OSError):  # another process may count into it already
                folder.rmdir()
        raise


def keep_last(folder: Path, days: int) -> list[date]:
    """Keep so many days back from the last one; return those that were removed."""
    with locked_folder(folder):
        files = days_in(folder)
        _require_past(files, folder)
        last = max(files).toordinal()
        too_old = [day for day in files if last - day.toordinal() >= days]
        for day in too_old:
            files[day].unlink()
    return too_old


def remove_day(folder: Path, day: date) -> bool:
    """Take a day out of a folder of counts."""
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder")
    with locked_folder(folder):
        files = days_in(folder)
        if day not in files:
            raise DataError(f"{folder}: has no counts of {day}")
        files[day].unlink()
    return True


def require_log_outside(folder: Path, log: str) -> None:
    """Reject a log that is in a folder of counts, or has that folder inside."""
    counts = folder.resolve()
    names = [log] if Path(log).exists() else glob.iglob(log, recursive=True)
    for name in map(Path, names):
        # Of a link, both where it stands and where it leads.
        for place in (name.parent.resolve() / name.name, name.resolve()):
            if counts == place or counts in place.parents:
                raise DataError(
                    f"{name}: is in {folder}, which holds counts; keep logs in another "
                    "folder"
                )
            if place.is_dir() and place in counts.parents:
                raise DataError(
                    f"{name}: has the folder of counts {folder} inside, which is no "
                    "log; put it elsewhere"
                )


def _require_room(folder: Path, target: Path, again: bool) -> dict[date, Path]:
    """Check that a day may be added or replaced; return the other days."""
    if target.is_symlink():
        raise DataError(
            f"{target}: is a link to another file, which is never replaced; remove it"
        )
    files = days_in(folder)
    day = day_of(target.stem)
    if day in files and not again:
        raise DataError(
            f"{target}: this day is counted already; count it anew with --replace"
        )
    return {other: file for other, file in files.items() if other != day}


def _require_past(days: Iterable[date], folder: Path) -> None:
    """Reject days to come: the days to keep would be counted back from them."""
    # Somewhere on Earth it is tomorrow already.
    latest = datetime.now(UTC).date() + timedelta(days=1)
    for day in days:
        if day > latest:
            raise DataError(
                f"{folder / f'{day}.parquet'}: is a day to come, and --keep-days would "
                "remove what is older; give the right day, or take it out with --remove"
            )


def _require_same_keys(
    unfinished: Path, target: Path, other_days: dict[date, Path]
) -> None:
    """Reject counts that could not be added to those of other days."""
    keys = _describe_keys(_schema_of_counts(unfinished))
    for file in other_days.values():
        keys_of_file = _describe_keys(_schema_of_counts(file))
        if keys_of_file != keys:
            raise DataError(
                f"{target}: counts by {keys} cannot be added to those of {file.name}, "
                f"by {keys_of_file}; count all days with the same options and types of "
                "ids"
            )


def _require_other_counts(
    unfinished: Path,
    target: Path,
    other_days: dict[date, Path],
    load: Callable[[Path], Any],
) -> None:
    """Reject the very counts of another day: one log would count twice."""
    n_rows = counts_metadata(unfinished).num_rows
    for other, file in other_days.items():
        same_size = counts_metadata(file).num_rows == n_rows
        if same_size and load(file).equals(load(unfinished)):
            raise DataError(
                f"{file}: has the very counts of {target.stem}; this log was counted "
                f"as {other} already"
            )


def _schema_of_counts(file: Path) -> pa.Schema:
    """Return the columns of a file; reject one that does not say it holds counts."""
    with parquet_errors(file):
        schema = counts_metadata(file).schema.to_arrow_schema()
    names = set(schema.names)
    if not names.issuperset((*KEYS, *NUMBERS)) or not names.issubset(COLUMNS):
        raise DataError(
            f"{file}: holds no counts, and a folder of counts holds nothing else; "
            "give --into another folder"
        )
    return schema


def _describe_keys(schema: pa.Schema) -> str:
    """Name what rows are counted by, and the types of ids.

    The last click above is left out: days without it are added to days with it. So is
    what a policy drew: a day without it declares nothing.
    """
    names = [name for name in COLUMNS if name in schema.names]
    optional = (*KEYS, *NUMBERS, CONTEXT, RANDOMISED)
    counted = [name for name in names if name not in optional]
    ids = [
        f"{name} ({'text' if is_text(schema.field(name).type) else 'integer'})"
        for name in KEYS[:2]
    ]
    return ", ".join([*ids, "rank", *counted])
