"""Simulate clicks: counts of 8e6 clicks on full-size worlds, and a session log.

python benchmarks/simulation.py [--clicks 8e6] [--worlds yahoo-like mslr-like]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.simulation import simulate_counts, write_session_log
from affinerank.clicks.traffic import Simulation, Traffic, prepare
from affinerank.data.dataset import RankingDataset
from affinerank.data.sources import DataSource
from affinerank.support.lists import ranks_by_score

TRAFFICS = {
    "full lists": Traffic(),
    "top 10": Traffic(top_k=10),
    "top 10, swaps, rotations": Traffic(
        top_k=10, policies=("swap(share=0.1)", "rotate(share=0.1)")
    ),
}


def prepared(data: RankingDataset, traffic: Traffic) -> Simulation:
    """Rank by labels with noise: the cost does not depend on the ranker."""
    rng = np.random.default_rng(0)
    scores = data.known_labels() + rng.normal(0, 2, data.n_docs)
    return prepare(
        data,
        {"production": ranks_by_score(scores, data.offsets)},
        data.relevance(2.0),
        TrustModel.paper(depth=int(data.docs_per_query.max())),
        traffic=traffic,
        rng=rng,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clicks", type=float, default=8e6)
    parser.add_argument("--worlds", nargs="*", default=["yahoo-like", "mslr-like"])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    print(
        f"{'world':11} {'lists':25} {'sessions':>10} {'clicks':>10} {'groups':>10} "
        f"{'counts s':>9} {'log rows':>11} {'M rows/s':>9}"
    )
    for world in args.worlds:
        data = DataSource.parse(world).read("train")
        for name, traffic in TRAFFICS.items():
            simulation = prepared(data, traffic)
            taken = []
            for seed in range(args.repeats):
                started = time.perf_counter()
                sessions = simulation.sessions_for(args.clicks)
                rng = np.random.default_rng(seed)
                counts = simulate_counts(simulation, sessions, rng=rng)
                taken.append(time.perf_counter() - started)
            rows = float(simulation.query_share @ simulation.shown)
            part = max(1, int(min(sessions, 20e6 / rows)))
            with tempfile.TemporaryDirectory() as folder:
                started = time.perf_counter()
                totals = write_session_log(
                    simulation, part, Path(folder) / "log.parquet", rng=rng
                )
                log_seconds = time.perf_counter() - started
            print(
                f"{world:11} {name:25} {sessions:>10,} {counts.clicks.sum():>10,} "
                f"{len(counts.rank):>10,} {statistics.median(taken):9.2f} "
                f"{totals['impressions']:>11,} "
                f"{totals['impressions'] / log_seconds / 1e6:9.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
