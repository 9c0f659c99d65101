"""Known policies: expectations over all that sessions show and all clicks, exact."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.rows import ClickRows, ExpectedExposure
from affinerank.estimators import ClipOptions, Evidence, Weights, policy_aware
from affinerank.support.arrays import Floats
from affinerank.support.errors import DataError

CLICK_MODEL = TrustModel.from_zeta([0.9, 0.5], [0.4, 0.1])  # alpha .5 and .4
RELEVANCE = np.array([0.9, 0.3, 0.6])
# Lists of two out of three documents, and how often each is shown.
LISTS = {(0, 1): 0.7, (2, 0): 0.2, (1, 0): 0.1}
POLICY = np.array([[0.7, 0.3], [0.1, 0.7], [0.2, 0.0]])
SESSIONS = 2


def with_policy(rows: ClickRows, policy: Floats | None) -> ClickRows:
    """Note on rows P(shown at each rank) in a session, ``[n_docs, depth]``."""
    if policy is None:
        return rows
    doc, place = np.nonzero(policy)
    return replace(rows, exposure=ExpectedExposure(doc, place + 1, policy[doc, place]))


def weigh(rows: ClickRows, policy: Floats | None, clip: float | None = None) -> Weights:
    rows, options = with_policy(rows, policy), ClipOptions(clip)
    return policy_aware.weigh(Evidence(rows, CLICK_MODEL, options=options))


def sessions() -> list[tuple[float, list[tuple[int, int, int]]]]:
    """What may happen in a session: its chance; document, rank and click of each."""
    found = []
    for docs, share in LISTS.items():
        rates = CLICK_MODEL.click_probability([1, 2], RELEVANCE[list(docs)])
        for clicks in product((0, 1), repeat=2):
            chance = share
            for p, c in zip(rates, clicks, strict=True):
                chance *= p if c else 1 - p
            found.append((chance, list(zip(docs, (1, 2), clicks, strict=True))))
    return found


def rows_of(events: list[tuple[int, int, int]]) -> ClickRows:
    """Rows of all that happened, a query with no session besides."""
    cells = sorted({(doc, rank) for doc, rank, _ in events})
    seen = [[c for d, k, c in events if (d, k) == cell] for cell in cells]
    return ClickRows(
        doc=np.array([doc for doc, _ in cells]),
        rank=np.array([rank for _, rank in cells]),
        context=np.zeros(len(cells), dtype=np.int64),
        impressions=np.array([len(clicks) for clicks in seen], dtype=np.float64),
        clicks=np.array([sum(clicks) for clicks in seen], dtype=np.float64),
        query_of_doc=np.array([0, 0, 0, 1]),
        sessions=np.array([SESSIONS, 0.0]),
    )


WITH_OTHER = np.vstack([POLICY, [[0.5, 0.5]]])


def test_a_known_policy_is_unbiased_for_documents_that_were_never_shown_too() -> None:
    mean, square = np.zeros(3), np.zeros(3)
    for first, second in product(sessions(), repeat=2):
        chance = first[0] * second[0]
        found = weigh(rows_of(first[1] + second[1]), WITH_OTHER)
        assert found.known.tolist() == [True, True, True, False]
        assert np.all(found.variance[:3] > 0)
        mean += chance * found.weight[:3]
        square += chance * found.weight[:3] ** 2
    np.testing.assert_allclose(mean, RELEVANCE, atol=1e-12)
    # Clicks are binomial: a session clicks a document with the chance q.
    alpha, beta = POLICY @ CLICK_MODEL.alpha, POLICY @ CLICK_MODEL.beta
    q = alpha * RELEVANCE + beta
    variance = q * (1 - q) / SESSIONS / alpha**2
    np.testing.assert_allclose(square - mean**2, variance, rtol=1e-9)


def test_weights_are_the_written_out_sums() -> None:
    rows = rows_of([(0, 1, 1), (1, 2, 0), (0, 1, 1), (1, 2, 1)])
    found = weigh(rows, WITH_OTHER)
    alpha = 0.7 * 0.5 + 0.3 * 0.4, 0.1 * 0.5 + 0.7 * 0.4, 0.2 * 0.5
    beta = 0.7 * 0.4 + 0.3 * 0.1, 0.1 * 0.4 + 0.7 * 0.1, 0.2 * 0.4
    expected = (
        (2 / 2 - beta[0]) / alpha[0],
        (1 / 2 - beta[1]) / alpha[1],
        -beta[2] / alpha[2],
        0.0,
    )
    np.testing.assert_allclose(found.weight, expected)
    rate = 2.5 / 3
    assert found.variance[0] == pytest.approx(rate * (1 - rate) / 2 / alpha[0] ** 2)
    clipped = weigh(rows, WITH_OTHER, 0.2)
    np.testing.assert_allclose(clipped.weight[:2], expected[:2])
    assert clipped.weight[2] == pytest.approx(-beta[2] / 0.2)


def test_a_policy_that_did_as_it_said_gives_what_shares_of_sessions_give() -> None:
    rows = rows_of([(0, 1, 1), (1, 2, 0), (1, 1, 0), (0, 2, 1)])
    shares = np.array([[0.5, 0.5], [0.5, 0.5], [0, 0], [0, 0]])
    by_policy, by_shares = weigh(rows, shares), weigh(rows, None)
    np.testing.assert_allclose(by_policy.weight, by_shares.weight)
    np.testing.assert_array_equal(by_policy.known, by_shares.known)


def test_weights_move_with_the_gauge() -> None:
    a, t = 1.7, -0.4
    moved = TrustModel(
        alpha=a * CLICK_MODEL.alpha,
        beta=CLICK_MODEL.beta + t * CLICK_MODEL.alpha,
        identified="relative",
    )
    rows = rows_of([(0, 1, 1), (1, 2, 0), (1, 1, 0), (0, 2, 1)])
    for policy in (WITH_OTHER, None):
        plain = weigh(rows, policy)
        evidence = Evidence(with_policy(rows, policy), moved, options=ClipOptions())
        shifted, known = policy_aware.weigh(evidence), plain.known
        np.testing.assert_allclose(
            shifted.weight[known], (plain.weight[known] - t) / a, atol=1e-12
        )
        np.testing.assert_allclose(shifted.variance, plain.variance / a**2)


def test_what_the_policy_never_shows_is_rejected() -> None:
    never = WITH_OTHER * [[0], [1], [1], [1]]
    with pytest.raises(DataError, match="document 0 was shown at rank 1"):
        weigh(rows_of([(0, 1, 1), (1, 2, 0)]), never)
