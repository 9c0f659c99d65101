"""Exposure in counts: weights are unbiased over all lists and all clicks, exact."""

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from tests.halves import halves

from affinerank.clicks.exposure import with_exposure
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.policies.plackett_luce import PlackettLuce
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import join_counts
from affinerank.estimators import (
    ClipOptions,
    Evidence,
    Weights,
    intervention_aware,
    policy_aware,
)
from affinerank.support.arrow import pa
from affinerank.support.errors import ConfigError, DataError

CLICK_MODEL = TrustModel.from_zeta([0.9, 0.5], [0.4, 0.1])
RELEVANCE = np.array([0.9, 0.3, 0.6])
SCORES = np.array([1.0, 0.0, -0.5])
POLICY = PlackettLuce(temperature=0.8)
TABLE = pa.table({"query_id": [7] * 3, "doc_id": [0, 1, 2], "score": SCORES})


def sessions() -> list[tuple[float, list[tuple[int, int, int]]]]:
    """What a session may be: its chance, and document, rank and click of each."""
    rates, found = np.exp(SCORES / 0.8), []
    for docs in permutations(range(3), 2):
        chance = rates[docs[0]] / rates.sum()
        chance *= rates[docs[1]] / (rates.sum() - rates[docs[0]])
        p = CLICK_MODEL.click_probability([1, 2], RELEVANCE[list(docs)])
        for clicks in product((0, 1), repeat=2):
            both = np.prod(np.where(clicks, p, 1 - p))
            found.append((chance * both, list(zip(docs, (1, 2), clicks, strict=True))))
    return found


def counted(events: list[tuple[int, int, int]], number: int) -> ClickCounts:
    cells = sorted({(d, k) for d, k, _ in events})
    clicks = [[c for d, k, c in events if (d, k) == cell] for cell in cells]
    return ClickCounts.from_columns(
        query_id=[7] * len(cells),
        doc_id=[d for d, _ in cells],
        rank=[k for _, k in cells],
        impressions=[len(each) for each in clicks],
        clicks=[sum(each) for each in clicks],
        sessions=[number] * len(cells),
    )


def weigh(counts: ClickCounts, by: Any) -> Weights:
    return by.weigh(Evidence(join_counts(counts), CLICK_MODEL, options=ClipOptions()))  # type: ignore[no-any-return]


@pytest.mark.parametrize("by", [policy_aware, intervention_aware])
def test_a_named_policy_is_unbiased_for_documents_it_did_not_show_too(by: Any) -> None:
    total, mean, unshown = 0.0, np.zeros(3), 0
    for first, second in product(sessions(), repeat=2):
        chance = first[0] * second[0]
        counts = counted(first[1] + second[1], 2)
        found = weigh(with_exposure(counts, TABLE, [POLICY], 2), by)
        assert found.known.all()
        assert np.all(found.variance > 0)
        unshown += len({d for d, _, _ in first[1] + second[1]}) < 3
        total += chance
        mean += chance * found.weight
    assert unshown
    assert total == pytest.approx(1.0)
    np.testing.assert_allclose(mean, RELEVANCE, atol=1e-12)


def test_counts_of_parts_add_up_to_counts_of_the_whole() -> None:
    one, two = [(0, 1, 1), (2, 2, 0)], [(1, 1, 0), (0, 2, 1)]
    add = [with_exposure(counted(part, 1), TABLE, [POLICY], 2) for part in (one, two)]
    whole = with_exposure(counted(one + two, 2), TABLE, [POLICY], 2)
    both = add[0] + add[1]
    plain, rest = (t.table.drop_columns("exposure") for t in (both, whole))
    assert plain.equals(rest)
    exposure = [np.asarray(counts.table["exposure"]) for counts in (both, whole)]
    np.testing.assert_allclose(exposure[0], exposure[1])
    np.testing.assert_allclose(exposure[1].sum(), 2 * 2)  # sessions times ranks
    parts = halves(whole, rng=np.random.default_rng(0))
    for half in parts:
        np.testing.assert_allclose(np.asarray(half.table["exposure"]).sum(), 2.0)


def test_rankers_have_exposure_of_their_own() -> None:
    one = with_exposure(counted([(0, 1, 1), (2, 2, 0)], 1), TABLE, [POLICY], 2)
    other = with_exposure(counted([(0, 1, 0), (1, 2, 0)], 1), TABLE, [], 2)
    both = one.labelled("ranker", "a") + other.labelled("ranker", "b")
    merged = both.merged("ranker")
    # The other ranker's list is fixed: 0, 1.
    chances = join_counts(one).exposure
    assert chances is not None
    expected = np.zeros((3, 2))
    expected[chances.doc, chances.rank - 1] = chances.chance / 2
    expected[[0, 1], [0, 1]] += 0.5
    for counts in (both, merged):
        found = join_counts(counts).exposure
        assert found is not None
        by_rank = np.zeros((3, 2))
        by_rank[found.doc, found.rank - 1] = found.chance
        np.testing.assert_allclose(by_rank, expected)


def test_what_the_policy_never_shows_is_rejected() -> None:
    counts = counted([(0, 1, 1), (3, 2, 0)], 1)
    with pytest.raises(DataError, match="doc_id 3, rank 2: shown, but"):
        with_exposure(counts, TABLE, [POLICY], 2)
    several = counted([(0, 1, 1)], 1).labelled("ranker", "a")
    several += counted([(0, 1, 1)], 1).labelled("ranker", "b")
    with pytest.raises(ConfigError, match="one ranker"):
        with_exposure(several, TABLE, [POLICY], 2)
