"""For how many documents own clicks decide what is known, for how many the model."""

from __future__ import annotations

from affinerank.audit.facts import Facts
from affinerank.audit.findings import Question, Section

MOST = 0.9
QUESTION = Question(
    "own_clicks", "Do the clicks on a document decide its relevance?", wanted=True
)


def own_clicks(facts: Facts) -> Section:
    """Say where own clicks weigh more than what other documents let expect."""
    if facts.labels is None:
        why = "Clicks cannot be weighed without knowing how users click."
        return Section(QUESTION, "unknown", (why,), {"documents": 0})
    own, seen = (facts.labels[n].to_numpy() for n in ("own_clicks", "impressions"))
    shown, decided = int((seen > 0).sum()), own > 0.5
    clicks, traffic = int(decided.sum()), float(seen[decided].sum() / seen.sum())
    by = "features" if facts.features else "the rank it was shown at"
    says = (
        f"For {clicks:,} of {shown:,} documents shown, with {traffic:.0%} of the "
        "impressions, their own clicks decide their relevance; for the other "
        f"{shown - clicks:,} it is mostly what other documents let expect, by {by}."
    )
    verdict = "yes" if clicks > MOST * shown else "partly" if clicks else "not found"
    numbers = {
        "documents": shown,
        "clicks_decide": clicks,
        "model_decides": shown - clicks,
        "impressions_where_clicks_decide": traffic,
        "prior": by,
    }
    short = f"They do for {traffic:.0%} of what users see; elsewhere we must predict."
    return Section(QUESTION, verdict, (says,), numbers, short=short)
