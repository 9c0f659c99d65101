"""Importers: other systems' logs onto our columns, and what was found on the way."""

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from affinerank.cli import main
from affinerank.logs.importers.tiangong import ImportedLog, import_ubi, read_tiangong
from affinerank.support.errors import DataError
from affinerank.support.limits import LINE_BYTES

pytestmark = pytest.mark.slow

SEARCHES: list[dict[str, Any]] = [
    {
        "query_id": "e1",
        "user_query": "shoes",
        "query_response_hit_ids": ["d1", "d2", 3],
    },
    {"query_id": "e2", "user_query": "shoes", "query_response_hit_ids": ["d2"]},
    {"query_id": "e3", "user_query": "", "query_response_hit_ids": []},
    {"query_id": "e1", "user_query": "again", "query_response_hit_ids": ["d9"]},
]


def click(search: str, document: Any, action: str = "click") -> dict[str, Any]:
    return {
        "query_id": search,
        "action_name": action,
        "event_attributes": {"object": {"object_id": document}},
    }


def shown(document: Any) -> str:
    search = {"query_id": "x", "user_query": "y", "query_response_hit_ids": [document]}
    return json.dumps(search)


EVENTS: list[dict[str, Any]] = [
    click("e1", "d2"),
    click("e1", "d2"),
    click("e1", 3, "product_click"),
    {"action_name": "scroll"},
    click("e2", "d1"),
    click("e9", "d1"),
]


def lines(path: Path, rows: list[Any], *, wrapped: bool = False) -> Path:
    documents = [{"_index": "i", "_source": row} if wrapped else row for row in rows]
    path.write_text("\n".join(json.dumps(row) for row in documents) + "\n\n")
    return path


def read_ubi(queries: Path, events: Path, **how: Any) -> ImportedLog:
    target = queries.parent / "log.parquet"
    notes = import_ubi(queries, events, target, **how)
    table = pq.read_table(target)
    assert notes.pop("impressions") == table.num_rows
    return ImportedLog(table, notes)


@pytest.mark.parametrize("wrapped", [False, True])
def test_ubi_becomes_sessions_of_searches(wrapped: bool, tmp_path: Path) -> None:
    imported = read_ubi(
        lines(tmp_path / "queries.jsonl", SEARCHES, wrapped=wrapped),
        lines(tmp_path / "events.jsonl", EVENTS, wrapped=wrapped),
    )
    rows = [tuple(row.values()) for row in imported.table.to_pylist()]
    assert rows == [
        ("e1", "shoes", "d1", 1, False),
        ("e1", "shoes", "d2", 2, True),
        ("e1", "shoes", "3", 3, True),
        ("e2", "shoes", "d2", 1, False),
        ("e1/2", "again", "d9", 1, False),
    ]
    assert {name: times for name, times in imported.notes.items() if times} == {
        "sessions": 3,
        "searches": 4,
        "searches without results": 1,
        "other events": 1,
        "clicks": 5,
        "clicks on one impression again": 1,
        "clicks without an impression": 2,
        "clicks of searches without impressions": 1,
        "clicks on documents not shown": 1,
    }


def test_the_names_of_clicks_can_be_given(tmp_path: Path) -> None:
    imported = read_ubi(
        lines(tmp_path / "queries.jsonl", SEARCHES),
        lines(tmp_path / "events.jsonl", [click("e1", "d1", "buy"), *EVENTS]),
        click_actions=["buy"],
    )
    assert imported.notes["clicks"] == 1
    assert imported.table["clicked"].to_pylist() == [True] + 4 * [False]


def test_an_imported_log_can_be_counted(
    tmp_path: Path, count: Callable[..., Any]
) -> None:
    imported = read_ubi(
        lines(tmp_path / "queries.jsonl", SEARCHES),
        lines(tmp_path / "events.jsonl", EVENTS),
    )
    imported.save(tmp_path / "log.parquet")
    counts, found = count(str(tmp_path / "log.parquet"))
    assert found.report.findings == ()
    assert (counts.n_sessions, counts.clicks.sum()) == (3, 2)


