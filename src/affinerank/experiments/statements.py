"""What the paper's section 7 says, each statement checked against the results.

Clicks are counted per training query, so that statements apply to smaller data too: the
paper's sets have about 20,000 queries, so 3e5 clicks are 15 per query, 1e6 about 50.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from affinerank.arrays import Floats
from affinerank.bias.em.method import ROWS as EM
from affinerank.clicks.models import trust
from affinerank.clicks.policies import fixed
from affinerank.estimators import affine, bayes_ips, full_information, ips, naive
from affinerank.experiments.coordinates import settings_of
from affinerank.experiments.results import Result
from affinerank.experiments.series import Panel, Summary
from affinerank.pipeline.worlds import TRUE, Cell
from affinerank.rankers import mlp
from affinerank.settings import Spec

SETTLED = 15.0  # clicks per query by which naive has converged: 3e5 in the paper
MANY = 55.0  # clicks per query: a little more than 1e6 in the paper
SAME = 0.01  # nDCG@10 that further clicks may add to what has converged
NEAR = 0.02  # nDCG@10 between rankers that are near each other
SLIGHT = 0.05  # nDCG@10 between rankers one of which is slightly worse
SHOWN = (0.35, 0.65)  # values of eps-_1 in the paper's figures
ACCURATE = 0.02  # mean absolute error of an accurate beta

OTHERS = (naive.ROW.name, ips.ROW.name, bayes_ips.ROW.name)
# Estimator and users; the last three are regression EM with the paper's activations.
NAIVE, IPS, BAYES, AFFINE = ((name, TRUE) for name in (*OTHERS, affine.ROW.name))
SOFT_MIN_MAX, SOFTMAX, SIGMOID = ((affine.ROW.name, row.name) for row in EM[:3])
FULL = (full_information.ROW.name, None)
Line = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a statement held, with its number; ``None``: it was not measured."""

    held: bool | None
    number: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the paper, and how it is checked against results.

    Attributes:
        text: What the paper says.
        rule: What must be so for it to hold.
        measure: Returns what the statement is about, ``[n_panels, ...]``; NaN where it
            was not measured.
        verdict: Judges that, if anything was measured.
    """

    text: str
    rule: str
    measure: Callable[[Summary], Floats]
    verdict: Callable[[Floats, Summary], Finding]


def judge_statements(results: Sequence[Result]) -> list[tuple[Statement, Finding]]:
    """Check every statement against results of the paper's users, policy and ranker."""
    summary = Summary([result for result in results if _as_in_the_paper(result.cell)])
    judged = []
    for statement in STATEMENTS:
        finding = Finding(None, "not measured")
        values = statement.measure(summary) if summary.panels else np.empty(0)
        if np.isfinite(values).any():
            finding = statement.verdict(values, summary)
        judged.append((statement, finding))
    return judged


def _as_in_the_paper(cell: Cell) -> bool:
    users = cell.click_model and settings_of("click_model", cell.click_model)
    return (
        (users is None or isinstance(users, trust.PaperUsers))
        and cell.policy in (None, fixed.ROW.name)
        and cell.ranker in (None, mlp.ROW.name)
    )


def allowed_p(panel: Panel) -> float:
    """Return the p that the paper reports for affine against the others in a panel."""
    exception = trust.PaperUsers(eta=1.0, eps_minus_1=0.35)
    mslr = panel.data.startswith("mslr")
    return 0.002 if mslr and panel.users == exception else 0.001


# What is measured: values by panel, and in it by clicks.


def _lead(summary: Summary, better: Line, worse: Line) -> Floats:
    """``[n_panels, n_counts]`` how far one line is above another."""
    return summary.means(*better) - summary.means(*worse)


def _mean(values: Floats) -> Floats:
    """``[n_panels]`` mean of what was measured."""
    count = np.isfinite(values).sum(axis=1)
    return np.where(count > 0, np.nansum(values, axis=1) / np.maximum(count, 1), np.nan)


def _ends(values: Floats, least: int = 1) -> Floats:
    """``[n_panels, 2]`` first and last of what was measured, if ``least`` were."""
    known = np.isfinite(values)
    first, last = known.argmax(axis=1), -1 - known[:, ::-1].argmax(axis=1)
    ends = np.take_along_axis(values, np.stack([first, last], axis=1), axis=1)
    return np.where(known.sum(axis=1, keepdims=True) >= least, ends, np.nan)


def _at_many(summary: Summary, values: Floats) -> Floats:
    """Values where clicks per query are many."""
    return np.where(summary.per_query > MANY, values, np.nan)


def naive_gain(summary: Summary) -> Floats:
    """What naive gains from clicks after it should have converged."""
    settled = summary.per_query >= SETTLED
    means = np.where(settled, summary.means(*NAIVE), np.nan)
    return np.diff(_ends(means, least=2), axis=1)


def below_full(
    summary: Summary, line: Line, least_eta: float = 0.0, most_eta: float = np.inf
) -> Floats:
    """How far a line is below full information at the most clicks, if many."""
    eta = np.array([panel.users.eta for panel in summary.panels])
    gaps = _ends(_at_many(summary, _lead(summary, FULL, line)))[:, 1]
    return np.where((least_eta <= eta) & (eta <= most_eta), gaps, np.nan)


