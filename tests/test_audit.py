"""The audit of a log: numbers against arithmetic and simulation, and its page."""

import json
import os
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from affinerank.audit_page import audit_page
from affinerank.bias.documents import ClickRows
from affinerank.bias.gauge import display_gauge
from affinerank.bias.interventions import fit_interventions
from affinerank.bias.pooling import RankPools
from affinerank.bias.swaps import (
    Spread,
    plan_swaps,
    rank_effect,
    spread_of,
    swaps_needed,
)
from affinerank.bias.uncertainty import Bands
from affinerank.cli import main
from affinerank.clicks.counting import open_table
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.join import join_counts
from affinerank.clicks.log import LogOptions
from affinerank.clicks.survey import survey_log
from affinerank.clicks.usermodel import UserModel
from affinerank.data.catalog import load
from affinerank.errors import ConfigError
from affinerank.evaluation import first_rank
from affinerank.evaluation.first_rank import judge_first_rank
from affinerank.pipeline import audit, audit_file, prepare_simulation
from affinerank.pipeline.audit_log import display_users
from affinerank.pipeline.debias import documents_of, ids_of
from affinerank.pipeline.estimation import estimate_users

# Ibis asks DuckDB by a method that DuckDB has renamed.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

Capture = pytest.CaptureFixture[str]
Floats = NDArray[np.float64]

MARK = '</script><img src=x onerror="document.title=1">&'
WORLD = "yahoo-like:80"
TARGET = 0.1


def test_the_spread_of_documents_is_the_written_out_sum() -> None:
    found = spread_of(np.array([2.0, 4.0, 1.0]), np.array([2.0, 1.0, 1.0]))
    assert found is not None
    rate = (2 + 1) / (2 + 4)  # the document shown once does not tell
    square = (2 * (2 * 1 / (2 * 1)) + 4 * (1 * 0 / (4 * 3))) / 6
    variance = square - rate**2
    noise = rate * (1 - rate) - variance
    told = variance / (variance + noise / np.array([2, 4]))
    assert found.documents == 2
    assert found.rate == pytest.approx(rate)
    assert found.variance == pytest.approx(variance)
    assert found.reliability == pytest.approx((2 * told[0] + 4 * told[1]) / 6)
    assert found.effective == pytest.approx(6**2 / (2**2 + 4**2))
    assert spread_of(np.array([1.0, 5.0]), np.array([1.0, 1.0])) is None


def test_swaps_needed_are_the_written_out_formula() -> None:
    spread = Spread(300, 0.4, 0.05, 0.01, 0.8, 250.0)
    found = swaps_needed(spread, 0.2, TARGET)
    assert found is not None
    noise = 0.4 * 0.6  # the larger of .4 * .6 and .2 * .8
    gap = (1 - 0.8) / (0.8 * 250)
    sessions = np.ceil(noise / (0.8 * 0.05 * (TARGET**2 - gap)))
    beta = noise / sessions + 0.2 * 0.05 / 250 + 0.4**2 * TARGET**2
    assert found == pytest.approx((sessions, np.sqrt(beta)))
    assert swaps_needed(replace(spread, rate=0.7), 0.2, TARGET) == pytest.approx(
        (np.ceil(0.25 / (0.04 * (TARGET**2 - gap))), found[1]), rel=0.9
    )
    few = replace(spread, effective=20.0)  # .25 / 20 is more than .1 squared
    assert swaps_needed(few, 0.2, TARGET) is None


