"""What scaling costs: trees and networks on features scaled by list, by data, or not.

    python benchmarks/scaling.py --data yahoo-like:500 --runs 0 1 2

Prints nDCG@10 on test labels by ranker, estimator and scaling, mean and every run.
"""

from __future__ import annotations

import argparse

import numpy as np

from affinerank.clicks.simulation import simulate_counts
from affinerank.data.feature_mapping import SCALINGS
from affinerank.data.sources import DataSource
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.train_settings import ranker_settings
from affinerank.pipeline.train import train
from affinerank.rankers.ranker import score
from affinerank.support.seeds import stage_rng

TREES = ["trees=100"]
SETTINGS = {"lightgbm": TREES, "xgboost": TREES, "mlp": ["hidden=64,32", "epochs=16"]}
ESTIMATORS = ("full-information", "posterior", "affine")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="yahoo-like:500")
    parser.add_argument("--clicks", type=float, default=1e5)
    parser.add_argument("--runs", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rankers", nargs="+", default=list(SETTINGS))
    parser.add_argument("--relevant-above", type=float, default=2.0)
    asked = parser.parse_args()
    found: dict[tuple[str, str, str], list[float]] = {}
    source = DataSource.parse(asked.data)
    data, test = source.read("train"), source.read("test")
    above = asked.relevant_above
    for run in asked.runs:
        simulation = prepare_simulation(data, seed=run, relevant_above=above)
        sessions = simulation.sessions_for(asked.clicks)
        counts = simulate_counts(simulation, sessions, rng=stage_rng("clicks", run))
        for ranker in asked.rankers:
            for scaling in SCALINGS:
                trained = train(
                    counts,
                    data,
                    simulation.click_model,
                    ranker=ranker,
                    settings=ranker_settings(ranker, SETTINGS[ranker], run),
                    estimators=ESTIMATORS,
                    seeds=[run],
                    scaling=scaling,
                    relevant_above=above,
                )
                for (estimator, _), made in trained.rankers.items():
                    value = evaluate_scores(score(made, test), test, above).mean
                    found.setdefault((ranker, estimator, scaling), []).append(value)
    print(f"{asked.data}, {asked.clicks:g} clicks, nDCG@10")
    for (ranker, estimator, scaling), values in found.items():
        runs = " ".join(f"{value:.4f}" for value in values)
        mean = np.mean(values)
        print(
            f"{ranker:9s} {estimator:17s} {scaling:5s} {mean:.4f}   {runs}", flush=True
        )


if __name__ == "__main__":
    main()
