"""Documents at several ranks: users recovered without features, ranks connected."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from affinerank.bias.documents import ClickRows, Documents, documents
from affinerank.bias.gauge import gauge_error
from affinerank.bias.interventions import (
    Interventions,
    connected_ranks,
    fit_interventions,
    moved_rows,
    overlap_of,
)
from affinerank.bias.level_mixture import MixtureSettings
from affinerank.bias.pooling import RankPools
from affinerank.clicks.usermodel import UserModel
from affinerank.errors import DataError

Floats = NDArray[np.float64]
DrawLog = Callable[..., tuple[ClickRows, Floats]]

PLUS, MINUS = [0.8, 0.6, 0.5, 0.4], [0.4, 0.2, 0.1, 0.06]
TRUTH = UserModel.from_zeta(PLUS, MINUS)


def fitted(rows: ClickRows, least_clicks: float = 200) -> Interventions:
    how = MixtureSettings(least_clicks)
    return fit_interventions(rows, rng=np.random.default_rng(0), settings=how)


def rows_at(*ranks_of_docs: tuple[int, ...]) -> ClickRows:
    """Thirty documents for each of the given places, in ten queries each."""
    doc: list[int] = []
    rank: list[int] = []
    for ranks in ranks_of_docs:
        for _ in range(30):
            number = doc[-1] + 1 if doc else 0
            doc += [number] * len(ranks)
            rank += list(ranks)
    numbers = np.array(doc)
    n = len(numbers)
    return ClickRows(
        numbers, numbers // 3, np.array(rank), np.full(n, 40.0), np.full(n, 20.0)
    )


def docs_of(rows: ClickRows, pools: RankPools) -> Documents:
    return documents(rows, pools)


def alone(depth: int) -> RankPools:
    return RankPools(np.arange(depth), np.ones(depth))


@pytest.mark.parametrize("seed", range(3))
def test_swapped_documents_give_users_back(draw_log: DrawLog, seed: int) -> None:
    rows, _ = draw_log(
        PLUS, MINUS, queries=150, impressions=20, swapped=True, seed=seed
    )
    found = fitted(rows)
    assert gauge_error(found.users, TRUTH, np.ones(4)).error < 0.05
    assert found.overlap.n_moved == found.overlap.n_docs == 600
    assert found.overlap.all_connected
    assert found.overlap.connected == ("ranks 1-4",)


def test_one_impression_at_each_of_two_ranks_says_something(draw_log: DrawLog) -> None:
    """As a share of what a useless estimate misses, 0.5, not much: but something."""
    rows, _ = draw_log(PLUS, MINUS, queries=3000, impressions=2, swapped=True)
    found = fitted(rows)
    assert gauge_error(found.users, TRUTH, np.ones(4)).error < 0.15


def test_documents_at_one_rank_are_left_out(draw_log: DrawLog) -> None:
    rows, _ = draw_log(PLUS, MINUS, queries=60, impressions=20, swapped=True)
    n = int(rows.doc.max()) + 1
    # More documents that never moved, with clicks that fit nothing.
    more = ClickRows(
        np.concatenate([rows.doc, n + np.arange(50)]),
        np.concatenate([rows.query, np.arange(50)]),
        np.concatenate([rows.rank, np.arange(50) % 4 + 1]),
        np.concatenate([rows.impressions, np.full(50, 100.0)]),
        np.concatenate([rows.clicks, np.full(50, 99.0)]),
    )
    np.testing.assert_allclose(fitted(more).users.alpha, fitted(rows).users.alpha)
    assert fitted(more).overlap.n_docs == n + 50
    assert fitted(more).overlap.n_moved == n


def test_the_same_stream_gives_the_same_users(draw_log: DrawLog) -> None:
    rows, _ = draw_log(PLUS, MINUS, swapped=True)
    a, b = fitted(rows), fitted(rows)
    np.testing.assert_array_equal(a.users.alpha, b.users.alpha)
    np.testing.assert_array_equal(a.users.beta, b.users.beta)


def test_ranks_are_connected_by_chains_of_enough_documents() -> None:
    """1-2 and 2-4 make a chain, 3-5 another one; 6 is alone, as is 5-6 with 29."""
    rows = rows_at((1, 2), (2, 4), (3, 5), (6,))
    docs = docs_of(rows, alone(6))
    group = connected_ranks(docs, 6)
    assert group[0] == group[1] == group[3]
    assert group[2] == group[4]
    assert len({int(group[0]), int(group[2]), int(group[5])}) == 3
    assert len(set(connected_ranks(docs, 6, least=31).tolist())) == 6
    found = overlap_of(rows, alone(6))
    assert found.connected == ("ranks 1-2, 4", "ranks 3, 5")
    assert (found.n_docs, found.n_moved) == (120, 90)
    assert not found.all_connected


def test_pooled_ranks_are_named_by_all_of_them() -> None:
    rows = rows_at((1, 2), (2, 4), (5,), (6,))
    pools = RankPools(np.array([0, 1, 1, 2, 3, 4]), np.ones(6))
    assert pools.names == ("1", "2-3", "4", "5", "6")
    found = overlap_of(rows, pools)
    assert found.connected == ("ranks 1-4",)
    # Moves inside a pool count as such, but connect nothing.
    inside = rows_at((2, 3), (5,))
    found = overlap_of(inside, pools)
    assert found.n_moved == 30
    assert found.connected == ()


def test_a_rank_without_impressions_moves_nobody() -> None:
    rows = ClickRows(
        np.array([0, 0, 1, 1]),
        np.zeros(4, dtype=np.int64),
        np.array([1, 2, 1, 3]),
        np.array([5.0, 0.0, 5.0, 5.0]),
        np.zeros(4),
    )
    assert moved_rows(rows).doc.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("places", "why"),
    [
        (
            ((1, 2), (3, 4)),
            "^60 of 60 documents were shown at several ranks, and that connects only "
            "ranks 1-2; ranks 3-4; .*connected by 30 documents.*another --method",
        ),
        (
            ((1,), (2,)),
            "^no document was shown at several ranks, so ranks cannot be compared: ",
        ),
        (((1, 2), (3,)), "^30 of 60 documents .* only ranks 1-2;"),
    ],
)
def test_ranks_that_nothing_connects_are_named(
    places: tuple[tuple[int, ...], ...], why: str
) -> None:
    with pytest.raises(DataError, match=why):
        fitted(rows_at(*places))


def test_documents_that_moved_in_one_query_only_are_refused() -> None:
    """They cannot be told apart from what is special about that query."""
    rows = rows_at((1, 2), (1,), (2,))
    moved = np.isin(np.arange(len(rows.doc)), np.arange(60))
    query = np.where(moved, 0, rows.query)
    rng = np.random.default_rng(0)
    rows = ClickRows(
        rows.doc,
        query,
        rows.rank,
        rows.impressions,
        rng.binomial(40, 0.3, len(query)).astype(float),
    )
    with pytest.raises(
        DataError, match=r"^the documents shown at several ranks are of 1 queries; "
    ):
        fitted(rows)


def test_what_no_method_can_use_is_refused_here_too() -> None:
    rows = rows_at((1, 2))
    none = ClickRows(
        rows.doc, rows.query, rows.rank, rows.impressions, np.zeros(len(rows.doc))
    )
    with pytest.raises(DataError, match="hold no clicks"):
        fitted(none)
    with pytest.raises(DataError, match="too few to tell ranks apart"):
        fitted(rows, least_clicks=1e6)


def test_a_rank_that_few_moved_documents_reached_is_pooled(draw_log: DrawLog) -> None:
    """All other documents' clicks at that rank say nothing here."""
    rows, _ = draw_log(PLUS, MINUS, queries=150, impressions=20, swapped=True)
    n = int(rows.doc.max()) + 1
    some, many = np.arange(150), np.arange(600)
    query_of = dict(zip(rows.doc.tolist(), rows.query.tolist(), strict=True))
    thin = ClickRows(
        np.concatenate([rows.doc, some, n + many]),
        np.concatenate([rows.query, [query_of[d] for d in some.tolist()], many // 4]),
        np.concatenate([rows.rank, np.full(750, 5)]),
        np.concatenate([rows.impressions, np.ones(150), np.full(600, 100.0)]),
        np.concatenate([rows.clicks, np.zeros(150), np.full(600, 5.0)]),
    )
    found = fitted(thin)
    assert found.pools.names == ("1", "2", "3", "4-5")
    assert found.users.alpha[4] == found.users.alpha[3]
