"""Long lists: seen in one pass while they are clean, and every fault in them found."""

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from affinerank.counts.counting import open_table
from affinerank.engines.duckdb import DuckDB
from affinerank.logs.faults import validate
from affinerank.logs.options import LogOptions, normalised
from affinerank.logs.report import LogReport

# Ibis asks DuckDB by a method that DuckDB has renamed.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
]

Rows = list[dict[str, Any]]
LongList = Callable[..., Rows]
Plant = Callable[[Rows, str, int], Rows]
Write = Callable[..., str]

RANKS = (1, 40, 41, 63, 64, 119, 120, 121, 130)


def report_of(log: str) -> tuple[LogReport, set[Any]]:
    """Check a log; return also the sessions that were searched closely."""
    with open_table(log) as table:
        log_table = normalised(table, LogOptions())
        report = validate(log_table)
        searched = log_table if report.suspects is None else report.suspects
        return report, set(searched.to_pyarrow()["session_id"].to_pylist())


def numbers(report: LogReport) -> dict[str, int]:
    """How many of each finding, by the first words of it."""
    return {found.what.split(" (")[0]: found.number for found in report.findings}


def found_by_loop(rows: Rows) -> dict[str, int]:
    """What is wrong with the lists of a log, found in the plainest way."""
    found: dict[str, int] = defaultdict(int)
    sessions: dict[Any, Rows] = defaultdict(list)
    for row in rows:
        if row["clicked"] is None:
            found["clicked is neither 0 nor 1"] += 1
        else:
            sessions[row["session_id"]].append(row)
    for shown in sessions.values():
        documents, ranks = defaultdict(list), defaultdict(list)
        for row in shown:
            documents[row["rank"]].append(row["doc_id"])
            ranks[row["doc_id"]].append(row["rank"])
        clashes = sum(len(set(there)) > 1 for there in documents.values())
        repeated = sum(len(there) > 1 for there in documents.values()) - clashes
        found["two documents at one rank of a session"] += clashes
        found["an impression is repeated"] += repeated
        moved = sum(len(set(there)) > 1 for there in ranks.values())
        found["one document at two ranks of a session"] += moved
        gaps = len(documents) != max(documents) - min(documents) + 1
        found["a list has gaps between its ranks"] += gaps
        found["a list starts deeper than rank 1"] += min(documents) > 1
        queries = {row["query_id"] for row in shown}
        found["a session has more than one query"] += len(queries) > 1
    return {what: number for what, number in found.items() if number}


