"""How many trees suit LightGBM's ``position``, and how many do held-out clicks choose?

Held-out clicks are corrected as the clicks that are learnt: not at all for trees that
debias by themselves. So clicks with their bias choose the number of trees. Here that is
compared with fixed numbers, on logs of the paper's users. Printed: nDCG@10 on test
labels, mean over logs, for LightGBM with ``position`` and without.

    python benchmarks/position_trees.py > docs/results/position-trees.txt
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

import numpy as np

import affinerank as ar

WORLD = "yahoo-like:300"
CLICKS = 1e6
RELEVANT_ABOVE = 2.0
TREES = (20, 80, 150, 300)
CHOSEN = "chosen"


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=4)
    logs = parser.parse_args().logs
    # LightGBM learns from clicks without correction: the warning of it is the point.
    warnings.simplefilter("ignore", ar.AffineRankWarning)
    lengths = (CHOSEN, *map(str, TREES))
    sys.stdout.write(f"| trees | {' | '.join(lengths)} |\n{'|---' * 6}|\n")
    for name, position in (("LightGBM `position`", True), ("LightGBM", False)):
        values = np.array([values_of_log(seed, position) for seed in range(logs)])
        cells = [f"{mean:.3f}".removeprefix("0") for mean in values.mean(axis=0)]
        sys.stdout.write(f"| {name} | {' | '.join(cells)} |\n")
        sys.stdout.flush()


def values_of_log(seed: int, position: bool) -> Sequence[float]:
    """nDCG@10 of one log: with the chosen number of trees, then with each fixed one."""
    data = ar.load(WORLD, seed=seed)
    world = ar.prepare_simulation(data.train, seed=seed)
    sessions = world.sessions_for(CLICKS)
    counts = ar.simulate_counts(world, sessions, rng=np.random.default_rng(seed))
    values = [value_of(data, counts, position, None)]
    values += [value_of(data, counts, position, trees) for trees in TREES]
    return values


def value_of(
    data: ar.Splits, counts: ar.ClickCounts, position: bool, trees: int | None
) -> float:
    """Train on clicks as they are, and judge by labels; without ``trees``, choose."""
    settings = ["position=true"] if position else []
    settings += [] if trees is None else [f"trees={trees}"]
    trained = ar.train(
        counts,
        data.train,
        ranker="lightgbm",
        settings=ar.ranker_settings("lightgbm", settings),
        estimators=["naive"],
        tuning="held-out" if trees is None else "paper",
    )
    [ranker] = trained.rankers.values()
    if data.test is None:
        raise SystemExit(f"{WORLD} has no test queries")
    scores = ar.score(ranker, data.test)
    return float(ar.evaluate_scores(scores, data.test, RELEVANT_ABOVE).mean)


if __name__ == "__main__":
    main()
