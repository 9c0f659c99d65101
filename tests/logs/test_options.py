"""Logs: what is rejected, what is reported, how they are read and chosen from."""

import csv
import gzip
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from affinerank.logs.options import LogOptions
from affinerank.logs.report import LogFaultsError
from affinerank.support.errors import ConfigError, DataError

# Ibis asks DuckDB by a method that DuckDB has renamed.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
]

Rows = list[dict[str, Any]]
Count = Callable[..., Any]
Write = Callable[..., str]


def as_rows(counts: Any) -> Any:
    """Every row of counts as a tuple, without its sessions."""
    return [tuple(row.values())[:-1] for row in counts.table.to_pylist()]


GOOD = [
    ("q1", "a", 1, 2, 2),
    ("q1", "b", 2, 1, 0),
    ("q1", "c", 2, 1, 1),
    ("q1", "c", 3, 1, 0),
    ("q2", "a", 1, 1, 0),
    ("q2", "b", 2, 1, 0),
]


def test_a_good_log_has_no_findings(good: Rows, count: Count) -> None:
    counts, found = count(good)
    assert as_rows(counts) == GOOD
    assert counts.sessions.tolist() == [2, 2, 2, 2, 1, 1]
    assert found.report.findings == ()
    assert found.findings() == []
    assert {k: v for k, v in found.summary.items() if k != "seconds"} == {
        "rows": 7,
        "sessions": 3,
        "queries": 2,
        "documents": 5,
        "ranks": 3,
        "impressions": 7,
        "clicks": 3,
        "groups": 6,
        "dropped": {"sessions": 0, "rows": 0},
    }


RANK = "rank is not a whole number from 1 to 10000"

# What is changed in the first row, and what is reported.
ROW_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"session_id": None}, "session_id is null"),
    ({"query_id": None}, "query_id is null"),
    ({"doc_id": None}, "doc_id is null"),
    ({"rank": None}, RANK),
    ({"rank": 0}, RANK),
    ({"rank": -1}, RANK),
    ({"rank": 10_001}, RANK),
    ({"rank": 1.5}, RANK),
    ({"rank": float("nan")}, RANK),
    ({"rank": float("inf")}, RANK),
    ({"clicked": None}, "clicked is neither 0 nor 1"),
    ({"clicked": 2}, "clicked is neither 0 nor 1"),
    ({"clicked": -1}, "clicked is neither 0 nor 1"),
    ({"clicked": 0.5}, "clicked is neither 0 nor 1"),
]


@pytest.mark.parametrize(("changed", "what"), ROW_FAULTS)
def test_a_fault_of_a_row_rejects_the_log_or_drops_the_session(
    changed: dict[str, Any], what: str, good: Rows, count: Count, tmp_path: Path
) -> None:
    [(name, value)] = changed.items()
    if isinstance(value, float):
        good = [{**row, name: float(row[name])} for row in good]
    rows = [{**good[0], **changed}, *good[1:]]
    with pytest.raises(LogFaultsError) as caught:
        count(rows)
    assert str(caught.value).startswith(f"the log has faults: {what}")
    assert "(1 rows)" in str(caught.value)
    assert "--bad-rows drop" in str(caught.value)
    [fault] = caught.value.report.faults
    assert (fault.number, fault.unit, len(fault.examples)) == (1, "rows", 1)
    assert fault.column == name
    assert not (tmp_path / "counted.parquet").exists()
    counts, found = count(rows, bad_rows="drop")
    if name == "session_id":  # belongs to no session: only the row can go
        assert found.summary["dropped"] == {"sessions": 0, "rows": 1}
        assert found.summary["sessions"] == 3
    else:
        assert found.summary["dropped"] == {"sessions": 1, "rows": 3}
        assert as_rows(counts) == [
            ("q1", "a", 1, 1, 1),
            ("q1", "c", 2, 1, 1),
            ("q2", "a", 1, 1, 0),
            ("q2", "b", 2, 1, 0),
        ]
    assert found.report.faults[0].what.startswith(what)
    assert found.summary["rows"] == 7


