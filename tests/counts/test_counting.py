"""Counting: engines agree, hostile ids, splits, whole files, and mutated logs."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from affinerank.counts.counting import count_log, open_table
from affinerank.counts.counts import ClickCounts
from affinerank.engines.opening import engine_of
from affinerank.logs.options import LogOptions
from affinerank.logs.report import LogFaultsError
from affinerank.support.errors import AffineRankError, ConfigError, DataError

# Ibis asks DuckDB by a method that DuckDB has renamed.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
]

Rows = list[dict[str, Any]]
Count = Callable[..., Any]
Write = Callable[..., str]

HOSTILE = [
    "'; DROP TABLE log; --",
    "\"quoted\" 'and' `ticked`",
    "<script>alert(1)</script>",
    "[red]markup[/red]",
    "../../etc/passwd",
    "/dev/null",
    "C:\\path\\*.parquet",
    "naïve ☃ \U0001f600 e\u0301 \u202e",
    "é",
    "e\u0301",
    "tab\tnewline\nreturn\r",
    "null",
    "NaN",
    "007",
    " padded ",
    "%s {x} $1 ?",
    "x" * 5000,
    "",
]


def random_log(seed: int, n_sessions: int = 60) -> Rows:
    """Lists of several lengths, with gaps and late starts but no faults."""
    rng = random.Random(seed)
    rows = []
    for name in range(n_sessions):
        query = rng.randrange(4)
        documents = rng.sample(range(8), rng.randrange(1, 6))
        ranks = sorted(rng.sample(range(1, 9), len(documents)))
        for document, rank in zip(documents, ranks, strict=True):
            rows.append(
                {
                    "session_id": f"s{name}",
                    "query_id": f"q{query}",
                    "doc_id": f"d{document}",
                    "rank": rank,
                    "clicked": rng.random() < 0.4,
                    "ranker": rng.choice("AB") if name < 0 else "AB"[name % 2],
                    "device": ["phone", None][name % 3 == 0],
                    "timestamp": 1_000 + 10 * name,
                    "user_id": f"u{name % 7}",
                }
            )
    rng.shuffle(rows)
    return rows


def counted_by_loop(rows: Rows) -> ClickCounts:
    """Count a log without faults in the plainest way; repeats are merged."""
    clicked: dict[Any, bool] = defaultdict(bool)
    sessions = defaultdict(set)
    for row in rows:
        key = (row["session_id"], row["query_id"], row["doc_id"], row["rank"])
        clicked[key] |= bool(row["clicked"])
        sessions[row["query_id"]].add(row["session_id"])
    groups: dict[Any, list[bool]] = defaultdict(list)
    for (_, *key), click in clicked.items():
        groups[tuple(key)].append(click)
    return ClickCounts.from_columns(
        query_id=[key[0] for key in groups],
        doc_id=[key[1] for key in groups],
        rank=[key[2] for key in groups],
        impressions=[len(clicks) for clicks in groups.values()],
        clicks=[sum(clicks) for clicks in groups.values()],
        sessions=[len(sessions[key[0]]) for key in groups],
    )


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_a_plain_loop(seed: int, count: Count) -> None:
    rows = random_log(seed)
    rows += [{**row, "clicked": True} for row in rows[::7]]
    expected = counted_by_loop(rows)
    counts, _ = count(rows)
    assert counts.merged("ranker").equals(expected)


def test_a_file_of_counts_has_plain_types(
    good: Rows, write: Write, tmp_path: Path
) -> None:
    with open_table(write(good)) as table:
        count_log(table, tmp_path / "c.parquet", check=False)
    schema = pq.read_schema(tmp_path / "c.parquet")
    assert {name: str(schema.field(name).type) for name in schema.names} == {
        "query_id": "string",
        "doc_id": "string",
        **dict.fromkeys(["rank", "impressions", "clicks", "sessions"], "int64"),
    }


def test_values_of_clicks_and_buckets_of_users_are_counted(count: Count) -> None:
    rows = [
        {
            **row,
            "user_id": row["session_id"],
            "price": 2.0 + i if row["clicked"] else -1,
        }
        for i, row in enumerate(random_log(3))
    ]
    rows += rows[::7]  # repeats are counted once
    plain, _ = count(rows)
    options = LogOptions(value="price", user_buckets=10)
    counts, _ = count(rows, options)
    assert counts.keys == (*plain.keys, "user_bucket")
    merged = counts.merged("user_bucket")
    assert merged.table.select(plain.table.column_names).equals(plain.table)
    prices = {(r["session_id"], r["doc_id"]): r["price"] for r in rows if r["clicked"]}
    total = sum(prices.values())
    assert pc.sum(merged.table["value"]).as_py() == pytest.approx(total)
    squares = pc.sum(merged.table["value_squares"]).as_py()
    assert squares == pytest.approx(sum(price**2 for price in prices.values()))
    twice = counts + counts
    assert pc.sum(twice.table["value"]).as_py() == pytest.approx(2 * total)
    with pytest.raises(DataError, match=r"cannot be added to .* with values"):
        _ = plain + merged
    for price in ("much", "-1", None, "nan"):
        texts = [{**row, "price": str(row["price"])} for row in rows[: -len(rows) // 8]]
        clicked = next(row for row in texts if row["clicked"])
        clicked["price"] = price
        if price is None:  # nothing was joined to the click: it is worth 0
            assert count(texts, options)[0].clicks.sum()
            continue
        with pytest.raises(LogFaultsError, match="value of a click is not a number"):
            count(texts, options)


EVERYTHING = LogOptions(
    segment="device", where="rank < 8", since="1050", max_sessions_per_user=5
)


@pytest.mark.usefixtures("spark")
def test_three_engines_give_identical_counts(
    count: Count, write: Write, tmp_path: Path
) -> None:
    policies = ("swap", " Fixed", None)
    rows = [
        {**row, "price": 1.5 * i, "policy": policies[i % 3]}
        for i, row in enumerate(random_log(9))
    ]
    rows += [{**row, "clicked": True} for row in rows[:5]]  # repeats
    source = write(rows)
    with duckdb.connect(str(tmp_path / "logs.duckdb")) as connection:
        connection.read_parquet(source).create("clicks")
    for options, settings_ in (
        (LogOptions(), {}),
        (LogOptions(value="price", user_buckets=10), {}),
        (EVERYTHING, {"holdout": 0.4, "holdout_by": "time"}),
    ):
        ours, found = count(source, options, **settings_)
        on_spark, found_there = count(source, options, engine="spark", **settings_)
        url = f"duckdb:///{tmp_path}/logs.duckdb"
        in_table, _ = count(url, options, table="clicks", **settings_)
        assert ours.equals(on_spark)
        assert ours.equals(in_table)
        assert pc.sum(ours.table["randomised"]).as_py() > 0
        assert set(ours.ranker_times) == {"A", "B"}
        assert ours.ranker_times == on_spark.ranker_times == in_table.ranker_times
        names = [(f.what, f.number) for f in found.report.findings]
        assert names == [(f.what, f.number) for f in found_there.report.findings]
        assert len(names) >= 2


@pytest.mark.usefixtures("spark")
def test_spark_finds_the_same_faults_and_drops_the_same_sessions(
    count: Count, write: Write
) -> None:
    rows = [{**row, "clicked": int(row["clicked"])} for row in random_log(4)]
    rows[0]["clicked"] = 3
    rows[1]["session_id"] = None
    rows[2]["rank"] = 0
    rows.append({**rows[5], "doc_id": "other"})
    rows.append({**rows[9], "rank": 9_999})
    source = write(rows)
    reports = []
    for engine in ("duckdb", "spark"):
        with pytest.raises(LogFaultsError) as caught:
            count(source, engine=engine)
        reports.append([(f.what, f.number) for f in caught.value.report.faults])
    assert reports[0] == reports[1]
    assert len(reports[0]) == 5
    ours, found = count(source, bad_rows="drop")
    theirs, found_there = count(source, engine="spark", bad_rows="drop", holdout=0.3)
    assert theirs.merged("split").equals(ours)
    assert theirs.equals(ours.holdout(0.3))
    assert found.summary["dropped"] == found_there.summary["dropped"]
    assert found.summary["dropped"]["sessions"] >= 3


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
def test_spark_reads_text_files_as_duckdb_does(
    name: str, count: Count, tmp_path: Path
) -> None:
    ids = ["007", "2024-01-31", 'say "hi", you', "it's"]
    if name == "log.csv":
        quoted = ['"' + i.replace('"', '""') + '"' for i in ids]
        lines = ["session_id,query_id,doc_id,rank,clicked"]
        lines += [f"s,q,{i},{k},TRUE" for k, i in enumerate(quoted, start=1)]
    else:
        pattern = '{"session_id":1,"query_id":2,"doc_id":"%s","rank":%d,"clicked":1}'
        lines = [
            pattern % (i.replace('"', '\\"'), k) for k, i in enumerate(ids, start=1)
        ]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    ours, _ = count(str(tmp_path / name))
    theirs, _ = count(str(tmp_path / name), engine="spark")
    assert ours.equals(theirs)
    assert ours.table["doc_id"].to_pylist() == sorted(ids)


def test_a_log_that_does_not_fit_is_counted_in_parts_with_the_same_result(
    count: Count, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [{**row, "query_id": f"q{i % 9}"} for i, row in enumerate(random_log(5))]
    rows += [{**row, "clicked": True} for row in rows[:5]]
    source = write(rows)
    bad = write(
        [{**row, "rank": 0 if i == 7 else row["rank"]} for i, row in enumerate(rows)]
        + [{**rows[20], "doc_id": "other"}, {**rows[30], "rank": 99}],
        "bad.parquet",
    )

    def everything() -> Any:
        whole, found = count(source)
        held, _ = count(source, holdout=0.4)
        kept, dropped = count(bad, bad_rows="drop")
        summaries = [
            {k: v for k, v in each.summary.items() if k != "seconds"}
            for each in (found, dropped)
        ]
        findings = [
            [(f.what, f.number) for f in each.report.findings]
            for each in (found, dropped)
        ]
        return [c.table.to_pylist() for c in (whole, held, kept)], summaries, findings

    at_once = everything()
    # 4 GB for some 200 rows: five parts or so.
    monkeypatch.setattr("affinerank.engines.duckdb.BYTES_PER_GROUP", 1e8)
    with open_table(source) as table:
        engine = engine_of(table)
        assert len(engine.in_parts(table, "query_id", len(rows))) > 1
        assert len(engine.write_partitions(table, len(rows), tmp_path)) > 3
    assert everything() == at_once
    assert len(at_once[2][1]) >= 4


def test_a_table_that_does_not_fit_is_counted_in_parts_within_its_folder(
    count: Count, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A database may use no other files, and parts are files."""
    rows = [{**row, "query_id": f"q{i % 9}"} for i, row in enumerate(random_log(5))]
    with duckdb.connect(str(tmp_path / "db.duckdb")) as connection:
        connection.read_parquet(write(rows)).create("log")
    url = f"duckdb:///{tmp_path}/db.duckdb"
    at_once, found = count(write(rows))
    monkeypatch.setattr("affinerank.engines.duckdb.BYTES_PER_GROUP", 1e8)
    in_several, also_found = count(url, table="log")
    assert in_several.equals(at_once)
    names = found.summary.keys() - {"seconds"}
    assert {n: found.summary[n] for n in names} == {
        n: also_found.summary[n] for n in names
    }


