"""The section on assumptions: logs of users who go by rank, and of others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from affinerank.audit import audit, audit_file
from affinerank.audit.page import audit_page
from affinerank.clicks.counts import ClickCounts

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
    assert about["assumptions"]["verdict"] == "yes"
    assert tests["dependent_clicks"]["verdict"] == "found"
    assert tests["dependent_clicks"]["number"] == 0
    assert "estimated by rank and last click" in about["assumptions"]["says"][0]
    assert about["trust_bias"]["verdict"] != "yes"  # it cannot be told by rank alone
    steps = {step["step"]: step for step in about["next"]}
    [says] = steps["dependent_clicks"]["says"]
    assert "--context" not in says  # count does it by itself
    assert '<span class="mark care">found</span>' in page
    assert '<a class="card care" href="#section-assumptions">' in page


def test_lists_kept_for_their_clicks_are_no_dependence(write_log: WriteLog) -> None:
    log = write_log(sessions(cascade=False, clicked_only=True))
    about, tests, _ = looked_at(log)
    assert about["assumptions"]["verdict"] == "yes"
    assert tests["clicked_lists"]["verdict"] == "found"
    assert tests["dependent_clicks"]["verdict"] != "found"


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
