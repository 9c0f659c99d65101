"""The result: rankers trained by every estimator on the same biased clicks.

Simulates clicks under known bias, trains one network per estimator and run, all at
once, and prints nDCG@10 on test labels with standard errors over runs. Run r has its
own production ranker, clicks and initialisation, all of seed r.

    python benchmarks/estimators.py                                  # yahoo-like:2000
    python benchmarks/estimators.py --data DIR --relevant-above 0    # e.g. MQ2008
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from affinerank.clicks.simulation import simulate_counts
from affinerank.counts.rows import join_counts
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.sources import DataSource
from affinerank.defaults import ESTIMATOR, NETWORK
from affinerank.estimators import ESTIMATORS
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.evaluation.significance import compare_runs
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.steps.training_lists import TrainingLists, fit_all
from affinerank.pipeline.steps.weighing import weigh
from affinerank.rankers import predict_all, score
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.support.seeds import stage_rng


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="yahoo-like:2000")
    parser.add_argument("--relevant-above", type=float, default=2.0)
    parser.add_argument("--clicks", type=float, default=1e6)
    parser.add_argument("--eta", type=float, default=1.0)
    parser.add_argument("--eps-minus", type=float, default=0.65)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.004)
    parser.add_argument("--hidden", default="512,256,128")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32")
    run(parser.parse_args())


def run(options: argparse.Namespace) -> None:
    source = DataSource.parse(options.data)
    train, test = source.read("train"), source.read("test")
    above = options.relevant_above
    click_model = f"trust(eta={options.eta}, eps_minus_1={options.eps_minus})"
    labels = train.relevance(above).astype(np.float64)
    production, weights = [], []
    for seed in range(options.runs):
        ranker = train_production_ranker(train, relevant_above=above, seed=seed)
        production.append(evaluate_scores(score(ranker, test), test, above).mean)
        simulation = prepare_simulation(
            train,
            click_model=click_model,
            rankers={"production": ranker},
            relevant_above=above,
            seed=seed,
        )
        n_sessions = simulation.sessions_for(options.clicks)
        rng = stage_rng("clicks", seed)
        rows = join_counts(simulate_counts(simulation, n_sessions, rng=rng), train)
        weights += [
            weigh(rows, name, simulation.click_model, labels=labels)
            for name in ESTIMATORS
        ]
    settings = NetworkSettings(
        hidden=tuple(int(size) for size in options.hidden.split(",")),
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        device=options.device,
        precision=options.precision,
    )
    mapping = FeatureMapping.fit(train)
    started = time.perf_counter()
    fitted = fit_all(
        NETWORK,
        TrainingLists.of(mapping.apply(train).features, train.offsets, weights),
        seeds=[seed for seed in range(options.runs) for _ in ESTIMATORS],
        settings=settings,
    )
    seconds = time.perf_counter() - started
    scores = predict_all([one.model for one in fitted], mapping.apply(test).features)
    values = [float(evaluate_scores(s, test, above).mean) for s in scores]
    print(
        f"{options.data}, {options.clicks:g} clicks, eta = {options.eta:g}, eps-_1 = "
        f"{options.eps_minus:g}; runs and seeds {list(range(options.runs))}; "
        f"{options.hidden}, {options.epochs} epochs, learning rate "
        f"{options.learning_rate:g}; {len(weights)} networks on {options.device} "
        f"({options.precision}) in {seconds:.0f} s"
    )
    runs = {name: values[i :: len(ESTIMATORS)] for i, name in enumerate(ESTIMATORS)}
    report({"production": production, **runs})


def report(runs: dict[str, list[float]]) -> None:
    tests = compare_runs(runs, against=ESTIMATOR)
    p = {test.first: test.p for test in tests}
    print(f"estimator          nDCG@10  std error  {ESTIMATOR} - it  p (t-test)  runs")
    for name, values in runs.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        ahead = np.mean(runs[ESTIMATOR]) - np.mean(values)
        print(
            f"{name:<18} {np.mean(values):.4f}   {error:.4f}     {ahead:+.4f}      "
            f"{p.get(name, 1.0):.2g}      {[round(value, 4) for value in values]}"
        )


if __name__ == "__main__":
    main()
