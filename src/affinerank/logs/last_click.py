"""What happened above in the session: the rank of the last click, as one more key.

Users may go by what they clicked before. Given the rank of the last click above, a
document's clicks are affine in its relevance again, so counts by that rank are enough.
"""

from __future__ import annotations

from typing import Literal

import ibis
import ibis.expr.types as ir
from ibis import _

from affinerank.counts.counts import ClickCounts
from affinerank.counts.independence import Independence, independence_test
from affinerank.counts.rows import rows_of
from affinerank.counts.table import CONTEXT, KEYS
from affinerank.engines.engine import gathered, hashed, is_duckdb
from affinerank.logs.faults import WORD, Finding

Context = Literal["auto", "last-click", "none"]
SAMPLED = 250_000  # rows that the test of independence looks at, about


def with_context(log: ir.Table, *, plain: bool = False) -> ir.Table:
    """Add the rank of the last click above in the session; 0 for none.

    Where sessions are ``plain``, as :class:`LogReport` says, the clicks of each are the
    bits of two numbers: DuckDB finds those faster than it sorts.
    """
    if plain:
        return _add_last_click_by_bits(log)
    above = ibis.range_window(
        preceding=(None, 1), group_by=["session_id", "query_id"], order_by="rank"
    )
    last = ibis.ifelse(log.clicked == 1, log["rank"], 0).max().over(above)
    return log.mutate(**{CONTEXT: ibis.coalesce(last, 0).cast("int64")})


def _add_last_click_by_bits(log: ir.Table) -> ir.Table:
    """Add the rank of the last click above; sessions have ranks 1 to n, n <= 126.

    A session's clicks are the bits of two integers, ranks 1 to 63 and 64 to 126, of
    which the first rank is the lowest bit.
    """
    columns = log.columns
    one = ibis.literal(1, "int64")

    # Two integers per session, computed first: DuckDB copies a log joined with itself.
    clicks = log.filter(log.clicked == 1)
    bit = one << ((clicks["rank"] - 1) % WORD)
    is_deep = clicks["rank"] > WORD
    clicks = clicks.select(
        "session_id",
        low_clicks=ibis.ifelse(is_deep, 0, bit),
        high_clicks=ibis.ifelse(is_deep, bit, 0),
    )
    by_session = clicks.group_by("session_id").agg(
        low_clicks=_.low_clicks.bit_or(), high_clicks=_.high_clicks.bit_or()
    )
    log = log.left_join(gathered([by_session]), "session_id")

    # The clicks above this rank.
    bits_above = (one << ((log["rank"] - 1) % WORD)) - 1
    is_deep = log["rank"] > WORD
    log = log.mutate(
        low_above=ibis.ifelse(is_deep, log.low_clicks, log.low_clicks & bits_above),
        high_above=ibis.ifelse(is_deep, log.high_clicks & bits_above, 0),
    )

    # The last of them is the highest bit of the integer that has it.
    is_high = log.high_above > 0
    log = log.mutate(
        last_word=ibis.ifelse(is_high, log.high_above, log.low_above).nullif(0),
        ranks_before=ibis.ifelse(is_high, WORD, 0),
    )
    bit = log.last_word.log2().floor().cast("int64")  # or one too high, by rounding
    place = ibis.ifelse((log.last_word >> bit) > 0, bit + 1, bit)
    last_click = (log.ranks_before + place).coalesce(0)
    return log.select(*columns, **{CONTEXT: last_click})


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
