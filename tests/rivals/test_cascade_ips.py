"""Cascade propensities against the enumerated sessions of dependent clicks."""

from itertools import product

import numpy as np
import pytest

from affinerank.counts.rows import ClickRows
from affinerank.pipeline.steps.weighing import weigh
from affinerank.rivals.cascade_ips import stay_rates
from affinerank.support.errors import AffineRankWarning

STAY = 0.4
ATTRACTION = {0: (0.5, 0.2, 0.9, 0.3), 1: (0.1, 0.8, 0.6, 0.7)}


def expected_rows() -> ClickRows:
    """Expected counts by rank and last click above: every session is enumerated."""
    found: dict[tuple[int, int, int], np.ndarray] = {}
    for query, attraction in ATTRACTION.items():
        for wants in product((0, 1), repeat=4):
            pairs = zip(attraction, wants, strict=True)
            chance = np.prod([a if w else 1 - a for a, w in pairs])
            _read_on(found, query, wants, float(chance), rank=1, last=0, reads=True)
    keys = np.array(list(found))
    counts = 1000 * np.array(list(found.values()))
    doc = 4 * keys[:, 0] + keys[:, 1] - 1
    return ClickRows(
        doc=doc,
        rank=keys[:, 1],
        context=keys[:, 2],
        impressions=counts[:, 0],
        clicks=counts[:, 1],
        query_of_doc=np.repeat([0, 1], 4),
        sessions=np.full(2, 1000.0),
        has_context=True,
    )


def _read_on(
    found: dict[tuple[int, int, int], np.ndarray],
    query: int,
    wants: tuple[int, ...],
    chance: float,
    rank: int,
    last: int,
    reads: bool,
) -> None:
    if rank > len(wants):
        return
    clicked = bool(reads and wants[rank - 1])
    total = found.setdefault((query, rank, last), np.zeros(2))
    total += chance * np.array([1.0, clicked])
    if not clicked:
        _read_on(found, query, wants, chance, rank + 1, last, reads)
        return
    for stays, part in ((True, STAY), (False, 1 - STAY)):
        _read_on(found, query, wants, chance * part, rank + 1, rank, stays)


def test_weights_are_the_attraction_of_documents_over_all_sessions() -> None:
    weights = weigh(expected_rows(), f"cascade-ips(stay={STAY})")
    expected = [*ATTRACTION[0], *ATTRACTION[1]]
    np.testing.assert_allclose(weights.weight, expected, rtol=1e-12)
    naive = weigh(expected_rows(), "naive").weight
    assert naive[3] < 0.15  # half of 0.3 is lost below


def test_stay_rates_are_one_less_the_share_of_last_clicks() -> None:
    # After a click at rank 3 of query 0 (1): the user goes on and wants rank 4.
    rates = stay_rates(expected_rows())
    rows = expected_rows()
    third = [rows.clicks[(rows.rank == 3) & (rows.query == q)].sum() for q in (0, 1)]
    followed = STAY * (third[0] * 0.3 + third[1] * 0.7)
    assert rates[3] == pytest.approx(followed / sum(third), rel=1e-12)
    assert rates[4] == 0


def test_counts_without_clicks_above_are_not_corrected_and_say_so() -> None:
    rows = expected_rows().merged()
    with pytest.warns(AffineRankWarning, match="--context last-click"):
        found = weigh(rows, "cascade-ips")
    np.testing.assert_allclose(found.weight, weigh(rows, "naive").weight)


def test_a_share_that_is_none_is_rejected() -> None:
    with pytest.raises(Exception, match="stay must be from 0 to 1"):
        weigh(expected_rows(), "cascade-ips(stay=2)")
