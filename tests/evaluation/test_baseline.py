"""What rankers are compared with: the latest production ranker."""

import pytest

from affinerank.counts.counts import ClickCounts
from affinerank.evaluation.baseline import choose_baseline
from affinerank.support.errors import ConfigError

SESSIONS = {"old": 900, "new": 80, "test": 20}


def counts_of(**sessions: int) -> ClickCounts:
    """One query with this many sessions of each ranker."""
    n, one = list(sessions.values()), [1] * len(sessions)
    return ClickCounts.from_columns(
        query_id=one,
        doc_id=one,
        rank=one,
        impressions=n,
        clicks=one,
        sessions=n,
        ranker=list(sessions),
    )


def test_the_latest_ranker_is_the_baseline_and_is_named() -> None:
    times = {"old": (0.0, 80.0), "new": (80.0, 100.0), "test": (10.0, 30.0)}
    baseline = choose_baseline(counts_of(**SESSIONS).with_ranker_times(times))
    assert baseline.ranker == "new"
    assert baseline.name == "production (ranker new, the latest)"


def test_of_several_that_log_at_the_end_it_is_the_one_with_most_sessions() -> None:
    times = {"old": (0.0, 80.0), "new": (80.0, 96.0), "test": (80.0, 100.0)}
    baseline = choose_baseline(counts_of(**SESSIONS).with_ranker_times(times))
    assert baseline.ranker == "new"
    assert baseline.name == (
        "production (ranker new, of the latest the one with most sessions)"
    )


@pytest.mark.parametrize("times", [{}, {"new": (0.0, 100.0), "test": (0.0, 1.0)}])
def test_without_moments_of_every_ranker_it_is_the_one_with_most_sessions(
    times: dict[str, tuple[float, float]],
) -> None:
    baseline = choose_baseline(counts_of(**SESSIONS).with_ranker_times(times))
    assert baseline.name == "production (ranker old, the one with most sessions)"


def test_the_one_asked_for_is_taken_and_one_that_did_not_log_is_refused() -> None:
    counts = counts_of(**SESSIONS)
    assert choose_baseline(counts, "test").name == "production (ranker test, as asked)"
    with pytest.raises(ConfigError, match=r"'x' .* there are new, old, test"):
        choose_baseline(counts, "x")
    with pytest.raises(ConfigError, match="no column ranker"):
        choose_baseline(counts.merged("ranker"), "x")


def test_of_one_ranker_the_logged_order_is_production() -> None:
    for counts in (counts_of(p=5), counts_of(p=5).merged("ranker")):
        baseline = choose_baseline(counts)
        assert (baseline.ranker, baseline.name) == (
            None,
            "production (the logged order)",
        )