def test_moments_and_users_of_ubi_come_along(tmp_path: Path) -> None:
    moments = ["2026-01-31T10:00:00+02:00", 1769846400000, None]
    searches = [
        {**row, "timestamp": at, "client_id": user}
        for row, at, user in zip(SEARCHES, moments, ["u1", 7, None], strict=False)
    ]
    table = read_ubi(
        lines(tmp_path / "queries.jsonl", searches),
        lines(tmp_path / "events.jsonl", EVENTS),
    ).table
    eight = datetime(2026, 1, 31, 8, tzinfo=UTC)
    assert set(table["timestamp"].to_pylist()) == {eight}
    assert table["user_id"].to_pylist() == ["u1", "u1", "u1", "7"]


def test_ubi_is_not_held_in_memory(tmp_path: Path) -> None:
    """Five times as many searches are no more memory, but for DuckDB's 100 MB."""
    peaks = []
    for size in (10_000, 50_000):
        with (tmp_path / "q.jsonl").open("w") as queries:
            for i in range(size):
                hits = [f"document-{i % 97}-{k}" for k in range(20)]
                row = {"query_id": f"s{i}", "user_query": f"q{i % 900}"}
                queries.write(json.dumps({**row, "query_response_hit_ids": hits}))
                queries.write("\n")
        with (tmp_path / "e.jsonl").open("w") as events:
            for i in range(size):
                events.write(json.dumps(click(f"s{i}", f"document-{i % 97}-{i % 20}")))
                events.write("\n")
        code = (
            "import sys, resource;"
            "from affinerank.logs.importers.ubi import import_ubi;"
            "found = import_ubi(*sys.argv[1:], memory='100MB');"
            "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
            "print(found['impressions'], found['clicks without an impression'], peak)"
        )
        paths = [str(tmp_path / name) for name in ("q.jsonl", "e.jsonl", "l.parquet")]
        command = [sys.executable, "-c", code, *paths]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        shown, unseen, peak = map(int, run.stdout.split())
        assert (shown, unseen) == (20 * size, 0)
        peaks.append(peak / 1024)
    assert peaks[1] < peaks[0] + 80  # MB; as Python objects it would be 200 more


def impression(
    search: Any, document: Any, position: Any, **more: Any
) -> dict[str, Any]:
    return {
        "query_id": search,
        "action_name": "impression",
        "event_attributes": {
            "object": {"object_id": document},
            "position": {"ordinal": position},
        },
        **more,
    }


def read_events(tmp_path: Path, searches: Any, events: Any) -> tuple[list[Any], Any]:
    """Import; return rows without moments and users, and what was found at all."""
    imported = read_ubi(
        lines(tmp_path / "queries.jsonl", searches),
        lines(tmp_path / "events.jsonl", events),
    )
    table = imported.table.select(["session_id", "query_id", "doc_id", "rank"])
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return rows, {name: times for name, times in imported.notes.items() if times}


def test_impressions_of_ubi_are_ranks_as_their_application_counts(
    tmp_path: Path,
) -> None:
    searches = [
        {"query_id": "from 0", "user_query": "shoes"},
        {"query_id": "from 1", "user_query": "hats"},
    ]
    events = [
        impression("from 0", "b", 1, application="old", user_query="shoes"),
        impression("from 0", "a", 0, application="old", user_query="shoes"),
        impression("from 1", "a", 1, application="new"),
        impression("from 1", "c", 4.0, application="new"),
        impression("from 1", "c", 4, application="new"),
        click("from 1", "c"),
    ]
    rows, notes = read_events(tmp_path, searches, events)
    assert rows == [
        ("from 0", "shoes", "a", 1),
        ("from 0", "shoes", "b", 2),
        ("from 1", "hats", "a", 1),
        ("from 1", "hats", "c", 4),
    ]
    assert notes["applications that count from 0"] == 1
    assert notes["impression events"] == 5
    assert notes["impression events seen twice"] == 1
    assert "clicks without an impression" not in notes


