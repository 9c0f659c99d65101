"""What the paper's section 7 says, each statement checked against the results.

Clicks are counted per training query, so that statements apply to smaller data too: the
paper's sets have about 20,000 queries, so 3e5 clicks are 15 per query, 1e6 about 50.

What is said of nDCG@10 is judged after the last epoch, as the paper trains, and after
the epoch that held-out clicks chose. What is said of alpha and beta is judged at all
ranks at which the paper's users differ, and at the first ten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from affinerank.bias.regression_em.method import ROWS as EM
from affinerank.clicks.models import trust
from affinerank.clicks.policies import fixed
from affinerank.estimators import affine, bayes_ips, full_information, ips, naive
from affinerank.rankers.networks import settings as mlp
from affinerank.research.cells import TRUE, Cell
from affinerank.research.coordinates import settings_of
from affinerank.research.curves import (
    RANKS,
    Panel,
    Summary,
    at_held_out_epoch,
    mean_of_known,
    method_of,
)
from affinerank.research.results import Result
from affinerank.support.arrays import Bools, Floats
from affinerank.support.settings import EntrySpec

SETTLED = 15.0  # clicks per query by which naive has converged: 3e5 in the paper
MANY = 55.0  # clicks per query: a little more than 1e6 in the paper
SAME = 0.01  # nDCG@10 that further clicks may add to what has converged
NEAR = 0.02  # nDCG@10 between rankers that are near each other
SLIGHT = 0.05  # nDCG@10 between rankers one of which is slightly worse
SHOWN = (0.35, 0.65)  # values of eps-_1 in the paper's figures
ACCURATE = 0.02  # mean absolute error of an accurate beta
SHALLOW = 10  # ranks that alpha and beta are judged at beside all ranks

OTHERS = (naive.ROW.name, ips.ROW.name, bayes_ips.ROW.name)
# Estimator and users; the last three are regression EM with the paper's activations.
NAIVE, IPS, BAYES, AFFINE = ((name, TRUE) for name in (*OTHERS, affine.ROW.name))
SOFT_MIN_MAX, SOFTMAX, SIGMOID = ((affine.ROW.name, row.name) for row in EM[:3])
FULL = (full_information.ROW.name, None)
Line = tuple[str, str | None]
Evaluated = tuple[bool, str]  # whether it held, and its number
Verdict = Callable[[Floats, Summary], Evaluated]
# What a statement is judged on: results after each epoch, or with networks that learnt
# anew from the users that an EM estimated; alpha and beta at more ranks, or fewer.
LAST, HELD_OUT, FRESH = "last epoch", "held-out epoch", "new networks"
RANK_VIEWS = (f"first {RANKS} ranks", f"first {SHALLOW} ranks")


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a statement.

    Attributes:
        verdict: ``held`` or ``failed``; ``held at the last epoch`` or the like if at
            one of two alone; ``None`` if it was not measured.
        numbers: What it goes by, one for each view.
    """

    verdict: str | None
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and how it is checked against results.

    Attributes:
        text: What is said.
        rule: What must be so for it to hold.
        measure: Returns what the statement is about, ``[n_panels, ...]``; NaN where it
            was not measured.
        verdict: Judges that, if anything was measured.
        views: What it is judged on; the first two decide.
    """

    text: str
    rule: str
    measure: Callable[[Summary], Floats]
    verdict: Verdict
    views: tuple[str, ...] = (LAST, HELD_OUT, FRESH)


def check_statements(results: Sequence[Result]) -> list[tuple[Statement, Finding]]:
    """Check every statement against results of the paper's users, policy and ranker."""
    return evaluator(STATEMENTS, [r for r in results if as_in_the_paper(r.cell)])


def evaluator(
    statements: Sequence[Statement], results: Sequence[Result]
) -> list[tuple[Statement, Finding]]:
    """Check statements against results, on every view of them."""
    last, early = Summary(results), Summary(at_held_out_epoch(results))
    views = {LAST: last, HELD_OUT: early, FRESH: Summary(_fresh(results))}
    views |= {RANK_VIEWS[0]: last, RANK_VIEWS[1]: Summary(results, SHALLOW)}
    return [(s, _found(s, {name: views[name] for name in s.views})) for s in statements]