def test_a_value_that_is_no_number_is_shown_as_the_log_has_it(
    good: Rows, count: Count
) -> None:
    rows: Rows = [{**row, "price": "1.5"} for row in good]
    clicked = next(row for row in rows if row["clicked"])
    shown = next(row for row in rows if not row["clicked"])
    clicked["price"] = "three"
    shown["price"] = "nothing"  # what was not clicked needs no value
    with pytest.raises(LogFaultsError) as caught:
        count(rows, LogOptions(value="price"))
    [fault] = caught.value.report.faults
    assert fault.column == "value"
    assert [row["value"] for row in fault.examples] == ["three"]


LIST_FAULTS: list[tuple[dict[str, Any], str, str]] = [
    (
        {"rank": 1},
        "two documents at one rank of a session (is a session one query issued? if "
        "ranks begin anew on each page, give --page or --offset)",
        "1 ranks",
    ),
    ({"doc_id": "a"}, "one document at two ranks of a session", "1 documents"),
]


@pytest.mark.parametrize("deep", [0, 60])
@pytest.mark.parametrize(("changed", "what", "extent"), LIST_FAULTS)
def test_a_fault_of_a_list_rejects_the_log_or_drops_the_session(
    changed: dict[str, Any],
    what: str,
    extent: str,
    deep: int,
    good: Rows,
    count: Count,
) -> None:
    rows = [good[0], {**good[1], **changed}, *good[2:]]
    rows = [{**row, "rank": row["rank"] + deep} for row in rows]
    with pytest.raises(LogFaultsError) as caught:
        count(rows)
    assert f"{what} ({extent})" in str(caught.value)
    assert len(caught.value.report.faults) == 1
    examples = caught.value.report.faults[0].examples
    assert {row["session_id"] for row in examples} == {"s1"}
    assert len(examples) == 2
    _, found = count(rows, bad_rows="drop")
    assert found.summary["dropped"] == {"sessions": 1, "rows": 3}
    assert found.summary["sessions"] == 2


def test_all_faults_are_reported_at_once(good: Rows, count: Count) -> None:
    rows = [
        {**good[0], "query_id": None, "clicked": 7},
        *good[1:],
        {**good[4], "doc_id": "z"},
        {**good[3], "rank": 9},
    ]
    with pytest.raises(LogFaultsError, match="3 more kinds") as caught:
        count(rows)
    assert [fault.number for fault in caught.value.report.faults] == [1, 1, 1, 1]
    with pytest.raises(LogFaultsError, match="1 more kind "):
        count([{**good[0], "query_id": None, "clicked": 7}, *good[1:]])
    with pytest.raises(DataError, match="nothing to count"):
        count([{**row, "query_id": None} for row in good[:1]], bad_rows="drop")


def test_ranks_from_zero_are_taken_only_when_declared(good: Rows, count: Count) -> None:
    rows = [{**row, "rank": row["rank"] - 1} for row in good]
    with pytest.raises(LogFaultsError, match="--ranks-from 0"):
        count(rows)
    counts, found = count(rows, LogOptions(ranks_from=0))
    assert as_rows(counts) == GOOD
    assert found.report.findings == ()
    with pytest.raises(ConfigError, match="got 2"):
        LogOptions(ranks_from=2)


def only_finding(found: Any) -> Any:
    [finding] = found.report.findings
    assert not finding.fault
    return finding


def test_a_gap_is_reported_and_counted(good: Rows, count: Count) -> None:
    counts, found = count(good[:1] + good[2:])
    finding = only_finding(found)
    assert finding.what == "a list has gaps between its ranks"
    assert (finding.number, finding.unit) == (1, "sessions")
    assert finding.examples == ({"session_id": "s1", "low": 1, "high": 3},)
    assert found.summary["impressions"] == 6
    assert counts.n_sessions == 3


@pytest.mark.parametrize("rank", [66, 67, 68, 131])
def test_a_gap_of_any_depth_is_reported(rank: int, good: Rows, count: Count) -> None:
    # Ranks are looked at as bits of one number: 67 is no second 3.
    _, found = count([*good[:2], {**good[2], "rank": rank}, *good[3:]])
    assert only_finding(found).what == "a list has gaps between its ranks"


