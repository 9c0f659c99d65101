"""The demo: every stage on a small synthetic world, in a few seconds."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from affinerank import experiments
from affinerank.bias.gauge import gauge_error
from affinerank.bias.method import EstimationSettings
from affinerank.clicks.counting import count_log, open_table
from affinerank.clicks.counts import ClickCounts
from affinerank.data.catalog import DataSource
from affinerank.defaults import (
    BASELINE,
    CORRECTION,
    ESTIMATOR,
    LABELS,
    NETWORK,
    RELEVANT_ABOVE,
)
from affinerank.experiments.reproduce import reproduce
from affinerank.files import scratch_folder
from affinerank.metrics import MetricValues, mean_by_rank, ranks_by_score
from affinerank.pipeline import (
    RANKS_SHOWN,
    estimate_users,
    prepare_simulation,
    ranker_settings,
    simulate,
    train,
    train_production_ranker,
)
from affinerank.progress import Progress, quiet
from affinerank.rankers.ranker import judge, score
from affinerank.seeds import stage_rng

WORLD = "yahoo-like:500"
CLICKS = 300_000
SHOWN = (BASELINE, CORRECTION, ESTIMATOR, LABELS)
SHAPE = ("hidden=32,16", "epochs=8")


@dataclass(frozen=True, slots=True)
class Demo:
    """What the demo shows.

    Attributes:
        world: Name of the world.
        rankings: nDCG@10 on the test split, by name of the ranking.
        log: What was counted in the simulated log.
        by_rank: Impressions, clicks and click-through rate at each rank, the share of
            documents there that are relevant, and alpha and beta, true and estimated.
        estimation_error: Of the estimated users, modulo gauge: E.
        trust_bias: The test for trust bias, from clicks alone.
    """

    world: str
    rankings: dict[str, MetricValues]
    log: dict[str, Any]
    by_rank: list[dict[str, Any]]
    estimation_error: float
    trust_bias: Any

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        rankings = [
            {"ranking": name, "metric": values.name, **values.summary()}
            for name, values in self.rankings.items()
        ]
        plain = ("world", "log", "by_rank", "estimation_error")
        return {name: getattr(self, name) for name in plain} | {"rankings": rankings}


def report_demo(folder: Path, *, seed: int = 0, progress: Progress = quiet) -> Path:
    """Measure the paper's figures on the same small world, and report them."""
    with resources.as_file(resources.files(experiments) / "plans/demo.toml") as plan:
        about = reproduce(str(plan), folder, seed=seed, progress=progress)
    return Path(about["written"][-1])


def run_demo(*, seed: int = 0, progress: Progress = quiet) -> Demo:
    """Go the whole path on a small world: rank, let users click, count, judge."""
    source = DataSource.parse(WORLD)
    progress("making the world", 0, 2)
    data, test = source.read("train"), source.read("test")
    progress("making the world", 2, 2)
    ranker = train_production_ranker(data, seed=seed)
    simulation = prepare_simulation(data, rankers={"production": ranker}, seed=seed)
    with scratch_folder() as folder:
        log, counts = folder / "log.parquet", folder / "counts.parquet"
        simulate(simulation, clicks=CLICKS, log=log, seed=seed, progress=progress)
        with open_table(str(log)) as table:
            counted = count_log(table, counts, progress=progress)
        clicks = ClickCounts.load(counts)
    how = EstimationSettings(seed=seed)
    estimated = estimate_users(clicks, data, settings=how, progress=progress)
    trained = train(
        clicks,
        data,
        estimated.users,
        estimators=SHOWN,
        seeds=[seed],
        ranker=NETWORK,
        settings=ranker_settings(NETWORK, SHAPE, seed),
        progress=progress,
    )
    rankings = {
        "random": stage_rng("baseline", seed).random(test.n_docs),
        "production": score(ranker, test),
        **{name: score(one, test) for (name, _), one in trained.rankers.items()},
        "ideal": test.relevance().astype(np.float64),
    }
    truth: Any = simulation.users
    error = gauge_error(estimated.users, truth, estimated.pools.impressions)
    ranks = ranks_by_score(score(ranker, data), data.offsets)
    by_rank = clicks.click_rate_by_rank()[:RANKS_SHOWN]
    columns = {
        "relevant": mean_by_rank(data.relevance(), ranks, depth=RANKS_SHOWN),
        "alpha": truth.alpha,
        "beta": truth.beta,
        "alpha_estimated": error.alpha,
        "beta_estimated": error.beta,
    }
    for i, row in enumerate(by_rank):
        row |= {name: float(column[i]) for name, column in columns.items()}
    return Demo(
        world=WORLD,
        rankings={n: judge(s, test, RELEVANT_ABOVE) for n, s in rankings.items()},
        log=counted.summary,
        by_rank=by_rank,
        estimation_error=error.error,
        trust_bias=estimated.test,
    )
