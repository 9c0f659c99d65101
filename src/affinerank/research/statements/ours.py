"""What we say of the default estimator, fixed before it was measured at full size.

Each statement is about a gap: how far the default estimator is below a rival on the
same clicks. Every statement is made twice: of known users, and of users estimated by
the default method from the same clicks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from affinerank.clicks.policies import fixed
from affinerank.clicks.traffic import Traffic
from affinerank.defaults import BASELINE, CLIP, CORRECTION, ESTIMATOR, LABELS, METHOD
from affinerank.estimators import bayes_ips, direct, ips
from affinerank.research.cells import PRODUCTION, TRUE
from affinerank.research.curves import Panel, Summary, mean_of_known
from affinerank.research.results import Result
from affinerank.research.statements.paper import (
    Evaluated,
    Finding,
    Statement,
    as_in_the_paper,
    evaluator,
)
from affinerank.support.arrays import Floats
from affinerank.support.settings import EntrySpec

LEVEL = 0.05  # of tests at each point, one-sided, corrected by Holm
TOP, TOP_CLICKS = 5, 1e5  # documents shown, and clicks, of the statement on cutoffs
CLIPPED = f"{CORRECTION}(clip={CLIP})"
LEARNT = (BASELINE, ips.ROW.name, bayes_ips.ROW.name, CORRECTION, CLIPPED)
RIVALS = ((PRODUCTION, None), *((name, TRUE) for name in (*LEARNT, direct.ROW.name)))


def check_our_statements(results: Sequence[Result]) -> list[tuple[Statement, Finding]]:
    """Check our statements against results of the paper's users and network."""
    return evaluator(OURS, [r for r in results if as_in_the_paper(r.cell, policy=None)])


# Gaps, [n_panels, n_counts, n_runs]: how far the default estimator is below a rival.


def _full_lists(panel: Panel) -> bool:
    return panel.policy == fixed.ROW.name


def _mild(panel: Panel) -> bool:
    return _full_lists(panel) and panel.settings.eta == 1.0


def _top(panel: Panel) -> bool:
    return Traffic.of(EntrySpec.parse(panel.policy)).top_k == TOP


def _gap(
    summary: Summary,
    click_model_from: str,
    rival: Floats,
    keep: Callable[[Panel], bool] = _full_lists,
) -> Floats:
    """Gap to the values of a rival; NaN in panels that do not count."""
    kept = [[[keep(panel)]] for panel in summary.panels]
    return np.where(kept, rival - summary.runs(ESTIMATOR, click_model_from), np.nan)


def below(
    summary: Summary, click_model_from: str, estimator: str, known: str | None
) -> Floats:
    """Gap to one rival where whole lists are shown."""
    return _gap(summary, click_model_from, summary.runs(estimator, known))


def regret(summary: Summary, click_model_from: str) -> Floats:
    """Gap to the rival of the highest mean, where all were measured."""
    gaps = np.stack([below(summary, click_model_from, *rival) for rival in RIVALS])
    best = np.argmax(np.nan_to_num(mean_of_known(gaps)), axis=0)
    gap = np.take_along_axis(gaps, best[None, :, :, None], axis=0)[0]
    return np.asarray(gap + 0.0 * gaps.sum(axis=0))  # NaN where one is


def below_tenfold(summary: Summary, click_model_from: str) -> Floats:
    """Gap to affine that learnt from ten times the clicks, and knew the users."""
    rival = np.full_like(affine := summary.runs(CORRECTION), np.nan)
    for i, clicks in enumerate(summary.counts):
        if 10 * clicks in summary.counts:
            rival[:, i] = affine[:, summary.counts.index(10 * clicks)]
    return _gap(summary, click_model_from, rival)


def at_most_clicks(gap: Floats) -> Floats:
    """Gap at the most clicks of all; a panel that has not come to them has none."""
    at = np.arange(gap.shape[1])[:, None]
    return np.where(at == gap.shape[1] - 1, gap, np.nan)


def below_labels(summary: Summary, click_model_from: str) -> Floats:
    """Gap to full information at the most clicks, eta = 1."""
    return at_most_clicks(
        _gap(summary, click_model_from, summary.runs(LABELS, None), _mild)
    )


