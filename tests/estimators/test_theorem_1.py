"""Theorem 1 of the paper, in exact fractions: no propensity removes trust bias.

One query has two documents, each shown at a rank of its own. Weighting clicks by
propensities rho gives them the expected values

    e_i(g) = theta_i (eps-_i + (eps+_i - eps-_i) g) / rho_i,        i = 1, 2

for relevance g, and the larger value is ranked first. A ranking by relevance would rank
the larger g first. Under trust bias, where eps-_i / eps+_i differs between the ranks,
there are always two relevances that such an estimate ranks the wrong way round.
"""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

Pair = tuple[Fraction, Fraction]
HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)

shares = st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50)
propensities = st.fractions(Fraction(1, 100), 10, max_denominator=100)


@st.composite
def two_ranks(draw: st.DrawFn, *, trust_bias: bool) -> tuple[Pair, Pair, Pair]:
    """Theta, eps+ and eps- of two ranks; eps- over eps+ is the same, or is not."""
    first = draw(st.integers(1, 49))
    second = (first + draw(st.integers(1, 48)) - 1) % 49 + 1 if trust_bias else first
    theta = (draw(shares), draw(shares))
    plus = (draw(shares), draw(shares))
    minus = (plus[0] * Fraction(first, 50), plus[1] * Fraction(second, 50))
    return theta, plus, minus


def lines(click_model: tuple[Pair, Pair, Pair], rho: Pair) -> tuple[Pair, Pair]:
    """Intercepts and slopes of the expected values e_1 and e_2."""
    theta, plus, minus = click_model
    base = [theta[i] * minus[i] / rho[i] for i in (0, 1)]
    slope = [theta[i] * (plus[i] - minus[i]) / rho[i] for i in (0, 1)]
    return (base[0], base[1]), (slope[0], slope[1])


def misranked(base: Pair, slope: Pair) -> Pair:
    """Two relevances in (0, 1) that two different lines rank the wrong way round.

    Equally relevant documents should have equal values. Two lines that differ are equal
    at one relevance at most, so at 1/2 or at 1/4 one document is ahead of its equal.
    The other one deserves to be first as soon as it is the least bit more relevant, and
    does not get there before its own line has made up the lead: half of that is wrong.
    """

    def lead(g: Fraction) -> Fraction:
        return base[0] + slope[0] * g - base[1] - slope[1] * g

    g = HALF if lead(HALF) else QUARTER
    behind = 1 if lead(g) > 0 else 0
    more = min(abs(lead(g)) / slope[behind], 1 - g) / 2
    return (g, g + more) if behind else (g + more, g)


@given(
    click_model=two_ranks(trust_bias=True), rho=st.tuples(propensities, propensities)
)
def test_every_propensity_prefers_a_wrong_document_under_trust_bias(
    click_model: tuple[Pair, Pair, Pair], rho: Pair
) -> None:
    base, slope = lines(click_model, rho)
    assert (base, slope) != (base[::-1], slope[::-1])
    relevance = misranked(base, slope)
    assert all(0 < g < 1 for g in relevance)
    value = [base[i] + slope[i] * relevance[i] for i in (0, 1)]
    assert (relevance[0] - relevance[1]) * (value[0] - value[1]) < 0


@given(click_model=two_ranks(trust_bias=False), relevance=st.tuples(shares, shares))
def test_without_trust_bias_one_propensity_is_right_for_all_documents(
    click_model: tuple[Pair, Pair, Pair], relevance: Pair
) -> None:
    theta, plus, _ = click_model
    base, slope = lines(click_model, (theta[0] * plus[0], theta[1] * plus[1]))
    value = [base[i] + slope[i] * relevance[i] for i in (0, 1)]
    difference = relevance[0] - relevance[1]
    assert (value[0] - value[1]) * difference > 0 or difference == 0 == value[
        0
    ] - value[1]