def test_hostile_ids_come_through_unchanged(count: Count) -> None:
    rows = [
        {
            "session_id": f"{text}{i}",
            "query_id": text,
            "doc_id": text,
            "rank": 1,
            "clicked": i == 0,
            "ranker": text,
            "device": text,
        }
        for text in HOSTILE
        for i in range(2)
    ]
    counts, _ = count(rows, LogOptions(segment="device"), holdout=0.5)
    for name in ("query_id", "doc_id", "ranker", "segment"):
        assert sorted(counts.table[name].to_pylist()) == sorted(HOSTILE)
    assert counts.impressions.tolist() == [2] * len(HOSTILE)
    assert counts.clicks.tolist() == [1] * len(HOSTILE)


def test_hostile_ids_appear_in_examples_as_they_are(count: Count) -> None:
    rows = [
        {"session_id": text, "query_id": "q", "doc_id": text, "rank": 0, "clicked": 0}
        for text in HOSTILE
    ]
    with pytest.raises(LogFaultsError) as caught:
        count(rows)
    for example in caught.value.report.faults[0].examples:
        assert example["doc_id"] in HOSTILE


def test_holding_out_by_query_is_that_of_counts(count: Count) -> None:
    rows = [{**row, "query_id": f"q{i % 50}"} for i, row in enumerate(random_log(1))]
    whole, _ = count(rows)
    split, found = count(rows, holdout=0.3)
    assert split.equals(whole.holdout(0.3))
    assert found.summary["sessions"] == whole.n_sessions