def test_results_of_ubi_tell_ranks_and_impressions_what_is_below(
    tmp_path: Path,
) -> None:
    hits = {"query_id": "s", "query_response_hit_ids": ["a", "b"]}
    facets = {"query_id": "s", "user_query": "shoes", "query_response_hit_ids": []}
    searches = [
        facets,
        {**hits, "user_query": "shoes"},
        facets,
        {**hits, "user_query": "shoes"},
        {**hits, "user_query": "shoes", "query_response_hit_ids": ["z"]},
    ]
    events = [
        impression("s", "b", 1),  # an application that reports what it likes
        impression("s", "c", 3),
        impression("s", "d", 5, user_query="shoes"),
    ]
    rows, notes = read_events(tmp_path, searches, events)
    assert rows == [
        ("s", "shoes", "a", 1),
        ("s", "shoes", "b", 2),
        ("s", "shoes", "c", 3),
        ("s", "shoes", "d", 5),
    ]
    assert notes["searches without results"] == 2
    assert notes["searches seen twice"] == 1
    assert notes["searches with other results"] == 1


def test_impressions_that_cannot_be_right_are_left_out_whole(tmp_path: Path) -> None:
    """Of a list that was not logged, we would know a part only."""
    searches = [
        {"query_id": "s", "user_query": "shoes", "query_response_hit_ids": ["a", "b"]}
    ]
    events = [
        # While the user typed, another list was there: c stands where b does.
        impression("s", "c", 2),
        impression("s", "d", 3),
        # Two documents at one position; one document at two.
        impression("t", "a", 1),
        impression("t", "b", 1),
        impression("t", "c", 2),
        impression("u", "a", 1),
        impression("u", "a", 2),
        click("t", "c"),
        click("s", "d"),
    ]
    rows, notes = read_events(tmp_path, searches, events)
    assert rows == [("s", "shoes", "a", 1), ("s", "shoes", "b", 2)]
    assert notes["impressions that contradict the results"] == 2
    assert notes["impressions that contradict each other"] == 5
    assert notes["clicks of searches without impressions"] == 1
    assert notes["clicks on documents not shown"] == 1


def test_a_search_of_ubi_that_nobody_named_is_a_query_of_its_own(
    tmp_path: Path,
) -> None:
    events = [
        impression("s1", "a", 1),
        impression("s2", "a", 1, user_query="shoes"),
        impression("s3", "a", 1, user_query=""),
        impression(None, "a", 1),
        impression("", "a", 1),
        impression("s1", None, 1),
        impression("s1", "b", None),
        {"action_name": "impression"},
    ]
    rows, notes = read_events(tmp_path, [], events)
    assert rows == [
        ("s1", "s1", "a", 1),
        ("s2", "shoes", "a", 1),
        ("s3", "", "a", 1),
    ]
    assert notes["sessions of unknown queries"] == 1
    assert notes["impression events without search, document or position"] == 5


def test_a_click_of_ubi_belongs_to_the_list_of_its_text_or_the_last(
    tmp_path: Path,
) -> None:
    searches = [
        {
            "query_id": "s",
            "user_query": text,
            "query_response_hit_ids": ["a", own],
            "timestamp": f"2026-01-31T10:0{minute}:00Z",
        }
        for text, own, minute in (("red", "r", 0), ("blue", "b", 2), ("gold", "g", 4))
    ]
    at = "2026-01-31T10:03:00Z"
    for event, session in (
        ({**click("s", "a"), "user_query": "red"}, "s"),
        ({**click("s", "a"), "timestamp": at}, "s/2"),
        (click("s", "a"), "s/3"),
        ({**click("s", "a"), "timestamp": "no moment"}, "s/3"),
        ({**click("s", "r"), "user_query": "gold", "timestamp": at}, "s"),
    ):
        table = read_ubi(
            lines(tmp_path / "queries.jsonl", searches),
            lines(tmp_path / "events.jsonl", [event]),
        ).table
        clicked = table.filter(table["clicked"])
        assert clicked["session_id"].to_pylist() == [session]