def two_ranks(
    rng: np.random.Generator, sessions: int | None
) -> tuple[ClickRows, dict[str, Floats], int]:
    """Two documents a query, relevance of any size; swapped as planned."""
    alpha, beta = np.array([0.5, 0.4]), np.array([0.2, 0.1])
    n = rng.poisson(60, 400) + 1
    gamma = np.stack([rng.beta(1.0, 1.5, 400), rng.beta(1.0, 3.0, 400)])
    stayed = rng.binomial(n, alpha[:, None] * gamma + beta[:, None])
    doc = np.arange(400)
    rows = ClickRows(
        np.concatenate([doc, doc + 400]),
        np.concatenate([doc, doc]),
        np.repeat([1, 2], 400),
        np.concatenate([n, n]).astype(float),
        np.concatenate(stayed).astype(float),
    )
    if sessions is None:
        pools = RankPools(np.array([0, 1]), np.full(2, float(n.sum())))
        [plan] = plan_swaps(rows, pools, TARGET)
        assert plan.sessions is not None
        sessions = plan.sessions
    swapped = rng.multinomial(sessions, n / n.sum())
    down = rng.binomial(swapped, alpha[1] * gamma[0] + beta[1])
    up = rng.binomial(swapped, alpha[0] * gamma[1] + beta[0])
    moved = ClickRows(
        np.concatenate([rows.doc, rows.doc]),
        np.concatenate([rows.query, rows.query]),
        np.concatenate([rows.rank, np.repeat([2, 1], 400)]),
        np.concatenate([rows.impressions, swapped, swapped]),
        np.concatenate([rows.clicks, down, up]),
    )
    regression = {
        "n": n.astype(float),
        "clicks": stayed[0].astype(float),
        "swapped": swapped.astype(float),
        "down": down.astype(float),
    }
    return moved, regression, sessions


def regressed(n: Floats, clicks: Floats, swapped: Floats, down: Floats) -> Floats:
    """Slope and intercept by regression on the rate at the upper rank, shrunken."""
    spread = spread_of(n, clicks)
    assert spread is not None
    noise = (spread.rate * (1 - spread.rate) - spread.variance) / n
    told = spread.variance / (spread.variance + noise)
    x = spread.rate + told * (clicks / n - spread.rate)
    mean = swapped @ x / swapped.sum()
    slope = (x - mean) @ down / ((x - mean) ** 2 @ swapped)
    return np.array([slope, down.sum() / swapped.sum() - slope * mean])


def test_planned_swaps_give_the_standard_error_they_are_planned_for() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        _, drawn, _ = two_ranks(rng, None)
        found.append(regressed(**drawn))
    slope, intercept = np.array(found).T
    # A deviation from 200 draws is known to 5 %; R is the larger of two, by up to a
    # third here, so that the error may come out smaller.
    assert 0.75 * TARGET < slope.std() < 1.1 * TARGET
    off = 3 * slope.std() / np.sqrt(200)
    assert slope.mean() == pytest.approx(0.4 / 0.5, abs=off + 0.02)
    rows, drawn, _ = two_ranks(rng, None)
    spread = spread_of(drawn["n"], drawn["clicks"])
    assert spread is not None
    lower = float(
        rows.clicks[rows.rank == 2].sum() / rows.impressions[rows.rank == 2].sum()
    )
    needed = swaps_needed(spread, lower, TARGET)
    assert needed is not None
    assert 0.7 * needed[1] < intercept.std() < 1.15 * needed[1]


def test_planned_swaps_are_enough_for_the_estimate_itself() -> None:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(16):
        rows, _, _ = two_ranks(rng, None)
        users = display_gauge(fit_interventions(rows, rng=rng).users)
        found.append(users.alpha[1])
    off = np.array(found) - 0.4 / 0.5
    assert np.sqrt(np.mean(off**2)) < TARGET
    # It also uses the lower document, and levels: which vary less, and lean a little
    # where relevance is of any size, as here.
    assert np.std(found, ddof=1) < TARGET / 2


def test_a_pair_of_ranks_that_swaps_cannot_help_says_why() -> None:
    n = 40
    rows = ClickRows(
        np.arange(2 * n),
        np.tile(np.arange(n), 2),
        np.repeat([1, 2], n),
        np.full(2 * n, 10.0),
        np.full(2 * n, 3.0),
    )
    pools = RankPools(np.array([0, 1]), np.full(2, 400.0))
    [alike] = plan_swaps(rows, pools)
    assert alike.sessions is None
    assert alike.why_not is not None
    assert "do not differ clearly" in alike.why_not
    once = replace(rows, impressions=np.ones(2 * n), clicks=np.zeros(2 * n))
    [unknown] = plan_swaps(once, pools)
    assert unknown.why_not == (
        "0 documents were shown twice or more there, and 30 are needed"
    )