def test_holding_out_by_time_takes_the_last_sessions_whole(count: Count) -> None:
    rows = random_log(2, n_sessions=100)
    counts, _ = count(rows, holdout=0.25, holdout_by="time")
    held = counts.select("split", "holdout").merged("ranker")
    late = [row for row in rows if row["timestamp"] >= 1_000 + 10 * 75]
    assert held.equals(counted_by_loop(late))
    early = [row for row in rows if row["timestamp"] < 1_000 + 10 * 75]
    kept = counts.select("split", "train").merged("ranker")
    assert kept.equals(counted_by_loop(early))


def test_a_session_that_goes_on_into_the_night_is_not_cut_in_two(count: Count) -> None:
    rows = [
        {
            "session_id": name,
            "query_id": "q",
            "doc_id": rank,
            "rank": rank,
            "clicked": 0,
            "timestamp": f"2026-01-0{name} 00:00:0{rank}",
        }
        for name in range(1, 5)
        for rank in (1, 2, 3)
    ]
    rows[0]["timestamp"] = "2026-01-01 00:00:00"
    rows[2]["timestamp"] = "2026-01-09 00:00:00"
    counts, _ = count(rows, holdout=0.5, holdout_by="time")
    assert counts.select("split", "holdout").impressions.tolist() == [2, 2, 2]


