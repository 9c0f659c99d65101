"""What the model takes for granted, each tested as far as the log allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from affinerank.bias.method import Estimate
from affinerank.counts.independence import (
    LEVEL,
    Contrast,
    contrast,
    independence_test,
    sessions_without_click,
)
from affinerank.counts.rows import ClickRows
from affinerank.support.arrays import Ints, joint

Verdict = Literal["found", "not found", "unknown"]
Status = Literal["yes", "partly", "no"]
CLEARLY = 0.5  # ranks above the mean, of a document that a ranker places higher
DEPENDENT = "dependent_clicks"
UNIDENTIFIED = "unidentified_ranks"
NO_CONTEXT = "these counts do not hold what was clicked above"
COUNT_CONTEXT = "count again with --context last-click"


@dataclass(frozen=True, slots=True)
class Assumption:
    """What was tested of the model's assumptions, and what came out.

    Attributes:
        name: Key of the test.
        against: What would break the assumption.
        verdict: Whether that was found; ``not found`` is no proof of its absence.
        number: What was measured.
        says: What the number is, and what it means.
        advice: What to do about it, where something was found or can be found out.
        p: Probability of as much by chance, where there is a test.
    """

    name: str
    against: str
    verdict: Verdict
    number: float | None
    says: str
    advice: str = ""
    p: float | None = None

    @property
    def broken(self) -> bool:
        """Whether the log contradicts the assumption."""
        return self.verdict == "found"


def check_assumptions(
    rows: ClickRows, ranker: Ints | None, estimate: Estimate | None
) -> tuple[Assumption, ...]:
    """Test all of them.

    Args:
        rows: Clicks, by ranker and by the last click above as far as those are counted.
        ranker: ``[n_rows]`` number of the ranker, from 0, or ``None``.
        estimate: How users click, where that could be estimated.
    """
    return (
        clicks_only(rows),
        clicked_lists(rows),
        dependent_clicks(rows),
        moved_relevance(rows, ranker),
        unidentified_ranks(estimate),
    )


def clicks_only(rows: ClickRows) -> Assumption:
    """Find a log that has only impressions with a click."""
    share = float(rows.clicks.sum() / rows.impressions.sum())
    about = ("clicks_only", "only clicks were logged")
    says = f"{share:.1%} of the impressions were clicked"
    if share < 1:
        return Assumption(*about, "not found", share, says)
    advice = "log all that was shown: clicks alone have no click rates"
    return Assumption(*about, "found", share, says, advice)


def clicked_lists(rows: ClickRows) -> Assumption:
    """Find a log that has only lists with a click.

    Were clicks independent, of N sessions with c_k clicks at rank k
    N prod (1 - c_k / N) would have none.
    """
    about = ("clicked_lists", "only lists with a click were kept")
    sessions, clicks = rows.n_sessions, rows.by_rank(rows.clicks)
    least = sessions - int(clicks.sum())  # without context, as many at least
    number = sessions_without_click(rows) if rows.has_context else max(least, 0)
    if number > 0:
        more = "" if rows.has_context else " at least"
        says = f"{number:,} of {sessions:,} lists have no click{more}"
        return Assumption(*about, "not found", number, says)
    if not rows.has_context:
        return Assumption(*about, "unknown", None, NO_CONTEXT, COUNT_CONTEXT)
    expected = sessions * float(np.prod(1 - np.minimum(clicks / sessions, 1)))
    says = (
        f"none of {sessions:,} lists is without a click, where independent clicks "
        f"would leave some {expected:,.0f}"
    )
    p = float(np.exp(-expected))
    if p >= LEVEL:
        return Assumption(*about, "unknown", 0, says, p=p)
    says += "; click rates are conditional on that, and too high"
    advice = "keep lists without a click too"
    return Assumption(*about, "found", 0, says, advice, p)


def dependent_clicks(rows: ClickRows) -> Assumption:
    """Test whether clicks depend on the clicks above, given the list."""
    about = (DEPENDENT, "clicks depend on the clicks above")
    test = independence_test(rows)
    if test is None:
        why, advice = "too few documents were clicked both ways", ""
        if not rows.has_context:
            why, advice = NO_CONTEXT, COUNT_CONTEXT
        return Assumption(*about, "unknown", None, why, advice)
    parts = []
    if test.above is not None:
        more = f"after a click above {_times(test.above)} as often as after none"
        parts.append(f"{more}, at {test.above.strata:,} documents and ranks")
    if test.near is not None:
        more = f"{_times(test.near)} as often as after one further up"
        parts.append(f"after a click right above {more}")
    says = f"the same documents at the same ranks are clicked {'; '.join(parts)}"
    number = test.above.ratio if test.above else None
    advice = (
        "affine by rank would be wrong: counts keep the last click above, and users "
        "are estimated by rank and last click where that predicts clicks better"
    )
    return _tested(about, test.p, number, says, advice)


def moved_relevance(rows: ClickRows, ranker: Ints | None) -> Assumption:
    """Test whether rankers moved documents because their relevance had changed.

    A document that a ranker places higher than others do must not be clicked more at
    one and the same rank (after the same last click above).

    Args:
        rows: Clicks by ranker, or by period.
        ranker: ``[n_rows]`` its number, from 0; ``None`` where it was not counted.
    """
    about = ("moved_relevance", "documents moved because their relevance changed")
    if ranker is None or not ranker.any():
        why = "the log is of one ranker, or does not name them"
        return Assumption(*about, "unknown", None, why, "name rankers or periods")
    _, by = np.unique(joint(rows.doc, ranker), return_inverse=True)
    shown, place = rows.impressions, rows.impressions * rows.rank
    own = (np.bincount(by, place) / np.bincount(by, shown))[by]
    mean = (rows.by_doc(place) / np.maximum(rows.by_doc(shown), 1))[rows.doc]
    higher = own < mean - CLEARLY
    found = contrast(rows, higher, rows.context)
    if found is None:
        why = "too few documents were shown at one rank by rankers that differ on them"
        return Assumption(*about, "unknown", None, why)
    says = (
        "by the ranker that places it higher, a document is clicked "
        f"{_times(found)} as often at the same rank, over {found.strata:,} of them"
    )
    advice = "estimate from one ranker or period, or from swaps at random"
    return _tested(about, found.p, found.ratio, says, advice)


def rank_status(estimate: Estimate) -> list[Status] | None:
    r"""Return how far clicks determine alpha of each pool; ``None`` without bands.

    Alpha half or twice as large lowers the profile likelihood by
    :math:`\frac12 (\log 2 \cdot \alpha_k / \mathrm{se}_k)^2`, to second order. *yes*:
    that would be noticed at 5 % over all pools (Bonferroni); *partly*: at 5 % for this
    one alone, or only because the pool leans on others; *no*: not even so.
    """
    bands = estimate.inference
    if not bands.known:
        return None
    z = np.log(2) * np.abs(bands.alpha) / np.maximum(bands.alpha_error, 1e-300)
    alone, together = stats.norm.isf(np.array([LEVEL, LEVEL / len(z)]) / 2)
    leans_on_others = np.isin(estimate.pools.names, estimate.weak_ranks)
    return [
        "no" if far < alone else "partly" if leans or far < together else "yes"
        for far, leans in zip(z, leans_on_others, strict=True)
    ]


def unidentified_ranks(estimate: Estimate | None) -> Assumption:
    """Find ranks whose alpha clicks do not determine."""
    about = (UNIDENTIFIED, "a rank is not determined by clicks")
    status = None if estimate is None else rank_status(estimate)
    if estimate is None or status is None:
        why = "there is no estimate with bands to look at"
        return Assumption(*about, "unknown", None, why)
    weak = [n for n, s in zip(estimate.pools.names, status, strict=True) if s == "no"]
    if not weak:
        says = "alpha half or twice as large would be noticed at every rank"
        if estimate.weak_ranks:
            leaning = ", ".join(estimate.weak_ranks)
            says += f"; what is known at {leaning} leans on the other ranks"
        return Assumption(*about, "not found", 0, says)
    says = f"alpha could be half or twice as large, unnoticed, at {', '.join(weak)}"
    advice = "swap documents there, log for longer, or give features"
    return Assumption(*about, "found", len(weak), says, advice)


def _tested(
    about: tuple[str, str], p: float, number: float | None, says: str, advice: str
) -> Assumption:
    """Return what a test says, with advice where it found something."""
    if p < LEVEL:
        return Assumption(*about, "found", number, says, advice, p)
    return Assumption(*about, "not found", number, says, p=p)


def _times(found: Contrast) -> str:
    return "infinitely" if found.ratio is None else f"{found.ratio:.2f} times"