def sample_of_opensearch() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return searches and events of OpenSearch's own sample, a bulk file."""
    folder = Path(os.environ.get("AFFINERANK_DATA", "")) / "ubi"
    if "AFFINERANK_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("AFFINERANK_DATA names no folder with ubi")
    documents: dict[str, list[dict[str, Any]]] = {"ubi_queries": [], "ubi_events": []}
    with gzip.open(folder / "ubi_queries_events.ndjson.gz", "rt") as bulk:
        for line in bulk:
            row = json.loads(line)
            if set(row) == {"index"}:
                index = row["index"]["_index"]
            else:
                documents[index].append(row)
    return documents["ubi_queries"], documents["ubi_events"]


def read_plainly(
    searches: list[dict[str, Any]], events: list[dict[str, Any]]
) -> tuple[dict[tuple[str, str, str], tuple[int, bool]], dict[str, int]]:
    """Read UBI with dictionaries: rank and click by (search, text, document)."""
    ranks: dict[tuple[str, str, str], int] = {}
    texts: dict[str, set[str]] = {}
    for row in searches:
        key = (row["query_id"], row["user_query"])
        hits = row.get("query_response_hit_ids") or []
        if hits and not any(one[:2] == key for one in ranks):
            ranks |= {(*key, hit): rank for rank, hit in enumerate(hits, start=1)}
        texts.setdefault(key[0], set()).add(key[1])
    for search, logged in texts.items():
        listed = {text for known, text, _ in ranks if known == search}
        texts[search] = listed or logged

    # Documents that are in no results: by search and text.
    impressions = [event for event in events if event["action_name"] == "impression"]
    applications = {event["application"] for event in impressions}
    least = {
        name: min(
            event["event_attributes"]["position"]["ordinal"]
            for event in impressions
            if event["application"] == name
        )
        for name in applications
    }
    in_results = {(search, document) for search, _, document in ranks}
    others: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for event in impressions:
        search, attributes = event["query_id"], event["event_attributes"]
        document = attributes["object"]["object_id"]
        if (search, document) in in_results:
            continue
        only = (
            next(iter(texts.get(search, {""})))
            if len(texts.get(search, "")) == 1
            else ""
        )
        text = event.get("user_query") or only
        rank = (
            attributes["position"]["ordinal"] + 1 - min(least[event["application"]], 1)
        )
        others.setdefault((search, text), []).append((document, rank))
    for (search, text), pairs in others.items():
        taken = [k for (s, t, _), k in ranks.items() if (s, t) == (search, text)]
        all_ranks = taken + [rank for _, rank in set(pairs)]
        if len(all_ranks) == len(set(all_ranks)):
            ranks |= {(search, text, document): rank for document, rank in pairs}

    # Clicks: in this sample no document is in two lists of one search.
    clicked: Counter[tuple[str, str, str]] = Counter()
    notes = {"unknown search": 0, "not shown": 0}
    for event in events:
        if event["action_name"] not in ("click", "item_click"):
            continue
        pair = (event["query_id"], event["event_attributes"]["object"]["object_id"])
        places = [key for key in ranks if (key[0], key[2]) == pair]
        assert len(places) < 2
        if places:
            clicked[places[0]] += 1
        else:
            known = any(key[0] == pair[0] for key in ranks)
            notes["not shown" if known else "unknown search"] += 1
    notes["assigned"] = clicked.total()
    notes["again"] = clicked.total() - len(clicked)
    return {key: (rank, key in clicked) for key, rank in ranks.items()}, notes


