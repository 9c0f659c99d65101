"""What a log tells of its bias, and what a debiased ranking would change."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow.compute as pc
from scipy import stats

from affinerank.bias.interventions import Overlap
from affinerank.bias.swaps import DEEPEST, rank_effect
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import JoinedCounts, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.errors import AffineRankWarning
from affinerank.evaluation.first_rank import (
    LEAST_IMPRESSIONS,
    FirstRank,
    judge_first_rank,
)
from affinerank.pipeline.audit_log import Audited, Section, display_users
from affinerank.pipeline.debias import documents_of, ids_of
from affinerank.pipeline.estimated import Estimated

LEVEL = 0.05
EXAMPLES = 10


def position_bias(about: Audited) -> Section:
    """Whether the rank changes clicks on one and the same document."""
    says, verdicts = [], []
    effect, slopes = rank_effect(about.rows), _slopes(about.found)
    # Two tests, one verdict: each has half of what may be wrong.
    level = LEVEL / max(1, (effect is not None) + (slopes is not None))
    if effect is not None:
        found = effect.p < level
        verdicts.append(found)
        change = f"{effect.slope:+.4f} ± {1.96 * effect.error:.4f}"
        says.append(
            f"{effect.n_docs:,} documents of {effect.n_queries:,} queries were shown "
            f"at several ranks. When its rank doubles, the click rate of one and the "
            f"same document changes by {change} ({p_text(effect.p)}); it is "
            f"{effect.rate:.3f} on average. "
            + (
                "Relevance does not explain that, unless documents were moved because "
                "they had become more relevant."
                if found
                else "That is no more than chance would do."
            )
        )
    if slopes is not None:
        verdicts.append(slopes["p"] < level)
        first, last = slopes["first"], slopes["last"]
        says.append(
            f"By the estimate, what relevance adds to a click rate (alpha) is "
            f"{first['alpha']:.2f} of its mean at rank {first['ranks']} and "
            f"{last['alpha']:.2f} at rank {last['ranks']} ({p_text(slopes['p'])} for "
            "no difference between ranks)."
        )
    if not verdicts:
        says.append(
            "Click rates fall with the rank, but documents further down may be less "
            "relevant too: this log cannot tell the two apart."
            if _falls(about.merged)
            else "This log cannot tell what the rank does to clicks."
        )
    verdict = "unknown" if not verdicts else "yes" if any(verdicts) else "no"
    return {
        "verdict": verdict,
        "says": says,
        "same_document": asdict(effect) if effect else None,
        "alpha": slopes,
    }


def _falls(counts: ClickCounts) -> bool:
    rates = [row["rate"] for row in counts.click_rate_by_rank()]
    return len(rates) > 1 and rates[-1] < rates[0]


def _slopes(found: Estimated | None) -> dict[str, Any] | None:
    """Alpha at the first and the last pool; p that it is its mean at every one."""
    if found is None or not found.inference.known:
        return None
    bands = found.inference
    z = np.abs(bands.alpha - 1) / np.maximum(bands.alpha_error, 1e-300)
    p = min(1.0, len(z) * 2 * float(stats.norm.sf(z.max())))
    ends = [
        {
            "ranks": found.pools.names[i],
            "alpha": float(bands.alpha[i]),
            "error": float(bands.alpha_error[i]),
        }
        for i in (0, -1)
    ]
    return {"p": p, "first": ends[0], "last": ends[1]}


def trust_bias(about: Audited) -> Section:
    """The test of the estimation, in words."""
    found = about.found
    if found is None:
        says = "Testing for it needs an estimate of how users click: see below."
        return {"verdict": "unknown", "says": [says], "test": None}
    if found.test is None:
        says = "Too few queries were clicked to test for it."
        return {"verdict": "unknown", "says": [says], "test": None}
    test = found.test
    told = f"{p_text(test.p)}, from {test.n_queries:,} held-out queries"
    if test.found:
        says = (
            f"Yes ({told}). High ranks are clicked more than relevance explains, and "
            "weighting clicks by inverse propensity cannot take that off; the affine "
            "correction can."
        )
    else:
        says = (
            f"It was not found ({told}). That is no proof that there is none; the "
            "affine correction is right either way."
        )
    verdict = "yes" if test.found else "no"
    return {"verdict": verdict, "says": [says], "test": asdict(test)}


def identified(about: Audited) -> Section:
    """What clicks of this log can tell of how users click, and what they cannot."""
    found = about.found
    parameters = [
        _alpha_beta(about),
        _from_moved(about.overlap),
        _parameter(
            "unit and zero of relevance (the gauge)",
            "never",
            "alpha up to one factor and beta up to one multiple of alpha are the same "
            "clicks; rankings do not notice",
        ),
        _parameter(
            "examination (theta), eps+ and eps- by themselves",
            "never",
            "clicks show alpha and beta only, so ips and bayes-ips must be given "
            "theirs from elsewhere",
        ),
        _parameter(
            "relevance of documents never shown",
            "no",
            "no one saw them: they have no weight, which is not the weight 0",
        ),
        _parameter(
            "clicks that depend on other clicks of the session, or on the user",
            "no",
            "counts add sessions up",
        ),
    ]
    if "segment" in about.counts.keys:
        parameters.insert(
            1,
            _parameter(
                "alpha and beta of each segment",
                "partly",
                "segments were added up here; count one (--where), and audit that",
            ),
        )
    verdict = {"yes": "yes", "partly": "partly"}.get(parameters[0]["status"], "no")
    section: Section = {
        "verdict": verdict,
        "says": [_identified_words(about)],
        "refused": about.refused,
        "parameters": parameters,
        "notes": list(about.notes),
    }
    if found is not None:
        summary = found.summary()
        section |= {name: summary[name] for name in ("method", "why", "by_rank")}
        section["notes"] += summary["notes"]
        section["precision"] = _precision(found)
    return section


def _identified_words(about: Audited) -> str:
    if about.found is None:
        return f"Alpha and beta were not estimated: {about.refused}."
    by = {
        "mixture": "levels of relevance that all ranks share",
        "interventions": "documents that changed rank",
    }.get(about.found.method, about.found.method)
    features = ", helped by features" if about.features else ""
    return f"Alpha and beta were estimated up to gauge, by {by}{features}."


def _parameter(name: str, status: str, why: str) -> dict[str, str]:
    return {"parameter": name, "status": status, "why": why}


def _alpha_beta(about: Audited) -> dict[str, str]:
    name = "alpha and beta of each rank, relative to the others"
    if about.found is None:
        return _parameter(name, "no", "refused, for the reason above")
    weak = [note for note in about.found.notes if note.startswith("clicks tell little")]
    if weak:
        return _parameter(name, "partly", weak[0])
    return _parameter(name, "yes", f"by {about.found.method}: {about.found.why}")


def _from_moved(overlap: Overlap) -> dict[str, str]:
    name = "the same from documents that changed rank, without assumptions on relevance"
    moved = f"{overlap.n_moved:,} of {overlap.n_docs:,} documents changed rank"
    if overlap.all_connected:
        return _parameter(name, "yes", f"{moved}; that connects all ranks")
    if overlap.connected:
        reach = "; ".join(overlap.connected)
        return _parameter(name, "partly", f"{moved}; that connects only {reach}")
    return _parameter(name, "no", f"{moved}; that connects no ranks")


def _precision(found: Estimated) -> dict[str, Any] | None:
    """The rank whose alpha is known worst, relative to itself, of the first ten."""
    if not found.inference.known:
        return None
    relative = found.inference.alpha_error / np.abs(found.inference.alpha)
    worst = int(np.argmax(relative[: found.pools.of_rank[:DEEPEST][-1] + 1]))
    return {
        "ranks": found.pools.names[worst],
        "relative_error": float(relative[worst]),
    }


def first_rank(about: Audited) -> Section:
    """For how many queries another document would come first."""
    found = about.found
    if found is None:
        none = "Clicks cannot be corrected without knowing how users click."
        return {"verdict": "unknown", "says": [none], "judged": 0}
    users = display_users(found)
    counts = ClickCounts(
        about.merged.table.filter(
            pc.less_equal(about.merged.table["rank"], users.depth)
        )
    )
    data = documents_of(ids_of(counts))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AffineRankWarning)
        joined = join_counts(counts, data)
        judged = judge_first_rank(joined, data, users, found.display, found.pools)
    n, better = len(judged.query), int(judged.better.sum())
    stays = int(judged.stays.sum())
    if not n:
        none = (
            f"No query shows a document {LEAST_IMPRESSIONS} times at rank 1 and "
            "another as often below, so none can be judged."
        )
        return {"verdict": "unknown", "says": [none], "judged": 0}
    likelier = int(np.sum(judged.difference > 0))
    says = [
        f"{n:,} of {judged.n_queries:,} queries show documents often enough to be "
        f"judged ({LEAST_IMPRESSIONS} impressions each). For {better:,} of them "
        f"another document is clearly better than the one shown first, for {stays:,} "
        f"the first is clearly the best, and {n - better - stays:,} are undecided.",
        f"Of the {better:,}, 5 % at most are expected to be wrong. The estimate alone, "
        f"without its uncertainty, would put another document first for {likelier:,}.",
    ]
    return {
        "verdict": "yes" if better else "no",
        "says": says,
        "queries": judged.n_queries,
        "judged": n,
        "another_first": better,
        "first_stays": stays,
        "undecided": n - better - stays,
        "another_likelier": likelier,
        "examples": _examples(judged, joined, data),
    }


def _examples(
    judged: FirstRank, joined: JoinedCounts, data: RankingDataset
) -> list[dict[str, Any]]:
    """The queries where most is to be gained, with both documents."""
    clear = np.flatnonzero(judged.better)
    order = clear[np.argsort(-judged.difference[clear], kind="stable")][:EXAMPLES]
    counts = joined.counts
    shown = np.bincount(joined.doc, counts.impressions, minlength=data.n_docs)
    places = np.bincount(joined.doc, counts.impressions * counts.rank, data.n_docs)
    return [
        {
            "query_id": str(data.query_ids[judged.query[i]]),
            "first": str(data.doc_ids[judged.first[i]]),
            "challenger": str(data.doc_ids[judged.challenger[i]]),
            "challenger_rank": float(
                places[judged.challenger[i]] / shown[judged.challenger[i]]
            ),
            "first_rate": float(judged.relevance[i, 0]),
            "challenger_rate": float(judged.relevance[i, 1]),
            "standard_error": float(judged.error[i]),
        }
        for i in order
    ]


def p_text(p: float) -> str:
    """A p-value for a reader."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"
