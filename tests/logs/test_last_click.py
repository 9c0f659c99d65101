"""The last click above, as a key of counts: counted, added up, and tested for."""

from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import affinerank as ar
from affinerank.counts.counting import count_log, open_table
from affinerank.logs.last_click import with_context
from affinerank.support.errors import ConfigError, DataError

pytestmark = pytest.mark.slow


def counted(path: Path, rows: dict[str, Any], **how: Any) -> tuple[ar.ClickCounts, Any]:
    pq.write_table(pa.table(rows), path / "log.parquet")
    with open_table(str(path / "log.parquet")) as table:
        found = count_log(table, path / "counts.parquet", **how)
    return ar.ClickCounts.load(path / "counts.parquet"), found


def log_of(clicks: list[list[int]]) -> dict[str, Any]:
    """One query, documents 10, 20, ... at ranks 1, 2, ...; a list of clicks each."""
    n = len(clicks[0])
    return {
        "session_id": np.repeat(np.arange(len(clicks)), n),
        "query_id": np.zeros(len(clicks) * n, dtype=int),
        "doc_id": np.tile(10 * np.arange(1, n + 1), len(clicks)),
        "rank": np.tile(np.arange(1, n + 1), len(clicks)),
        "clicked": np.concatenate(clicks),
    }


def test_a_row_is_counted_by_the_rank_of_the_last_click_above(tmp_path: Path) -> None:
    log = log_of([[1, 0, 1, 0], [0, 0, 0, 1], [1, 0, 1, 1], [0, 1, 0, 0]])
    counts, _ = counted(tmp_path, log, context="last-click")
    found = {
        (row["rank"], row["context"]): (row["impressions"], row["clicks"])
        for row in counts.table.to_pylist()
    }
    assert found == {
        (1, 0): (4, 2),
        (2, 0): (2, 1),
        (2, 1): (2, 0),
        (3, 0): (1, 0),
        (3, 1): (2, 2),
        (3, 2): (1, 0),
        (4, 0): (1, 1),
        (4, 2): (1, 0),
        (4, 3): (2, 1),
    }


@pytest.mark.parametrize("length", [63, 64, 126])
def test_bits_of_a_session_find_the_same_click_as_its_order(
    length: int, tmp_path: Path
) -> None:
    # Unchecked, sessions are not known to be plain, and are sorted.
    rng = np.random.default_rng(0)
    clicks = (rng.random((300, length)) < rng.random((300, 1)) ** 2).astype(int)
    clicks[:3] = 1  # where the logarithm of many bits is rounded up
    log = log_of(clicks.tolist())
    by_bits, found = counted(tmp_path, log, context="last-click")
    assert found.report.plain
    sorted_, _ = counted(tmp_path, log, context="last-click", check=False)
    names = ["rank", "context", "impressions", "clicks"]
    one, other = (
        each.table.select(names).sort_by([(name, "ascending") for name in names])
        for each in (by_bits, sorted_)
    )
    assert one.equals(other)
    assert max(by_bits.column("context").to_pylist()) == length - 1


def test_bits_are_what_plain_sessions_are_looked_up_in(tmp_path: Path) -> None:
    pq.write_table(pa.table(log_of([[1, 0, 1, 0]])), tmp_path / "log.parquet")
    with open_table(str(tmp_path / "log.parquet")) as log:
        assert "OVER" in ibis.to_sql(with_context(log))
        by_bits = with_context(log, plain=True)
        assert "OVER" not in ibis.to_sql(by_bits)
        found = by_bits.to_pyarrow().sort_by("rank")
    assert found["context"].to_pylist() == [0, 1, 1, 3]


def test_rows_in_any_order_repeated_and_of_two_queries_at_once(tmp_path: Path) -> None:
    log = log_of([[1, 0, 1], [0, 1, 0]])
    order = [5, 0, 2, 4, 1, 3, 0, 2]  # two rows come twice
    log = {name: np.asarray(values)[order] for name, values in log.items()}
    log["session_id"] = np.zeros(8, dtype=int)  # one session, a query for each list
    log["query_id"] = np.asarray(order) // 3
    counts, _ = counted(tmp_path, log, context="last-click", bad_rows="drop")
    found = {
        (row["query_id"], row["rank"]): (row["context"], row["impressions"])
        for row in counts.table.to_pylist()
    }
    assert found == {
        (0, 1): (0, 1),
        (0, 2): (1, 1),
        (0, 3): (1, 1),
        (1, 1): (0, 1),
        (1, 2): (0, 1),
        (1, 3): (2, 1),
    }


def test_without_the_context_counts_are_what_they_were(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    log = log_of((rng.random((200, 5)) < 0.3).astype(int).tolist())
    plain, _ = counted(tmp_path, log)
    detailed, _ = counted(tmp_path, log, context="last-click")
    assert detailed.keys == ("query_id", "doc_id", "rank", "context")
    assert detailed.merged("context").equals(plain)
    merged, rows = ar.join_counts(detailed).merged(), ar.join_counts(plain)
    for name in ("doc", "rank", "impressions", "clicks", "sessions"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(rows, name))
    assert ar.join_counts(detailed).has_context
    assert not merged.has_context


@pytest.mark.parametrize(("stops", "context"), [(True, True), (False, False)])
def test_the_context_is_counted_where_clicks_depend_on_it(
    tmp_path: Path, *, stops: bool, context: bool
) -> None:
    """Of 600 lists of five, half the clicks; users who stop leave after the first."""
    clicks = (np.random.default_rng(1).random((600, 5)) < 0.5).astype(int)
    if stops:
        clicks *= np.cumsum(clicks, axis=1) == 1
    counts, found = counted(tmp_path, log_of(clicks.tolist()), context="auto")
    assert ("context" in counts.keys) == context
    said = [
        f["what"] for f in found.findings() if "depend on the clicks above" in f["what"]
    ]
    assert len(said) == int(context)
    assert all("0.00 times the click rate" in text for text in said)
    _, plain = counted(tmp_path, log_of(clicks.tolist()))
    said = [f["what"] for f in plain.findings() if "--context last-click" in f["what"]]
    assert len(said) == int(context)  # said, whatever was asked for


def test_impossible_contexts_are_rejected(tmp_path: Path) -> None:
    one = {
        "query_id": [1],
        "doc_id": [1],
        "rank": [2],
        "impressions": [1],
        "clicks": [0],
    }
    with pytest.raises(DataError, match=r"context must be a rank above, or 0, got 2"):
        ar.ClickCounts.from_columns(**one, context=[2])
    with pytest.raises(ConfigError, match=r"context .* got 'first'"):
        counted(tmp_path, log_of([[1, 0]]), context="first")