@pytest.mark.parametrize("length", [62, 63, 64, 130])
def test_what_comes_twice_in_a_long_list_is_found(length: int, count: Count) -> None:
    # All lower bits are set with 63 ranks already, however many rows there are.
    names = ("session_id", "query_id", "doc_id", "rank", "clicked")
    rows = [
        dict(zip(names, ("s", "q", f"d{k}", k, 0), strict=True))
        for k in range(1, length + 1)
    ]
    counts, found = count([*rows, {**rows[4], "clicked": 1}])
    assert only_finding(found).what.startswith("an impression is repeated")
    assert found.summary["impressions"] == length
    assert counts.column("clicks").to_numpy().sum() == 1
    with pytest.raises(LogFaultsError, match="two documents at one rank"):
        count([*rows, {**rows[4], "doc_id": "other"}])


def test_an_empty_ranker_leaves_lists_as_plain_as_they_are(
    good: Rows, count: Count
) -> None:
    _, found = count(
        [{**row, "ranker": "" if i < 3 else "a"} for i, row in enumerate(good)]
    )
    assert only_finding(found).what.startswith("ranker is null or empty")
    assert found.report.plain


def test_a_list_that_starts_deeper_is_reported_and_counted(
    good: Rows, count: Count
) -> None:
    counts, found = count(good[1:])
    finding = only_finding(found)
    assert finding.what == "a list starts deeper than rank 1"
    assert (finding.number, finding.unit) == (1, "sessions")
    assert counts.n_sessions == 3


@pytest.mark.parametrize("deep", [0, 60])
def test_a_repeated_impression_is_reported_and_merged_with_clicked_any(
    deep: int, good: Rows, count: Count
) -> None:
    rows = [*good, {**good[1], "clicked": 1}, good[1], {**good[0], "clicked": 0}]
    rows = [{**row, "rank": row["rank"] + deep} for row in rows]
    counts, found = count(rows)
    repeated = found.report.findings[0]
    assert repeated.what.startswith("an impression is repeated (merged; clicked if one")
    assert (repeated.number, repeated.unit) == (2, "impressions")
    expected = [(q, d, k + deep, n, c) for q, d, k, n, c in GOOD]
    expected[1] = ("q1", "b", 2 + deep, 1, 1)
    assert as_rows(counts) == expected
    assert found.summary["rows"] == 10
    assert found.summary["impressions"] == 7
    assert len(found.report.findings) == (2 if deep else 1)


def test_repeats_do_not_hide_gaps(good: Rows, count: Count) -> None:
    _, found = count([good[0], good[0], *good[2:]])
    assert [f.what.split(" (")[0] for f in found.report.findings] == [
        "an impression is repeated",
        "a list has gaps between its ranks",
    ]


def test_a_session_of_two_queries_is_reported(good: Rows, count: Count) -> None:
    rows = [*good[:2], {**good[2], "query_id": "q9"}, *good[3:]]
    counts, found = count(rows)
    assert only_finding(found).what.startswith("a session has more than one query")
    assert counts.n_sessions == 4


@pytest.mark.parametrize("name", ["ranker", "segment"])
def test_a_null_ranker_or_segment_is_reported_and_counted(
    name: str, good: Rows, count: Count
) -> None:
    rows = [{**row, name: None if i < 3 else "x"} for i, row in enumerate(good)]
    options = LogOptions(segment="segment" if name == "segment" else None)
    counts, found = count(rows, options)
    assert only_finding(found).what == f"{name} is null or empty (counted as {name} '')"
    assert only_finding(found).number == 3
    assert counts.impressions.sum() == 7
    assert counts.select(name, "").impressions.sum() == 3


def test_columns_of_other_names_are_mapped(good: Rows, count: Count) -> None:
    renamed = [
        {{"rank": "position", "doc_id": "clicked?"}.get(n, n): v for n, v in r.items()}
        for r in good
    ]
    options = LogOptions(columns={"rank": "position", "doc_id": "clicked?"})
    counts, _ = count(renamed, options)
    assert as_rows(counts) == GOOD
    with pytest.raises(
        DataError, match=r"no column 'doc_id' for doc_id; .*session_id, query_id"
    ):
        count(renamed)
    with pytest.raises(DataError, match="no column 'nope' for ranker"):
        count(good, LogOptions(columns={"ranker": "nope"}))
    with pytest.raises(DataError, match="no column 'nope' for segment"):
        count(good, LogOptions(segment="nope"))
    with pytest.raises(ConfigError, match="no column 'ranks'"):
        LogOptions(columns={"ranks": "position"})


