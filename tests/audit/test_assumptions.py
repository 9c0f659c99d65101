"""The section on assumptions: logs of users who go by rank, and of others."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from affinerank.audit import audit, audit_file
from affinerank.audit.assumption_tests import DEPENDENT, UNIDENTIFIED
from affinerank.audit.assumptions import ACTIONS, assumptions, contradictions
from affinerank.audit.facts import Facts, facts_of
from affinerank.audit.page import audit_page
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic
from affinerank.counts.counts import ClickCounts
from affinerank.data.sources import load
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.support.progress import no_progress

pytestmark = pytest.mark.slow

WriteLog = Callable[..., str]
QUERIES, SESSIONS, DEPTH = 40, 60, 5


def sessions(*, cascade: bool, clicked_only: bool = False) -> list[tuple[Any, ...]]:
    """A log whose documents 0, 2 and 4 are relevant; each query has one list."""
    rng, rows = np.random.default_rng(0), []
    for session in range(QUERIES * SESSIONS):
        query, on, found = session % QUERIES, True, []
        for rank in range(1, DEPTH + 1):
            rate = (0.6 if rank % 2 else 0.2) / (1 if cascade else rank)
            clicked = on and rng.random() < rate
            on = on and not (cascade and clicked)
            found.append((session, query, rank - 1, rank, int(clicked)))
        if not clicked_only or any(row[-1] for row in found):
            rows += found
    return rows


def looked_at(log: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    found = audit_file(log)
    about = found.to_dict()
    tests = {test["name"]: test for test in about["assumptions"]["tests"]}
    return about, tests, audit_page(found)


def test_users_by_rank_contradict_nothing(write_log: WriteLog) -> None:
    about, tests, page = looked_at(write_log(sessions(cascade=False)))
    assert about["assumptions"]["verdict"] in ("not found", "partly")
    assert tests["dependent_clicks"]["verdict"] == "not found"
    assert tests["dependent_clicks"]["number"] == pytest.approx(1, abs=0.15)
    assert tests["clicks_only"]["verdict"] == "not found"
    assert tests["clicked_lists"]["verdict"] == "not found"
    assert tests["moved_relevance"]["verdict"] == "unknown"
    assert '<span class="mark unknown">not found</span>' in page
    assert "dependent_clicks" not in [step["step"] for step in about["next"]]


def test_users_who_stop_at_a_click_are_found(write_log: WriteLog) -> None:
    about, tests, page = looked_at(write_log(sessions(cascade=True)))
    assert tests["dependent_clicks"]["verdict"] == "found"
    assert tests["dependent_clicks"]["number"] == 0
    assert '<span class="mark care">found</span>' in page
    assert about["trust_bias"]["verdict"] != "yes"  # it cannot be told by rank alone
    # Counts keep the last click, so this can be corrected, and nothing is left to do.
    assert about["assumptions"]["verdict"] == "not found"
    assert "users can be estimated by it" in about["assumptions"]["says"][0]
    assert "dependent_clicks" not in [step["step"] for step in about["next"]]


def test_lists_kept_for_their_clicks_are_no_dependence(write_log: WriteLog) -> None:
    log = write_log(sessions(cascade=False, clicked_only=True))
    about, tests, _ = looked_at(log)
    assert about["assumptions"]["verdict"] == "yes"
    assert tests["clicked_lists"]["verdict"] == "found"
    assert tests["dependent_clicks"]["verdict"] != "found"


@pytest.fixture(scope="module")
def browsing() -> Facts:
    """What there is to say of users who go on from their last click."""
    made = prepare_simulation(
        load("yahoo-like:150@50").train,
        click_model="browsing",
        traffic=Traffic(top_k=6),
        seed=0,
    )
    sessions = made.sessions_for(3e4)
    rng = np.random.default_rng(0)
    counts = simulate_counts(made, sessions, rng=rng, context=True)
    return facts_of(counts, None, None, None, seed=0, progress=no_progress)


def test_clicks_that_corrections_follow_are_not_called_beyond_correction(
    browsing: Facts,
) -> None:
    assert browsing.by_last_click
    section = assumptions(browsing)
    [dependent] = [t for t in section.numbers["tests"] if t["name"] == DEPENDENT]
    assert dependent["verdict"] == "found"
    assert (section.verdict, section.answer) == ("not found", "not found")
    assert "Users were estimated by rank and last click" in section.says[0]
    assert section.short.endswith("; 0 found it.")
    assert list(contradictions(browsing)) == []


def test_clicks_that_no_correction_follows_are_named_with_something_to_do(
    browsing: Facts,
) -> None:
    assert browsing.estimate is not None
    by_rank = [row for row in browsing.estimate.models if not row.view.context]
    misfit = replace(browsing, estimate=replace(browsing.estimate, models=by_rank))
    assert misfit.misfit
    section = assumptions(misfit)
    assert (section.verdict, section.answer) == ("yes", "found")
    assert section.short.endswith("; 1 found it.")
    [step] = contradictions(misfit)
    assert step.title == "Compare rankings by an A/B test"
    assert "no correction is known to fit" in step.says[0]


def test_whatever_is_found_has_an_action(browsing: Facts) -> None:
    names = {each.name for each in browsing.assumptions}
    assert names - {UNIDENTIFIED} == set(ACTIONS)
    found = [replace(each, verdict="found") for each in browsing.assumptions]
    steps = list(contradictions(replace(browsing, assumptions=tuple(found))))
    assert {step.name for step in steps} == set(ACTIONS) - {DEPENDENT}
    assert all(not step.title.startswith("Mind") for step in steps)


def test_counts_without_context_cannot_say(
    world: tuple[ClickCounts, dict[tuple[str, str], float]],
) -> None:
    about = audit(world[0]).to_dict()
    tests = {test["name"]: test for test in about["assumptions"]["tests"]}
    assert tests["dependent_clicks"]["verdict"] == "unknown"
    assert (
        "count again with --context last-click" in tests["dependent_clicks"]["advice"]
    )
    assert tests["unidentified_ranks"]["verdict"] == "not found"
    by_rank = about["identified"]["by_rank"]
    assert {row["identified"] for row in by_rank} == {"yes"}