def below_affine_on_top(summary: Summary, click_model_from: str) -> Floats:
    """Gap to affine with few documents shown."""
    gap = _gap(summary, click_model_from, summary.runs(CORRECTION), _top)
    gap[:, [clicks != TOP_CLICKS for clicks in summary.counts]] = np.nan
    return gap


# Verdicts


def small(
    gaps: Floats,
    summary: Summary,
    at_most: float,
    each: bool = True,
    bar: float | None = None,
) -> Evaluated:
    """Require a small mean over points, and no point significantly above ``bar``."""
    means = mean_of_known(gaps)
    if not each:  # a lead over the best makes up for no gap elsewhere
        means = np.maximum(means, 0.0)
    sets = [panel.data if each else "all" for panel in summary.panels]
    parts = {d: means[[name == d for name in sets]] for d in dict.fromkeys(sets)}
    values = {d: np.nanmean(m) for d, m in parts.items() if np.isfinite(m).any()}
    text = ", ".join(f"{value:+.4f} ({name})" for name, value in values.items())
    held, text = bool(max(values.values()) <= at_most), f"mean gap {text}"
    if bar is not None:
        p, place = _least_p(gaps, summary, bar)
        held = held and p > LEVEL
        text += f"; least p of a gap above {bar:g}: {p:.2g} ({place})"
    return held, text


def _least_p(gaps: Floats, summary: Summary, bar: float) -> tuple[float, str]:
    """Return the smallest p over points, corrected, and where it is."""
    places, p = [], []
    for i, j in np.argwhere(np.isfinite(gaps).any(axis=2)):
        own = gaps[i, j][np.isfinite(gaps[i, j])]
        spread = len(own) > 1 and np.ptp(own) > 0
        test = stats.ttest_1samp(own, bar, alternative="greater") if spread else None
        p.append(float(test.pvalue) if test else 1.0)
        places.append(f"{summary.panels[i].title}, {summary.counts[j]:g} clicks")
    least = int(np.argmin(p))
    return min(len(p) * p[least], 1.0), places[least]  # Holm's for the smallest


# The statements, each of known users and of estimated ones.


def _said(
    text: str, rule: str, gap: Callable[..., Floats], **bounds: Any
) -> list[Statement]:
    if "bar" in bounds:
        rule += f"; no point's gap is significantly above {bounds['bar']:g} (paired "
        rule += f"over runs, one-sided t, p {LEVEL:g}, Holm)"
    evaluated = partial(small, **bounds)
    return [
        Statement(
            f"{text}, users {word}.",
            rule,
            partial(gap, click_model_from=click_model_from),
            evaluated,
        )
        for word, click_model_from in (("known", TRUE), ("estimated", METHOD))
    ]


OURS: tuple[Statement, ...] = (
    *_said(
        "The posterior is at or near the best of production, naive, IPS, Bayes-IPS, "
        "affine, clipped affine and direct",
        "its mean regret, 0 where it leads, is at most 0.005",
        regret,
        at_most=0.005,
        each=False,
        bar=0.01,
    ),
    *(
        statement
        for name, known in ((BASELINE, TRUE), (PRODUCTION, None))
        for statement in _said(
            f"The posterior ranks better than {name}",
            "its mean lead is above 0 on each data set",
            partial(below, estimator=name, known=known),
            at_most=0.0,
            bar=0.0,
        )
    ),
    *_said(
        "The posterior needs a tenth of the clicks of affine",
        "with N clicks it is on average not below affine with 10 N on each data set",
        below_tenfold,
        at_most=0.0,
    ),
    *_said(
        "The posterior loses nothing where clicks are many",
        "at the most clicks it is at most 0.003 below affine on each data set",
        lambda s, click_model_from: at_most_clicks(
            below(s, click_model_from, CORRECTION, TRUE)
        ),
        at_most=0.003,
    ),
    *_said(
        "The posterior approximates full information when position bias is mild",
        "at the most clicks, eta = 1, it is at most 0.01 below on each data set",
        below_labels,
        at_most=0.01,
    ),
    *_said(
        f"The posterior ranks better than affine where {TOP} documents are shown",
        f"at {TOP_CLICKS:g} clicks it is on average at least 0.03 above",
        below_affine_on_top,
        at_most=-0.03,
    ),
)
