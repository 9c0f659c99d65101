"""How honest estimated users are: coverage of bands, size and power of the test.

Every log has queries, production ranker and clicks of its own seed. Prints, for the
default method and for interventions, how often the 95 % bands of alpha and beta cover
the truth (gauge for inference, mean over ranks); how the error E falls with clicks; and
how often the test finds trust bias where there is none, and where there is. And how
often users given are found not to be those of the log, right and wrong ones.

    python benchmarks/band_coverage.py --logs 200 --workers 2
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from affinerank.bias import METHODS, Estimate, EstimationSettings
from affinerank.bias.gauge import click_model_error
from affinerank.bias.mixture.comparison import hold_against_log
from affinerank.bias.pooling import MIN_CLICKS
from affinerank.clicks.models.trust import TrustModel
from affinerank.clicks.simulation import simulate_counts
from affinerank.clicks.traffic import Traffic
from affinerank.counts.rows import ClickRows, join_counts
from affinerank.data.feature_mapping import FeatureMapping
from affinerank.data.sources import DataSource
from affinerank.defaults import METHOD, METHOD_FROM_SWAPS
from affinerank.pipeline.simulate import click_model_of, prepare_simulation
from affinerank.support.progress import no_progress
from affinerank.support.seeds import stage_rng

DEPTH = 10


@dataclass(frozen=True, slots=True)
class Case:
    """What is simulated.

    Attributes:
        name: In words.
        clicks: Of each log.
        rotate: Share of sessions whose ranks are rotated.
        eps_minus: Trust bias at rank 1, or the click noise at every rank.
        constant: Whether that is the same at every rank: no trust bias.
        relevance: ``binary`` or ``graded``.
        interventions: Whether ranks vary enough to estimate by that.
        click_model: A row of ``CLICK_MODELS`` in place of those above; counted by
            context.
        queries: Which queries come.
        missing: Share of the documents without features, which are left out.
        given: Whether right and wrong users are held against the log.
    """

    name: str
    clicks: float
    rotate: float = 0.0
    eps_minus: float = 0.65
    constant: bool = False
    relevance: str = "binary"
    interventions: bool = False
    click_model: str = ""
    queries: str = "uniform"
    missing: float = 0.0
    given: bool = False


CASES = (
    Case("rotated ranks", 2.5e4, rotate=1.0, interventions=True),
    Case("rotated ranks", 1e5, rotate=1.0, interventions=True),
    Case("rotated ranks", 4e5, rotate=1.0, interventions=True),
    Case("rotated ranks, graded", 1e5, 1.0, relevance="graded", interventions=True),
    Case("fixed ranks", 1e5),
    Case("fixed ranks, graded", 1e5, relevance="graded"),
    Case("no trust bias, fixed ranks", 1e5, eps_minus=0.3, constant=True),
    Case("no trust bias, half rotated", 3e4, 0.5, eps_minus=0.3, constant=True),
    Case("weak trust bias, fixed ranks", 1e4, eps_minus=0.35),
    Case("weak trust bias, fixed ranks", 3e4, eps_minus=0.35),
    Case("no trust bias, eps- 0", 3e4, click_model="position-based(eps_minus=0)"),
    Case("no trust bias, cascade", 3e4, click_model="cascade"),
    Case("no trust bias, Zipf 1.4", 3e4, 0, 0.3, True, queries="zipf:1.4"),
    Case("Zipf 1.4 queries", 1e5, queries="zipf:1.4"),
    Case("5 % without features", 1e5, missing=0.05),
    Case("users given", 1e5, given=True),
    Case("users given, eps- .05", 1e5, eps_minus=0.05, given=True),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--only", default="", help="cases whose name begins like this")
    parser.add_argument("--out", type=Path, help="append what was measured here")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    seeds = range(options.first_seed, options.first_seed + options.logs)
    print(f"yahoo-like:{options.queries}@seed, seeds {seeds[0]} to {seeds[-1]}, top 10")
    context = get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context) as pool:
        for case in (c for c in CASES if c.name.startswith(options.only)):
            started = time.perf_counter()
            one_log = partial(measure, case, n_queries=options.queries)
            found = list(pool.map(one_log, seeds))
            seconds = time.perf_counter() - started
            for line in summary(case, found):
                print(line, flush=True)
            if options.out is not None:
                with options.out.open("a") as file:
                    about = {"case": case.name, "clicks": case.clicks, "logs": found}
                    file.write(json.dumps(about) + "\n")
            print(f"    {seconds:.0f} s", flush=True)


def measure(case: Case, seed: int, *, n_queries: int) -> dict[str, Any]:
    """Simulate a log, estimate, and compare with the truth."""
    data = DataSource.parse(f"yahoo-like:{n_queries}@{seed}").read("train")
    click_model: Any = (
        click_model_of(case.click_model, DEPTH)
        if case.click_model
        else true_click_model(case)
    )
    policies = (f"rotate(share={case.rotate})",) if case.rotate else ()
    simulation = prepare_simulation(
        data,
        click_model,
        relevance=case.relevance,
        traffic=Traffic(case.queries, top_k=DEPTH, policies=policies),
        seed=seed,
    )
    counts = simulate_counts(
        simulation,
        simulation.sessions_for(case.clicks),
        rng=stage_rng("clicks", seed),
        context=bool(case.click_model),
    )
    rows = join_counts(counts, data)
    if case.missing:
        lost = np.random.default_rng(seed).random(rows.n_docs) < case.missing
        rows = rows.select(~lost[rows.doc])
    if case.given:
        return {"doubted": doubted(rows, click_model, seed)}
    features = FeatureMapping.fit(data).apply(data).features
    methods = {"default": METHOD}
    if case.interventions:
        methods["interventions"] = METHOD_FROM_SWAPS
    found: dict[str, Any] = {}
    for name, method in methods.items():
        settings = EstimationSettings(method, seed=seed)
        estimate = METHODS[method].fit(rows, features, settings, no_progress)
        if isinstance(click_model, TrustModel):
            found[name] = compared(estimate, click_model)
        if method == METHOD:
            found["found"] = estimate.test is not None and estimate.test.found
    return found


def doubted(rows: ClickRows, click_model: TrustModel, seed: int) -> dict[str, bool]:
    """Whether users are found not to be those of the log: right ones, wrong ones."""
    given = {
        "right": click_model,
        "eta 2 for 1": TrustModel.paper(eta=2.0, depth=DEPTH),
        "eps- .65": TrustModel.paper(depth=DEPTH),
    }
    found = {}
    for name, model in given.items():
        if name == "right" or not np.allclose(model.beta, click_model.beta):
            rng = stage_rng("held out", seed)
            doubt = hold_against_log(rows, model, MIN_CLICKS, rng)
            found[name] = doubt is not None and doubt.clear
    return found


def true_click_model(case: Case) -> TrustModel:
    if not case.constant:
        return TrustModel.paper(eta=1.0, eps_minus_1=case.eps_minus, depth=DEPTH)
    theta = 1.0 / np.arange(1.0, DEPTH + 1)
    noise = np.full(DEPTH, case.eps_minus)
    return TrustModel.from_eps(theta, np.full(DEPTH, 0.9), noise)


def compared(estimate: Estimate, click_model: TrustModel) -> dict[str, float]:
    """E, and the share of pools of ranks whose band covers the truth."""
    truth = estimate.truth_by_rank(click_model)
    covered = {}
    for name in ("alpha", "beta"):
        low, high = estimate.inference.interval(name)
        value = np.array(truth[name])
        covered[name] = float(np.mean((low <= value) & (value <= high)))
    error = click_model_error(
        estimate.click_model, click_model, estimate.pools.impressions
    ).error
    return {"E": error, **covered}


def summary(case: Case, found: Sequence[dict[str, Any]]) -> list[str]:
    if case.given:
        doubts = {
            name: sum(one["doubted"][name] for one in found)
            for name in found[0]["doubted"]
        }
        said = ", ".join(f"{name} {n}" for name, n in doubts.items())
        return [f"{case.name}, {case.clicks:g} clicks: doubted in {len(found)}: {said}"]
    rejected = np.mean([one["found"] for one in found])
    lines = [
        f"{case.name}, {case.clicks:g} clicks, eps- {case.eps_minus:g}: trust bias "
        f"found in {rejected:.1%} of {len(found)} logs"
    ]
    for method in ("default", "interventions"):
        if method in found[0]:
            values = {k: [one[method][k] for one in found] for k in found[0][method]}
            error = np.std(values["E"], ddof=1) / np.sqrt(len(found))
            lines.append(
                f"    {method:<14} E {np.mean(values['E']):.4f} (s.e. {error:.4f}), "
                f"covered: alpha {np.mean(values['alpha']):.1%}, "
                f"beta {np.mean(values['beta']):.1%}"
            )
    return lines


if __name__ == "__main__":
    main()
