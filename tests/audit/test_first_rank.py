"""Documents that should come first: against arithmetic, and against the truth."""

from dataclasses import replace

import numpy as np
import pytest

from affinerank.audit import first_rank
from affinerank.audit.facts import facts_of
from affinerank.audit.first_rank import FirstRank, evaluate_first_rank
from affinerank.bias.pooling import RankPools
from affinerank.clicks.models.trust import TrustModel
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.support.arrays import Floats
from affinerank.support.progress import no_progress

pytestmark = pytest.mark.slow

World = tuple[ClickCounts, dict[tuple[str, str], float]]


def shown(
    doc: list[str], rank: list[int], n: list[int], clicks: list[int]
) -> ClickRows:
    """Rows of one query."""
    return join_counts(
        ClickCounts.from_columns(
            query_id=["q"] * len(doc),
            doc_id=doc,
            rank=rank,
            impressions=n,
            clicks=clicks,
        )
    )


def evaluated(
    rows: ClickRows, alpha: list[float], beta: list[float], variance: list[float]
) -> FirstRank:
    """Judge by users whose alpha, then beta, have these variances."""
    click_model = TrustModel(
        alpha=np.array(alpha), beta=np.array(beta), identified="relative"
    )
    pools = RankPools(np.arange(len(alpha)), rows.by_rank(rows.impressions))
    return evaluate_first_rank(rows, *click_model.at(rows), np.diag(variance), pools)


def test_documents_that_should_come_first_are_truly_better(world: World) -> None:
    counts, relevance = world
    facts = facts_of(counts, None, None, None, seed=0, progress=no_progress)
    found = facts.first
    assert found is not None
    names = zip(
        *(facts.ids[n].to_pylist() for n in ("query_id", "doc_id")), strict=True
    )
    truth = np.array([relevance[str(q), str(d)] for q, d in names])
    assert found.n_queries == 150
    better, stays = found.better, found.stays
    assert better.sum() >= 10
    assert stays.sum() >= 5
    assert not np.any(better & stays)
    wrong = truth[found.challenger] <= truth[found.first]
    assert wrong[better].mean() <= 0.1  # 5 % at most, of 10 or more
    best = np.zeros(facts.rows.n_queries)
    np.maximum.at(best, facts.rows.query_of_doc, truth)
    assert np.mean((best[found.query] > truth[found.first])[stays]) <= 0.1


def test_the_error_of_users_enters_by_the_slope_of_relevance() -> None:
    rows = shown(["a", "b", "b"], [1, 2, 1], [50, 40, 10], [20, 12, 5])
    click_model = TrustModel(
        alpha=np.array([1.0, 0.5]), beta=np.array([0.0, 0.1]), identified="relative"
    )
    pools = RankPools(np.array([0, 1]), np.array([60.0, 40.0]))

    def relevance(alpha: float, beta: float) -> float:
        return ((12 - 40 * beta) / alpha + 5 / 1.0) / 50

    slopes: Floats = first_rank._slopes(rows, *click_model.at(rows), pools).toarray()[1]
    step = 1e-6
    by_alpha = (relevance(0.5 + step, 0.1) - relevance(0.5 - step, 0.1)) / (2 * step)
    by_beta = (relevance(0.5, 0.1 + step) - relevance(0.5, 0.1 - step)) / (2 * step)
    assert slopes[[1, 3]] == pytest.approx([by_alpha, by_beta], rel=1e-6)
    sure = evaluated(rows, [1.0, 0.5], [0.0, 0.1], [0.0] * 4)
    unsure = evaluated(rows, [1.0, 0.5], [0.0, 0.1], [0.0, 0.01, 0.0, 0.04])
    assert sure.difference == pytest.approx([relevance(0.5, 0.1) - 20 / 50])
    added = 0.01 * by_alpha**2 + 0.04 * by_beta**2
    assert unsure.error**2 == pytest.approx(sure.error**2 + added)


def test_the_first_stays_only_if_it_beats_those_that_are_hardly_known() -> None:
    """Clicks speak against the third, but its alpha may be anything."""
    rows = shown(["a", "b", "c"], [1, 2, 3], [1000] * 3, [800, 600, 100])
    # slope -.1 / .5^2 = -.4, so an error of .8 for .2 - .8 = -.6
    found = evaluated(rows, [1.0, 1.0, 0.5], [0.0] * 3, [0.0, 0.0, 4.0, 0.0, 0.0, 0.0])
    assert found.challenger.tolist() == [2]
    assert found.difference / found.error == pytest.approx(-0.75, abs=0.01)
    assert found.stays.tolist() == [False]


@pytest.mark.parametrize(("rivals", "better"), [(1, True), (5, False)])
def test_the_best_of_many_has_to_be_better_by_more(rivals: int, better: bool) -> None:
    depth = rivals + 1
    clicks = [400, 441, 300, 300, 300, 300][:depth]
    rows = shown(
        list("abcdef"[:depth]), list(range(1, depth + 1)), [1000] * depth, clicks
    )
    found = evaluated(rows, [1.0] * depth, [0.0] * depth, [0.0] * 2 * depth)
    # z = .041 / sqrt(.24 / 1000 + .2465 / 1000) = 1.86: p = .03 for one, .16 for five
    assert found.difference / found.error == pytest.approx(1.86, abs=0.01)
    assert found.better.tolist() == [better]
    assert found.stays.tolist() == [False]


def test_a_query_is_judged_by_what_it_shows_first_most_often() -> None:
    rows = shown(["a", "b", "b", "c"], [1, 1, 2, 3], [30, 40, 20, 19], [9, 8, 4, 19])
    found = evaluated(rows, [1.0, 0.5, 0.2], [0.0] * 3, [0.0] * 6)
    assert (found.first.tolist(), found.challenger.tolist()) == ([1], [0])
    never_first = replace(rows, rank=rows.rank + 1)
    assert not len(evaluated(never_first, [1.0] * 4, [0.0] * 4, [0.0] * 8).query)
