"""The audit of a log: numbers against arithmetic and against its users."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.halves import halves
from tests.pipeline.moving_lists import personal_lists

from affinerank.audit import audit, audit_file, bias, changes, identified
from affinerank.audit.facts import facts_of
from affinerank.audit.next_steps import next_steps
from affinerank.audit.page import audit_page
from affinerank.audit.rank_effect import RankEffect
from affinerank.audit.survey import survey_log
from affinerank.cli import main
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.simulation import write_session_log
from affinerank.clicks.traffic import Traffic
from affinerank.counts.counts import ClickCounts
from affinerank.data.sources import load
from affinerank.engines.opening import open_table
from affinerank.logs.options import LogOptions
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.support.errors import ConfigError
from affinerank.support.progress import no_progress

pytestmark = pytest.mark.slow

WriteLog = Callable[..., str]
World = tuple[ClickCounts, dict[tuple[str, str], float]]
ROWS = [  # q1 twice with one list, once with another; q2 once; s5 has a fault
    *[("s1", "q1", "a", 1, 1), ("s1", "q1", "b", 2, 0)],
    *[("s2", "q1", "a", 1, 0), ("s2", "q1", "b", 2, 0)],
    *[("s3", "q1", "b", 1, 1), ("s3", "q1", "a", 2, 0)],
    *[("s4", "q2", "c", 1, 1), ("s4", "q2", "d", 2, 1)],
    *[("s5", "q2", "c", 1, 1), ("s5", "q2", "d", 1, 1)],
]


def test_a_log_is_surveyed(write_log: WriteLog, tmp_path: Path) -> None:
    when = [datetime(2026, 1, 1) + timedelta(hours=6 * i) for i in range(len(ROWS))]
    with open_table(write_log(ROWS, timestamp=when)) as table:
        found = survey_log(
            table, tmp_path / "counts.parquet", LogOptions(), no_progress
        )
    assert found.report.rows == 10
    assert found.dropped == {"sessions": 1, "rows": 2}
    assert [fault.number for fault in found.report.faults] == [1]
    assert (found.lists, found.lists_once) == (3, 2)
    assert found.days == pytest.approx(9 * 6 / 24)
    assert found.counts is not None
    assert found.counts.n_sessions == 4


def test_a_log_may_have_fractions_of_seconds_and_numbers_of_its_own(
    write_log: WriteLog,
) -> None:
    moments = [f"2026-01-0{1 + i // 2} 00:00:00.{i}" for i in range(8)]
    path = write_log(ROWS[:8], timestamp=moments, impressions=[1] * 8, clicks=[0] * 8)
    usable = audit_file(path).to_dict()["usable"]
    assert usable["sessions"] == 4
    assert usable["days"] == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize("moments", [[None] * 8, ["2026-01-01 00:00:00"] * 8])
def test_a_log_of_one_moment_or_none_has_no_length(
    moments: list[Any], write_log: WriteLog
) -> None:
    path = write_log(ROWS[:8], timestamp=moments)
    assert audit_file(path).to_dict()["usable"]["days"] is None


def test_counts_by_list_are_audited_with_the_features_of_their_lists(
    tmp_path: Path, world: World
) -> None:
    path = tmp_path / "counts.parquet"
    world[0].save(path)
    by_list = LogOptions(list_id="session_id")
    found = audit_file(str(path), options=by_list).to_dict()
    assert found["usable"]["sessions"] > 0
    assert found["source"] == str(path)
    with pytest.raises(ConfigError, match=r"counts\.parquet: holds counts"):
        audit_file(str(path), options=LogOptions(ranks_from=0))


def test_a_small_log_says_what_it_is_too_small_for(write_log: WriteLog) -> None:
    found = audit_file(write_log(ROWS), days=2.0)
    about = found.to_dict()
    checks = {check["what"]: check for check in about["usable"]["checks"]}
    numbers = {name: check["number"] for name, check in checks.items()}
    assert numbers == {
        "faulty sessions": 1,
        "sessions": 4,
        "impressions": 8,
        "clicks": 4,
        "ranks": 2,
        "queries": 2,
        "lists": 3,
        "documents": 4,
        "documents seen at several ranks": 2,
        "impressions away from the usual rank": 2,  # a and b of q1, in s3
    }
    assert checks["sessions"]["says"] == "over 2 days: 2 per day"
    assert checks["queries"]["says"] == "1 of them were seen once (50%)"
    assert about["usable"]["verdict"] == "no"
    assert about["usable"]["sessions_of_repeated_queries"] == 3
    first, second = about["click_rates"]["by_rank"]
    assert (first["rate"], second["rate"]) == (0.75, 0.25)
    # Wilson's interval of 3 in 4, written out
    z, n, p = 1.959964, 4, 0.75
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    reach = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    assert (first["low"], first["high"]) == pytest.approx(
        (middle - reach, middle + reach), rel=1e-5
    )
    verdicts = ("position_bias", "trust_bias", "first_rank")
    assert {about[name]["verdict"] for name in verdicts} == {"unknown"}
    assert about["identified"]["verdict"] == "no"
    assert "4 clicks are too few to tell ranks apart" in about["identified"]["refused"]
    assert [step["step"] for step in about["next"]] == ["repair", "collect"]
    assert "collect 200 times this log (400 days)" in about["next"][1]["says"][0]
    assert "too few to tell ranks apart" in audit_page(found)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "There are no impressions in it."),
        ([("s", "q", "a", 0, 1)], "none of 1 rows could be counted"),
        ([("s", "q", "a", 1, 0), ("s", "q", "b", 2, 0)], "without clicks nothing"),
        (
            [("s", "q", "a", 1, 1), ("s", "q", "b", 2, 1)],
            "every impression was clicked",
        ),
        ([("s", "q", "a", 1, 1), ("t", "q", "b", 1, 0)], "with one rank there is"),
    ],
)
def test_what_cannot_be_looked_at_is_said_on_the_page(
    rows: list[tuple[Any, ...]], said: str, write_log: WriteLog
) -> None:
    found = audit_file(write_log(rows))
    about = found.to_dict()
    assert about["usable"]["verdict"] == "no"
    assert said in audit_page(found)
    assert json.dumps(about)
    assert "usable: no" in found.lines()
    assert [step["step"] for step in about["next"]][-1] in ("collect", "repair")


def test_findings_of_a_world_agree_with_its_users(world: World) -> None:
    counts, _ = world
    about = audit(counts.labelled("segment", "phone"), days=10.0).to_dict()
    assert about["usable"]["verdict"] == "partly"  # no document changed rank
    assert about["position_bias"]["verdict"] == "yes"
    assert about["position_bias"]["same_document"] is None
    assert about["trust_bias"]["verdict"] == "yes"
    assert about["identified"]["verdict"] == "yes"
    by_segment = about["click_rates"]["by_segment"]
    assert [group["name"] for group in by_segment] == ["phone"]
    rows = about["click_rates"]["by_rank"]
    seen = np.array([row["impressions"] for row in rows])
    rate = np.array([row["rate"] for row in rows])
    same = np.array([row["same_documents"] for row in rows])
    # The ranker is better than chance: it shows less relevant documents further down.
    assert rate[0] > same[0]
    assert rate[-1] < same[-1]
    # What bias alone does, by the true users and the relevance that all ranks have.
    true = TrustModel.paper(depth=6)
    mean = np.sum((rate - true.beta) / true.alpha * seen) / seen.sum()
    assert same == pytest.approx(true.alpha * mean + true.beta, rel=0.15)


def test_documents_that_moved_show_position_bias_without_an_estimate() -> None:
    rng = np.random.default_rng(0)
    query = np.repeat(np.arange(40), 4)
    rank = np.tile([1, 2, 2, 1], 40)
    clicks = rng.binomial(3, np.where(rank == 1, 0.6, 0.2))
    counts = ClickCounts.from_columns(
        query_id=query,
        doc_id=np.tile([0, 1, 0, 1], 40),
        rank=rank,
        impressions=np.full(160, 3),
        clicks=clicks,
    )
    about = audit(counts).to_dict()
    found = about["position_bias"]
    assert found["verdict"] == "yes"
    assert found["same_document"]["slope"] == pytest.approx(-0.4, abs=0.15)
    assert about["trust_bias"]["verdict"] == "unknown"


def test_a_verdict_says_which_of_two_tests_it_rests_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = facts_of(world[0], None, None, None, seed=0, progress=no_progress)
    effect = RankEffect(-0.01, 0.005, 0.049, 0.06, 199, 150)
    monkeypatch.setattr(bias, "rank_effect", lambda _: effect)
    found = bias.position_bias(facts)
    assert found.verdict == "yes"
    assert "By the estimate" in found.says[0]
    assert "p < 0.0001" in found.says[0]
    assert "p = 0.049" in found.says[1]
    assert found.says[1].endswith(
        "That alone shows nothing: p would have to be below 0.025, as two tests share "
        "the 5 %."
    )
    # By itself it has all of the 5 %.
    alone = bias.position_bias(replace(facts, estimate=None))
    assert alone.verdict == "yes"
    assert "only if it changed as documents moved" in alone.says[0]


def test_what_a_test_did_not_find_is_never_called_no() -> None:
    """Neither on the page nor in JSON nor in the terminal, and never green."""
    counts = ClickCounts.from_columns(
        query_id=np.repeat(np.arange(60), 4),
        doc_id=np.tile([0, 1, 0, 1], 60),
        rank=np.tile([1, 2, 2, 1], 60),
        impressions=np.full(240, 4),
        clicks=np.random.default_rng(1).binomial(4, 0.4, 240),  # whatever the rank
    )
    found = audit(counts)
    assert found.to_dict()["position_bias"]["verdict"] == "not found"
    assert "position bias: not found" in found.lines()
    card = '<a class="card unknown" href="#section-position_bias">'
    page = audit_page(found)
    assert f"{card}<span>Is there position bias?</span><strong>Not found<" in page


def test_trust_bias_and_better_documents_may_not_be_found(world: World) -> None:
    facts = facts_of(world[0], None, None, None, seed=0, progress=no_progress)
    assert facts.estimate is not None
    assert facts.estimate.test is not None
    assert facts.first is not None
    test = replace(facts.estimate.test, p=0.4, found=False)
    first = replace(facts.first, better=np.zeros_like(facts.first.better))
    other = replace(facts, estimate=replace(facts.estimate, test=test), first=first)
    for section in (bias.trust_bias(other), changes.first_rank(other)):
        assert (section.verdict, section.mark) == ("not found", "unknown")
    assert "no proof that there is none" in bias.trust_bias(other).says[0]
    steps = {step.name: step for step in next_steps(other)}
    assert "review" not in steps
    assert "affine" not in steps["correct"].says[0]


def test_weak_ranks_make_the_estimate_known_in_part(world: World) -> None:
    facts = facts_of(world[0], None, None, None, seed=0, progress=no_progress)
    assert facts.estimate is not None
    weak = replace(facts.estimate, weak_ranks=("5", "6"))
    found = identified.identified(replace(facts, estimate=weak))
    assert (found.verdict, found.mark) == ("partly", "care")
    assert found.numbers["parameters"][0]["status"] == "partly"
    assert "ranks 5, 6" in found.numbers["parameters"][0]["why"]
    steps = [step.name for step in next_steps(replace(facts, estimate=weak))]
    assert steps[:2] == ["features", "swaps"]


def test_an_estimate_without_bands_claims_nothing_precise(tmp_path: Path) -> None:
    """Lists kept for a click: users are estimated by a method that has no bands."""
    data = load("yahoo-like:150@50").train
    made = prepare_simulation(data, traffic=Traffic(top_k=6), seed=0)
    log = tmp_path / "log.parquet"
    write_session_log(made, 4000, log, rng=np.random.default_rng(0))
    table = pq.read_table(log)
    clicked = table.filter(table["clicked"])["session_id"].unique()
    kept = pc.is_in(table["session_id"], value_set=clicked)
    pq.write_table(table.filter(kept), log)
    found = audit_file(str(log), data)
    about = found.to_dict()
    assert about["identified"]["verdict"] == "partly"
    assert "how precisely is not known" in about["identified"]["parameters"][0]["why"]
    assert about["trust_bias"]["verdict"] == "unknown"
    assert (
        f"by {about['identified']['method']}, which" in about["trust_bias"]["says"][0]
    )
    assert about["first_rank"]["verdict"] == "unknown"
    assert "no bands" in about["first_rank"]["says"][0]
    assert "models" not in about["identified"]
    assert 'data-figure="bias"' in audit_page(found)


def test_a_real_log_of_queries_seen_once_is_reported_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(os.environ.get("AFFINERANK_DATA", "")) / "tiangong-st"
    if "AFFINERANK_DATA" not in os.environ or not root.is_dir():
        pytest.skip("AFFINERANK_DATA names no folder with tiangong-st")
    pages = [str(root / f"{p}_per_query_quid.txt") for p in ("train", "valid", "test")]
    log = str(tmp_path / "log.parquet")
    assert main(["import", "tiangong", *pages, "-o", log]) == 0
    capsys.readouterr()
    found = audit_file(log)
    about = found.to_dict()
    assert about["usable"]["dropped"]["sessions"] == 101
    numbers = {c["what"]: c["number"] for c in about["usable"]["checks"]}
    assert numbers["documents"] == 27_159
    assert numbers["documents seen at several ranks"] == 199
    assert about["identified"]["verdict"] == "no"
    assert "clicks identify too little" in about["identified"]["refused"]
    steps = [step["step"] for step in about["next"]]
    assert steps == ["repair", "features", "swaps"]
    # Queries that come once or twice: no plan fits into such a log.
    assert "too rarely" in about["next"][2]["says"][1]
    assert "clicks identify too little" in audit_page(found)


def test_few_clicks_on_a_document_leave_its_relevance_to_the_others(
    world: World,
) -> None:
    counts, _ = world
    found = audit(counts).to_dict()["own_clicks"]
    assert found["verdict"] == "yes"
    assert found["clicks_decide"] + found["model_decides"] == found["documents"]
    assert found["documents"] == len(set(counts.table["doc_id"].to_pylist()))
    half, few = counts, found
    for seed in range(4):  # a sixteenth of the clicks
        half, _ = halves(half, rng=np.random.default_rng(seed))
        few = audit(half).to_dict()["own_clicks"]
        assert few["verdict"] in ("yes", "partly", "not found", "unknown")
    assert few.get("clicks_decide", 0) < found["clicks_decide"]
    assert "by the rank" in found["says"][0]


def test_lists_that_moved_for_unknown_reasons_are_named_where_a_log_is_usable() -> None:
    log = personal_lists(np.random.default_rng(0), 2_000)
    for counts, verdict in (
        (log.counts(), "care"),
        (log.counts(randomised=True), "good"),
    ):
        checks = audit(counts).to_dict()["usable"]["checks"]
        [moved] = [c for c in checks if c["what"].endswith("away from the usual rank")]
        assert moved["verdict"] == verdict
        assert ("evaluate cannot decide" in moved["says"]) == (verdict == "care")