def _found(statement: Statement, views: Mapping[str, Summary]) -> Finding:
    evaluated: dict[str, Evaluated] = {}
    for name, summary in views.items():
        values = statement.measure(summary) if summary.panels else np.empty(0)
        if np.isfinite(values).any():
            evaluated[name] = statement.verdict(values, summary)
    deciding = [name for name in statement.views[:2] if name in evaluated]
    if statement.views[0] not in deciding:
        return Finding(None)
    held = [name for name in deciding if evaluated[name][0]]
    verdict = "held" if held else "failed"
    if 0 < len(held) < len(deciding):
        verdict = f"held at the {held[0]}"
    prefix = "{0}: {1}" if len(evaluated) > 1 else "{1}"
    numbers = tuple(prefix.format(name, text) for name, (_, text) in evaluated.items())
    return Finding(verdict, numbers)


def _fresh(results: Sequence[Result]) -> list[Result]:
    """Return new networks, named as the EM that found their users, and affine."""
    named = [(r, *method_of(r.cell.click_model_from or TRUE)) for r in results]
    return [
        replace(r, cell=replace(r.cell, click_model_from=click_model_from))
        for r, click_model_from, fresh in named
        if fresh or (r.cell.estimator, click_model_from) == AFFINE
    ]


def as_in_the_paper(cell: Cell, policy: str | None = fixed.ROW.name) -> bool:
    """Whether users, ranker and policy are the paper's; ``None``: any policy."""
    click_model_from = cell.click_model and settings_of("click_model", cell.click_model)
    known = click_model_from is None or isinstance(
        click_model_from, trust.TrustSettings
    )
    shown = policy is None or cell.policy in (None, policy)
    return known and shown and cell.ranker in (None, mlp.ROW.name)


def allowed_p(panel: Panel) -> float:
    """Return the p that the paper reports for affine against the others in a panel."""
    exception = trust.TrustSettings(eta=1.0, eps_minus_1=0.35)
    mslr = panel.data.startswith("mslr")
    return 0.002 if mslr and panel.settings == exception else 0.001


# What is measured: values by panel, and in it by clicks.


def _lead(summary: Summary, better: Line, worse: Line) -> Floats:
    """``[n_panels, n_counts]`` how far one line is above another."""
    return summary.means(*better) - summary.means(*worse)


def _leads(summary: Summary, *pairs: tuple[Line, Line]) -> Floats:
    """Leads of several, side by side on the second axis."""
    return np.stack([_lead(summary, *pair) for pair in pairs], axis=1)


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
    summary: Summary, line: Line, min_eta: float = 0.0, most_eta: float = np.inf
) -> Floats:
    """How far a line is below full information at the most clicks, if many."""
    eta = np.array([panel.settings.eta for panel in summary.panels])
    gaps = _ends(_at_many(summary, _lead(summary, FULL, line)))[:, 1]
    return np.where((min_eta <= eta) & (eta <= most_eta), gaps, np.nan)


def affine_lead(summary: Summary) -> Floats:
    """How far affine is above the best of the others, if all were measured."""
    others = [summary.means(name) for name in OTHERS]
    return np.asarray(summary.means(*AFFINE) - np.max(others, axis=0))


def lead_elsewhere(summary: Summary) -> Floats:
    """The same at the most clicks, for values of eps-_1 that the paper leaves out."""
    leads = _ends(_at_many(summary, affine_lead(summary)))[:, 1]
    shown = [panel.settings.eps_minus_1 in SHOWN for panel in summary.panels]
    return np.where(shown, np.nan, leads)


def p_values(summary: Summary) -> Floats:
    """``[n_panels, others]`` p of affine at the most clicks; -p where it is lower."""
    p = np.full((len(summary.panels), len(OTHERS)), np.nan)
    many = np.isfinite(_at_many(summary, affine_lead(summary))).any(axis=1)
    for i in np.flatnonzero(many):
        tests = summary.tests(summary.panels[i])
        for at, name in enumerate(OTHERS):
            if test := tests.get(name):
                p[i, at] = np.copysign(test.p, -test.difference)
    return p


