"""What a category is worth: trees and networks with it, as codes and without it.

    python benchmarks/categories.py --queries 500 --runs 0 1 2 3 4 5 6 7

In the world, five numbers and one category of 50 values decide on relevance. Rankers
learn from simulated clicks, users known. Prints nDCG@10 on test labels by what is done
with the category, mean, standard error and every run, and the lead over leaving it out.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from affinerank.clicks.simulation import simulate_counts
from affinerank.data.dataset import RankingDataset
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.train_settings import ranker_settings
from affinerank.pipeline.train import train
from affinerank.rankers.ranker import score
from affinerank.support.seeds import stage_rng

VALUES, NUMBERS, DOCS = 50, 5, 20
ABOVE = 2.0
WITHOUT = "without it"
SETTINGS = {
    "lightgbm": ["trees=100"],
    "mlp": ["hidden=64,32", "epochs=16"],
    "linear-model": [],
}


def world(queries: int, seed: int) -> tuple[RankingDataset, RankingDataset]:
    """Draw training and test data whose documents have a brand that matters."""
    rng = np.random.default_rng(seed)
    slope, worth = rng.normal(size=NUMBERS), rng.normal(size=VALUES)
    names = tuple(f"x{i}" for i in range(1, NUMBERS + 1))
    brands = tuple(f"brand {i:02d}" for i in range(VALUES))
    made = []
    for number in (queries, 1000):
        rows = number * DOCS
        x = rng.normal(size=(rows, NUMBERS))
        brand = rng.integers(VALUES, size=rows)
        value = x @ slope / np.linalg.norm(slope) + worth[brand]
        value += 0.5 * rng.normal(size=rows)
        labels = np.digitize(value, [0.0, 1.0, 1.5, 2.5])
        made.append(
            RankingDataset.from_groups(
                np.column_stack([x, brand]),
                np.repeat(np.arange(number), DOCS),
                np.arange(number),
                labels=labels,
                feature_names=(*names, "brand"),
                categories={"brand": brands},
            )
        )
    return made[0], made[1]


def treated(ranker: str) -> dict[str, dict[str, Any]]:
    """Say what can be done with the category, by name."""
    ways: dict[str, dict[str, Any]] = {WITHOUT: {}, "codes as numbers": {}}
    if ranker == "lightgbm":
        ways["native"] = {}
    return {**ways, "one-hot": {"categories": "one-hot"}}


def values(queries: int, clicks: float, run: int, ranker: str) -> dict[str, float]:
    """Return nDCG@10 by what is done with the category."""
    data, test = world(queries, run)
    simulation = prepare_simulation(data, seed=run, relevant_above=ABOVE)
    sessions = simulation.sessions_for(clicks)
    counts = simulate_counts(simulation, sessions, rng=stage_rng("clicks", run))
    found = {}
    for name, how in treated(ranker).items():
        own, evaluated = data, test
        if name == WITHOUT:
            own, evaluated = (
                d.select_features(d.feature_names[:-1]) for d in (own, test)
            )
        if name == "codes as numbers":
            own, evaluated = (replace(d, categories={}) for d in (own, test))
        trained = train(
            counts,
            own,
            simulation.click_model,
            ranker=ranker,
            settings=ranker_settings(ranker, SETTINGS[ranker], run),
            seeds=[run],
            relevant_above=ABOVE,
            **how,
        )
        (made,) = trained.rankers.values()
        found[name] = float(
            evaluate_scores(score(made, evaluated), evaluated, ABOVE).mean
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--clicks", type=float, default=1e5)
    parser.add_argument("--runs", type=int, nargs="+", default=list(range(8)))
    parser.add_argument("--rankers", nargs="+", default=list(SETTINGS))
    asked = parser.parse_args()
    print(f"{asked.queries} queries of {DOCS}, {asked.clicks:g} clicks, nDCG@10")
    for ranker in asked.rankers:
        size = asked.queries, asked.clicks
        each = [values(*size, run, ranker) for run in asked.runs]
        for name in each[0]:
            got = np.array([one[name] for one in each])
            lead = got - [one[WITHOUT] for one in each]
            error = lead.std(ddof=1) / np.sqrt(len(lead)) if len(lead) > 1 else np.nan
            runs = " ".join(f"{value:.4f}"[1:] for value in got)
            print(
                f"{ranker:12s} {name:16s} {got.mean():.4f}  lead {lead.mean():+.4f} "
                f"(s.e. {error:.4f})   {runs}",
                flush=True,
            )


if __name__ == "__main__":
    main()
