"""The default ranker against a network, its own members and naive clicks, on 8 logs.

Each set has 8 logs of 3,000 to 3,000,000 clicks. Half of them show whole lists (of the
shop: the first 20), and their click model is known. The others show lists of ten, and
their click model is estimated, as where nobody says. Every log has a fold, a production
ranker and a draw of its own. All systems learn from the same logs.

    AFFINERANK_DATA=DIR python benchmarks/default_ranker.py --results FILE

Each measurement is a line of JSON in FILE; one that is already there is not repeated,
so the work can be interrupted, or split by ``--sets``, ``--systems`` and ``--logs``.
Then prints, by set, the mean nDCG@10 on test labels over the logs, and each system less
the blend, with the standard error of the paired difference.

How much a ranker owes to chance is measured on the log of 30,000 clicks: its clicks are
drawn again (another log of the same users), or the training gets another seed, which
draws the folds, the queries that are held out, and the first weights of a network.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import affinerank as ar
from affinerank.clicks.traffic import Traffic
from affinerank.seeds import stage_rng
from benchmarks.ranking_sets import DataSet, Parts, data_sets, ndcg

CLICKS = (3e3, 3e4, 3e5, 3e6)
BLEND = "blend"


class System(NamedTuple):
    """What is trained.

    Attributes:
        ranker: A row of ``RANKERS``.
        estimator: A row of ``ESTIMATORS``.
        scaling: Of features; left out, that of the row.
    """

    ranker: str
    estimator: str = "posterior"
    scaling: str | None = None


SYSTEMS = {
    BLEND: System("blend"),
    "network": System("mlp"),
    "trees": System("lightgbm"),
    "trees in list": System("lightgbm", scaling="list"),
    "linear": System("linear-model"),
    "naive blend": System("blend", "naive"),
    "naive network": System("mlp", "naive"),
    "naive trees": System("lightgbm", "naive"),
}


class Log(NamedTuple):
    """One of the logs of a set.

    Attributes:
        number: Its own, from 1: fold, and seed of everything random.
        clicks: About how many.
        known: Whether the click model is known, and lists are whole.
        draw: Of the clicks, where they are drawn again; else 0.
        seed: Of the training.
    """

    number: int
    clicks: float
    known: bool
    draw: int = 0
    seed: int = 0

    @property
    def name(self) -> str:
        """What a result calls it."""
        name = f"{self.clicks:g} {'known' if self.known else 'estimated'}"
        if self.draw:
            name += f", draw {self.draw}"
        if self.seed:
            name += f", seed {self.seed}"
        return name


LOGS = [
    Log(number, clicks, known)
    for number, (known, clicks) in enumerate(product((True, False), CLICKS), start=1)
]
AGAIN = range(1, 9)
DRAWN_AGAIN = [LOGS[1]._replace(draw=draw) for draw in AGAIN]
SEEDED_AGAIN = [LOGS[1]._replace(seed=seed) for seed in AGAIN]
WORLDS = ("shop-like:1200", "yahoo-like:1000", "mslr-like:400")


def main() -> None:
    """Measure what is not measured yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--sets", default="", help="sets whose name begins like this")
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--logs", nargs="*", type=int, help="by place in the list")
    options = parser.parse_args()
    every = [*LOGS, *DRAWN_AGAIN, *SEEDED_AGAIN]
    numbers = range(len(every)) if options.logs is None else options.logs
    for data_set in data_sets(WORLDS):
        if data_set.name.startswith(options.sets):
            for log in (every[number] for number in numbers):
                measure(data_set, log, options.systems, options.results)
    show(read(options.results))


def measure(data_set: DataSet, log: Log, systems: list[str], results: Path) -> None:
    """Train the systems on a log; add what each reaches to the results."""
    done = {(row["set"], row["log"], row["system"]) for row in read(results)}
    wanted = [
        system for system in systems if (data_set.name, log.name, system) not in done
    ]
    if not wanted:
        return
    parts = data_set.read(log.number)
    counts, click_model = draw(data_set, parts, log)
    for system in wanted:
        ranker, estimator, scaling = SYSTEMS[system]
        reads_numbers = not ar.RANKERS[ranker].reads_categories
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trained = ar.train(
                counts,
                parts.train,
                click_model,
                ranker=ranker,
                estimators=[estimator],
                seeds=[log.seed],
                scaling=scaling,
                categories="one-hot"
                if parts.train.categories and reads_numbers
                else None,
            )
        seconds = time.process_time() - started
        [model] = trained.rankers.values()
        row = {
            "set": data_set.name,
            "log": log.name,
            "system": system,
            "ndcg": ndcg(ar.score(model, parts.test), parts.test, data_set),
            "cpu_seconds": round(seconds, 1),
        }
        with results.open("a") as file:
            file.write(json.dumps(row) + "\n")


def draw(data_set: DataSet, parts: Parts, log: Log) -> tuple[Any, Any]:
    """Draw the clicks of a log; return counts, and the click model where known."""
    simulation = ar.prepare_simulation(
        parts.train,
        relevant_above=data_set.relevant_above,
        traffic=Traffic(top_k=data_set.top_k if log.known else 10),
        seed=log.number,
    )
    counts = ar.simulate_counts(
        simulation,
        simulation.sessions_for(log.clicks),
        rng=stage_rng("clicks", log.number + 100 * log.draw),
    )
    return counts, simulation.users if log.known else None


def read(results: Path) -> list[dict[str, Any]]:
    """Read what was measured."""
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text().splitlines()]


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table for each set, and one of what chance does."""
    by_key = {(row["set"], row["log"], row["system"]): row for row in rows}
    for name in dict.fromkeys(row["set"] for row in rows):
        print(f"\n{name}")
        for system in SYSTEMS:
            measured = [by_key.get((name, log.name, system)) for log in LOGS]
            logs = [row for row in measured if row is not None]
            if not logs:
                continue
            mean = np.mean([row["ndcg"] for row in logs])
            seconds = np.mean([row["cpu_seconds"] for row in logs])
            line = f"  {system:<14} {mean:.4f}  {seconds:6.1f} CPU s  {len(logs)} logs"
            blends = [by_key.get((name, row["log"], BLEND)) for row in logs]
            if len(logs) > 1 and None not in blends:
                less = [
                    row["ndcg"] - blend["ndcg"]
                    for row, blend in zip(logs, blends, strict=True)
                    if blend is not None
                ]
                error = np.std(less, ddof=1) / np.sqrt(len(less))
                line += f"  less the blend {np.mean(less):+.4f} +- {error:.4f}"
            print(line)
        for title, again in (("draws", DRAWN_AGAIN), ("seeds", SEEDED_AGAIN)):
            for system in SYSTEMS:
                values = [
                    by_key[name, log.name, system]["ndcg"]
                    for log in again
                    if (name, log.name, system) in by_key
                ]
                if len(values) > 1:
                    spread = np.std(values, ddof=1)
                    print(f"  {system:<14} {spread:.4f} over {len(values)} {title}")


if __name__ == "__main__":
    main()
