"""Counts too many to hold at once are read part by part, with the same result."""

from pathlib import Path

import numpy as np
import pytest

import affinerank.counts.counts as module
from affinerank import ClickCounts, ConfigError, DataError
from affinerank.counts.counts import CountsInParts
from affinerank.counts.rows import ClickRows, document_ids, join_counts
from affinerank.data.dataset import RankingDataset

pytestmark = pytest.mark.slow


def drawn(seed: int, *, text: bool) -> ClickCounts:
    rng = np.random.default_rng(seed)
    keys = np.stack([rng.integers(0, n, 4000) for n in (200, 12, 6)], axis=1)
    query, doc, rank = np.unique(keys, axis=0).T
    impressions = rng.integers(0, 5, len(query))
    worth = rng.binomial(impressions, 0.3)
    return ClickCounts.from_columns(
        query_id=[f"q{n}" for n in query] if text else query,
        doc_id=doc,
        rank=rank + 1,
        impressions=impressions,
        clicks=worth,
        sessions=np.full(len(query), 50) + query,
        segment=np.where(query % 3 == 0, "phone", "desk"),
        value=2.0 * worth,
        value_squares=5.0 * worth,
    ).holdout(0.3)


@pytest.fixture
def both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[ClickCounts, ClickCounts]:
    """The same counts, whole and in parts."""
    drawn(0, text=True).save(tmp_path / "counts.parquet")
    whole = ClickCounts.load(tmp_path / "counts.parquet")
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 300)
    parts = ClickCounts.load(tmp_path / "counts.parquet")
    assert isinstance(parts, CountsInParts)
    assert len(list(parts.parts())) > 5
    return whole, parts


def listed(counts: ClickCounts, rows: ClickRows) -> list[tuple[object, ...]]:
    """Rows by the names of their documents, in order."""
    names = [tuple(row.values()) for row in document_ids(counts).to_pylist()]
    assert rows.values is not None
    assert rows.segment is not None
    columns = zip(
        rows.doc, rows.rank, rows.impressions, rows.clicks, rows.segment, strict=True
    )
    return sorted(
        (
            *(*names[doc], rank, shown, clicks, rows.segments[segment]),
            *(rows.sessions[rows.query_of_doc[doc]], round(rows.values.mean[doc], 9)),
        )
        for doc, rank, shown, clicks, segment in columns
    )


def test_numbers_of_counts_in_parts_are_those_of_the_whole(
    both: tuple[ClickCounts, ClickCounts],
) -> None:
    whole, parts = both
    assert parts.keys == whole.keys
    assert parts.summary() == whole.summary()
    assert parts.n_sessions == whole.n_sessions
    assert parts.click_rate_by_rank() == whole.click_rate_by_rank()
    assert parts.impressions.sum() == whole.impressions.sum()
    assert parts.by("segment").equals(whole.by("segment"))
    assert ClickCounts(parts.table).equals(whole)


def test_rows_of_counts_in_parts_are_those_of_the_whole(
    both: tuple[ClickCounts, ClickCounts],
) -> None:
    for change in (
        lambda counts: counts,
        lambda counts: counts.select("split", "train"),
        lambda counts: counts.merged("split"),
        lambda counts: counts.merged("split").holdout(0.5),
        lambda counts: counts.labelled("ranker", "old"),
    ):
        whole, parts = map(change, both)
        assert listed(parts, join_counts(parts)) == listed(whole, join_counts(whole))


def test_rows_by_data_leave_out_the_same(both: tuple[ClickCounts, ClickCounts]) -> None:
    whole, parts = both
    ids = [f"q{n}" for n in range(150)]  # fewer than there are
    data = RankingDataset(
        features=np.zeros((1500, 1), np.float32),
        labels=None,
        offsets=np.arange(0, 1501, 10),
        query_ids=np.array(ids),
        doc_ids=np.tile(np.arange(10), 150),
        feature_names=("one",),
    )
    one, two = join_counts(whole, data), join_counts(parts, data)
    assert one.unmatched.groups > 0
    for name in ("groups", "documents", "queries", "impressions", "clicks"):
        assert getattr(one.unmatched, name) == getattr(two.unmatched, name)
    assert np.array_equal(one.sessions, two.sessions)
    assert np.array_equal(one.by_doc(one.clicks), two.by_doc(two.clicks))
    assert np.array_equal(one.by_doc(one.rank), two.by_doc(two.rank))


def test_days_are_added_up_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 4):
        drawn(day, text=False).save(tmp_path / f"2026-01-0{day}.parquet")
    whole = ClickCounts.load(tmp_path)
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 700)
    parts = ClickCounts.load(tmp_path)
    assert isinstance(parts, CountsInParts)
    assert ClickCounts(parts.table).equals(whole)


def test_wrong_keys_and_damaged_files_are_rejected(
    both: tuple[ClickCounts, ClickCounts], tmp_path: Path
) -> None:
    _, parts = both
    with pytest.raises(ConfigError, match="'ranker' cannot be taken from counts"):
        parts.select("ranker", "old")
    file = tmp_path / "counts.parquet"
    damaged = bytearray(file.read_bytes())
    damaged[100:4000] = bytes(3900)
    file.write_bytes(damaged)
    with pytest.raises(DataError, match=r"counts\.parquet: "):
        join_counts(ClickCounts.load(file))