def test_moments_may_have_fractions_and_lie_far_ahead(count: Count) -> None:
    rows = [
        {
            "session_id": name,
            "query_id": "q",
            "doc_id": 1,
            "rank": 1,
            "clicked": 0,
            "timestamp": f"2040-01-01 00:00:0{name}.25",
        }
        for name in range(4)
    ]
    counts, _ = count(rows, holdout=0.5, holdout_by="time")
    assert counts.select("split", "holdout").impressions.tolist() == [2]


def test_sessions_of_one_moment_cannot_be_held_out_by_time(count: Count) -> None:
    rows = [{**row, "timestamp": 7} for row in random_log(3, 9)]
    with pytest.raises(DataError, match="different moments"):
        count(rows, holdout=0.2, holdout_by="time")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bad_rows": "ignore"}, "bad_rows .*got 'ignore'"),
        ({"holdout_by": "user"}, "holdout_by .*got 'user'"),
        ({"holdout_by": "time"}, "--holdout-by time .*--holdout-from"),
        ({"holdout": 1.0}, "share .*got 1"),
    ],
)
def test_wrong_settings_are_rejected(
    arguments: dict[str, Any], message: str, good: Rows, count: Count
) -> None:
    with pytest.raises(ConfigError, match=message):
        count(good, **arguments)


