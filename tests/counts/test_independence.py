"""Do clicks depend on clicks above: arithmetic, exact laws, size and power."""

from typing import Any

import numpy as np
import pytest
from benchmarks.assumptions import Case, drawn
from scipy import stats

from affinerank.clicks.traffic import Simulation, Traffic
from affinerank.counts.independence import (
    contrast,
    independence_test,
    sessions_without_click,
)
from affinerank.counts.rows import ClickRows
from affinerank.data.sources import load
from affinerank.pipeline.simulate import prepare_simulation

pytestmark = pytest.mark.slow


def click_rows(
    *rows: tuple[int, ...], sessions: float = 1000, **more: Any
) -> ClickRows:
    """Rows of document, rank, context, impressions, clicks; one query per document."""
    doc, rank, context, shown, clicks = np.array(rows).T
    return ClickRows(
        doc=doc,
        rank=rank,
        context=context,
        impressions=shown.astype(float),
        clicks=clicks.astype(float),
        query_of_doc=np.arange(doc.max() + 1),
        sessions=np.full(doc.max() + 1, sessions),
        **{"has_context": True, **more},
    )


@pytest.fixture(scope="module")
def world() -> Simulation:
    data = load("yahoo-like:300").train
    return prepare_simulation(data, traffic=Traffic(top_k=10))


def test_a_contrast_is_the_written_out_sum_over_strata() -> None:
    # Document 0 at rank 2: 10 of 40 after a click, 30 of 60 after none; document 1:
    # 20 of 50 and 10 of 50. Document 2 was seen after a click only.
    found = contrast(
        rows := click_rows(
            *[(0, 2, 1, 40, 10), (0, 2, 0, 60, 30)],
            *[(1, 2, 1, 50, 20), (1, 2, 0, 50, 10)],
            (2, 2, 1, 30, 30),
        ),
        rows.context > 0,
    )
    assert found is not None
    score = (10 - 40 * 40 / 100) + (20 - 50 * 30 / 100)
    first = 40 * 60 * 40 * 60 / (100**2 * 99)
    second = 50 * 50 * 30 * 70 / (100**2 * 99)
    assert first == pytest.approx(stats.hypergeom(100, 40, 40).var())
    assert found.z == pytest.approx(score / np.sqrt(first + second))
    ratio = (10 * 0.6 + 20 * 0.5) / (30 * 0.4 + 10 * 0.5)
    assert found.ratio == pytest.approx(ratio)
    assert (found.strata, found.impressions) == (2, 200)
    assert found.p == pytest.approx(2 * stats.norm.sf(abs(found.z)))


def test_queries_that_agree_have_the_hypergeometric_variance() -> None:
    rows = [(d, 2, s, 50, 15 + 5 * s) for d in range(30) for s in (0, 1)]
    test = independence_test(click_rows(*rows))
    assert test is not None
    assert test.above is not None
    score = 30 * (20 - 50 * 35 / 100)
    variance = 30 * stats.hypergeom(100, 35, 50).var()
    assert test.above.z == pytest.approx(score / np.sqrt(variance))
    assert test.above.ratio == pytest.approx(20 / 15)
    assert test.near is None  # the last click above rank 2 can be at rank 1 only
    assert test.p == pytest.approx(stats.chi2.sf(test.above.z**2, 1))
    assert test.found


def test_queries_that_disagree_have_the_variance_between_them() -> None:
    # Of 9 queries 6 are clicked 25 times of 50 after a click, and 3 are 10 times.
    after = [25] * 6 + [10] * 3
    none = [(d, 2, 0, 50, 35 - after[d]) for d in range(9)]
    rows = click_rows(*none, *((d, 2, 1, 50, after[d]) for d in range(9)))
    found = contrast(rows, rows.context > 0)
    assert found is not None
    scores = np.array([25 - 17.5] * 6 + [10 - 17.5] * 3)
    assert np.var(scores, ddof=1) > 2 * stats.hypergeom(100, 35, 50).var()
    t = scores.sum() / np.sqrt(9 * np.var(scores, ddof=1))
    assert found.p == pytest.approx(2 * stats.t.sf(t, 8))