def test_segments_and_rankers_are_told_apart(good: Rows, count: Count) -> None:
    rows = [
        {**row, "device": "phone" if i < 3 else "desk", "ranker": "A"}
        for i, row in enumerate(good)
    ]
    by_option, _ = count(rows, LogOptions(segment="device"))
    by_mapping, _ = count(rows, LogOptions(columns={"segment": "device"}))
    assert by_option.equals(by_mapping)
    assert by_option.keys == ("query_id", "doc_id", "rank", "ranker", "segment")
    assert by_option.select("segment", "phone").n_sessions == 1
    assert by_option.merged("ranker", "segment").impressions.tolist() == [
        n for *_, n, _ in GOOD
    ]


@pytest.mark.parametrize(
    "types",
    [
        {"rank": pa.uint8(), "clicked": pa.bool_()},
        {"rank": pa.float64(), "clicked": pa.float32()},
        {"rank": pa.decimal128(21, 1), "clicked": pa.int8()},
        {"rank": pa.string(), "clicked": pa.string()},
        {"query_id": pa.dictionary(pa.int32(), pa.string())},
        {"doc_id": pa.large_string()},
    ],
)
def test_columns_may_be_of_any_fitting_type(
    types: dict[str, Any], good: Rows, count: Count
) -> None:
    table = pa.Table.from_pylist(good)
    for name, kind in types.items():
        position = table.column_names.index(name)
        table = table.set_column(position, name, table[name].cast(kind))
    assert as_rows(count(table)[0]) == GOOD


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("doc_id", [1.5] * 7, "doc_id .*holds float64"),
        ("query_id", [[1]] * 7, "query_id .*holds array"),
        ("rank", [True] * 7, "rank .*holds boolean"),
        ("clicked", [[1]] * 7, "clicked .*holds array"),
        ("clicked", [b"1"] * 7, "clicked .*holds binary"),
        ("timestamp", [True] * 7, "timestamp .*holds boolean"),
    ],
)
def test_columns_of_other_types_are_one_sentence(
    name: str, values: list[Any], message: str, good: Rows, count: Count
) -> None:
    table = pa.Table.from_pylist(good)
    if name in table.column_names:
        table = table.drop_columns(name)
    with pytest.raises(DataError, match=message):
        count(table.append_column(name, pa.array(values)))


def test_integer_ids_stay_integers_and_too_large_ones_become_text(
    good: Rows, count: Count
) -> None:
    table = pa.Table.from_pylist(good).drop_columns(["query_id", "doc_id"])
    docs = pa.array([1, 2, 3, 1, 3, 1, 2], pa.int16())
    table = table.append_column("doc_id", docs)
    queries = pa.array([2**64 - 1] * 5 + [7] * 2, pa.uint64())
    counts, _ = count(table.append_column("query_id", queries))
    assert counts.table["doc_id"].type == pa.int64()
    assert set(counts.table["query_id"].to_pylist()) == {str(2**64 - 1), "7"}


# Files


def write_text(path: Path, rows: Rows, kind: str) -> None:
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        if kind == "jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            separator = "\t" if kind == "tsv" else ","
            writer = csv.DictWriter(file, rows[0], delimiter=separator)
            writer.writeheader()
            writer.writerows(rows)


TEXTS = {"q1": "007", "q2": "2024-01-31", "a": 'say "hi", you', "b": "0", "c": "1e3"}


@pytest.mark.parametrize(
    "name", ["log.csv", "log.csv.gz", "log.tsv", "log.jsonl", "log.ndjson.gz"]
)
def test_text_files_keep_ids_as_they_are_written(
    name: str, good: Rows, count: Count, tmp_path: Path
) -> None:
    rows = [
        {**row, "query_id": TEXTS[row["query_id"]], "doc_id": TEXTS[row["doc_id"]]}
        for row in good
    ]
    write_text(tmp_path / name, rows, name.split(".")[1].replace("ndjson", "jsonl"))
    counts, _ = count(str(tmp_path / name))
    expected = sorted((TEXTS[q], TEXTS[d], k, n, c) for q, d, k, n, c in GOOD)
    assert as_rows(counts) == expected


