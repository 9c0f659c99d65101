"""What happened above in the session: the rank of the last click, as one more key.

Users may go by what they clicked before. Given the rank of the last click above, a
document's clicks are affine in its relevance again, so counts by that rank are enough.
"""

from __future__ import annotations

from typing import Literal

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from ibis import _

from affinerank.arrays import joint, runs
from affinerank.clicks.counts_table import CONTEXT, KEYS
from affinerank.clicks.engines import hashed
from affinerank.clicks.faults import Finding
from affinerank.clicks.independence import Independence, independence_test
from affinerank.clicks.rows import ClickRows, codes, numbered

Context = Literal["auto", "last-click", "none"]
SAMPLED = 1_000_000  # rows that the test of independence looks at, about


def with_context(log: ir.Table) -> ir.Table:
    """Add the rank of the last click above in the session; 0 for none."""
    list_of = ["session_id", "query_id"]
    clicked = log.filter(_.clicked == 1).group_by(list_of)
    joined = log.left_join(clicked.agg(clicked_ranks=_["rank"].collect()), list_of)
    above = joined.clicked_ranks.filter(lambda rank: rank < joined["rank"]).maxs()
    found = ibis.coalesce(above, 0).cast("int64")
    return joined.select(*log.columns, **{CONTEXT: found})


def look_at_some_sessions(log: ir.Table, rows: int) -> Independence | None:
    """Test on some sessions whether clicks depend on the clicks above."""
    every = -(-rows // SAMPLED)
    if every > 1:
        log = log.filter(hashed(log.session_id) % every == 0)
    found = log.select("session_id", *KEYS, "clicked").to_pyarrow()
    return independence_test(_impressions(found)) if found.num_rows else None


def _impressions(log: pa.Table) -> ClickRows:
    """One row per impression, with context; of a repeated one, the clicked is taken."""
    doc, query_of_doc, _ = numbered(log)
    rank, clicked = (log[name].to_numpy() for name in ("rank", "clicked"))
    issued = joint(codes(log["session_id"]), query_of_doc[doc])
    order, first = runs(doc, rank, issued)
    clicks = np.maximum.reduceat(clicked[order], first)
    doc, rank, issued = (each[order[first]] for each in (doc, rank, issued))
    # Rows are in the order of lists and ranks: where each list and rank begins.
    place = np.arange(len(doc))
    new_list, new_rank = (
        np.diff(each, prepend=-1) != 0 for each in (issued, joint(issued, rank))
    )
    top, level = (
        np.maximum.accumulate(np.where(new, place, 0)) for new in (new_list, new_rank)
    )
    last = np.maximum.accumulate(np.where(clicks > 0, place, -1))
    last = np.where(level > 0, last[level - 1], -1)  # click above this rank, any list
    sessions = np.bincount(
        query_of_doc[doc[new_list]], minlength=query_of_doc.max() + 1
    )
    return ClickRows(
        doc=doc,
        rank=rank,
        context=np.where(last >= top, rank[last], 0),
        impressions=np.ones(len(doc)),
        clicks=clicks.astype(np.float64),
        query_of_doc=query_of_doc,
        sessions=sessions.astype(np.float64),
        has_context=True,
    )


def findings_of(test: Independence, context: Context) -> list[Finding]:
    """Say what the test found, and what was done about it."""
    if not test.found:
        return []
    parts = (test.above, test.near)
    ratios = ("after a click above", "right below a click over further below")
    said = [
        f"{each.ratio:.2f} times the click rate {where}"
        for each, where in zip(parts, ratios, strict=True)
        if each is not None and each.ratio is not None and each.p < 0.05
    ]
    done = "counted by --context last-click"
    if context == "none":
        done = "count with --context last-click, or corrections by rank will be wrong"
    number = max(each.impressions for each in parts if each is not None)
    what = f"clicks depend on the clicks above ({', '.join(said)}): {done}"
    return [Finding(what, False, number, "impressions compared")]
