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

from affinerank.clicks.join import join_counts
from affinerank.clicks.simulate import simulate_counts
from affinerank.data.catalog import DataSource
from affinerank.data.features import FeatureMapping
from affinerank.evaluation.runs import RunSummary
from affinerank.evaluation.significance import compare_runs
from affinerank.pipeline import (
    judge,
    prepare_simulation,
    score,
    stacked,
    train_production_ranker,
    weigh,
)
from affinerank.rankers.mlp import NetworkSettings
from affinerank.rankers.training import fit_networks
from affinerank.seeds import stage_rng

ESTIMATORS = ("naive", "ips", "bayes-ips", "affine", "full-information")


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
    production, weights = [], []
    for seed in range(options.runs):
        ranker = train_production_ranker(train, relevant_above=above, seed=seed)
        production.append(judge(score(ranker, test), test, above))
        simulation = prepare_simulation(
            train,
            eta=options.eta,
            eps_minus_1=options.eps_minus,
            rankers={"production": ranker},
            relevant_above=above,
            seed=seed,
        )
        n_sessions = simulation.sessions_for(options.clicks)
        rng = stage_rng("clicks", seed)
        joined = join_counts(simulate_counts(simulation, n_sessions, rng=rng), train)
        weights += [
            weigh(joined, train, simulation.users, name, relevant_above=above)
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
    fitted = fit_networks(
        mapping.apply(train).features,
        stacked(weights),
        train.offsets,
        seeds=[seed for seed in range(options.runs) for _ in ESTIMATORS],
        settings=settings,
    )
    seconds = time.perf_counter() - started
    scores = fitted.networks.predict(mapping.apply(test).features)
    runs = {
        name: RunSummary(
            name,
            [judge(s, test, above) for s in scores[i :: len(ESTIMATORS)]],
        )
        for i, name in enumerate(ESTIMATORS)
    }
    device = fitted.networks.parameters[0].device
    print(
        f"{options.data}, {options.clicks:g} clicks, eta = {options.eta:g}, eps-_1 = "
        f"{options.eps_minus:g}; runs and seeds {list(range(options.runs))}; "
        f"{options.hidden}, {options.epochs} epochs, learning rate "
        f"{options.learning_rate:g}; {len(weights)} networks on {device} "
        f"({options.precision}) in {seconds:.0f} s"
    )
    report({"production": RunSummary("production", production), **runs})


def report(runs: dict[str, RunSummary]) -> None:
    affine = runs["affine"].means
    tests = compare_runs({n: list(r.means) for n, r in runs.items()}, against="affine")
    p = {test.first: test.p for test in tests}
    print("estimator          nDCG@10  std error  affine - it  p (t-test)  runs")
    for name, summary in runs.items():
        ahead = float((affine - summary.means).mean())
        print(
            f"{name:<18} {summary.mean:.4f}   {summary.standard_error:.4f}     "
            f"{ahead:+.4f}      {p.get(name, 1.0):.2g}      "
            f"{[round(float(m), 4) for m in summary.means]}"
        )
    print(runs["affine"].runs[0].name)


if __name__ == "__main__":
    main()
