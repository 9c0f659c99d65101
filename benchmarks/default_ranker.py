"""Compare the default ranker with a network, with its members and with naive clicks.

Each data set has 8 logs of 3,000 to 3,000,000 clicks. Half of them show whole lists (of
the shop: the first 20), and their click model is known. The others show lists of ten,
and their click model is estimated, as by default. Every log has its own fold,
production ranker and draw of clicks. All systems learn from the same logs.

    AFFINERANK_DATA=DIR python benchmarks/default_ranker.py --results FILE

Each measurement is a line of JSON in FILE. Measurements that are already there are not
repeated, so the work can be interrupted, or split by ``--sets``, ``--systems`` and
``--logs``. At the end, a table for each data set shows the mean nDCG@10 on test labels
over the logs, and the difference to the blend with the standard error of the paired
difference.

The influence of chance is measured on the log of 30,000 clicks: either the clicks are
drawn again, by the same click model, or the training gets another seed, which draws the
folds, the held-out queries and the initial weights of a network.
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
from affinerank.support.seeds import stage_rng
from benchmarks.ranking_sets import DataSet, Parts, data_sets, ndcg

CLICKS = (3e3, 3e4, 3e5, 3e6)
BLEND = "blend"
Results = dict[tuple[str, str, str], dict[str, Any]]  # rows by set, log and system


class System(NamedTuple):
    """A ranker and the estimator that it learns from.

    Attributes:
        ranker: A row of ``RANKERS``.
        estimator: A row of ``ESTIMATORS``.
        scaling: Scaling of features; that of the row if ``None``.
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
    """One of the logs of a data set.

    Attributes:
        number: Number of the log, from 1. It selects the fold and seeds the simulation.
        clicks: Approximate number of clicks.
        model_is_known: Whether the click model is known and lists are whole.
        draw: Number of the draw if clicks are drawn again; else 0.
        seed: Seed of the training.
    """

    number: int
    clicks: float
    model_is_known: bool
    draw: int = 0
    seed: int = 0

    @property
    def name(self) -> str:
        """Name of the log in the results file."""
        name = f"{self.clicks:g} {'known' if self.model_is_known else 'estimated'}"
        if self.draw:
            name += f", draw {self.draw}"
        if self.seed:
            name += f", seed {self.seed}"
        return name


LOGS = [
    Log(number, clicks, model_is_known)
    for number, (model_is_known, clicks) in enumerate(
        product((True, False), CLICKS), start=1
    )
]
REPETITIONS = range(1, 9)
LOG_OF_30_000 = LOGS[1]
DRAWN_AGAIN = [LOG_OF_30_000._replace(draw=draw) for draw in REPETITIONS]
SEEDED_AGAIN = [LOG_OF_30_000._replace(seed=seed) for seed in REPETITIONS]
ALL_LOGS = [*LOGS, *DRAWN_AGAIN, *SEEDED_AGAIN]
WORLDS = ("shop-like:1200", "yahoo-like:1000", "mslr-like:400")