def affine_lead(summary: Summary) -> Floats:
    """How far affine is above the best of the others, if all were measured."""
    others = [summary.means(name) for name in OTHERS]
    return np.asarray(summary.means(*AFFINE) - np.max(others, axis=0))


def lead_elsewhere(summary: Summary) -> Floats:
    """The same at the most clicks, for values of eps-_1 that the paper leaves out."""
    leads = _ends(_at_many(summary, affine_lead(summary)))[:, 1]
    shown = [panel.users.eps_minus_1 in SHOWN for panel in summary.panels]
    return np.where(shown, np.nan, leads)


def p_values(summary: Summary) -> Floats:
    """``[n_panels, others]`` p of affine at the most clicks; -p where it is lower."""
    p = np.full((len(summary.panels), len(OTHERS)), np.nan)
    many = np.isfinite(_at_many(summary, affine_lead(summary))).any(axis=1)
    for i in np.flatnonzero(many):
        for test in summary.tests(summary.panels[i]):
            if test.first in OTHERS:
                at = OTHERS.index(test.first)
                p[i, at] = np.copysign(test.p, -test.difference)
    return p


def clipping_gain(summary: Summary) -> Floats:
    """What clipping adds to affine at the fewest clicks."""
    names = {Spec.parse(point.place.estimator) for point in summary.points}
    clipped = [
        str(spec) for spec in names if spec.name == AFFINE[0] and spec.parameters
    ]
    gains = [_ends(_lead(summary, (name, TRUE), AFFINE))[:, 0] for name in clipped]
    return np.stack(gains, axis=1) if gains else np.empty(0)


def users_off(
    summary: Summary, line: Line, error: Callable[[Floats, Floats], Floats]
) -> Floats:
    """Mean over ranks of an error of estimated users, themselves means over runs."""
    off = np.full(len(summary.panels), np.nan)
    for one in summary.estimates:
        if one.users == line[1]:
            found = one.found.mean(axis=1)
            off[summary.panels.index(one.panel)] = np.mean(error(found, one.truth))
    return off


# Verdicts: whether what was found bears the statement out.


def smallest(values: Floats, summary: Summary, what: str, above: float) -> Finding:
    """Require that even the smallest value is above a bound."""
    value = np.nanmin(values)
    place = summary.panels[np.argwhere(values == value)[0, 0]].title
    return Finding(bool(value > above), f"smallest {what} {value:+.4f} ({place})")


def largest(values: Floats, summary: Summary, what: str, at_most: float) -> Finding:
    """Require that even the largest value is within a bound."""
    value = np.nanmax(values)
    place = summary.panels[np.argwhere(values == value)[0, 0]].title
    return Finding(bool(value <= at_most), f"largest {what} {value:+.4f} ({place})")


def signed(values: Floats, _: Summary, sign: int) -> Finding:
    """Require that every error has this sign."""
    low, high = np.nanmin(values), np.nanmax(values)
    held = low > 0 if sign > 0 else high < 0
    return Finding(bool(held), f"relative error from {low:+.0%} to {high:+.0%}")


def similar(values: Floats, _: Summary) -> Finding:
    """Require slightly lower values at the least, and the same at the most."""
    low, high = np.nanmin(values), np.nanmax(values)
    held = low >= -SLIGHT and high <= SAME
    return Finding(bool(held), f"from {low:+.4f} to {high:+.4f}")


def significant(values: Floats, summary: Summary) -> Finding:
    """Require a p as small as the paper reports, and affine above, everywhere."""
    allowed = np.array([[allowed_p(panel)] for panel in summary.panels])
    p, known = np.abs(values), np.isfinite(values)
    held = np.all((p <= allowed) & ~np.signbit(values) | ~known)
    place = summary.panels[np.argwhere(p == np.nanmax(p))[0, 0]].title
    return Finding(bool(held), f"largest p {np.nanmax(p):.2g} ({place})")


def narrowing(values: Floats, _: Summary) -> Finding:
    """Require a slight loss at the most clicks, and a larger one at the fewest."""
    few, many = values[np.isfinite(values[:, 0])].T
    text = f"gap {few.mean():.4f} at the fewest, {many.mean():.4f} at the most"
    return Finding(bool(many.max() <= SLIGHT and np.all(few > many)), text)


# The statements, those of one kind made alike.


def _higher(text: str, better: Line, worse: Line) -> Statement:
    return Statement(
        text,
        "its mean over clicks is higher in every setting",
        lambda s: _mean(_lead(s, better, worse)),
        partial(smallest, what="mean lead", above=0.0),
    )


def _alpha(text: str, line: Line, sign: int) -> Statement:
    side = "above" if sign > 0 else "below"
    return Statement(
        text,
        f"mean relative error at ranks 2 to 10 {side} 0 in every setting",
        lambda s: users_off(s, line, lambda a, true: a[0, 1:] / true[0, 1:] - 1),
        partial(signed, sign=sign),
    )