def test_the_sample_of_opensearch_keeps_its_clicks(tmp_path: Path) -> None:
    searches, events = sample_of_opensearch()
    expected, notes = read_plainly(searches, events)
    imported = read_ubi(
        lines(tmp_path / "queries.jsonl", searches),
        lines(tmp_path / "events.jsonl", events),
    )
    rows = {
        (
            row["session_id"].split("/")[0],
            "" if row["query_id"] == row["session_id"] else row["query_id"],
            row["doc_id"],
        ): (row["rank"], row["clicked"])
        for row in imported.table.to_pylist()
    }
    assert len(rows) == imported.table.num_rows
    assert rows == expected
    found = imported.notes
    assert found["clicks"] == 298
    assert found["clicks"] - found["clicks without an impression"] == notes["assigned"]
    assert notes["assigned"] >= 285
    assert found["clicks on one impression again"] == notes["again"]
    assert found["clicks of searches without impressions"] == notes["unknown search"]
    assert found["clicks on documents not shown"] == notes["not shown"]


def test_a_bulk_file_holds_both_indices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search = {"query_id": "s", "user_query": "red", "query_response_hit_ids": ["a"]}
    rows: list[dict[str, Any]] = [
        {"index": {"_index": "ubi_queries", "_id": "1"}},
        search,
        {"create": {"_index": "ubi_events"}},
        click("s", "a"),
        {"index": {"_index": "products"}},
        {"name": "a red shoe"},
    ]
    bulk = lines(tmp_path / "bulk.ndjson", rows)
    both = read_ubi(bulk, bulk)
    apart = read_ubi(
        lines(tmp_path / "queries.jsonl", [search]),
        lines(tmp_path / "events.jsonl", [click("s", "a")]),
    )
    assert both.table.to_pylist() == apart.table.to_pylist()
    assert both.table["clicked"].to_pylist() == [True]
    assert both.notes == apart.notes

    # Headers may leave the index to the address that they are sent to.
    bare = [{"index": {}}, search]
    again = read_ubi(
        lines(tmp_path / "bare.ndjson", bare),
        lines(tmp_path / "hits.ndjson", [{"_index": "ubi_events", "_source": rows[3]}]),
    )
    assert again.table.to_pylist() == apart.table.to_pylist()

    # A bulk file without the index is not read as an empty one.
    other = str(lines(tmp_path / "other.ndjson", rows[2:]))
    words = ["--queries", other, "--events", str(bulk)]
    target = tmp_path / "none.parquet"
    assert main(["import", "ubi", *words, "-o", str(target)]) == 2
    said = capsys.readouterr().err
    assert "expected documents of index ubi_queries, got products, ubi_events" in said
    assert not target.exists()


