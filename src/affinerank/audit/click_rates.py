"""How often each rank is clicked, as logged and for the same documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scipy import stats

from affinerank.audit.facts import Facts, same_documents
from affinerank.audit.findings import Block, Column, Question, Section
from affinerank.counts.counts import ClickCounts
from affinerank.output.charts import Spec, lines_by_rank

GROUPS_SHOWN = 8
QUESTION = Question("click_rates", "How often is each rank clicked?", None)
RATES = (
    Column("Rank", "{rank}"),
    Column("Impressions", "{impressions:,}"),
    Column("Clicks", "{clicks:,}"),
    Column("Click rate, 95 % interval", "{rate:.4f}", "{low:.4f} to {high:.4f}"),
    Column("Same documents", "{same_documents:.4f}"),
)
SAME = (
    "Same documents: the click rate that a document of average relevance would have at "
    "the rank, by the estimate. Its fall is bias; the rest of the fall is that "
    "documents further down are less relevant."
)
Rates = list[dict[str, Any]]


def click_rates(facts: Facts) -> Section:
    """Return click rates by rank, and by rank of each ranker and segment."""
    rates = _rates(facts.counts)
    first, last = rates[0], rates[-1]
    says = [
        f"{first['rate']:.3f} of the impressions are clicked at rank {first['rank']}, "
        f"{last['rate']:.3f} at rank {last['rank']}."
    ]
    series, notes = {"as logged": rates}, []
    if facts.average is not None:
        same = same_documents(*facts.average)
        for row in rates:
            row["same_documents"] = same.get(row["rank"])
        alone = [{"rank": rank, "rate": rate} for rank, rate in same.items()]
        series["the same documents at every rank"] = alone
        notes.append(SAME)
    figure = _figure("rates", series) if len(rates) > 1 else None
    numbers: dict[str, Any] = {"by_rank": rates}
    blocks = [Block(RATES, rates, figure=figure, notes=tuple(notes))]
    for key in [key for key in ("ranker", "segment") if key in facts.counts.keys]:
        numbers[f"by_{key}"] = groups = _groups(facts.counts, key)
        blocks.append(_by_group(key, groups))
        number = facts.counts.by(key).num_rows
        if number > len(groups):
            most = f"the {len(groups)} with the most impressions"
            says.append(f"Of {number:,} {key}s, {most} are shown.")
    return Section(QUESTION, "measured", tuple(says), numbers, tuple(blocks))


def _rates(counts: ClickCounts) -> Rates:
    """Return the click rate at each rank, with Wilson's 95 % interval."""
    rows = []
    for row in counts.click_rate_by_rank():
        trial = stats.binomtest(row["clicks"], row["impressions"])
        ends = trial.proportion_ci(method="wilson")
        rows.append({**row, "low": float(ends.low), "high": float(ends.high)})
    return rows


def _groups(counts: ClickCounts, key: str) -> Rates:
    """Return click rates of the groups with the most impressions."""
    order = [("impressions", "descending"), (key, "ascending")]
    largest = counts.by(key).sort_by(order)
    groups = []
    for name in largest[key].to_pylist()[:GROUPS_SHOWN]:
        part = counts.select(key, name)
        about = {"name": name, "sessions": part.n_sessions}
        groups.append({**about, "by_rank": _rates(part)})
    return groups


def _by_group(key: str, groups: Rates) -> Block:
    shown = [{**group, "label": group["name"] or "(empty)"} for group in groups]
    series = {group["label"]: group["by_rank"] for group in shown}
    figure = _figure(key, series) if len(groups) > 1 else None
    columns = [Column(key.capitalize(), "{label}"), Column("Sessions", "{sessions:,}")]
    for i, head in enumerate(("Click rates", "", "")):
        rate, rank = f"{{by_rank[{i}][rate]:.4f}}", f"rank {{by_rank[{i}][rank]}}"
        columns.append(Column(head, rate, rank))
    return Block(tuple(columns), shown, f"By {key}", figure)


def _figure(name: str, series: Mapping[str, Rates]) -> tuple[str, Spec]:
    """Draw click rates by rank, a line per series."""
    values = {
        label: [{**row, "value": row["rate"]} for row in rows]
        for label, rows in series.items()
    }
    return name, lines_by_rank(values, "click rate")