def _beta(text: str, line: Line) -> Statement:
    return Statement(
        text,
        f"mean absolute error at most {ACCURATE:g} in every setting",
        lambda s: users_off(s, line, lambda b, true: np.abs(b[1] - true[1])),
        partial(largest, what="mean absolute error", at_most=ACCURATE),
    )


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "The naive estimator has converged after 3e5 clicks.",
        f"from {SETTLED:g} clicks per query on it gains at most {SAME:g}",
        naive_gain,
        partial(largest, what="gain", at_most=SAME),
    ),
    _higher("IPS improves over the naive estimator.", IPS, NAIVE),
    _higher("Bayes-IPS improves over the naive estimator.", BAYES, NAIVE),
    _higher("Bayes-IPS consistently outperforms IPS.", BAYES, IPS),
    Statement(
        "A sizable gap remains between full information and Bayes-IPS everywhere.",
        f"at the most clicks it is above {SAME:g} in every setting",
        lambda s: below_full(s, BAYES),
        partial(smallest, what="gap", above=SAME),
    ),
    Statement(
        "Affine approximates full information when position bias is mild (eta = 1).",
        f"at the most clicks the gap is at most {NEAR:g}",
        lambda s: below_full(s, AFFINE, most_eta=1.0),
        partial(largest, what="gap", at_most=NEAR),
    ),
    Statement(
        "Affine has not converged under extreme position bias (eta = 2).",
        f"at the most clicks it is more than {SAME:g} below full information",
        lambda s: below_full(s, AFFINE, least_eta=2.0),
        partial(smallest, what="gap", above=SAME),
    ),
    Statement(
        "Affine outperforms the other estimators beyond 1e6 clicks.",
        f"it is above each of them wherever clicks per query are more than {MANY:g}",
        lambda s: _at_many(s, affine_lead(s)),
        partial(smallest, what="lead", above=0.0),
    ),
    Statement(
        "These improvements at the most clicks are significant (p <= 0.001; 0.002 on "
        "MSLR with eta = 1 and eps-_1 = 0.35).",
        "Student's t-test over runs, against each of the others",
        p_values,
        significant,
    ),
    Statement(
        "At few clicks affine is similar to the others or slightly lower.",
        f"at the fewest clicks it is at most {SLIGHT:g} below and {SAME:g} above the "
        "best other",
        lambda s: _ends(affine_lead(s))[:, 0],
        similar,
    ),
    Statement(
        "Soft-min-max outperforms the other activations at every number of clicks.",
        "it is above both in every setting and at every number of clicks",
        lambda s: np.stack(
            [_lead(s, SOFT_MIN_MAX, other) for other in (SOFTMAX, SIGMOID)], axis=1
        ),
        partial(smallest, what="lead", above=0.0),
    ),
    Statement(
        "Soft-min-max is close to the true values after 1e6 clicks.",
        f"the gap is at most {NEAR:g} wherever clicks per query are more than {MANY:g}",
        lambda s: _at_many(s, _lead(s, AFFINE, SOFT_MIN_MAX)),
        partial(largest, what="gap to true values", at_most=NEAR),
    ),
    Statement(
        "Softmax is decent with many clicks, and handles few less well.",
        f"its gap to true values is at most {SLIGHT:g} at the most clicks, and wider "
        "at the fewest",
        lambda s: _ends(_lead(s, AFFINE, SOFTMAX), least=2),
        narrowing,
    ),
    Statement(
        "Sigmoid performs poorest.",
        "its mean over clicks is below both others in every setting",
        lambda s: np.stack(
            [_mean(_lead(s, other, SIGMOID)) for other in (SOFT_MIN_MAX, SOFTMAX)],
            axis=1,
        ),
        partial(smallest, what="mean lead of the others", above=0.0),
    ),
    _alpha("Soft-min-max underestimates alpha, except at rank 1.", SOFT_MIN_MAX, -1),
    _alpha("Sigmoid underestimates alpha, except at rank 1.", SIGMOID, -1),
    _alpha("Softmax overestimates alpha, except at rank 1.", SOFTMAX, +1),
    _beta("Soft-min-max has accurate estimates of beta.", SOFT_MIN_MAX),
    _beta("Softmax has accurate estimates of beta.", SOFTMAX),
    Statement(
        "Sigmoid underestimates beta.",
        "mean relative error below 0 in every setting",
        lambda s: users_off(s, SIGMOID, lambda b, true: b[1] / true[1] - 1),
        partial(signed, sign=-1),
    ),
    Statement(
        "Results are consistent across values of eps-_1 (mentioned, not shown).",
        "affine is above the others at the most clicks for values that are not .35 "
        "or .65",
        lead_elsewhere,
        partial(smallest, what="lead", above=0.0),
    ),
    Statement(
        "Clipping may help affine at few clicks (suspected, not shown).",
        "clipped is above unclipped at the fewest clicks in every setting",
        clipping_gain,
        partial(smallest, what="gain at the fewest clicks", above=0.0),
    ),
)
