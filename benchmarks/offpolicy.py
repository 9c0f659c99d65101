"""How honest values from clicks are: coverage of both intervals, by estimator.

Each log has queries of its own, drawn from a large population of one synthetic world,
and clicks of its own, on the list of a production ranker. Another ranker, which nobody
saw, is judged by them: its DCG@10, and the difference from the logged ranking. Printed
is how often each 95 % interval covers its own target: over sessions the value on the
log's queries, over queries the value on the population. The users are known, and have
trust bias.

    python benchmarks/offpolicy.py --logs 200
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from affinerank.bias.level_mixture import fit_mixture
from affinerank.clicks.join import JoinedCounts, join_counts
from affinerank.clicks.simulate import Traffic, prepare, simulate_counts
from affinerank.clicks.usermodel import UserModel
from affinerank.corrections import ESTIMATORS
from affinerank.data.catalog import DataSource
from affinerank.data.dataset import RankingDataset
from affinerank.evaluation.labels import label_documents
from affinerank.evaluation.offpolicy import Estimate, Interval, estimate
from affinerank.evaluation.rank_weights import (
    RankWeights,
    centred,
    logged_weights,
    never_shown_share,
    ranked_weights,
)
from affinerank.evaluation.refits import Held, Learnt, estimate_differences
from affinerank.metrics import Metric, ranks_by_score
from affinerank.pipeline import score, train_production_ranker
from affinerank.pipeline.rows import click_rows
from affinerank.seeds import stage_rng

Floats = NDArray[np.float64]
Found = dict[str, tuple[Estimate, float, float]]

DCG = RankWeights.of_metric(Metric("DCG", 10))
NAMES = ("naive", "ips", "bayes-ips", "affine")


@dataclass(frozen=True, slots=True)
class Case:
    """What is simulated.

    Attributes:
        name: In words.
        traffic: Which queries come, and what is shown.
        bounds: Whether values have bounds: much of the new list was never shown.
    """

    name: str
    traffic: Traffic
    bounds: bool = False


CASES = (
    Case("all documents shown", Traffic()),
    Case("some queries more frequent", Traffic(queries="zipf:0.5")),
    Case("ranks rotated", Traffic(rotate=0.5)),
    Case("ten documents shown: bounds", Traffic(top_k=10), bounds=True),
)


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Queries, their relevance, and two rankings of them.

    Attributes:
        data: Queries and documents, without their features.
        relevance: ``[n_docs]``.
        old: ``[n_docs]`` scores of the ranker that is logged.
        new: ``[n_docs]`` scores of the ranker that is judged.
    """

    data: RankingDataset
    relevance: Floats
    old: Floats
    new: Floats

    def select(self, queries: NDArray[np.int64]) -> Population:
        """The queries at these positions."""
        rows = np.concatenate(
            [np.arange(*self.data.offsets[q : q + 2]) for q in queries]
        )
        return Population(
            self.data.select_queries(queries),
            self.relevance[rows],
            self.old[rows],
            self.new[rows],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--queries", type=int, default=150)
    parser.add_argument("--population", type=int, default=3000)
    parser.add_argument("--clicks", type=float, default=3e4)
    parser.add_argument(
        "--estimated", action="store_true", help="users estimated from each log"
    )
    options = parser.parse_args()
    population = populated(options.population)
    users = UserModel.paper(depth=int(population.data.docs_per_query.max()))
    print(
        f"yahoo-like, synthetic: {options.logs} logs of {options.queries} out of "
        f"{options.population} queries, {options.clicks:g} clicks each; paper's users, "
        "eta 1, eps- .65; DCG@10"
    )
    if options.estimated:
        so_far = []
        for seed in range(options.logs):
            so_far.append(
                refitted(population, users, options.queries, options.clicks, seed)
            )
            print(f"{seed + 1} logs, users estimated: {summary(so_far)}", flush=True)
        return
    for case in CASES:
        started = time.perf_counter()
        logs = [
            measure(case, population, users, options.queries, options.clicks, seed)
            for seed in range(options.logs)
        ]
        print(f"{case.name} ({time.perf_counter() - started:.0f} s)")
        for name in logs[0]:
            print(f"    {name:<24}{summary([log[name] for log in logs])}", flush=True)


def populated(n_queries: int) -> Population:
    """Draw a world, train two rankers on a few queries, and rank the others."""
    source = DataSource.parse(f"yahoo-like:{n_queries}")
    learning = DataSource.parse("yahoo-like:400@1").read("train")
    old = train_production_ranker(learning, seed=0)
    new = train_production_ranker(learning, n_queries=200, seed=1)
    data = source.read("train")
    bare = replace(
        data,
        features=np.zeros((data.n_docs, 0), dtype=np.float32),
        feature_names=(),
    )
    relevance = data.relevance().astype(np.float64)
    return Population(bare, relevance, score(old, data), score(new, data))


def measure(
    case: Case,
    population: Population,
    users: UserModel,
    n_queries: int,
    clicks: float,
    seed: int,
) -> Found:
    """Simulate a log; estimate value and difference, each with both targets."""
    log, joined = logged(case, population, users, n_queries, clicks, seed)
    data = log.data
    new = ranked_weights(log.new, data, DCG)
    future = targets(population)
    found: Found = {}
    for name in NAMES:
        labels = label_documents(joined, ESTIMATORS[name](joined.counts, users), data)
        sessions = labels.share * joined.counts.n_sessions
        old = logged_weights(joined, sessions, data, DCG)
        weights = {"value": new, "difference": new - old}
        unseen = never_shown_share(new, labels.shown, labels.share, data.query_of_doc)
        if case.bounds and unseen <= 0.05:
            raise SystemExit("this case shows too much to have bounds")
        for what, given in weights.items():
            if "rotated" in case.name and what == "difference":
                continue  # what is logged is no one ranking, whose value we know
            by_query = np.bincount(data.query_of_doc, log.relevance * given)
            found[f"{name}, {what}"] = (
                estimate(labels, given, data, bounds=case.bounds),
                float(labels.share @ by_query),
                future[what],
            )
    return found


def logged(
    case: Case,
    population: Population,
    users: UserModel,
    n_queries: int,
    clicks: float,
    seed: int,
) -> tuple[Population, JoinedCounts]:
    """Draw the queries of a log, and clicks on their old ranking."""
    rng = stage_rng("traffic", seed)
    drawn = rng.choice(population.data.n_queries, n_queries, replace=False)
    log = population.select(drawn)
    simulation = prepare(
        log.data,
        {"old": ranks_by_score(log.old, log.data.offsets)},
        log.relevance,
        users,
        traffic=case.traffic,
        rng=rng,
    )
    counts = simulate_counts(
        simulation, simulation.sessions_for(clicks), rng=stage_rng("clicks", seed)
    )
    return log, join_counts(counts, log.data)


def refitted(
    population: Population, users: UserModel, n_queries: int, clicks: float, seed: int
) -> tuple[Estimate, float, float]:
    """Estimate users and the difference from one log; both targets, in its units.

    Differences are in clicks at an average rank: those of relevance, times the mean
    alpha over impressions.
    """
    log, joined = logged(CASES[0], population, users, n_queries, clicks, seed)
    data, counts = log.data, joined.counts
    shows = np.bincount(data.query_of_doc[joined.doc], counts.impressions)
    sessions = np.asarray(shows / data.docs_per_query, dtype=np.float64)
    change = ranked_weights(log.new, data, DCG)
    change -= logged_weights(joined, sessions, data, DCG)
    shown = np.ones(data.n_docs, dtype=bool)
    held = Held(joined, data, centred(change, shown, data.query_of_doc)[None])
    learnt = Learnt(click_rows(joined, data), None, "mixture")
    fitted = fit_mixture(learnt.rows, rng=stage_rng("estimation", seed))
    found = estimate_differences(
        held, fitted.users, learnt, same=True, rng=stage_rng("estimation", seed, 1)
    )[0]
    by_query = np.bincount(data.query_of_doc, log.relevance * change)
    here = np.average(users.alpha[counts.rank - 1], weights=counts.impressions)
    ranks = ranks_by_score(population.old, population.data.offsets)
    ahead = users.alpha[ranks - 1].mean()
    return (
        found,
        float(by_query @ sessions / sessions.sum() * here),
        float(targets(population)["difference"] * ahead),
    )


def targets(population: Population) -> Mapping[str, float]:
    """The value of the new ranking on the population, and its lead on the old."""
    data = population.data
    value = {}
    for name, scores in (("new", population.new), ("old", population.old)):
        each = population.relevance * ranked_weights(scores, data, DCG)
        value[name] = float(each.sum() / data.n_queries)
    return {"value": value["new"], "difference": value["new"] - value["old"]}


def summary(logs: list[tuple[Estimate, float, float]]) -> str:
    """Coverage of both intervals, in words."""
    words = []
    aims = {"sessions": [log[1] for log in logs], "queries": [log[2] for log in logs]}
    for over, targeted in aims.items():
        intervals: list[Interval] = [getattr(log[0], over) for log in logs]
        covered = [
            interval.low <= target <= interval.high
            for interval, target in zip(intervals, targeted, strict=True)
        ]
        width = np.mean([interval.high - interval.low for interval in intervals])
        words.append(f"over {over} {np.mean(covered):6.1%} (width {width:.3f})")
    if not logs[0][0].bounded:
        off = np.mean([log[0].least - log[1] for log in logs])
        words.append(f"bias {off:+.3f}, target {logs[0][2]:.3f}")
    return "   ".join(words)


if __name__ == "__main__":
    main()