def main() -> None:
    """Measure what the results file lacks, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--sets", default="", help="only sets with this name prefix")
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--logs", nargs="*", type=int, help="positions in ALL_LOGS")
    options = parser.parse_args()
    logs = ALL_LOGS
    if options.logs is not None:
        logs = [ALL_LOGS[position] for position in options.logs]
    for data_set in data_sets(WORLDS):
        if data_set.name.startswith(options.sets):
            for log in logs:
                measure(data_set, log, options.systems, options.results)
    show(read(options.results))


def measure(data_set: DataSet, log: Log, systems: list[str], results: Path) -> None:
    """Train the systems that the results lack for a log; append their results."""
    done = {(row["set"], row["log"], row["system"]) for row in read(results)}
    missing_systems = [
        system for system in systems if (data_set.name, log.name, system) not in done
    ]
    if not missing_systems:
        return
    parts = data_set.read(log.number)
    counts, click_model = draw(data_set, parts, log)
    for system in missing_systems:
        started = time.process_time()
        ranker = train(SYSTEMS[system], counts, parts.train, click_model, log.seed)
        seconds = time.process_time() - started
        row = {
            "set": data_set.name,
            "log": log.name,
            "system": system,
            "ndcg": ndcg(ar.score(ranker, parts.test), parts.test, data_set),
            "cpu_seconds": round(seconds, 1),
        }
        with results.open("a") as file:
            file.write(json.dumps(row) + "\n")


def draw(data_set: DataSet, parts: Parts, log: Log) -> tuple[Any, Any]:
    """Simulate a log; return its counts, and the click model if it is known."""
    simulation = ar.prepare_simulation(
        parts.train,
        relevant_above=data_set.relevant_above,
        traffic=Traffic(top_k=data_set.top_k if log.model_is_known else 10),
        seed=log.number,
    )
    counts = ar.simulate_counts(
        simulation,
        simulation.sessions_for(log.clicks),
        rng=stage_rng("clicks", log.number + 100 * log.draw),
    )
    click_model = simulation.click_model if log.model_is_known else None
    return counts, click_model


def train(
    system: System,
    counts: Any,
    data: ar.RankingDataset,
    click_model: Any,
    seed: int,
) -> Any:
    """Train a system; rankers that cannot read categories get one-hot features."""
    reads_categories = ar.RANKERS[system.ranker].reads_categories
    needs_one_hot = bool(data.categories) and not reads_categories
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained = ar.train(
            counts,
            data,
            click_model,
            ranker=system.ranker,
            estimators=[system.estimator],
            seeds=[seed],
            scaling=system.scaling,
            categories="one-hot" if needs_one_hot else None,
        )
    [ranker] = trained.rankers.values()
    return ranker


def read(results: Path) -> list[dict[str, Any]]:
    """Read the results file; no rows if there is none yet."""
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text().splitlines()]


def show(rows: list[dict[str, Any]]) -> None:
    """Print two tables for each data set: means over logs, and the spread by chance."""
    results = {(row["set"], row["log"], row["system"]): row for row in rows}
    for set_name in dict.fromkeys(row["set"] for row in rows):
        print(f"\n{set_name}")
        for system in SYSTEMS:
            show_mean(set_name, system, results)
        for title, logs in (("draws", DRAWN_AGAIN), ("seeds", SEEDED_AGAIN)):
            for system in SYSTEMS:
                show_spread(set_name, system, title, logs, results)


def show_mean(set_name: str, system: str, results: Results) -> None:
    """Print a system's mean over the logs, and its difference to the blend."""
    measured_logs = [log for log in LOGS if (set_name, log.name, system) in results]
    if not measured_logs:
        return
    rows = [results[set_name, log.name, system] for log in measured_logs]
    mean = np.mean([row["ndcg"] for row in rows])
    seconds = np.mean([row["cpu_seconds"] for row in rows])
    line = f"  {system:<14} {mean:.4f}  {seconds:6.1f} CPU s  {len(rows)} logs"

    # The paired difference needs the blend on the same logs.
    blend_keys = [(set_name, log.name, BLEND) for log in measured_logs]
    if len(rows) > 1 and all(key in results for key in blend_keys):
        differences = [
            row["ndcg"] - results[key]["ndcg"]
            for row, key in zip(rows, blend_keys, strict=True)
        ]
        error = np.std(differences, ddof=1) / np.sqrt(len(differences))
        line += f"  less the blend {np.mean(differences):+.4f} +- {error:.4f}"
    print(line)


def show_spread(
    set_name: str, system: str, title: str, logs: list[Log], results: Results
) -> None:
    """Print the standard deviation of a system over repetitions of one log."""
    keys = [(set_name, log.name, system) for log in logs]
    values = [results[key]["ndcg"] for key in keys if key in results]
    if len(values) > 1:
        spread = np.std(values, ddof=1)
        print(f"  {system:<14} {spread:.4f} over {len(values)} {title}")


if __name__ == "__main__":
    main()
