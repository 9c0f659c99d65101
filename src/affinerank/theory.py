"""Theorem 1 of the paper, carried out: no propensity removes trust bias.

One query, two documents, the first shown at one rank and the second at another, and a
metric that looks at the top alone. An estimator that weights clicks by propensities
``rho`` prefers the document with the larger expected corrected click,

    (alpha_1 gamma_1 + beta_1) / rho_1    against    (alpha_2 gamma_2 + beta_2) / rho_2,

where the larger gamma should be preferred. Under trust bias (eps+_1 eps-_2 differs from
eps+_2 eps-_1) two relevances always exist for which it strictly prefers the wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from affinerank.errors import DataError


def ips_counterexample(
    theta: Sequence[Fraction],
    eps_plus: Sequence[Fraction],
    eps_minus: Sequence[Fraction],
    rho: Sequence[Fraction],
) -> tuple[Fraction, Fraction]:
    """Find relevances in (0, 1) that make IPS with ``rho`` prefer the wrong document.

    Along gamma_1 = gamma_2 = g the estimate should be indifferent. Its preference
    there, a line in g, is 0 everywhere only without trust bias: so it is off at some g,
    and raising the relevance of the document that it likes less, a little, keeps it
    wrong.

    Args:
        theta: Examination at the two ranks; so are the next three.
        eps_plus: Click rate of an examined relevant document.
        eps_minus: Click rate of an examined irrelevant document.
        rho: Propensities of the estimator, above 0.
    """
    t, p, m, r = ([Fraction(x) for x in xs] for xs in (theta, eps_plus, eps_minus, rho))
    slope = [t[i] * (p[i] - m[i]) / r[i] for i in (0, 1)]
    base = [t[i] * m[i] / r[i] for i in (0, 1)]
    if min(slope) <= 0:
        raise DataError("both ranks need alpha above 0")

    def preference(g: Fraction) -> Fraction:
        return slope[0] * g + base[0] - slope[1] * g - base[1]

    # The line has one zero at most, unless it is 0 everywhere: two points suffice.
    g = next((x for x in (Fraction(1, 2), Fraction(1, 4)) if preference(x) != 0), None)
    if g is None or p[0] * m[1] == p[1] * m[0]:
        raise DataError(
            "there is no counterexample for every propensity without trust bias: "
            "eps+_1 eps-_2 equals eps+_2 eps-_1"
        )
    ahead = preference(g)
    likes_less = 1 if ahead > 0 else 0
    step = min((1 - g) / 2, abs(ahead) / slope[likes_less] / 2)
    raised = [g, g]
    raised[likes_less] += step
    return raised[0], raised[1]