def moved(rate: Any, rng: np.random.Generator | None = None) -> ClickRows:
    """30 queries of one document each at ranks 1, 2, 4 and 8, by its click rate."""
    doc = np.repeat(np.arange(30), 4)
    rank = np.tile([1, 2, 4, 8], 30)
    shown = np.tile([10, 20, 20, 40], 30)
    expected = shown * rate(doc, rank)
    clicks = expected if rng is None else rng.binomial(shown, expected / shown)
    return ClickRows(doc, doc, rank, shown.astype(float), clicks.astype(float))


def test_the_rank_effect_is_the_slope_within_documents() -> None:
    found = rank_effect(moved(lambda d, k: 0.3 + 0.01 * d - 0.05 * np.log2(k)))
    assert found is not None
    assert found.slope == pytest.approx(-0.05)
    assert (found.n_docs, found.n_queries) == (30, 30)
    away = np.array([0, 1, 2, 3]) - (20 + 2 * 20 + 3 * 40) / 90
    assert found.rate == pytest.approx(0.445 - 0.05 * 2.0)
    assert np.sum([10, 20, 20, 40] * away) == pytest.approx(0)
    few = moved(lambda d, k: 0.2 + 0.0 * d * k)
    assert rank_effect(replace(few, query=few.query % 19)) is None
    assert rank_effect(replace(few, clicks=np.zeros(120))) is None


def test_the_rank_effect_keeps_its_level_without_bias() -> None:
    rng = np.random.default_rng(0)
    found = [
        rank_effect(moved(lambda d, k: 0.1 + 0.02 * d + 0.0 * k, rng))
        for _ in range(400)
    ]
    share = np.mean([each is not None and each.p < 0.05 for each in found])
    assert share == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / 400))


@pytest.fixture(scope="module")
def world() -> tuple[ClickCounts, dict[tuple[str, str], float]]:
    """Counts of a world at fixed ranks, and the relevance of its documents."""
    from affinerank.clicks.simulate import Traffic, simulate_counts

    data = load("yahoo-like:150@50").train
    made = prepare_simulation(data, traffic=Traffic(top_k=6), seed=0)
    sessions = made.sessions_for(6e4)
    counts = simulate_counts(made, sessions, rng=np.random.default_rng(0))
    relevance = {
        (str(data.query_ids[q]), str(d)): float(g)
        for q, d, g in zip(data.query_of_doc, data.doc_ids, made.relevance, strict=True)
    }
    return counts, relevance


def test_documents_that_should_come_first_are_truly_better(
    world: tuple[ClickCounts, dict[tuple[str, str], float]],
) -> None:
    counts, relevance = world
    found = estimate_users(counts)
    data = documents_of(ids_of(counts))
    judged = judge_first_rank(
        join_counts(counts, data),
        data,
        display_users(found),
        found.display,
        found.pools,
    )
    truth = np.array(
        [
            relevance[str(data.query_ids[q]), str(d)]
            for q, d in zip(data.query_of_doc, data.doc_ids, strict=True)
        ]
    )
    assert judged.n_queries == 150
    better, stays = judged.better, judged.stays
    assert better.sum() >= 10
    assert stays.sum() >= 5
    assert not np.any(better & stays)
    wrong = truth[judged.challenger] <= truth[judged.first]
    assert wrong[better].mean() <= 0.1  # 5 % at most, of 10 or more
    best = np.zeros(data.n_queries)
    np.maximum.at(best, data.query_of_doc, truth)
    assert np.mean((best[judged.query] > truth[judged.first])[stays]) <= 0.1


