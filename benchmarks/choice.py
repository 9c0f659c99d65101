"""Does `train --estimator auto` find the estimator that small data want?

Simulates clicks under known bias (eta = 1, eps-_1 = 0.65), lets `auto` choose by
held-out clicks, and trains every candidate on all queries to see what the choice was
worth: nDCG@10 on test labels. Run r of a fold has a production ranker, clicks and
rankers of seed r. Printed for each number of clicks: each candidate's mean, and mean
regrets against the candidate that is best on average, and against the one that is best
in each run (which nobody could know).

    python benchmarks/choice.py --data DIR --relevant-above 0 --folds 5    # MQ2008
    python benchmarks/choice.py --data yahoo-like:300
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.bias import EstimationSettings
from affinerank.clicks.counts import ClickCounts
from affinerank.clicks.models import ClickModel
from affinerank.clicks.simulate import simulate_counts
from affinerank.data.catalog import DataSource
from affinerank.data.dataset import RankingDataset
from affinerank.defaults import ESTIMATOR, RANKER, TREES
from affinerank.pipeline import (
    estimate_users,
    prepare_simulation,
    train,
    train_production_ranker,
)
from affinerank.pipeline.choice import Candidate, ChoiceSettings, compare
from affinerank.rankers import Ranker, judge, score
from affinerank.rankers.mlp import NetworkSettings
from affinerank.rankers.trees import TreeSettings
from affinerank.seeds import stage_rng

AFFINE = f"{RANKER}, {ESTIMATOR}"  # what `train` does where nothing is given


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="yahoo-like:300")
    parser.add_argument("--relevant-above", type=float, default=2.0)
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--clicks", type=float, nargs="+", default=[1e4])
    parser.add_argument("--hidden", default="32,16")
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--estimated", action="store_true", help="Users, too.")
    parser.add_argument("--keep", type=Path, help="Finished runs, to go on from.")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if options.keep is not None and options.keep.exists():
        rows = [json.loads(line) for line in options.keep.read_text().splitlines()]
    done = {(row["clicks"], row["fold"], row["run"]) for row in rows}
    for clicks in options.clicks:
        for fold in range(1, options.folds + 1):
            source = DataSource.parse(options.data, fold=fold)
            train, test = source.read("train"), source.read("test")
            for run in range(options.runs):
                if (clicks, fold, run) not in done:
                    about = {"clicks": clicks, "fold": fold, "run": run}
                    rows.append({**about, **one(train, test, clicks, run, options)})
                    if options.keep is not None:
                        lines = "".join(json.dumps(row) + "\n" for row in rows)
                        options.keep.write_text(lines)
        report([row for row in rows if row["clicks"] == clicks], options)


def one(
    data: RankingDataset,
    test: RankingDataset,
    clicks: float,
    run: int,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """One log: what was chosen, and what each candidate is worth."""
    above = options.relevant_above
    production = train_production_ranker(data, relevant_above=above, seed=run)
    simulation = prepare_simulation(
        data, rankers={"p": production}, relevant_above=above, seed=run
    )
    counts = simulate_counts(
        simulation, simulation.sessions_for(clicks), rng=stage_rng("clicks", run)
    )
    users = simulation.users
    if options.estimated:
        settings = EstimationSettings(seed=run)
        users = estimate_users(counts, data, settings=settings).users
    compared = ChoiceSettings(
        {
            RANKER: NetworkSettings(
                hidden=tuple(int(size) for size in options.hidden.split(",")),
                epochs=options.epochs,
                device="cpu",
            ),
            TREES: TreeSettings(
                trees=options.trees, leaves=15, learning_rate=0.1, threads=1
            ),
        },
        seed=run,
    )
    started = time.perf_counter()
    choice = compare(counts, data, users, settings=compared)
    seconds = time.perf_counter() - started
    value = {
        named(row.candidate): float(
            judge(
                score(refitted(row.candidate, counts, data, users, compared), test),
                test,
                above,
            ).mean
        )
        for row in choice.judged
    }
    return {
        "taken": named(choice.best),
        "seconds": seconds,
        "production": float(judge(score(production, test), test, above).mean),
        "value": value,
        "choice": choice.to_dict(),
    }


def named(candidate: Candidate) -> str:
    clip = "" if candidate.clip is None else ", clipped"
    return f"{candidate.ranker}, {candidate.estimator}{clip}"


def refitted(
    candidate: Candidate,
    counts: ClickCounts,
    data: RankingDataset,
    users: ClickModel,
    settings: ChoiceSettings,
) -> Ranker:
    trained = train(
        counts,
        data,
        users,
        ranker=candidate.ranker,
        settings=settings.rankers[candidate.ranker],
        estimators=[candidate.estimator],
        seeds=[settings.seed],
        clip=candidate.clip,
    )
    return trained.rankers[candidate.estimator, settings.seed]


def report(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    values = {
        name: np.array([row["value"][name] for row in rows])
        for name in sorted(rows[0]["value"])
    }
    values["auto"] = np.array([row["value"][row["taken"]] for row in rows])
    values["production ranker"] = np.array([row["production"] for row in rows])
    candidates = {n: values[n] for n in rows[0]["value"]}
    best = max(candidates, key=lambda name: candidates[name].mean())
    highest = np.max(list(candidates.values()), axis=0)
    print(
        f"{options.data}, {rows[0]['clicks']:g} clicks, {len(rows)} runs; networks "
        f"{options.hidden}, {options.epochs} epochs; {options.trees} trees; comparing "
        f"took {np.mean([row['seconds'] for row in rows]):.0f} s per run"
    )
    print("candidate                      nDCG@10  taken  regret: of the mean  of runs")
    for name, each in values.items():
        taken = sum(row["taken"] == name for row in rows)
        against = candidates[best] - each
        error = against.std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.nan
        print(
            f"{name:<30} {each.mean():.4f}   {taken:>4}   {against.mean():+.4f} +- "
            f"{error:.4f}   {(highest - each).mean():.4f}"
        )
    regret = {
        name: float((candidates[best] - values[name]).mean())
        for name in ("auto", AFFINE)
    }
    print(
        f"best on average: {best}; regret of auto {regret['auto']:+.4f} (to hold: "
        f"0.01), of always {AFFINE} {regret[AFFINE]:+.4f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