def test_json_ids_that_look_like_uuids_or_moments_are_not_rewritten(
    good: Rows, count: Count, tmp_path: Path
) -> None:
    uuids = {
        "q1": "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "q2": "B0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
    }
    moments = {d: f"2024-01-31T00:00:0{i}" for i, d in enumerate("abc")}
    rows = [
        {**row, "query_id": uuids[row["query_id"]], "doc_id": moments[row["doc_id"]]}
        for row in good
    ]
    write_text(tmp_path / "log.jsonl", rows, "jsonl")
    counts, _ = count(str(tmp_path / "log.jsonl"))
    assert set(counts.table["query_id"].to_pylist()) == set(uuids.values())
    assert set(counts.table["doc_id"].to_pylist()) == set(moments.values())


def test_an_empty_field_of_a_csv_is_null_and_an_empty_text_is_not(
    count: Count, tmp_path: Path
) -> None:
    text = "session_id,query_id,doc_id,rank,clicked\ns,q,{},1,true\n"
    (tmp_path / "log.csv").write_text(text.format('""'))
    assert as_rows(count(str(tmp_path / "log.csv"))[0]) == [("q", "", 1, 1, 1)]
    (tmp_path / "log.csv").write_text(text.format(""))
    with pytest.raises(LogFaultsError, match="doc_id is null"):
        count(str(tmp_path / "log.csv"))


def test_a_folder_and_a_pattern_are_all_their_files(
    good: Rows, count: Count, write: Write, tmp_path: Path
) -> None:
    write(good[:3], "logs/day=1/a.parquet")
    write(good[3:], "logs/day=2/b.parquet")
    write(good[3:], "[1] it's; --.parquet")
    assert as_rows(count(str(tmp_path / "logs"))[0]) == GOOD
    assert as_rows(count(str(tmp_path / "logs/*/*.parquet"))[0]) == GOOD
    odd, _ = count(str(tmp_path / "[1] it's; --.parquet"))
    assert odd.n_sessions == 2


