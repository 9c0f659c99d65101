"""What the audit advises: swaps as ``plan-swaps`` plans them, and whole sentences."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import affinerank as ar
from affinerank.audit import audit, next_steps
from affinerank.audit.changes import first_rank, worth
from affinerank.audit.facts import Facts, facts_of, same_documents
from affinerank.audit.findings import Audit, Step
from affinerank.cli import main
from affinerank.counts.counts import ClickCounts
from affinerank.counts.rows import ClickRows
from affinerank.pipeline.plan_swaps import plan_swaps
from affinerank.support.progress import no_progress

pytestmark = pytest.mark.slow

World = tuple[ClickCounts, dict[tuple[str, str], float]]
DAYS = 10.0


@pytest.fixture(scope="module")
def facts(world: World) -> Facts:
    """A log in which no document changed rank."""
    return facts_of(world[0], None, None, DAYS, seed=0, progress=no_progress)


def swap_step(facts: Facts) -> Step:
    [step] = [each for each in next_steps.next_steps(facts) if each.name == "swaps"]
    return step


def test_as_many_swaps_are_advised_as_plan_swaps_computes(
    facts: Facts, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = swap_step(facts)
    counts, click_model = (
        str(tmp_path / "counts.parquet"),
        str(tmp_path / "click-model.json"),
    )
    world[0].save(counts)
    ar.save_click_model(facts.rough_click_model, click_model)
    assert main(["plan-swaps", counts, "--click-model", click_model, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    for name in ("sessions", "error", "pairs"):
        assert step.numbers[name] == plan[name]
    assert f"{plan['sessions']:,} sessions with one swap each" in step.says[1]


def test_the_query_that_comes_most_rarely_says_how_long_swaps_take(
    facts: Facts, world: World
) -> None:
    plan = plan_swaps(world[0], facts.rough_click_model)
    table = facts.counts.sessions_per_query
    queries, logged = table["query_id"].to_pylist(), table["sessions"].to_pylist()
    sessions = dict(zip(queries, logged, strict=True))
    needed: dict[Any, int] = {}
    for swap in plan.table.to_pylist():
        query = swap["query_id"]
        needed[query] = needed.get(query, 0) + swap["sessions"]
    # One session in ten of a query has a swap.
    times = max(number / (0.1 * sessions[query]) for query, number in needed.items())
    step = swap_step(facts)
    assert step.numbers["times_this_log"] == pytest.approx(times)
    said = f"takes {times:.1f} times this log ({DAYS * times:,.0f} days)"
    assert said in step.says[1]


def test_a_plan_that_would_take_too_long_says_so_without_days(
    facts: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_steps, "TOO_LONG", 0.01)
    says = swap_step(facts).says[1]
    assert "come too rarely" in says
    assert "days" not in says


def test_a_plan_is_made_for_the_queries_that_come_most_often(
    facts: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_steps, "PLANNED_QUERIES", 20)
    kept = next_steps._frequent_queries(facts.counts).sessions_per_query
    every = facts.counts.sessions_per_query["sessions"].to_pylist()
    assert sorted(kept["sessions"].to_pylist()) == sorted(every)[-20:]
    assert "of the 20 queries that come most often" in swap_step(facts).says[1]


def test_users_who_are_not_known_even_roughly_leave_a_step_without_a_number(
    facts: Facts,
) -> None:
    step = swap_step(
        replace(facts, estimate=None, refused="why", rough_click_model=None)
    )
    assert "sessions" not in step.numbers
    assert "cannot be planned" in step.says[1]
    assert "--method mixture" in step.commands[0]


def test_every_paragraph_of_an_audit_is_whole_sentences(world: World) -> None:
    found: list[Audit] = [audit(world[0]), audit(world[0], days=DAYS)]
    for each in found:
        paragraphs = [text for section in each.told for text in section.says]
        paragraphs += [text for step in each.next for text in step.says]
        assert len(paragraphs) > 10
        assert all(text.endswith(".") for text in paragraphs)


def test_click_rates_are_between_0_and_1(facts: Facts) -> None:
    assert facts.first is not None
    first = facts.first
    # Estimates of 1.3 and -.2: what is shown is 1 and 0, and the gain 1, not 1.5.
    beyond = np.tile([-0.2, 1.3], (len(first.query), 1))
    everything = np.ones(len(first.query), dtype=bool)
    other = replace(facts, first=replace(first, relevance=beyond, better=everything))
    [example, *_] = first_rank(other).numbers["examples"]
    names = ("first_rate", "challenger_rate", "difference")
    assert [example[name] for name in names] == [0.0, 1.0, 1.0]
    sessions = facts.rows.sessions
    more = 1_000 * sessions[first.query].sum() / sessions.sum()
    assert f"about {more:,.0f} more clicks" in worth(other)


def test_the_same_documents_are_clicked_at_rates_between_0_and_1() -> None:
    rows = ClickRows(
        doc=np.array([0, 1, 1]),
        rank=np.array([1, 1, 2]),
        context=np.zeros(3, dtype=np.int64),
        impressions=np.array([10.0, 10.0, 10.0]),
        clicks=np.array([9.0, 9.0, 9.0]),
        query_of_doc=np.zeros(2, dtype=np.int64),
        sessions=np.array([20.0]),
    )
    # Mean relevance (.9 + .9 + 1.8) / 3 = 1.2: rates 1.2 and .6.
    found = same_documents(rows, np.array([1.0, 1.0, 0.5]), np.zeros(3))
    assert found == {1: 1.0, 2: pytest.approx(0.6)}
