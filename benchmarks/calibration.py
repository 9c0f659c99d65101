"""Is the posterior as sure as it should be, and does it foresee clicks?

Simulates logs under known users (eta = 1, eps-_1 = 0.65), run r with a production
ranker and clicks of seed r, and weighs them by the default estimator. Printed for each
kind of relevance and number of clicks per query: the mean over documents of
(relevance - mean)^2 / variance, overall and by fifth of kappa, mean over logs and
standard error; and the log-likelihood per impression of as many fresh clicks on the
same lists, of posterior, direct and affine. 1 is right: above 1 the variance is too
small.

    python benchmarks/calibration.py --data yahoo-like:2000 --runs 20
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import numpy as np

from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Simulation
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.sources import DataSource
from affinerank.defaults import CORRECTION, ESTIMATOR, NETWORK
from affinerank.estimators import ESTIMATORS, Fold
from affinerank.estimators.relevance_scale import RelevanceScale
from affinerank.pipeline.simulate import prepare_simulation, relevance_of
from affinerank.pipeline.steps.out_of_fold import RankerJob, train_out_of_fold
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.steps.weighing import learns_of, weigh
from affinerank.rankers import RANKERS
from affinerank.support.arrays import Floats
from affinerank.support.seeds import stage_rng
from affinerank.support.settings import from_pairs

ABOVE = 2.0
COMPARED = (ESTIMATOR, "direct", CORRECTION)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="yahoo-like:2000")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="Seed of the first run.")
    parser.add_argument("--clicks-per-query", type=float, nargs="+", default=[3, 30])
    parser.add_argument("--relevance", nargs="+", default=["binary", "graded"])
    parser.add_argument("--ranker", default=NETWORK)
    parser.add_argument("--set", nargs="*", default=[], help="Settings of the ranker.")
    options = parser.parse_args()
    data = DataSource.parse(options.data).read("train")
    features = FeatureMapping.fit(data).apply(data).features
    runs = range(options.first, options.first + options.runs)
    rankers = [train_production_ranker(data, seed=run) for run in runs]
    settings: Any = from_pairs(RANKERS[options.ranker].settings, options.set)
    print(
        f"{options.data}, {options.ranker}, runs {runs[0]} to {runs[-1]}, users known"
    )
    for kind in options.relevance:
        relevance = relevance_of(data, kind, ABOVE).astype(np.float64)
        worlds = [
            prepare_simulation(data, rankers={"p": ranker}, relevance=kind, seed=run)
            for run, ranker in zip(runs, rankers, strict=True)
        ]
        for each in options.clicks_per_query:
            clicks = each * data.n_queries
            logs = [
                [drawn(world, data, clicks, run, part) for part in range(2)]
                for run, world in zip(runs, worlds, strict=True)
            ]
            folds = train_out_of_fold(
                [
                    RankerJob(log[0], world.click_model, learns_of(ESTIMATOR), run)
                    for run, world, log in zip(runs, worlds, logs, strict=True)
                ],
                features,
                data.offsets,
                rankers=RANKERS[options.ranker].prior,
                settings={options.ranker: settings},
            )
            given = list(zip(worlds, logs, folds, strict=True))
            evaluated = [measured(*one, relevance) for one in given]
            report(f"{kind}, {each:g} clicks per query", evaluated)


def drawn(
    world: Simulation, data: Any, clicks: float, run: int, part: int
) -> ClickRows:
    """Draw clicks to learn from (part 0), or fresh ones on the same lists."""
    rng = stage_rng("clicks", run, round(clicks), part)
    return join_counts(
        simulate_counts(world, world.sessions_for(clicks), rng=rng), data
    )


def measured(
    world: Simulation, log: list[ClickRows], folds: list[Fold], relevance: Floats
) -> dict[str, float]:
    """One log: squared errors in units of the variance, and likelihoods."""
    rows, fresh = log
    found: dict[str, float] = {}
    for name in COMPARED:
        own = folds if learns_of(ESTIMATORS[name].name) else []
        weights = weigh(rows, name, world.click_model, folds=own)
        if name == ESTIMATOR:
            ratio = (relevance - weights.weight) ** 2 / weights.variance
            own_click_share = np.asarray(weights.own_click_share)
            known = weights.known
            fifth = np.digitize(
                own_click_share,
                np.quantile(own_click_share[known], [0.2, 0.4, 0.6, 0.8]),
            )
            found["all"] = float(ratio[known].mean())
            for i in range(5):
                found[f"fifth {i + 1}"] = float(ratio[known & (fifth == i)].mean())
        p = RelevanceScale.of(world.click_model, fresh).rate(
            np.clip(weights.weight, 0.0, 1.0)
        )
        n, clicks = fresh.impressions, fresh.clicks
        likelihood = clicks * np.log(p) + (n - clicks) * np.log1p(-p)
        found[f"likelihood, {name}"] = float(likelihood.sum() / n.sum())
    return found


def report(title: str, evaluated: list[dict[str, float]]) -> None:
    by: dict[str, list[float]] = defaultdict(list)
    for one in evaluated:
        for name, value in one.items():
            by[name].append(value)
    print(title)
    for name, values in by.items():
        error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
        print(f"    {name:<24} {np.mean(values):9.5f}  {error:.5f}", flush=True)


if __name__ == "__main__":
    main()
