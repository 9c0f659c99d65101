"""A test on a sample of a log's sessions: do clicks depend on the clicks above?"""

from __future__ import annotations

import ibis.expr.types as ir
from ibis import _

from affinerank.counts.counts import ClickCounts
from affinerank.counts.independence import Independence, independence_test
from affinerank.counts.rows import join_counts
from affinerank.engines.opening import engine_of
from affinerank.logs.last_click import Context, with_context
from affinerank.logs.report import Finding
from affinerank.logs.schema import CONTEXT, KEYS

SAMPLED = 250_000  # rows that the test of independence looks at, about


def look_at_some_sessions(
    log: ir.Table, rows: int, *, repeats: bool = True, plain: bool = False
) -> Independence | None:
    """Test on some sessions whether clicks depend on the clicks above.

    Where impressions may be there more than once (``repeats``), they count once; where
    sessions are ``plain``, clicks above are found as :func:`with_context` says.
    """
    engine = engine_of(log)
    every = -(-rows // SAMPLED)
    if every > 1:
        log = log.filter(engine.hashed(log.session_id) % every == 0)
    if engine.groups_integers_faster:
        ids = {name: engine.hashed(log[name]) for name in KEYS[:2]}
        log = engine.materialised([log.select("session_id", "rank", "clicked", **ids)])
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
    return independence_test(join_counts(ClickCounts.from_columns(**columns)))


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