def test_the_error_of_users_enters_by_the_slope_of_relevance() -> None:
    counts = ClickCounts.from_columns(
        query_id=["q"] * 3,
        doc_id=["a", "b", "b"],
        rank=[1, 2, 1],
        impressions=[50, 40, 10],
        clicks=[20, 12, 5],
    )
    data = documents_of(ids_of(counts))
    joined = join_counts(counts, data)
    users = UserModel(
        alpha=np.array([1.0, 0.5]), beta=np.array([0.0, 0.1]), identified="gauge"
    )
    pools = RankPools(np.array([0, 1]), np.array([60.0, 40.0]))

    def relevance(alpha: float, beta: float) -> float:
        return ((12 - 40 * beta) / alpha + 5 / 1.0) / 50

    slopes = first_rank._gradients(np.array([1]), joined, users, pools)[0]
    step = 1e-6
    by_alpha = (relevance(0.5 + step, 0.1) - relevance(0.5 - step, 0.1)) / (2 * step)
    by_beta = (relevance(0.5, 0.1 + step) - relevance(0.5, 0.1 - step)) / (2 * step)
    assert slopes[[1, 3]] == pytest.approx([by_alpha, by_beta], rel=1e-6)
    none, zero = np.zeros((4, 4)), np.zeros(2)
    sure = Bands(users.alpha, users.beta, zero, zero, none)
    unsure = replace(sure, covariance=np.diag([0.0, 0.01, 0.0, 0.04]))
    first = judge_first_rank(joined, data, users, sure, pools)
    second = judge_first_rank(joined, data, users, unsure, pools)
    assert first.difference == pytest.approx([relevance(0.5, 0.1) - 20 / 50])
    added = 0.01 * by_alpha**2 + 0.04 * by_beta**2
    assert second.error**2 == pytest.approx(first.error**2 + added)


def test_a_log_may_have_fractions_of_seconds_and_numbers_of_its_own(
    tmp_path: Path,
) -> None:
    moments = [f"2026-01-0{1 + i // 2} 00:00:00.{i}" for i in range(8)]
    extra: dict[str, list[Any]] = {
        "timestamp": moments,
        "impressions": [1] * 8,
        "clicks": [0] * 8,
    }
    about = audit_file(log_of(tmp_path / "log.parquet", ROWS[:8], **extra))
    assert about["usable"]["sessions"] == 4
    assert about["usable"]["days"] == pytest.approx(3.0, abs=0.1)


def test_counts_by_list_are_audited_with_the_features_of_their_lists(
    tmp_path: Path, world: tuple[ClickCounts, dict[tuple[str, str], float]]
) -> None:
    path = tmp_path / "counts.parquet"
    world[0].save(path)
    by_list = LogOptions(list_id="session_id")
    assert audit_file(str(path), options=by_list)["usable"]["sessions"] > 0
    with pytest.raises(ConfigError, match="holds counts, and how a log is to be read"):
        audit_file(str(path), options=LogOptions(ranks_from=0))


def test_the_first_stays_only_if_it_beats_those_that_are_hardly_known() -> None:
    """Clicks speak against the third, but its alpha may be anything."""
    counts = ClickCounts.from_columns(
        query_id=["q"] * 3,
        doc_id=np.arange(3),
        rank=np.arange(1, 4),
        impressions=np.full(3, 1000),
        clicks=[800, 600, 100],
    )
    data = documents_of(ids_of(counts))
    users = UserModel(
        alpha=np.array([1.0, 1.0, 0.5]), beta=np.zeros(3), identified="gauge"
    )
    unsure = np.zeros((6, 6))
    unsure[2, 2] = 4.0  # slope -.1 / .5^2 = -.4, so an error of .8 for .2 - .8 = -.6
    zero = np.zeros(3)
    bands = Bands(users.alpha, users.beta, zero, zero, unsure)
    pools = RankPools(np.arange(3), np.full(3, 1000.0))
    judged = judge_first_rank(join_counts(counts, data), data, users, bands, pools)
    assert judged.challenger.tolist() == [2]
    assert judged.difference / judged.error == pytest.approx(-0.75, abs=0.01)
    assert judged.stays.tolist() == [False]


