"""The demo: every stage on a small synthetic world, in a few seconds."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from affinerank import experiments
from affinerank.bias.gauge import gauge_error
from affinerank.bias.trust import TrustTest
from affinerank.clicks.counting import count_log, open_table
from affinerank.clicks.counts import ClickCounts
from affinerank.data.catalog import DataSource
from affinerank.experiments.reproduce import reproduce
from affinerank.metrics import MetricValues, mean_by_rank, ranks_by_score
from affinerank.pipeline import (
    FULL_INFORMATION,
    RANKS_SHOWN,
    EstimationSettings,
    estimate_users,
    judge,
    prepare_simulation,
    score,
    simulate,
    train_production_ranker,
    train_rankers,
)
from affinerank.progress import Progress, quiet
from affinerank.rankers.mlp import NetworkSettings
from affinerank.seeds import stage_rng

WORLD = "yahoo-like:1000"
CLICKS = 300_000
ESTIMATORS = ("naive", "ips", "bayes-ips", "affine", FULL_INFORMATION)


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo shows.

    Attributes:
        rankings: nDCG@10 on the test split, by name of the ranking.
        log: What was counted in the simulated log.
        by_rank: Impressions, clicks and click-through rate at each rank, the share of
            documents there that are relevant, and alpha and beta, true and estimated.
        estimation_error: Of the estimated users, modulo gauge: E.
        trust_bias: Whether clicks alone told that there is trust bias, and how surely.
    """

    rankings: dict[str, MetricValues]
    log: dict[str, Any]
    by_rank: list[dict[str, Any]]
    estimation_error: float
    trust_bias: TrustTest | None


def report_demo(folder: Path, *, seed: int = 0, progress: Progress = quiet) -> Path:
    """Measure the paper's figures on the same small world, and report them."""
    with resources.as_file(
        resources.files(experiments) / "plans" / "demo.toml"
    ) as plan:
        about = reproduce(str(plan), folder, seed=seed, progress=progress)
    return Path(about["written"][-1])


def run_demo(*, seed: int = 0, progress: Progress = quiet) -> Demo:
    """Go the whole path on a small world: rank, let users click, count, judge."""
    source = DataSource.parse(WORLD)
    progress("making the world", 0, 2)
    train = source.read("train")
    progress("making the world", 1, 2)
    test = source.read("test")
    progress("making the world", 2, 2)
    progress("training the production ranker", 0, 1)
    ranker = train_production_ranker(train, seed=seed)
    progress("training the production ranker", 1, 1)
    simulation = prepare_simulation(train, rankers={"production": ranker}, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        log, counts = Path(folder) / "log.parquet", Path(folder) / "counts.parquet"
        simulate(simulation, clicks=CLICKS, log=log, seed=seed, progress=progress)
        with open_table(str(log)) as table:
            counted = count_log(table, counts, progress=progress)
        clicks = ClickCounts.load(counts)
    by_rank = clicks.click_rate_by_rank()[:RANKS_SHOWN]
    estimated = estimate_users(
        clicks,
        train,
        settings=EstimationSettings(seed=seed),
        progress=progress,
    )
    learn = partial(
        train_rankers,
        clicks,
        train,
        seeds=[seed],
        settings=NetworkSettings(
            hidden=(128, 64, 32), learning_rate=0.004, epochs=12, data_seed=seed
        ),
        progress=progress,
    )
    known = learn(simulation.users, estimators=ESTIMATORS).rankers
    unknown = learn(estimated.users, estimators=["affine"]).rankers
    error = gauge_error(estimated.users, simulation.users, estimated.pools.impressions)
    ranks = ranks_by_score(score(ranker, train), train.offsets)
    relevant = mean_by_rank(train.relevance(), ranks, depth=RANKS_SHOWN)
    rng = stage_rng("baseline", seed)
    rankings = {
        "random": rng.random(test.n_docs),
        "production": score(ranker, test),
        **{name: score(r, test) for (name, _), r in known.items()},
        "affine, users estimated": score(unknown["affine", seed], test),
        "ideal": test.relevance().astype(np.float64),
    }
    return Demo(
        rankings={name: judge(s, test, 2.0) for name, s in rankings.items()},
        log=counted.summary,
        by_rank=[
            {
                **row,
                "relevant": float(relevant[i]),
                "alpha": float(simulation.users.alpha[i]),
                "beta": float(simulation.users.beta[i]),
                "alpha_estimated": float(error.alpha[i]),
                "beta_estimated": float(error.beta[i]),
            }
            for i, row in enumerate(by_rank)
        ],
        estimation_error=error.error,
        trust_bias=estimated.test,
    )
