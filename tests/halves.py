"""Counts as they would be of half of the sessions, and of the others."""

from typing import Any

import numpy as np
import pyarrow as pa

from affinerank.counts.counts import ClickCounts
from affinerank.counts.table import EXPOSURE
from affinerank.logs.schema import RANDOMISED
from affinerank.support.arrays import Rng


def halves(counts: ClickCounts, *, rng: Rng) -> tuple[ClickCounts, ClickCounts]:
    """Split sessions at random into two halves, and the counts with them.

    Given the sessions of a half, a row's impressions in it are hypergeometric, and
    so are its clicks given those: each row is distributed exactly as if sessions
    had been drawn. Rows are drawn independently, so that what two rows of one
    session have in common is not kept where documents change ranks. Values of
    clicks are left out.
    """
    sessions = counts.sessions_per_query
    total = sessions["sessions"].to_numpy()
    half = total // 2 + (total % 2) * rng.integers(0, 2, len(total))
    drawn = sessions.drop_columns("sessions").append_column("half", pa.array(half))
    drawn = drawn.append_column("query", pa.array(np.arange(len(half))))
    rows = counts.table.join(drawn, list(counts.session_keys), join_type="inner")
    rows = rows.sort_by([(name, "ascending") for name in counts.keys])
    in_half, shown, clicks = (
        rows[name].to_numpy() for name in ("half", "impressions", "clicks")
    )
    left = rows["sessions"].to_numpy() - in_half
    first = rng.hypergeometric(shown, left + in_half - shown, in_half)
    clicked = rng.hypergeometric(clicks, shown - clicks, first)
    here = {"impressions": first, "clicks": clicked, "sessions": in_half}
    there = {
        "impressions": shown - first,
        "clicks": clicks - clicked,
        "sessions": left,
    }
    if RANDOMISED in rows.column_names:
        drawn = rows[RANDOMISED].to_numpy()
        here[RANDOMISED] = rng.hypergeometric(drawn, shown - drawn, first)
        there[RANDOMISED] = drawn - here[RANDOMISED]
    return _half(rows, counts.keys, here), _half(rows, counts.keys, there)


def _half(
    rows: pa.Table, keys: tuple[str, ...], numbers: dict[str, Any]
) -> ClickCounts:
    """Put other numbers beside the keys, leaving out what was never shown.

    One row of a query stays where none was shown but it has sessions, to hold those.
    """
    shown, sessions = numbers["impressions"], numbers["sessions"]
    query = rows["query"].to_numpy()
    _, first = np.unique(query, return_index=True)
    ever = np.bincount(query, weights=shown)[query[first]] > 0
    keep = shown > 0
    keep[first] |= ~ever & (sessions[first] > 0)
    if EXPOSURE in rows.column_names:
        part = sessions / np.maximum(np.asarray(rows["sessions"]), 1)
        numbers[EXPOSURE] = np.asarray(rows[EXPOSURE]) * part
        keep |= numbers[EXPOSURE] > 0
    table = pa.table({**{name: rows[name] for name in keys}, **numbers})
    return ClickCounts(table.filter(pa.array(keep)))