def clipping_gain(summary: Summary) -> Floats:
    """What clipping adds to affine at the fewest clicks."""
    specs = {EntrySpec.parse(point.place.estimator) for point in summary.points}
    clipped = [str(s) for s in specs if s.name == AFFINE[0] and s.parameters]
    gains = [_ends(_lead(summary, (name, TRUE), AFFINE))[:, 0] for name in clipped]
    return np.stack(gains, axis=1) if gains else np.empty(0)


def error_of_estimates(
    summary: Summary, line: Line, error: Callable[[Floats, Floats], Floats], first: int
) -> Floats:
    """``[n_panels]`` mean over ranks of an error of users, means over runs."""
    off = np.full(len(summary.panels), np.nan)
    for one in [one for one in summary.estimates if one.method == line[1]]:
        errors = error(one.found.mean(axis=1), one.truth)[first - 1 : summary.ranks]
        off[summary.panels.index(one.panel)] = np.mean(errors)
    return off


# Verdicts: whether what was found bears the statement out.


def bounded(number: str, *, above: float = -np.inf, at_most: float = np.inf) -> Verdict:
    """Require every value to be above one bound and within another."""

    def verdict(values: Floats, summary: Summary) -> Evaluated:
        low, high = np.nanmin(values), np.nanmax(values)
        lowest, highest = (_place(summary, values == end) for end in (low, high))
        text = number.format(low=low, high=high, lowest=lowest, highest=highest)
        return bool(above < low and high <= at_most), text

    return verdict


def _place(summary: Summary, found: Bools) -> str:
    return summary.panels[int(np.argwhere(found)[0, 0])].title


def significant(values: Floats, summary: Summary) -> Evaluated:
    """Require a p as small as the paper reports, and affine above, everywhere."""
    allowed = np.array([[allowed_p(panel)] for panel in summary.panels])
    p, known = np.abs(values), np.isfinite(values)
    held = np.all((p <= allowed) & ~np.signbit(values) | ~known)
    place = _place(summary, p == np.nanmax(p))
    return bool(held), f"largest p {np.nanmax(p):.2g} ({place})"


def narrowing(values: Floats, _: Summary) -> Evaluated:
    """Require a slight loss at the most clicks, and a larger one at the fewest."""
    few, many = values[np.isfinite(values[:, 0])].T
    text = f"gap {few.mean():.4f} at the fewest, {many.mean():.4f} at the most"
    return (bool(many.max() <= SLIGHT and np.all(few > many)), text)


# The statements, those of one kind made alike.


def _higher(text: str, better: Line, worse: Line) -> Statement:
    return Statement(
        text,
        "its mean over clicks is higher in every setting",
        lambda s: mean_of_known(_lead(s, better, worse)),
        bounded("smallest mean lead {low:+.4f} ({lowest})", above=0.0),
    )


def _sided(text: str, line: Line, row: int, side: str, first: int = 1) -> Statement:
    """Say that alpha (row 0) or beta (row 1) is ``above`` or ``below`` the truth."""
    above, at_most = (0.0, np.inf) if side == "above" else (-np.inf, 0.0)
    return Statement(
        text,
        f"mean relative error {side} 0 in every setting, {_windows(first)}",
        lambda s: error_of_estimates(
            s, line, lambda u, true: u[row] / true[row] - 1, first
        ),
        bounded("{low:+.0%} to {high:+.0%}", above=above, at_most=at_most),
        RANK_VIEWS,
    )


def _accurate(text: str, line: Line) -> Statement:
    return Statement(
        text,
        f"mean absolute error at most {ACCURATE:g} in every setting, {_windows(1)}",
        lambda s: error_of_estimates(
            s, line, lambda u, true: np.abs(u[1] - true[1]), 1
        ),
        bounded("{low:.4f} to {high:.4f}", at_most=ACCURATE),
        RANK_VIEWS,
    )