@pytest.mark.parametrize(("rivals", "better"), [(1, True), (5, False)])
def test_the_best_of_many_has_to_be_better_by_more(rivals: int, better: bool) -> None:
    clicks = [400, 441, 300, 300, 300, 300][: rivals + 1]
    counts = ClickCounts.from_columns(
        query_id=["q"] * (rivals + 1),
        doc_id=np.arange(rivals + 1),
        rank=np.arange(1, rivals + 2),
        impressions=np.full(rivals + 1, 1000),
        clicks=clicks,
    )
    data = documents_of(ids_of(counts))
    depth = rivals + 1
    users = UserModel(alpha=np.ones(depth), beta=np.zeros(depth), identified="gauge")
    zero = np.zeros(depth)
    sure = Bands(users.alpha, users.beta, zero, zero, np.zeros((2 * depth, 2 * depth)))
    pools = RankPools(np.arange(depth), np.full(depth, 1000.0))
    judged = judge_first_rank(join_counts(counts, data), data, users, sure, pools)
    # z = .041 / sqrt(.24 / 1000 + .2465 / 1000) = 1.86: p = .03 for one, .16 for five
    assert judged.difference / judged.error == pytest.approx(1.86, abs=0.01)
    assert judged.better.tolist() == [better]
    assert judged.stays.tolist() == [False]


def log_of(path: Path, rows: list[tuple[Any, ...]], **columns: list[Any]) -> str:
    names = ("session_id", "query_id", "doc_id", "rank", "clicked")
    table = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table({**table, **columns}), path)
    return str(path)


ROWS = [  # q1 twice with one list, once with another; q2 once; s5 has a fault
    *[("s1", "q1", "a", 1, 1), ("s1", "q1", "b", 2, 0)],
    *[("s2", "q1", "a", 1, 0), ("s2", "q1", "b", 2, 0)],
    *[("s3", "q1", "b", 1, 1), ("s3", "q1", "a", 2, 0)],
    *[("s4", "q2", "c", 1, 1), ("s4", "q2", "d", 2, 1)],
    *[("s5", "q2", "c", 1, 1), ("s5", "q2", "d", 1, 1)],
]


def test_a_log_is_surveyed(tmp_path: Path) -> None:
    when = [datetime(2026, 1, 1) + timedelta(hours=6 * i) for i in range(len(ROWS))]
    path = log_of(tmp_path / "log.parquet", ROWS, timestamp=when)
    with open_table(path) as table:
        found = survey_log(table, tmp_path / "counts.parquet")
    assert found.rows == 10
    assert found.dropped == {"sessions": 1, "rows": 2}
    assert [f["number"] for f in found.findings if f["fault"]] == [1]
    assert (found.lists, found.lists_once) == (3, 2)
    assert found.days == pytest.approx(9 * 6 / 24)
    assert found.counts is not None
    assert found.counts.n_sessions == 4


def test_a_small_log_says_what_it_is_too_small_for(tmp_path: Path) -> None:
    about = audit_file(log_of(tmp_path / "log.parquet", ROWS), days=2.0)
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
    }
    assert checks["sessions"]["says"] == "over 2 days: 2 a day"
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
    assert "too few to tell ranks apart" in audit_page(about)


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
    rows: list[tuple[Any, ...]], said: str, tmp_path: Path
) -> None:
    path = log_of(tmp_path / "log.parquet", rows or [("s", "q", "a", 1, 1)])
    if not rows:
        pq.write_table(pq.read_table(path).slice(0, 0), path)
    about = audit_file(path)
    assert about["usable"]["verdict"] == "no"
    assert said in audit_page(about)
    assert json.dumps(about)