def opened(source: str, **settings_: Any) -> None:
    with open_table(source, **settings_):
        pass


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        ("log.parquet", {"engine": "flink"}, "duckdb or spark, got 'flink'"),
        ("log.parquet", {"memory": "lots"}, "--memory .*got 'lots'"),
        ("log.parquet", {"memory": "-1GB"}, "got '-1GB'"),
        ("log.parquet", {"memory": "0GB"}, "got '0GB'"),
        ("duckdb:///none.duckdb", {"table": "t"}, "none.duckdb: "),
        ("nothing://x", {"table": "t"}, "nothing://x: "),
        ("log.parquet", {"table": "t"}, "duckdb:///.*got 'log.parquet'"),
        (
            "postgres://me:secret@host/db",
            {"table": "t"},
            r"postgres://me:\*\*\*@host/db: ",
        ),
    ],
)
def test_what_cannot_be_opened_is_one_sentence(
    source: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(AffineRankError, match=message) as caught:
        opened(source, **arguments)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Path("none.duckdb").exists()


def test_a_database_is_only_read_and_its_tables_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "it's.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.sql("CREATE TABLE log AS SELECT 1 AS rank")
    url = f"duckdb:///{path}"
    with pytest.raises(DataError, match="no table 'clicks'; there are log"):
        opened(url, table="clicks")
    with open_table(url, table="log", memory="1GB") as table:
        kept = table.get_backend().raw_sql(
            "SELECT current_setting('memory_limit'), current_setting('access_mode')"
        )
        assert kept.fetchall() == [("400.5 MiB", "read_only")]


@pytest.mark.parametrize("url", ["duckdb:///x.duckdb", "duckdb://x.duckdb"])
def test_a_database_is_found_from_the_folder_one_is_in(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("x.duckdb") as connection:
        connection.sql("CREATE TABLE log AS SELECT 1 AS rank")
    with open_table(url, table="log") as table:
        assert table.count().to_pyarrow().as_py() == 1


def test_a_table_called_log_can_be_chosen_from(
    good: Rows, write: Write, count: Count, tmp_path: Path
) -> None:
    with duckdb.connect(str(tmp_path / "logs.duckdb")) as connection:
        connection.read_parquet(write(good)).create("log")
    url = f"duckdb:///{tmp_path}/logs.duckdb"
    counts, _ = count(url, LogOptions(where="rank = 1"), table="log")
    assert counts.impressions.sum() == 3


def test_too_little_memory_is_one_sentence(tmp_path: Path) -> None:
    source = tmp_path / "log.parquet"
    n = 300_000
    table = {
        "session_id": np.arange(n),
        "query_id": np.arange(n),
        "doc_id": np.arange(n),
        "rank": np.ones(n, dtype=int),
        "clicked": np.zeros(n, dtype=int),
    }
    pq.write_table(pa.table(table), source)
    with (
        pytest.raises(DataError, match="--memory"),
        open_table(str(source), memory="2MB") as log,
    ):
        count_log(log, tmp_path / "c.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


def test_the_target_is_untouched_by_a_failure(
    good: Rows, write: Write, tmp_path: Path
) -> None:
    target = tmp_path / "it's [1].parquet"
    with open_table(write(good)) as table:
        count_log(table, target)
    before = target.read_bytes()
    good[0]["rank"] = 0
    with (
        open_table(write(good, "bad.parquet")) as table,
        pytest.raises(LogFaultsError),
    ):
        count_log(table, target)
    assert target.read_bytes() == before
    with (
        open_table(write(good, "bad.parquet")) as table,
        pytest.raises(DataError, match="there is no folder"),
    ):
        count_log(table, tmp_path / "none" / "c.parquet", check=False)


KILLED = """
import sys
from pathlib import Path
from affinerank.counts import counting
from affinerank.counts.counting import count_log, open_table

def slow(*arguments):
    import time
    Path(sys.argv[2] + ".reached").touch()
    time.sleep(60)

# Stop where the result is written, whichever way.
counting.pq.read_metadata = slow
with open_table(sys.argv[1]) as table:
    count_log(table, sys.argv[2])
"""


def test_killing_it_while_it_counts_leaves_no_output(
    good: Rows, write: Write, tmp_path: Path
) -> None:
    source, target = write(good), tmp_path / "counts.parquet"
    process = subprocess.Popen([sys.executable, "-c", KILLED, source, str(target)])
    try:
        reached = Path(f"{target}.reached")
        for _ in range(600):
            if reached.exists():
                break
            time.sleep(0.05)
        assert reached.exists()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not target.exists()
    with open_table(source) as table:  # and nothing that is left stands in the way
        count_log(table, target)
    assert ClickCounts.load(target).n_sessions == 3


VALUES: dict[str, list[Any]] = {
    "session_id": [None, "s1", "", 7, 1.5, "x" * 300, b"\xff"],
    "query_id": [None, "q1", "'", 7, -1.5, True],
    "doc_id": [None, "d1", "d2", 7, 2**63],
    "rank": [None, 0, 1, 2, 3, -5, 10**9, 2**62, 1.5, "2", "two", "1e400", True],
    "clicked": [None, 0, 1, 2, True, "true", "yes", 0.5, -(2**40)],
}
MUTATION = st.one_of(
    st.tuples(
        st.just("set"),
        st.integers(0, 30),
        st.sampled_from(sorted(VALUES)).flatmap(
            lambda name: st.tuples(st.just(name), st.sampled_from(VALUES[name]))
        ),
    ),
    st.tuples(st.just("repeat"), st.integers(0, 30), st.none()),
    st.tuples(st.just("drop"), st.integers(0, 30), st.none()),
    st.tuples(st.just("forget"), st.integers(0, 4), st.none()),
    st.tuples(st.just("text"), st.integers(0, 4), st.none()),
)


def mutated(rows: Rows, mutations: list[Any], shuffle: random.Random) -> pa.Table:
    """Apply mutations; a column of several types becomes one of text."""
    rows = [dict(row) for row in rows]
    names = list(VALUES)
    for kind, place, what in mutations:
        row = rows[place % len(rows)] if rows else None
        if kind == "set" and row is not None:
            row[what[0]] = what[1]
        elif kind == "repeat" and row is not None:
            rows.append(dict(row))
        elif kind == "drop" and row is not None:
            rows.remove(row)
        elif kind == "text":
            for each in rows:
                value = each[names[place]]
                each[names[place]] = None if value is None else str(value)
    shuffle.shuffle(rows)
    forgotten = {names[p] for kind, p, _ in mutations if kind == "forget"}
    columns = {}
    for name in names:
        values = [row[name] for row in rows]
        try:
            column = pa.array(values)
        except (pa.ArrowException, OverflowError):
            column = pa.array([None if v is None else str(v) for v in values])
        if name not in forgotten:
            columns[name] = column
    return pa.table(columns)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    mutations=st.lists(MUTATION, max_size=5),
    shuffle=st.randoms(use_true_random=False),
    drop=st.booleans(),
)
def test_a_mutated_log_gives_clean_counts_or_an_error_of_the_package(
    mutations: list[Any], shuffle: random.Random, drop: bool, tmp_path: Path
) -> None:
    rows = [
        {name: row[name] for name in VALUES} for row in random_log(8, n_sessions=10)
    ]
    source, target = tmp_path / "log.parquet", tmp_path / "counts.parquet"
    pq.write_table(mutated(rows, mutations, shuffle), source)
    target.unlink(missing_ok=True)
    try:
        with open_table(str(source)) as table:
            found = count_log(table, target, bad_rows="drop" if drop else "error")
    except AffineRankError as error:
        rejected: AffineRankError | None = error
    else:
        rejected = None
    if rejected is not None:
        assert "\n" not in str(rejected)
        assert not target.exists()
        return
    counts = ClickCounts.load(target)  # which checks every rule of counts
    assert counts.summary() == {name: found.summary[name] for name in counts.summary()}
    dropped = found.summary["dropped"]["rows"]
    repeated = found.summary["rows"] - dropped - counts.impressions.sum()
    assert repeated >= 0


def test_a_list_id_takes_the_place_of_the_query(count: Count, good: Rows) -> None:
    counts, found = count(good, LogOptions(list_id="session_id"))
    expected, _ = count([{**row, "query_id": row["session_id"]} for row in good])
    assert counts.equals(expected)
    assert counts.sessions.tolist() == [1] * 7
    assert found.summary["queries"] == 3
    without = [{k: v for k, v in row.items() if k != "query_id"} for row in good]
    assert count(without, LogOptions(list_id="session_id"))[0].equals(expected)


def test_a_list_id_is_looked_up_under_its_name_in_the_log(
    count: Count, good: Rows
) -> None:
    renamed = [{**row, "sid": row["session_id"]} for row in good]
    for row in renamed:
        del row["session_id"]
    options = LogOptions(columns={"session_id": "sid"}, list_id="session_id")
    assert count(renamed, options)[0].table["query_id"].to_pylist()[-1] == "s3"
    with pytest.raises(DataError, match="no column 'request' for query_id"):
        count(good, LogOptions(list_id="request"))
    with pytest.raises(ConfigError, match=r"--list-id s .*'text'"):
        LogOptions(columns={"query_id": "text"}, list_id="s")


def test_what_began_at_a_moment_or_later_is_held_out(count: Count) -> None:
    rows = random_log(2, n_sessions=100)
    limit = 1_000 + 10 * 60
    counts, _ = count(rows, holdout_from=str(limit))
    for split, wanted in (("holdout", True), ("train", False)):
        part = [row for row in rows if (row["timestamp"] >= limit) == wanted]
        found = counts.select("split", split).merged("ranker")
        assert found.equals(counted_by_loop(part))


def test_a_date_holds_out_from_its_midnight_in_utc(count: Count, good: Rows) -> None:
    days = {"s1": "2026-01-30 23:59:59", "s2": "2026-01-31", "s3": "2026-02-01"}
    rows = [{**row, "timestamp": days[row["session_id"]]} for row in good]
    counts, _ = count(rows, holdout_from="2026-01-31")
    assert int(counts.select("split", "train").impressions.sum()) == 3
    assert int(counts.select("split", "holdout").impressions.sum()) == 4


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        ("99999", "99999: .*from then on"),
        ("5", "5: .*before"),
        ("soon", "--holdout-from .*number .*got 'soon'"),
    ],
)
def test_a_moment_that_splits_nothing_is_rejected(
    moment: str, message: str, count: Count
) -> None:
    with pytest.raises(AffineRankError, match=message):
        count(random_log(2, n_sessions=20), holdout_from=moment)


