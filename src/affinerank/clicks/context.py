"""What happened above in the session: the rank of the last click, as one more key.

Users may go by what they clicked before. Given the rank of the last click above, a
document's clicks are affine in its relevance again, so counts by that rank are enough.
"""

from __future__ import annotations

from typing import Literal

import ibis
import ibis.expr.types as ir
from ibis import _

from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.counts_table import CONTEXT, KEYS
from affinerank.clicks.engines import gathered, hashed, is_duckdb
from affinerank.clicks.faults import Finding
from affinerank.clicks.independence import Independence, independence_test
from affinerank.clicks.rows import rows_of

Context = Literal["auto", "last-click", "none"]
SAMPLED = 250_000  # rows that the test of independence looks at, about


def with_context(log: ir.Table, *, plain: bool = False) -> ir.Table:
    """Add the rank of the last click above in the session; 0 for none.

    Where sessions are ``plain``, as :class:`LogReport` says, the clicks of each are the
    bits of one number: DuckDB finds those faster than it sorts.
    """
    if plain:
        return _with_highest_bit(log)
    above = ibis.range_window(
        preceding=(None, 1), group_by=["session_id", "query_id"], order_by="rank"
    )
    last = ibis.ifelse(log.clicked == 1, log["rank"], 0).max().over(above)
    return log.mutate(**{CONTEXT: ibis.coalesce(last, 0).cast("int64")})


def _with_highest_bit(log: ir.Table) -> ir.Table:
    """Find the last click above in the bits of a session; rank 1 is the lowest."""
    one = ibis.literal(1, "int64")
    clicked = log.filter(log.clicked == 1)
    clicked = clicked.select("session_id", bit=one << (clicked["rank"] - 1))
    # By itself: DuckDB would keep a log that is joined with itself aside.
    bits = gathered([clicked.group_by("session_id").agg(bits=_.bit.bit_or())])
    log = log.left_join(bits, "session_id").drop("session_id_right")
    above = (log.bits & ((one << (log["rank"] - 1)) - 1)).nullif(0)
    highest = above.log2().floor().cast("int64")  # or one too high, by rounding
    last = ibis.ifelse((one << highest) > above, highest, highest + 1)
    return log.mutate(**{CONTEXT: last.coalesce(0)}).drop("bits")


def look_at_some_sessions(
    log: ir.Table, rows: int, *, repeats: bool = True, plain: bool = False
) -> Independence | None:
    """Test on some sessions whether clicks depend on the clicks above.

    Where impressions may be there more than once (``repeats``), they count once; where
    sessions are ``plain``, clicks above are found as :func:`with_context` says.
    """
    every = -(-rows // SAMPLED)
    if every > 1:
        log = log.filter(hashed(log.session_id) % every == 0)
    if is_duckdb(log):  # numbers are faster to group by, and to fetch, than texts are
        ids = {name: hashed(log[name]) for name in KEYS[:2]}
        log = gathered([log.select("session_id", "rank", "clicked", **ids)])
    keys = [*KEYS, CONTEXT]
    seen = with_context(log, plain=plain)
    if repeats:
        seen = seen.group_by([*keys, "session_id"]).agg(clicked=_.clicked.max())
    counts = seen.group_by(keys).agg(
        impressions=_.count(), clicks=_.count(where=_.clicked == 1)
    )
    found = counts.to_pyarrow()
    if not found.num_rows:
        return None
    columns = {name: found[name] for name in found.column_names}
    return independence_test(rows_of(ClickCounts.from_columns(**columns)))


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