@pytest.mark.parametrize("parts", [1, 3])
def test_clean_long_lists_are_not_searched_closely(
    parts: int, long_list: LongList, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether sessions show the same documents or not; up to rank 126."""
    monkeypatch.setattr(DuckDB, "in_parts", split_into(parts))
    lengths = (3, 39, 40, 41, 62, 63, 64, 65, 119, 120, 121, 125, 126)
    rows = [
        row
        for length in lengths
        for i, first in enumerate((0, 0, length))
        for row in long_list(f"s{length}-{i}", length, first)
    ]
    report, searched = report_of(write(rows))
    assert report.findings == ()
    assert report.plain
    assert report.sessions == 3 * len(lengths)
    assert searched == set()


def split_into(parts: int) -> Callable[..., Any]:
    """Split tables by a hash, however small they are."""

    def split(engine: DuckDB, table: Any, column: str, rows: int) -> list[Any]:
        number = engine.hashed(table[column]) % parts
        return [table.filter(number == i) for i in range(parts)]

    return split


def test_lists_beyond_the_reach_are_searched_closely(
    long_list: LongList, write: Write
) -> None:
    lengths = {127: 1, 128: 1, 151: 1, 126: 2, 40: 2}
    rows = [
        row
        for length, number in lengths.items()
        for i in range(number)
        for row in long_list(f"{length}-{i}", length)
    ]
    report, searched = report_of(write(rows))
    assert report.findings == ()
    assert searched == {"127-0", "128-0", "151-0"}
    assert not report.plain


@pytest.mark.parametrize("length", [126, 140])
def test_a_fault_at_any_rank_of_a_long_list_is_found(
    length: int,
    fault_of_list: str,
    long_list: LongList,
    plant_in_list: Plant,
    write: Write,
) -> None:
    """Among clean sessions of the same documents, and of others."""
    lists = {i: long_list(i, length, first=i // 3) for i in range(24)}
    clean = [row for rows in lists.values() for row in rows]
    ranks = [rank for rank in RANKS if rank <= length]
    faulty = {2 * i + 1: rank for i, rank in enumerate(ranks)}
    for i, rank in faulty.items():
        lists[i] = plant_in_list(lists[i], fault_of_list, rank)
    rows = [row for rows in lists.values() for row in rows]
    report, searched = report_of(write(rows))
    expected = found_by_loop(rows)
    assert numbers(report) == expected
    assert expected != found_by_loop(clean)
    for what, number in expected.items():
        if what.startswith(fault_of_list):
            assert number == len(ranks) - (fault_of_list == "a list has gaps")
    assert searched == (set(faulty) if length == 126 else set(range(24)))


@pytest.mark.parametrize("shape", ["new", "repeated"])
@pytest.mark.parametrize("seed", range(3))
def test_one_pass_finds_what_a_close_search_finds(
    seed: int,
    shape: str,
    long_list: LongList,
    plant_in_list: Plant,
    faults_of_lists: tuple[str, ...],
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(seed)
    rows: Rows = []
    for i in range(60):
        first = rng.randrange(151) if shape == "new" else 0
        length = rng.choice([8, 20, 63, 64, 100, 126, 127, 140])
        shown = long_list(i, length, first)
        for _ in range(rng.choice([0, 0, 1, 2])):
            fault = rng.choice(faults_of_lists)
            shown = plant_in_list(shown, fault, rng.randint(1, len(shown)))
        rows += rng.sample(shown, len(shown))
    log = write(rows)
    report, _ = report_of(log)
    assert numbers(report) == found_by_loop(rows)
    monkeypatch.setattr(DuckDB, "scan_sessions", lambda *_: None)
    with open_table(log) as table:
        close = validate(normalised(table, LogOptions()))
    assert numbers(close) == numbers(report)
    assert close.repeats == report.repeats


@pytest.mark.parametrize("fault", ["an impression is repeated", "two documents at one"])
@pytest.mark.parametrize("rank", [*RANKS, 80, 81, 82])
def test_a_close_search_finds_the_one_rank_that_comes_twice(
    fault: str,
    rank: int,
    long_list: LongList,
    plant_in_list: Plant,
    faults_of_lists: tuple[str, ...],
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that engines other than DuckDB have."""
    monkeypatch.setattr(DuckDB, "scan_sessions", lambda *_: None)
    [fault] = [what for what in faults_of_lists if what.startswith(fault)]
    clean = long_list("clean", 120)
    faulty = plant_in_list(long_list("faulty", max(rank, 120)), fault, rank)
    with open_table(write(clean + faulty)) as table:
        report = validate(normalised(table, LogOptions()))
    assert numbers(report) == found_by_loop(faulty)
    assert len(report.findings) == 1


def test_a_document_that_repeats_is_found_in_all_sessions_that_show_it_so(
    long_list: LongList, write: Write
) -> None:
    """They have one fingerprint, and one of them is looked at for all."""
    rows = []
    for i in range(20):
        shown = long_list(i, 60)
        if i % 4 == 1:
            shown[50]["doc_id"] = shown[9]["doc_id"]
        rows += random.Random(i).sample(shown, 60)
    # The documents of the clean sessions, and one that is there twice.
    longer = long_list(20, 62)
    longer[61]["doc_id"] = longer[60]["doc_id"]
    report, searched = report_of(write(rows + longer))
    assert numbers(report) == {"one document at two ranks of a session": 6}
    assert searched == {1, 5, 9, 13, 17, 20}
