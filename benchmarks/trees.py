"""Trees on corrected clicks: time of an iteration, and nDCG@10 by estimator.

Times our objective and LightGBM's own lambdarank in turn on the same data (2e5
documents x 136 features), then trains trees by every estimator on the same biased
clicks, and LightGBM's own lambdarank on the labels beside them.

    python benchmarks/trees.py --speed       # the ratio alone
    python benchmarks/trees.py --quality     # nDCG@10 alone, on yahoo-like:1000
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import lightgbm as lgb
import numpy as np

from affinerank.clicks.simulation import simulate_counts
from affinerank.data.sources import DataSource
from affinerank.estimators import ESTIMATORS
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.train import train
from affinerank.rankers import Ranker, score
from affinerank.rankers.trees import lightgbm as trees
from affinerank.rankers.trees.objectives import LambdaObjective
from affinerank.support.seeds import stage_rng

FEATURES = 136


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=15)
    parser.add_argument("--data", default="yahoo-like:1000")
    parser.add_argument("--clicks", type=float, default=1e6)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--trees", type=int, default=300)
    options = parser.parse_args()
    if options.speed or not options.quality:
        speed(options)
    if options.quality or not options.speed:
        quality(options)


def speed(options: argparse.Namespace) -> None:
    """Time iterations of both objectives in turn, so that both meet the same load."""
    rng = np.random.default_rng(0)
    n_docs = options.documents
    sizes = rng.lognormal(np.log(100), 0.6, size=n_docs).astype(int) + 1
    ends = np.cumsum(sizes)
    offsets = np.concatenate([[0], ends[ends < n_docs], [n_docs]])
    features = rng.random((n_docs, FEATURES), dtype=np.float32)
    labels = (features[:, :2].sum(axis=1) + rng.normal(0, 0.3, n_docs) > 1.5) * 1.0
    weights = labels + rng.normal(0, 0.5, n_docs)  # some negative, as when corrected
    basic = {"num_threads": options.threads, "verbosity": -1, "force_row_wise": True}
    data = lgb.Dataset(features, labels, group=np.diff(offsets), params=basic)
    own = lgb.Booster({**basic, "objective": "lambdarank"}, data)
    ours = lgb.Booster({**basic, "objective": "none"}, data)
    objective = LambdaObjective(weights, offsets)
    steps: dict[str, Callable[[], Any]] = {
        "lambdarank of LightGBM": own.update,
        "LambdaObjective": lambda: ours.update(fobj=objective),
        "its gradients alone": lambda: objective(weights),
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(options.iterations + 2):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(t[2:]) for name, t in times.items()}
    print(
        f"{n_docs:,} x {FEATURES}, {len(offsets) - 1:,} queries, {options.threads} "
        f"threads, medians of {options.iterations} iterations"
    )
    for name, seconds in medians.items():
        print(f"{name:<24} {seconds * 1e3:7.1f} ms")
    ratio = medians["LambdaObjective"] / medians["lambdarank of LightGBM"]
    print(f"ratio                    {ratio:7.2f}  (to hold: 2)")


def quality(options: argparse.Namespace) -> None:
    """Mean nDCG@10 over runs; run r has its own production ranker and clicks."""
    source = DataSource.parse(options.data)
    data, test = source.read("train"), source.read("test")
    settings = trees.TreeSettings(trees=options.trees, threads=options.threads)
    values: dict[str, list[float]] = {}
    for seed in range(options.runs):
        production = train_production_ranker(data, seed=seed)
        simulation = prepare_simulation(data, rankers={"p": production}, seed=seed)
        counts = simulate_counts(
            simulation,
            simulation.sessions_for(options.clicks),
            rng=stage_rng("clicks", seed),
        )
        trained = train(
            counts,
            data,
            simulation.click_model,
            ranker=trees.ROW.name,
            estimators=list(ESTIMATORS),
            seeds=[seed],
            settings=settings,
        )
        rankers: dict[str, Any] = {"production": production} | {
            name: ranker for (name, _), ranker in trained.rankers.items()
        }
        mapping = rankers["affine"].mapping
        mapped, relevance = mapping.apply(data).features, data.relevance(2.0)
        model = trees.fit_lambdamart(mapped, relevance, data.offsets, seed=seed)
        rankers["lambdarank, labels"] = Ranker(trees.ROW.name, model, mapping, {})
        for name, ranker in rankers.items():
            found = evaluate_scores(score(ranker, test), test, 2.0).mean
            values.setdefault(name, []).append(found)
            print(f"run {seed}: {name:<20} {found:.4f}", flush=True)
    print(
        f"{options.data}, {options.clicks:g} clicks, {options.trees} trees, seeds "
        f"{list(range(options.runs))}"
    )
    print("estimator            nDCG@10  std error  runs")
    for name, runs in values.items():
        error = np.std(runs, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.nan
        means = [round(value, 4) for value in runs]
        print(f"{name:<20} {np.mean(runs):.4f}   {error:.4f}     {means}")


if __name__ == "__main__":
    main()
