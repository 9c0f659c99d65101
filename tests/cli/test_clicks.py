"""simulate, count and import, as a user meets them: JSON, messages, exit codes."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from affinerank.cli import main
from affinerank.clicks.models.files import load_click_model
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.counts import ClickCounts

# Ibis asks DuckDB by a method that DuckDB has renamed.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
]

Capture = pytest.CaptureFixture[str]
WORLD = "yahoo-like:40"
ROWS: list[dict[str, Any]] = [
    {"session_id": s, "query_id": q, "doc_id": d, "rank": k, "clicked": c}
    for s, q, d, k, c in (
        ("s1", "q1", "a", 1, 1),
        ("s1", "q1", "b", 2, 0),
        ("s2", "q1", "a", 1, 1),
        ("s3", "q2", "b", 1, 0),
    )
]


def log_at(path: Path, rows: list[dict[str, Any]] | None = None) -> str:
    pq.write_table(pa.Table.from_pylist(ROWS if rows is None else rows), path)
    return str(path)


def answered(capsys: Capture, *arguments: str) -> Any:
    status = main([*arguments, "--json"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    return json.loads(printed.out)


def refused(capsys: Capture, *arguments: str) -> str:
    """The one sentence that a command refuses with."""
    assert main(list(arguments)) == 2
    printed = capsys.readouterr()
    last = printed.err.splitlines()[-1]
    assert last.startswith("affinerank: ")
    assert "Traceback" not in printed.err
    return last


def test_count_answers_with_sizes_in_json(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "counts.parquet"
    source = log_at(tmp_path / "log.parquet")
    about = answered(capsys, "count", source, "-o", str(target))
    assert about.pop("seconds") > 0
    assert about == {
        "rows": 4,
        "sessions": 3,
        "queries": 2,
        "documents": 3,
        "ranks": 2,
        "impressions": 4,
        "clicks": 2,
        "groups": 3,
        "dropped": {"sessions": 0, "rows": 0},
        "findings": [],
        "written": str(target),
    }
    assert ClickCounts.load(target).n_sessions == 3


def test_count_prints_a_table_and_what_is_peculiar(
    tmp_path: Path, capsys: Capture
) -> None:
    rows = [ROWS[0], {**ROWS[1], "rank": 3, "doc_id": "[red]x"}, *ROWS[2:]]
    source = log_at(tmp_path / "log.parquet", rows)
    assert main(["count", source, "-o", str(tmp_path / "c.parquet")]) == 0
    printed = capsys.readouterr()
    assert "impressions" in printed.out
    assert "gaps" in printed.out
    assert printed.err == ""


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"session_id": None}, "session_id is null"),
    ({"query_id": None}, "query_id is null"),
    ({"doc_id": None}, "doc_id is null"),
    ({"rank": 0}, "rank is not a whole number from 1 to 10000"),
    ({"rank": 20_000}, "rank is not a whole number from 1 to 10000"),
    ({"clicked": 2}, "clicked is neither 0 nor 1"),
    ({"rank": 2, "doc_id": "z"}, "two documents at one rank of a session"),
    ({"rank": 2, "doc_id": "b", "session_id": "s2"}, ""),  # no fault
    ({"doc_id": "b"}, "one document at two ranks of a session"),
]


@pytest.mark.parametrize(("changed", "what"), FAULTS)
def test_every_fault_exits_with_two_a_table_and_no_output(
    changed: dict[str, Any], what: str, tmp_path: Path, capsys: Capture
) -> None:
    source = log_at(tmp_path / "log.parquet", [{**ROWS[0], **changed}, *ROWS[1:]])
    target = tmp_path / "c.parquet"
    if not what:
        answered(capsys, "count", source, "-o", str(target))
        return
    assert main(["count", source, "-o", str(target)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    last = printed.err.splitlines()[-1]
    assert last.startswith(f"affinerank: the log has faults: {what}")
    assert last.endswith("drop the sessions they are in (--bad-rows drop)")
    assert "for example" in printed.err
    assert not target.exists()
    about = answered(capsys, "count", source, "-o", str(target), "--bad-rows", "drop")
    assert about["dropped"]["rows"] >= 1
    assert about["impressions"] + about["dropped"]["rows"] == about["rows"] == 4


def test_what_a_log_holds_is_printed_plain(tmp_path: Path, capsys: Capture) -> None:
    rows = [{**ROWS[0], "doc_id": "[bold]\x1b[31m<b>", "rank": 0}]
    source = log_at(tmp_path / "log.parquet", rows)
    assert main(["count", source, "-o", str(tmp_path / "c.parquet")]) == 2
    printed = capsys.readouterr().err
    assert "\x1b" not in printed
    assert "[bold]" in "".join(printed.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.parquet"], "none.parquet: there is no such file"),
        ([], "give a LOG, or --from CONNECTION with --table NAME"),
        (["LOG", "--from", "duckdb:///x.duckdb", "--table", "t"], "give a LOG, or"),
        (["--from", "duckdb:///x.duckdb"], "give a LOG, or --from CONNECTION with"),
        (["--from", "duckdb:///x.duckdb", "--table", "t"], "there is no such file"),
        (["LOG", "--column", "rank"], "--column: expected KEY=VALUE, got 'rank'"),
        (["LOG", "--column", "rang=rank"], "there is no column 'rang' to map"),
        (["LOG", "--column", "rank=rang"], "the log has no column 'rang' for rank"),
        (["LOG", "--ranks-from", "2"], "ranks start at 0 or 1, got 2"),
        (["LOG", "--bad-rows", "keep"], "bad_rows must be error or drop, got 'keep'"),
        (["LOG", "--engine", "flink"], "engine must be duckdb or spark"),
        (["LOG", "--where", "rank <"], "--where: the engine could not read it"),
        (["LOG", "--segment", "device"], "no column 'device' for segment"),
        (["LOG", "--since", "2026-01-01"], "--since and --until need a timestamp"),
        (["LOG", "--value", "price"], "no column 'price' for value"),
        (["LOG", "--user-buckets", "100"], "--user-buckets needs a user_id; name its"),
        (["LOG", "--user-buckets", "2"], "greater than or equal to 10"),
        (["LOG", "--max-sessions-per-user", "2"], "needs a user_id; name its column"),
        (["LOG", "--max-sessions-per-user", "0"], "greater than or equal to 1"),
        (["LOG", "--holdout", "1.5"], "must be between 0 and 1, got 1.5"),
        (["LOG", "--holdout", "0.2", "--holdout-by", "time"], "needs a timestamp"),
        (["LOG", "--holdout-by", "user"], "holdout_by must be query or time"),
        (["LOG", "--memory", "much"], "--memory takes an amount as in 4GB"),
        (["LOG", "--memory", "9" * 20 + "TB"], "--memory takes an amount"),
        (["LOG", "-o", "log.parquet"], "log.parquet: would replace what is read"),
        (["*.parquet", "-o", "log.parquet"], "would replace what is read"),
        (["LOG", "--engine", "spark", "--hive"], "--hive is for Parquet files"),
        (["LOG", "--where", "false"], "there is nothing to count"),
        (["LOG", "-o", "counts.csv"], "must end in .parquet"),
        (["LOG", "-o", "none/counts.parquet"], "there is no folder none"),
    ],
)
def test_wrong_ways_to_count_are_one_sentence_and_no_output(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    source = log_at(tmp_path / "log.parquet")
    given = [source if text == "LOG" else text for text in arguments]
    assert message in refused(capsys, "count", *given)
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


def test_count_takes_every_option_at_once(tmp_path: Path, capsys: Capture) -> None:
    rows = [
        {
            "session_id": row["session_id"],
            "query_id": row["query_id"],
            "doc_id": row["doc_id"],
            "position": row["rank"] - 1,
            "clicked": row["clicked"],
            "device": "phone",
            "who": "u",
            "when": f"2026-01-0{row['session_id'][1]}",
        }
        for row in ROWS
    ]
    target = tmp_path / "c.parquet"
    about = answered(
        capsys,
        *("count", log_at(tmp_path / "log.parquet", rows), "-o", str(target)),
        *("--column", "rank=position", "--ranks-from", "0"),
        *("--column", "timestamp=when", "--column", "user_id=who"),
        *("--where", "doc_id <> 'zzz'", "--segment", "device"),
        *("--since", "2026-01-01", "--until", "2026-01-03"),
        *("--max-sessions-per-user", "5", "--memory", "500MB"),
        *("--holdout", "0.5", "--holdout-by", "time"),
    )
    assert about["sessions"] == 2
    [finding] = about["findings"]
    assert (finding["number"], finding["unit"], finding["fault"]) == (1, "rows", False)
    counts = ClickCounts.load(target)
    assert counts.keys == ("query_id", "doc_id", "rank", "segment", "split")


def test_folders_are_columns_if_hive_says_so(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "ranker=A").mkdir()
    log_at(tmp_path / "ranker=A/log.parquet")
    target = str(tmp_path / "c.parquet")
    given = ["count", str(tmp_path / "ranker=A"), "-o", target]
    answered(capsys, *given)
    assert "ranker" not in ClickCounts.load(target).keys
    answered(capsys, *given, "--hive")
    assert ClickCounts.load(target).select("ranker", "A").n_sessions > 0


def test_a_table_of_a_connection_is_counted(tmp_path: Path, capsys: Capture) -> None:
    source = log_at(tmp_path / "log.parquet")
    with duckdb.connect(str(tmp_path / "db.duckdb")) as connection:
        connection.read_parquet(source).create("clicks")
    url = f"duckdb:///{tmp_path}/db.duckdb"
    target = str(tmp_path / "c.parquet")
    about = answered(capsys, "count", "--from", url, "--table", "clicks", "-o", target)
    assert about["rows"] == 4
    said = refused(capsys, "count", "--from", url, "--table", "click", "-o", target)
    assert "there is no table 'click'; there are clicks" in said


@pytest.mark.parametrize(
    "source",
    [
        "read_text('{folder}/secret.txt')",
        "(SELECT file AS content FROM glob('{folder}/*.txt'))",
        "(SELECT doc AS content FROM '{folder}/secret.parquet')",
        "(SELECT a AS content FROM read_csv('{folder}/secret.txt', names = ['a']))",
    ],
)
@pytest.mark.parametrize("scheme", ["duckdb", "DuckDB"])
def test_a_view_of_a_database_reads_no_other_file(
    source: str, scheme: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "secret.txt").write_text("the password")
    secret = pa.table({"doc": ["the password"]})
    pq.write_table(secret, tmp_path / "secret.parquet")
    database = tmp_path / "t.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.sql(
            "CREATE VIEW evil AS SELECT 's' AS session_id, content AS query_id, "  # noqa: S608
            "'d' AS doc_id, 1 AS rank, 1 AS clicked, 2.5 AS price "
            f"FROM {source.format(folder=tmp_path)}"
        )
    before = sorted(path.name for path in tmp_path.iterdir())
    url = f"{scheme}://{database}"
    out = ["-o", str(tmp_path / "c.parquet")]
    where = ["--where", "query_id = 'the password'"]
    for words in (
        ["count", "--from", url, "--table", "evil", *out],
        ["count", "--from", url, "--table", "evil", *where, *out],
    ):
        said = refused(capsys, *words)
        assert str(database) in said
        assert "may not read other files" in said
        assert "password" not in said
    if scheme == "duckdb":
        said = refused(capsys, "data", "describe", f"{url}#evil")
        assert "may not read other files" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_condition_reads_no_file_through_a_database(
    tmp_path: Path, capsys: Capture
) -> None:
    source = log_at(tmp_path / "log.parquet")
    with duckdb.connect(str(tmp_path / "db.duckdb")) as connection:
        connection.read_parquet(source).create("clicks")
    place = ["--from", f"duckdb:///{tmp_path}/db.duckdb", "--table", "clicks"]
    out = ["-o", str(tmp_path / "c.parquet")]
    condition = f"query_id IN (SELECT query_id FROM '{source}')"  # noqa: S608
    said = refused(capsys, "count", *place, "--where", condition, *out)
    assert "may not read other files" in said


def test_a_view_of_tables_is_counted_as_its_rows_are(
    tmp_path: Path, capsys: Capture
) -> None:
    source = log_at(tmp_path / "log.parquet")
    with duckdb.connect(str(tmp_path / "db.duckdb")) as connection:
        connection.read_parquet(source).create("clicks")
        connection.sql("CREATE VIEW seen AS SELECT * FROM clicks")
    place = ["--from", f"duckdb:///{tmp_path}/db.duckdb", "--table", "seen"]
    counts = []
    for i, given in enumerate(([source], place)):
        for more in ([], ["--holdout", "0.5"]):
            target = tmp_path / f"{i}{len(more)}.parquet"
            answered(capsys, "count", *given, *more, "-o", str(target))
            counts.append(ClickCounts.load(target))
    assert counts[0].equals(counts[2])
    assert counts[1].equals(counts[3])


@pytest.mark.parametrize("slashes", ["", "/"])
def test_a_database_that_is_not_there_is_not_made(
    slashes: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"sqlite://{tmp_path}/nope.db" if slashes else "sqlite://nope.db"
    said = refused(capsys, "count", "--from", url, "--table", "t")
    assert f"{url}: there is no such file" in said
    said = refused(capsys, "data", "describe", f"{url}#t")
    assert "nope.db" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite"])
def test_a_database_that_is_read_is_not_written(
    scheme: str, tmp_path: Path, capsys: Capture
) -> None:
    database = tmp_path / "shop.db"
    database.write_text("all that there is")
    counts = tmp_path / "counts.parquet"
    source = log_at(tmp_path / "log.parquet")
    answered(capsys, "count", source, "-o", str(counts))
    url, out = f"{scheme}://{database}", ["-o", str(database)]
    said = refused(capsys, "estimate", str(counts), "--data", f"{url}#t", *out)
    assert f"{database}: would replace what is read" in said
    clicks = database.rename(tmp_path / "shop.parquet")
    said = refused(
        *(capsys, "count", "--from", f"{scheme}://{clicks}", "--table", "t"),
        *("-o", str(clicks)),
    )
    assert f"{clicks}: would replace what is read" in said
    assert clicks.read_text() == "all that there is"


def test_a_database_without_a_scheme_of_its_own_is_refused(
    tmp_path: Path, capsys: Capture
) -> None:
    """Ibis would open it without our limits, and to be written."""
    with duckdb.connect(str(tmp_path / "db.duckdb")) as connection:
        connection.sql("CREATE TABLE t AS SELECT 1 AS rank")
    url = f"file://{tmp_path}/db.duckdb"
    said = refused(capsys, "count", "--from", url, "--table", "t")
    assert "expected a URL as in duckdb:///clicks.duckdb" in said


# simulate


def test_the_same_seed_simulates_the_same_counts(
    tmp_path: Path, capsys: Capture
) -> None:
    drawn = []
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        target = tmp_path / f"{name}.parquet"
        about = answered(
            capsys,
            *("simulate", WORLD, "--clicks", "1e4", "--counts", str(target)),
            *("--seed", seed, "--top-k", "10", "--queries", "zipf:1"),
        )
        assert abs(about["clicks"] - 10_000) < 5 * (10 * 10_000) ** 0.5
        assert about["written"] == {"counts": str(target)}
        drawn.append(ClickCounts.load(target))
    assert drawn[0].equals(drawn[1])
    assert not drawn[0].equals(drawn[2])


def test_a_log_and_its_counts_are_of_the_same_sessions(
    tmp_path: Path, capsys: Capture
) -> None:
    log, counts = tmp_path / "log.parquet", tmp_path / "counts.parquet"
    about = answered(
        capsys,
        *("simulate", WORLD, "--sessions", "500", "--log", str(log)),
        *(
            "--counts",
            str(counts),
            "--policy",
            "swap(share=0.3)",
            "--policy",
            "rotate(share=0.2)",
        ),
        *("--ranker", "production=3", "--ranker", "production:1=1"),
    )
    again = tmp_path / "again.parquet"
    recounted = answered(capsys, "count", str(log), "-o", str(again))
    assert recounted["findings"] == []
    assert recounted["sessions"] == about["sessions"] == 500
    assert recounted["clicks"] == about["clicks"]
    assert ClickCounts.load(counts).equals(ClickCounts.load(again))
    assert "ranker" in ClickCounts.load(counts).keys


def test_users_go_in_and_out(tmp_path: Path, capsys: Capture) -> None:
    given, saved = tmp_path / "in.json", tmp_path / "out.json"
    TrustModel.position_bias([1.0, 0.0]).save(given)
    target = str(tmp_path / "c.parquet")
    about = answered(
        capsys,
        *("simulate", WORLD, "--sessions", "200", "--counts", target, "--top-k", "2"),
        *("--click-model", str(given), "--save-click-model", str(saved)),
    )
    assert about["written"] == {"counts": target, "click_model": str(saved)}
    assert load_click_model(saved).to_dict() == load_click_model(given).to_dict()
    assert ClickCounts.load(target).click_rate_by_rank()[1]["clicks"] == 0


def test_the_paper_s_users_are_saved_with_their_settings(
    tmp_path: Path, capsys: Capture
) -> None:
    saved = tmp_path / "out.json"
    target = str(tmp_path / "c.parquet")
    answered(
        capsys,
        *("simulate", WORLD, "--sessions", "9", "--counts", target),
        *(
            "--click-model",
            "trust(eta=2, eps_minus_1=0.35)",
            "--save-click-model",
            str(saved),
        ),
    )
    click_model = load_click_model(saved)
    assert click_model.theta[1] == pytest.approx((1 / 2) ** 2)
    assert click_model.eps_minus[1] == pytest.approx(0.35 / 2)


def test_users_of_fewer_ranks_are_one_note(tmp_path: Path, capsys: Capture) -> None:
    TrustModel.paper(depth=2).save(tmp_path / "in.json")
    arguments = [
        "simulate",
        WORLD,
        "--clicks",
        "100",
        "--json",
        "--policy",
        "swap(share=0.5)",
    ]
    arguments += ["--log", str(tmp_path / "l.parquet")]
    assert main([*arguments, "--click-model", str(tmp_path / "in.json")]) == 0
    printed = capsys.readouterr().err
    assert printed.startswith("note: the click model ends at rank 2; deeper ranks")
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clicks", "10"], "nothing to write: give --log FILE, --counts FILE"),
        (["--counts", "c.parquet"], "either a number of clicks or a number of sessio"),
        (["--clicks", "9", "--sessions", "9", "--counts", "c.parquet"], "give either"),
        (["--clicks", "many", "--counts", "c.parquet"], "Invalid value for '--clicks'"),
        (["--clicks", "0", "--counts", "c.parquet"], "clicks must be above 0"),
        (["--clicks", "inf", "--counts", "c.parquet"], "at most 10^15, got inf"),
        (["--sessions", "1.5", "--counts", "c.parquet"], "must be a whole number"),
        (["--sessions", "-1", "--counts", "c.parquet"], "sessions must be 1 or more"),
        (["--sessions", "9", "--counts", "c.csv"], "must end in .parquet"),
        (["--sessions", "9", "--log", "no/l.parquet"], "there is no folder no"),
        (
            ["--sessions", "9", "--counts", "c.parquet", "--click-model", "none.json"],
            "none.json: there is no such file",
        ),
        (
            ["--sessions", "9", "--counts", "c.parquet", "--queries", "zipf"],
            "queries must be uniform or zipf:s",
        ),
        (
            ["--sessions", "9", "--counts", "c.parquet", "--policy", "swap(share=2)"],
            "share of sessions must be from 0 to 1, got 2",
        ),
        (
            ["--sessions", "9", "--counts", "c.parquet", "--relevance", "odd"],
            "relevance must be binary or graded, got 'odd'",
        ),
        (
            [
                "--sessions",
                "9",
                "--counts",
                "c.parquet",
                "--click-model",
                "trust(eps_minus_1=2)",
            ],
            "eps_minus_1 must be from 0 to 1, got 2",
        ),
        (
            ["--sessions", "9", "--counts", "c.parquet", "--ranker", "production=x"],
            "a share is a number, got 'production=x'",
        ),
    ],
)
def test_wrong_ways_to_simulate_are_one_sentence_and_no_output(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, "simulate", WORLD, *arguments)
    assert list(tmp_path.iterdir()) == []


# import


def test_ubi_and_tiangong_are_imported(tmp_path: Path, capsys: Capture) -> None:
    queries, events = tmp_path / "q.jsonl", tmp_path / "e.jsonl"
    queries.write_text(
        '{"query_id": "e1", "user_query": "x", "query_response_hit_ids": ["a", "b"]}\n'
    )
    events.write_text(
        '{"query_id": "e1", "action_name": "click", '
        '"event_attributes": {"object": {"object_id": "b"}}}\n'
    )
    pages = tmp_path / "pages.txt"
    pages.write_text("s\tq\t[1, 2]\t[0, 0]\t[0, 1]\n")
    target = str(tmp_path / "log.parquet")
    ubi = ("import", "ubi", "--queries", str(queries), "--events", str(events))
    for arguments in (ubi, ("import", "tiangong", str(pages))):
        about = answered(capsys, *arguments, "-o", target)
        assert about["impressions"] == 2
        counted = answered(capsys, "count", target, "-o", str(tmp_path / "c.parquet"))
        assert counted["clicks"] == 1
    pages.write_text("s\tq\n")
    other = str(tmp_path / "other.parquet")
    said = refused(capsys, "import", "tiangong", str(pages), "-o", other)
    assert "pages.txt, line 1: expected session" in said
    queries.write_text("{")
    assert "q.jsonl, line 1: expected one JSON" in refused(capsys, *ubi, "-o", other)
    assert not Path(other).exists()
