"""Does `train --auto` take a network's best estimator, and what does its rule cost?

Simulates clicks under known bias (eta = 1, eps-_1 = 0.65), compares estimators by
held-out clicks, and trains each on all queries to see what a choice was worth: nDCG@10
on test labels. Run r has a production ranker, clicks and rankers of seed r. Printed for
each number of clicks: each candidate's mean, and how often each rule takes it; and of
each rule the mean, and the mean regret against the candidate that is best on average.

    python benchmarks/choice.py --data yahoo-like:300 --clicks 1e3 1e4 1e5
    python benchmarks/choice.py --data mslr-like:145 --clicks 1e5 --only-time
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from affinerank.clicks.simulation import simulate_counts
from affinerank.counts.counts import ClickCounts
from affinerank.data.dataset import RankingDataset
from affinerank.data.sources import DataSource
from affinerank.defaults import BASELINE, CORRECTION, ESTIMATOR, NETWORK
from affinerank.evaluation.metrics import evaluate_scores
from affinerank.pipeline.compare import (
    COMPARED,
    ERRORS,
    KEEP,
    Candidate,
    Choice,
    ChoiceSettings,
    Evaluated,
    evaluate_all,
    hold_out,
    train_chosen,
)
from affinerank.pipeline.simulate import prepare_simulation
from affinerank.pipeline.steps.click_model import estimate_click_model
from affinerank.pipeline.steps.production import train_production_ranker
from affinerank.pipeline.steps.train_settings import TrainSettings
from affinerank.pipeline.train import train
from affinerank.rankers import score
from affinerank.rankers.networks.settings import NetworkSettings
from affinerank.support.seeds import stage_rng


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="yahoo-like:300")
    parser.add_argument("--relevant-above", type=float, default=2.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--clicks", type=float, nargs="+", default=[1e3, 1e4, 1e5])
    parser.add_argument("--hidden", default="64,32")
    parser.add_argument("--estimated", action="store_true", help="Users, too.")
    parser.add_argument("--only-time", action="store_true", help="All by default.")
    options = parser.parse_args()
    source = DataSource.parse(options.data)
    data = source.read("train")
    if options.only_time:
        for clicks in options.clicks:
            timed(data, clicks, options)
        return
    test = source.read("test")
    for clicks in options.clicks:
        runs = range(100, 100 + options.runs)
        rows = [one(data, test, clicks, run, options) for run in runs]
        report(rows, clicks, options)


def simulated(
    data: RankingDataset, clicks: float, run: int, options: argparse.Namespace
) -> tuple[Any, ClickCounts, Any]:
    """Return a production ranker, clicks on its lists, and the users."""
    above = options.relevant_above
    production = train_production_ranker(data, relevant_above=above, seed=run)
    simulation = prepare_simulation(
        data, rankers={"p": production}, relevant_above=above, seed=run
    )
    sessions = simulation.sessions_for(clicks)
    counts = simulate_counts(simulation, sessions, rng=stage_rng("clicks", run))
    click_model = simulation.click_model
    if options.estimated:
        click_model = estimate_click_model(counts, data).click_model
    return production, counts, click_model


def one(
    data: RankingDataset,
    test: RankingDataset,
    clicks: float,
    run: int,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """One log: what each rule takes, and what each candidate is worth."""
    production, counts, click_model = simulated(data, clicks, run, options)
    hidden = tuple(int(size) for size in options.hidden.split(","))
    network = NetworkSettings(hidden=hidden, device="cpu")
    training = TrainSettings(NETWORK, network, seeds=(run,))
    settings = ChoiceSettings((NETWORK,), training=training)
    started = time.perf_counter()
    scores, rows, _ = hold_out(counts, data, click_model, settings=settings)
    seconds = time.perf_counter() - started
    trained = train(
        counts,
        data,
        click_model,
        training,
        estimators=COMPARED,
    )
    rankers = {
        Candidate(name, NETWORK).name: ranker
        for (name, _), ranker in trained.rankers.items()
    }
    above = options.relevant_above
    value = {
        name: float(evaluate_scores(score(ranker, test), test, above).mean)
        for name, ranker in {**rankers, KEEP: production}.items()
    }
    evaluated = evaluate_all(scores, rows, click_model)
    by_click_model = [row for row in evaluated if row.evaluator == CORRECTION]
    choice = Choice(evaluated, settings.candidates)
    taken = {"auto": choice.best, **others(by_click_model, settings)}
    return {"taken": taken, "seconds": seconds, "value": value}


def others(evaluated: Sequence[Evaluated], settings: ChoiceSettings) -> dict[str, str]:
    """What rules take that `auto` could have had, of the judge with the users."""

    def led(over: str, among: Sequence[Evaluated]) -> Evaluated:
        """Largest lead over a candidate, less half its standard error."""
        return max(
            among, key=lambda row: row.over[over][0] - ERRORS * row.over[over][1]
        )

    default, naive = (Candidate(e, NETWORK).name for e in (ESTIMATOR, BASELINE))
    best = led(default, evaluated)
    gain, error = best.over[KEEP]
    ranked = [row for row in evaluated if row.candidate != KEEP]
    return {
        "users alone": Choice(evaluated, settings.candidates).best,
        "keep unless sure": best.candidate if gain > ERRORS * error else KEEP,
        "lead over naive": led(naive, ranked).candidate,
        "highest gain": max(evaluated, key=lambda row: row.over[KEEP][0]).candidate,
        f"always {default}": default,
    }


def report(
    rows: list[dict[str, Any]], clicks: float, options: argparse.Namespace
) -> None:
    value = {
        name: np.array([row["value"][name] for row in rows])
        for name in rows[0]["value"]
    }
    best = max(value, key=lambda name: value[name].mean())
    print(
        f"{options.data}, {clicks:g} clicks, {len(rows)} runs; networks "
        f"{options.hidden}; comparing took "
        f"{np.mean([row['seconds'] for row in rows]):.0f} s per run"
    )
    for name, each in value.items():
        print(f"  {name:<26} {each.mean():.4f}  regret {_less(value[best], each)}")
    for rule in rows[0]["taken"]:
        names = [row["taken"][rule] for row in rows]
        each = np.array([value[name][i] for i, name in enumerate(names)])
        took = ", ".join(f"{names.count(n)} {n}" for n in value if n in names)
        print(
            f"rule: {rule:<22} {each.mean():.4f}  regret {_less(value[best], each)}: "
            f"{took}",
            flush=True,
        )


def _less(best: Any, each: Any) -> str:
    lost = best - each
    error = lost.std(ddof=1) / np.sqrt(len(lost)) if len(lost) > 1 else np.nan
    return f"{lost.mean():+.4f} +- {error:.4f}"


def timed(data: RankingDataset, clicks: float, options: argparse.Namespace) -> None:
    """Time `train --auto` as it is by default."""
    _, counts, click_model = simulated(data, clicks, 100, options)
    started = time.perf_counter()
    _, choice = train_chosen(counts, data, None if options.estimated else click_model)
    print(
        f"{options.data}, {clicks:g} clicks: {data.n_queries} queries, {data.n_docs:,} "
        f"documents; {time.perf_counter() - started:.0f} s, {choice.parts} of "
        f"{choice.folds} parts, taken: {choice.best}",
        flush=True,
    )


if __name__ == "__main__":
    main()