def test_findings_of_a_world_agree_with_its_users(
    world: tuple[ClickCounts, dict[tuple[str, str], float]],
) -> None:
    counts, _ = world
    about = audit(counts.labelled("segment", "phone"), days=10.0)
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
    true = UserModel.paper(depth=6)
    mean = np.sum((rate - true.beta) / true.alpha * seen) / seen.sum()
    assert same == pytest.approx(true.alpha * mean + true.beta, rel=0.15)
    [swap] = [step for step in about["next"] if step["step"] == "swap"]
    assert [(pair["upper"], pair["lower"]) for pair in swap["pairs"]] == [
        (str(k), str(k + 1)) for k in range(1, 6)
    ]
    total = sum(pair["sessions"] or 0 for pair in swap["pairs"])
    assert swap["sessions"] == total
    days = 10 * total / 0.1 / counts.n_sessions
    assert f"({days:,.0f} days)" in swap["says"][1]


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
    about = audit(counts)
    found = about["position_bias"]
    assert found["verdict"] == "yes"
    assert found["same_document"]["slope"] == pytest.approx(-0.4, abs=0.15)
    assert about["trust_bias"]["verdict"] == "unknown"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two rankers with hostile names, swaps, segments and a few faults."""
    path = tmp_path_factory.mktemp("hostile") / "log.parquet"
    asked = ["simulate", WORLD, "--clicks", "2e4", "--top-k", "5", "--swap", "0.3"]
    several = ["--ranker", "production", "--ranker", "production:5"]
    assert main([*asked, *several, "--log", str(path)]) == 0
    table = pq.read_table(path)
    session = table["session_id"].to_numpy()
    rank = table["rank"].to_numpy().copy()
    rank[(session % 100 == 0) & (rank == 2)] = 1
    changed = {
        "query_id": [f"{MARK}{q}" for q in table["query_id"].to_pylist()],
        "doc_id": [f"{MARK}{d}" for d in table["doc_id"].to_pylist()],
        "ranker": [f"{MARK}{r}" for r in table["ranker"].to_pylist()],
        "rank": rank,
    }
    for name, values in changed.items():
        table = table.set_column(table.column_names.index(name), name, [values])
    device = [f"{MARK}phone" if s % 3 else "" for s in session]
    pq.write_table(table.append_column("device", [device]), path)
    return path


@pytest.fixture(scope="module")
def audited(hostile: Path) -> tuple[dict[str, Any], Path]:
    """What the command answers about it, and the page it writes."""
    target = hostile.with_name("audit.html")
    asked = ["audit", str(hostile), "--segment", "device", "-o", str(target)]
    printed = StringIO()
    with redirect_stdout(printed):
        assert main([*asked, "--json"]) == 0
    return json.loads(printed.getvalue()), target


def test_audit_answers_in_json(audited: tuple[dict[str, Any], Path]) -> None:
    about, _ = audited
    verdicts = {name: about[name]["verdict"] for name in ("usable", "identified")}
    assert verdicts == {"usable": "partly", "identified": "yes"}
    assert about["position_bias"]["verdict"] == "yes"
    assert about["trust_bias"]["verdict"] == "yes"
    groups = about["click_rates"]["by_segment"]
    assert {group["name"] for group in groups} == {f"{MARK}phone", ""}
    assert len(about["click_rates"]["by_ranker"]) == 2
    assert about["identified"]["method"] == "interventions"
    assert about["usable"]["dropped"]["sessions"] > 0
    first = about["first_rank"]
    parts = ("another_first", "first_stays", "undecided")
    assert first["judged"] == sum(first[name] for name in parts)


def test_audit_prints_what_it_found(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "audit.html"
    path = log_of(tmp_path / "log.parquet", ROWS)
    assert main(["audit", path, "-o", str(target)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "usable: no" in printed.out
    assert "next: Collect clicks" in printed.out
    assert f"written: {target}" in printed.out.replace("\n", "")
    assert "too few to tell ranks apart" in target.read_text()


def test_ids_cannot_inject_html(audited: tuple[dict[str, Any], Path]) -> None:
    page = audited[1].read_text()
    assert MARK not in page
    assert "&lt;/script&gt;&lt;img" in page


def test_counts_are_audited_as_the_log_is(
    hostile: Path, tmp_path: Path, capsys: Capture
) -> None:
    counts = tmp_path / "counts.parquet"
    asked = ["count", str(hostile), "--segment", "device", "--bad-rows", "drop"]
    assert main([*asked, "-o", str(counts)]) == 0
    capsys.readouterr()
    found = audit_file(str(counts))
    assert found["usable"]["dropped"] is None
    numbers = {c["what"]: c["number"] for c in found["usable"]["checks"]}
    assert numbers["lists"] is None
    assert numbers["sessions"] == ClickCounts.load(counts).n_sessions


def test_a_real_log_of_queries_seen_once_is_told_in_words(
    tmp_path: Path, capsys: Capture
) -> None:
    root = Path(os.environ.get("AFFINERANK_DATA", "")) / "tiangong-st"
    if "AFFINERANK_DATA" not in os.environ or not root.is_dir():
        pytest.skip("AFFINERANK_DATA names no folder with tiangong-st")
    pages = [str(root / f"{p}_per_query_quid.txt") for p in ("train", "valid", "test")]
    log = str(tmp_path / "log.parquet")
    assert main(["import", "tiangong", *pages, "-o", log]) == 0
    capsys.readouterr()
    about = audit_file(log)
    assert about["usable"]["dropped"]["sessions"] == 101
    numbers = {c["what"]: c["number"] for c in about["usable"]["checks"]}
    assert numbers["documents"] == 27_159
    assert numbers["documents seen at several ranks"] == 199
    assert about["identified"]["verdict"] == "no"
    assert "clicks tell too little" in about["identified"]["refused"]
    steps = [step["step"] for step in about["next"]]
    assert steps == ["repair", "features", "swap"]
    assert "clicks tell too little" in audit_page(about)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.parquet"], "there is no such file"),
        (["LOG", "-o", "page.txt"], "must end in .html"),
        (["LOG", "--days", "0"], "days must be above 0"),
        (["LOG", "--column", "rank=place"], "no column 'place'"),
        (
            ["LOG", "--data", "mslr-like:20"],
            "the counts and the data share no document",
        ),
        (["COUNTS", "--segment", "device"], "holds counts"),
    ],
)
def test_wrong_input_is_one_sentence(
    arguments: list[str], said: str, tmp_path: Path, capsys: Capture
) -> None:
    rows = [("s", f"q{i}", f"d{k}", k, int(k == 1)) for i in range(9) for k in (1, 2)]
    files = {
        "LOG": log_of(tmp_path / "log.parquet", rows),
        "COUNTS": str(tmp_path / "counts.parquet"),
    }
    ClickCounts.from_columns(
        query_id=["q"], doc_id=["d"], rank=[1], impressions=[2], clicks=[1]
    ).save(files["COUNTS"])
    target = tmp_path / "audit.html"
    words = ["audit", *(files.get(word, word) for word in arguments)]
    if "-o" not in words:
        words += ["-o", str(target)]
    assert main(words) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not target.exists()


def test_the_page_works_offline_in_a_browser(
    audited: tuple[dict[str, Any], Path], browse: Callable[[Path], Any]
) -> None:
    page = browse(audited[1])
    page.wait_for_selector("[data-figure=bias] svg .mark-symbol path")
    assert page.locator("[data-figure] svg.marks").count() == 4
    assert page.title().startswith("Click log")
    assert page.locator("img").count() == 0
    assert page.locator(".card").count() == 5
    page.locator("[data-figure=rates] .mark-symbol.role-mark path").first.hover(
        force=True
    )
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert "as logged" in page.locator("#vg-tooltip-element").inner_text()
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(300)
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(wide)