HEADER = b"session_id,query_id,doc_id,rank,clicked\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("none.parquet", None, "none.parquet: "),
        ("none*.parquet", None, r"none\*.parquet: .*[Nn]o files found"),
        ("log.xlsx", b"x", "log.xlsx: .*.parquet, .csv"),
        ("log.parquet", b"no", "log.parquet: .*Parquet"),
        ("log.parquet", b"", "log.parquet: .*Parquet"),
        ("log.csv", b"", "log.csv, line 1: .*names"),
        (
            "log.csv",
            b"a,b\n1,2\n",
            r"none of a log's columns \(session_id, rank, clicked\), only a, b",
        ),
        ("log.csv", HEADER + b"1,2,3,4,5,6\n", "log.csv, line 2: .*got 6"),
        ("log.csv", b"\xff\xfe\x00", "log.csv, line 1: .*UTF-8"),
        ("log.jsonl", b"{}\n{", "log.jsonl: the engine"),
        ("log.jsonl", b"[1, 2]", "none of a log's columns"),
        ("log.jsonl", b"", "none of a log's columns"),
        ("log.csv.gz", b"no", "log.csv.gz: could not be read to its end"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    name: str, text: bytes | None, message: str, count: Count, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / name).write_bytes(text)
    with pytest.raises(DataError, match=message) as caught:
        count(str(tmp_path / name))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_an_empty_folder_is_one_sentence(count: Count, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with pytest.raises(DataError, match=r"logs: no files found.*\*\.csv"):
        count(str(tmp_path / "logs"))


# Choosing rows


def timed(rows: Rows, moments: dict[str, Any]) -> Rows:
    return [{**row, "timestamp": moments[row["session_id"]]} for row in rows]


MOMENTS: list[tuple[dict[str, Any], str, str]] = [
    (
        {
            "s1": datetime(2026, 1, 1),
            "s2": datetime(2026, 1, 2),
            "s3": datetime(2026, 1, 3),
        },
        "2026-01-02",
        "2026-01-03",
    ),
    (
        {"s1": "2026-01-01", "s2": "2026-01-02T10:00:00", "s3": "2026-01-03 00:00:00"},
        "2026-01-02",
        "2026-01-03",
    ),
    ({"s1": 1.0, "s2": 2.5, "s3": 3.0}, "2", "3"),
    ({"s1": 1, "s2": 2, "s3": 3}, "2", "3"),
]


@pytest.mark.parametrize(("moments", "since", "until"), MOMENTS)
def test_since_is_counted_and_until_is_not(
    moments: dict[str, Any], since: str, until: str, good: Rows, count: Count
) -> None:
    rows = timed(good, moments)
    counts, found = count(rows, LogOptions(since=since, until=until))
    assert as_rows(counts) == [("q1", "a", 1, 1, 1), ("q1", "c", 2, 1, 1)]
    assert only_finding(found).what.startswith("left out by --where, --since")
    assert (only_finding(found).number, only_finding(found).unit) == (5, "rows")
    assert found.summary["rows"] == 2


def test_moments_with_a_zone_are_compared_in_utc(good: Rows, count: Count) -> None:
    table = pa.Table.from_pylist(good)
    hours = [datetime(2026, 1, 1, 23)] * 3 + [datetime(2026, 1, 2, 1)] * 4
    zoned = pa.array(hours, pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    rows = table.append_column(
        "timestamp", zoned.cast(pa.timestamp("us", "Asia/Tokyo"))
    )
    counts, _ = count(rows, LogOptions(since="2026-01-02"))
    assert counts.n_sessions == 2


@pytest.mark.parametrize("moment", [None, "tomorrow"])
def test_rows_without_a_moment_are_faults_where_one_is_needed(
    moment: str | None, good: Rows, count: Count
) -> None:
    rows = timed(good, {"s1": moment, "s2": "2026-01-02", "s3": "2026-01-03"})
    count(rows)  # not needed here
    for options, settings in (
        (LogOptions(since="2026-01-01"), {}),
        (None, {"holdout": 0.5, "holdout_by": "time"}),
    ):
        with pytest.raises(LogFaultsError, match="timestamp is null"):
            count(rows, options, **settings)
        _, found = count(rows, options, bad_rows="drop", **settings)
        assert found.summary["dropped"] == {"sessions": 1, "rows": 3}


@pytest.mark.parametrize(
    ("moments", "since", "message"),
    [
        (MOMENTS[0][0], "soon", "a date.* got 'soon'"),
        (MOMENTS[2][0], "2026-01-01", "a number .*got '2026-01-01'"),
    ],
)
def test_a_moment_that_does_not_fit_the_log_is_rejected(
    moments: dict[str, Any], since: str, message: str, good: Rows, count: Count
) -> None:
    with pytest.raises(ConfigError, match=message):
        count(timed(good, moments), LogOptions(since=since))


@pytest.mark.parametrize(
    ("options", "settings", "message"),
    [
        ({"since": "2026-01-01"}, {}, "--since .*--column timestamp"),
        ({"max_sessions_per_user": 1}, {}, "per-user .*--column user_id"),
        ({}, {"holdout": 0.5, "holdout_by": "time"}, "time .*--column timestamp"),
    ],
)
def test_a_column_that_an_option_needs_is_named(
    options: Any, settings: Any, message: str, good: Rows, count: Count
) -> None:
    with pytest.raises(DataError, match=message):
        count(good, LogOptions(**options), **settings)


def test_a_user_counts_for_the_first_sessions_only(good: Rows, count: Count) -> None:
    moments = {"s1": "2026-01-03", "s2": "2026-01-01", "s3": "2026-01-02"}
    click_model = {"s1": "u", "s2": "u", "s3": None}
    rows = [{**row, "user_id": click_model[row["session_id"]]} for row in good]
    first, _ = count(rows, LogOptions(max_sessions_per_user=1))
    assert first.n_sessions == 2
    assert first.impressions.sum() == 3 + 2  # s1, and s3 of nobody
    earliest, found = count(timed(rows, moments), LogOptions(max_sessions_per_user=1))
    assert earliest.impressions.sum() == 2 + 2  # s2, and s3 of nobody
    assert only_finding(found).number == 3
    every, found = count(rows, LogOptions(max_sessions_per_user=2))
    assert every.n_sessions == 3
    assert found.report.findings == ()
    with pytest.raises(ConfigError, match=r"max_sessions_per_user .*got 0"):
        LogOptions(max_sessions_per_user=0)


def test_a_limit_per_user_does_not_hide_rows_without_a_session(
    good: Rows, count: Count
) -> None:
    rows = [{**row, "user_id": "u"} for row in good]
    rows[0]["session_id"] = None
    with pytest.raises(LogFaultsError, match="session_id is null"):
        count(rows, LogOptions(max_sessions_per_user=9))


@pytest.mark.parametrize("where", ["doc_id <> 'b'", "doc_id <> 'b' -- not this one"])
def test_a_condition_is_the_user_s_own_sql(
    where: str, good: Rows, count: Count
) -> None:
    counts, found = count(good, LogOptions(where=where))
    assert counts.impressions.sum() == 5
    assert found.report.findings[-1].what.startswith("left out by --where")
    assert found.report.findings[-1].number == 2


@pytest.mark.parametrize(
    "where", ["nope = 1", "doc_id =", "1) OR (", "", "doc_id = 'b'; DROP TABLE x"]
)
def test_a_broken_condition_is_one_sentence(
    where: str, good: Rows, count: Count
) -> None:
    with pytest.raises(DataError, match=r"^--where: the engine") as e:
        count(good, LogOptions(where=where))
    assert "\n" not in str(e.value)


def test_a_condition_that_leaves_nothing_is_rejected(good: Rows, count: Count) -> None:
    with pytest.raises(DataError, match="nothing to count"):
        count(good, LogOptions(where="false"))


def test_ranks_of_pages_become_ranks_of_the_list(good: Rows, count: Count) -> None:
    """A page has two results; s1 is a list of three, on two pages."""
    rows = [
        {**row, "rank": (row["rank"] - 1) % 2, "p": (row["rank"] - 1) // 2}
        for row in good
    ]
    plain: dict[str, Any] = {"ranks_from": 0, "page": "p", "page_size": 2}
    counts, found = count(rows, options=LogOptions(**plain, pages_from=0))
    assert as_rows(counts) == GOOD
    assert found.report.findings == ()
    second = [{**row, "p": row["p"] + 1} for row in rows]
    assert as_rows(count(second, options=LogOptions(**plain))[0]) == GOOD
    texts = [{**row, "p": str(2 * row["p"])} for row in rows]
    by_offset = LogOptions(ranks_from=0, offset="p")
    assert as_rows(count(texts, options=by_offset)[0]) == GOOD


@pytest.mark.parametrize(
    "change", [{"p": None}, {"p": -1}, {"p": "x"}, {"rank": 3}, {"p": 2**40}]
)
def test_pages_that_cannot_be_are_faults(
    change: dict[str, Any], good: Rows, count: Count
) -> None:
    texts = {"p": "1"} if isinstance(change.get("p"), str) else {"p": 1}
    rows = [{**row, **texts} for row in good if row["rank"] < 3]
    rows[0] = {**rows[0], **change}
    with pytest.raises(LogFaultsError, match=RANK):
        count(rows, options=LogOptions(page="p", page_size=2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"page": "p"}, "--page and --page-size are given together"),
        ({"page_size": 10}, "--page and --page-size are given together"),
        ({"page": "p", "page_size": 10, "offset": "o"}, "--page or --offset, not both"),
        ({"page": "p", "page_size": 10, "pages_from": 2}, "pages start at 0 or 1"),
    ],
)
def test_options_of_pages_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LogOptions(**options)


def test_a_page_column_that_is_not_there_is_said(good: Rows, count: Count) -> None:
    with pytest.raises(DataError, match="no column 'p' for --offset; it has session"):
        count(good, options=LogOptions(offset="p"))
