"""Counts know when each ranker logged, through all that is done with them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import affinerank.counts.counts as module
from affinerank.counts.counts import ClickCounts, CountsInParts
from affinerank.counts.ranker_times import METADATA_KEY, MOST_RANKERS
from affinerank.logs.options import LogOptions

pytestmark = pytest.mark.slow

Count = Callable[..., Any]
Rows = list[dict[str, Any]]


def session(name: int, ranker: str, moment: Any) -> Rows:
    return [
        {
            "session_id": name,
            "query_id": f"q{name % 3}",
            "doc_id": f"d{rank}",
            "rank": rank,
            "clicked": rank == 1,
            "ranker": ranker,
            "timestamp": moment,
        }
        for rank in (1, 2)
    ]


@pytest.fixture
def rows() -> Rows:
    """``old`` logs from 10 to 40, ``new`` from 50 to 70."""
    moments = {10: "old", 20: "old", 40: "old", 50: "new", 70: "new"}
    return [
        row
        for name, (moment, ranker) in enumerate(moments.items())
        for row in session(name, ranker, moment)
    ]


TIMES = {"old": (10.0, 40.0), "new": (50.0, 70.0)}


def test_the_first_and_last_moment_of_each_ranker_are_counted(
    count: Count, rows: Rows
) -> None:
    assert count(rows)[0].ranker_times == TIMES
    assert count(rows, holdout=0.5)[0].ranker_times == TIMES
    late = count(rows, LogOptions(since="20", until="60"))[0]
    assert late.ranker_times == {"old": (20.0, 40.0), "new": (50.0, 50.0)}
    few = LogOptions(columns={"timestamp": "when"})
    renamed = [{**row, "when": row.pop("timestamp")} for row in map(dict, rows)]
    assert count(renamed, few)[0].ranker_times == TIMES


def test_dates_become_seconds_and_what_is_no_moment_is_left_out(count: Count) -> None:
    dates = ["1970-01-01", "1970-01-02T00:00:30", "soon", "infinity", None]
    rows = [row for i, d in enumerate(dates) for row in session(i, "a", d)]
    assert count(rows)[0].ranker_times == {"a": (0.0, 86_430.0)}
    numbers = [1.0, float("nan"), float("inf"), 3.0]
    rows = [row for i, n in enumerate(numbers) for row in session(i, "a", n)]
    assert count(rows)[0].ranker_times == {"a": (1.0, 3.0)}


def test_names_of_rankers_are_kept_as_they_are(count: Count) -> None:
    names = ["o'clock", 'say "x"', "é☃", "a\nb", "{'a': 1}"]
    rows = [row for i, n in enumerate(names) for row in session(i, n, i)]
    expected = {name: (float(i), float(i)) for i, name in enumerate(names)}
    assert count(rows)[0].ranker_times == expected


def test_without_moments_or_rankers_nothing_is_known(count: Count, rows: Rows) -> None:
    for column in ("timestamp", "ranker"):
        without = [{k: v for k, v in row.items() if k != column} for row in rows]
        assert count(without)[0].ranker_times == {}
    n = MOST_RANKERS + 1
    many = [row for i in range(n) for row in session(i, f"r{i}", i)]
    assert count(many)[0].ranker_times == {}


def test_moments_stay_with_counts(
    count: Count, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, _ = count(rows)
    split = counts.holdout(0.5)
    assert split.ranker_times == TIMES
    assert split.select("split", "train").ranker_times == TIMES
    assert split.merged("split").ranker_times == TIMES
    assert counts.labelled("segment", "phone").ranker_times == TIMES
    assert counts.merged("ranker").ranker_times == {}
    counts.save(tmp_path / "saved.parquet")
    assert ClickCounts.load(tmp_path / "saved.parquet").ranker_times == TIMES
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 2)
    parts = ClickCounts.load(tmp_path / "saved.parquet")
    assert isinstance(parts, CountsInParts)
    assert parts.ranker_times == TIMES
    assert parts.holdout(0.5).ranker_times == TIMES


def test_moments_of_days_add_up_where_every_day_has_them(
    count: Count, rows: Rows, tmp_path: Path
) -> None:
    later = [{**row, "timestamp": row["timestamp"] + 100} for row in rows[4:]]
    first, second = count(rows)[0], count(later)[0]
    assert (first + second).ranker_times == {"old": (10, 140), "new": (50, 170)}
    folder = tmp_path / "days"
    folder.mkdir()
    first.save(folder / "2026-01-01.parquet")
    second.save(folder / "2026-01-02.parquet")
    days = ClickCounts.load(folder)
    assert days.ranker_times == (first + second).ranker_times
    silent = [{k: v for k, v in row.items() if k != "timestamp"} for row in rows]
    count(silent)[0].save(folder / "2026-01-03.parquet")
    assert ClickCounts.load(folder).ranker_times == {}


@pytest.mark.parametrize(
    "damaged",
    [b"{", b"\xff", b"[1]", b'{"a": 1}', b'{"a": ["x", 2]}', b'{"a": [NaN, 2]}'],
)
def test_damaged_moments_are_none(
    count: Count, rows: Rows, tmp_path: Path, damaged: bytes
) -> None:
    table = count(rows)[0].table
    path = tmp_path / "damaged.parquet"
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: damaged}), path)
    assert ClickCounts.load(path).ranker_times == {}


def test_what_other_tools_note_is_not_kept(
    count: Count, rows: Rows, tmp_path: Path
) -> None:
    table = count(rows)[0].table
    noted = {b"pandas": b"{}", METADATA_KEY: json.dumps(TIMES).encode()}
    path = tmp_path / "noted.parquet"
    pq.write_table(table.replace_schema_metadata(noted), path)
    counts = ClickCounts.load(path)
    assert set(counts.table.schema.metadata) == {METADATA_KEY}
    assert counts.ranker_times == TIMES