def test_a_share_and_a_moment_are_not_both_held_out(count: Count, good: Rows) -> None:
    with pytest.raises(ConfigError, match="not both"):
        count(good, holdout=0.2, holdout_from="5")


# Every class of fault, planted once in logs of three shapes: what is changed in a row
# of a session, or added to it, and what is reported.
Change = Callable[[dict[str, Any]], dict[str, Any]]
PLANTED: dict[str, tuple[bool, Change]] = {
    "session_id is null": (False, lambda row: {"session_id": None}),
    "query_id is null": (False, lambda row: {"query_id": None}),
    "doc_id is null": (False, lambda row: {"doc_id": None}),
    "rank is not a whole number": (False, lambda row: {"rank": -3}),
    "clicked is neither 0 nor 1": (False, lambda row: {"clicked": 2}),
    "doc_id is longer than": (False, lambda row: {"doc_id": "x" * 65_537}),
    "two documents at one rank": (True, lambda row: {"doc_id": "new"}),
    "one document at two ranks": (True, lambda row: {"rank": row["rank"] + 50}),
    "an impression is repeated": (True, lambda row: {}),
    "a list has gaps": (True, lambda row: {"rank": 99, "doc_id": "new"}),
    "a list starts deeper": (True, lambda row: {"session_id": -1, "rank": 2}),
    "a session has more than one query": (
        True,
        lambda row: {"query_id": "new", "doc_id": "new", "rank": 11},
    ),
}
SHAPES: dict[str, Callable[[int], int]] = {
    "new": lambda i: i,
    "head": lambda i: i % 2,
    "zipf": lambda i: int(400 ** ((i * 7919 % 400) / 400)),
}


