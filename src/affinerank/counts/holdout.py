"""Which part of counts a stage takes, and what its documents are called."""

from __future__ import annotations

from affinerank.counts.counts import HELD_OUT, KEPT, ClickCounts
from affinerank.counts.rows import ClickRows, document_ids, join_counts, note_unmatched
from affinerank.data.dataset import RankingDataset
from affinerank.support.arrow import arrow_column, pa
from affinerank.support.errors import ConfigError, DataError


def train_part(counts: ClickCounts) -> ClickCounts:
    """Return the part of the counts that is learnt from."""
    return counts.select("split", KEPT) if "split" in counts.keys else counts


def held_out(counts: ClickCounts) -> ClickCounts:
    """Return the part of the counts that was set aside (``count --holdout``)."""
    if "split" not in counts.keys:
        raise ConfigError(
            "early stopping needs held-out clicks: give --validation COUNTS, or count "
            "with --holdout 0.2"
        )
    return counts.select("split", HELD_OUT)


def held_part(counts: ClickCounts) -> ClickCounts:
    """Return the held-out part of counts that are split, or all of them."""
    held = held_out(counts) if "split" in counts.keys else counts
    if not len(held.rank) and held is not counts:
        raise DataError(
            f"the counts are split, and none are marked {HELD_OUT!r}; count with "
            "--holdout 0.2"
        )
    return held


def matched_rows(counts: ClickCounts, data: RankingDataset | None) -> ClickRows:
    """Number the documents of counts as the data do; warn of those they lack."""
    rows = join_counts(counts, data)
    note_unmatched(rows)
    return rows


def ids_of(counts: ClickCounts, data: RankingDataset | None) -> pa.Table:
    """``query_id`` and ``doc_id`` of each document, as rows of counts number them."""
    if data is None:
        return document_ids(counts)
    ids = data.query_ids[data.query_of_doc], data.doc_ids
    return pa.table(list(map(arrow_column, ids)), ["query_id", "doc_id"])
