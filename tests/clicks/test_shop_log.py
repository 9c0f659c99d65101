"""The built-in shop's files: a month of searches, and the table of its products."""

from __future__ import annotations

import json
import math
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from affinerank.cli import main
from affinerank.counts.counts import ClickCounts
from affinerank.counts.movement import measure_movement
from affinerank.data.sources import DataSource

pytestmark = pytest.mark.slow

WORLD = "shop-like:40"
CLICKS = 4_000


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the shop's log and products, as CSV."""
    folder = tmp_path_factory.mktemp("shop")
    files = ["--log", str(folder / "log.csv"), "--features", str(folder / "table.csv")]
    assert main(["simulate", WORLD, *files]) == 0
    return folder


@pytest.fixture(scope="module")
def rows(shop: Path) -> list[dict[str, Any]]:
    table = pacsv.read_csv(shop / "log.csv")
    return [dict(row) for row in table.to_pylist()]


def by_session(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    sessions: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        sessions.setdefault(row["session_id"], []).append(row)
    return sessions


def test_a_session_is_one_search_of_two_pages(rows: list[dict[str, Any]]) -> None:
    for session in by_session(rows).values():
        for name in ("query", "user_id", "timestamp", "ranker"):
            assert len({row[name] for row in session}) == 1
        products = [row["product_id"] for row in session]
        assert len(set(products)) == len(products) <= 20
        # Positions begin anew on the second page.
        for place, row in enumerate(session):
            assert (row["page"], row["position"]) == (place // 10 + 1, place % 10 + 1)
            assert row["results_before"] == place // 10 * 10


def test_sessions_follow_in_time_and_the_ranker_changes_once(
    rows: list[dict[str, Any]],
) -> None:
    sessions = [session[0] for session in by_session(rows).values()]
    moments = [row["timestamp"] for row in sessions]
    assert moments == sorted(moments)
    days = {moment.date() for moment in moments}
    assert (min(days).isoformat(), max(days).isoformat()) == (
        "2026-03-01",
        "2026-03-30",
    )
    change = datetime.fromisoformat("2026-03-19T00:00:00+00:00")
    for row in sessions:
        late = row["timestamp"].replace(tzinfo=change.tzinfo) >= change
        assert row["ranker"] == ("v2" if late else "v1")
    # Two fifths of the month; five standard errors.
    share = sum(row["ranker"] == "v2" for row in sessions) / len(sessions)
    assert share == pytest.approx(0.4, abs=5 * (0.24 / len(sessions)) ** 0.5)


def test_what_was_bought_was_clicked_and_relevant_products_are_bought_more(
    rows: list[dict[str, Any]],
) -> None:
    data = DataSource.parse(WORLD).read("train")
    labels = data.known_labels()
    queries = data.query_ids[data.query_of_doc]
    label = dict(zip(zip(queries, data.doc_ids, strict=True), labels, strict=True))
    clicks, bought = Counter[bool](), Counter[bool]()
    for row in rows:
        assert row["purchased"] <= row["clicked"]
        is_relevant = bool(label[row["query"], row["product_id"]] > 2)
        clicks[is_relevant] += row["clicked"]
        bought[is_relevant] += row["purchased"]
    assert clicks.total() == pytest.approx(CLICKS, abs=5 * CLICKS**0.5)
    assert bought[True] / clicks[True] > 2 * bought[False] / clicks[False] > 0


def test_neighbours_are_swapped_in_a_tenth_of_the_lists(
    rows: list[dict[str, Any]],
) -> None:
    lists: dict[tuple[str, str], Counter[tuple[str, ...]]] = {}
    for session in by_session(rows).values():
        key = session[0]["query"], session[0]["ranker"]
        shown = tuple(row["product_id"] for row in session)
        lists.setdefault(key, Counter())[shown] += 1
    changed = sum(own.total() - own.most_common(1)[0][1] for own in lists.values())
    total = sum(own.total() for own in lists.values())
    assert changed / total == pytest.approx(0.1, abs=5 * (0.09 / total) ** 0.5)
    assert {row["policy"] for row in rows} == {"swap(share=0.1)"}


def test_the_table_has_every_product_shown_and_no_label(
    shop: Path, rows: list[dict[str, Any]]
) -> None:
    table = pacsv.read_csv(shop / "table.csv")
    data = DataSource.parse(WORLD).read("train")
    assert table.column_names == ["query", "product_id", *data.feature_names]
    pairs = set(
        zip(*(table[n].to_pylist() for n in table.column_names[:2]), strict=True)
    )
    assert len(pairs) == table.num_rows == data.n_docs
    assert {(row["query"], row["product_id"]) for row in rows} <= pairs
    # What the table says is what the world says, gaps and brands too.
    for place, name in enumerate(data.feature_names):
        values = table[name].to_pylist()
        for value, known in zip(values, data.features[:, place].tolist(), strict=True):
            if name in data.categories:
                assert value == data.categories[name][int(known)]
            elif value is None:
                assert math.isnan(known)
            else:
                assert value == pytest.approx(known, rel=1e-6)


def test_personal_lists_move_for_a_reason_that_the_log_does_not_have(
    tmp_path: Path,
) -> None:
    """Users keep their taste, so a user sees one of two lists of a ranker."""
    target = tmp_path / "log.parquet"
    assert main(["simulate", WORLD, "--log", str(target), "--personal", "1"]) == 0
    rows = pq.read_table(target).to_pylist()
    assert "policy" not in rows[0]
    top: dict[tuple[str, str], Counter[str]] = {}
    by_user: dict[tuple[str, str, str], set[str]] = {}
    for row in rows:
        if (row["page"], row["position"]) == (1, 1):
            key = row["query"], row["ranker"]
            top.setdefault(key, Counter())[row["product_id"]] += 1
            by_user.setdefault((*key, row["user_id"]), set()).add(row["product_id"])
    assert max(map(len, top.values())) == 2
    assert max(map(len, by_user.values())) == 1

    # The counts see that documents moved.
    counts = str(tmp_path / "counts.parquet")
    columns = ["--column", "query_id=query", "--column", "doc_id=product_id"]
    columns += ["--column", "rank=position", "--offset", "results_before"]
    assert main(["count", str(target), *columns, "-o", counts]) == 0
    assert measure_movement(ClickCounts.load(counts)).far.too_large


def test_parquet_has_the_same_rows(shop: Path, tmp_path: Path) -> None:
    target = tmp_path / "log.parquet"
    assert main(["simulate", WORLD, "--log", str(target)]) == 0
    table = pq.read_table(target)
    written = pacsv.read_csv(shop / "log.csv")
    assert table.column_names == written.column_names
    for name in set(table.column_names) - {"timestamp"}:
        assert table[name].to_pylist() == written[name].to_pylist()


def test_the_log_is_counted_by_naming_its_columns(
    shop: Path, rows: list[dict[str, Any]], tmp_path: Path, capsys: Any
) -> None:
    names = ("query_id=query", "doc_id=product_id", "rank=position")
    columns = [word for name in names for word in ("--column", name)]
    target = str(tmp_path / "counts.parquet")
    capsys.readouterr()
    command = ["count", str(shop / "log.csv"), *columns, "--offset", "results_before"]
    assert main([*command, "-o", target, "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["impressions"] == len(rows)
    assert about["clicks"] == sum(row["clicked"] for row in rows)
    assert about["ranks"] == 20
    assert about["dropped"] == {"sessions": 0, "rows": 0}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["yahoo-like:40", "--features", "table.csv"],
            "are of the shop",
        ),
        ([WORLD, "--log", "log.txt"], "must end in .parquet or .csv"),
        (
            ["yahoo-like:40", "--clicks", "9", "--log", "log.csv"],
            "must end in .parquet",
        ),
        (
            [WORLD, "--log", "log.csv", "--ranker", "production"],
            "--ranker does not fit",
        ),
        (
            [WORLD, "--log", "log.csv", "--ignore", "price"],
            "--ignore does not fit",
        ),
        (
            [WORLD, "--features", "t.csv", "--save-click-model", "click-model.json"],
            "--save-click-model does not fit",
        ),
        (
            [WORLD, "--counts", "c.parquet", "--clicks", "9", "--personal", "1"],
            "--personal does not fit",
        ),
        ([WORLD], "nothing to write"),
        ([WORLD, "--log", "log.csv", "--personal", "2"], "a share, from 0 to 1"),
        (
            [WORLD, "--log", "log.csv", "--clicks", "9", "--sessions", "9"],
            "either a number of clicks or a number of sessions",
        ),
    ],
)
def test_what_cannot_be_written_is_said(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", *words]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())