def test_effects_of_opposite_sign_do_not_cancel() -> None:
    # Right after a click more, further below it less, on average as after none.
    rows = [
        (d, 3, s, n, c)
        for d in range(20)
        for s, n, c in ((0, 40, 20), (1, 20, 5), (2, 20, 15))
    ]
    test = independence_test(click_rows(*rows))
    assert test is not None
    assert test.above is not None
    assert test.near is not None
    assert test.above.z == pytest.approx(0)
    assert test.near.ratio == pytest.approx(3)
    score = 20 * (15 - 20 * 20 / 40)
    expected = score / np.sqrt(20 * stats.hypergeom(40, 20, 20).var())
    assert test.near.z == pytest.approx(expected)
    assert test.statistic == pytest.approx(expected**2)
    assert test.p == pytest.approx(stats.chi2.sf(expected**2, 2))


def test_segments_are_compared_within_themselves() -> None:
    # Users of one segment click everything twice as often; none depends on clicks.
    rows = click_rows(
        *[(0, 2, 0, 200, 60), (0, 2, 1, 100, 30)],
        *[(0, 2, 0, 100, 60), (0, 2, 1, 200, 120)],
        segments=("a", "b"),
        segment=np.array([0, 0, 1, 1]),
    )
    found = contrast(rows, rows.context > 0)
    assert found is not None
    assert found.z == pytest.approx(0)
    assert found.ratio == pytest.approx(1)


@pytest.mark.parametrize(
    ("rows", "more"),
    [
        ([(0, 2, 0, 60, 30), (0, 2, 1, 60, 10)], {"has_context": False}),
        ([(0, 2, 0, 60, 30), (1, 2, 1, 60, 10)], {}),  # no document has both
        ([(0, 2, 0, 4, 2), (0, 2, 1, 4, 0)], {}),  # too few to be normal
        ([(0, 2, 0, 60, 60), (0, 2, 1, 60, 60)], {}),  # everything was clicked
    ],
)
def test_what_rows_cannot_tell_is_none(
    rows: list[tuple[int, ...]], more: dict[str, Any]
) -> None:
    assert independence_test(click_rows(*rows, **more)) is None


def test_each_session_with_a_click_has_one_first_click(world: Simulation) -> None:
    kept = drawn(Case("", clicked_only=True), world, 0)
    every = drawn(Case(""), world, 0)
    assert sessions_without_click(kept) == 0
    assert sessions_without_click(every) == every.n_sessions - kept.n_sessions > 0


@pytest.mark.parametrize(
    "case",
    [
        Case("by rank"),
        Case("few queries dominate", zipf=1.4),
        Case("users repeat sessions", repeated=3),
        Case("lists with a click only", clicked_only=True),
    ],
    ids=lambda case: case.name,
)
def test_users_by_rank_are_rarely_taken_for_others(
    case: Case, world: Simulation
) -> None:
    tests = [independence_test(drawn(case, world, seed)) for seed in range(40)]
    found = sum(test.found for test in tests if test is not None)
    assert None not in tests
    assert found <= 6  # binomial, 40 at 5 %: more have a probability of .003


@pytest.mark.parametrize(("goes_on", "ratio"), [(0.0, 0.0), (0.6, 0.55), (0.9, 0.88)])
def test_users_who_stop_after_a_click_are_found(
    goes_on: float, ratio: float, world: Simulation
) -> None:
    for seed in range(10):
        test = independence_test(drawn(Case("", goes_on=goes_on), world, seed))
        assert test is not None
        assert test.above is not None
        assert test.found
        assert test.above.ratio == pytest.approx(ratio, abs=0.1)