def _windows(first: int) -> str:
    return f"at ranks {first} to {RANKS} and {first} to {SHALLOW}"


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "The naive estimator has converged after 3e5 clicks.",
        f"from {SETTLED:g} clicks per query on it gains at most {SAME:g}",
        naive_gain,
        bounded("largest gain {high:+.4f} ({highest})", at_most=SAME),
    ),
    _higher("IPS improves over the naive estimator.", IPS, NAIVE),
    _higher("Bayes-IPS improves over the naive estimator.", BAYES, NAIVE),
    _higher("Bayes-IPS consistently outperforms IPS.", BAYES, IPS),
    Statement(
        "A sizable gap remains between full information and Bayes-IPS everywhere.",
        f"at the most clicks it is above {SAME:g} in every setting",
        lambda s: below_full(s, BAYES),
        bounded("smallest gap {low:+.4f} ({lowest})", above=SAME),
    ),
    Statement(
        "Affine approximates full information when position bias is mild (eta = 1).",
        f"at the most clicks the gap is at most {NEAR:g}",
        lambda s: below_full(s, AFFINE, most_eta=1.0),
        bounded("largest gap {high:+.4f} ({highest})", at_most=NEAR),
    ),
    Statement(
        "Affine has not converged under extreme position bias (eta = 2).",
        f"at the most clicks it is more than {SAME:g} below full information",
        lambda s: below_full(s, AFFINE, min_eta=2.0),
        bounded("smallest gap {low:+.4f} ({lowest})", above=SAME),
    ),
    Statement(
        "Affine outperforms the other estimators beyond 1e6 clicks.",
        f"it is above each of them wherever clicks per query are more than {MANY:g}",
        lambda s: _at_many(s, affine_lead(s)),
        bounded("smallest lead {low:+.4f} ({lowest})", above=0.0),
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
        bounded("from {low:+.4f} to {high:+.4f}", above=-SLIGHT, at_most=SAME),
    ),
    Statement(
        "Soft-min-max outperforms the other activations at every number of clicks.",
        "it is above both in every setting and at every number of clicks",
        lambda s: _leads(s, (SOFT_MIN_MAX, SOFTMAX), (SOFT_MIN_MAX, SIGMOID)),
        bounded("smallest lead {low:+.4f} ({lowest})", above=0.0),
    ),
    Statement(
        "Soft-min-max is close to the true values after 1e6 clicks.",
        f"the gap is at most {NEAR:g} wherever clicks per query are more than {MANY:g}",
        lambda s: _at_many(s, _lead(s, AFFINE, SOFT_MIN_MAX)),
        bounded("largest gap to true values {high:+.4f} ({highest})", at_most=NEAR),
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
        lambda s: mean_of_known(_leads(s, (SOFT_MIN_MAX, SIGMOID), (SOFTMAX, SIGMOID))),
        bounded("smallest mean lead of the others {low:+.4f} ({lowest})", above=0.0),
    ),
    *(
        _sided(f"{text} alpha, except at rank 1.", line, 0, side, first=2)
        for text, line, side in (
            ("Soft-min-max underestimates", SOFT_MIN_MAX, "below"),
            ("Sigmoid underestimates", SIGMOID, "below"),
            ("Softmax overestimates", SOFTMAX, "above"),
        )
    ),
    _accurate("Soft-min-max has accurate estimates of beta.", SOFT_MIN_MAX),
    _accurate("Softmax has accurate estimates of beta.", SOFTMAX),
    _sided("Sigmoid underestimates beta.", SIGMOID, 1, "below"),
    Statement(
        "Results are consistent across values of eps-_1 (mentioned, not shown).",
        "affine is above the others at the most clicks for values that are not .35 "
        "or .65",
        lead_elsewhere,
        bounded("smallest lead {low:+.4f} ({lowest})", above=0.0),
    ),
    Statement(
        "Clipping may help affine at few clicks (suspected, not shown).",
        "clipped is above unclipped at the fewest clicks in every setting",
        clipping_gain,
        bounded("smallest gain at the fewest clicks {low:+.4f} ({lowest})", above=0.0),
    ),
)
