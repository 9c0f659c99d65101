"""Counting a click log: against the bare query, by size, and within its memory.

Writes logs into a temporary folder, in four shapes: ten rows per session with every
group new (two rows to a group), head-heavy (some 10,000 groups), or Zipf; and a hundred
rows per session, each session with documents of its own (a million groups). It prints

- seconds of our counting, unchecked, checked, and by the last click above, of the bare
  DuckDB query, of pandas and of polars over the same file, taken alternately: medians,
  their ratios to the bare query, and microseconds per row more. DuckDB has the same
  memory in all. Bars: unchecked 1.1; checked 2, or 0.15 microseconds per row more;
- microseconds per row at each size, every group new: they must not grow (``--ways
  spark`` counts by Spark in local mode, checks included);
- seconds to count a day alone, and to add it to 100 days as large. Bar: 1.5;
- with ``--planted``, whether every class of fault is found, planted once each into a
  log of each shape and size, and seconds of the search;
- peak memory and seconds of a fresh process that runs ``affinerank count`` within
  ``--within`` on the largest log.

    python benchmarks/counting.py [--rows 2e6 20e6 200e6] [--compare 20e6] [--repeats 3]
        [--shapes new head zipf long] [--integers] [--within 1GB]
        [--day 2e6] [--planted]

A billion rows: ``--compare 0 --rows 1e9 --ways bare --integers --within 7GB`` (3 GB of
disk for the log, and 30 GB for spilling).
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import date, timedelta
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from affinerank.counts.counting import (
    count_log,
    counts_expression,
    open_table,
    write_counts,
)
from affinerank.engines.opening import engine_of
from affinerank.logs.options import LogOptions, normalised

MEMORY = "4GB"
BYTES_PER_ROW = {True: 3, False: 9}  # of the log, with ids as integers, or as text
SPILLED = 10  # times as much, at most
BARE = """COPY (
    SELECT query_id, doc_id, rank, count(*) AS impressions, sum(clicked::int) AS clicks
    FROM '{log}' GROUP BY ALL
) TO '{target}' (FORMAT parquet)"""
LOG = """COPY (
    SELECT s AS session_id, 'q' || q AS query_id,
        'd' || (q % 100000) || '-' || ((k + (hash(s + 1) % 4 = 0)::int) % 10) AS doc_id,
        (k + 1)::int AS rank, hash(s * 10 + k) % (3 + k) = 0 AS clicked
    FROM (SELECT s, {query} AS q FROM sessions), range(10) AS u(k)
) TO '{log}' (FORMAT parquet)"""
INTEGERS = """COPY (
    SELECT s AS session_id, (hash(s) % {sessions} // 10)::BIGINT AS query_id,
        (k + (hash(s + 1) % 4 = 0)::int) % 10 AS doc_id,
        (k + 1)::int AS rank, hash(s * 10 + k) % (3 + k) = 0 AS clicked
    FROM sessions, range(10) AS u(k)
) TO '{log}' (FORMAT parquet)"""
# Lists of 100 of a query's 127 documents, hardly two alike.
LONG = """COPY (
    SELECT s AS session_id, {query} AS query_id,
        {document} (first + k * step) % 127 AS doc_id,
        (k + 1)::int AS rank, hash(s * 100 + k) % (3 + k) = 0 AS clicked
    FROM (
        SELECT s, (hash(s) % 100)::BIGINT AS q, (hash(s + 1) % 127)::BIGINT AS first,
            (hash(s + 2) % 126 + 1)::BIGINT AS step
        FROM sessions
    ), range(100) AS u(k)
) TO '{log}' (FORMAT parquet)"""
LONG_IDS = {  # whether ids are integers
    True: {"query": "q", "document": ""},
    False: {"query": "'q' || q", "document": "'d' || q || '-' ||"},
}
SHAPES = {  # the query of session s
    "new": "hash(s) % ({sessions} // 2)",
    "head": "hash(s) % 500",
    "zipf": "floor(pow({sessions} / 2, (hash(s) % 1000003) / 1000003.0))::BIGINT",
    "long": "hash(s) % 100",
}


FIRST_PLANTED = 10**12  # number of the first session with a fault
# What is said of a session, and what its third row is changed to.
PLANTED: dict[str, dict[str, object]] = {
    "session_id is null": {"session_id": None},
    "query_id is null": {"query_id": None},
    "doc_id is null": {"doc_id": None},
    "rank is not a whole number": {"rank": -3},
    "clicked is neither 0 nor 1": {"clicked": None},
    "two documents at one rank": {"rank": 2},
    "one document at two ranks": {"doc_id": "2"},
    "a list has gaps": {},  # to a rank below the last
    "a session has more than one query": {"query_id": "1"},
    "a list starts deeper": {"rank": 2},
    "an impression is repeated": {"rank": 2, "doc_id": "2"},
}


def rows_per_session(shape: str) -> int:
    return 100 if shape == "long" else 10


def connected(folder: Path) -> duckdb.DuckDBPyConnection:
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "temp_directory": str(folder / "spill"),
        "preserve_insertion_order": False,
    }
    return duckdb.connect(config=settings)


def write_log(rows: int, folder: Path, shape: str, integers: bool = False) -> Path:
    log, sessions = folder / f"log{rows}.parquet", rows // rows_per_session(shape)
    if shape == "long":
        copy = LONG.format(log=log, **LONG_IDS[integers])
    else:
        query = SHAPES[shape].format(sessions=sessions)
        template = INTEGERS if integers else LOG
        copy = template.format(log=log, sessions=sessions, query=query)
    with connected(folder) as connection:
        # A table is read by all cores, a range by one.
        numbers = f"SELECT range AS s FROM range({sessions})"  # noqa: S608
        connection.execute(f"CREATE TEMP TABLE sessions AS {numbers}")
        connection.execute(copy)
    return log


def plant(log: Path, target: Path, length: int) -> None:
    """Write a session for each class of fault, with the columns of a log."""
    rows: list[dict[str, object]] = []
    for number, (what, change) in enumerate(PLANTED.items()):
        for rank in range(1, length + 1):
            row = {"query_id": "0", "doc_id": str(rank), "rank": rank, "clicked": False}
            row["session_id"] = FIRST_PLANTED + number
            if what == "a list starts deeper":
                row["rank"] = rank + 1
            elif rank == 3:
                row |= change
                if what == "a list has gaps":
                    row["rank"] = length + 2
            rows.append(row)
    schema = pq.read_schema(log).remove_metadata()
    columns = {
        name: pa.array([row[name] for row in rows]).cast(schema.field(name).type)
        for name in schema.names
    }
    pq.write_table(pa.table(columns), target)


def find_planted(shape: str, rows: int, folder: Path, integers: bool) -> None:
    """Print whether every planted fault is found, and exit with 1 if one is not."""
    logs = folder / "planted"
    logs.mkdir()
    log = write_log(rows, folder, shape, integers).rename(logs / "log.parquet")
    plant(log, logs / "planted.parquet", rows_per_session(shape))
    started = time.perf_counter()
    with open_table(str(logs), memory=MEMORY) as table:
        found = count_log(table, folder / "counts.parquet", bad_rows="drop")
    taken = time.perf_counter() - started
    said = [finding["what"] for finding in found.findings()]
    missed = [what for what in PLANTED if not any(one.startswith(what) for one in said)]
    about = f"missed: {', '.join(missed)}" if missed else f"all {len(PLANTED)} found"
    print(f"{shape:6}{rows:>13,}  {about}, {taken:.1f} s", flush=True)
    shutil.rmtree(logs)
    if missed:
        sys.exit(1)


def bare(log: Path, folder: Path) -> None:
    with connected(folder) as connection:
        connection.execute(BARE.format(log=log, target=folder / "bare.parquet"))


def unchecked(log: Path, folder: Path) -> None:
    with open_table(str(log), memory=MEMORY) as table:
        rows = int(table.count().to_pyarrow().as_py())
        with tempfile.TemporaryDirectory(dir=folder) as spill:
            log = normalised(table, LogOptions())
            parts = engine_of(log).write_partitions(log, rows, Path(spill))
            counts = [counts_expression(part) for part in parts]
            write_counts(counts, folder / "counts.parquet", Path(spill))


def checked(log: Path, folder: Path) -> None:
    with open_table(str(log), memory=MEMORY) as table:
        count_log(table, folder / "counts.parquet")


def by_last_click(log: Path, folder: Path) -> None:
    with open_table(str(log), memory=MEMORY) as table:
        count_log(table, folder / "counts.parquet", context="last-click")


def by_pandas(log: Path, folder: Path) -> None:
    pandas = import_module("pandas")
    keys = ["query_id", "doc_id", "rank"]
    frame = pandas.read_parquet(log, columns=[*keys, "clicked"])
    groups = frame.groupby(keys, sort=False)["clicked"].agg(["size", "sum"])
    groups.reset_index().to_parquet(folder / "pandas.parquet")


def by_polars(log: Path, folder: Path) -> None:
    polars = import_module("polars")
    counts = (
        polars.scan_parquet(log)
        .group_by("query_id", "doc_id", "rank")
        .agg(polars.len(), polars.col("clicked").sum())
    )
    counts.sink_parquet(folder / "polars.parquet")


def by_spark(log: Path, folder: Path) -> None:
    with open_table(str(log), engine="spark") as table:
        count_log(table, folder / "counts.parquet")


WAYS = {"bare": bare, "unchecked": unchecked, "checked": checked, "spark": by_spark}


def seconds(run: Callable[[Path, Path], None], log: Path, folder: Path) -> float:
    started = time.perf_counter()
    run(log, folder)
    return time.perf_counter() - started


def compare(log: Path, folder: Path, repeats: int, rows: int) -> None:
    ways = {
        "bare DuckDB query": bare,
        "ours, unchecked": unchecked,
        "ours, checked": checked,
        "checked, last click": by_last_click,
        "pandas": by_pandas,
        "polars": by_polars,
    }
    for name in ("pandas", "polars"):
        if find_spec(name) is None:
            print(f"({name} is not installed)")
            del ways[name]
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, run in ways.items():
            times[name].append(seconds(run, log, folder))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    print(f"{'':20} {'median s':>9} {'ratio':>7} {'us/row more':>12}   all")
    for name, median in medians.items():
        base = medians["bare DuckDB query"]
        more = (median - base) / rows * 1e6
        every = " ".join(f"{taken:.2f}" for taken in times[name])
        print(f"{name:20} {median:9.2f} {median / base:7.2f} {more:12.3f}   {every}")


def peak_bytes(log: Path, folder: Path, within: str) -> tuple[int, float]:
    """Peak memory and seconds of a new process that counts ``log`` within a memory."""
    command = [sys.executable, __file__, "--measure", str(log)]
    command += ["--folder", str(folder), "--within", within]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    *_, peak, taken = done.stdout.split()
    return int(peak), float(taken)


def measure(log: str, folder: str, within: str) -> None:
    from affinerank.cli import main

    target, started = str(Path(folder) / "measured.parquet"), time.perf_counter()
    if main(["count", log, "-o", target, "--memory", within, "--json"]) != 0:
        sys.exit(1)
    status = Path("/proc/self/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    print(int(line.split()[1]) * 1024, time.perf_counter() - started)


def add_a_day(folder: Path, rows: int, repeats: int) -> None:
    """Time a day's log by itself, and as one more of a hundred days."""
    from affinerank.cli import main

    days, log = folder / "days", write_log(rows, folder, "zipf")
    other = write_log(rows - 10, folder, "zipf")  # a day has not the counts of another
    days.mkdir()
    checked(other, folder)
    for day in range(100):
        name = f"{date(2026, 1, 1) + timedelta(day)}.parquet"
        shutil.copy(folder / "counts.parquet", days / name)
    alone = ["count", str(log), "-o", str(folder / "day.parquet"), "--json"]
    into = ["count", str(log), "--into", str(days), "--day", "2026-06-01", "--json"]
    into.append("--replace")
    times: dict[str, list[float]] = {"alone": [], "into 100 days": []}
    for _ in range(repeats):
        for name, command in zip(times, (alone, into), strict=True):
            started = time.perf_counter()
            with redirect_stdout(io.StringIO()):
                if main(command) != 0:
                    sys.exit(1)
            times[name].append(time.perf_counter() - started)
    log.unlink()
    other.unlink()
    print(f"\na day of {rows:,} rows, seconds (median, all)")
    for name, taken in times.items():
        every = " ".join(f"{each:.2f}" for each in taken)
        print(f"{name:14} {statistics.median(taken):6.2f}   {every}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="*", default=[2e6, 20e6, 200e6])
    parser.add_argument("--compare", type=float, default=20e6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--integers", action="store_true", help="ids as integers")
    parser.add_argument("--day", type=float, default=2e6, help="rows of a day")
    parser.add_argument("--within", default="1GB", help="memory for the largest log")
    parser.add_argument("--ways", nargs="*", default=list(WAYS)[:3], choices=WAYS)
    parser.add_argument("--planted", action="store_true", help="look for faults alone")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.measure:
        measure(args.measure, args.folder, args.within)
        return
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        room = shutil.disk_usage(folder).free
        most = room / (SPILLED * BYTES_PER_ROW[args.integers])
        rows = [int(n) for n in args.rows if n < most]
        if len(rows) < len(args.rows):
            print(f"(the disk has room for {most:,.0f} rows)")
        print(f"DuckDB {duckdb.__version__}, {os.cpu_count()} cores, {MEMORY}")
        if args.planted:
            for shape, size in product(args.shapes, rows):
                find_planted(shape, size, folder, args.integers)
            return
        for shape in args.shapes if args.compare else ():
            size = int(args.compare)
            log = write_log(size, folder, shape)
            print(f"\n{shape}: {size:,} rows, {log.stat().st_size / 1e6:.0f} MB")
            compare(log, folder, args.repeats, size)
            log.unlink()
        if args.day:
            add_a_day(folder, int(args.day), args.repeats)
        names = " ".join(f"{name:>10}" for name in args.ways)
        print(f"\n{'rows':>13} {names}   microseconds per row")
        for size in rows:
            log = write_log(size, folder, "new", args.integers)
            repeats = args.repeats if size < 100e6 else 1
            taken = [
                statistics.median(
                    seconds(WAYS[name], log, folder) for _ in range(repeats)
                )
                for name in args.ways
            ]
            each = " ".join(f"{each / size * 1e6:10.3f}" for each in taken)
            print(f"{size:>13,} {each}", flush=True)
            if size == max(rows):
                about = f"{log.stat().st_size / 1e6:,.0f} MB, {size:,} rows"
                peak, taken_by_it = peak_bytes(log, folder, args.within)
                print(f"\npeak memory with --memory {args.within}, {about}:")
                print(f"{peak / 1e6:,.0f} MB, {taken_by_it:,.1f} s")
            log.unlink()


if __name__ == "__main__":
    main()
