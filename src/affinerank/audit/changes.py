"""What a debiased ranking would change at rank 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from affinerank.audit.facts import Facts
from affinerank.audit.findings import Block, Column, Question, Section
from affinerank.audit.first_rank import MIN_IMPRESSIONS, FirstRank

EXAMPLES = 10
QUESTION = Question("first_rank", "Is something better hidden below rank 1?", False)
COLUMNS = (
    Column("Query", "{query_id}"),
    Column("Shown first", "{first}", "{first_rate:.3f}"),
    Column("Better", "{challenger}", "{challenger_rate:.3f}"),
    Column("Its mean rank", "{challenger_rank:.1f}"),
    Column("Difference", "{difference:+.3f}", "s.e. {standard_error:.3f}"),
)
NOTE = (
    "In small print the click rate that a document would have at rank 1, and the "
    "standard error of the difference. An estimate beyond 0 or 1 is shown as 0 or 1."
)


def first_rank(facts: Facts) -> Section:
    """Say for how many queries another document would come first."""
    found = facts.first
    if found is None or not len(found.query):
        why = "Clicks cannot be corrected without knowing how users click."
        if facts.estimate is not None:
            why = "The estimate has no bands, so what is clear cannot be told."
        if found is not None:
            often = f"{MIN_IMPRESSIONS} times or more each"
            why = f"No query showed its first document and another one {often}."
        return Section(QUESTION, "unknown", (why,), {"evaluated": 0})
    n, better, stays = len(found.query), int(found.better.sum()), int(found.stays.sum())
    undecided, likelier = n - better - stays, int(np.sum(found.difference > 0))
    says = (
        f"{n:,} of {found.n_queries:,} queries show documents often enough to be "
        f"judged ({MIN_IMPRESSIONS} impressions each). For {better:,} of them "
        f"another document is clearly better than the one shown first, for {stays:,} "
        f"the first is clearly the best, and {undecided:,} are undecided.",
        f"Of the {better:,}, 5 % at most are expected to be wrong. The estimate alone, "
        f"without its uncertainty, would put another document first for {likelier:,}.",
    )
    examples = _examples(facts, found)
    numbers = {
        "queries": found.n_queries,
        "evaluated": n,
        "another_first": better,
        "first_stays": stays,
        "undecided": undecided,
        "another_likelier": likelier,
        "examples": examples,
    }
    listed = Block(COLUMNS, examples, "Where most would change", notes=(NOTE,))
    verdict = "yes" if better else "not found"
    short = f"For {better:,} of {n:,} queries, clearly; {undecided:,} are undecided."
    return Section(QUESTION, verdict, says, numbers, (listed,), short)


def worth(facts: Facts) -> str:
    """Say what it would bring to show first what is clearly better."""
    found = facts.first
    if found is None or not found.better.any():
        return ""
    sessions, gained = facts.rows.sessions, found.gain * found.better
    clicks = 1_000 * float(sessions[found.query] @ gained) / sessions.sum()
    share = float(sessions[found.query[found.better]].sum() / sessions.sum())
    return (
        f"In {share:.0%} of the searches another document is clearly better than the "
        f"one shown first. Shown first, it would bring about {clicks:,.0f} more clicks "
        "at rank 1 in 1,000 searches, by the estimate."
    )


def _examples(facts: Facts, found: FirstRank) -> list[dict[str, Any]]:
    """Return the queries with the largest differences, with both documents."""
    rows, query, doc = facts.rows, *(column.cast("string") for column in facts.ids)
    clear = np.flatnonzero(found.better)
    order = clear[np.argsort(-found.gain[clear], kind="stable")][:EXAMPLES]
    first, other = found.first[order], found.challenger[order]
    n = rows.impressions
    place, shown = (rows.by_doc(n * each)[other] for each in (rows.rank, 1))
    columns = {
        "query_id": query.take(first),
        "first": doc.take(first),
        "challenger": doc.take(other),
        "challenger_rank": place / shown,
        "first_rate": found.click_rates[order, 0],
        "challenger_rate": found.click_rates[order, 1],
        "difference": found.gain[order],
        "standard_error": found.error[order],
    }
    return list(pa.table(columns).to_pylist())
