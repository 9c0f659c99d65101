"""Whether there is position bias, and whether there is trust bias."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from scipy import stats

from affinerank.audit.facts import Facts, same_documents
from affinerank.audit.findings import Question, Section
from affinerank.audit.rank_effect import RankEffect, rank_effect
from affinerank.audit.words import p_text
from affinerank.bias import Estimate

LEVEL = 0.05
POSITION = Question("position_bias", "Is there position bias?", wanted=False)
TRUST = Question("trust_bias", "Is there trust bias?", wanted=False)


DEEP = 10
NOT_SEEN = {
    "not found": "No sign of it, which is no proof that there is none.",
    "unknown": "This log cannot show it.",
}


def _short(facts: Facts) -> str:
    """Say how much more often one document is clicked at the top than further down."""
    rates = same_documents(*facts.average) if facts.average else {}
    ranks = [rank for rank in rates if rank <= DEEP]
    if not ranks or min(rates[rank] for rank in (ranks[0], ranks[-1])) <= 0:
        return "The same document is clicked more where it stands higher."
    times = rates[ranks[0]] / rates[ranks[-1]]
    return (
        f"The same document is clicked {times:.1f} times as often at rank {ranks[0]} "
        f"as at rank {ranks[-1]}."
    )


def position_bias(facts: Facts) -> Section:
    """Say whether the rank changes clicks on one and the same document."""
    effect, slopes = rank_effect(facts.rows), _slopes(facts.estimate)
    numbers = {"same_document": asdict(effect) if effect else None, "alpha": slopes}
    tests = [test for test in numbers.values() if test is not None]
    # Two tests, one verdict: each has half of what may be wrong.
    level = LEVEL / max(1, len(tests))
    verdict = "yes" if any(test["p"] < level for test in tests) else "not found"
    says = []
    if effect is not None:
        says.append(_effect_text(effect, level))
    if slopes is not None:
        says.append(
            "By the estimate, what relevance adds to a click rate (alpha) is "
            "{first[alpha]:.2f} of its mean at rank {first[ranks]} and "
            "{last[alpha]:.2f} at rank {last[ranks]}".format(**slopes)
            + f" ({p_text(slopes['p'])} for no difference between ranks)."
        )
        if slopes["p"] >= level:
            says[-1] += f" {_unclear(level)}"
    if effect is not None and slopes is not None and effect.p >= level > slopes["p"]:
        says.reverse()  # what the verdict rests on comes first
    if not tests:
        verdict = "unknown"
        says = [
            "This log cannot tell what the rank does to clicks: where they fall with "
            "it, documents further down may just be less relevant."
        ]
    short = _short(facts) if verdict == "yes" else NOT_SEEN[verdict]
    return Section(POSITION, verdict, tuple(says), numbers, short=short)


def trust_bias(facts: Facts) -> Section:
    """Say what the test for trust bias found."""
    estimate = facts.estimate
    test = estimate.test if estimate else None
    verdict = "unknown"
    if test is None:
        says = "Too few queries were clicked to test for it."
        if estimate is None:
            says = "Testing for it needs an estimate of how users click: see below."
        elif not estimate.models:
            says = f"Users were estimated by {estimate.method}, which has no test."
        return Section(TRUST, "unknown", (says,), {"test": None}, short=says)
    basis = f"{p_text(test.p)}, from held-out clicks of {test.n_queries:,} queries"
    if test.found and facts.misfit:
        says = (
            "Clicks depend on the clicks above, which a test by rank alone takes for "
            "trust bias: see the assumptions."
        )
        short = "Users depend on their clicks above, which looks the same."
    elif test.found:
        verdict = "yes"
        says = (
            f"Yes ({basis}). High ranks are clicked more than relevance explains: "
            "the affine correction removes that, inverse propensity weights cannot."
        )
        short = "What stands high is clicked because it stands high, relevant or not."
    else:
        verdict, short = "not found", NOT_SEEN["not found"]
        says = (
            f"It was not found ({basis}). That is no proof that there is none; the "
            "affine correction is right either way."
        )
    return Section(TRUST, verdict, (says,), {"test": asdict(test)}, short=short)


def _unclear(level: float) -> str:
    share = "" if level == LEVEL else ", as two tests share the 5 %"
    return f"That alone shows nothing: p would have to be below {level:g}{share}."


def _effect_text(effect: RankEffect, level: float) -> str:
    meaning = _unclear(level)
    if effect.p < level:
        meaning = "Relevance explains that only if it changed as documents moved."
    return (
        f"{effect.n_docs:,} documents of {effect.n_queries:,} queries were shown at "
        "several ranks. When its rank doubles, the click rate of one and the same "
        f"document changes by {effect.slope:+.4f} ± {1.96 * effect.error:.4f} "
        f"({p_text(effect.p)}); it is {effect.rate:.3f} on average. {meaning}"
    )


def _slopes(estimate: Estimate | None) -> dict[str, Any] | None:
    """Test that alpha is its mean at every pool; return p, and the first and last."""
    if estimate is None or not estimate.inference.known:
        return None
    bands, names = estimate.inference, estimate.pools.names
    alpha, error = bands.alpha, bands.alpha_error
    z = np.abs(alpha - 1) / np.maximum(error, 1e-300)
    p = min(1.0, len(z) * 2 * float(stats.norm.sf(z.max())))
    first, last = (
        {"ranks": names[i], "alpha": float(alpha[i]), "error": float(error[i])}
        for i in (0, -1)
    )
    return {"p": p, "first": first, "last": last}