def log_in_shape(shape: str) -> Rows:
    """400 sessions of ten documents; every query anew, two queries, or Zipf."""
    rng = random.Random(0)
    return [
        {
            "session_id": i,
            "query_id": f"q{SHAPES[shape](i)}",
            "doc_id": f"d{(rank + i) % 10}",
            "rank": rank,
            "clicked": int(rng.random() < 0.2),
        }
        for i in range(400)
        for rank in range(1, 11)
    ]


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_clean_log_is_seen_once_and_every_planted_fault_is_found(
    shape: str, parts: int, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    if parts > 1:
        monkeypatch.setattr("affinerank.engines.duckdb.BYTES_PER_GROUP", 3e6)
    clean = log_in_shape(shape)
    counts, found = count(clean)
    assert found.report.findings == ()
    assert found.report.plain
    assert counts.equals(counted_by_loop(clean))
    for what, (added, change) in PLANTED.items():
        row = clean[2345]
        changed = {**row, **change(row)}
        rows = [*clean, changed] if added else [*clean[:2345], changed, *clean[2346:]]
        counts, found = count(rows, bad_rows="drop")
        sessions = {row["session_id"] for row in rows} - {None}
        assert found.report.sessions == len(sessions), what
        [finding] = [f for f in found.report.findings if f.what.startswith(what)]
        assert finding.number == 1, what
        assert any(
            example["session_id"] == changed["session_id"]
            for example in finding.examples
        ), what
        if finding.fault:
            gone = {row["session_id"], changed["session_id"]}
            if None in gone:  # the row alone goes
                gone = {None}
            rows = [row for row in rows if row["session_id"] not in gone]
        assert counts.equals(counted_by_loop(rows)), what


def test_a_session_of_two_rankers_counts_for_both(count: Count) -> None:
    """The second has no impression at rank 1, so sessions are not those there."""
    row = {"session_id": "s", "query_id": "q", "clicked": 0}
    rows = [
        {**row, "doc_id": f"d{rank}", "rank": rank, "ranker": "ab"[rank == 3]}
        for rank in (1, 2, 3)
    ]
    counts, found = count(rows)
    assert not found.report.plain
    assert counts.sessions.tolist() == [1, 1, 1]


def test_of_many_documents_a_share_is_counted(
    count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {
            "session_id": i,
            "query_id": f"q{i % 200}",
            "doc_id": f"d{i % 2_000}",
            "rank": 1,
            "clicked": 0,
        }
        for i in range(4_000)
    ]
    assert count(rows)[1].summary["documents"] == 2_000
    monkeypatch.setattr("affinerank.counts.counting.DOCUMENTS_COUNTED", 500)
    found = count(rows)[1].summary["documents"]
    assert found % 10 == 0  # three digits
    assert abs(found - 2_000) < 5 * np.sqrt(3 * 2_000) + 5  # every fourth is counted


def test_a_fault_across_parts_is_found(
    count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of two queries, in different parts, with one rank twice."""
    monkeypatch.setattr("affinerank.engines.duckdb.BYTES_PER_GROUP", 3e6)
    rows = log_in_shape("new")
    rows += [{**rows[7], "query_id": f"other{i}", "doc_id": "x"} for i in range(9)]
    with pytest.raises(LogFaultsError, match="two documents at one rank"):
        count(rows)


def test_a_disk_that_is_too_small_is_one_sentence(
    count: Count, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("affinerank.engines.duckdb.BYTES_PER_GROUP", 3e6)
    room = type("Room", (), {"free": 1000})
    monkeypatch.setattr("affinerank.engines.duckdb.shutil.disk_usage", lambda _: room)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "spill"))
    (tmp_path / "spill").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(DataError, match=r"GB of disk in .*, which has 0\.0 GB.*TMPDIR"):
        count(log_in_shape("new"))
    assert not list((tmp_path / "spill").iterdir())
    assert not (tmp_path / "counted.parquet").exists()


def test_unchecked_sessions_are_the_impressions_at_rank_1(count: Count) -> None:
    rows = log_in_shape("zipf")
    counts, found = count(rows, check=False)
    assert found.report is None
    assert counts.equals(counted_by_loop(rows))
    late, _ = count([row for row in rows if row["rank"] > 1], check=False)
    most = dict.fromkeys(late.table["query_id"].to_pylist(), 0)
    for row in late.table.to_pylist():
        most[row["query_id"]] = max(most[row["query_id"]], row["impressions"])
    assert all(r["sessions"] == most[r["query_id"]] for r in late.table.to_pylist())