def test_the_sample_of_opensearch_can_be_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    searches, events = sample_of_opensearch()
    files = {
        "--queries": lines(tmp_path / "queries.jsonl", searches),
        "--events": lines(tmp_path / "events.jsonl", events),
        "-o": tmp_path / "log.parquet",
    }
    words = [str(word) for pair in files.items() for word in pair]
    assert main(["import", "ubi", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    clicks = found["clicks"] - found["clicks without an impression"]
    counts = str(tmp_path / "counts.parquet")
    assert main(["count", str(tmp_path / "log.parquet"), "-o", counts, "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert counted["clicks"] == clicks - found["clicks on one impression again"]
    assert counted["impressions"] == found["impressions"]


def test_no_searches_are_an_empty_log(tmp_path: Path) -> None:
    empty = lines(tmp_path / "none.jsonl", [])
    assert read_ubi(empty, empty).table.num_rows == 0


@pytest.mark.parametrize(
    ("place", "text", "message"),
    [
        ("queries", "{", "line 2: expected one JSON object"),
        ("queries", "[1]", "line 2: expected one JSON object"),
        ("queries", '{"_source": 1}', "line 2: expected one JSON object"),
        ("queries", "[" * 50_000, "line 2: expected one JSON object"),
        ("queries", '{"user_query": "x"}', "line 2: .*query_id.*got None"),
        ("queries", '{"query_id": "x"}', "line 2: .*user_query.*got None"),
        (
            "queries",
            '{"query_id": "x", "user_query": "y", "query_response_hit_ids": "d1"}',
            "line 2: query_response_hit_ids",
        ),
        ("events", '{"action_name": "click"}', "line 2: .*query_id"),
        (
            "events",
            '{"action_name": "click", "query_id": "e1", "event_attributes": 7}',
            "line 2: .*event_attributes.object.object_id.*got None",
        ),
        (
            "events",
            json.dumps(click("e1", "")),
            "line 2: .*event_attributes.object.object_id.*got ''",
        ),
        ("events", json.dumps(click("e1", [1])), r"object_id.*got \[1\]"),
        ("events", json.dumps(click("e1", True)), "object_id.*got True"),
        ("events", json.dumps(click("e1", 1.5)), r"object_id.*got 1\.5"),
        ("events", json.dumps(click("e1", "x" * 10**7)), "object_id.*65536 characters"),
        ("events", json.dumps(click("e1", "\ud800")), r"object_id.*got '\\ud800'"),
        ("queries", shown("\udfff"), r"query_response_hit_ids.*got '\\udfff'"),
        ("queries", shown([1]), r"query_response_hit_ids.*got \[1\]"),
        ("queries", shown(None), "query_response_hit_ids.*got None"),
        ("queries", shown(False), "query_response_hit_ids.*got False"),
        ("queries", "x" * (LINE_BYTES + 1), f"line 2: over {LINE_BYTES} bytes"),
        (
            "queries",
            '{"query_id": "x", "user_query": "y", "timestamp": "noon"}',
            "line 2: expected timestamp.*got 'noon'",
        ),
        (
            "queries",
            '{"query_id": "x", "user_query": "y", "timestamp": 1e300}',
            "line 2: expected timestamp",
        ),
        ("queries", '{"query_id": ' * 10**5, "line 2: expected one JSON object"),
        *(
            ("events", json.dumps(impression("e1", "d1", position)), "ordinal.*got ")
            for position in (-1, 1.5, 10_001, "1", True, [1])
        ),
        ("events", json.dumps(impression("e1", [1], 1)), r"object_id.*got \[1\]"),
        ("events", json.dumps(impression([1], "d1", 1)), r"query_id.*got \[1\]"),
        (
            "events",
            json.dumps(impression("e1", "d1", 1, timestamp="noon")),
            "timestamp.*got 'noon'",
        ),
        (
            "events",
            json.dumps({**click("e1", "d1"), "user_query": 1.5}),
            "user_query.*got 1.5",
        ),
    ],
)
def test_a_malformed_line_of_ubi_is_named_by_file_and_line(
    place: str, text: str, message: str, tmp_path: Path
) -> None:
    files = {
        "queries": lines(tmp_path / "queries.jsonl", SEARCHES[:1]),
        "events": lines(tmp_path / "events.jsonl", EVENTS[:1]),
    }
    first = files[place].read_text().splitlines()[0]
    files[place].write_text(f"{first}\n{text}\n")
    with pytest.raises(DataError, match=message) as caught:
        read_ubi(files["queries"], files["events"])
    assert str(caught.value).startswith(f"{files[place]}, line 2: ")


def test_what_is_not_text_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"bad, line 1: .*UTF-8"):
        read_tiangong(tmp_path / "bad")
    with pytest.raises(DataError, match="there is no such file"):
        read_ubi(tmp_path / "none", tmp_path / "none")


def test_compressed_text_is_read_and_damage_is_an_error(tmp_path: Path) -> None:
    packed = gzip.compress(f"{PAGE}\n".encode())
    path = tmp_path / "pages.txt.gz"
    path.write_bytes(packed)
    assert read_tiangong(path).table.num_rows == 3
    for damaged in (packed[:-4], packed[:-8] + bytes(8), packed + b"more"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"pages.txt.gz: could not be read to its"):
            read_tiangong(path)


def test_a_name_that_is_no_text_may_hold_pages(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")
    Path(path).write_text(f"{PAGE}\n")
    assert read_tiangong(path).table["session_id"][0].as_py().endswith(":1:s1")


PAGE = "s1\tq7\t[11, 12, 13]\t[1, 1, 2]\t[0, 1, 0]"


def test_a_page_of_tiangong_becomes_a_session(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"{PAGE}\n\ns1\tq8\t[11]\t[1]\t[1]\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/a.txt").write_text(f"{PAGE}\n")
    imported = read_tiangong(tmp_path / "a.txt", tmp_path / "b/a.txt")
    rows = [tuple(row.values()) for row in imported.table.to_pylist()]
    assert rows[:4] == [
        ("1:a:1:s1", "q7", "11", 1, False),
        ("1:a:1:s1", "q7", "12", 2, True),
        ("1:a:1:s1", "q7", "13", 3, False),
        ("1:a:3:s1", "q8", "11", 1, True),
    ]
    assert imported.notes == {"result pages": 3}
    assert len(set(imported.table["session_id"].to_pylist())) == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("s1\tq7\t[11]\t[1]", "line 2: .*got 4 parts"),
        ("s\tq\t[1, 2]\t[1]\t[0]", r"2 documents, got '\[0\]'"),
        (
            "s\tq\t[1]\t[1]\t[2]",
            r"1 documents, got '\[2\]'",
        ),
        ("s\tq\t1, 2\t[1]\t[0]", r"documents .*got '1, 2'"),
        ("s\tq\t[1.5]\t[1]\t[0]", r"documents .*got '\[1.5\]'"),
        ("s\tq\t[1]\t[1]\t{}", "clicks .*got '{}'"),
        ("s\tq\t[1]\t[1]\t[true]", r"clicks .*got '\[true\]'"),
        ("s" * 65_536 + "\tq\t[1]\t[1]\t[0]", "session.*65536 characters"),
    ],
)
def test_a_malformed_page_is_named_by_file_and_line(
    line: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text(f"{PAGE}\n{line}\n")
    with pytest.raises(DataError, match=message) as caught:
        read_tiangong(tmp_path / "a.txt")
    assert str(caught.value).startswith(f"{tmp_path}/a.txt, line 2: ")


def test_the_real_pages_of_tiangong_have_the_known_click_rates(
    tmp_path: Path, count: Callable[..., Any]
) -> None:
    folder = Path(os.environ.get("AFFINERANK_DATA", "")) / "tiangong-st"
    if "AFFINERANK_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("AFFINERANK_DATA names no folder with tiangong-st")
    parts = ("train", "valid", "test")
    imported = read_tiangong(*(folder / f"{p}_per_query_quid.txt" for p in parts))
    assert imported.notes == {"result pages": 3596}
    imported.save(tmp_path / "log.parquet")
    counts, found = count(str(tmp_path / "log.parquet"), bad_rows="drop")
    assert found.summary["rows"] == imported.table.num_rows
    rank = imported.table["rank"].to_numpy()
    clicked = imported.table["clicked"].to_numpy()
    rates = [float(clicked[rank == k].mean()) for k in range(1, 11)]
    known = [0.136, 0.089, 0.064, 0.045, 0.033, 0.024, 0.020, 0.015, 0.013, 0.011]
    np.testing.assert_allclose(rates, known, atol=0.0006)
    kept = [row["rate"] for row in counts.click_rate_by_rank()]
    np.testing.assert_allclose(kept[:10], known, rtol=0.05)
