"""How honest values from clicks are: coverage of both intervals, by estimator.

Each log has queries of its own, drawn from a large population of one synthetic world,
and clicks of its own, on the list of a production ranker. Another ranker, which nobody
saw, is judged by them: its DCG@10, and the difference from the logged ranking. Printed
is how often each 95 % interval covers its own target: over sessions the value on the
log's queries, over queries the value on the population. The users are known, and have
trust bias. Where ten documents are shown, the relevance of the others is predicted.

    python benchmarks/offpolicy.py --logs 200
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from affinerank.clicks.models.trust import EstimatedBy, TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic, prepare
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.dataset import RankingDataset
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.sources import DataSource
from affinerank.defaults import CORRECTION, METHOD, QUICK
from affinerank.estimators import ESTIMATORS, Fold
from affinerank.estimators.estimator import CLICKS
from affinerank.evaluation.click_value import Interval, ValueEstimate, estimate
from affinerank.evaluation.never_shown import by_information, predict
from affinerank.evaluation.rank_weights import (
    DCG_10,
    logged_weights,
    over_logged,
    ranked_weights,
)
from affinerank.evaluation.refits import Differences, Source, estimate_differences
from affinerank.pipeline.steps.out_of_fold import RankerJob, train_out_of_fold
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.steps.weighing import learns_of, weigh
from affinerank.rankers import score
from affinerank.support.arrays import Floats, Ints
from affinerank.support.lists import ranks_by_score
from affinerank.support.seeds import stage_rng

Found = dict[str, tuple[ValueEstimate, float, float]]

NAMES = [
    name
    for name, row in ESTIMATORS.items()
    if row.needs != "labels" and not learns_of(name)
]


@dataclass(frozen=True, slots=True)
class Case:
    """What is simulated.

    Attributes:
        name: In words.
        traffic: Which queries come, and what is shown.
        predicts: Whether much of the new list was never shown, and is predicted.
    """

    name: str
    traffic: Traffic
    predicts: bool = False


CASES = (
    Case("all documents shown", Traffic()),
    Case("some queries more frequent", Traffic(queries="zipf:0.5")),
    Case("ranks rotated", Traffic(policies=("rotate(share=0.5)",))),
    Case("ten documents shown, others predicted", Traffic(top_k=10), predicts=True),
)


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Queries, their relevance, and two rankings of them.

    Attributes:
        data: Queries and documents, with mapped features.
        relevance: ``[n_docs]``.
        old: ``[n_docs]`` scores of the ranker that is logged.
        new: ``[n_docs]`` scores of the ranker that is judged.
    """

    data: RankingDataset
    relevance: Floats
    old: Floats
    new: Floats

    def select(self, queries: Ints) -> Population:
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
    parser.add_argument("--case", type=int, help="one case alone, from 0")
    options = parser.parse_args()
    population = populated(options.population)
    click_model = TrustModel.paper(depth=int(population.data.docs_per_query.max()))
    print(
        f"yahoo-like, synthetic: {options.logs} logs of {options.queries} out of "
        f"{options.population} queries, {options.clicks:g} clicks each; paper's users, "
        "eta 1, eps- .65; DCG@10"
    )
    if options.estimated:
        so_far = []
        for seed in range(options.logs):
            case = CASES[options.case or 0]
            size = (options.queries, options.clicks)
            so_far.append(refitted(case, population, click_model, *size, seed))
            print(f"{seed + 1} logs, users estimated: {summary(so_far)}", flush=True)
        return
    for case in CASES if options.case is None else [CASES[options.case]]:
        started = time.perf_counter()
        logs = [
            measure(
                case, population, click_model, options.queries, options.clicks, seed
            )
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
    mapped = FeatureMapping.fit(data, impute=True).apply(data)
    relevance = data.relevance().astype(np.float64)
    return Population(mapped, relevance, score(old, data), score(new, data))


def measure(
    case: Case,
    population: Population,
    click_model: TrustModel,
    n_queries: int,
    clicks: float,
    seed: int,
) -> Found:
    """Simulate a log; estimate value and difference, each with both targets."""
    log, rows = logged(case, population, click_model, n_queries, clicks, seed)
    new, query = ranked_weights(log.new, rows, DCG_10), rows.query_of_doc
    old = logged_weights(rows, DCG_10)
    future = targets(population)
    found: Found = {}
    predicted = None
    if case.predicts:
        predicted = predict(rows, click_model, learnt(log, rows, click_model), log.new)
    by = {
        n: weigh(rows, n, click_model) for n in ([CORRECTION] if predicted else NAMES)
    }
    if len(np.unique(rows.doc)) < len(rows):
        folds = learnt(log, rows, click_model)
        by[f"{CORRECTION}, by information"] = by_information(rows, click_model, folds)
    for name, weights in by.items():
        for what, given in {"value": new, "difference": new - old}.items():
            if "rotated" in case.name and what == "difference":
                continue  # what is logged is no one ranking, whose value we know
            by_query = np.bincount(query, log.relevance * given)
            found[f"{name}, {what}"] = (
                estimate(weights, given, query, predicted=predicted),
                float(weights.share @ by_query),
                future[what],
            )
    return found


def learnt(log: Population, rows: ClickRows, click_model: TrustModel) -> Sequence[Fold]:
    """Rankers of other queries, that explain the clicks of a log."""
    return train_out_of_fold(
        [RankerJob(rows, click_model, (CLICKS,), 0)],
        log.data.features,
        log.data.offsets,
        rankers=(QUICK,),
    )[0]


def logged(
    case: Case,
    population: Population,
    click_model: TrustModel,
    n_queries: int,
    clicks: float,
    seed: int,
) -> tuple[Population, ClickRows]:
    """Draw the queries of a log, and clicks on their old ranking."""
    rng = stage_rng("traffic", seed)
    drawn = rng.choice(population.data.n_queries, n_queries, replace=False)
    log = population.select(drawn)
    simulation = prepare(
        log.data,
        {"old": ranks_by_score(log.old, log.data.offsets)},
        log.relevance,
        click_model,
        traffic=case.traffic,
        rng=rng,
    )
    counts = simulate_counts(
        simulation, simulation.sessions_for(clicks), rng=stage_rng("clicks", seed)
    )
    return log, join_counts(counts, log.data)


def refitted(
    case: Case,
    population: Population,
    click_model: TrustModel,
    n_queries: int,
    clicks: float,
    seed: int,
) -> tuple[ValueEstimate, float, float]:
    """Estimate users and the difference from one log; both targets, in its units.

    Differences are in clicks at an average rank: those of relevance, times the mean
    alpha over impressions.
    """
    log, rows = logged(case, population, click_model, n_queries, clicks, seed)
    query = rows.query_of_doc
    change = over_logged(log.new, rows, DCG_10, every=True)
    source = Source(rows, EstimatedBy(METHOD), held_out=True)
    first = source.fit(rows, stage_rng("estimation", seed)).click_model
    how = []
    if case.predicts:
        folds = learnt(log, rows, first)
        how.append(partial(predict, folds=folds, scores=log.new))
    held = Differences(
        rows,
        change[None],
        lambda rows, click_model: weigh(rows, CORRECTION, click_model),
        how,
    )
    found = estimate_differences(
        held,
        first,
        source,
        rng=stage_rng("estimation", seed, 1),
    )[0]
    by_query = np.bincount(query, log.relevance * change)
    here = np.average(click_model.alpha[rows.rank - 1], weights=rows.impressions)
    ranks = ranks_by_score(population.old, population.data.offsets)
    shown = ranks <= (case.traffic.top_k or ranks.max())
    ahead = click_model.alpha[ranks[shown] - 1].mean()
    return (
        found,
        float(by_query @ rows.share * here),
        float(targets(population)["difference"] * ahead),
    )


def targets(population: Population) -> Mapping[str, float]:
    """The value of the new ranking on the population, and its lead on the old."""
    data = population.data
    value = {}
    for name, scores in (("new", population.new), ("old", population.old)):
        each = population.relevance * DCG_10.at(ranks_by_score(scores, data.offsets))
        value[name] = float(each.sum() / data.n_queries)
    return {"value": value["new"], "difference": value["new"] - value["old"]}


def summary(logs: list[tuple[ValueEstimate, float, float]]) -> str:
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
