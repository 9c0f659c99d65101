"""What happened above in the session: the rank of the last click, as one more key.

Users may go by what they clicked before. Given the rank of the last click above, a
document's clicks are affine in its relevance again, so counts by that rank are enough.
"""

from __future__ import annotations

from typing import Literal

import ibis
import ibis.expr.types as ir
from ibis import _

from affinerank.engines.opening import engine_of
from affinerank.engines.session_scan import WORD
from affinerank.logs.schema import CONTEXT

Context = Literal["auto", "last-click", "none"]


def with_context(log: ir.Table, *, plain: bool = False) -> ir.Table:
    """Add the rank of the last click above in the session; 0 for none.

    Where sessions are ``plain``, as :class:`LogReport` says, the clicks of each are the
    bits of two numbers, which some engines find faster than they sort.
    """
    if plain and engine_of(log).finds_bits_faster:
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

    # Two integers per session, computed first: an engine may copy a log that is joined
    # with itself.
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
    by_session = engine_of(log).materialised([by_session])
    log = log.left_join(by_session, "session_id")

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
