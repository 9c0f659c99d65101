"""Shares of impressions away from a document's usual rank, by arithmetic."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from affinerank.counts.counts import ClickCounts
from affinerank.counts.movement import measure_movement
from affinerank.support.errors import DataError

pytestmark = pytest.mark.slow

Row = tuple[str, str, int, int]


def counts_of(*rows: Row, **columns: Any) -> ClickCounts:
    """Counts of query, document, rank and impressions."""
    query, document, rank, impressions = zip(*rows, strict=True)
    return ClickCounts.from_columns(
        query_id=np.array(query),
        doc_id=np.array(document),
        rank=np.array(rank),
        impressions=np.array(impressions),
        clicks=np.zeros(len(rows), dtype=np.int64),
        sessions=np.full(len(rows), 100),
        **columns,
    )


def test_a_share_is_of_impressions_at_another_rank_than_the_usual_one() -> None:
    # Of a, 3 of 10 are away from rank 1, 1 of them far; of b, 2 of 8, none far.
    movement = measure_movement(
        counts_of(
            *[("q", "a", 1, 7), ("q", "a", 2, 2), ("q", "a", 4, 1)],
            *[("q", "b", 3, 2), ("q", "b", 2, 6)],
        )
    )
    assert movement.impressions == 18
    assert movement.moved.share == pytest.approx(5 / 18)
    assert movement.far.share == pytest.approx(1 / 18)


def test_documents_that_were_shown_once_tell_nothing() -> None:
    movement = measure_movement(counts_of(("q", "a", 1, 1), ("q", "b", 2, 1)))
    assert movement.impressions == 0
    assert np.isnan(movement.moved.share)
    assert not movement.unexplained


def test_one_query_is_too_little_to_be_sure() -> None:
    rows = [("q", "a", 1, 50), ("q", "a", 5, 50)]
    movement = measure_movement(counts_of(*rows))
    assert movement.moved.share == 0.5
    assert not movement.unexplained
    more = [("r", document, rank, n) for _, document, rank, n in rows]
    assert measure_movement(counts_of(*rows, *more)).unexplained


def test_queries_are_a_sample() -> None:
    """Of three queries 0, 10 and 40 of 100 impressions are away from the usual rank."""
    rows = [("p", "a", 1, 100), ("q", "a", 1, 90), ("q", "a", 2, 10)]
    rows += [("r", "a", 1, 60), ("r", "a", 2, 40)]
    movement = measure_movement(counts_of(*rows))
    shares = np.array([0, 0.1, 0.4])
    error = np.std(shares, ddof=1) / np.sqrt(3)
    low = np.mean(shares) - stats.t.ppf(0.95, 2) * error
    assert movement.moved.share == pytest.approx(1 / 6)
    assert movement.moved.low == pytest.approx(low)


def test_of_lists_of_several_kinds_each_has_its_usual_ranks() -> None:
    rows = [("q", "a", 1, 50), ("q", "a", 5, 50)]
    for key in ("ranker", "segment"):
        apart = counts_of(*rows, **{key: np.array(["one", "two"])})
        assert measure_movement(apart).moved.share == 0
    # Buckets of users, splits and clicks above are no kinds of lists.
    for key in ("user_bucket", "split"):
        apart = counts_of(*rows, **{key: np.array(["1", "2"])})
        assert measure_movement(apart).moved.share == 0.5
    above = counts_of(*rows, context=np.array([0, 3]))
    assert measure_movement(above).moved.share == 0.5


def test_places_that_a_policy_drew_do_not_count() -> None:
    rows = [("q", "a", 1, 50), ("q", "a", 5, 50), ("q", "b", 2, 100)]
    drawn = measure_movement(counts_of(*rows, randomised=np.array([0, 50, 0])))
    assert drawn.moved.share == 0
    assert drawn.impressions == 150
    assert drawn.randomised_share == 0.25
    partly = measure_movement(counts_of(*rows, randomised=np.array([0, 30, 0])))
    assert partly.moved.share == pytest.approx(20 / 170)


def test_the_exposure_comes_with_what_was_drawn() -> None:
    rows = [("q", "a", 1, 50), ("q", "a", 5, 50)]
    with pytest.raises(DataError, match=r"no column 'randomised'; .* count the log"):
        counts_of(*rows, exposure=np.array([50.0, 50.0]))


def test_declared_and_undeclared_logs_add_up() -> None:
    """What one log declares stays declared; what the other does not, does not."""
    rows = [("q", "a", 1, 50), ("q", "a", 5, 50)]
    silent, declared = counts_of(*rows), counts_of(*rows, randomised=[50, 50])
    both = silent + declared
    assert both.table["randomised"].to_pylist() == [50, 50]
    assert measure_movement(both).randomised_share == 0.5
    assert measure_movement(both).moved.share == 0.5
    assert measure_movement(declared + declared).impressions == 0
    assert "randomised" not in (silent + silent).columns


def test_counts_that_are_read_in_parts_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(1, [60, 8, 6], (2_000, 3)), axis=0)
    rows = [(f"q{q}", f"d{d}", int(k), int(1 + q % 3)) for q, d, k in keys]
    whole = counts_of(*rows)
    whole.save(tmp_path / "counts.parquet")
    monkeypatch.setattr("affinerank.counts.counts.ROWS_AT_ONCE", 20)
    parts = ClickCounts.load(tmp_path / "counts.parquet")
    assert len(list(parts.parts())) > len(set(keys[:, 0]))  # some have no rows
    together, apart = (measure_movement(counts).to_dict() for counts in (whole, parts))
    assert together["share"] > 0.5
    assert apart == pytest.approx(together)
