"""Simulation: three ways with one distribution, exact expectations, rejections."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from affinerank.clicks.models import Shown
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.policies.rotate import Rotate
from affinerank.clicks.policies.swap import Swap
from affinerank.clicks.simulation import simulate_counts, write_session_log
from affinerank.clicks.traffic import Simulation, Traffic, prepare
from affinerank.counts.counting import count_log, open_table
from affinerank.counts.counts import ClickCounts
from affinerank.data.dataset import RankingDataset
from affinerank.support.arrays import Bools, Floats, Ints
from affinerank.support.errors import AffineRankWarning, ConfigError, DataError
from affinerank.support.settings import EntrySpec

pytestmark = pytest.mark.slow

SIZES = (1, 2, 5, 12)
RNG = np.random.default_rng(3)


def world() -> tuple[RankingDataset, NDArray[np.float64]]:
    """Four queries of different lengths, with graded relevance."""
    n = sum(SIZES)
    data = RankingDataset.from_rows(
        np.zeros((n, 1)),
        np.repeat(["a", "b", "c", "d"], SIZES),
        doc_ids=np.arange(n) + 100,
    )
    return data, np.random.default_rng(7).random(n).round(2)


def ranks(data: RankingDataset, seed: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(size) + 1 for size in data.docs_per_query])


def prepared(traffic: Traffic, *rankers: int, click_model: Any = None) -> Simulation:
    data, relevance = world()
    return prepare(
        data,
        {f"r{seed}": ranks(data, seed) for seed in rankers or (1,)},
        relevance,
        click_model or TrustModel.paper(depth=12),
        traffic=traffic,
        rng=np.random.default_rng(11),
    )


def lists_of(simulation: Simulation, query: int, ranker: int) -> list[Any]:
    """Every list that a session of the query may show, with its probability."""
    data = simulation.data
    first, end = data.offsets[query], data.offsets[query + 1]
    top = simulation.order[ranker][first:end].tolist()[: simulation.shown[query]]
    if len(top) == 1:
        return [(1.0, top)]
    lists = [(1 - sum(policy.share for policy in simulation.policies), top)]
    for policy in simulation.policies:
        if isinstance(policy, Swap):
            for i in range(len(top) - 1):
                swapped = [*top[:i], top[i + 1], top[i], *top[i + 2 :]]
                lists.append((policy.share / (len(top) - 1), swapped))
        elif isinstance(policy, Rotate):
            n = min(len(top), policy.first)
            for shift in range(1, n):
                turned = [*top[n - shift : n], *top[: n - shift], *top[n:]]
                lists.append((policy.share / (n - 1), turned))
    return lists


def expected_rows(simulation: Simulation) -> dict[Any, tuple[float, float]]:
    """Impressions and clicks per session of (document, rank, ranker), by a loop."""
    rows: dict[Any, tuple[float, float]] = {}
    for ranker, share in enumerate(simulation.ranker_share):
        for query, query_share in enumerate(simulation.query_share):
            for chance, shown in lists_of(simulation, query, ranker):
                for rank, doc in enumerate(shown, start=1):
                    p = share * query_share * chance
                    gamma = simulation.relevance[[doc]]
                    rate = simulation.click_model.click_probability(
                        np.array([rank]), gamma
                    )
                    assert rate is not None
                    key = (int(simulation.data.doc_ids[doc]), rank, ranker)
                    seen, clicks = rows.get(key, (0.0, 0.0))
                    rows[key] = (seen + p, clicks + p * float(rate[0]))
    return {key: value for key, value in rows.items() if value[0] > 0}


SETTINGS = {
    "plain": (Traffic(), (1,)),
    "top_k": (Traffic(top_k=3), (1,)),
    "fixed": (Traffic(policies=("fixed",)), (1,)),
    "swaps": (Traffic(policies=("swap(share=0.6)",)), (1,)),
    "rotations": (Traffic(policies=("rotate(share=0.7, first=4)",)), (1,)),
    "both, all changed": (
        Traffic(policies=("swap(share=0.9)", "rotate(share=0.1, first=3)")),
        (1,),
    ),
    "two rankers": (Traffic(shares={"r1": 3, "r2": 1}), (1, 2)),
    "zipf": (Traffic(queries="zipf:1.2"), (1,)),
    "all": (
        Traffic(
            queries="zipf:0.5",
            top_k=6,
            policies=("swap(share=0.3)", "rotate(share=0.3, first=3)"),
        ),
        (1, 2),
    ),
}


def drawn(way: str, simulation: Simulation, n: int, folder: Path) -> ClickCounts:
    if way == "counts":
        return simulate_counts(simulation, n, rng=np.random.default_rng(21))
    write_session_log(
        simulation, n, folder / "log.parquet", rng=np.random.default_rng(22)
    )
    with open_table(str(folder / "log.parquet")) as table:
        found = count_log(table, folder / "counts.parquet")
    assert found.report is not None
    assert found.report.findings == ()
    return ClickCounts.load(folder / "counts.parquet")


@pytest.mark.parametrize("way", ["counts", "log"])
@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_both_ways_have_the_expected_impressions_and_clicks(
    name: str, way: str, tmp_path: Path
) -> None:
    traffic, rankers = SETTINGS[name]
    simulation = prepared(traffic, *rankers)
    n = 40_000
    counts = drawn(way, simulation, n, tmp_path)
    expected = expected_rows(simulation)
    names = simulation.names
    found = {
        (row["doc_id"], row["rank"], names.index(row.get("ranker", names[0]))): row
        for row in counts.table.to_pylist()
    }
    assert set(found) <= set(expected)
    z_shown, z_clicked = [], []
    for key, (seen, clicked) in expected.items():
        row = found.get(key, {"impressions": 0, "clicks": 0})
        n_shown, rate = row["impressions"], clicked / seen
        if seen < 1 - 1e-9:
            z_shown.append((n_shown - n * seen) / np.sqrt(n * seen * (1 - seen)))
        if n_shown and 0 < rate < 1:
            spread = np.sqrt(n_shown * rate * (1 - rate))
            z_clicked.append((row["clicks"] - n_shown * rate) / spread)
    # Standard normals; clicks given impressions are independent, so their squares
    # have a mean of 1 with a standard error of sqrt(2 / n).
    assert np.abs(z_shown).max() < 4.5
    assert np.abs(z_clicked).max() < 4.5
    mean_square = np.mean(np.square(z_clicked))
    assert abs(mean_square - 1) < 5 * np.sqrt(2 / len(z_clicked))


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_expected_clicks_are_those_of_a_loop_over_all_lists(name: str) -> None:
    traffic, rankers = SETTINGS[name]
    simulation = prepared(traffic, *rankers)
    expected = sum(clicks for _, clicks in expected_rows(simulation).values())
    assert simulation.expected_clicks == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_impressions_at_each_rank_are_the_sessions_long_enough(name: str) -> None:
    traffic, rankers = SETTINGS[name]
    simulation = prepared(traffic, *rankers)
    counts = simulate_counts(simulation, 5_000, rng=np.random.default_rng(2))
    assert counts.n_sessions == 5_000
    issued = counts.sessions_per_query.group_by("query_id").aggregate(
        [("sessions", "sum")]
    )
    sessions = dict(
        zip(
            issued["query_id"].to_pylist(),
            issued["sessions_sum"].to_pylist(),
            strict=True,
        )
    )
    length = dict(zip(simulation.data.query_ids, simulation.shown, strict=True))
    for row in counts.click_rate_by_rank():
        long = sum(n for q, n in sessions.items() if length[q] >= row["rank"])
        assert row["impressions"] == long


def test_zipf_gives_the_i_th_query_a_share_of_i_to_the_minus_s() -> None:
    shares = np.sort(prepared(Traffic(queries="zipf:2")).query_share)[::-1]
    weights = np.array([1, 1 / 4, 1 / 9, 1 / 16])
    np.testing.assert_allclose(shares, weights / weights.sum())


def test_a_target_of_clicks_is_met_within_its_standard_error(tmp_path: Path) -> None:
    simulation = prepared(Traffic())
    target = 50_000
    n = simulation.sessions_for(target)
    # A session has at most 12 clicks, so its variance is at most 12 times its mean.
    within = 5 * np.sqrt(12 * target)
    counts = simulate_counts(simulation, n, rng=np.random.default_rng(1))
    assert abs(counts.clicks.sum() - target) < within
    totals = write_session_log(
        simulation, n, tmp_path / "log.parquet", rng=np.random.default_rng(1)
    )
    assert abs(totals["clicks"] - target) < within
    assert totals["sessions"] == n


def test_the_same_seed_gives_the_same_counts_and_log(tmp_path: Path) -> None:
    simulation = prepared(SETTINGS["all"][0], 1, 2)
    one, two = (
        simulate_counts(simulation, 999, rng=np.random.default_rng(5)) for _ in "ab"
    )
    other = simulate_counts(simulation, 999, rng=np.random.default_rng(6))
    assert one.equals(two)
    assert not one.equals(other)
    for name in "ab":
        path = tmp_path / f"{name}.parquet"
        write_session_log(simulation, 99, path, rng=np.random.default_rng(5))
    a, b = (pq.read_table(tmp_path / f"{name}.parquet") for name in "ab")
    assert a.equals(b)


def test_a_log_is_written_in_blocks_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affinerank.clicks.simulation.IMPRESSIONS_AT_ONCE", 100)
    reported = []
    simulation = prepared(Traffic(top_k=4))
    write_session_log(
        simulation,
        500,
        tmp_path / "log.parquet",
        rng=np.random.default_rng(0),
        progress=lambda stage, done, total: reported.append((stage, done, total)),
    )
    assert len(reported) > 10
    assert reported[-1] == ("writing sessions", 500, 500)
    assert all(a[1] < b[1] for a, b in pairwise(reported))
    sessions = pq.read_table(tmp_path / "log.parquet")["session_id"].to_numpy()
    assert set(sessions) == set(range(1, 501))


class SessionBySession(TrustModel):
    """The same users, who do not say that they go by rank alone."""

    def click_probability(self, rank: Any, relevance: Any) -> Any:
        del rank, relevance

    def click(self, shown: Shown, rng: np.random.Generator) -> Bools:
        rate = super().click_probability(shown.rank, shown.relevance)
        return rng.random(len(rate)) < rate


class FirstClick:
    """Cascade users: they click the first relevant document, and leave."""

    def click_probability(self, rank: Ints, relevance: Floats) -> Floats | None:
        del rank, relevance
        return None

    def click(self, shown: Shown, rng: np.random.Generator) -> Bools:
        relevant = rng.random(len(shown.rank)) < shown.relevance
        before: Ints = np.cumsum(relevant) - relevant
        at_start = np.maximum.accumulate(np.where(shown.rank == 1, before, 0))
        return np.asarray(relevant & (before == at_start))

    def require_probabilities(self) -> None: ...

    def to_depth(self, depth: int) -> "FirstClick":
        del depth
        return self


def cascade_rows(simulation: Simulation) -> dict[Any, tuple[float, float]]:
    """Impressions and clicks of first-click users per session, by a loop."""
    rows: dict[Any, tuple[float, float]] = {}
    for ranker, share in enumerate(simulation.ranker_share):
        for query, query_share in enumerate(simulation.query_share):
            for chance, shown in lists_of(simulation, query, ranker):
                still_here = 1.0
                for rank, doc in enumerate(shown, start=1):
                    gamma = float(simulation.relevance[doc])
                    key = (int(simulation.data.doc_ids[doc]), rank, ranker)
                    p = share * query_share * chance
                    seen, clicks = rows.get(key, (0.0, 0.0))
                    rows[key] = (seen + p, clicks + p * still_here * gamma)
                    still_here *= 1 - gamma
    return {key: value for key, value in rows.items() if value[0] > 0}


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_sessions_and_counts_of_the_same_users_have_one_distribution(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affinerank.clicks.simulation.IMPRESSIONS_AT_ONCE", 20_000)
    traffic, rankers = SETTINGS[name]
    simulation = prepared(traffic, *rankers)
    slow = replace(
        simulation, click_model=SessionBySession(**vars_of(simulation.click_model))
    )
    n = 20_000
    one = simulate_counts(simulation, n, rng=np.random.default_rng(31))
    two = simulate_counts(slow, n, rng=np.random.default_rng(32))
    assert (one.n_sessions, two.n_sessions) == (n, n)
    assert one.keys == two.keys
    for column in ("impressions", "clicks"):
        a, b = (numbers_by_key(counts, column) for counts in (one, two))
        pairs = np.array([(a.get(key, 0), b.get(key, 0)) for key in a | b])
        # Two draws of one binomial: their difference has the variance 2 n p (1 - p).
        share = pairs.mean(axis=1) / n
        varies = share < 1 - 1e-9
        spread = np.sqrt(2 * n * share * (1 - share))[varies]
        z = (pairs[:, 0] - pairs[:, 1])[varies] / np.maximum(spread, 1)
        assert np.abs(z).max(initial=0) < 4.5
    # Expected clicks are exact for one, and the mean of 20,000 sessions for the other.
    error = np.sqrt(12 * simulation.expected_clicks / n)
    assert abs(slow.expected_clicks - simulation.expected_clicks) < 5 * error


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_users_who_leave_after_a_click_have_the_expected_clicks(name: str) -> None:
    traffic, rankers = SETTINGS[name]
    simulation = prepared(traffic, *rankers, click_model=FirstClick())
    n = 30_000
    counts = simulate_counts(simulation, n, rng=np.random.default_rng(33))
    expected = cascade_rows(simulation)
    shown = numbers_by_key(counts, "impressions")
    clicked = numbers_by_key(counts, "clicks")
    names = simulation.names
    several = len(names) > 1
    for (doc, rank, ranker), (seen, clicks) in expected.items():
        key = (doc, rank, names[ranker]) if several else (doc, rank)
        for number, p in ((shown.get(key, 0), seen), (clicked.get(key, 0), clicks)):
            assert abs(number - n * p) < 4.5 * max(1, np.sqrt(n * p * (1 - p)))
    assert set(shown) <= {
        (doc, rank, names[k]) if several else (doc, rank) for doc, rank, k in expected
    }
    # At most one click per session.
    assert counts.clicks.sum() <= n
    # A target of clicks is met, with the error of the sessions that were sampled.
    sessions = simulation.sessions_for(10_000)
    mean = sum(clicks for _, clicks in expected.values())
    assert sessions * mean == pytest.approx(10_000, rel=5 / np.sqrt(20_000 * mean))


def vars_of(click_model: Any) -> dict[str, Any]:
    names = ("alpha", "beta", "identified", "_eps")
    return {name: getattr(click_model, name) for name in names}


def numbers_by_key(counts: ClickCounts, column: str) -> dict[Any, int]:
    rows = counts.table.to_pylist()
    keys = [name for name in counts.keys if name != "query_id"]
    return {tuple(row[name] for name in keys): row[column] for row in rows}


def test_a_policy_of_a_plan_may_hold_the_cutoff() -> None:
    read = Traffic.of(EntrySpec.parse("swap(share=0.25, top_k=4)"))
    assert read.top_k == 4
    assert read.changes() == [Swap(share=0.25)]
    assert Traffic.of(EntrySpec.parse("fixed")).top_k is None


def test_text_ids_come_through_both_ways(tmp_path: Path) -> None:
    data = RankingDataset.from_rows(
        np.zeros((2, 1)), ["it's; --", "it's; --"], doc_ids=["[red]", ""]
    )
    simulation = prepare(
        data,
        {"r": np.array([2, 1])},
        np.ones(2),
        TrustModel.position_bias([1, 1]),
        rng=RNG,
    )
    for way in ("counts", "log"):
        table = drawn(way, simulation, 5, tmp_path).table
        assert table["query_id"].to_pylist() == ["it's; --"] * 2
        assert table["doc_id"].to_pylist() == ["", "[red]"]
        assert table["rank"].to_pylist() == [1, 2]
        assert table["clicks"].to_pylist() == [5, 5]


def test_users_of_fewer_ranks_warn_once(tmp_path: Path) -> None:
    swaps = Traffic(policies=("swap(share=0.5)",))
    with pytest.warns(AffineRankWarning, match="rank 2.* 12") as all_:
        simulation = prepared(swaps, click_model=TrustModel.paper(depth=2))
    assert len(all_) == 1
    simulate_counts(simulation, 9, rng=RNG)  # a warning would be an error here
    write_session_log(simulation, 9, tmp_path / "log.parquet", rng=RNG)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queries": "zipf"}, "queries .*got 'zipf'"),
        ({"queries": "zipf:-1"}, "got 'zipf:-1'"),
        ({"top_k": 0}, "top_k .*got 0"),
        ({"policies": ("swap(share=0.7)", "rotate(share=0.4)")}, r"got 1\.1"),
        ({"policies": ("swap(share=-0.1)",)}, r"swap: .*got -0\.1"),
        ({"policies": ("swap(share=nan)",)}, "swap: .*got nan"),
        ({"policies": ("swap(share=x)",)}, "swap: share .*got 'x'"),
        ({"policies": ("swap(first=2)",)}, "swap: .*'first'"),
        ({"policies": ("rotate(first=1)",)}, "rotate: .*got 1"),
        ({"policies": ("shuffle",)}, "'shuffle'.*swap"),
        ({"shares": {"r1": 0.0}}, "share of each ranker .*above 0"),
    ],
)
def test_traffic_that_cannot_be_drawn_is_rejected(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Traffic(**options)


def test_what_does_not_fit_the_data_is_rejected() -> None:
    data, relevance = world()
    click_model = TrustModel.paper(depth=12)
    good = {"r": ranks(data, 1)}
    gauge = TrustModel(
        alpha=np.array([3.0]), beta=np.array([0.0]), identified="relative"
    )
    cases: list[tuple[Any, Any, Any, Any, type[Exception], str]] = [
        (good, relevance, gauge, None, DataError, "a relevant document .*got 3"),
        (good, relevance * 9, click_model, None, DataError, "relevance .*probability"),
        (good, relevance[1:], click_model, None, DataError, "relevance .*probability"),
        (
            good,
            np.full(20, np.nan),
            click_model,
            None,
            DataError,
            "relevance .*probability",
        ),
        (
            {"r": good["r"][1:]},
            relevance,
            click_model,
            None,
            DataError,
            "'r': .*20 .*19",
        ),
        (
            {"r": np.ones(20, int)},
            relevance,
            click_model,
            None,
            DataError,
            "'r': .*ranks",
        ),
        ({"r": good["r"] - 1}, relevance, click_model, None, DataError, "'r': .*ranks"),
        (
            good,
            relevance,
            click_model,
            Traffic(shares={"x": 1.0}),
            ConfigError,
            r"\['x'\].* \['r'\]",
        ),
        ({}, relevance, click_model, None, DataError, "nothing to show"),
    ]
    for rankings, gamma, model, traffic, error, message in cases:
        with pytest.raises(error, match=message):
            prepare(data, rankings, gamma, model, traffic=traffic, rng=RNG)


def test_a_number_of_sessions_or_clicks_must_be_positive(tmp_path: Path) -> None:
    simulation = prepared(Traffic())
    with pytest.raises(ConfigError, match=r"sessions .*got 0"):
        simulate_counts(simulation, 0, rng=RNG)
    with pytest.raises(ConfigError, match=r"sessions .*got -1"):
        write_session_log(simulation, -1, tmp_path / "log.parquet", rng=RNG)
    with pytest.raises(ConfigError, match=r"clicks .*got nan"):
        simulation.sessions_for(float("nan"))
    never = prepared(
        Traffic(), click_model=TrustModel.from_zeta(np.zeros(12), np.zeros(12))
    )
    with pytest.raises(DataError, match="never click"):
        never.sessions_for(10)
    for many in (float("inf"), 1e300):
        with pytest.raises(
            ConfigError, match=f"clicks must be .*got {many:g}".replace("+", ".")
        ):
            simulation.sessions_for(many)
    with pytest.raises(ConfigError, match="at most 10\\^15"):
        simulate_counts(simulation, 10**16, rng=RNG)
    assert list(tmp_path.iterdir()) == []
