"""What a log holds: is it usable, how often is each rank clicked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import stats

from affinerank.bias.documents import ClickRows
from affinerank.bias.interventions import Overlap
from affinerank.bias.level_mixture import DRAWS, LEAST_TOLD
from affinerank.bias.pooling import LEAST_CLICKS, RankPools
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.usermodel import UserModel
from affinerank.pipeline.audit_advice import days_text
from affinerank.pipeline.estimated import Estimated

if TYPE_CHECKING:
    from affinerank.clicks.survey import LogSurvey

Floats = NDArray[np.float64]
Section = dict[str, Any]

GROUPS_SHOWN = 8
MOST_FAULTY = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Audited:
    """What the sections are written from.

    Attributes:
        counts: As given.
        merged: The same, rankers, segments and splits added up.
        rows: The merged counts by numbers.
        pools: Which ranks have clicks enough to stand alone.
        overlap: How far documents were seen at several ranks.
        found: How users click; none where that was refused.
        refused: Why it was, in words.
        survey: Of the log, where one was read.
        features: Whether features were given.
        notes: What the estimation warned of.
    """

    counts: ClickCounts
    merged: ClickCounts
    rows: ClickRows
    pools: RankPools
    overlap: Overlap
    found: Estimated | None
    refused: str | None
    survey: LogSurvey | None
    features: bool
    notes: tuple[str, ...]


def usable(about: Audited, days: float | None) -> Section:
    """What the log holds, each number with what it means."""
    counts, survey = about.counts, about.survey
    sizes = counts.summary()
    per_query = counts.sessions_per_query.group_by("query_id").aggregate(
        [("sessions", "sum")]
    )
    sessions = np.asarray(per_query["sessions_sum"], dtype=np.int64)
    shown = np.bincount(about.rows.doc, about.rows.impressions).astype(np.float64)
    checks = [
        *_fault_checks(survey, sizes["sessions"]),
        _check("sessions", sizes["sessions"], "good", days_text(sizes, days)),
        _check(
            "impressions",
            sizes["impressions"],
            "good",
            f"{sizes['impressions'] / max(sizes['sessions'], 1):.1f} a session",
        ),
        _clicks_check(sizes),
        _ranks_check(about),
        _queries_check(sessions),
        _lists_check(survey),
        _repeated_check(shown),
        _moved_check(about.overlap),
    ]
    verdicts = [check["verdict"] for check in checks]
    careful = about.refused is not None or "care" in verdicts
    verdict = "no" if "bad" in verdicts else "partly" if careful else "yes"
    again = int(sessions[sessions > 1].sum())
    return {
        "verdict": verdict,
        "says": [_usable_words(verdict, about)],
        "checks": checks,
        "findings": list(survey.findings) if survey else [],
        "dropped": survey.dropped if survey else None,
        "days": days,
        "sessions": sizes["sessions"],
        "sessions_of_repeated_queries": again,
    }


def _usable_words(verdict: str, about: Audited) -> str:
    if verdict == "no":
        return "Not as it is: see what is marked below."
    if about.refused:
        return "It can be counted; how users click cannot be estimated from it."
    if verdict == "partly":
        return "Yes, with care: see what is marked below."
    return "Yes."


def _check(what: str, number: float | str | None, verdict: str, says: str) -> Section:
    return {"what": what, "number": number, "verdict": verdict, "says": says}


def _fault_checks(survey: LogSurvey | None, kept: int) -> list[Section]:
    if survey is None:
        says = "these are counts; what was wrong with the log, count has said"
        return [_check("faulty sessions", None, "good", says)]
    lost = survey.dropped["sessions"]
    share = lost / max(lost + kept, 1)
    rows = survey.dropped["rows"]
    if not lost and not rows:
        return [_check("faulty sessions", 0, "good", "no fault was found")]
    verdict = "bad" if share > MOST_FAULTY else "care"
    says = f"{share:.1%} of the sessions; left out whole, with {rows:,} rows"
    return [_check("faulty sessions", lost, verdict, says)]


def _clicks_check(sizes: Mapping[str, int]) -> Section:
    clicks, seen = sizes["clicks"], sizes["impressions"]
    if not clicks:
        return _check("clicks", 0, "bad", "without clicks nothing can be learnt")
    if clicks == seen:
        says = "every impression was clicked: were those without a click left out?"
        return _check("clicks", clicks, "bad", says)
    says = f"{clicks / seen:.2%} of the impressions"
    return _check("clicks", clicks, "good", says)


def _ranks_check(about: Audited) -> Section:
    seen = int(np.count_nonzero(about.pools.impressions))
    if seen == 1:
        return _check("ranks", 1, "bad", "with one rank there is nothing to compare")
    if about.pools.n_pools == 1:
        says = f"too few clicks to tell them apart: a rank needs {LEAST_CLICKS}"
        return _check("ranks", seen, "bad", says)
    if about.pools.shared:
        shared = about.pools.shared
        which = ", ".join(shared)
        if len(shared) > 3:
            which = f"{', '.join(shared[:2])} and so on down to {shared[-1]}"
        says = (
            f"ranks {which} have fewer than {LEAST_CLICKS} clicks each, and are taken "
            "together"
        )
        return _check("ranks", seen, "good", says)
    return _check("ranks", seen, "good", f"each with {LEAST_CLICKS} clicks or more")


def _queries_check(sessions: NDArray[np.int64]) -> Section:
    once = int(np.sum(sessions == 1))
    share = once / len(sessions)
    says = f"{once:,} of them were seen once ({share:.0%})"
    return _check("queries", len(sessions), "care" if share > 0.5 else "good", says)


def _lists_check(survey: LogSurvey | None) -> Section:
    if survey is None:
        return _check("lists", None, "good", "counts do not tell whole lists")
    share = survey.lists_once / max(survey.lists, 1)
    says = f"{survey.lists_once:,} of them were shown once ({share:.0%})"
    return _check("lists", survey.lists, "care" if share > 0.5 else "good", says)


def _repeated_check(shown: Floats) -> Section:
    often = int(np.sum(shown >= DRAWS))
    says = f"{often:,} of them were shown {DRAWS} times or more, as clicks alone need"
    return _check("documents", len(shown), _enough(often), says)


def _moved_check(overlap: Overlap) -> Section:
    moved = overlap.n_moved
    reach = "; ".join(overlap.connected)
    says = f"that connects {reach}" if reach else "that connects no ranks"
    what = "documents seen at several ranks"
    return _check(what, moved, _enough(moved), says)


def _enough(documents: int) -> str:
    return "good" if documents >= LEAST_TOLD else "care"


def click_rates(about: Audited) -> Section:
    """By rank, and by rank in each ranker and segment."""
    by_rank = _rates(about.merged)
    ends = by_rank[0], by_rank[-1]
    says = [
        f"{ends[0]['rate']:.3f} of the impressions are clicked at rank "
        f"{ends[0]['rank']}, {ends[1]['rate']:.3f} at rank {ends[1]['rank']}."
    ]
    groups = {}
    for key in ("ranker", "segment"):
        if key in about.counts.keys:
            groups[f"by_{key}"] = _grouped(about.counts, key)
            number = len(pc.unique(about.counts.table[key]))
            if number > GROUPS_SHOWN:
                says.append(
                    f"Of {number:,} {key}s, the {GROUPS_SHOWN} with the most "
                    "impressions are shown."
                )
    if about.found is not None:
        same = _same_documents(about.merged, about.found)
        for row in by_rank:
            row["same_documents"] = same.get(row["rank"])
    return {"verdict": "told", "says": says, "by_rank": by_rank, **groups}


def _rates(counts: ClickCounts) -> list[dict[str, Any]]:
    """Click rate at each rank, with Wilson's 95 % interval."""
    rows = []
    for row in counts.click_rate_by_rank():
        trial = stats.binomtest(row["clicks"], row["impressions"])
        ends = trial.proportion_ci(method="wilson")
        rows.append({**row, "low": float(ends.low), "high": float(ends.high)})
    return rows


