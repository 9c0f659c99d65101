"""Measure Plackett-Luce: what a drawn list costs, and what known exposure is worth.

Run ``python benchmarks/plackett_luce.py cost`` and ``... learning --queries 2000
--clicks 1e6 --runs 4``, with ``--hidden 64 32`` for smaller networks; results are in
docs/results/plackett-luce.txt.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import affinerank as ar
from affinerank.estimators import ClipOptions
from affinerank.rankers.networks.losses import Sampling
from affinerank.rankers.networks.pl_rank import expected_dcg
from affinerank.support.seeds import stage_rng

SIZES = (1_000, 4_000, 16_000, 64_000, 256_000)
CUTOFFS = (10, 100, 1_000)
# Policy-aware is the same here. The authors of intervention-aware clip (WSDM 2021).
ESTIMATORS = [
    "affine",
    "affine-per-session",
    "intervention-aware(clip=10/sqrt(n))",
    "intervention-aware",
]


def per_session(evidence: ar.Evidence) -> ar.Weights:
    """Affine as published: clicks per session, so that what is rarely shown is low."""
    rows = evidence.rows
    found = ar.ESTIMATORS["affine"].weigh(evidence)
    issued = rows.sessions[rows.query_of_doc]
    part = rows.by_doc(rows.impressions) / np.maximum(issued, 1.0)
    return replace(found, weight=found.weight * part, known=issued > 0)


def seconds_per_list(n: int, cutoff: int, samples: int = 8) -> float:
    """Time of the gradient by one drawn list of n documents; the least of ten."""
    rng = torch.Generator().manual_seed(0)
    f, mu = (torch.randn(1, 1, n, generator=rng, dtype=torch.float64) for _ in "ab")
    taken = []
    for _ in range(10):
        start = time.process_time()
        expected_dcg(f, mu, Sampling(samples, cutoff))
        taken.append((time.process_time() - start) / samples)
    return min(taken)


def cost() -> None:
    torch.set_num_threads(1)
    print("microseconds per drawn list of n documents, by cutoff K; per n + K log2 n")
    for n in SIZES:
        cells = []
        for cutoff in (k for k in CUTOFFS if k <= n):
            taken = 1e6 * seconds_per_list(n, cutoff)
            cells.append(f"{taken:9.0f} {taken / (n + cutoff * math.log2(n)):.3f}")
        print(f"  {n:7,d}  " + "  ".join(cells), flush=True)
    slope = math.log(seconds_per_list(SIZES[-1], 10) / seconds_per_list(SIZES[1], 10))
    print(f"  exponent of n at K = 10: {slope / math.log(SIZES[-1] / SIZES[1]):.2f}")


def learning(args: argparse.Namespace) -> None:
    name, title = "affine-per-session", "Affine per session"
    row = ar.Estimator(name, title, "relative", per_session, options=ClipOptions)
    ar.ESTIMATORS.add(row)
    data, clicks, runs = ar.load(f"yahoo-like:{args.queries}"), args.clicks, args.runs
    test = ar.DataSource.parse(f"yahoo-like:{args.queries}").read("test")
    policy = f"plackett-luce(temperature={args.temperature:g})"
    settings = ar.NetworkSettings(hidden=tuple(args.hidden), epochs=args.epochs)
    found: dict[str, list[float]] = {}
    for run in range(args.first, args.first + runs):
        production = ar.train_production_ranker(data.train, seed=run)
        traffic = ar.Traffic(top_k=5, policies=(policy,))
        world = ar.prepare_simulation(
            data.train, rankers={"production": production}, traffic=traffic, seed=run
        )
        rng = stage_rng("clicks", run)
        counts = ar.simulate_counts(world, world.sessions_for(clicks), rng=rng)
        given: dict[str, Any] = {
            "ranker": "mlp",
            "settings": settings,
            "tuning": "paper",
            "seeds": [run],
        }
        trained = ar.train(
            counts, data.train, world.click_model, estimators=args.estimators, **given
        )
        rankers = {name: ranker for (name, _), ranker in trained.rankers.items()}
        for name, ranker in ({"production": production} | rankers).items():
            value = ar.evaluate_scores(ar.score(ranker, test), test, 2.0).mean
            found.setdefault(name, []).append(value)
        print(
            f"  run {run}", {n: round(v[-1], 4) for n, v in found.items()}, flush=True
        )
    print(
        f"nDCG@10 after {clicks:g} clicks, yahoo-like:{args.queries}, {policy}, top 5"
    )
    for name, values in found.items():
        lead = np.array(values) - found["affine"]
        error = lead.std(ddof=1) / math.sqrt(runs) if runs > 1 else math.nan
        print(
            f"  {name:36s} {np.mean(values):.4f}, "
            f"to affine {lead.mean():+.4f} ({error:.4f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("cost", "learning"))
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--clicks", type=float, default=1e6)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="the first run")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--estimators", nargs="+", default=ESTIMATORS)
    parser.add_argument("--hidden", type=int, nargs="+", default=[512, 256, 128])
    parser.add_argument("--epochs", type=int, default=32)
    args = parser.parse_args()
    if args.what == "cost":
        cost()
    else:
        learning(args)


if __name__ == "__main__":
    main()