def _grouped(counts: ClickCounts, key: str) -> list[dict[str, Any]]:
    """Click rates of the groups with the most impressions."""
    table = counts.table.group_by(key).aggregate([("impressions", "sum")])
    largest = table.sort_by([("impressions_sum", "descending"), (key, "ascending")])
    groups = []
    for name in largest[key].to_pylist()[:GROUPS_SHOWN]:
        part = counts.select(key, name)
        about = {"name": name, "sessions": part.n_sessions}
        groups.append({**about, "by_rank": _rates(part)})
    return groups


def display_users(found: Estimated) -> UserModel:
    """The estimate by rank, in the gauge for display."""
    pool = found.pools.of_rank
    return UserModel(
        alpha=found.display.alpha[pool],
        beta=found.display.beta[pool],
        identified="gauge",
    )


def _same_documents(counts: ClickCounts, found: Estimated) -> dict[int, float]:
    """Click rate by rank of a document of mean relevance: what bias alone does."""
    users = display_users(found)
    kept = counts.rank <= users.depth
    rank, seen = counts.rank[kept], counts.impressions[kept]
    alpha, beta = users.at(rank)
    mean = float(np.sum((counts.clicks[kept] - beta * seen) / alpha) / seen.sum())
    rates = users.alpha * mean + users.beta
    return {k + 1: float(rate) for k, rate in enumerate(rates)}
